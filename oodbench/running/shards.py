"""Which part of a plan one of several jobs does: trainings with their cells, the same whoever divides them. No torch.

A plan is divided as it was asked for, whatever is done already, so that jobs that begin at different times agree.
Shards are balanced by an estimated cost, which has no other meaning.
"""

import heapq
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from functools import cached_property

from oodbench.errors import UserError, shortened
from oodbench.running.cells import Cell, Training

PARENTS, REST = "parents", "rest"  # the stages of a run
MOST_SHARDS = 100_000

LABELLED = 25_000  # images in a pass, where a suite states a share of them; only recipes in iterations are told by it
CELL = 0.25  # passes that scoring a cell costs, some of which it shares with others


@dataclass(frozen=True)
class Shard:
    """One of several parts, counted from 1."""

    number: int
    count: int

    def __str__(self) -> str:
        return f"{self.number}/{self.count}"


def shard_of(text: str) -> Shard:
    """`3/16` is the third of sixteen."""
    found = re.fullmatch(r"([0-9]{1,9})/([0-9]{1,9})", text)
    if found is None:
        raise UserError(f"'{shortened(text)}' is no shard; write its number and how many there are, as in --shard 3/16")
    shard = Shard(int(found[1]), int(found[2]))
    if not 1 <= shard.number <= shard.count <= MOST_SHARDS:
        raise UserError(
            f"there is no shard {shortened(text)}; the first number is from 1 to the second, and that at most "
            f"{MOST_SHARDS:,}, as in --shard 3/16"
        )
    return shard


def check_stage(stage: str | None, shard: str | None) -> None:
    if stage is None:
        return
    if stage not in (PARENTS, REST):
        raise UserError(f"unknown stage '{shortened(stage)}'; choose --stage parents or --stage rest")
    if shard is None:
        raise UserError(f"--stage {stage} is for a part of a run; say which with --shard, as in --shard 1/1")


def parents_of(cells: Iterable[Cell]) -> dict[str, Training]:
    """The trainings that others start from and that have to be trained, by key."""
    chains = (each for cell in cells for each in cell.training.chain[:-1])
    return {each.key: each for each in chains if each.init is None}


def trainings_of(cells: Iterable[Cell], shard: Shard, stage: str | None) -> set[str]:
    """The keys of a shard's trainings: without a stage, and of `rest`, those whose cells it does."""
    cells = list(cells)
    parents = parents_of(cells)
    if stage == PARENTS:  # what starts from one another stays together, so that no shard waits for another one
        parts = _packed([_Unit(tree) for tree in _trees(parents.values()).values()], shard.count)
    else:
        parts = _divided(cells, shard.count, {*parents} if stage == REST else set())
    return {key for unit in parts[shard.number - 1] for key in unit.trainings}


@dataclass(frozen=True)
class _Unit:
    """Trainings that one shard does, with what they start from."""

    trainings: Mapping[str, Training]
    cells: Mapping[str, int] = field(default_factory=dict)  # how many each has, if it is to score them
    given: AbstractSet[str] = frozenset()  # keys of trainings that are there

    @cached_property
    def cost(self) -> float:
        needed = {each.key: each for training in self.trainings.values() for each in training.chain}
        return sum(cost_of(each) for key, each in needed.items() if key not in self.given) + CELL * sum(
            self.cells.get(key, 0) for key in self.trainings
        )

    def halves(self) -> "list[_Unit]":
        order = sorted(self.trainings, key=lambda key: (-cost_of(self.trainings[key]), key))
        return [
            _Unit({key: self.trainings[key] for key in keys}, self.cells, self.given)
            for keys in (order[::2], order[1::2])
        ]


def _trees(trainings: Iterable[Training]) -> dict[str, dict[str, Training]]:
    """Those that start from one training, by its key."""
    trees: dict[str, dict[str, Training]] = {}
    for each in trainings:
        trees.setdefault(each.root.key, {})[each.key] = each
    return trees


def _divided(cells: Iterable[Cell], count: int, given: AbstractSet[str]) -> list[list[_Unit]]:
    """What starts from one training stays together, unless the last shard is through earlier when it is trained twice.

    Large units are halved again and again, and the division that ends first is taken.
    """
    trainings, numbers = {}, Counter[str]()
    for cell in cells:
        trainings[cell.training.key] = cell.training
        numbers[cell.training.key] += 1
    units = [_Unit(tree, numbers, given) for tree in _trees(trainings.values()).values()]
    best = _packed(units, count)
    while True:
        large = sum(unit.cost for unit in units) / count / 4
        halved = [half for unit in units for half in (unit.halves() if _is_large(unit, large) else [unit])]
        if len(halved) == len(units):
            return best
        units = halved
        best = min(best, _packed(units, count), key=_latest)


def _is_large(unit: _Unit, cost: float) -> bool:
    return len(unit.trainings) > 1 and unit.cost > cost


def _latest(parts: list[list[_Unit]]) -> float:
    """What the shard with most to do costs."""
    return max(sum(unit.cost for unit in part) for part in parts)


def _packed(units: Iterable[_Unit], count: int) -> list[list[_Unit]]:
    """The costliest first, each to the shard that has least to do; of equals, the first."""
    parts: list[list[_Unit]] = [[] for _ in range(count)]
    loads = [(0.0, number) for number in range(count)]
    for unit in sorted(units, key=lambda unit: (-unit.cost, min(unit.trainings))):
        load, number = heapq.heappop(loads)
        parts[number].append(unit)
        heapq.heappush(loads, (load + unit.cost, number))
    return parts


def cost_of(training: Training) -> float:
    """Passes over the labeled images; other images of a step count as further passes."""
    if training.init is not None:
        return 0.0
    recipe, labelled = training.recipe, training.suite.contents.splits.labelled
    images = labelled if labelled >= 1 else LABELLED
    passes = recipe.epochs if recipe.epochs is not None else (recipe.iterations or 0) * recipe.batch_size / images
    return float(passes * training.images_of_a_step)
