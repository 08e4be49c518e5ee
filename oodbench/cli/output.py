"""Standard output and error as they are found: narrow in what they can encode, full, closed. Every command uses them.

What an encoding lacks is shown in ASCII. What a terminal would obey is escaped, whoever put it there: names in files of
others, paths, messages of libraries. Only `drawing` and `data` let it through. Output that is lost ends the command
with an error, never with a traceback nor with status 0; what cannot be said on standard error is not said.
"""

import errno
import io
import os
import re
import shlex
import shutil
import sys
import unicodedata
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, redirect_stderr, redirect_stdout, suppress
from pathlib import Path
from typing import Any, TextIO, cast

from oodbench.files import CannotWrite

# For what Unicode itself does not take apart. Each is as wide as what it stands for, where tables have it.
STAND_INS = {
    "↑": "^", "↓": "v", "→": "->", "←": "<-", "×": "x", "±": "+/-", "−": "-", "–": "-", "—": "-",
    "≤": "<=", "≥": ">=", "≠": "!=", "‖": "||", "·": ".", "∘": "o", "∇": "grad ", "…": "...", "ŷ": "y^", "•": "*",
    "Γ": "Gamma", "Σ": "Sum", "Φ": "Phi", "α": "alpha", "β": "beta", "γ": "gamma", "δ": "delta", "ε": "eps", "η": "eta",
    "θ": "theta", "λ": "lambda", "μ": "mu", "π": "pi", "ρ": "rho", "σ": "sigma", "τ": "tau", "ψ": "psi", "ω": "omega",
    "‘": "'", "’": "'", "“": '"', "”": '"',
}  # fmt: skip

# What a terminal obeys rather than shows, and what turns the direction of a line. Ends of lines and tabs stay.
CONTROLS = r"\x00-\x08\x0b\x0c\x0e-\x1a\x1c-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069"
# Bold, and its end, harm nobody; a text that begins with \r is a library's bar, drawn anew.
OBEYED = re.compile(rf"[{CONTROLS}]|\x1b(?!\[(?:1|22)m)|(?<!^)\r")
UNDRAWN = re.compile(f"[{CONTROLS}]")  # what nobody needs to draw a line that moves


class OutputLost(CannotWrite):
    """Standard output cannot be written: no fault of any method."""

    def __init__(self, error: OSError) -> None:
        self.is_closed_pipe = error.errno == errno.EPIPE
        self.ends_run = False  # before it is done
        closed = error.errno == errno.EBADF
        self.reason = "it is closed" if closed else error.strerror
        self.advice = "send it somewhere" if closed else "free space, or send it elsewhere"

    def __str__(self) -> str:
        return f"cannot write to standard output: {self.reason}; {self.advice}"


@contextmanager
def guarded() -> Iterator[None]:
    """Standard streams that keep the promises above, while inside."""
    with ExitStack() as opened:
        # The system gives the lowest free number, so that no file of results takes that of a standard stream.
        if sys.stdin is None:
            sys.stdin = opened.enter_context(open(os.devnull))
            opened.callback(setattr, sys, "stdin", None)
        out = _Output(sys.stdout or opened.enter_context(open(os.open(os.devnull, os.O_RDONLY), "w")))
        errors = _Errors(sys.stderr or opened.enter_context(open(os.devnull, "w")))
        opened.enter_context(redirect_stdout(cast(TextIO, out)))
        opened.enter_context(redirect_stderr(cast(TextIO, errors)))
        try:
            yield
        finally:
            with suppress(OutputLost):  # said already; Python would say it again when it ends
                out.flush()


def check_open() -> None:
    """Before hours of work: what is closed now will not show its outcome."""
    try:
        os.write(sys.stdout.fileno(), b"")
    except io.UnsupportedOperation:  # no file at all, but a text in memory, say
        pass
    except OSError as error:
        raise OutputLost(error) from None


@contextmanager
def results_stay(folder: Path) -> Iterator[None]:
    """Output that is lost inside, or still waits to be written, has results that are not."""
    try:
        yield
        sys.stdout.flush()
    except OutputLost as lost:
        lost.ends_run = True
        if any(folder.rglob("*.json")):
            lost.advice = (
                f"results so far are stored: oodbench table {shlex.quote(str(folder))} shows them, "
                "and the same command resumes"
            )
        raise


def terminal_width() -> int | None:
    """Columns of the terminal that standard output is; None if it is none."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None


def shows_bold() -> bool:
    """Whether standard output is a terminal that can do more than write; Windows' own does not say so."""
    return sys.stdout.isatty() and os.environ.get("TERM", "dumb") not in ("", "dumb", "unknown")


def escaped(text: str, what: re.Pattern[str] = OBEYED) -> str:
    """The same text as a terminal can show it."""
    return what.sub(lambda found: ascii(found[0])[1:-1], text)


def drawing(stream: TextIO) -> TextIO:
    """A standard stream for what oodbench itself moves and colors on a terminal."""
    return cast(TextIO, _Passing(stream, UNDRAWN)) if isinstance(stream, _Stream) else stream


def data(stream: TextIO) -> TextIO:
    """A standard stream for what another program reads; on a terminal it is escaped as all else is."""
    passing = isinstance(stream, _Stream) and not stream.isatty()
    return cast(TextIO, _Passing(stream, None)) if passing else stream


class _Stream:
    """A text stream that escapes what a terminal would obey, and shows in ASCII what its encoding lacks."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        self.put(escaped(text))
        return len(text)

    def put(self, text: str) -> None:
        encoding = getattr(self._stream, "encoding", None)
        self._try(lambda: self._stream.write(text if encoding is None else encodable(text, encoding)))

    def flush(self) -> None:
        self._try(self._stream.flush)

    def close(self) -> None:
        """Not for a plugin to do: everybody prints here."""
        self.flush()

    def _try(self, act: Callable[[], object]) -> None:
        raise NotImplementedError

    def _give_up(self) -> None:
        """Let what still waits, and what comes, go nowhere."""
        with suppress(OSError), open(os.devnull, "w") as nowhere:
            os.dup2(nowhere.fileno(), self._stream.fileno())


class _Output(_Stream):
    """Says that output was lost until the command ends, whoever has caught it before."""

    lost: OutputLost | None = None

    def _try(self, act: Callable[[], object]) -> None:
        if self.lost is None:
            try:
                act()
                return
            except OSError as error:
                self.lost = OutputLost(error)
                self._give_up()
            except ValueError as error:  # Python's word for a file that somebody has closed
                self.lost = OutputLost(OSError(errno.EBADF, str(error)))
        raise self.lost


class _Errors(_Stream):
    def _try(self, act: Callable[[], object]) -> None:
        try:
            act()
        except OSError:
            self._give_up()
        except ValueError:  # closed by somebody
            return


class _Passing:
    """The stream behind a `_Stream`, less escaped."""

    def __init__(self, stream: TextIO, what: re.Pattern[str] | None) -> None:
        self._stream, self._what = cast(_Stream, stream), what

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        self._stream.put(text if self._what is None else escaped(text, self._what))
        return len(text)


def encodable(text: str, encoding: str) -> str:
    """The same text, with stand-ins for what an encoding lacks. The columns of tables stay in line."""
    if _fits(text, encoding):
        return text
    if not _fits("±", encoding):
        text = text.replace(" ± ", STAND_INS["±"])  # as wide as it was
    if not _fits("η", encoding):
        text = text.replace("η = ", "eta=")  # likewise
    return text.translate({ord(each): _stand_in(each) for each in set(text) if not _fits(each, encoding)})


def _fits(text: str, encoding: str) -> bool:
    try:
        text.encode(encoding)
    except UnicodeEncodeError:
        return False
    return True


def _stand_in(letter: str) -> str:
    """é is e, … is three dots, a byte of a file name that is no text is \\xff, and what nobody can write its number."""
    if letter in STAND_INS:
        return STAND_INS[letter]
    if "\udc80" <= letter <= "\udcff":
        return f"\\x{ord(letter) - 0xDC00:02x}"
    plain = unicodedata.normalize("NFKD", letter).encode("ascii", "ignore").decode()
    return plain or ("" if unicodedata.combining(letter) else letter.encode("ascii", "backslashreplace").decode())
