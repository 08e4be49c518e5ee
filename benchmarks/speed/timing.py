"""What the scripts of this folder share: turns, least times, peak memory, rows of a table."""

import argparse
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

TURNS = 5


@dataclass(frozen=True)
class Row:
    """One claim: what was measured and what was aimed at."""

    claim: str
    measured: float | None  # None: could not be measured here
    aim: float | None = None  # None: stands beside the others for comparison
    unit: str = "×"
    at_least: bool = False  # the aim is a lower bound
    remark: str = ""

    @property
    def verdict(self) -> str:
        if self.measured is None:
            return "not measured"
        if self.aim is None:
            return "for comparison"
        if self.measured >= self.aim if self.at_least else self.measured <= self.aim:
            return "met"
        percent = 100 * abs(self.measured / self.aim - 1)
        return f"missed by {percent:.{0 if percent >= 1 else 1}f} %"

    def __str__(self) -> str:
        measured = self.remark if self.measured is None else f"{_figure(self.measured)} {self.unit}"
        sign = "≥" if self.at_least else "≤"
        aim = "" if self.aim is None else f"{sign} {_figure(self.aim)} {self.unit}"
        return f"| {self.claim} | {measured} | {aim} | {self.verdict} |"


def _figure(value: float) -> str:
    return f"{value:.2f}" if value < 10 else f"{value:.1f}" if value < 100 else f"{value:,.0f}"


def least(sides: Mapping[str, Callable[[], object]], turns: int = TURNS) -> dict[str, float]:
    """The least CPU time of each side; they take turns, so that what else the machine does meets all alike."""
    fastest = dict.fromkeys(sides, float("inf"))
    for _ in range(turns):
        for name, act in sides.items():
            started = time.process_time()
            act()
            fastest[name] = min(fastest[name], time.process_time() - started)
    return fastest


def memory(field: str) -> float:
    """Megabytes of this process: VmRSS now, VmHWM at its peak. Unlike ru_maxrss these owe nothing to the parent."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(field):
            return int(line.split()[1]) / 1000
    raise ValueError(f"/proc/self/status has no {field}")


def main(rows: Callable[[bool], Iterator[Row]], description: str | None) -> int:
    """Print the rows of a script."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="see that it runs: tiny sizes, verdicts without meaning")
    quick = parser.parse_args().quick
    for row in rows(quick):
        print(row, flush=True)
    return 0
