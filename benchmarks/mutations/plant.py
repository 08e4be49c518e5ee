"""Plants the faults of faults.yaml one at a time, in a copy of the tree, and says which of them the tests catch.

python benchmarks/mutations/plant.py --list
python benchmarks/mutations/plant.py --only knn-mean holm-order      # status 1 if one of these is missed
python benchmarks/mutations/plant.py --out build/mutations.json      # resumes; status 1 if too many are missed

A fault names a definition and code within it, which is compared as Python and not as text: it may move to another
file, and be formatted anew. One whose code is gone is an error; it is retired only with its behavior. The tests nearest
to the code run first, and the whole fast suite judges what these let pass. A test that also fails without the fault
catches nothing.
"""

import argparse
import ast
import json
import os
import queue
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import textwrap
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import yaml

ROOT = Path(__file__).parents[2]
FAULTS = Path(__file__).with_name("faults.yaml")
NEAR = 4  # files of tests that run first
MAY_MISS = {"method": 2, "all": 6}  # of 40 faults in methods, metrics and what they share, and of all 60
# Tests that see that code or a document is another one, and not what it does. The lock of identities needs no place
# here but for its own test: a planted fault is listed in it, as whoever believes that numbers stay the same would do.
NOT_COUNTED = (
    "tests/test_mutations.py",  # looks for the very code that a fault replaces
    "tests/config/test_identity.py::test_every_shipped_component_is_listed_with_the_code_it_has",
    "tests/results/test_committed_results.py::test_the_key_of_a_result_follows_from_what_it_says_of_itself",
    # Copies of the package in which a text is replaced, which a fault may have replaced before.
    "tests/running/test_keys.py::test_code_that_numbers_depend_on_counts_wherever_it_lies",
    "tests/running/test_keys.py::test_what_changes_no_number_changes_no_key",
    "tests/running/test_keys.py::test_a_module_that_moves_takes_its_results_along",
    "tests/test_docs.py::test_the_page",  # pages that list keys, defaults and scorers
    "tests/test_readme.py::test_every_count_of_components_is_that_of_the_registry",
    "tests/test_design.py",  # a page against docstrings and names of modules
    "tests/test_site.py",  # pages that are made of the text of method files
    "tests/test_packaging.py",  # which files a distribution has
    "tests/test_project_files.py",
)
UNCOPIED = shutil.ignore_patterns(".git", ".venv", "__pycache__", ".*_cache", ".hypothesis", "build", "*.egg-info")


class Lost(Exception):
    """A fault that cannot be planted."""


@dataclass(frozen=True)
class Fault:
    """`find` becomes `replace` in the definition whose dotted name ends in `where`."""

    id: str
    group: str  # method or rest
    where: str
    find: str  # an expression or statements
    replace: str
    breaks: str  # the rule

    def planted(self, root: Path) -> tuple[Path, str]:
        """The one file that changes, and its text then."""
        places = {
            (path, first.lineno, first.col_offset): (text, first, last)
            for path, text, definition in definitions(root, self.where)
            for first, last in matches(definition, self.find)
        }
        if len(places) != 1:
            advice = "mend its anchor, or retire it with the behavior that it breaks"
            raise Lost(f"{self.id}: {len(places)} places in {self.where} are {self.find.strip()!r}; {advice}")
        ((path, *_), (text, first, last)) = next(iter(places.items()))
        lines = text.encode().splitlines(keepends=True)
        start, end = (
            sum(map(len, lines[: line - 1])) + column
            for line, column in ((first.lineno, first.col_offset), (last.end_lineno, last.end_col_offset))
        )
        indented = textwrap.indent(self.replace, " " * first.col_offset).strip()
        new = f"({self.replace.strip()})" if isinstance(first, ast.expr) else indented
        after = (text.encode()[:start] + new.encode() + text.encode()[end:]).decode()
        if ast.dump(ast.parse(after)) == ast.dump(ast.parse(text)):
            raise Lost(f"{self.id}: what it replaces is the same; change `replace`")
        return path, after


def faults(path: Path = FAULTS) -> list[Fault]:
    return [Fault(**each) for each in yaml.safe_load(path.read_text(encoding="utf-8"))]


parsed = cache(ast.parse)


def definitions(root: Path, where: str) -> Iterator[tuple[Path, str, ast.AST]]:
    """Modules, classes and functions of a dotted name that ends so, wherever in the package they are."""
    for path in sorted([*root.glob("oodbench/**/*.py"), *root.glob("methods/*.py")]):
        text = path.read_text(encoding="utf-8")
        if all(part in f"{path} {text}" for part in where.split(".")):
            for name, definition in named(parsed(text), ".".join(path.relative_to(root).with_suffix("").parts)):
                if f".{name}".endswith(f".{where}"):
                    yield path, text, definition


def named(node: ast.AST, name: str) -> Iterator[tuple[str, ast.AST]]:
    yield name, node
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.ClassDef | ast.FunctionDef):
            yield from named(child, f"{name}.{child.name}")


def matches(definition: ast.AST, find: str) -> Iterator[tuple[ast.expr, ast.expr] | tuple[ast.stmt, ast.stmt]]:
    """Where the code is: an expression, or statements that follow each other, each time the first and the last node."""
    wanted = ast.parse(textwrap.dedent(find)).body
    dumps = [ast.dump(each) for each in wanted]
    for node in ast.walk(definition):
        if len(wanted) == 1 and isinstance(wanted[0], ast.Expr):
            if type(node) is type(wanted[0].value) and ast.dump(node) == ast.dump(wanted[0].value):
                yield node, node
            continue
        for body in (getattr(node, name, None) for name in ("body", "orelse", "finalbody")):
            for i in range(len(body) - len(wanted) + 1) if isinstance(body, list) else ():
                if type(body[i]) is type(wanted[0]) and [*map(ast.dump, body[i : i + len(wanted)])] == dumps:
                    yield body[i], body[i + len(wanted) - 1]


def test_files(root: Path, path: Path, fault: Fault) -> tuple[list[str], list[str]]:
    """The few that stand nearest to the code, and all others, the nearer first.

    Near is what is named after the module, then what stands in the folder that mirrors its own (or in that of methods,
    for what they share); among these, what names module and definition most often, in words that few files have.
    """
    inner = path.relative_to(root).parts[1:-1]
    homes = {inner[0] if inner else "tests", "methods" if fault.group == "method" else ""}
    words = {path.stem, path.stem.replace("_", "-"), *fault.where.split(".")}
    texts = {file: file.read_text(encoding="utf-8") for file in (root / "tests").rglob("test_*.py")}
    weights = {word: 1 / (1 + sum(word in text for text in texts.values())) for word in words}

    def distance(file: Path) -> tuple[bool, bool, float, Path]:
        named = sum(weight * texts[file].count(word) for word, weight in weights.items())
        return file.stem != f"test_{path.stem}", file.parent.name not in homes, -named, file

    files = [str(file.relative_to(root)) for file in sorted(texts, key=distance)]
    return files[:NEAR], files[NEAR:]


@dataclass
class Tree:
    """A copy, in which faults are planted one after the other."""

    root: Path
    workers: int
    timeout: float

    def fails(self, files: list[str], not_counted: Iterable[str] = ()) -> str | None:
        """The first test that does; `hang` if they do not end; None if all pass."""
        command = [sys.executable, "-m", "pytest", "-x", "-q", "-rfE", "--tb=no", "-p", "no:cacheprovider"]
        command += ["-m", "not slow and not gpu", *(["-n", str(self.workers)] if self.workers else []), *files]
        command += [f"--deselect={each}" for each in not_counted]
        environment = {**os.environ, "PYTHONPATH": str(self.root)}
        process = subprocess.Popen(
            command, cwd=self.root, env=environment, text=True, start_new_session=True,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip
        try:
            output = process.communicate(timeout=self.timeout)[0]
        except subprocess.TimeoutExpired:
            return "hang"
        finally:
            with suppress(ProcessLookupError):  # it has ended, and so have all that it started
                os.killpg(process.pid, signal.SIGKILL)
        if process.returncode in (0, 5):  # 5: all of them are left out
            return None
        failed = re.search(r"^(?:FAILED|ERROR) (\S+?(?:\[.*?\])?)(?: - |$)", output, flags=re.MULTILINE)
        if process.returncode not in (1, 2) or failed is None:
            raise RuntimeError(f"pytest ended with status {process.returncode}:\n{output[-2000:]}")
        return failed[1]

    def with_fault(self, fault: Fault, files: list[str], not_counted: Iterable[str]) -> str | None:
        path, after = fault.planted(self.root)
        before, lock = path.read_bytes(), self.root / "oodbench" / "identity.lock"
        listed = lock.read_bytes() if lock.exists() else b""
        try:
            self._write(path, after.encode())
            if listed:
                relist = [sys.executable, "benchmarks/fidelity/identity.py", "--same"]
                subprocess.run(relist, cwd=self.root, env={**os.environ, "PYTHONPATH": "."}, capture_output=True)
            return self.fails(files, not_counted)
        finally:
            self._write(path, before)
            if listed:
                lock.write_bytes(listed)

    def _write(self, path: Path, content: bytes) -> None:
        """Python tells the age of what it has compiled by the second."""
        path.write_bytes(content)
        for compiled in path.parent.glob(f"__pycache__/{path.stem}.*.pyc"):
            compiled.unlink()

    def catches(self, fault: Fault, files: list[str]) -> str | None:
        """The test that fails with the fault and passes without."""
        failing_anyway: list[str] = []
        while files:
            test = self.with_fault(fault, files, [*NOT_COUNTED, *failing_anyway])
            if test in (None, "hang") or self.fails([test]) is None:
                return test
            failing_anyway.append(test)
        return None


def run(chosen: list[Fault], root: Path, out: Path | None, jobs: int, workers: int, timeout: float, near: bool) -> dict:
    """What became of each fault; the file has all that is known after each of them."""
    records = json.loads(out.read_text()) if out is not None and out.exists() else {}
    trees: queue.Queue[Tree] = queue.Queue()

    def attempt(fault: Fault, is_near: bool) -> None:
        began, tree = time.monotonic(), trees.get()
        try:
            files = test_files(tree.root, fault.planted(tree.root)[0], fault)[0 if is_near else 1]
            test = tree.catches(fault, files)
        finally:
            trees.put(tree)
        seconds = round(records.get(fault.id, {}).get("seconds", 0) + time.monotonic() - began, 1)
        record = {"group": fault.group, "caught": test is not None, "by": test, "seconds": seconds, "near": is_near}
        records[fault.id] = record
        print(f"{fault.id}: {f'caught by {test}' if test else 'missed'}{' (near tests)' * is_near}", flush=True)
        if out is not None:
            out.parent.mkdir(parents=True, exist_ok=True)
            part = out.with_suffix(".part")
            part.write_text(json.dumps(records, indent=1) + "\n")
            part.replace(out)

    with tempfile.TemporaryDirectory(prefix="oodbench-faults-") as folder, ThreadPoolExecutor(jobs) as pool:
        for number in range(jobs):
            copy = Path(folder).resolve() / str(number)
            shutil.copytree(root, copy, symlinks=True, ignore=UNCOPIED)
            trees.put(Tree(copy, workers, timeout))
        for is_near in (True,) if near else (True, False):
            passed_near = [name for name, record in records.items() if record["near"] and not record["caught"]]
            left = [each for each in chosen if (each.id not in records if is_near else each.id in passed_near)]
            list(pool.map(lambda fault, is_near=is_near: attempt(fault, is_near), left))
    return {each.id: records[each.id] for each in chosen}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", metavar="ID", help="these faults, of which none may be missed")
    parser.add_argument("--list", action="store_true", help="print the faults and the rules that they break")
    parser.add_argument("--near", action="store_true", help="only the tests near to the code")
    parser.add_argument("--jobs", type=int, default=1, help="faults at a time, each in a copy of its own")
    parser.add_argument("--workers", type=int, default=0, help="processes for the tests of a fault (pytest -n)")
    parser.add_argument("--timeout", type=float, default=1800, help="seconds; tests that take longer count as failed")
    parser.add_argument("--out", type=Path, metavar="FILE", help="JSON; faults that it has are not planted again")
    given = parser.parse_args()
    chosen = [each for each in faults() if given.only is None or each.id in given.only]
    if given.only and len(chosen) < len({*given.only}):
        parser.error(f"unknown fault among {', '.join(given.only)}; see --list")
    if given.list:
        print("\n".join(f"{each.id} ({each.group}): {each.breaks}" for each in chosen))
        return 0
    try:
        for each in chosen:
            each.planted(ROOT)
    except Lost as error:
        print(error, file=sys.stderr)
        return 2
    found = run(chosen, ROOT, given.out, given.jobs, given.workers, given.timeout, given.near)
    is_below = False
    for group in ("method", "rest", "all"):
        own = {name: record for name, record in found.items() if group in ("all", record["group"])}
        missed = [name for name, record in own.items() if not record["caught"]]
        is_below |= len(missed) > (0 if given.only else MAY_MISS.get(group, len(own)))
        print(f"{group}: {len(own) - len(missed)} of {len(own)} caught{'; missed: ' * bool(missed)}{', '.join(missed)}")
    hanging = [name for name, record in found.items() if record["by"] == "hang"]
    if hanging:
        print(f"caught because the tests did not end: {', '.join(hanging)}")
    return int(is_below)


if __name__ == "__main__":
    sys.exit(main())
