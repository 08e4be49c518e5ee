"""`oodbench data`: what is there, getting what is not, taking what the user has, seeing what it looks like."""

import argparse
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from oodbench.config import suite as suites
from oodbench.config.cards import catalogue
from oodbench.data.dataset import Dataset
from oodbench.data.sets.folders import Folder
from oodbench.data.splits import dataset, is_embedded, side, sources
from oodbench.data.stored import Obtained
from oodbench.data.weights import WEIGHTS
from oodbench.errors import UserError, unknown
from oodbench.files import write_atomically
from oodbench.report import contact_sheet


def add_arguments(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True, parser_class=type(parser))
    status = actions.add_parser("status", help="what is there, and what gets the rest")
    status.add_argument("name", nargs="?", metavar="NAME|SUITE", help="only this (default: every data set)")
    status.set_defaults(do=_status)
    get = actions.add_parser("get", help="fetch data sets")
    get.add_argument("names", nargs="+", metavar="NAME|SUITE")
    get.set_defaults(do=_get)
    add = actions.add_parser("add", help="take an archive or folder that you have")
    add.add_argument("name")
    add.add_argument("path", type=Path)
    add.set_defaults(do=_add)
    show = actions.add_parser("show", help="draw a contact sheet of a suite's images")
    show.add_argument("suite", metavar="SUITE")
    show.add_argument(
        "--corruption", metavar="KIND|all", help="one at every severity, or all at one (default: the parts of a run)"
    )
    show.add_argument("--severity", type=int, metavar="N", help="of --corruption all (default: that of the suite)")
    show.add_argument("--out", type=Path, metavar="FILE.png", help="default: SUITE.png or SUITE-KIND.png, here")
    show.add_argument("--images", type=int, default=6, metavar="N", help="how many, one per class (default: 6)")
    show.add_argument("--seed", type=int, default=0, metavar="S", help="says which images (default: 0)")
    show.set_defaults(do=_show)


def main(given: argparse.Namespace) -> int:
    status: int = given.do(given)
    return status


def needed_by(suite: suites.Suite) -> list[str]:
    sources = (suite.contents.id, *suite.contents.semantic.values(), *suite.contents.covariate.values())
    weights = [suite.contents.id.embed] if suite.contents.id.embed is not None else []
    return list(dict.fromkeys([*(source.dataset for source in sources), *weights]))


def _by_name(name: str) -> Dataset | Obtained:
    """A data set, or the weights of a network that embeds."""
    return WEIGHTS[name] if name in WEIGHTS else dataset(name)


def _stored_as(name: str) -> str:
    """What to get, which may be the set that this one is made from."""
    return name if name in WEIGHTS else dataset(name).made_from or name


def provide(suite: suites.Suite, given: Sequence[str], offline: bool, available: bool) -> list[str]:
    """The settings to run, once their data is there: fetched if missing, left out or refused if it cannot be had."""
    settings = [suite.setting(text) for text in given] or suite.settings
    lacking: dict[str, str] = {}

    def is_there(name: str) -> bool:
        data = _by_name(name)
        verb = "get" if isinstance(data, Obtained) and data.sources else "add"
        what = "file of weights" if name in WEIGHTS else "data set"
        problem = f"the {what} '{name}' is missing; {verb} it with: oodbench data {verb} {name}"
        if verb == "add":
            problem += " PATH"
        try:
            if not isinstance(data, Obtained) or data.is_there():
                return True
        except UserError as error:  # damaged, which is put right like missing
            problem = str(error)
        if not offline and name not in lacking:
            try:
                fetch(name)
                return True
            except UserError as error:
                lacking[name] = str(error)
        lacking.setdefault(name, problem)
        return False

    for name in (_stored_as(suite.contents.id.dataset), suite.contents.id.embed):
        if name is not None and not is_there(name):
            raise UserError(lacking[name])
    kept = []
    for setting in settings:
        names = [_stored_as(source.dataset) for source in sources(suite, setting).values()]
        missing = [name for name in names if not is_there(name)]
        if not missing:
            kept.append(suite.setting_name(setting))
        elif available:
            print(f"left out: the setting '{suite.setting_name(setting)}': {lacking[missing[0]]}")
    if lacking and not available:
        raise UserError("; ".join(lacking.values()))
    if not kept:
        known = suite.name if suite.name in suites.suite_files() else suite.path
        raise UserError(f"the data of no setting is there; see: oodbench data status {known}")
    return kept


def warnings(suite: suites.Suite) -> Iterator[str]:
    """What would make a detector's work too easy, unseen; and what makes the first run long."""
    id = suite.contents.id
    if id.embed is not None and not is_embedded(suite):
        count = len(dataset(id.dataset).labels())
        yield f"the {count:,} images of '{id.dataset}' pass through {id.embed} when first used, which takes minutes"
    for setting in suite.settings:
        if setting.semantic not in suite.contents.semantic:
            continue
        data = dataset(suite.contents.semantic[setting.semantic].dataset)
        if isinstance(data, Folder) and id.jpeg is None and data.jpeg_at(side(suite)):
            yield (
                f"'{setting.semantic}' holds JPEG files, '{id.dataset}' does not: a detector can learn the encoding; "
                f"--set id.jpeg=75 encodes '{id.dataset}' too"
            )


def state(name: str) -> tuple[str, str]:
    """A word for what is there, and the details."""
    data = _by_name(name)
    if isinstance(data, Obtained):
        return data.state()
    if data.made_from is not None:
        word, details = state(data.made_from)
        return word, f"made from {data.made_from}: {details}"
    return "verified", f"comes with a package: {data.source}"


def _status(given: argparse.Namespace) -> int:
    names = _data_sets([given.name]) if given.name else [*catalogue("datasets"), *WEIGHTS]
    width = max(map(len, names))
    for name in names:
        word, details = state(name)
        print(f"{name:{width}}  {word:8}  {details}")
    return 0


def _data_sets(given: Sequence[str]) -> list[str]:
    """Data sets and weights by name, and those that suites need."""
    files, known = suites.suite_files(), [*catalogue("datasets"), *WEIGHTS]
    names: list[str] = []
    for name in given:
        if name in known:
            names.append(name)
        elif name in files or Path(name).suffix in (".yaml", ".yml"):
            names += needed_by(suites.load(name))
        else:
            raise unknown("data set or suite", name, [*known, *files])
    return list(dict.fromkeys(names))


def _get(given: argparse.Namespace) -> int:
    for name in dict.fromkeys(map(_stored_as, _data_sets(given.names))):
        if state(name)[0] in ("verified", "present"):
            print(f"{name}: is there already")
        else:
            fetch(name)
    return 0


def fetch(name: str) -> None:
    """Get one data set or file of weights, telling how it goes."""
    data = _by_name(name)
    assert isinstance(data, Obtained)
    entry = data.get(_progress if sys.stdout.isatty() else _silent, lambda text: print(text, flush=True))
    print(f"{name}: {data.summary(entry)}")


def _silent(have: int, whole: int | None) -> None:
    pass


def _progress(have: int, whole: int | None) -> None:
    share = f" of {whole / 1e6:,.0f} MB ({100 * have / whole:.0f} %)" if whole else " MB"
    print(f"\r  {have / 1e6:,.0f}{share}", end="\n" if have == whole else "", flush=True)


def _add(given: argparse.Namespace) -> int:
    known = [*catalogue("datasets"), *WEIGHTS]
    if given.name not in known:
        raise unknown("data set", given.name, known)
    data = _by_name(given.name)
    if not isinstance(data, Obtained):
        raise UserError(f"'{given.name}' comes with a package; there is nothing to add")
    entry = data.add(given.path)
    print(f"{given.name}: {data.summary(entry)}")
    return 0


def _in_pixels(suite: suites.Suite) -> suites.Suite:
    """The suite before anything is embedded, which can be looked at."""
    id = replace(suite.contents.id, embed=None)
    return replace(suite, contents=replace(suite.contents, id=id))


def _show(given: argparse.Namespace) -> int:
    suite, kind = _in_pixels(suites.load(given.suite)), given.corruption
    out = given.out or Path(f"{suite.name}-{kind}.png" if kind else f"{suite.name}.png")
    if out.suffix != ".png":
        raise UserError(f"--out '{out}' is not the name of a PNG file; end it in .png")
    if given.severity is not None and kind != contact_sheet.ALL:
        raise UserError("--severity goes with --corruption all; a single corruption is shown at every severity")
    if kind is None:
        settings = [suite.setting(name) for name in provide(suite, (), offline=True, available=True)]
        sheet = contact_sheet.of_parts(suite, settings, given.images, given.seed)
    elif kind == contact_sheet.ALL:
        sheet = contact_sheet.of_all_corruptions(suite, given.severity, given.images, given.seed)
    else:
        sheet = contact_sheet.of_corruption(suite, kind, given.images, given.seed)
    write_atomically(out, lambda file: sheet.image().save(file, "PNG", optimize=True))
    print(f"{out}: {len(sheet.rows)} x {len(sheet.columns)} images of {suite.name}")
    return 0
