"""Where a detector draws the line: a quantile of the scores of held-out ID images, and how well so many can tell it."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.stats import beta

from oodbench.errors import UserError

TAIL = 0.025  # on either side of a 95 % interval
ROUNDING = 1e-9  # 0.07 * 100 is 7.000000000000001 on a computer, and 7 images are enough


@dataclass(frozen=True)
class Share:
    """How many of some images were flagged as OOD."""

    flagged: int
    count: int

    def __post_init__(self) -> None:
        if not 0 <= self.flagged <= self.count or self.count == 0:
            raise ValueError(f"{self.flagged} of {self.count} images cannot be flagged")

    @property
    def value(self) -> float:
        return self.flagged / self.count

    @property
    def interval(self) -> tuple[float, float]:
        """The exact binomial 95 % interval (Clopper and Pearson) of the share among all such images."""
        rest = self.count - self.flagged
        low = 0.0 if self.flagged == 0 else float(beta.ppf(TAIL, self.flagged, rest + 1))
        high = 1.0 if rest == 0 else float(beta.ppf(1 - TAIL, self.flagged + 1, rest))
        return low, high

    def words(self, images: str) -> str:
        """`flags 5.0 % of 500 images; 95 % interval 3.3 to 7.3 %`."""
        low, high = self.interval
        shown = f"{100 * low:.1f} to {100 * high:.1f} %"
        return f"flags {100 * self.value:.1f} % of {self.count:,} {images}; 95 % interval {shown}"


@dataclass(frozen=True)
class Threshold:
    """An image is OOD where its score is greater than `value`, and ID where it is equal or less.

    A score that is not a number is OOD too: nobody can say that it looks like the ID images.
    """

    value: float
    keep: float  # the share of held-out ID images that were to be ID
    on_id: Share  # of the held-out ID images; less than 1 - keep where several have the score `value`

    @property
    def count(self) -> int:
        return self.on_id.count

    @property
    def low(self) -> float:
        """With `high`, the 95 % interval of the share of future ID images that are flagged.

        The line was drawn by the scores that it is judged by, and the interval still covers the share in at least 95 %
        of draws. Of n continuous scores the k-th smallest leaves a share of Beta(n - k + 1, k) above it: the upper end
        is a quantile of just that, and the lower end, of Beta(n - k, k + 1), lies below the other one.
        """
        return self.on_id.interval[0]

    @property
    def high(self) -> float:
        return self.on_id.interval[1]

    def is_ood(self, scores: Any) -> Any:
        """Of an array or a tensor of scores."""
        return ~(scores <= self.value)

    def share(self, scores: ArrayLike) -> Share:
        """How many of these scores are OOD."""
        flags = self.is_ood(np.asarray(scores))
        return Share(int(flags.sum()), len(flags))

    def words(self) -> str:
        return self.on_id.words("held-out ID images")


def keeping(keep: float, scores: ArrayLike) -> Threshold:
    """The least score that at least a share `keep` of these, the scores of held-out ID images, do not exceed."""
    check_keep(keep)
    ordered = np.sort(np.asarray(scores, dtype=np.float64))
    needed = images_needed(keep)
    if len(ordered) < needed:
        raise UserError(
            f"{len(ordered):,} held-out ID images cannot show what keeps {keep:g} of them; give at least {needed:,}, "
            "or choose a smaller --keep"
        )
    bad = int((~np.isfinite(ordered)).sum())
    if bad:
        raise UserError(f"{bad:,} of {len(ordered):,} scores of ID images are not finite; choose another scorer")
    value = float(ordered[math.ceil(keep * len(ordered) - ROUNDING) - 1])
    return Threshold(value, keep, Share(int((ordered > value).sum()), len(ordered)))


def check_keep(keep: float) -> None:
    if not 0 < keep < 1:
        raise UserError(f"--keep {keep:g} is out of range; choose a share between 0 and 1, such as 0.95")


def images_needed(keep: float) -> int:
    """The fewest of which one may be flagged."""
    return math.ceil(1 / (1 - keep) - ROUNDING)


def thinned(scores: ArrayLike, most: int) -> NDArray[np.float64]:
    """The scores in order, or so many of them at equal distances, the least and the greatest among them."""
    ordered = np.sort(np.asarray(scores, dtype=np.float64))
    if len(ordered) <= most:
        return ordered
    return ordered[np.linspace(0, len(ordered) - 1, most).round().astype(np.int64)]
