"""A board in, the differences of its methods as plain values out: every two of up to 40, of more those with two.

Samples are those of the table, and so are the draws behind the intervals: nothing is drawn again. A difference is in
hundredths of a percentage point, p in thousandths.
"""

from typing import Any

from oodbench.report import differences
from oodbench.report.page.leaderboard import Standings, hundredths
from oodbench.report.tables import DEFAULT_METRICS
from oodbench.results import pairs
from oodbench.results.significance import LEVEL
from oodbench.results.statistics import Column

EVERY_PAIR = 40  # of more methods only those with the baseline and the best are compared
KINDS = ("seeds and images", "images", "seeds")  # what an interval covers
UNKNOWN_P = 1.0


def baseline_of(some: Standings) -> str:
    """ERM; without it, MSP; without that, the first row."""
    methods = [row.method for row in some.rows]
    usual = differences.default_baseline(some.board.ledger)
    first = [usual] if usual in methods else [m for m in methods if m == differences.BASELINE_OF_GIVEN]
    return (first or methods)[0]


def data_of(some: Standings) -> dict[str, Any]:
    """For each column and metric: `first` row minus `second`, `low`, `high`, p and what of it holds.

    `p` is adjusted by Holm with the second row as the baseline and `q` with the first; `holds` has 1 where p and 2
    where q is below 5 %.
    """
    methods = [row.method for row in some.rows]
    place = {method: i for i, method in enumerate(methods)}
    baseline = baseline_of(some)
    every = len(methods) <= EVERY_PAIR
    names = [each.name for each in some.table.metrics if each.name in DEFAULT_METRICS]
    found: dict[str, list[dict[str, list[int]]]] = {name: [] for name in names}
    for name in names:
        metric = next(each for each in some.table.metrics if each.name == name)
        for i in range(len(some.columns)):
            column = Column(metric, some.samples(i, name))
            others = None if every else {each for each in (baseline, _best(column)) if each in column.samples}
            found[name].append(_plain(pairs.differences(column, others), place))
    return {"every": every, "baseline": place[baseline], "kinds": list(KINDS), "numbers": found}


def _best(column: Column) -> str:
    means = {name: column.sign * sample.mean for name, sample in column.samples.items()}
    return max(means, key=lambda name: means[name], default="")


def _plain(found: dict[tuple[str, str], pairs.PairDifference], place: dict[str, int]) -> dict[str, list[int]]:
    lists: dict[str, list[int]] = {
        name: [] for name in ("first", "second", "mean", "low", "high", "p", "q", "holds", "kind", "seeds")
    }
    for (first, second), each in found.items():
        known = each.interval
        values = (
            *(place[first], place[second], hundredths(known.mean), hundredths(known.low), hundredths(known.high)),
            *(_thousandths(each.adjusted), _thousandths(each.reversed_adjusted)),
            (each.adjusted < LEVEL) + 2 * (each.reversed_adjusted < LEVEL),
            *(KINDS.index(known.kind), known.seeds),
        )
        for name, value in zip(lists, values, strict=True):
            lists[name].append(value or 0)
    return lists


def _thousandths(p: float) -> int:
    """0 is below one."""
    return 0 if p < 0.001 else round(1000 * p)
