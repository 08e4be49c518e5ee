"""Plain values in, text that a page can hold out: JSON, compressed, in letters that end no script.

The same values give the same bytes: keys keep their order, and the time of compression is not written down.
"""

import base64
import gzip
import json
from dataclasses import dataclass
from typing import Any

from oodbench import digests

LEVEL = 9


@dataclass(frozen=True)
class Chunk:
    """A part of the data that is read when it is needed."""

    name: str
    text: str  # base64 of gzip of JSON

    @property
    def file(self) -> str:
        """Where a folder has it: other data has another name, so that no browser shows an old copy."""
        return f"data/{self.name}-{digests.of_text(self.text)[:8]}.js"

    @property
    def script(self) -> str:
        """What the file holds; a page from a disk may load scripts and nothing else."""
        return f'oodbenchChunk("{self.name}","{self.text}");\n'


def chunk(name: str, values: Any) -> Chunk:
    """`name` has letters, digits, dots and hyphens alone."""
    text = json.dumps(values, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    packed = bytearray(gzip.compress(text.encode("utf-8", "replace"), LEVEL, mtime=0))
    packed[9] = 255  # the system that packed it, of which some versions of Python write another number
    return Chunk(name, base64.b64encode(bytes(packed)).decode())
