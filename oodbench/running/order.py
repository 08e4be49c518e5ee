"""What a run asks for, as something that can travel: a plan in, an order out, and at its end a plan again.

An order carries the files that a request names, and no path: whoever has another file under that name, or none, works
with the one that came. The keys of the plan that is made there must be those of the plan here.
"""

from collections.abc import Iterable
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

import msgspec

from oodbench import digests
from oodbench.errors import UserError
from oodbench.files import write_bytes
from oodbench.running.plan import Plan
from oodbench.running.reporting import Silent
from oodbench.running.request import Request, as_values, request
from oodbench.running.run import prepare
from oodbench.user_files import WEIGHTS_LIMIT, read_regular


class Order(msgspec.Struct, frozen=True):
    """What whoever works elsewhere is told once."""

    request: dict[str, Any]  # in plain values
    here: dict[str, str]  # versions and fingerprints at home, by which a worker says what differs
    files: dict[str, bytes] = {}  # what the request names: plugins, a suite, weights; by the name it gives


CODE = ".py"
KEYS = "keys"  # in what an order says of its home: a digest of the keys of all cells


def packed(plan: Plan) -> Order:
    """The order of a plan."""
    asked, network = plan.request, plan.suite.contents.network
    named = [*asked.plugins, asked.suite, asked.init, asked.model, network.name, network.options.get("weights")]
    files = {name: read_regular(Path(name), WEIGHTS_LIMIT) for name in _files(named)}
    return Order(as_values(asked), _here(plan), files)


def unpacked(order: Order, scratch: Path) -> Plan:
    """The plan of an order with the code and data of this machine, whose results go to `scratch`."""
    places = {name: _placed(name, content, scratch) for name, content in order.files.items()}
    asked = _with_places(request(**order.request), places)
    plan = prepare(replace(asked, results=str(scratch)), Silent())
    here = _here(plan)
    if here[KEYS] != order.here[KEYS]:
        raise UserError(f"this machine {_difference(here, order.here)}: keys differ; give it what the run has")
    return plan


def with_copies(plan: Plan, asked: Request, folder: Path) -> Request:
    """A request of a plan on copies of the files that it names, for jobs that begin when these may have changed."""
    files = packed(plan).files
    for name, content in files.items():
        write_bytes(_path(name, folder), content)
    return _with_places(asked, {name: str(_path(name, folder)) for name in files})


def _files(named: Iterable[Any]) -> set[str]:
    """Those that are files here: also the FILE.py of FILE.py:function."""
    names = {
        str(each).partition(f"{CODE}:")[0] + CODE if f"{CODE}:" in str(each) else str(each) for each in named if each
    }
    return {name for name in names if Path(name).is_file()}


def _placed(name: str, content: bytes, scratch: Path) -> str:
    """The name itself where such a file is here, as for workers beside the run."""
    try:
        if read_regular(Path(name), WEIGHTS_LIMIT) == content:
            return name
    except OSError:
        pass
    path = _path(name, scratch / "files")
    write_bytes(path, content)
    return str(path)


def _path(name: str, folder: Path) -> Path:
    return folder / digests.of_text(name) / Path(name).name  # which plugins and suites are called by


def _with_places(asked: Request, places: dict[str, str]) -> Request:
    def placed(name: str) -> str:
        code, colon, function = name.partition(f"{CODE}:")
        return f"{places[code + CODE]}:{function}" if colon and code + CODE in places else places.get(name, name)

    # A file of weights that the suite names is the only one that no field of the request holds.
    fields = {
        *asked.plugins,
        asked.suite,
        asked.init,
        *([asked.model.partition(f"{CODE}:")[0] + CODE] if asked.model else []),
    }
    weights = [name for name in places if name not in fields and not name.endswith(CODE) and places[name] != name]
    return replace(
        asked,
        plugins=tuple(map(placed, asked.plugins)),
        suite=placed(asked.suite),
        init=placed(asked.init) if asked.init else None,
        model=placed(asked.model) if asked.model else None,
        set=(*asked.set, *(f"network.weights={places[name]}" for name in weights)),
    )


def _here(plan: Plan) -> dict[str, str]:
    data = {name: mark for cell in plan.cells for name, mark in cell.marks.items()}
    return {"oodbench": version("oodbench"), **{f"data {name}": mark for name, mark in data.items()}, KEYS: plan.keys}


def _difference(here: dict[str, str], there: dict[str, str]) -> str:
    if here["oodbench"] != there["oodbench"]:
        return f"has oodbench {here['oodbench']}, and the run {there['oodbench']}"
    for name in there:
        if name.startswith("data ") and here.get(name) != there[name]:
            return f"has other images of '{name.removeprefix('data ')}'"
    return "has other code"
