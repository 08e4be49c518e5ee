"""Results against what they should be: numbers that papers report, or other results. Everything is a rate.

Lines up what is compared; `verdicts` judges it by `spread`, and `benchmarks/check/bands.yaml` states the bands. Imports
no torch.
"""

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cache
from itertools import product

from oodbench.config.cards import folder
from oodbench.config.schema import Document
from oodbench.errors import UserError
from oodbench.report import image_error, layouts, spread
from oodbench.report.image_error import Images
from oodbench.report.model import Cell, Row, Table
from oodbench.report.notes import failures, seeds_in_words
from oodbench.report.numbers import OUT_SHARE, Number
from oodbench.report.reported import FULL_SIZE, PAPER, layout, reference
from oodbench.report.spread import Source, Spread, Variance, Where
from oodbench.report.verdicts import RAW_SCORES, Uncertainty, Verdict, judged
from oodbench.results.ledger import Ledger, Place, as_ledger
from oodbench.results.measurement import Runs
from oodbench.results.metrics import METRICS
from oodbench.results.raw_scores import Unreadable
from oodbench.results.result import GivenRun, Result
from oodbench.results.selection import by_protocol, select
from oodbench.results.stored import read_scores


@dataclass(frozen=True)
class Bands:
    """The keys of the file, in points of percent."""

    default: dict[str, float]
    images: dict[str, Images]  # by protocol
    suites: dict[str, dict[str, float]] = field(default_factory=dict)

    def of(self, suite: str) -> dict[str, float]:
        """As rates, by metric."""
        return {metric: points / 100 for metric, points in self.suites.get(suite, self.default).items()}


@cache
def bands() -> Bands:
    return Document(folder("benchmarks") / "check" / "bands.yaml").conform(Bands)


class NotReported(UserError):
    """A source has no number for any of the results."""


def with_source(
    results: Ledger | Sequence[Result], source: str = PAPER, measured: Spread | None = None, no_worse: bool = False
) -> list[Verdict]:
    """Every cell of the tables of a source on the suites that were run at full size.

    Tables of a setting that no suite has are left out. `measured` is how far numbers vary; None is what the file says.
    """
    owner = reference(source)
    if not owner.is_checked:
        raise UserError(
            f"the numbers of {owner.source.label} are of a setting that oodbench cannot run as published, so nothing "
            "is checked; see them beside yours, and how the settings differ, with: "
            f"oodbench table DIR --layout {owner.name} --with reported"
        )
    varies = measured or spread.measured()
    trained = as_ledger(results).filtered(lambda result: result.config.given is None)
    if not trained.results:
        raise UserError(
            f"the networks here were given, and {owner.source.label} only reports trained networks; "
            "compare with other results: --against DIR"
        )
    suites = [ledger for ledger in trained.suites.values() if ledger.newest.preset in FULL_SIZE]
    tables = [
        (ledger, table)
        for ledger in suites
        for table in layouts.all_of(ledger, source=source)
        if not layout(table.layout).table.other_setting
    ]
    if not tables:
        raise NotReported(f"none of these results is in {owner.source.label}: none of its suites was run at full size")
    return judged([verdict for ledger, table in tables for verdict in _of_table(ledger, table, varies)], no_worse)


def _of_table(ledger: Ledger, table: Table, varies: Spread) -> list[Verdict]:
    columns = list(product(table.settings, table.metrics))
    return [
        _with_reported(ledger, (table.suite, table.layout, setting, row.name, metric.name), row, cell, varies)
        for row in table.rows
        for (setting, metric), cell in zip(columns, row.cells, strict=True)
    ]


def _with_reported(
    ledger: Ledger, place: tuple[str, str, str, str, str], row: Row, cell: Cell, varies: Spread
) -> Verdict:
    if cell.mean is None:
        return Verdict(*place, "differs", note=cell.note) if cell.note else Verdict(*place, "missing")
    measured, metric = cell.mean, place[-1]
    number = min(cell.reported, key=lambda each: abs(each.value - measured))  # where sources differ, the nearest
    return Verdict(
        *place,
        "suspect" if number.is_doubtful else "cannot tell",
        measured,
        number.value,
        bands().of(ledger.newest.suite)[metric],
        _against(number, cell, varies.of(_where(ledger, row.method, cell.setting), _varying(metric), "seeds")),
        note="; ".join(filter(None, [number.note, cell.note])),
    )


def _where(ledger: Ledger, method: str, setting: str) -> Where:
    """Averages over settings were not measured: the spread of their group is then that in the whole suite."""
    example = next(each for each in reversed(ledger.results) if each.method == method)
    return replace(spread.where(example), setting=setting)


def _varying(metric: str) -> str:
    """The spread of out% is not measured: it is read off at the same threshold as FPR."""
    return "fpr95" if metric == OUT_SHARE.name else metric


def _against(number: Number, cell: Cell, variance: Variance) -> Uncertainty:
    """A paper's runs vary as ours do, or by the error that it prints if that is larger; or by its own error alone."""
    images = image_error.variance(number.metric, number.value, bands().images[number.protocol])
    rounding = number.rounding**2 / 3
    if number.own_error is not None:
        return Uncertainty(variance, cell.seeds, fixed=images + number.own_error**2 + rounding)
    beyond = max((number.error or 0.0) ** 2 - variance.value / number.runs, 0.0)
    return Uncertainty(variance, cell.seeds, other_runs=number.runs, fixed=images + beyond + rounding)


def with_results(
    results: Ledger | Sequence[Result],
    expected: Ledger | Sequence[Result],
    same_machine: bool = False,
    measured: Spread | None = None,
    no_worse: bool = False,
) -> list[Verdict]:
    """Every cell of the other results on the suites that were run here.

    Seeds that both sides have are compared one by one and vary as machines do; without such, the means of all. On the
    same machine all that was recorded is compared, to the bit.
    """
    return judged(lined_up(results, expected, same_machine, measured, no_worse), no_worse)


def lined_up(
    results: Ledger | Sequence[Result],
    expected: Ledger | Sequence[Result],
    same_machine: bool = False,
    measured: Spread | None = None,
    no_worse: bool = False,
) -> list[Verdict]:
    """As `with_results`, yet to be judged: for a check that has more to compare."""
    ours, theirs = as_ledger(results).suites, as_ledger(expected).suites
    shared = [suite for suite in theirs if suite in ours]
    if not shared:
        raise UserError(
            f"nothing to compare: these results are of {', '.join(ours)}, the others of {', '.join(theirs)}; run a "
            "suite that the others have"
        )
    varies = None if same_machine else measured or spread.measured()
    verdicts = []
    for suite in shared:
        stated = bands().of(theirs[suite].newest.suite)
        here, there = shown_runs(ours[suite]), shown_runs(theirs[suite])
        for (setting, method), runs in sorted(((s, m), runs) for (m, s), runs in there.items()):
            own = here.get((method, setting))
            place = (suite, "", setting, method)
            if varies is None:
                verdicts += [_with_runs((*place, metric), own, runs, 0.0, None) for metric in _recorded(own, runs)]
                verdicts.append(_raw_scores((*place, RAW_SCORES), own, runs))
                continue
            for metric in [each for each in stated if _has(runs, each)]:
                verdicts.append(_with_runs((*place, metric), own, runs, stated[metric], varies, no_worse))
    return verdicts


def _recorded(ours: Runs | None, theirs: Runs) -> list[str]:
    """The metrics that either side has, in the order of tables."""
    names = {name for runs in filter(None, (ours, theirs)) for each in runs.ok for name in each.metrics}
    return sorted(names, key=lambda name: ([*METRICS, name].index(name), name))


def _raw_scores(place: tuple[str, str, str, str, str], ours: Runs | None, theirs: Runs) -> Verdict:
    """Equal to the bit, array by array, for every seed that the other side has."""
    own, wanted = ({each.seed: each.result for each in runs.ok} if runs else {} for runs in (ours, theirs))
    shared = sorted(own.keys() & wanted.keys())
    if not shared:
        return Verdict(*place, "missing", note="no seed in common" if own and wanted else "")
    lacking = sorted(wanted.keys() - own.keys())
    apart, absent = list[str](), [f"no result for {seeds_in_words(lacking)}"] if lacking else []
    for seed in shared:
        try:
            arrays = [_arrays(each) for each in (own[seed], wanted[seed])]
        except FileNotFoundError as error:
            absent.append(f"there is no '{error}'")
            continue
        except Unreadable as error:
            apart.append(f"{error} (seed {seed})")
            continue
        names = [name for name in {**arrays[0], **arrays[1]} if arrays[0].get(name) != arrays[1].get(name)]
        apart += [f"{', '.join(names)} (seed {seed})"] if names else []
    if apart:
        return Verdict(*place, "differs", note=f"not bit-identical: {'; '.join(apart)}")
    return Verdict(*place, "missing", note="; ".join(absent)) if absent else Verdict(*place, "agrees")


def _arrays(result: Result) -> dict[str, tuple[str, tuple[int, ...], bytes]]:
    """The type, shape and bytes of every array beside a result."""
    return {
        f"{split}_{each.name}": (array.dtype.str, array.shape, array.tobytes())
        for split, scored in read_scores(result).items()
        for each in fields(scored)
        if (array := getattr(scored, each.name)) is not None
    }


def _has(runs: Runs, metric: str) -> bool:
    """Whether runs that went well would show this metric: without a semantic set there is no detection to compare."""
    return metric != OUT_SHARE.name and (not runs.ok or any(metric in each.metrics for each in runs.ok))


def shown_runs(ledger: Ledger) -> dict[Place, Runs]:
    """Of one suite, as tables show them."""
    kinds = [select(some, last_only=last_only) for some, last_only in by_protocol(ledger)]
    return {place: runs for selected in kinds for place, runs in selected.items()}


def _with_runs(
    place: tuple[str, str, str, str, str],
    ours: Runs | None,
    theirs: Runs,
    band: float,
    varies: Spread | None,
    no_worse: bool = False,
) -> Verdict:
    """Where nothing `varies`, both sides come from one machine."""
    wanted = by_seed(theirs, place[-1])
    if ours is None or not wanted:
        return Verdict(*place, "missing", note="" if wanted else "no number to compare with")
    if ours.failed:
        return Verdict(*place, "differs", note="; ".join(failures(ours)))
    own = by_seed(ours, place[-1])
    if not own:
        return Verdict(*place, "missing", note="these results have no number")
    both = {each.seed for each in ours.ok} & {each.seed for each in theirs.ok}
    lacking = sorted(seed for seed in both if (seed in own) != (seed in wanted))
    if varies is None and lacking:
        return Verdict(*place, "missing", note=f"recorded on one side alone for {seeds_in_words(lacking)}")
    shared = sorted(own.keys() & wanted.keys())
    if shared:
        own, wanted = ({seed: values[seed] for seed in shared} for values in (own, wanted))
    means = statistics.fmean(own.values()), statistics.fmean(wanted.values())
    if varies is None:
        return _same(Verdict(*place, "agrees", *means), own, wanted)
    given = theirs.newest.config.given
    if given is not None:
        return _of_given(Verdict(*place, "agrees", *means, band), ours, given, bool(shared), no_worse)
    is_new = no_worse and _trainings(ours, shared) != _trainings(theirs, shared)
    source: Source = "machines" if shared and not is_new else "seeds"
    variance = varies.of(spread.where(theirs.newest), place[-1], source)
    uncertainty = (
        Uncertainty(variance, len(own), sides=2) if shared else Uncertainty(variance, len(own), other_runs=len(wanted))
    )
    note = "another training under the same seeds" if is_new else "" if shared else "no seed in common"
    return Verdict(*place, "cannot tell", *means, band, uncertainty, note=note)


def _trainings(runs: Runs, seeds: Sequence[int]) -> list[str]:
    """What was trained. A training whose code changed is, under the same seed, as good as one under another seed."""
    return [each.result.training for each in runs.ok if each.seed in seeds]


def _of_given(verdict: Verdict, ours: Runs, given: GivenRun, has_shared_seeds: bool, no_worse: bool) -> Verdict:
    """Of a network that nobody trains nothing is left to chance: what machines round otherwise, the band allows."""
    own = ours.newest.config.given
    if not has_shared_seeds:
        return replace(verdict, status="missing", measured=None, expected=None, note="no seed in common")
    note = "" if own is not None and own.digest == given.digest else "another network with this name"
    agrees = verdict.off(no_worse) <= verdict.band
    return replace(verdict, status="agrees" if agrees else "differs", note=note)


def _same(verdict: Verdict, own: dict[int, float], wanted: dict[int, float]) -> Verdict:
    """Equal to the bit, seed by seed."""
    if own.keys() != wanted.keys():
        return replace(verdict, status="missing", measured=None, expected=None, note="no seed in common")
    apart = [seed for seed, value in own.items() if value != wanted[seed]]
    note = f"not bit-identical for {seeds_in_words(apart)}"
    return replace(verdict, status="differs", note=note) if apart else verdict


def by_seed(runs: Runs, metric: str) -> dict[int, float]:
    values = {each.seed: each.metrics.get(metric, math.nan) for each in runs.ok}
    return {seed: value for seed, value in values.items() if math.isfinite(value)}
