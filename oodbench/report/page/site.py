"""Results in, the files of a page out: one, or a folder with its data beside it. Written whole, the page last."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from oodbench.errors import UserError
from oodbench.files import CannotWrite, write_text
from oodbench.report.page import folders
from oodbench.report.page.chunks import Chunk, chunk
from oodbench.report.page.data import Listener, PageData, page_data
from oodbench.report.page.details import Command
from oodbench.report.page.document import GENERATOR, document
from oodbench.results.folder import Reading
from oodbench.results.ledger import Ledger

ONE_FILE = 2_000  # results at most; with more, a browser would wait for all of them before it shows any
TITLE = "OOD benchmark results"
LONGEST_TITLE = 200


@dataclass(frozen=True)
class Site:
    """What was written."""

    path: Path  # of the page
    files: int
    size: int  # bytes, of all files
    results: int
    boards: int


def make(
    reading: Reading,
    out: Path,
    single: bool = False,
    title: str | None = None,
    selection: str | None = None,
    tell: Listener = lambda _: None,
    *,
    command: Command,
) -> Site:
    """The page of results, `index.html` in a folder. What else is there stays, but for data of an earlier page.

    `command` says how a result is made again.
    """
    page = out / "index.html"
    named = checked_title(title)
    _check_out(out, page)
    data = page_data(Ledger(reading.results, reading.problems), named, selection, tell, command=command)
    beside = [] if single or data.results <= ONE_FILE else data.chunks
    inside = [] if beside else data.chunks
    text = document(named, inside, _index(data, beside))
    try:
        for each in beside:
            write_text(out / each.file, each.script, followed=True)
        write_text(page, text)
        _remove_others(out / "data", {Path(each.file).name for each in beside})
    except OSError as error:
        raise CannotWrite(f"cannot write '{out}': {error.strerror}; fix permissions or choose another --out") from None
    size = len(text.encode()) + sum(len(each.script) for each in beside)
    return Site(page, 1 + len(beside), size, data.results, data.boards)


def report(
    results: str | Path | Sequence[str | Path],
    out: str | Path,
    single: bool,
    title: str | None,
    selection: str | None,
    command: Command,
) -> Path:
    """What `oodbench report` does, silently: the path of the page."""
    named = [results] if isinstance(results, (str, Path)) else list(results)
    return make(folders.read([Path(each) for each in named]), Path(out), single, title, selection, command=command).path


def checked_title(title: str | None) -> str:
    if title is None:
        return TITLE
    text = " ".join("".join(c if c.isprintable() else " " for c in title).split())
    if not text or len(text) > LONGEST_TITLE:
        raise UserError(f"--title has {len(text)} letters; give 1 to {LONGEST_TITLE}, or leave it out")
    return text


def _index(data: PageData, beside: Sequence[Chunk]) -> Chunk:
    return chunk("index", data.index | {"files": {each.name: each.file for each in beside}})


def _check_out(out: Path, page: Path) -> None:
    """Before minutes of work: a place that can be written to, and no page of somebody else's in it."""
    if out.exists() and not out.is_dir():
        raise UserError(f"--out '{out}' is a file; name a folder")
    if page.is_dir():
        raise UserError(f"'{page}' is a folder; choose another --out")
    if page.exists() and GENERATOR not in page.read_text(encoding="utf-8", errors="replace")[:2_000]:
        raise UserError(f"'{page}' is not a page that oodbench made; choose another --out, or delete it")


def _remove_others(folder: Path, written: set[str]) -> None:
    """Data of an earlier page in the same place, which no page reads any more."""
    if not folder.is_dir():
        return
    for path in sorted(folder.iterdir()):
        if path.suffix == ".js" and path.name not in written and _is_ours(path):
            path.unlink()
    if not any(folder.iterdir()):
        os.rmdir(folder)


def _is_ours(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(14) == b"oodbenchChunk("
