"""Archives of submissions: nothing in them is hidden, and whatever is made to harm is refused in one line."""

import io
import stat
import struct
import zipfile

import pytest
from submissions import members, submitted

from oodbench.data.untrusted import plain_zip
from oodbench.errors import UserError
from oodbench.results.submission import limit_of

A, B = "suite/setting/method/seed0-0123abcd.json", "suite/setting/method/seed1-0123abcd.json"


def refused(tmp_path, content, *parts):
    archive, folder = tmp_path / "a.zip", tmp_path / "folder"
    archive.write_bytes(content)
    folder.mkdir(exist_ok=True)
    with pytest.raises(UserError) as error:
        plain_zip.unpack(archive, folder, limit_of)
    assert len(str(error.value).splitlines()) == 1
    assert [part for part in parts if part not in str(error.value)] == [], str(error.value)
    assert not [path for path in tmp_path.rglob("*") if path.is_file() and path != archive]


def packed(*entries, **options):
    """A zip of names, or ZipInfos, and contents."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", **options) as archive:
        for name, content in entries:
            archive.writestr(name, content)
    return file.getvalue()


def test_what_is_written_is_read_back_and_does_not_depend_on_time_or_order(tmp_path):
    content = {A: b"1", B: b"2" * 10_000}
    plain_zip.write(tmp_path / "a.zip", content)
    plain_zip.write(tmp_path / "b.zip", dict(reversed(content.items())))
    assert (tmp_path / "a.zip").read_bytes() == (tmp_path / "b.zip").read_bytes()
    assert sorted(plain_zip.unpack(tmp_path / "a.zip", tmp_path / "out", limit_of)) == sorted(content)
    assert {name: (tmp_path / "out" / name).read_bytes() for name in content} == content


@pytest.mark.parametrize(
    "name",
    [
        "../escaped.json",
        "/etc/x.json",
        "C:\\x.json",
        "a/../../x/seed0-0123abcd.json",
        "a/b/.hidden/seed0-0123abcd.json",
        "a/b/c/seed0-0123abcd.exe",
        "a/b/c/extra.json",
        "methods/a.so",
        "methods/../x.py",
        "a/b/c/",
        "x",
        "a/b\n/c/seed0-0123abcd.json",
    ],
)
def test_a_name_that_no_submission_has_is_refused(tmp_path, name):
    refused(tmp_path, packed((A, b"1"), (name, b"2")), "is no file of a submission")


def test_links_and_devices_are_refused(tmp_path):
    for kind in (stat.S_IFLNK, stat.S_IFIFO, stat.S_IFCHR):
        member = zipfile.ZipInfo(A)
        member.external_attr = (kind | 0o777) << 16
        refused(tmp_path, packed((member, b"/etc/passwd")), "is no file of a submission")


def test_one_name_twice_is_refused_also_where_a_file_system_takes_two_for_one(tmp_path):
    with pytest.warns(UserWarning, match="Duplicate name"):
        twice = packed((A, b"1"), (A, b"2"))
    refused(tmp_path, twice, "twice")
    refused(tmp_path, packed((A, b"1"), (A.replace("suite", "SUITE"), b"2")), "twice")
    refused(tmp_path, packed((A.replace("suite", "\u00e9"), b"1"), (A.replace("suite", "e\u0301"), b"2")), "")


def test_members_that_the_table_of_contents_hides_are_refused(tmp_path):
    both, one = packed((A, b"1"), (B, b"2")), packed((A, b"1"))
    table = both.index(b"PK\x01\x02")
    second = both.index(b"PK\x01\x02", table + 4)
    end = both.index(b"PK\x05\x06")
    hidden = both[:second] + struct.pack("<4s4H2IH", b"PK\x05\x06", 0, 0, 1, 1, second - table, table, 0)
    refused(tmp_path, hidden, "it holds more than its table of contents says")
    vanished = bytearray(both)
    vanished[end + 12 : end + 16] = struct.pack("<I", second - table)
    refused(tmp_path, bytes(vanished))
    refused(tmp_path, b"#!/bin/sh\n" + one, "it holds more than its table of contents says")
    refused(tmp_path, one + b"more")
    commented = bytearray(one + b"more")
    commented[len(one) - 2 : len(one)] = struct.pack("<H", 4)
    refused(tmp_path, bytes(commented))


def test_a_header_that_says_something_else_than_the_table_is_refused(tmp_path):
    content = bytearray(packed((A, b"12345678")))
    content[22:26] = struct.pack("<I", 4)  # the unpacked size in the member's own header
    refused(tmp_path, bytes(content), "it says two things about")
    encrypted = bytearray(packed((A, b"12345678")))
    encrypted[6] |= 1
    refused(tmp_path, bytes(encrypted), "it says two things about")
    renamed = packed((A, b"1")).replace(A.encode(), B.encode(), 1)
    refused(tmp_path, renamed, "is damaged (BadZipFile: File name in directory")


def test_what_is_far_larger_than_its_archive_is_refused(tmp_path):
    huge = packed((A, b" " * (2**22 + 1)), compression=zipfile.ZIP_DEFLATED)
    refused(tmp_path, huge, "has 4,194,305 bytes, and 4,194,304 are the most")
    names = [f"s/t/m/seed{number}-0123abcd.jsonl" for number in range(30)]
    bomb = packed(*((name, bytes(2**20)) for name in names), compression=zipfile.ZIP_DEFLATED)
    refused(tmp_path, bomb, "it unpacks to far more than its size")
    refused(tmp_path, packed((A, b"1" * 100), compression=zipfile.ZIP_LZMA), "is compressed in a rare way")


def test_an_empty_archive_and_no_archive_are_refused(tmp_path):
    refused(tmp_path, packed(), "its table of contents is not whole")
    refused(tmp_path, b"", "is damaged")
    refused(tmp_path, submitted()[:-1])


def test_more_files_than_the_format_has_room_for_are_not_packed(tmp_path):
    with pytest.raises(UserError, match="60,000 are the most; pack fewer cells"):
        plain_zip.write(tmp_path / "a.zip", {str(number): b"" for number in range(60_001)})
    assert members(submitted()).keys() and not (tmp_path / "a.zip").exists()
