"""`oodbench data`: what is there, getting what is not, taking what the user has, seeing what it looks like."""

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path

from oodbench.cli import missing_data
from oodbench.cli.confirmation import agreed
from oodbench.cli.json_output import add_json, print_json
from oodbench.cli.progress import downloads
from oodbench.config import suite as suites
from oodbench.config.cards import catalogue
from oodbench.data import availability, folder, store
from oodbench.data.pictures import PictureSet
from oodbench.data.stored import Obtained
from oodbench.data.trust import SHA256
from oodbench.data.weights import WEIGHTS
from oodbench.errors import UserError, unknown
from oodbench.files import write_atomically
from oodbench.report import contact_sheet


def add_arguments(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(
        title="actions", dest="action", metavar="ACTION", required=True, parser_class=type(parser)
    )

    def action(
        name: str, do: Callable[[argparse.Namespace], int], about: str, *examples: str
    ) -> argparse._ActionsContainer:
        added = actions.add_parser(name, help=about, description=f"{about[0].upper()}{about[1:]}.", examples=examples)
        added.set_defaults(do=do)
        return added

    status = action(
        "status", _status, "say which data sets are there, and how to get the others", "oodbench data status mnist-c"
    )
    status.add_argument(
        "name", nargs="?", metavar="NAME", help="a data set, or a suite for all it needs (default: all)"
    )
    add_json(status)
    get = action("get", _get, "download data sets", "oodbench data get mnist-c")
    get.add_argument("names", nargs="+", metavar="NAME", help="data sets, or suites for all they need")
    get.add_argument("--expect-sha256", type=_sha256, metavar="HEX", help="refuse a file with any other digest")
    add = action("add", _add, "add an archive or a folder that you have", "oodbench data add mnist ~/Downloads/mnist")
    add.add_argument("name", metavar="NAME", help="a data set of `oodbench list datasets`")
    add.add_argument("path", type=Path, metavar="PATH", help="an archive, or a folder with its files")
    add.add_argument("--force", action="store_true", help="store it even if it is not the official content")
    add.add_argument("--expect-sha256", type=_sha256, metavar="HEX", help="refuse an archive with any other digest")
    remove = action(
        "remove",
        _remove,
        "forget a data set that was added, or delete what was downloaded",
        "oodbench data remove mnist",
    )
    remove.add_argument("name", metavar="NAME", help="a data set of `oodbench list datasets`")
    remove.add_argument("--yes", action="store_true", help="delete without asking")
    clean = action(
        "clean",
        _clean,
        "delete what is cached of folders that are gone, and say how much stays",
        "oodbench data clean --dry-run",
    )
    clean.add_argument("--dry-run", action="store_true", help="say what would be deleted; delete nothing")
    show = action(
        "show",
        _show,
        "draw a contact sheet of the images of a suite or a data set",
        "oodbench data show digits-c --corruption blur",
        "oodbench data show digits-c --corruption all --severity 3",
    )
    show.add_argument("suite", metavar="NAME", help="a suite or a data set of `oodbench list`, or a YAML file")
    show.add_argument(
        "--corruption", metavar="KIND", help="show one at every severity, or all at one (default: the test splits)"
    )
    show.add_argument("--severity", type=int, metavar="N", help="for --corruption all (default: that of the suite)")
    show.add_argument(
        "--out", type=Path, metavar="FILE.png", help="where the sheet goes (default: SUITE.png or SUITE-KIND.png)"
    )
    show.add_argument("--images", type=int, default=6, metavar="N", help="how many images, one a class (default: 6)")
    show.add_argument("--seed", type=int, default=0, metavar="SEED", help="chooses the images (default: 0)")


def _sha256(text: str) -> str:
    if not SHA256.fullmatch(text.lower()):
        raise argparse.ArgumentTypeError(f"'{text}' is no sha256; give its 64 hexadecimal digits")
    return text.lower()


def main(given: argparse.Namespace) -> int:
    status: int = given.do(given)
    return status


def _status(given: argparse.Namespace) -> int:
    names = _data_sets([given.name]) if given.name else [*catalogue("datasets"), *WEIGHTS]
    if given.json:
        states = {name: availability.state(name) for name in names}
        sets = [{"name": name, "state": word, "details": details} for name, (word, details) in states.items()]
        print_json({"folder": store.data_folder(), "datasets": sets})
        return 0
    width = max(map(len, names))
    for name in names:
        word, details = availability.state(name)
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
            names += availability.needed_by(suites.load(name))
        else:
            raise unknown("data set or suite", name, [*known, *files])
    return list(dict.fromkeys(names))


def _get(given: argparse.Namespace) -> int:
    names = list(dict.fromkeys(map(availability.stored_as, _data_sets(given.names))))
    expected: str | None = given.expect_sha256
    if expected is not None and len(names) != 1:
        raise UserError(f"--expect-sha256 is for one file, and you ask for {', '.join(names)}; name one data set")
    problems: dict[str, str] = {}
    for name in names:
        word, details = availability.state(name)
        if word in ("verified", "present") and (expected is None or expected in details):
            print(f"{name}: is there already")
            continue
        try:
            availability.fetch(name, downloads(partial(print, flush=True)), expected)
        except UserError as error:
            if len(names) == 1:
                raise
            problems[name] = str(error)
    if problems:
        print(f"oodbench: {len(problems)} of {len(names)} data sets could not be had:", file=sys.stderr)
        print("\n".join(missing_data.sets(problems)), file=sys.stderr)
    return 2 if problems else 0


def _add(given: argparse.Namespace) -> int:
    data = _obtained(given.name, "add")
    entry = data.add(given.path, given.expect_sha256, official_only=not given.force)
    print(f"{given.name}: {data.summary(entry)}")
    return 0


def _obtained(name: str, verb: str) -> Obtained:
    """A set that lies in the data folder, or may."""
    known = [*catalogue("datasets"), *WEIGHTS]
    if name not in known:
        raise unknown("data set", name, known)
    data = availability.by_name(name)
    if isinstance(data, Obtained):
        return data
    if data.made_from is not None:
        raise UserError(f"'{name}' is made from '{data.made_from}'; {verb} that")
    raise UserError(f"'{name}' comes with a package; there is nothing to {verb}")


def _remove(given: argparse.Namespace) -> int:
    """1 if the user says no."""
    data = _obtained(given.name, "remove")
    paths = data.stored_paths()
    if not paths:
        print(f"nothing to remove: '{given.name}' is not in '{store.data_folder()}'")
        return 0
    sizes = {path: _size(path) for path in paths}
    for path, size in sizes.items():
        print(f"  {path}  {_bytes(size)}")
    theirs = _users_folder(data)
    if theirs is not None:
        print(f"  the images in '{theirs}' are yours and stay")
    what = f"what is stored of '{given.name}', {_bytes(sum(sizes.values()))},"
    if not given.yes and not agreed(what):
        print("nothing removed")
        return 1
    sys.stdout.flush()  # nothing goes that has not been shown
    store.remove(paths)
    print(f"{given.name}: {'forgotten' if theirs is not None else 'removed'}")
    return 0


def _clean(given: argparse.Namespace) -> int:
    """Only what nobody can use any more, and no data set that was downloaded or added."""
    gone, abandoned, home = folder.gone(), store.abandoned(), store.data_folder()
    freed = sum(_size(path) for paths in [*gone.values(), abandoned] for path in paths)
    for source, paths in gone.items():
        print(f"  images of '{source}', which is gone  {_bytes(sum(map(_size, paths)))}")
    for path in abandoned:
        print(f"  {path}, left by a killed process  {_bytes(_size(path))}")
    if (gone or abandoned) and not given.dry_run:
        sys.stdout.flush()  # nothing goes that has not been shown
        store.sweep()
        store.remove([path for paths in gone.values() for path in paths])
    stay = _size(home) - (freed if given.dry_run else 0)
    removed = f"{_bytes(freed)} {'would be ' * given.dry_run}removed" if gone or abandoned else "nothing to remove"
    print(f"{removed}; {_bytes(stay)} stay in '{home}'")
    return 0


def _users_folder(data: Obtained) -> Path | None:
    """Where the images are, if `add` left them in their place."""
    if not isinstance(data, PictureSet):
        return None
    try:
        root = data.root
    except UserError:  # damaged, or a download that did not end
        return None
    return None if root.is_relative_to(store.data_folder()) else root


def _size(path: Path) -> int:
    """Of a file or of all files below a folder; what another process deletes meanwhile counts as nothing."""
    files = [Path(folder, name) for folder, _, names in os.walk(path) for name in names] if path.is_dir() else [path]
    size = 0
    for file in files:
        with suppress(OSError):
            size += file.lstat().st_size
    return size


def _bytes(size: int) -> str:
    return f"{size / 1e6:,.1f} MB" if size >= 1e6 else f"{size / 1e3:,.0f} kB"


def _in_pixels(suite: suites.Suite) -> suites.Suite:
    """The suite before anything is embedded, which can be looked at."""
    id = replace(suite.contents.id, embed=None)
    return replace(suite, contents=replace(suite.contents, id=id))


def _show(given: argparse.Namespace) -> int:
    kind: str | None = given.corruption
    if given.suite in catalogue("datasets"):
        return _show_data_set(given)
    suite = _in_pixels(suites.load(given.suite))
    out = _png(given.out or Path(f"{suite.name}-{kind}.png" if kind else f"{suite.name}.png"))
    if given.severity is not None and kind != contact_sheet.ALL:
        raise UserError("--severity goes with --corruption all; a single corruption is shown at every severity")
    if kind is None:
        lacking = {setting: availability.lacking(suite, setting) for setting in suite.settings}
        settings = [setting for setting, problems in lacking.items() if not problems]
        if not settings:
            raise UserError("; ".join(lacking[suite.settings[0]].values()))
        for setting, problems in lacking.items():
            for problem in [*problems.values()][:1]:
                print(f"left out: the setting '{suite.setting_name(setting)}': {problem}")
        sheet = contact_sheet.of_parts(suite, settings, given.images, given.seed)
    elif kind == contact_sheet.ALL:
        sheet = contact_sheet.of_all_corruptions(suite, given.severity, given.images, given.seed)
        for missing, problem in sheet.missing.items():
            print(f"left out: the corruption '{missing}': {problem}")
    else:
        sheet = contact_sheet.of_corruption(suite, kind, given.images, given.seed)
    _write(sheet, out, suite.name)
    return 0


def _show_data_set(given: argparse.Namespace) -> int:
    if given.corruption is not None or given.severity is not None:
        raise UserError(
            f"'{given.suite}' is a data set, and suites have corruptions; leave out --corruption, or name one"
        )
    out = _png(given.out or Path(f"{given.suite}.png"))
    _write(contact_sheet.of_data_set(given.suite, given.images, given.seed), out, given.suite)
    return 0


def _png(out: Path) -> Path:
    if out.suffix != ".png":
        raise UserError(f"--out '{out}' is not the name of a PNG file; end it in .png")
    return out


def _write(sheet: contact_sheet.Sheet, out: Path, name: str) -> None:
    write_atomically(out, lambda file: sheet.image().save(file, "PNG", optimize=True))
    print(f"{out}: {len(sheet.rows)} x {len(sheet.columns)} images of {name}")
