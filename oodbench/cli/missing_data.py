"""A run whose data is not here: what is missing and where it comes from, and what could run in its place."""

import shlex
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from oodbench.config import suite as suites
from oodbench.config.registry import Registry
from oodbench.config.suite import Suite
from oodbench.data import availability
from oodbench.errors import UserError
from oodbench.report.beside import presets_beside_paper
from oodbench.running.plan import Plan, plan
from oodbench.running.request import DEFAULT_SUITE, Request, as_values


def sets(problems: Mapping[str, str]) -> Iterator[str]:
    """A line for each data set that cannot be used, with its address and the command that brings it."""
    for name, problem in problems.items():
        address = availability.addresses(name)
        was_not_tried = address and problem == availability.missing(name) and availability.state(name)[0] == "missing"
        yield f"  {name}: {address}; get it with: oodbench data get {name}" if was_not_tried else f"  {problem}"


def in_its_place(planned: Plan, tried: Iterable[str]) -> list[Plan]:
    """What runs without fetching anything by hand, the nearest to what was asked for first; `tried` were not to be had.

    That is the settings whose data is here, and a preset of the suite with all methods that were asked for; for a suite
    without either, the suite whose data comes with a package.
    """
    asked, found = planned.request, list[Plan]()
    if planned.cells and not asked.available:
        found.append(replace(planned, request=replace(asked, available=True), waiting=[], lacking={}))
    presets = (_planned(each) for each in _presets(asked, planned.suite))
    found += [each for each in presets if each is not None and _comes_by_itself(each, tried)][:1]
    if not found:
        own = Request(DEFAULT_SUITE, seeds=asked.seeds, results=asked.results, device=asked.device)
        named = _planned(replace(own, methods=asked.methods, plugins=asked.plugins, set=asked.set))
        found = [each for each in (named, _planned(own)) if each is not None][:1]
    return found


def _presets(asked: Request, suite: Suite) -> Iterator[Request]:
    """The same request under other presets; those with the paper's numbers beside their own come first."""
    beside = presets_beside_paper(suite.name)
    for preset in sorted(
        suite.contents.presets, key=lambda name: beside.index(name) if name in beside else len(beside)
    ):
        other = suites.load(asked.suite, preset)
        if preset != asked.preset and {*asked.methods} <= _listed(other, asked):
            init = asked.init if other.contents.network == suite.contents.network else None
            yield replace(asked, preset=preset, settings=(), semantic=(), covariate=(), init=init, available=False)


def _listed(suite: Suite, asked: Request) -> set[str]:
    """The names of the methods that a suite lists, and those that the words among them stand for."""
    registry, listed = Registry(asked.plugins), set[str](suite.contents.methods)
    words = [name for name in listed if name.startswith("all")]
    return listed | {spec.name for word in words for spec in registry.every(word)}


def _planned(asked: Request) -> Plan | None:
    try:
        return plan(asked)
    except UserError:  # a value that the network of a preset does not have, say
        return None


def _comes_by_itself(planned: Plan, tried: Iterable[str]) -> bool:
    if planned.request.offline:
        return not planned.lacking
    return not {*planned.lacking} & {*tried} and all(map(availability.comes_by_itself, planned.lacking))


def command(asked: Request) -> str:
    """The command line of a request."""
    words = ["oodbench", "run"]
    for name, value in as_values(asked).items():
        option = "--" + {"settings": "setting", "plugins": "plugin"}.get(name, name.replace("_", "-"))
        if name in ("methods", "seeds"):
            words += [option, ",".join(map(str, value))]
        elif isinstance(value, list):
            words += [word for each in value for word in (option, str(each))]
        else:
            words += [option] if value is True else [option, str(value)]
    return shlex.join(words)
