"""Runs of one suite in, a sample of each number of a table out: its values by seed, and how they vary with images.

Raw scores are read once for each setting, and when they are first asked for.
"""

from collections.abc import Collection, Mapping, Sequence

from oodbench.results import statistics
from oodbench.results.ledger import Place
from oodbench.results.measurement import Runs
from oodbench.results.metrics import METRICS, Metric
from oodbench.results.samples import Sample
from oodbench.results.statistics import Column

# Draws of the images. One seed has the ends of its interval from them; of several seeds they only give a covariance.
DRAWS, FEWER = 1_000, 300


class Evidence:
    def __init__(self, runs: Mapping[Place, Runs], metrics: Collection[Metric], images: bool = True) -> None:
        """`images=False` reads no raw scores: seeds alone count."""
        self.metrics = [metric.name for metric in metrics if metric.name in METRICS]
        self.images = images
        # One number of draws for all settings, so that a mean over settings has draws too.
        self.draws = DRAWS if any(len(some.ok) == 1 for some in runs.values()) else FEWER
        self.runs: dict[str, dict[str, Runs]] = {}
        for (method, setting), some in runs.items():
            self.runs.setdefault(setting, {})[method] = some
        self.columns: dict[str, dict[str, Column]] = {}

    def sample(self, method: str, settings: Sequence[str], metric: Metric) -> Sample | None:
        """Of a setting, or the mean over several; None if there is no number, or none under a seed that all have."""
        own = [self._column(setting, metric).samples.get(method) for setting in settings]
        known = [sample for sample in own if sample is not None]
        if len(known) < len(own):
            return None
        if len({sample.content for sample in known}) == 1:  # or one network on the same images, whatever the setting
            return known[0]
        columns = [Column(metric, {method: sample}) for sample in known]
        return statistics.average(columns).samples.get(method)

    def _column(self, setting: str, metric: Metric) -> Column:
        if setting not in self.columns:
            runs = self.runs[setting]
            self.columns[setting] = statistics.columns(runs, self.metrics, self.draws, images=self.images)
        return self.columns[setting][metric.name]
