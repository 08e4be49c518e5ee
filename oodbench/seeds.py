"""Seeds for every purpose, derived from one number. Nothing here keeps state, so any point of a run can be repeated."""

import hashlib
from typing import Any


def derive(*purpose: Any) -> int:
    """A 63-bit seed that depends on nothing but its arguments, on any machine and in any process."""
    digest = hashlib.sha256(repr(purpose).encode()).digest()
    return int.from_bytes(digest[:8], "big") >> 1
