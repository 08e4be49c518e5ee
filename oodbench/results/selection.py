"""Which checkpoint of which draw stands for a method where domains are held out: DomainBed's three rules.

Works on the accuracies by domain that results carry. Reads no files, imports no torch.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from statistics import fmean
from typing import Any

from oodbench.config.suite import NONE
from oodbench.errors import unknown
from oodbench.results.ledger import Ledger, Place
from oodbench.results.measurement import Choice, Measurement, Runs, at_the_end
from oodbench.results.result import EpochAccuracies, Result

TRAINING_DOMAIN, ORACLE, LEAVE_ONE_OUT = "training-domain", "oracle", "leave-one-domain-out"
RULES = {
    TRAINING_DOMAIN: "the checkpoint that is best on validation images of the training domains",
    ORACLE: "the last checkpoint; among several draws, the best on validation images of the held-out domain itself",
    LEAVE_ONE_OUT: "the checkpoint that is best, on average, on a second domain that is held out too",
}


@dataclass(frozen=True)
class _Run:
    """A result with its checkpoints, in the order of the training."""

    result: Result
    checkpoints: list[EpochAccuracies]

    @property
    def draw(self) -> int:
        return self.result.draw


@dataclass(frozen=True)
class _Candidate:
    """A checkpoint of a run, and what a rule thinks of it."""

    run: _Run
    checkpoint: EpochAccuracies
    value: float

    @property
    def is_last(self) -> bool:
        return self.checkpoint is self.run.checkpoints[-1]


class _Impossible(Exception):
    """A rule that lacks what it compares, and what that is."""


def check(rule: str) -> None:
    if rule not in RULES:
        raise unknown("selection", rule, RULES)


def by_protocol(ledger: Ledger) -> list[tuple[Ledger, bool]]:
    """Results that measure generalization alone, and those with a semantic set, of which the last checkpoint counts.

    Before it, nothing but accuracies is known. Where no domain is held out, all stay together.
    """
    if not any(result.held_out for result in ledger.results):
        return [(ledger, False)]
    kinds = [(ledger.filtered(lambda r: not _has_semantic_set(r)), False), (ledger.filtered(_has_semantic_set), True)]
    return [(some, detects) for some, detects in kinds if some.results]


def _has_semantic_set(result: Result) -> bool:
    return result.config.setting.semantic != NONE


def select(ledger: Ledger, rule: str = TRAINING_DOMAIN, last_only: bool = False) -> dict[Place, Runs]:
    """Of each method, setting and seed the checkpoint that the rule chooses, and the metrics known there.

    Takes results of one suite and preset. Of each method and setting the family run last is selected from, and the
    results of other families are counted. `last_only` considers the last checkpoint of each draw, where alone the other
    metrics are known. Results without checkpoints are shown as they are, of several draws the first.
    """
    check(rule)
    pairs = _Pairs(ledger.results) if rule == LEAVE_ONE_OUT else None
    selected = {}
    for place, results in _without_helpers(ledger).places.items():
        newest = results[-1]
        family = [each for each in results if each.family == newest.family]
        measurements = [_of_one_seed(draws, rule, last_only, pairs) for draws in _by_seed(family)]
        selected[place] = Runs(newest, measurements, len(results) - len(family))
    return selected


def _by_seed(results: Iterable[Result]) -> list[list[Result]]:
    """The newest result of every draw, in order."""
    seeds: dict[int, dict[int, Result]] = {}
    for result in results:
        seeds.setdefault(result.seed, {})[result.draw] = result
    return [[draws[number] for number in sorted(draws)] for _, draws in sorted(seeds.items())]


def describe(runs: Iterable[Runs], rule: str, last_only: bool = False) -> str:
    """A sentence for the caption of a table of selected results; empty if nothing was selected."""
    draws = [each.draws for some in runs for each in some.measurements if each.draws]
    if not draws:
        return ""
    many = f"{'up to ' * (len(set(draws)) > 1)}{max(draws)} draws of the hyperparameters"
    if last_only:
        return f"Model selection: the last checkpoint{f', {rule} among {many}' if max(draws) > 1 else ''}."
    return f"Model selection: {rule}, {RULES[rule]}{f'; among {many}' if max(draws) > 1 else ''}."


def _without_helpers(ledger: Ledger) -> Ledger:
    """Without the runs that hold out a second domain for the sake of leave-one-domain-out."""
    alone = {domains[0] for result in ledger.results if len(domains := result.held_out) == 1}

    def helps(result: Result) -> bool:
        domains = result.held_out
        return len(domains) > 1 and not alone.isdisjoint(domains) and result.setting not in result.settings_order

    return ledger.filtered(lambda result: not helps(result)) if alone else ledger


def _of_one_seed(draws: list[Result], rule: str, last_only: bool, pairs: "_Pairs | None") -> Measurement:
    """The draws of one method, setting and seed: the best of them, or the first if there is nothing to compare."""
    runs = [_Run(result, result.domain_accuracies) for result in draws if result.status == "ok"]
    runs = [run for run in runs if run.checkpoints]
    if not runs:
        return at_the_end(min(draws, key=lambda result: result.status != "ok"))
    try:
        candidates = _candidates(runs, rule, pairs)
    except _Impossible as reason:
        return Measurement(runs[0].result, {}, problem=str(reason), draws=len(draws))
    candidates = [each for each in candidates if each.is_last] if last_only else candidates
    best = max(candidates, key=lambda each: each.value)  # of equals the lowest draw and the earliest checkpoint
    return _at(best, compared=len({each.run.draw for each in candidates}), draws=len(draws))


def _candidates(runs: list[_Run], rule: str, pairs: "_Pairs | None") -> list[_Candidate]:
    if pairs is not None:
        return pairs.candidates(runs)
    if rule == ORACLE:
        return [_Candidate(run, run.checkpoints[-1], run.checkpoints[-1].on_held_out_domains) for run in runs]
    return [_Candidate(run, each, each.on_training_domains) for run in runs for each in run.checkpoints]


def _at(best: _Candidate, compared: int, draws: int) -> Measurement:
    """What was measured at a checkpoint: before the last, nothing but accuracies is known."""
    result, checkpoint = best.run.result, best.checkpoint
    accuracies = {"covariate_acc": fmean(checkpoint.test.values()), "id_acc": checkpoint.on_training_domains}
    metrics = {**result.metrics, **accuracies} if best.is_last else accuracies
    choice = Choice(best.run.draw, checkpoint.epoch, checkpoint.step, best.is_last, passed_over=draws - compared)
    return Measurement(result, metrics, draws=draws, choice=choice)


class _Pairs:
    """Runs that hold out two domains: what leave-one-domain-out compares a run that holds out one of them by."""

    def __init__(self, results: Iterable[Result]) -> None:
        self.checkpoints: dict[tuple[Any, ...], list[EpochAccuracies]] = {}
        for result in results:
            domains = result.held_out
            if len(domains) == 2 and result.status == "ok":
                self.checkpoints[_place(result, domains)] = result.domain_accuracies  # the newest

    def candidates(self, runs: list[_Run]) -> list[_Candidate]:
        """Checkpoints of the runs whose pairs are all there."""
        comparable: list[_Candidate] = []
        lacking: dict[str, None] = {}
        for run in runs:
            try:
                values = self._values(run)
            except _Impossible as reason:
                lacking[str(reason)] = None
            else:
                known = [each for each in run.checkpoints if each.epoch in values]
                comparable += [_Candidate(run, each, values[each.epoch]) for each in known]
        if not comparable:
            raise _Impossible(f"{LEAVE_ONE_OUT} needs {next(iter(lacking), 'runs of the same epochs')}")
        return comparable

    def _values(self, run: _Run) -> dict[int, float]:
        """The mean accuracy on a second held-out domain after each epoch.

        Epochs and not steps are compared: a run that holds out more has fewer images, and so fewer steps in each.
        """
        domains = run.result.held_out
        if len(domains) != 1:
            raise _Impossible(f"runs that hold out one domain, not {len(domains)}")
        (tested,) = domains
        others = [domain for domain in run.checkpoints[-1].validation if domain != tested]
        pairs = {other: self.checkpoints.get(_place(run.result, (tested, other))) for other in others}
        missing = [other for other, pair in pairs.items() if not pair]
        if missing:
            raise _Impossible(
                f"runs that hold out {tested} with {', '.join(missing)}; oodbench run --selection {LEAVE_ONE_OUT}"
            )
        by_epoch: dict[int, list[float]] = {}
        for other, pair in pairs.items():
            for each in pair or ():
                by_epoch.setdefault(each.epoch, []).append(each.test[other])
        return {epoch: fmean(values) for epoch, values in by_epoch.items() if len(values) == len(others)}


def _place(result: Result, domains: Iterable[str]) -> tuple[Any, ...]:
    """Everything that a run and its pairs have in common, and the domains."""
    config = result.config
    values = (config.method.trainer.values, config.recipe, config.suite.network, config.suite.id, config.suite.splits)
    setting = replace(config.setting, covariate="")
    return result.method, result.seed, result.draw, frozenset(domains), repr((*values, setting))
