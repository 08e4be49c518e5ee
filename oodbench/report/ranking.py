"""Runs of one suite in, the order of their methods by one metric out."""

from collections.abc import Iterable, Mapping, Sequence

from oodbench.report.evidence import Evidence
from oodbench.results.ledger import Place
from oodbench.results.measurement import Runs
from oodbench.results.metrics import Metric

Standing = tuple[int, float]  # how many settings a method lacks, and the mean over the others; less is better


def standings(
    runs: Mapping[Place, Runs], methods: Iterable[str], settings: Sequence[str], metric: Metric
) -> dict[str, Standing]:
    """Of every method that has a number at all. Means over different settings do not compare: who has more is first."""
    evidence = Evidence(runs, [metric], images=False)
    sign = -1 if metric.higher_is_better else 1
    found = {}
    for method in methods:
        known = [setting for setting in settings if evidence.sample(method, [setting], metric) is not None]
        sample = evidence.sample(method, known, metric) if known else None  # as a column of averages would print it
        if sample is not None:
            found[method] = (len(settings) - len(known), sign * sample.mean)
    return found


def sentence(metric: Metric, settings: Sequence[str]) -> str:
    if len(settings) == 1:
        return f"Sorted by {metric.title}, best first."
    return f"Sorted by {metric.title} over all settings, best first; rows that lack a setting come last."
