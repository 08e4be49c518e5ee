"""Results as a DataFrame: the door to notebooks. The only module that imports pandas, and not before it is used."""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from oodbench.results.folder import read_or_warn
from oodbench.results.metrics import METRICS
from oodbench.results.result import Result

if TYPE_CHECKING:
    import pandas as pd

IDENTITY = (
    "suite", "preset", "setting", "method", "display", "group", "trainer", "scorer", "seed", "status", "draw",
    "semantic", "covariate", "severity", "pi_c", "pi_s",
)  # fmt: skip
PROVENANCE = ("seconds", "key", "variant", "training", "device", "written", "path")


def frame(folder: str | Path = "results") -> "pd.DataFrame":
    """Every readable result below a folder: one row per cell, metrics as columns, rates in [0, 1].

    A failed cell is a row without metrics. `seconds` are those of all stages; a training that several cells share
    counts in each.
    """
    return of_results(read_or_warn(Path(folder)))


def of_results(results: Sequence[Result]) -> "pd.DataFrame":
    """The same of results that are at hand."""
    import pandas as pd

    others = {name for result in results for name in result.metrics} - {*IDENTITY, *METRICS, *PROVENANCE}
    columns = [*IDENTITY, *METRICS, *sorted(others), *PROVENANCE]
    return pd.DataFrame([_row(result) for result in results], columns=columns)


def from_records(records: Sequence[Mapping[str, Any]], columns: Sequence[str]) -> "pd.DataFrame":
    """Records of anything, such as comparisons."""
    import pandas as pd

    return pd.DataFrame(records, columns=list(columns))


def _row(result: Result) -> dict[str, Any]:
    method = result.config.method
    return {
        **result.metrics,  # first: whatever a file calls them, they replace nothing else
        **{name: getattr(result, name) for name in ("suite", "preset", "setting", "method", "group", "seed", "status")},
        "display": method.display,
        "trainer": method.trainer.name,
        "scorer": method.scorer.name,
        "draw": result.draw,
        **vars(result.config.setting),
        "seconds": sum(result.seconds.values()) if result.seconds else math.nan,
        **{name: getattr(result, name) for name in ("key", "variant", "training", "device", "written")},
        "path": None if result.path is None else str(result.path),
    }
