"""Run the campaigns of this folder, print what failed, and write what was tried into docs/reliability.md.

    python benchmarks/reliability/soak.py --kills 100 --files 10000 --given 10000 --plugins 100 --seed 0

or: make soak

Only the text between the two marks of the page is replaced, and only by `--write`. The status is 1 if anything failed.
"""

import argparse
import re
import sys
import tempfile
from importlib import import_module
from pathlib import Path

from campaign import Tally, Trial, tallied

CAMPAIGNS = {"kills": 100, "files": 10_000, "given": 10_000, "plugins": 100}  # the modules, and how much each tries
PAGE = Path(__file__).parents[2] / "docs" / "reliability.md"
BEGIN, END = "<!-- tried: written by make soak -->", "<!-- /tried -->"
LABELS = {  # on the page; a kind itself keeps its name, since random draws depend on it
    "signals": "stopped by a signal",
    "two of these": "plugin does two of these",
    "damaged weights given": "damaged weights (`--init`)",
    "damaged weights brought": "damaged weights (`--weights`)",
    "damaged weights brought, without checksums": "damaged weights (`--weights`) without checksums",
    "damaged stored sets": "damaged decoded data sets",
}
DEEDS = ("changes", "ends", "gives", "leaves", "replaces")  # how the kinds of hostile plugins begin


def label(kind: str) -> str:
    if kind.startswith(DEEDS):
        return f"plugin {kind}"
    return LABELS.get(kind, re.sub(r"under right (\w+)", r"with matching \1", kind))


def table(tallies: list[Tally], seed: int) -> str:
    rows = [f"| {label(each.kind)} | {each.tried:,} | {each.held:,} |" for each in tallies]
    return "\n".join([f"Seed {seed}.", "", "| trial | number | passed |", "|---|---|---|", *rows])


def between_marks(text: str, written: str) -> str:
    before, rest = text.split(BEGIN)
    _, after = rest.split(END)
    return f"{before}{BEGIN}\n{written}\n{END}{after}"


def run(name: str, count: int, seed: int) -> list[Trial]:
    trials = []
    with tempfile.TemporaryDirectory() as folder:
        for trial in import_module(name).campaign(count, seed, Path(folder)):
            trials.append(trial)
            if trial.problem is not None:
                print(f"failed: {trial.kind}: {trial.name}: {trial.problem}", flush=True)
    return trials


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, count in CAMPAIGNS.items():
        parser.add_argument(f"--{name}", type=int, default=count, metavar="N", help=f"how many (default: {count})")
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="another seed tries other things")
    parser.add_argument("--write", action="store_true", help=f"write the table into {PAGE.name}")
    given = parser.parse_args()
    trials: list[Trial] = []
    for name in CAMPAIGNS:
        tried = run(name, getattr(given, name), given.seed)
        for tally in tallied(tried):
            print(f"{label(tally.kind)}: {tally.held:,} of {tally.tried:,} passed", flush=True)
        trials += tried
    if given.write:
        written = between_marks(PAGE.read_text(encoding="utf-8"), table(tallied(trials), given.seed))
        PAGE.write_text(written, encoding="utf-8")
    return int(any(trial.problem is not None for trial in trials))


if __name__ == "__main__":
    sys.exit(main())
