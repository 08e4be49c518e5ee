"""One reported number, where it belongs, and what a reader must know about it."""

from dataclasses import dataclass
from typing import Literal

from oodbench.results.metrics import METRICS, Metric

OUT_SHARE = Metric(
    "out_share",
    "out%",
    False,
    "share of the mixed validation set flagged at the threshold that keeps 95 % of ID images",
)
SHOWN = {**METRICS, OUT_SHARE.name: OUT_SHARE}
Kind = Literal["suspect", "impossible", "conflict", "note"]


@dataclass(frozen=True)
class Mark:
    """What a reader must know about a reported number."""

    kind: Kind
    reason: str

    def __str__(self) -> str:
        return self.reason if self.kind == "note" else f"{self.kind}: {self.reason}"


@dataclass(frozen=True)
class Number:
    """One reported number and where it belongs."""

    label: str  # of the source: whose number it is
    table: str
    printed_in: str  # Table 3
    suite: str
    settings: tuple[str, ...]  # several: their average
    methods: tuple[str, ...]  # any of these names is this row
    metric: str
    value: float  # a rate, as the error is
    error: float | None
    decimals: int  # of the percentage that is printed
    protocol: str
    runs: int
    selection: str
    marks: tuple[Mark, ...] = ()
    is_comparable: bool = True  # or else in direction alone: ours is a stand-in for its setting
    is_of_preset: bool = True  # or else ours ran under a preset that the source does not have
    row: str = ""  # the heads of its row: one method may have several
    is_of_suite: bool = True  # or else of a setting that no suite has, where nothing compares
    own_error: float | None = None  # of its mean by its source's own runs, at the most; None: they vary as ours do

    @property
    def percent(self) -> float:
        """The very number that is printed."""
        return round(100 * self.value, self.decimals)

    @property
    def text(self) -> str:
        return f"{self.percent:.{self.decimals}f}"

    @property
    def error_text(self) -> str:
        return "" if self.error is None else str(round(100 * self.error, self.decimals))

    @property
    def rounding(self) -> float:
        """How far the printed figure may be from the one that was measured."""
        return 0.5 * 10 ** -(self.decimals + 2)

    @property
    def is_doubtful(self) -> bool:
        """Nothing should be held against it."""
        return any(mark.kind in ("suspect", "impossible") for mark in self.marks)

    @property
    def note(self) -> str:
        return "; ".join(map(str, self.marks))
