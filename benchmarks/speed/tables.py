"""CPU seconds of `oodbench table` on 10,000 result files: the committed ones of digits-c under other seeds.

    python benchmarks/speed/tables.py

The least of the turns. The disk's cache is warm: the files have just been written.
"""

import json
import os
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from startup import answer
from timing import TURNS, Row, main

RESULTS = Path(__file__).parents[2] / "results" / "reference" / "digits-c"


def multiply(folder: Path, count: int) -> None:
    originals = [json.loads(path.read_bytes()) for path in sorted(RESULTS.rglob("*.json"))]
    for i in range(count):
        seed, which = divmod(i, len(originals))
        result = {**originals[which], "seed": seed, "key": f"{i:016x}"}
        path = folder / result["setting"] / result["method"] / f"seed{seed}-{i:016x}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(result, indent=1, sort_keys=True) + "\n", encoding="utf-8")


def rows(quick: bool) -> Iterator[Row]:
    count = 200 if quick else 10000
    with tempfile.TemporaryDirectory() as folder:
        multiply(Path(folder), count)
        environment = {**os.environ, "OMP_NUM_THREADS": "1"}
        spent = min(answer(["table", folder], environment) for _ in range(1 if quick else TURNS))
    yield Row(f"CPU time of a table of {count:,} result files", spent, 5, "s")


if __name__ == "__main__":
    sys.exit(main(rows, __doc__))
