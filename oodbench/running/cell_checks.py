"""A result that somebody sends in; what holds of it out, and what does not. Runs nothing, and imports no torch.

Metrics follow from raw scores, images from suite and seed, and the key from everything that was run: all of this is
computed again and compared. Nobody can tell from files whether raw scores are what the method gave.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from oodbench.config import identity
from oodbench.config import suite as suites
from oodbench.config.cards import catalogue
from oodbench.config.registry import Registry, changed_words, display_names
from oodbench.config.schema import Misfit
from oodbench.config.suite import FOLDER, Suite
from oodbench.data import known
from oodbench.errors import UserError, said, shortened, shown
from oodbench.results.known_images import KnownImages, roles, set_names
from oodbench.results.metrics import Scored
from oodbench.results.raw_scores import contradiction
from oodbench.results.rescore import NoScores, NotRescored, scores_of
from oodbench.results.result import ComponentRun, Result
from oodbench.running import keys
from oodbench.running.plan import cell_of
from oodbench.seeds import derive

LONGEST_DISPLAY = 60  # letters of a method's name in a table


class Fails(Exception):
    """What does not hold, in words."""


class Unknown(Exception):
    """Why a check cannot be made here."""


@dataclass(frozen=True)
class Context:
    """What results are checked against."""

    registry: Registry  # of the methods that oodbench ships and those of the submission
    images: KnownImages
    home: Path  # the folder of the submission


@dataclass(frozen=True)
class _Sent:
    """A result that somebody sends."""

    result: Result
    context: Context

    @cached_property
    def scores(self) -> dict[str, Scored]:
        """`NotRescored` where there are none, or not of the images that the result names."""
        return scores_of(self.result)


@dataclass
class CellFindings:
    """What was found out about one cell, by check."""

    place: str  # the cell, in words
    held: list[str] = field(default_factory=list)
    problems: dict[str, str] = field(default_factory=dict)
    unchecked: dict[str, str] = field(default_factory=dict)

    @property
    def holds(self) -> bool:
        return not self.problems

    def as_values(self) -> dict[str, Any]:
        return {"held": self.held, "problems": self.problems, "unchecked": self.unchecked}


def place_of(result: Result) -> str:
    words = [result.suite_label, result.setting, result.method, f"seed {shown(result.seed)}"]
    return shortened(" / ".join([*words, *([f"draw {shown(result.draw)}"] if result.draw else [])]))


def check_stored(result: Result) -> CellFindings:
    """Whether a result of one's own is what was written, and its metrics follow from its raw scores."""
    found = CellFindings(place_of(result))
    try:
        scores = scores_of(result)
    except NoScores as reason:
        found.unchecked["metrics"] = str(reason)
        return found
    except NotRescored as reason:
        (found.problems if result.status == "ok" else found.unchecked)["arrays"] = str(reason)
        return found
    found.held.append("arrays")
    words = contradiction(result.metrics, scores) if result.has_current_metrics else None
    if words is not None:
        found.problems["metrics"] = words
    elif result.has_current_metrics:
        found.held.append("metrics")
    else:
        found.unchecked["metrics"] = f"they have version {result.metrics_version}; oodbench rescore computes today's"
    return found


def check_cell(result: Result, context: Context) -> CellFindings:
    found, sent = CellFindings(place_of(result)), _Sent(result, context)
    for name, (check, needs) in CHECKS.items():
        failed = [each for each in needs if each not in found.held]
        if failed:
            found.unchecked[name] = f"since {failed[0]} does not hold"
            continue
        try:
            check(sent)
        except Fails as problem:
            found.problems[name] = str(problem)
        except Unknown as reason:
            found.unchecked[name] = str(reason)
        except Exception as error:  # what a file of somebody else's says may lead anywhere
            found.problems[name] = f"it cannot be checked ({type(error).__name__}: {said(error)})"
        else:
            found.held.append(name)
    return found


def _metrics(sent: _Sent) -> None:
    result, today = sent.result, identity.version_of("metrics")
    try:
        scores = sent.scores
    except NotRescored as reason:
        raise Fails(f"{reason}" if result.error is None else f"the cell failed ({result.error})") from None
    if result.metrics_version != today:
        raise Fails(
            f"they have version {result.metrics_version}, and the current version is {today}; run oodbench rescore"
        )
    words = contradiction(result.metrics, scores)
    if words is not None:
        raise Fails(words)


def _network(sent: _Sent) -> None:
    """One that everybody can train; the others are files, which a result of somebody else's must not lead to."""
    config = sent.result.config
    if config.given is not None:
        raise Fails("it was given, and others do not have it; submit methods that oodbench trained")
    if config.init is not None:
        raise Fails("it starts from the weights of --init, and others do not have them; run it without --init")
    choice = config.suite.network
    if choice.name not in catalogue("networks"):
        raise Fails(f"{shown(choice.name)} is not a network of oodbench")
    if choice.options.get("weights"):
        raise Fails("it starts from a file of weights, and others do not have it")


@lru_cache(maxsize=1_000)
def _todays(name: str, preset: str | None) -> Suite:
    return suites.load(name, preset)


def _suite(sent: _Sent) -> None:
    """That images are chosen and divided as the suite of this name says; recipe and network may be a method's own."""
    result = sent.result
    if result.suite not in suites.suite_files():  # anything else would be looked for as a file
        raise Fails(f"{shown(result.suite)} is not a suite of oodbench")
    try:
        ours = _todays(result.suite, result.preset).contents
        theirs = result.config.suite
        suites.check(theirs)
        suites.check_setting(result.config.setting, theirs)
    except (UserError, Misfit) as error:
        raise Fails(said(error)) from None
    fixed = ("id", "splits", "corruptions", "wild", "mixture", "defaults")
    changed = [name for name in fixed if getattr(ours, name) != getattr(theirs, name)]
    for kind in ("semantic", "covariate"):
        own, other = getattr(ours, kind), getattr(theirs, kind)
        changed += [f"{kind}.{name}" for name in own if name in other and own[name] != other[name]]
    if changed:
        raise Fails(f"{changed[0]!r} differs from that of {result.suite_label}")
    named = result.ran_suite.setting_name(result.config.setting)
    if named != result.setting:
        raise Fails(f"the setting is called {shown(result.setting)}, and what ran is {shown(named)}")


def _data(sent: _Sent) -> None:
    result, images = sent.result, sent.context.images
    needed, there = set_names(result), {name.partition(" ")[0] for name in result.data.sets}
    copies = known.published_copies(result.config.suite.id.dataset)
    if not needed <= there <= needed | {copies}:
        raise Fails(f"it names the sets {', '.join(sorted(there)) or 'none'}; the setting reads {', '.join(needed)}")
    for name, each in result.data.sets.items():
        plain = name.partition(" ")[0]
        kind = result.config.setting.covariate if plain == copies else None
        contents = images.contents(plain, kind)
        if not contents and not plain.startswith(FOLDER):
            raise Unknown(f"the content of '{plain}' is not known here; get it with: oodbench data get {plain}")
        if each.fingerprint not in contents:
            raise Fails(f"the fingerprint {shown(each.fingerprint)} of '{plain}' is not known")


def _splits(sent: _Sent) -> None:
    """Sizes, rows and labels of the test splits."""
    result, scores = sent.result, sent.scores
    unknown = []
    for role in roles(result.config.setting):
        if role not in result.data.parts or role not in scores:
            raise Fails(f"there are no {role} images")
        part, theirs = result.data.parts[role], sent.context.images.of(result, role)
        if theirs is None:
            unknown.append(role)
            continue
        if part.rows != theirs.rows:
            raise Fails(f"there are {part.rows:,} {role} images; {result.suite_label} has {theirs.rows:,}")
        if theirs.digest is not None and part.digest != theirs.digest:
            raise Fails(f"the {role} images are not those of seed {result.seed}")
        if role != "semantic" and theirs.labels is not None:
            wrong = np.count_nonzero(scores[role].labels != theirs.labels)
            if wrong:
                raise Fails(f"{wrong:,} labels of {role} images are wrong")
        if theirs.digest is None or (role != "semantic" and theirs.labels is None):
            unknown.append(role)
    classes = result.config.suite.id.classes
    if classes is not None and any(each.predictions.max() >= len(classes) for each in scores.values()):
        raise Fails(f"it predicts more than the {len(classes)} classes of the ID data")
    if unknown:
        raise Unknown(f"no reference result has these {' and '.join(unknown)} images")


def _code(sent: _Sent) -> None:
    config = sent.result.config
    expected = keys.code(config.suite)
    for name, code in expected.items():
        if config.code.get(name) != code:
            raise Fails(
                f"it was computed with {shown(config.code.get(name))}, and this oodbench has {code}; run it again"
            )
    if config.code.keys() != expected.keys():
        raise Fails("it names code that it was not computed with")
    for component in (config.method.trainer, config.method.scorer, *config.method.starts_from):
        _component(component, sent.context.registry)


def _component(component: ComponentRun, registry: Registry) -> None:
    name, card = component.name, registry.cards.get(component.name)
    if card is None:
        raise Fails(f"there is no file of the method {shown(name)}")
    code = identity.of_card(card)
    if component.code != code:
        if not card.is_ours:
            raise Fails(f"the file of '{name}' is {code}, and it ran as {shown(component.code)}")
        if component.code.rpartition("@")[2].isdecimal():
            raise Fails(f"it ran {shown(component.code)}, and this oodbench has {code}; run it again")
        raise Fails(f"'{name}' is a method of oodbench, and this code differs; give it another name")
    if component.display != card.display or component.values.keys() != card.parameters.keys():
        raise Fails(f"the name to print or the hyperparameters of '{name}' are not those of its file")
    taken = {display.casefold() for other, display in display_names().items() if other != name}
    if not card.is_ours and card.display.casefold() in taken:
        raise Fails(f"'{name}' prints as '{card.display}', which is a method of oodbench; give it another display")
    if len(card.display) > LONGEST_DISPLAY or not card.display.isprintable():
        raise Fails(
            f"the display name of '{name}' has more than {LONGEST_DISPLAY} characters, or some that cannot be printed"
        )


def _key(sent: _Sent) -> None:
    """What it says of method, values, seed and data is what it was filed under."""
    result, context = sent.result, sent.context
    cell = cell_of(result, context.registry, context.home)
    ran = result.config.method
    chain = [each.trainer.card.name for each in reversed(cell.training.chain[:-1])]
    if [cell.method.trainer.card.name, cell.method.scorer.card.name, *chain] != [
        each.name for each in (ran.trainer, ran.scorer, *ran.starts_from)
    ]:
        raise Fails(f"'{ran.name}' does not consist of {ran.trainer.name}, {ran.scorer.name}")
    changed = {each.name: each.changed for each in (ran.trainer, ran.scorer)}
    label = ",".join([ran.name, *changed_words(ran.name, changed)])
    if result.method != label or ran.display != cell.method.display or ran.group != cell.method.group:
        raise Fails(f"it is called {shown(result.method)}, and what ran is {shown(label)}")
    if (result.config.threads, result.config.recipe) != (cell.suite.threads, cell.training.recipe):
        raise Fails("recipe or threads are not those of its suite")
    if any(number != derive(result.seed, purpose) for purpose, number in result.seeds.items()):
        raise Fails(f"its random numbers are not those of seed {result.seed}")
    wanted = {"key": cell.key, "variant": cell.variant, "training": cell.training.key}
    for name, value in wanted.items():
        if getattr(result, name) != value:
            raise Fails(f"its {name} is {shown(getattr(result, name))}, and what it says gives {value}")
    if result.path != cell.path:
        raise Fails("its file is stored under another suite, setting, method, seed or key")


Check = Callable[[_Sent], None]
# In this order, and which of them must hold before one can be made.
CHECKS: dict[str, tuple[Check, tuple[str, ...]]] = {
    "metrics": (_metrics, ()),
    "network": (_network, ()),
    "suite": (_suite, ("network",)),
    "data": (_data, ("suite",)),
    "splits": (_splits, ("metrics", "suite")),
    "code": (_code, ("suite",)),
    "key": (_key, ("suite", "code")),
}
