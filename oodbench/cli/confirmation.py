"""Questions to the user: before something is deleted, and where another run could take the place of one."""

import sys

from oodbench.errors import UserError


def agreed(what: str) -> bool:
    """The answer on a terminal; where there is none, UserError that names --yes."""
    if not sys.stdin.isatty():
        raise UserError(f"{what} would be deleted, and there is no terminal to ask on; add --yes to delete")
    return said_yes(f"Delete {what.rstrip(',')}?")


def said_yes(question: str) -> bool:
    print(f"{question} [y/N] ", end="", flush=True)
    return sys.stdin.readline().strip().lower() in ("y", "yes")
