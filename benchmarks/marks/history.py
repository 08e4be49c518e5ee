"""Writes benchmarks/check/history.json: what each configuration gave under each seed, for marks of significance.

    python benchmarks/marks/history.py results/reference

Of configurations that were run under at least as many seeds as `oodbench.results.marks` asks for; in hundredths of a
percent.
"""

import json
import sys
from pathlib import Path

from oodbench.config.cards import folder
from oodbench.report.tables import DEFAULT_METRICS
from oodbench.results.folder import read_folder
from oodbench.results.ledger import Ledger
from oodbench.results.marks import FEWEST_STORED


def history(results: Path) -> dict[str, dict[str, list[int]]]:
    found = {}
    for own in Ledger(read_folder(results)[0]).suites.values():
        for runs in own.last_runs.values():
            if len(runs.ok) >= FEWEST_STORED and not any(each.result.domain_accuracies for each in runs.ok):
                values = {
                    metric: [round(10_000 * each.metrics[metric]) for each in runs.ok]
                    for metric in DEFAULT_METRICS
                    if all(metric in each.metrics for each in runs.ok)
                }
                found[runs.newest.variant] = {"seeds": [each.seed for each in runs.ok], **values}
    return dict(sorted(found.items()))


if __name__ == "__main__":
    stored = history(Path(sys.argv[1]))
    lines = [f"{json.dumps(name)}: {json.dumps(each, separators=(',', ':'))}" for name, each in stored.items()]
    text = "{\n" + ",\n".join(lines) + "\n}\n"
    (folder("benchmarks") / "check" / "history.json").write_text(text, encoding="utf-8")
    print(f"{len(stored)} configurations")
