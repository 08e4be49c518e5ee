"""`oodbench data`: what is there, getting what is not, taking what the user has."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from oodbench import suite as suites
from oodbench.cards import catalogue
from oodbench.datasets import store
from oodbench.datasets._stored import Stored
from oodbench.errors import UserError, unknown
from oodbench.splits import dataset


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


def main(given: argparse.Namespace) -> int:
    status: int = given.do(given)
    return status


def needed_by(suite: suites.Suite) -> list[str]:
    sources = (suite.contents.id, *suite.contents.semantic.values())
    return list(dict.fromkeys(source.dataset for source in sources))


def provide(suite: suites.Suite, given: Sequence[str], offline: bool, available: bool) -> list[str]:
    """The settings to run, once their data is there: fetched if missing, left out or refused if it cannot be had."""
    settings = [suite.setting(text) for text in given] or suite.settings
    lacking: dict[str, str] = {}

    def is_there(name: str) -> bool:
        data = dataset(name)
        problem = f"the data set '{name}' is missing; get it with: oodbench data get {name}"
        try:
            if not isinstance(data, Stored):
                return True
            if store.entry(name) is not None:
                store.load(name)
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

    if not is_there(suite.contents.id.dataset):
        raise UserError(lacking[suite.contents.id.dataset])
    kept = []
    for setting in settings:
        name = suite.contents.semantic[setting.semantic].dataset
        if is_there(name):
            kept.append(suite.setting_name(setting))
        elif available:
            print(f"left out: the setting '{suite.setting_name(setting)}': {lacking[name]}")
        else:
            raise UserError(lacking[name])
    if not kept:
        known = suite.name if suite.name in suites.suite_files() else suite.path
        raise UserError(f"the data of no setting is there; see: oodbench data status {known}")
    return kept


def state(name: str) -> tuple[str, str]:
    """A word for what is there, and the details."""
    data = dataset(name)
    if not isinstance(data, Stored):
        return "verified", f"comes with a package: {data.source}"
    try:
        found = store.entry(name)
        if found is None:
            return "missing", f"not in {store.data_folder() / name}; get it with: oodbench data get {name}"
        if store.fingerprint(store.load(name)) != found.fingerprint:
            return "broken", f"{store.data_folder() / name} has changed; get it again: oodbench data get {name}"
    except UserError as error:
        return "broken", str(error)
    if data.official is None:
        word = "present"
    else:
        word = "verified" if found.fingerprint == data.official else "differs"
    return word, f"{found.rows:,} images, {found.fingerprint}, from {found.source}, in {store.data_folder() / name}"


def _status(given: argparse.Namespace) -> int:
    names = _data_sets([given.name]) if given.name else list(catalogue("datasets"))
    width = max(map(len, names))
    for name in names:
        word, details = state(name)
        print(f"{name:{width}}  {word:8}  {details}")
    return 0


def _data_sets(given: Sequence[str]) -> list[str]:
    """Data sets by name, and those that suites need."""
    files, known = suites.suite_files(), catalogue("datasets")
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
    for name in _data_sets(given.names):
        if state(name)[0] in ("verified", "present"):
            print(f"{name}: is there already")
        else:
            fetch(name)
    return 0


def fetch(name: str) -> None:
    """Get one data set, telling how it goes."""
    data = dataset(name)
    assert isinstance(data, Stored)
    entry = data.get(_progress if sys.stdout.isatty() else _silent, lambda text: print(text, flush=True))
    print(f"{name}: {entry.rows:,} images, {entry.fingerprint}{_verdict(data, entry)}")


def _verdict(data: Stored, entry: store.Entry) -> str:
    if data.official is None:
        return ""
    return ", verified" if entry.fingerprint == data.official else ": NOT the official content"


def _silent(have: int, whole: int | None) -> None:
    pass


def _progress(have: int, whole: int | None) -> None:
    share = f" of {whole / 1e6:,.0f} MB ({100 * have / whole:.0f} %)" if whole else " MB"
    print(f"\r  {have / 1e6:,.0f}{share}", end="\n" if have == whole else "", flush=True)


def _add(given: argparse.Namespace) -> int:
    known = catalogue("datasets")
    if given.name not in known:
        raise unknown("data set", given.name, known)
    data = dataset(given.name)
    if not isinstance(data, Stored):
        raise UserError(f"'{given.name}' comes with a package; there is nothing to add")
    entry = data.add(given.path)
    print(f"{given.name}: {entry.rows:,} images, {entry.fingerprint}{_verdict(data, entry)}")
    return 0
