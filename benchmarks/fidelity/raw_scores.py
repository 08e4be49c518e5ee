"""Do two commits give the same numbers? Trains ten cells with each, all trainers of the paper among them, and compares
the bytes of their raw scores.

python benchmarks/fidelity/raw_scores.py 5615f73 HEAD      # commits; `.` is the working tree
python benchmarks/fidelity/raw_scores.py HEAD . --methods scone,knn --suite mnist-c --preset smoke
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
from safetensors.numpy import load_file

METHODS = "erm,mixup,irm,vrex,oe,energy-oe,woods,scone,bn-adapt,vim"


def train(tree: Path, results: Path, arguments: list[str]) -> None:
    """The cells by the command line of a tree, in a process that imports that tree and no other."""
    command = [sys.executable, "-m", "oodbench", "run", "--device", "cpu", "--results", str(results), *arguments]
    environment = {**os.environ, "PYTHONPATH": str(tree), "PYTHONSAFEPATH": "1"}
    subprocess.run(command, cwd=tree, env=environment, check=True, stdout=subprocess.DEVNULL)


def raw_scores(results: Path) -> dict[str, dict[str, np.ndarray]]:
    """By cell, that is by the folders of its file and the seed; the key in the file's name may differ."""
    cells = {}
    for path in sorted(results.rglob("seed*.npz")):  # of a commit before schema 3
        with np.load(path, allow_pickle=False) as arrays:
            cells[f"{path.parent.relative_to(results)}/{path.stem.split('-')[0]}"] = dict(arrays)
    for path in sorted(results.rglob("seed*.safetensors")):
        network = json.loads(path.with_suffix(".json").read_text())["network"]
        arrays = load_file(path) | load_file(path.parent.parent / f"network-{network}.safetensors")
        cells[f"{path.parent.relative_to(results)}/{path.stem.split('-')[0]}"] = arrays
    return cells


def differing(before: dict[str, np.ndarray], after: dict[str, np.ndarray]) -> list[str]:
    """The arrays of the first that the second lacks or has otherwise; it may have further ones."""
    return [
        name
        for name, array in before.items()
        if name not in after or array.dtype != after[name].dtype or array.tobytes() != after[name].tobytes()
    ]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("before", help="a commit, or . for the working tree")
    parser.add_argument("after", help="a commit, or . for the working tree")
    parser.add_argument("--suite", default="digits-c")
    parser.add_argument("--setting", default="unseen-digits")
    parser.add_argument("--methods", default=METHODS)
    parser.add_argument("--preset")
    parser.add_argument("--set", action="append", default=[])
    given = parser.parse_args()
    arguments = ["--suite", given.suite, "--setting", given.setting, "--methods", given.methods]
    arguments += ["--preset", given.preset] if given.preset else []
    arguments += [word for assignment in given.set for word in ("--set", assignment)]
    home = Path(__file__).parents[2]
    cells = []
    with tempfile.TemporaryDirectory() as folder:
        for number, commit in enumerate((given.before, given.after)):
            tree, results = Path(folder, f"tree{number}"), Path(folder, f"results{number}")
            if commit == ".":
                tree = home
            else:
                subprocess.run(["git", "-C", home, "worktree", "add", "--quiet", "--detach", tree, commit], check=True)
            try:
                train(tree, results, arguments)
            finally:
                if commit != ".":
                    subprocess.run(["git", "-C", home, "worktree", "remove", "--force", tree], check=True)
            cells.append(raw_scores(results))
    before, after = cells
    unequal = 0
    for name, arrays in before.items():
        wrong = differing(arrays, after.get(name, {}))
        unequal += bool(wrong)
        print(f"{'differs: ' + ', '.join(wrong) if wrong else 'identical'}  {name}")
    print(f"{len(before) - unequal} of {len(before)} cells have identical raw scores")
    return 1 if unequal or not before else 0


if __name__ == "__main__":
    sys.exit(main())
