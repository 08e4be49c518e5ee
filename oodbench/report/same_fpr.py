"""Methods where they have the same FPR: the paths of their trainings are read off there, seed by seed.

How long one trains decides what a method does, so that the end of a training is one point of a path. Two methods are
compared where their paths have the same FPR: which keeps more accuracy there, and which flags fewer covariate images?
"""

from collections.abc import Sequence
from dataclasses import dataclass

from oodbench.errors import UserError, unknown
from oodbench.report.differences import difference_text
from oodbench.report.labels import by_paper
from oodbench.results import samples
from oodbench.results.ledger import Ledger
from oodbench.results.metrics import METRICS
from oodbench.results.result import PathPoint, Result
from oodbench.results.samples import Interval, Sample

READ = ("covariate_acc", "covariate_flagged")


@dataclass(frozen=True)
class AtFPR:
    """A metric of a method and of a baseline at one FPR, in the mean over the seeds whose paths both have it."""

    suite: str
    setting: str
    fpr: float
    method: str
    metric: str
    seeds: tuple[int, ...]
    mean: float | None  # None where no seed has it in both
    baseline_mean: float | None
    difference: Interval | None  # None also where there is but one seed


def value_at(path: Sequence[PathPoint], fpr: float, metric: str) -> float | None:
    """A metric where a path first has this FPR, on the line between two points; None where it never has.

    What of a point has no number, as the accuracy of accepted images where all are flagged, is passed over.
    """
    points = [(p.metrics["fpr95"], p.metrics[metric]) for p in path if {"fpr95", metric} <= p.metrics.keys()]
    for (before, start), (after, end) in zip(points, points[1:], strict=False):
        if min(before, after) <= fpr <= max(before, after):
            share = 0.0 if before == after else (fpr - before) / (after - before)
            return start + share * (end - start)
    return None


def compare(
    ledger: Ledger, baseline: str, fprs: Sequence[float], methods: Sequence[str] = (), metrics: Sequence[str] = READ
) -> list[AtFPR]:
    """Every method with a path minus the baseline, at every FPR, in every suite and setting where both have paths."""
    names = {result.method for result in ledger.results if result.training_path}
    if not names:
        raise UserError("no result here has a path; measure some with: oodbench run --path 13")
    if baseline not in names:
        raise unknown("method with a path", baseline, names)
    found = []
    for suite, own in ledger.suites.items():
        runs = {
            place: {each.seed: each.result for each in some.ok if each.result.training_path}
            for place, some in own.last_runs.items()
        }
        order = by_paper(own.methods)
        for setting in own.settings:
            theirs = runs.get((baseline, setting), {})
            found += [
                _at(suite, setting, fpr, method, metric, runs[method, setting], theirs)
                for fpr in fprs
                for method in order
                if method != baseline and (not methods or method in methods) and runs.get((method, setting)) and theirs
                for metric in metrics
            ]
    return found


def _at(
    suite: str, setting: str, fpr: float, method: str, metric: str, ours: dict[int, Result], theirs: dict[int, Result]
) -> AtFPR:
    values, baseline = (
        {seed: value_at(some[seed].training_path, fpr, metric) for seed in sorted(ours.keys() & theirs.keys())}
        for some in (ours, theirs)
    )
    own = {seed: value for seed, value in values.items() if value is not None and baseline[seed] is not None}
    other = {seed: value for seed, value in baseline.items() if value is not None and seed in own}
    if not own:
        return AtFPR(suite, setting, fpr, method, metric, (), None, None, None)
    one, two = Sample(own), Sample(other)
    difference = samples.interval(one.minus(two)) if len(own) > 1 else None
    return AtFPR(suite, setting, fpr, method, metric, tuple(own), one.mean, two.mean, difference)


def as_markdown(compared: Sequence[AtFPR], baseline: str) -> str:
    """A table for each suite and setting."""
    lines: list[str] = []
    for place in dict.fromkeys((each.suite, each.setting) for each in compared):
        own = [each for each in compared if (each.suite, each.setting) == place]
        metrics = list(dict.fromkeys(each.metric for each in own))
        titles = [METRICS[name].title for name in metrics]
        heads = [head for title in titles for head in (title, f"{title} of {baseline}", "difference")]
        lines += [f"{' / '.join(place)}", "", f"| FPR | method | {' | '.join(heads)} | seeds |"]
        lines += ["|" + "---|" * (3 + len(heads))]
        for fpr, method in dict.fromkeys((each.fpr, each.method) for each in own):
            cells = [each for each in own if (each.fpr, each.method) == (fpr, method)]
            texts = [text for each in cells for text in _texts(each)]
            lines.append(f"| {100 * fpr:g} | {method} | {' | '.join(texts)} | {len(cells[0].seeds)} |")
        lines.append("")
    lines.append(
        "In percent, read off the paths of trainings where they first have the FPR; thresholds are those of ID "
        "validation images. Differences are paired over the seeds that both methods bring there, with 95 % intervals "
        "over seeds."
    )
    return "\n".join(lines) + "\n"


def _texts(each: AtFPR) -> list[str]:
    if each.mean is None or each.baseline_mean is None:
        return ["–", "–", "–"]
    means = [f"{100 * value:.2f}" for value in (each.mean, each.baseline_mean)]
    return [*means, "–" if each.difference is None else difference_text(each.difference)]
