"""Before something is deleted: whether the user agrees."""

import sys

from oodbench.errors import UserError


def agreed(what: str) -> bool:
    """The answer on a terminal; where there is none, UserError that names --yes."""
    if not sys.stdin.isatty():
        raise UserError(f"{what} would be deleted, and there is no terminal to ask on; add --yes to delete")
    print(f"Delete {what.rstrip(',')}? [y/N] ", end="", flush=True)
    return sys.stdin.readline().strip().lower() in ("y", "yes")
