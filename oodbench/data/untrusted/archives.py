"""Archives, unpacked into a folder and nowhere else.

`tarfile.data_filter` would not do in place of the checks below: it takes '/etc/x' and 'a/../x' by changing them,
'C:\\x' and '..\\x' on every system but Windows, and links within the folder; it limits no sizes; and unpacking many
small files through it takes 1.6 times as long.
"""

import errno
import os
import struct
import tarfile
import zipfile
from pathlib import Path, PureWindowsPath
from typing import IO, Any

from oodbench.data.untrusted import RATIO, UNPACKED_LIMIT, blamed, damaged
from oodbench.errors import UserError

LEAST = 512  # bytes that a member of an archive counts for, so that a million empty ones are a bomb too
AT_ONCE = 2**24  # bytes that tar may ask for at a time; only a name that is a bomb is longer
NO_ROOM = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EACCES, errno.EPERM, errno.EROFS}


def is_archive(path: Path) -> bool:
    return path.is_file() and (_is_tar(path) or _is_zip(path))


def _is_tar(path: Path) -> bool:
    try:
        with open(path, "rb") as file:
            # An empty archive is a few zeros. The reader of xz would follow many to their end.
            if not any(file.read(tarfile.BLOCKSIZE)) and os.fstat(file.fileno()).st_size > AT_ONCE:
                return False
            file.seek(0)
            with _Tar.open(fileobj=file):
                return True
    except UserError:  # one, and not to be trusted
        return True
    except Exception:  # the formats' readers raise many kinds on damaged input
        return False


def _is_zip(path: Path) -> bool:
    try:
        return zipfile.is_zipfile(path)
    except zipfile.BadZipFile:  # one, and damaged
        return True


def unpack(archive: Path, folder: Path) -> None:
    """All regular files of a tar or zip archive below `folder`."""
    with blamed(archive):
        try:
            allowed = min(UNPACKED_LIMIT, RATIO * archive.stat().st_size + 2**20)
            # A plain tar whose last member is a zip looks like a zip from behind, so tar comes first.
            if _is_tar(archive):
                _unpack_tar(archive, folder, allowed)
            else:
                _unpack_zip(archive, folder, allowed)
        except OSError as error:
            if error.errno not in NO_ROOM:
                raise
            raise UserError(
                f"cannot unpack '{archive}': {error.strerror}; free space or choose another folder"
            ) from None


def _target(name: str, folder: Path, archive: Path) -> Path:
    """Where a member goes; a name that would leave the folder on any system is refused on all of them."""
    path = PureWindowsPath(name)  # to which both slashes divide
    if path.anchor or ".." in path.parts:
        raise UserError(f"'{archive}' wants to write outside its folder ('{name}'); it is not to be trusted")
    return folder / name


def _special(archive: Path, name: str) -> UserError:
    return UserError(f"'{archive}' holds a link or device ('{name}'); unpack it yourself and add the folder")


def _charge(size: int, allowed: int, archive: Path) -> int:
    if size > allowed:
        raise UserError(f"'{archive}' unpacks to far more than its size; it is not to be trusted")
    return allowed - max(size, LEAST)


def _copy(content: IO[bytes], target: Path) -> int:
    """The bytes written."""
    target.parent.mkdir(parents=True, exist_ok=True)
    written = 0
    with content, open(target, "wb") as copy:
        while block := content.read(2**20):
            written += copy.write(block)
    return written


class _InSteps:
    """The bytes of a tar archive, never many at a time: tar reads a long name whole, however long it says it is."""

    def __init__(self, file: IO[bytes]) -> None:
        self.seek, self.tell, self.close, self._read = file.seek, file.tell, file.close, file.read
        self.last = b""

    def read(self, size: int) -> bytes:
        if not 0 <= size <= AT_ONCE:
            raise UserError(f"the archive has a header of {size:,} bytes; it is not to be trusted")
        self.last = self._read(size)
        return self.last


class _Tar(tarfile.TarFile):
    @classmethod
    def taropen(cls, name: Any, mode: Any = "r", fileobj: Any = None, **options: Any) -> Any:
        steps: Any = _InSteps(fileobj)
        return super().taropen(name, mode, steps, **options)


def _unpack_tar(archive: Path, folder: Path, allowed: int) -> None:
    with open(archive, "rb") as file, _Tar.open(fileobj=file) as tar:
        for member in tar:
            target = _target(member.name, folder, archive)
            if member.issym() or member.islnk() or member.isdev():
                raise _special(archive, member.name)
            if member.size < 0:
                raise damaged(archive, f"'{member.name}' has {member.size} bytes")
            allowed = _charge(member.size, allowed, archive)
            if member.isfile():
                content = tar.extractfile(member)
                assert content is not None
                _copy(content, target)
        # At a damaged header tarfile stops as if it were the end; the end is a block of zeros.
        steps: Any = tar.fileobj
        if len(steps.last) != tarfile.BLOCKSIZE or any(steps.last):
            raise damaged(archive, "it breaks off")
        while rest := steps.read(2**20):  # to the end, where the checksum of what is compressed stands
            allowed = _charge(len(rest), allowed, archive)


def _unpack_zip(archive: Path, folder: Path, allowed: int) -> None:
    with zipfile.ZipFile(archive) as packed:
        for member in packed.infolist():
            target = _target(member.filename, folder, archive)
            if (member.external_attr >> 28) not in (0x0, 0x4, 0x8):  # neither folder nor file
                raise _special(archive, member.filename)
            if unpacks_all_at_once(member):
                raise UserError(f"'{archive}' is compressed in a rare way; unpack it yourself and add the folder")
            allowed = _charge(member.file_size, allowed, archive)
            if not member.is_dir() and _copy(packed.open(member), target) != member.file_size:
                raise damaged(archive, f"'{member.filename}' is not as long as it says")


def unpacks_all_at_once(member: zipfile.ZipInfo) -> bool:
    return member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)


def stated_members(file: IO[bytes]) -> int:
    """How many members the last record of a zip file counts; zipfile goes by the lengths in its directory alone, where
    one that is wrong makes members vanish.
    """
    file.seek(max(os.fstat(file.fileno()).st_size - 22 - 2**16, 0))  # the record has 22 bytes and a comment of 16 bits
    tail = file.read()
    (count,) = struct.unpack_from("<H", tail, tail.rfind(b"PK\x05\x06") + 10)
    return int(count)
