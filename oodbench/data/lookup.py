"""Data sets by name, and what a suite and a setting read of them. Nothing is decoded here but labels."""

from collections.abc import Collection
from functools import cache

from oodbench.config.cards import catalogue, load_class
from oodbench.config.suite import FOLDER, NONE, Setting, Source, Suite
from oodbench.data import embedding
from oodbench.data.dataset import Dataset
from oodbench.data.sets.corrupted import Official, official
from oodbench.data.sets.folders import Folder
from oodbench.user_files import user_path

PUBLISHED = {"cifar10": "cifar_c", "mnist": "mnist_c"}  # families of corruptions whose files are published


@cache
def dataset(name: str) -> Dataset:
    """By name, or any folder of images as `folder:PATH`."""
    if name.startswith(FOLDER):
        return Folder(user_path(name.removeprefix(FOLDER)))
    loaded: Dataset = load_class(catalogue("datasets")[name])()
    return loaded


def num_classes(suite: Suite) -> int:
    source = suite.contents.id
    if source.classes is not None:
        return len(source.classes)
    return int(dataset(source.dataset).labels().max()) + 1


def normalization(suite: Suite) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Mean and deviation, in [0, 1], of each channel of what the network is given; features keep their own scale."""
    if suite.contents.id.embed is not None:
        return (0.0,) * embedding.FEATURES, (1 / embedding.LARGEST,) * embedding.FEATURES
    data = dataset(suite.contents.id.dataset)
    return data.mean, data.std


def sources(suite: Suite, setting: Setting) -> dict[str, Source]:
    """The data sets that a setting reads, by the part they play."""
    read = {"id": suite.contents.id}
    if setting.semantic != NONE:
        read["semantic"] = suite.contents.semantic[setting.semantic]
    if setting.covariate in suite.contents.covariate:
        read["covariate"] = suite.contents.covariate[setting.covariate]
    return read


def outlier_mark(suite: Suite, absent: Collection[str] = ()) -> dict[str, str]:
    """The name and the content of the auxiliary outliers, for the trainings that read them."""
    source = suite.contents.outliers
    return {} if source is None else {dataset(source.dataset).name: _mark(dataset(source.dataset), absent)}


def _mark(data: Dataset, absent: Collection[str]) -> str:
    """The content of a set, or a word in its place where that is not here."""
    return "absent" if (data.made_from or data.name) in absent else data.fingerprint


def shared_with_outliers(suite: Suite, setting: Setting) -> str | None:
    """A set of the setting that the auxiliary outliers are too, or come from; nobody may train on what tests."""
    source = suite.contents.outliers
    if source is None:
        return None
    outliers = dataset(source.dataset)
    origins = {outliers.name, outliers.made_from, outliers.fingerprint} - {None}
    for each in sources(suite, setting).values():
        data = dataset(each.dataset)
        if origins & {data.name, data.made_from, data.fingerprint}:
            return data.name
    return None


def fingerprints(suite: Suite, setting: Setting, absent: Collection[str] = ()) -> dict[str, str]:
    """The content of every data set a cell reads, without decoding any; auxiliary outliers have their own mark.

    With sets that are `absent`, these are the marks of a cell that nobody can run yet.
    """
    marks: dict[str, str] = {}
    for source in sources(suite, setting).values():
        data = dataset(source.dataset)
        mark = _mark(data, absent)
        is_known = marks.setdefault(data.name, mark) == mark
        if not is_known:  # two folders of one name
            marks[f"{data.name} {mark}"] = mark
    files = None if absent else official_files(suite, setting)
    if files is not None:
        marks[files.name] = files.fingerprint
    return dict(sorted(marks.items()))


def official_files(suite: Suite, setting: Setting) -> Official | None:
    """The published files of a corruption, which are preferred where they are."""
    source = suite.contents.id
    if (
        PUBLISHED.get(source.dataset) != suite.contents.corruptions
        or source.jpeg is not None
        or source.size is not None
    ):
        return None
    if setting.covariate in suite.contents.covariate:
        return None
    return official(source.dataset, setting.covariate, setting.severity)
