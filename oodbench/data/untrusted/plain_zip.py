"""Zip archives that oodbench writes for others, and reads back as strictly as it writes them.

Nothing in such an archive is hidden: its members lie one after the other from the first byte to the table of contents,
each as that table says, under a name of its own, and nothing else is there. Other programs write zip files with more in
them, and readers disagree about what these hold; they are refused.
"""

import os
import struct
import unicodedata
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import IO

from oodbench.data.untrusted import RATIO, blamed
from oodbench.data.untrusted.archives import LEAST, stated_members, unpacks_all_at_once
from oodbench.errors import UserError, shortened, visible
from oodbench.files import write_atomically
from oodbench.user_files import open_regular

MOST = 60_000  # members; a larger archive would be of another format, zip64
LARGEST = 2**31  # bytes of an archive
EPOCH = (1980, 1, 1, 0, 0, 0)  # the first moment that zip knows: no time counts
REGULAR = 0o100644 << 16
COMPRESSED = (".npz", ".safetensors")  # which are not compressed again, or hardly
LOCAL = struct.Struct("<4s5H3I2H")  # before every member
END = struct.Struct("<4s4H2IH")  # after the table of contents

Limits = Callable[[str], int | None]  # the bytes that a member may have by its name; None: there is no such member


def write(path: Path, members: Mapping[str, Path | bytes]) -> None:
    """The same members give the same bytes, wherever and whenever."""
    if len(members) > MOST:
        raise UserError(f"'{path}' would hold {len(members):,} files, and {MOST:,} are the most; pack fewer cells")

    def fill(file: IO[bytes]) -> None:
        with zipfile.ZipFile(file, "w") as packed:
            for name, content in sorted(members.items()):
                member = zipfile.ZipInfo(name, EPOCH)
                member.create_system, member.external_attr = 3, REGULAR
                member.compress_type = zipfile.ZIP_STORED if name.endswith(COMPRESSED) else zipfile.ZIP_DEFLATED
                packed.writestr(member, content if isinstance(content, bytes) else content.read_bytes())

    write_atomically(path, fill)


def unpack(archive: Path, folder: Path, limits: Limits) -> list[str]:
    """Every member below an empty folder; their names."""
    with blamed(archive), open_regular(archive) as file:
        length = os.fstat(file.fileno()).st_size
        if length > LARGEST:
            raise _refused(archive, f"it has more than {LARGEST:,} bytes")
        with zipfile.ZipFile(file) as packed:
            members = packed.infolist()
            _check_order(archive, file, length, members)
            _check_names(archive, members)
            _check_sizes(archive, length, members, limits)
            for member in members:
                target = folder / member.filename
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes(packed.read(member))
        return [member.filename for member in members]


def _refused(archive: Path, reason: str) -> UserError:
    return UserError(f"'{archive}' is no archive of oodbench: {reason}; make it with: oodbench submit")


def _check_order(archive: Path, file: IO[bytes], length: int, members: list[zipfile.ZipInfo]) -> None:
    """No byte belongs to no member, and none to two."""
    if not members or len(members) != stated_members(file):
        raise _refused(archive, "its table of contents is not whole")
    place = 0
    for member in sorted(members, key=lambda each: each.header_offset):
        file.seek(member.header_offset)
        header = file.read(LOCAL.size)
        if member.header_offset != place or len(header) != LOCAL.size:
            raise _refused(archive, "it holds more than its table of contents says")
        _, _, flags, _, _, _, checksum, packed, unpacked, name, extra = LOCAL.unpack(header)
        if (checksum, packed, unpacked) != (member.CRC, member.compress_size, member.file_size) or flags & 0b1001:
            raise _refused(archive, f"it says two things about '{_shown(member.filename)}', or hides it")
        place += LOCAL.size + name + extra + packed
    file.seek(max(length - END.size, 0))
    _, *_, table, start, _ = END.unpack(file.read(END.size))
    if start != place or start + table + END.size != length:
        raise _refused(archive, "it holds more than its table of contents says")


def _check_names(archive: Path, members: list[zipfile.ZipInfo]) -> None:
    """Names that some file system takes for one are one."""
    names: set[str] = set()
    for member in members:
        name = unicodedata.normalize("NFC", member.filename).casefold()
        if name in names:
            raise _refused(archive, f"it holds '{_shown(member.filename)}' twice")
        names.add(name)


def _check_sizes(archive: Path, length: int, members: list[zipfile.ZipInfo], limits: Limits) -> None:
    allowed = RATIO * length + 2**20
    for member in members:
        name, most = _shown(member.filename), limits(member.filename)
        if most is None or (member.external_attr >> 28) not in (0x0, 0x8):
            raise _refused(archive, f"'{name}' is no file of a submission")
        if member.file_size > most:
            raise _refused(archive, f"'{name}' has {member.file_size:,} bytes, and {most:,} are the most")
        if unpacks_all_at_once(member):
            raise _refused(archive, f"'{name}' is compressed in a rare way")
        allowed -= max(member.file_size, LEAST)
        if allowed < 0:
            raise _refused(archive, "it unpacks to far more than its size")


def _shown(name: str) -> str:
    """A name of somebody else's, in one line."""
    return shortened(visible(name))
