"""A given network under every scorer: what is left to do, done, as ordinary result files."""

import itertools
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import torch

from oodbench.config.cards import command_name
from oodbench.config.registry import Component, Registry
from oodbench.config.suite import SECTIONS
from oodbench.data import lookup
from oodbench.data.image_part import ImagePart
from oodbench.errors import UserError, unknown
from oodbench.files import check_writable
from oodbench.learning import precision
from oodbench.learning.evaluation import Evaluation
from oodbench.learning.loop import Failed
from oodbench.learning.state_digest import state_digest
from oodbench.results import metrics
from oodbench.results import result as results
from oodbench.results.metrics import Scored
from oodbench.results.result import Result
from oodbench.results.stored import read_scores, write
from oodbench.running import provenance
from oodbench.running.choice import choose_methods, target_of
from oodbench.running.execution import changed_network, keyed
from oodbench.running.given.arrays import on_arrays
from oodbench.running.given.cells import GivenCell, result_of
from oodbench.running.given.network import Given
from oodbench.running.given.request import GivenRequest, recorded
from oodbench.running.given.sanity import doubt
from oodbench.running.given.sets import on_sets
from oodbench.running.given.suite import on_suite
from oodbench.running.mistakes import at_work, users_mistakes
from oodbench.running.reporting import Reporter, left_out_line
from oodbench.running.request import request

ALL = "all-scorers"


@dataclass(frozen=True)
class Evaluated:
    """The results of all cells of a request, and those that are new."""

    label: str  # of the suite that results are filed under
    results: list[Result]
    new: list[Result]


def prepare(asked: GivenRequest, reporter: Reporter) -> Given:
    """The network, and the images or outputs that it is measured on."""
    lookup.dataset.cache_clear()  # folders may have changed since an earlier call, and relative ones may be others
    if asked.arrays is not None:
        return on_arrays(asked, reporter)
    return on_suite(asked, reporter) if asked.suite is not None else on_sets(asked, reporter)


def carry_out(asked: GivenRequest, reporter: Reporter) -> Evaluated:
    """Evaluate what is not done yet."""
    registry = Registry(asked.plugins)
    check_names(asked.scorers, registry)
    if asked.folder.exists() and not asked.folder.is_dir():
        raise UserError(f"the results folder '{asked.folder}' is a file; choose another with --results")
    given = prepare(asked, reporter)
    scorers, left_out = choose_scorers(asked, given, registry)
    if left_out:
        reporter.note(left_out_line(left_out))
    cells = cells_of(asked, given, scorers)
    left = cells if asked.force else [cell for cell in cells if not cell.is_done()]
    if left:
        check_writable(asked.folder)
        sizes = ", ".join(f"{len(part):,} {name}" for name, part in _images(cells).items())
        count = _counted(len({cell.label for cell in left}), "scorer")
        if len(given.cases) > 1:
            count += f" in {len(given.cases)} settings"
        reporter.note(f"{given.run.words}: {count} on {sizes} images; results go to {asked.folder}")
    else:
        reporter.note(f"{given.run.words}: all results exist already; evaluate again with --force")
    new = evaluate(left, reporter)
    every = [results.read(cell.path) for cell in cells]
    problem = _doubt(every, given.model.head.out_features)
    if problem is not None:
        reporter.note(f"note: {problem}")
    return Evaluated(given.suite.label, every, new)


def _counted(count: int, what: str) -> str:
    return f"{count} {what}{'' if count == 1 else 's'}"


def _images(cells: Sequence[GivenCell]) -> dict[str, ImagePart]:
    """The parts that pass through the network, by words for them."""
    words = {"labelled": "training", "id_validation": "validation", "id": "ID"}
    parts = {word: getattr(cells[0].case.parts, name) for name, word in words.items()}
    for case in {id(cell.case): cell.case for cell in cells}.values():
        if len(case.parts.covariate):
            parts[case.setting.covariate] = case.parts.covariate
        if len(case.parts.semantic):
            parts[case.setting.semantic] = case.parts.semantic
    return {name: part for name, part in parts.items() if len(part)}


def _doubt(every: Sequence[Result], classes: int) -> str | None:
    """What the accuracy on ID images says of how the network was fed."""
    done = next((result for result in every if result.status == "ok" and result.path is not None), None)
    if done is None:
        return None
    id = read_scores(done)["id"]
    assert id.labels is not None
    return doubt(id.predictions.astype(np.int64), id.labels.astype(np.int64), classes)


def check_names(scorers: Sequence[str], registry: Registry, *others: str) -> None:
    """Refuse names that no scorer has before anything is read; `others` may be written in their place."""
    known = [name for name, card in registry.cards.items() if card.kind == "Scorer"]
    for name in map(command_name, scorers):
        if "+" in name or (name in registry.cards and name not in known):
            raise UserError(f"'{name}' is not a scorer, and nothing is trained here; see: oodbench list methods")
        if name not in (*known, *others, *registry.broken):
            raise unknown("scorer", name, [*known, *others])


def choose_scorers(asked: GivenRequest, given: Given, registry: Registry) -> tuple[list[Component], dict[str, str]]:
    """The scorers that were named, or all that fit; those that do not fit, and why."""
    for assignment in asked.set:
        part = target_of(assignment).partition(".")[0]
        if part in SECTIONS:
            raise UserError(f"'{assignment}' is for training, and nothing is trained here; set values of scorers only")
    named = request(suite=given.suite.name, methods=",".join(asked.scorers or (ALL,)), set=asked.set)
    _, specs, names, left_out = choose_methods(named, given.suite, registry, None)
    chosen = []
    for spec in specs:
        reason = given.network.misfit(spec.scorer.make())
        if reason is None:
            chosen.append(spec.scorer)
        elif spec.name in names and asked.scorers:
            raise UserError(f"the scorer '{spec.name}' cannot be used: {reason}; leave it out")
        else:
            left_out[spec.name] = reason
    if not chosen:
        raise UserError(f"no scorer is left: {next(iter(left_out.values()), 'none was named')}")
    return chosen, left_out


def cells_of(asked: GivenRequest, given: Given, scorers: Sequence[Component]) -> list[GivenCell]:
    """Every scorer in every setting; a scorer's settings stand together."""
    threads = asked.cpu_threads or torch.get_num_threads()
    pairs = itertools.product(scorers, given.cases)
    request = recorded(asked)
    return [GivenCell(given, case, scorer, asked.folder, threads, asked.half_bank, request) for scorer, case in pairs]


def evaluate(cells: Sequence[GivenCell], reporter: Reporter, first: Evaluation | None = None) -> list[Result]:
    """The results of these cells, written one by one. A failure is a result too, the others go on.

    `first` is used for the cells on its bank, and knows the outputs of the network afterwards.
    """
    done: list[Result] = []
    reporter.begin(len(cells), workers=1)
    try:
        for some in _on_one_bank(cells):
            is_first = first is not None and first.labelled.key == some[0].case.parts.labelled.key
            evaluation = first if first is not None and is_first else evaluation_of(some, reporter)
            # Users' code comes last, and so changes no number of a scorer that oodbench ships.
            for cell in sorted(some, key=lambda each: not each.scorer.card.is_ours):
                done.append(_score(cell, evaluation))
                reporter.result(done[-1])
    finally:
        reporter.end()
    return done


def _on_one_bank(cells: Sequence[GivenCell]) -> list[list[GivenCell]]:
    """Those whose scorers are fitted on the same images; settings that hold out domains leave others to fit on."""
    groups: dict[str, list[GivenCell]] = {}
    for cell in cells:
        groups.setdefault(cell.case.parts.labelled.key, []).append(cell)
    return list(groups.values())


def evaluation_of(cells: Sequence[GivenCell], reporter: Reporter) -> Evaluation:
    """One for all cells on one bank: each part passes once, each scorer is fitted once."""
    first = cells[0]
    given, labelled = first.given, first.case.parts.labelled
    expected = {repr(cell.scorer.identity()): keyed(cell.scorer) for cell in cells}
    return Evaluation(given.model, labelled, expected.values(), given.known, first.half_bank, reporter.scoring)


@contextmanager
def arithmetic(threads: int, device: torch.device) -> Iterator[None]:
    with precision.threads(threads, device), precision.arithmetic("fp32", False), precision.nondeterminism_warns():
        yield


def _score(cell: GivenCell, evaluation: Evaluation) -> Result:
    scored: dict[str, Scored] = {}
    measured: dict[str, float] = {}
    seconds: dict[str, float] = {}
    failure: Failed | None = None
    device = cell.given.model.device
    with arithmetic(cell.threads, device):
        try:
            with at_work(cell.scorer):
                scorer, state = keyed(cell.scorer), cell.given.model.state_dict()
                before = {} if scorer.shipped else {name: each.clone() for name, each in state.items()}
                arrays, seconds = evaluation.score(scorer, cell.case.parts)
                if before and state_digest(state) != state_digest(before):
                    cell.given.model.load_state_dict(before)
                    raise changed_network(cell.scorer)
            with users_mistakes(cell.scorer.card):
                scored = {split: Scored(**vars(each)) for split, each in arrays.items()}
                measured = metrics.evaluate(**scored)
        except Failed as problem:
            failure = problem
        result = result_of(cell, provenance.device_name(device), measured, seconds, failure)
    return write(result, cell.path, scored if measured else {}, [])
