"""What the user can put right: one line that says what is wrong and then what to do. Knows nothing of the rest."""

import inspect
import traceback
from collections.abc import Callable, Iterable
from difflib import get_close_matches
from pathlib import Path
from typing import Any

QUOTED = 120  # letters of what is quoted: an error is a line, whatever the user wrote
SAID = 500  # letters of a message that somebody else's code has written
LINE = 2_000  # of the whole error; of a longer one the middle is left out, for what to do stands at its end


class UserError(Exception):
    """Shown as one line without a traceback; the command ends with status 2. Anything else is a bug."""

    def __str__(self) -> str:
        text = super().__str__()
        return text if len(text) <= LINE else f"{text[: LINE // 2]} ... {text[-LINE // 4 :]}"


def shortened(text: str) -> str:
    """What a user wrote, to be quoted in an error."""
    return text if len(text) <= QUOTED else f"{text[:QUOTED]}... ({len(text):,} letters)"


def shown(value: Any) -> str:
    """A value, to be quoted in an error."""
    try:
        return "nothing" if value is None else shortened(repr(value))
    except ValueError:  # Python prints no whole number of more than 4,300 digits
        return "a whole number of thousands of digits"


def said(error: BaseException) -> str:
    """The message of an exception as one line, whatever its author put there."""
    try:
        return printable(" ".join(str(error).split()), SAID)
    except Exception:
        return "its message cannot be printed"


def printable(text: str, longest: int) -> str:
    """Text that a file can hold; of a long one, how it begins and ends."""
    text = text.encode(errors="replace").decode()
    return text if len(text) <= longest else f"{text[: longest // 2]} ... {text[-longest // 2 :]}"


def visible(text: str) -> str:
    """Somebody else's words in one line of a terminal: whatever is no letter there is escaped."""
    return "".join(each if each.isprintable() else ascii(each)[1:-1] for each in text)


def place_of(function: Callable[..., Any]) -> str:
    """FILE:LINE of a function, whatever wraps it; its name if it was not written in Python."""
    inner = inspect.unwrap(getattr(function, "func", function))  # of a partial one
    code = getattr(inner, "__code__", None)
    return f"{code.co_filename}:{code.co_firstlineno}" if code is not None else str(inner)


def line_in(path: Path, error: BaseException) -> str:
    """FILE:LINE where an exception passed through a file last; the file alone if it did not."""
    frames = traceback.extract_tb(error.__traceback__)
    lines = [frame.lineno for frame in frames if Path(frame.filename) == path]
    return f"{path}:{lines[-1]}" if lines else str(path)


def unknown(kind: str, name: str, known: Iterable[str]) -> UserError:
    """The error for a name that does not exist, with the nearest ones that do."""
    names = sorted({*known})
    near = get_close_matches(name, names, n=3, cutoff=0.6) if len(name) <= QUOTED else []
    if near:
        hint = "did you mean " + " or ".join(f"'{n}'" for n in near) + "?"
    else:
        hint = "known: " + ", ".join(names) if names else "there are none"
    return UserError(f"unknown {kind} '{shortened(name)}'; {hint}")
