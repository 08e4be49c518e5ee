"""Results of oodbench 0.2, schema 2: their raw scores in one `.npz`, and no digest. Imports no torch.

Whether such a result is as it was written follows from its raw scores alone. They are read once for that; the data
folder remembers the digest of the file.
"""

from contextlib import suppress
from functools import lru_cache
from pathlib import Path

from oodbench import digests
from oodbench.data.store import data_folder
from oodbench.data.untrusted import arrays
from oodbench.errors import UserError
from oodbench.results.metrics import Scored
from oodbench.results.raw_scores import LARGEST, Unreadable, by_split, contradiction

SCHEMA = 2
CHECKED = "checked-results"  # a file of the data folder, a digest a line
FORGOTTEN_AT = 2**24  # bytes of it: a million results


def read_scores(path: Path) -> dict[str, Scored]:
    """The arrays beside the JSON file of a result; `FileNotFoundError` if there are none."""
    file = path.with_suffix(".npz")
    if not file.exists():
        raise FileNotFoundError(file)
    if not file.is_file():
        raise Unreadable("not a file")
    try:
        names = tuple(sorted(arrays.npz_names(file)))
        return by_split(dict(zip(names, arrays.read_npz(file, names, LARGEST), strict=True)))
    except UserError as error:
        reason = str(error).rpartition("; ")[0].removeprefix(f"'{file}' is damaged ").replace(f"{file}/", "")
        raise Unreadable(f"damaged: {reason}") from None


def check(path: Path, content: bytes, metrics: dict[str, float]) -> None:
    """`Unreadable` if the metrics, of today's version, are not those of the raw scores beside the file."""
    digest = digests.of_bytes(content)
    if digest in _checked(_file()):
        return
    try:
        scores = read_scores(path)
    except (FileNotFoundError, Unreadable):
        return  # nobody can tell; whoever needs the scores says so
    words = contradiction(metrics, scores)
    if words is not None:
        raise Unreadable(f"edited after it was written: {words}")
    _remember(digest)


def _file() -> Path | None:
    with suppress(UserError):
        return data_folder() / CHECKED
    return None


@lru_cache(maxsize=4)
def _checked(file: Path | None) -> set[str]:
    """The digests in the file, to which this process adds its own."""
    with suppress(OSError):
        if file is not None and file.stat().st_size < FORGOTTEN_AT:
            return {*file.read_text(errors="replace").split()}
    return set()


def _remember(digest: str) -> None:
    file = _file()
    _checked(file).add(digest)
    with suppress(OSError):  # it is checked again next time
        if file is not None:
            file.parent.mkdir(parents=True, exist_ok=True)
            with open(file, "a") as lines:
                lines.write(f"{digest}\n")
