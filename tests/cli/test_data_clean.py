"""`oodbench data clean`: what is stored of folders that are gone goes, and nothing else does."""

import json
import shutil

import numpy as np
import pytest
from command_line import assert_done, oodbench
from data_files import packed, write
from stand_ins import data_in, noise, picture

from oodbench import files
from oodbench.data import lookup, store
from oodbench.data.folder import Folder


@pytest.fixture(autouse=True)
def home(tmp_path):
    with data_in(tmp_path / "data") as home:
        yield home


def used(path, seed=0):
    """A folder of images that was indexed and decoded, and whose encoded copy is kept as that of ID images is."""
    random = np.random.default_rng(seed)
    write(path, {f"{i}.png": picture(random) for i in range(12)})
    data = Folder(path)
    data.arrays(8)
    store.cached_array(f"{data.name}-jpeg-75", data.fingerprint, lambda: noise(random, 12, 3, 8, 8))
    return data


def contents(home):
    return {path: path.read_bytes() for path in sorted(home.rglob("*")) if path.is_file()}


def size(files):
    return sum(map(len, files.values()))


def kilobytes(size):
    return f"{size / 1e3:,.0f} kB"


def test_what_is_stored_of_a_folder_that_is_gone_goes_and_all_else_stays(home, tmp_path):
    store.save("mnist", store.Decoded(np.zeros((4, 1, 28, 28), np.uint8), np.arange(4), np.zeros(4, bool)), "a test")
    lookup.dataset("textures").add(
        write(tmp_path / "textures", {f"dog/{i}.png": picture(np.random.default_rng(0)) for i in range(9)})
    )
    used(tmp_path / "others")
    stay = contents(home)
    used(tmp_path / "photos")
    every = contents(home)
    shutil.rmtree(tmp_path / "photos")
    shutil.rmtree(tmp_path / "textures")  # which `data status` says, and only `data remove` forgets
    line = f"  images of '{tmp_path / 'photos'}', which is gone  {kilobytes(size(every) - size(stay))}\n"
    last = f"{kilobytes(size(every) - size(stay))} {{}}removed; {kilobytes(size(stay))} stay in '{home}'\n"
    assert len(every) - len(stay) == 4
    assert assert_done(oodbench("data", "clean", "--dry-run")) == line + last.format("would be ")
    assert contents(home) == every
    assert assert_done(oodbench("data", "clean")) == line + last.format("")
    assert contents(home) == stay
    assert assert_done(oodbench("data", "clean")) == f"nothing to remove; {kilobytes(size(stay))} stay in '{home}'\n"


def test_a_folder_that_cannot_be_read_is_not_gone(home, tmp_path):
    used(tmp_path / "photos")
    before = contents(home)
    shutil.rmtree(tmp_path / "photos")
    (tmp_path / "photos").symlink_to("photos")  # as a disk that does not answer, an error other than its absence
    assert assert_done(oodbench("data", "clean")).startswith("nothing to remove; ")
    assert contents(home) == before


@pytest.mark.parametrize("living", ["photos", "photos-of-mine"])
def test_what_may_be_of_another_folder_of_that_name_stays(home, tmp_path, living):
    gone = used(tmp_path / "a" / "photos")
    alive = used(tmp_path / "b" / living, seed=1)
    shutil.rmtree(tmp_path / "a")
    assert_done(oodbench("data", "clean"))
    left = {path.name.rpartition("-")[0] for path in (home / "kept").iterdir()}
    assert left == {f"{alive.key}-8-centre", f"{gone.name}-jpeg-75", f"{alive.name}-jpeg-75"}
    assert not gone.home.exists() and alive.home.exists()


def test_archives_and_what_earlier_versions_stored_are_told_as_far_as_that_can_be(home, tmp_path):
    """They noted the path as it was typed; where images of a folder are is noted besides."""
    archive = tmp_path / "images.tar"
    archive.write_bytes(packed({f"{i}.png": picture(np.random.default_rng(0)) for i in range(3)}, "tar"))
    packed_set, typed = Folder(archive), used(tmp_path / "photos")
    packed_set.arrays(8)

    def noted(data, source):
        meta = data.home / "meta.json"
        meta.write_text(json.dumps({**json.loads(meta.read_bytes()), "source": source}))

    noted(typed, "photos")
    noted(packed_set, "images.tar")
    archive.unlink()
    shutil.rmtree(tmp_path / "photos")
    out = assert_done(oodbench("data", "clean"))
    assert f"'{tmp_path / 'photos'}'" in out and str(archive) not in out and packed_set.home.exists()
    noted(packed_set, str(archive))
    assert f"'{archive}'" in assert_done(oodbench("data", "clean")) and contents(home) == {}


def test_what_killed_processes_left_goes_and_what_others_write_stays(home):
    left = write(home / ".work-left", {"lock": b"", "unpacked/1.png": b"x" * 5000})
    half = home / "kept" / f".photos.npy.oodbench-{files.HOST}.abcd_123.tmp"
    write(home / "kept", {half.name: b"x" * 7000})
    lines = f"  {left}, left by a killed process  5 kB\n  {half}, left by a killed process  7 kB\n"
    with store.working_folder() as work:  # which has swept another already
        write(home / ".work-left", {"lock": b"", "unpacked/1.png": b"x" * 5000})
        write(work, {"file": b"mine"})
        assert assert_done(oodbench("data", "clean", "--dry-run")).startswith(f"{lines}12 kB would be removed; ")
        assert left.exists() and half.exists()
        assert assert_done(oodbench("data", "clean")).startswith(f"{lines}12 kB removed; ")
        assert not left.exists() and not half.exists() and (work / "file").read_bytes() == b"mine"


def test_where_nothing_was_ever_stored_nothing_is_made(home):
    assert assert_done(oodbench("data", "clean")) == f"nothing to remove; 0 kB stay in '{home}'\n"
    assert not home.exists()
