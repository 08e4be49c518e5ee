"""What the user can put right: one line that says what is wrong and then what to do. Knows nothing of the rest."""

from collections.abc import Iterable
from difflib import get_close_matches


class UserError(Exception):
    """Shown as one line without a traceback; the command ends with status 2. Anything else is a bug."""


def unknown(kind: str, name: str, known: Iterable[str]) -> UserError:
    """The error for a name that does not exist, with the nearest ones that do."""
    names = sorted(known)
    near = get_close_matches(name, names, n=3, cutoff=0.6)
    if near:
        hint = "did you mean " + " or ".join(f"'{n}'" for n in near) + "?"
    else:
        hint = "known: " + ", ".join(names) if names else "there are none"
    return UserError(f"unknown {kind} '{name}'; {hint}")
