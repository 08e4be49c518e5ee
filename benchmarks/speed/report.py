"""Run every script of this folder and write their table into docs/performance.md.

    python benchmarks/speed/report.py      or: make speed

Only the text between the two marks is replaced; remarks around it stay.
"""

import argparse
import os
import platform
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

SCRIPTS = (
    *("evaluation", "scorers", "odin", "peers", "predict", "training", "scale", "scale_out", "scale_out_ray"),
    *("metrics", "intervals", "tables", "data", "corruptions", "startup"),
)
PAGE = Path(__file__).parents[2] / "docs" / "performance.md"
BEGIN, END = "<!-- measured: written by make speed -->", "<!-- /measured -->"
PACKAGES = ("torch", "numpy", "scikit-learn", "pytorch-ood")


def machine() -> str:
    """Without anything that names the machine itself."""
    model = platform.processor() or platform.machine()
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        model = next(line.split(":")[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        pass
    packages = ", ".join(f"{name} {version(name)}" for name in PACKAGES)
    load = "" if os.getloadavg()[0] < 0.5 else f" The machine was not idle: load {os.getloadavg()[0]:.1f}."
    return f"{os.cpu_count()} cores ({model}), Python {platform.python_version()}, {packages}.{load}"


def measure(name: str, quick: bool) -> list[str]:
    command = [sys.executable, str(Path(__file__).with_name(f"{name}.py")), *(["--quick"] if quick else [])]
    done = subprocess.run(command, env={**os.environ, "OMP_NUM_THREADS": "1"}, stdout=subprocess.PIPE, text=True)
    lines = done.stdout.splitlines()
    if done.returncode or not lines:
        sys.exit(f"benchmarks/speed/{name}.py failed; {PAGE.name} stays as it was")
    print(*lines, sep="\n", flush=True)
    return lines


def between_marks(text: str, table: str) -> str:
    before, rest = text.split(BEGIN)
    _, after = rest.split(END)
    return f"{before}{BEGIN}\n{table}\n{END}{after}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="see that all scripts run; writes nothing")
    quick = parser.parse_args().quick
    where = machine()
    found = [line for name in SCRIPTS for line in measure(name, quick)]
    if not quick:
        table = "\n".join([where, "", "| claim | measured | aim | verdict |", "|---|---|---|---|", *found])
        PAGE.write_text(between_marks(PAGE.read_text(encoding="utf-8"), table), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
