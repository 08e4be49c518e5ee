"""How often would a mark "not shown to be worse" leave out a method that is as good as the best?

    python benchmarks/marks/simulate.py results/reference/digits-c --seeds 0-9
    python benchmarks/marks/simulate.py FOLDER --seeds 10-19 --history results/reference/digits-c --history-seeds 0-9

A column is a metric in a setting, or its mean over settings, of every method that was run; its truth is the covariance
of the methods over the given seeds. Trial tables of 3, 5 and 10 seeds are drawn from it with all means equal, so every
method that a procedure leaves out is an error, and with the measured means, where it shows power. Seeds are normal, or
have the shape of the measured ones: residuals of a whole seed, drawn with replacement and smoothed by a normal kernel
of half their deviation, which leaves the covariance as it is.

Three procedures are tried, each paired and against the method with the best mean, with Holm's correction over distinct
rows:

today   Student's t.
E       Student's t, whose variance is pooled with the one that the same pair has had over the seeds of stored runs.
B       Student's t, whose variance is shrunk towards a trend over the pairs of its own column (limma's), for rows
        without stored runs.

Without --history, E's stored runs are ten further seeds drawn from the truth, and the truth of each trial is itself
estimated from ten drawn seeds. The levels below were chosen so, on seeds 0 to 9 of digits-c: for the case that neither
the stored nor the true covariance is known well.

Test images enter neither side here. In a table, a mark takes the larger p of seeds alone and of seeds and images, and
so leaves out less.
"""

import argparse
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from oodbench.results import marks
from oodbench.results.folder import read_folder
from oodbench.results.ledger import Ledger
from oodbench.results.marks import t_test
from oodbench.results.significance import LEVEL

Floats = NDArray[np.float64]
METRICS = ("covariate_acc", "id_acc", "fpr95", "auroc", "covariate_flagged")
LOWER_IS_BETTER = ("fpr95", "covariate_flagged")
SEEDS = (3, 5, 10)
STORED = 10  # seeds of stored runs
BANDWIDTH = 0.5  # of the smoothed residuals, in their deviations


def today(differences: Floats, means: Floats, best: int, stored: Floats | None) -> Floats:
    n = len(differences)
    return t_test(differences.mean(axis=0), differences.var(axis=0, ddof=1) / n, n - 1)


def with_history(differences: Floats, means: Floats, best: int, stored: Floats | None) -> Floats:
    """Procedure E. `stored` are the values of the same rows under the seeds of stored runs."""
    assert stored is not None
    n, m = len(differences), len(stored)
    before = (stored - stored[:, [best]]).var(axis=0, ddof=1)
    variances, degrees = marks.pooled(differences.var(axis=0, ddof=1), n, before, m)
    return t_test(differences.mean(axis=0), variances / n, degrees) * LEVEL / marks.LEVEL_E


def with_trend(differences: Floats, means: Floats, best: int, stored: Floats | None) -> Floats:
    """Procedure B. `means` are rates, by which the variance of a rate is expected to go."""
    n = len(differences)
    spread = means * (1 - means)
    variances, degrees = marks.shrunk(differences.var(axis=0, ddof=1), spread + spread[best], n)
    level = marks.level_b(n)
    assert level is not None
    return t_test(differences.mean(axis=0), variances / n, degrees) * LEVEL / level


Procedure = Callable[[Floats, Floats, int, Floats | None], Floats]
PROCEDURES: dict[str, Procedure] = {"today": today, "E": with_history, "B": with_trend}


def left_out(values: Floats, procedure: Procedure, stored: Floats | None) -> NDArray[np.bool_]:
    """Which rows a table of these seeds (down) and methods (across; larger is better) shows to be worse."""
    means: Floats = values.mean(axis=0)
    best = int(np.argmax(means))
    rates = np.clip(np.abs(means), 0, 1)
    p = procedure(values - values[:, [best]], rates, best, stored)
    others = np.flatnonzero(np.arange(len(means)) != best)
    order = others[np.argsort(p[others], kind="stable")]
    adjusted = np.maximum.accumulate(p[order] * np.arange(len(order), 0, -1))
    found = np.zeros(len(means), dtype=bool)
    found[order[adjusted < LEVEL]] = True
    return found


@dataclass(frozen=True)
class Column:
    """Seeds down, distinct methods across; a metric that should be low is negative."""

    name: str
    methods: tuple[str, ...]
    values: Floats


def columns(folder: Path, seeds: range) -> Iterator[Column]:
    ledger = Ledger(read_folder(folder)[0])
    for suite, own in ledger.suites.items():
        runs = own.last_runs
        settings = own.settings
        table = {
            (method, setting, metric): [by_seed[seed] for seed in seeds]
            for (method, setting), some in runs.items()
            for metric in METRICS
            if seeds_of(by_seed := {each.seed: each.metrics.get(metric, np.nan) for each in some.ok}) >= {*seeds}
        }
        for metric, setting in product(METRICS, [*settings, "Average"]):
            over = settings if setting == "Average" else [setting]
            if setting == "Average" and len(settings) < 2:
                continue
            rows: dict[tuple[float, ...], str] = {}
            for method in sorted(own.methods):
                having = [table[method, each, metric] for each in over if (method, each, metric) in table]
                if len(having) == len(over):
                    rows.setdefault(tuple(np.mean(having, axis=0)), method)  # of one network's accuracies the first
            values = np.array(list(rows)).T
            if len(rows) > 2 and np.isfinite(values).all():
                sign = -1.0 if metric in LOWER_IS_BETTER else 1.0
                yield Column(f"{suite} {setting} {metric}", tuple(rows.values()), sign * values)


def seeds_of(by_seed: Mapping[int, float]) -> set[int]:
    return {seed for seed, value in by_seed.items() if np.isfinite(value)}


def normal(random: np.random.Generator, residuals: Floats, shape: tuple[int, int]) -> Floats:
    """So many tables of so many seeds, of mean 0 and with the covariance of the residuals."""
    weights = random.standard_normal((*shape, len(residuals)))
    return weights @ residuals / np.sqrt(len(residuals) - 1)


def shaped(random: np.random.Generator, residuals: Floats, shape: tuple[int, int]) -> Floats:
    """The same with the shape of the measured seeds."""
    count = len(residuals)
    drawn = residuals[random.integers(0, count, shape)] * np.sqrt(count / (count - 1))
    return np.sqrt(1 - BANDWIDTH**2) * drawn + BANDWIDTH * normal(random, residuals, shape)


SHAPES = {"normal": normal, "real-shaped": shaped}


@dataclass(frozen=True)
class Errors:
    """Of one column: shares of the trial tables, and power by how many points a method is behind the best."""

    any_left_out: float
    each_left_out: float
    power: dict[int, list[float]]


GAPS = (2, 5, 10, 20, 40)  # points; a gap counts for the nearest, by ratio


def trial(
    column: Column, procedure: Procedure, draw: Any, n: int, trials: int, stored: Floats | None, random: Any
) -> Errors:
    means = column.values.mean(axis=0)
    residuals = column.values - means
    truth = means.max()
    wrong, out = 0, 0
    found = np.zeros(len(means))
    for _ in range(trials):
        own, history = residuals, stored
        if history is None:
            history = draw(random, residuals, (1, STORED))[0]
            own = draw(random, residuals, (1, len(residuals)))[0]
            own = own - own.mean(axis=0)
        seeds = draw(random, own, (1, n))[0]
        errors = left_out(seeds + np.sign(truth) * np.abs(means).mean(), procedure, history)
        wrong += int(errors.any())
        out += int(errors.sum())
        found += left_out(seeds + means, procedure, history)
    power: dict[int, list[float]] = {}
    for gap, share in zip(100 * (truth - means), found / trials, strict=True):
        if gap > 1:
            power.setdefault(min(GAPS, key=lambda each: abs(np.log(gap / each))), []).append(float(share))
    return Errors(wrong / trials, out / trials / len(means), power)


def report(found: list[Column], stored: Mapping[str, Column] | None, trials: int, names: list[str]) -> None:
    print("procedure  n   seeds        any row left out (worst column)  each row  power at 2, 5, 10, 20, 40 points")
    for name, n, (shape, draw) in product(names, SEEDS, SHAPES.items()):
        errors = []
        for i, column in enumerate(found):
            random = np.random.default_rng([i, n, len(shape)])
            history = None
            if stored is not None:
                old = stored[column.name]
                places = [old.methods.index(method) for method in column.methods]
                history = old.values[:, places]
            errors.append(trial(column, PROCEDURES[name], draw, n, trials, history, random))
        any_row = [each.any_left_out for each in errors]
        power: dict[int, list[float]] = {}
        for each in errors:
            for gap, shares in each.power.items():
                power.setdefault(gap, []).extend(shares)
        shown = " ".join(f"{np.mean(power[gap]):.2f}" if gap in power else "  – " for gap in GAPS)
        print(
            f"{name:9} {n:2}   {shape:11}  {np.mean(any_row):.3f} ({np.max(any_row):.3f})"
            f"{'':17} {np.mean([each.each_left_out for each in errors]):.3f}     {shown}",
            flush=True,
        )


def seeds_in(text: str) -> range:
    first, _, last = text.partition("-")
    return range(int(first), int(last or first) + 1)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--seeds", type=seeds_in, default=range(10))
    parser.add_argument("--history", type=Path)
    parser.add_argument("--history-seeds", type=seeds_in, default=range(10))
    parser.add_argument("--trials", type=int, default=1000)
    parser.add_argument("--procedures", default="today,E,B")
    given = parser.parse_args()
    found = list(columns(given.folder, given.seeds))
    stored = given.history and {each.name: each for each in columns(given.history, given.history_seeds)}
    print(f"{len(found)} columns of {len(given.seeds)} seeds, {given.trials} trial tables each")
    report(found, stored, given.trials, given.procedures.split(","))
    return 0


if __name__ == "__main__":
    sys.exit(main())
