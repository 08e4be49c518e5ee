"""Results of OpenOOD's checkpoints against its leaderboard: near and far AUROC, and ID accuracy. Everything is a rate.

The leaderboard has the means of three checkpoints. Ours are means over the networks that are here, which may be others,
so both sides are taken to vary as the three do.
"""

import json
import statistics
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import cache

from oodbench.config.cards import folder
from oodbench.config.schema import Document
from oodbench.data.openood import BENCHMARKS, Benchmark, set_name
from oodbench.errors import UserError
from oodbench.report.comparison import bands
from oodbench.report.spread import Variance
from oodbench.report.verdicts import Uncertainty, Verdict, judged
from oodbench.results.ledger import Ledger
from oodbench.results.result import Result

OPENOOD = "openood"  # what `--against` calls it
ROUNDING = (0.5e-4) ** 2 / 3  # the variance of what two decimals of a percentage cut off
RECIPE = "docs/openood.md has the command that makes them"


@dataclass(frozen=True)
class Row:
    """Percentages: the mean over checkpoints, and the standard deviation."""

    name: str
    scorer: str  # ours
    near: list[float]
    far: list[float]
    tuned: bool = False  # on OOD validation images


@dataclass(frozen=True)
class Reported:
    id_acc: list[float]
    rows: list[Row]


@dataclass(frozen=True)
class Leaderboard:
    """The keys of the file."""

    label: str
    source: str
    model: str
    runs: int
    benchmarks: dict[str, Reported]


@cache
def leaderboard() -> Leaderboard:
    return Document(folder("benchmarks") / "reported" / f"{OPENOOD}.yaml").conform(Leaderboard)


def with_leaderboard(results: Ledger, no_worse: bool = False) -> list[Verdict]:
    """Every cell of the leaderboard's rows on the benchmarks that were evaluated."""
    board = leaderboard()
    own = [each for each in results.results if each.config.given is not None and each.config.given.model == board.model]
    if not own:
        raise UserError(f"none of these results is of {board.model}; {RECIPE}")
    verdicts = []
    for benchmark in BENCHMARKS:
        prepared = [each for each in own if _is_prepared(each, benchmark)]
        tested = [each for each in prepared if set_name(each.config.suite.id.dataset) == benchmark.name]
        if prepared and not tested:
            name = prepared[0].config.suite.id.dataset
            raise UserError(f"the ID images are '{name}', and OpenOOD's are its list test_{benchmark.name}; {RECIPE}")
        if tested:
            verdicts += _of_benchmark(benchmark, board, tested)
    if not verdicts:
        raise UserError(
            f"these networks saw images that were not prepared as OpenOOD does; evaluate them on its image lists "
            f"without --mean, --std and --size: {RECIPE}"
        )
    return judged(verdicts, no_worse)


def _is_prepared(result: Result, benchmark: Benchmark) -> bool:
    """Compared as JSON, in which results are stored."""
    assert result.config.given is not None
    stated, wanted = result.config.given.preprocessing, asdict(benchmark.preprocessing)
    return json.dumps(stated, sort_keys=True) == json.dumps(wanted, sort_keys=True)


def _of_benchmark(benchmark: Benchmark, board: Leaderboard, results: Sequence[Result]) -> list[Verdict]:
    reported = board.benchmarks[benchmark.name]
    networks = {_digest(each): each.metrics["id_acc"] for each in results if "id_acc" in each.metrics}
    count = f"{len(networks)} network{'' if len(networks) == 1 else 's'}"
    suite = f"{board.model} on {benchmark.name} ({count})"
    verdicts = []
    for group, sets in (("near", benchmark.near), ("far", benchmark.far)):
        for row in reported.rows:
            aurocs = _aurocs(results, row.scorer)
            means = [
                statistics.fmean(each[name] for name in sets) for each in aurocs.values() if {*sets} <= each.keys()
            ]
            place = (suite, "", group, row.name, "auroc")
            if means:
                verdicts.append(_compared(place, means, getattr(row, group), board.runs, row.tuned))
            elif not row.tuned:
                known = {name for each in aurocs.values() for name in each}
                lacking = ", ".join(name for name in sets if name not in known)
                verdicts.append(Verdict(*place, "missing", note=f"not scored on {lacking}" if known else ""))
    if networks:
        place = (suite, "", "ID test", "all scorers", "id_acc")
        verdicts.append(_compared(place, [*networks.values()], reported.id_acc, board.runs))
    return verdicts


def _digest(result: Result) -> str:
    assert result.config.given is not None
    return result.config.given.digest


def _aurocs(results: Sequence[Result], scorer: str) -> dict[str, dict[str, float]]:
    """Of a scorer with its defaults: by network, then by set."""
    found: dict[str, dict[str, float]] = {}
    for each in results:
        if each.method == scorer and "auroc" in each.metrics:
            found.setdefault(_digest(each), {})[set_name(each.config.setting.semantic)] = each.metrics["auroc"]
    return found


def _compared(
    place: tuple[str, str, str, str, str],
    ours: Sequence[float],
    theirs: Sequence[float],
    runs: int,
    tuned: bool = False,
) -> Verdict:
    measured, expected, band = statistics.fmean(ours), theirs[0] / 100, bands().default[place[-1]] / 100
    if tuned:
        return Verdict(*place, "tuned there", measured, expected, band)
    # OpenOOD divides the squares by the number of runs: the estimate of the variance is larger.
    variance = Variance((theirs[1] / 100) ** 2 * runs / (runs - 1), runs - 1)
    uncertainty = Uncertainty(variance, len(ours), other_runs=runs, fixed=ROUNDING)
    return Verdict(*place, "cannot tell", measured, expected, band, uncertainty)
