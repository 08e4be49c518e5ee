"""Every reader of files that others wrote: archives, arrays, pickles. Image files alone are opened in `decoder`.

What comes in may be damaged or made to harm. Nothing that is read here runs code, writes outside the folder it was
given, or takes memory, disk or time beyond what its own length allows; whatever is wrong with a file is a `UserError`
in one line that names the file. Libraries read wherever they keep these promises; what they believe too easily is
checked before they see it, and the two formats that no library reads so are read by hand. This module says how much a
file may ask for, and who is to blame when it cannot be read; a module for each kind of file reads it.
"""

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from oodbench.errors import UserError

UNPACKED_LIMIT = 400 * 2**30  # bytes an archive may unpack to; ImageNet is 150 GB
ARRAY_LIMIT = 2**30  # bytes of one array, or of a file that is read whole; the largest of a known set has 225 million
RATIO = 200  # times its own size that anything compressed may have; images hardly compress, a bomb does
CLOSED = {errno.ENOENT, errno.EISDIR, errno.EACCES, errno.EPERM, errno.EIO}


@contextmanager
def blamed(path: Path) -> Iterator[None]:
    """Whatever goes wrong inside is the file's fault: readers raise nearly anything on damaged input."""
    try:
        yield
    except UserError:
        raise
    except Exception as error:
        if isinstance(error, OSError) and error.errno in CLOSED:
            raise UserError(f"'{path}' cannot be read ({error.strerror}); get it again") from None
        raise damaged(path, f"{type(error).__name__}: {one_line(error)}") from None


def damaged(path: Path, reason: str) -> UserError:
    return UserError(f"'{path}' is damaged ({reason}); get it again")


def one_line(error: Exception) -> str:
    return " ".join(str(error).split())[:100]
