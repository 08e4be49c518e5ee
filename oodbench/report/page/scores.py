"""The raw scores of a cell in; what a reader needs to look at them out: quantiles, thresholds, a curve.

Exact figures are computed here, from all scores. 257 quantiles of each split are enough to draw densities and to move a
threshold, which then is good to 0.4 %.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from oodbench.results.metrics import Curve, Scored, curve

QUANTILES = 257
FINENESS = 8_000  # steps between the quartiles of a split: a plot has a few hundred pixels there
COARSEST = 10**7  # steps in all, but for outliers
FARTHEST = 10**12  # steps to an outlier: what is farther is shown there
KEPT = (0.01, 0.02, 0.05, 0.1, 0.2)  # shares of ID flagged that thresholds are stated for
GRID = (0, 0.001, 0.002, 0.005, 0.01, 0.015, 0.02, 0.03, 0.04, 0.05, 0.065, 0.08, *(i / 20 for i in range(2, 21)))
SPLITS = ("id", "covariate", "semantic")

Floats = NDArray[np.float64]


def data_of(scores: Mapping[str, Scored]) -> dict[str, Any]:
    """Shares are in hundredths of a percent."""
    ascending = {name: np.sort(scores[name].scores.astype(np.float64)) for name in SPLITS if name in scores}
    found: dict[str, Any] = {
        "splits": {name: {"rows": len(own), **steps(own)} for name, own in ascending.items() if len(own)},
    }
    other = "semantic" if "semantic" in ascending else "covariate"
    if other not in ascending:
        return found
    both = curve(ascending["id"], ascending[other])
    found["thresholds"] = [_at(threshold_for(both, share), ascending) for share in KEPT]
    places = np.searchsorted(both.fps / both.fps[-1], GRID, side="right") - 1  # the most that is flagged within it
    shown = [name for name in SPLITS[1:] if name in ascending]
    found["curve"] = {
        "id": [round(10_000 * share) for share in GRID],
        **{name: [_flagged(ascending[name], float(both.thresholds[i])) for i in places] for name in shown},
    }
    return found


def steps(ascending: Floats) -> dict[str, Any]:
    """Quantiles as whole numbers of a unit, each from the one before it; the first from `start`.

    The unit follows from the quartiles, so that a far outlier costs digits and not precision; where the quartiles are
    all but equal, from the rest.
    """
    quantiles = np.quantile(ascending, np.linspace(0, 1, QUANTILES))
    middle = float(quantiles[QUANTILES // 2])
    between = float(quantiles[3 * (QUANTILES // 4)] - quantiles[QUANTILES // 4])
    unit = float(f"{max(between / FINENESS, float(quantiles[-3] - quantiles[2]) / COARSEST):.6g}") or 1.0
    places = np.clip(np.rint((quantiles - middle) / unit), -FARTHEST, FARTHEST)
    return {"start": middle, "unit": unit, "steps": [int(places[0]), *np.diff(places).astype(np.int64).tolist()]}


def threshold_for(both: Curve, share: float) -> float:
    """Where the share of ID flagged is nearest this one, by the rule of FPR95."""
    fpr = both.fps[::-1] / both.fps[-1]
    return float(both.thresholds[len(fpr) - 1 - int(np.argmin(np.abs(fpr - share)))])


def _at(threshold: float, ascending: Mapping[str, Floats]) -> dict[str, Any]:
    """What a threshold flags; None is one that is above every score."""
    shares = {name: _flagged(own, threshold) for name, own in ascending.items() if len(own)}
    return {"at": threshold if np.isfinite(threshold) else None, **shares}


def _flagged(ascending: Floats, threshold: float) -> int:
    count = len(ascending) - int(np.searchsorted(ascending, threshold, side="left"))
    return round(float(f"{100 * count / len(ascending):.2f}") * 100)
