"""What Python returns: results with a frame, a table and a choice of them, and tables that a notebook shows."""

import math
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, overload

from oodbench.report import layouts, render
from oodbench.report.labels import plain
from oodbench.report.model import Table, frame_columns, records
from oodbench.report.tables import with_accuracies_above
from oodbench.results.best import Best, choose
from oodbench.results.frame import from_records, of_results
from oodbench.results.result import Result

if TYPE_CHECKING:
    import pandas as pd


class Tables(str):
    """What `oodbench.table` prints. A notebook shows the tables themselves, and they can be had in other forms."""

    tables: list[Table]

    def __new__(
        cls, tables: list[Table], format: str = "markdown", width: int | None = None, bold: bool = False
    ) -> "Tables":
        made = super().__new__(cls, render.render(tables, format, width, bold))
        made.tables = tables
        return made

    def html(self) -> str:
        return "".join(table._repr_html_() for table in self.tables)

    def latex(self) -> str:
        return render.render(self.tables, "latex")

    def frame(self) -> "pd.DataFrame":
        """A row for each suite, setting, method and metric: mean, interval, seeds, mark and notes; rates in [0, 1]."""
        found = records(self.tables)
        return from_records(found, frame_columns(found))

    def _repr_html_(self) -> str:
        return self.html()


class ResultSet(Sequence[Result]):
    """Results at hand, whatever folder they lie in: a sequence, and what one wants to see of it."""

    def __init__(self, results: Iterable[Result]) -> None:
        self._results = list(results)

    def __len__(self) -> int:
        return len(self._results)

    def __iter__(self) -> Iterator[Result]:
        return iter(self._results)

    @overload
    def __getitem__(self, place: int) -> Result: ...

    @overload
    def __getitem__(self, place: slice) -> "ResultSet": ...

    def __getitem__(self, place: int | slice) -> "Result | ResultSet":
        return ResultSet(self._results[place]) if isinstance(place, slice) else self._results[place]

    def frame(self) -> "pd.DataFrame":
        """One row per result, as in `oodbench.frame`: metrics as columns, rates in [0, 1]."""
        return of_results(self._results)

    def table(
        self,
        format: str = "markdown",
        metrics: Sequence[str] | None = None,
        sort: str | None = None,
        width: int | None = None,
        bold: bool = False,
    ) -> Tables:
        """As `oodbench.table` prints it; accuracies that all rows share are said above, but for CSV and JSON.

        `sort` is a metric, no line of `text` is longer than `width`, and `bold` is for a terminal.
        """
        built = layouts.assemble(self._results, metrics, sort=sort)
        if metrics is None and format not in render.RECORDS:
            built = [with_accuracies_above(table) for table in built]
        return Tables(built, format, width, bold)

    def best(self, metric: str = "auroc") -> Best | None:
        """The scorer to use, by the rule that it states; None where there is no semantic set."""
        return choose(self._results, metric)

    def __repr__(self) -> str:
        if not self._results:
            return "<ResultSet: no results>"
        failed = sum(result.status != "ok" for result in self._results)
        counts = {
            "method": len({each.method for each in self._results}),
            "setting": len({(each.suite_label, each.setting) for each in self._results}),
            "result": len(self._results),
        }
        words = [f"{count} {name}{'s' * (count != 1)}" for name, count in counts.items()]
        suites = ", ".join(sorted({each.suite_label for each in self._results}))
        return plain(f"<ResultSet {suites}: {', '.join([*words, *([f'{failed} failed'] if failed else [])])}>")

    def _repr_html_(self) -> str:
        if not self._results:
            return "no results"
        return self.table().html()


def best_line(best: Best) -> str:
    """The choice, the rule and the warning, for a terminal."""
    error = "" if math.isnan(best.standard_error) else f" ± {100 * best.standard_error:.2f}"
    words = [f"Best: {plain(best.display)}, mean {best.metric.title} {100 * best.mean:.2f}{error} (one standard error)"]
    if not error:
        words = [f"Best: {plain(best.display)}, mean {best.metric.title} {100 * best.mean:.2f}"]
    if best.highest != best.display:
        words.append(
            f"{plain(best.highest)} has {100 * best.highest_mean:.2f}, which is within one standard error of the "
            f"difference, {100 * best.difference_error:.2f}"
        )
    return f"{'; '.join(words)}. {best.rule} {best.warning}"
