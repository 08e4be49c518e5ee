"""CPU seconds of `oodbench table` on 10,000 result files: the committed ones of digits-c under other seeds.

    python benchmarks/speed/tables.py

The least of the turns. The disk's cache is warm: the files have just been written.
"""

import os
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from startup import answer
from timing import TURNS, Row, main

from oodbench.results.folder import read_folder
from oodbench.results.result import as_json
from oodbench.results.stored import file_of

RESULTS = Path(__file__).parents[2] / "results" / "reference" / "digits-c"


def multiply(folder: Path, count: int) -> None:
    originals = read_folder(RESULTS)[0]
    for i in range(count):
        seed, which = divmod(i, len(originals))
        result = replace(originals[which], seed=seed, key=f"{i:04x}".ljust(16, "0"))
        path = file_of(folder, result.suite_label, result.setting, result.method, seed, result.key)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(as_json(result), encoding="utf-8")


def rows(quick: bool) -> Iterator[Row]:
    count = 200 if quick else 10000
    with tempfile.TemporaryDirectory() as folder:
        multiply(Path(folder), count)
        environment = {**os.environ, "OMP_NUM_THREADS": "1"}
        spent = min(answer(["table", folder], environment) for _ in range(1 if quick else TURNS))
    yield Row(f"CPU time of a table of {count:,} result files", spent, 5, "s")


if __name__ == "__main__":
    sys.exit(main(rows, __doc__))
