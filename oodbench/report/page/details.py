"""A measurement in, all that a page says about its cell out: scores, training, configuration, provenance, command."""

import json
import math
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from oodbench.report.page import scores
from oodbench.results.measurement import Measurement
from oodbench.results.metrics import METRICS
from oodbench.results.result import Result, Unreadable, as_json
from oodbench.results.stored import read_log, read_scores

RECORDS = 200  # of a training, at most; of more, some are left out
PANELS = {  # of training curves, by how the names of what was recorded end
    "loss": "Loss",
    "term": "Loss",
    "constraint": "Constraints",
    "multiplier": "Multipliers",
    "weight": "Penalty weights",
    "gradient": "Gradient norms",
    "w": "w",
}
NOT_DRAWN = ("epoch", "step", "lr")
SHOWN = (
    "key", "variant", "training", "weights", "status", "error", "traceback", "device", "machine", "versions", "commit",
    "data", "seeds", "seconds", "notes", "config", "written",
)  # fmt: skip


Command = Callable[[Result], tuple[str, list[str]]]  # that would make a result again, and remarks on it


def data_of(measurement: Measurement, command: Command) -> dict[str, Any]:
    result = measurement.result
    stored = json.loads(as_json(result))
    words, remarks = command(result)
    found: dict[str, Any] = {name: stored[name] for name in SHOWN if stored[name] not in (None, {}, [])}
    found |= {"metrics": _metrics(measurement), "command": words, "remarks": remarks}
    if measurement.problem is not None:
        found["problem"] = measurement.problem
    if measurement.choice is not None:
        found["epoch"] = measurement.choice.epoch
    with suppress(FileNotFoundError, Unreadable):
        found["scores"] = scores.data_of(read_scores(result))
    if result.ranks:
        found["remarks"] = [
            *remarks,
            "scores are stored as joint ranks: their order is exact, their values are not kept",
        ]
    if curves := _curves(result):
        found["curves"] = curves
    return found


def _metrics(measurement: Measurement) -> list[list[str]]:
    """As a table would print them."""
    named = [(METRICS[name], value) for name, value in measurement.metrics.items() if name in METRICS]
    order = list(METRICS.values())
    named.sort(key=lambda each: order.index(each[0]))
    return [[metric.name, f"{100 * value:.2f}" if math.isfinite(value) else "–"] for metric, value in named]


def _curves(result: Result) -> dict[str, Any]:
    """What a training recorded, in panels; empty where there is no log, or it cannot be read."""
    with suppress(FileNotFoundError, Unreadable):
        return _panels(read_log(result))
    return {}


def _panels(records: list[dict[str, Any]]) -> dict[str, Any]:
    if len(records) < 2:
        return {}
    every = math.ceil(len(records) / RECORDS)
    records = [each for i, each in enumerate(records) if i % every == 0 or i == len(records) - 1]
    panels: dict[str, dict[str, list[float | None]]] = {}
    for name in dict.fromkeys(name for record in records for name in record):
        values = [_number(record.get(name)) for record in records]
        if name not in NOT_DRAWN and len({value for value in values if value is not None}) > 1:
            panel = PANELS.get(name.rpartition("_")[2], "Other")
            panels.setdefault(panel, {})[name] = values
    order = [*dict.fromkeys(PANELS.values()), "Other"]
    epochs = [_number(record.get("epoch", i)) for i, record in enumerate(records)]
    return (
        {"epochs": epochs, "panels": [[title, panels[title]] for title in order if title in panels]} if panels else {}
    )


def _number(value: object) -> float | None:
    """To five digits, which no plot shows."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
        return None
    return float(f"{value:.5g}")
