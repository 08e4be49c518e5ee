"""A detector in words: what it is, where its line lies, what that flags. Plain text."""

import shlex
from collections.abc import Sequence
from pathlib import Path

from tabulate import tabulate

from oodbench.learning.fitted_state import decoded
from oodbench.running.given.detector import Detector

KINDS = {"id": "held-out ID", "covariate": "covariate", "semantic": "semantic"}


def summary(detector: Detector, said: Sequence[str] = (), rule: str | None = None, folder: Path | None = None) -> str:
    """Without notes that were `said` already; `rule` says how the scorer was chosen, `folder` where the detector is."""
    card = detector.card
    values = ", ".join(f"{name} {decoded(value, {})}" for name, value in card.scorer.values.items())
    lines = [
        f"network    {card.network.text}",
        f"scorer     {card.scorer.display} ({', '.join(filter(None, [card.scorer.code, values]))})",
        *([f"chosen by  {rule}"] if rule is not None else []),
        f"threshold  OOD above {card.threshold.value:.6g}, which {card.threshold.words()}",
        "",
        _shares(detector),
    ]
    notes = [note for note in dict.fromkeys(detector.notes) if note not in said]
    lines += ["", *(f"note: {note}" for note in notes)] if notes else []
    if folder is not None:
        lines += ["", f"saved in '{folder}'; use it with:", f"  {_next(detector, folder)}"]
    return "\n".join(lines)


def _shares(detector: Detector) -> str:
    rows = []
    for name, each in detector.card.flagged.items():
        low, high = each.share.interval
        interval = f"{100 * low:.1f} to {100 * high:.1f} %"
        rows.append([name, KINDS[each.kind], f"{each.share.count:,}", f"{100 * each.share.value:.1f} %", interval])
    heads = ["set", "kind", "images", "flagged", "95 % interval"]
    return tabulate(rows, heads, tablefmt="plain", colalign=("left", "left", "right", "right", "right"))


def _next(detector: Detector, folder: Path) -> str:
    network = detector.card.network
    model = "" if network.spec is not None else f" --model {shlex.quote(network.text)}"
    return f"oodbench predict {shlex.quote(str(folder))} IMAGES{model}"
