"""Short names for content: sixteen hexadecimal digits that are the same on any machine and in any process."""

import hashlib
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from oodbench.user_files import blocks


def of_bytes(*contents: bytes) -> str:
    return of_pieces(contents)


def of_pieces(pieces: Iterable[bytes | memoryview]) -> str:
    """Of bytes one after the other, which need not be in memory together."""
    digest = hashlib.sha256()
    for each in pieces:
        digest.update(each)
    return digest.hexdigest()[:16]


def of_text(text: str) -> str:
    return of_bytes(text.encode())


def of_values(values: Any) -> str:
    """Of plain values, whatever the order of a mapping's keys."""
    return of_text(json.dumps(values, sort_keys=True))


def of_file(path: Path, most: int) -> str:
    """Of a file of the user's that may have so many bytes; OSError with words for the user if it is none."""
    return of_pieces(blocks(path, most))
