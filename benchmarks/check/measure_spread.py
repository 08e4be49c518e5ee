"""How far results vary over seeds and machines, measured: writes benchmarks/reported/spread.yaml for `oodbench check`.

    python benchmarks/check/measure_spread.py results/reference FOLDER ...

Each folder holds the results of one machine; a suite that several of them hold, under the same seeds, is compared
between machines too. Other processors are played on one machine, by the instructions that torch may use:

    export ATEN_CPU_CAPABILITY=default ONEDNN_MAX_CPU_ISA=AVX2     # and once more with ATEN_CPU_CAPABILITY=avx2
    oodbench run --suite digits-c --seeds 0,1,2,3,4,5,6,7,8,9 --results FOLDER

which changes the last bits of a sum, and so the bits of a training. A method needs two seeds to count.
"""

import argparse
import itertools
import random
import statistics
import sys
from collections.abc import Sequence
from pathlib import Path

from oodbench.report import spread
from oodbench.report.comparison import bands, by_seed, shown_runs, with_results
from oodbench.report.numbers import SHOWN
from oodbench.report.spread import MethodSpread, Spread, SuiteSpread, Where
from oodbench.results.folder import read_folder
from oodbench.results.ledger import Ledger
from oodbench.results.measurement import Runs

FOUR = ("covariate_acc", "id_acc", "fpr95", "auroc")
HEAD = """\
# Written by benchmarks/check/measure_spread.py, which says how; not to be edited. Standard deviations of one run in
# points of percent, by suite, setting, group and method: for each metric the one over seeds and, where several machines
# ran, the one between machines at the same seed. `seeds` is how many each machine ran. Rows that share ERM's network
# are one group.
"""


def measure(machines: Sequence[Ledger]) -> Spread:
    suites: dict[str, SuiteSpread] = {}
    for label in dict.fromkeys(label for ledger in machines for label in ledger.suites):
        ledgers = [ledger.suites[label] for ledger in machines if label in ledger.suites]
        settings = of_suite([shown_runs(each) for each in ledgers])
        if settings:
            suites[label] = SuiteSpread(ledgers[0].newest.suite, settings)
    return Spread(suites)


def of_suite(machines: Sequence[dict[tuple[str, str], Runs]]) -> dict[str, dict[str, dict[str, MethodSpread]]]:
    settings: dict[str, dict[str, dict[str, MethodSpread]]] = {}
    for method, setting in sorted({place for runs in machines for place in runs}):
        having = [runs[method, setting] for runs in machines if (method, setting) in runs]
        measured = of_method(having)
        if measured is not None:
            group = spread.group_of(having[0].newest)
            settings.setdefault(setting, {}).setdefault(group, {})[method] = measured
    return settings


def of_method(machines: Sequence[Runs]) -> MethodSpread | None:
    """Over the seeds that all machines have and that went well; None if these are less than two."""
    points: dict[str, list[float | None]] = {}
    seeds = set.intersection(*({each.seed for each in runs.ok} for runs in machines))
    for metric in bands().default if len(seeds) > 1 else ():
        values = [by_seed(runs, metric) for runs in machines]
        if all(seeds <= own.keys() for own in values):
            points[metric] = of_values([[100 * own[seed] for seed in sorted(seeds)] for own in values])
    return MethodSpread(len(seeds), len(machines), points) if points else None


def of_values(machines: Sequence[Sequence[float]]) -> list[float | None]:
    """The standard deviation over the seeds of a machine, and between the machines of a seed, each pooled."""
    over_seeds = statistics.fmean(map(statistics.variance, machines)) ** 0.5
    if len(machines) == 1:
        return [over_seeds, None]
    return [over_seeds, statistics.fmean(map(statistics.variance, zip(*machines, strict=True))) ** 0.5]


def as_yaml(measured: Spread) -> str:
    lines = [HEAD + "suites:"]
    for label, suite in measured.suites.items():
        lines += [f"  {label}:", f"    suite: {suite.suite}", "    settings:"]
        for setting, groups in suite.settings.items():
            lines.append(f'      "{setting}":')
            for group, methods in groups.items():
                lines.append(f'        "{group}":')
                lines += [f'          "{name}": {_flow(each)}' for name, each in methods.items()]
    return "\n".join(lines) + "\n"


def _flow(each: MethodSpread) -> str:
    shown = {
        metric: ", ".join("null" if value is None else f"{value:.3f}" for value in pair)
        for metric, pair in each.points.items()
    }
    points = ", ".join(f"{metric}: [{pair}]" for metric, pair in shown.items())
    return f"{{seeds: {each.seeds}, machines: {each.machines}, points: {{{points}}}}}"


def summary(measured: Spread) -> list[str]:
    """By suite and group, for people: over seeds, and between machines; then the sentence for a table's footnote."""
    lines = []
    groups: dict[tuple[str, str], list[MethodSpread]] = {}
    for where, each in measured.cells:
        groups.setdefault((where.label, where.group), []).append(each)
    for (label, group), some in groups.items():
        shown = [f"{SHOWN[metric].title} {_pooled(some, metric, 0)} / {_pooled(some, metric, 1)}" for metric in FOUR]
        lines.append(f"{label}, {group}: {', '.join(shown)}")
    return lines + [sentence(measured, label) for label in measured.suites]


def _pooled(some: Sequence[MethodSpread], metric: str, which: int) -> str:
    values = [value for each in some if (value := each.points.get(metric, [None, None])[which]) is not None]
    return f"{statistics.fmean(value**2 for value in values) ** 0.5:.2f}" if values else "–"


def sentence(measured: Spread, label: str) -> str:
    """By how much a table of a suite varies from machine to machine."""
    cells: list[tuple[Where, MethodSpread]] = [(w, each) for w, each in measured.cells if w.label == label]
    if all(each.machines == 1 for _, each in cells):
        return f"{label}: run on one machine."
    shown = []
    for metric in FOUR:
        value, where = max((each.points.get(metric, [0, 0])[1] or 0.0, str(w.method)) for w, each in cells)
        typical = _pooled([each for _, each in cells], metric, 1)
        shown.append(f"{SHOWN[metric].title} by {typical} points ({where} by {value:.1f})")
    return f"{label}: a run under the same seed on another machine varies in {', '.join(shown)}; standard deviations."


def trials(machines: Sequence[Ledger], most: int = 20) -> tuple[int, int]:
    """Whole checks of one machine against another by the spread of all but the first: how many, and how many differ.

    Each is of three seeds, as `make demo` has, drawn by lot.
    """
    generator, done, differing = random.Random(0), 0, 0
    for ours, theirs in itertools.permutations(machines, 2):
        measured = measure([each for each in machines if each is not ours])
        triples = list(itertools.combinations(sorted({each.seed for each in ours.results}), 3))
        for seeds in generator.sample(triples, min(most, len(triples))):
            verdicts = with_results(ours.filtered(lambda each, s=seeds: each.seed in s), theirs, measured=measured)
            done, differing = done + 1, differing + any(each.status == "differs" for each in verdicts)
    return done, differing


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", type=Path, nargs="+", metavar="FOLDER")
    parser.add_argument("--output", type=Path, default=spread.path())
    given = parser.parse_args()
    machines = [Ledger(read_folder(folder)[0]) for folder in given.folders]
    measured = measure(machines)
    given.output.write_text(as_yaml(measured), encoding="utf-8")
    print("\n".join(summary(measured)))
    for label in measured.suites:
        having = [machine.suites[label] for machine in machines if label in machine.suites]
        if len(having) > 2:
            done, differing = trials(having)
            print(
                f"{label}: {differing} of {done} whole checks of a machine that the spread was measured without differ"
            )
    return 0


if __name__ == "__main__":
    sys.exit(main())
