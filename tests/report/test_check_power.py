"""A whole run against the reference results: by chance it differs in one check of twenty at most, broken it differs.

Breaks are made in a copy of the code, which then runs; those that raw scores show are made there, without a training.
"""

import os
import random
import re
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from command_line import oodbench

from oodbench.report import comparison, spread
from oodbench.report.spread import Spread
from oodbench.report.verdicts import Uncertainty, Verdict, judged
from oodbench.results.folder import read_folder
from oodbench.results.metrics import Scored, evaluate
from oodbench.results.result import as_json
from oodbench.results.stored import read_scores

ROOT = Path(__file__).parents[2]
REFERENCE = ROOT / "results" / "reference" / "digits-c"
SEEDS = (0, 1, 2)  # of `make demo`


@pytest.fixture(scope="module")
def reference():
    return read_folder(REFERENCE)[0]


@pytest.fixture(scope="module")
def demo(reference):
    """What `make demo` would write on the machine of the reference."""
    return [result for result in reference if result.seed in SEEDS]


def differing(results, expected):
    return {(v.row, v.metric) for v in comparison.with_results(results, expected) if v.status == "differs"}


def rescored(demo, method, change):
    """A run in which `change` happened to the raw scores of a method, or of all."""
    return [
        replace(each, metrics=evaluate(**{name: change(split) for name, split in read_scores(each).items()}))
        if method in (each.method, "all")
        else each
        for each in demo
    ]


def flipped(split: Scored) -> Scored:
    return replace(split, scores=-split.scores)


def shifted(split: Scored) -> Scored:
    return split if split.labels is None else replace(split, labels=(split.labels + 1) % 8)


def in_place_of(demo, method, other):
    """A run in which a method has the numbers of another."""
    numbers = {(each.setting, each.seed): each.metrics for each in demo if each.method == other}
    return [replace(e, metrics=numbers[e.setting, e.seed]) if e.method == method else e for e in demo]


def test_a_run_of_the_same_machine_agrees_wherever_it_can_be_told(reference, demo):
    assert differing(demo, reference) == set()


@pytest.mark.parametrize("method", ["energy", "knn", "mahalanobis", "oe"])
def test_a_flipped_sign_differs(method, reference, demo):
    found = differing(rescored(demo, method, flipped), reference)
    assert (method, "auroc") in found and {row for row, _ in found} == {method}


def test_labels_shifted_by_one_differ(reference, demo):
    found = differing(rescored(demo, "all", shifted), reference)
    assert {(each.method, "id_acc") for each in demo} <= found


def test_scone_that_is_no_more_than_bn_adapt_differs(reference, demo):
    assert differing(in_place_of(demo, "scone", "bn-adapt"), reference)


def test_a_network_that_adapts_its_statistics_differs_from_one_that_does_not(reference, demo):
    assert differing(in_place_of(demo, "energy", "bn-adapt"), reference)


def pretended(truth: Spread, generator: random.Random) -> Spread:
    """What as many runs as were measured would find, if the spread that was measured were the true one."""

    def found(points, freedom):
        return points * (generator.gammavariate(freedom / 2, 2) / freedom) ** 0.5  # a chi-square over its freedom

    def anew(each):
        freedoms = each.seeds - 1, each.seeds * (each.machines - 1)
        points = {m: [found(p, f) for p, f in zip(pair, freedoms, strict=True)] for m, pair in each.points.items()}
        return replace(each, points=points)

    suites = {
        label: replace(
            suite,
            settings={
                setting: {group: {m: anew(each) for m, each in methods.items()} for group, methods in groups.items()}
                for setting, groups in suite.settings.items()
            },
        )
        for label, suite in truth.suites.items()
    }
    return Spread(suites)


@pytest.mark.parametrize("no_worse", [False, True])
def test_a_whole_check_differs_by_chance_in_one_of_twenty_at_most(no_worse):
    """Three seeds on both sides, on machines as different as those that were measured; all cells on their own."""
    measured, generator, draws = spread.measured(), random.Random(0), 200
    truth = Spread({"digits-c": measured.suites["digits-c"]})
    stated, failed = comparison.bands().of("digits-c"), 0
    for _ in range(draws):
        found = pretended(truth, generator)
        verdicts = []
        for where, each in truth.cells:
            for metric, (_, points) in each.points.items():
                off = generator.gauss(0, (points or 0.0) / 100 * (2 / len(SEEDS)) ** 0.5)
                uncertainty = Uncertainty(found.of(where, metric, "machines"), len(SEEDS), sides=2)
                place = (where.label, "", where.setting, where.method, metric)
                verdicts.append(Verdict(*place, "cannot tell", off, 0.0, stated[metric], uncertainty))
        failed += any(v.status == "differs" for v in judged(verdicts, no_worse))
    assert failed / draws <= 0.05 + 2 * (0.05 * 0.95 / draws) ** 0.5


BREAKS = {
    "nothing": ("energy", r"return functional\.energy\(out\.logits, ", "return +functional.energy(out.logits, "),
    "knn without normalization": (
        "knn",
        r"return features / \(torch\.linalg\.vector_norm\(features, dim=-1, keepdim=True\) \+ 1e-10\)",
        "return features",
    ),
    "batch statistics of the test batch": (
        "energy",
        r"    model\.eval\(\)\n    features, logits = Collected\(\), Collected\(\)\n",
        "    for module in model.eval().modules():\n"
        "        module.training = isinstance(module, torch.nn.BatchNorm2d)\n"
        "    features, logits = Collected(), Collected()\n",
    ),
    "scone without its wild term": ("scone", r'return parts\["wild"\] \+ ', "return "),
    "labels shifted by one": ("energy", r"images\.labels\.astype\(np\.int16\)", "(images.labels + 1).astype(np.int16)"),
    "a flipped sign": ("energy", r"return functional\.energy\(out\.logits, ", "return -functional.energy(out.logits, "),
}


def broken_copy(folder, pattern, replacement):
    """The code with one passage replaced."""
    for name in ("oodbench", "methods", "benchmarks"):
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    texts = {path: path.read_text(encoding="utf-8") for path in folder.rglob("*.py")}
    (path,) = [path for path, text in texts.items() if re.search(pattern, text)]
    path.write_text(re.sub(pattern, replacement, texts[path]), encoding="utf-8")
    return folder


@pytest.mark.slow
@pytest.mark.parametrize("name", BREAKS)
def test_a_run_differs_if_its_code_is_broken(name, tmp_path, reference):
    """One method is broken, the others of the run are those of the reference: the check corrects for all of them."""
    method, pattern, replacement = BREAKS[name]
    code, results = broken_copy(tmp_path / "code", pattern, replacement), tmp_path / "results"
    command = [sys.executable, "-m", "oodbench", "run", "--suite", "digits-c", "--methods", method]
    command += ["--seeds", ",".join(map(str, SEEDS)), "--results", str(results)]
    environment = {**os.environ, "PYTHONPATH": str(code)}
    subprocess.run(command, check=True, capture_output=True, cwd=tmp_path, env=environment)
    for each in reference:
        if each.seed in SEEDS and each.method != method:
            target = results / "digits-c" / each.setting / each.method / each.path.name
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(as_json(each), encoding="utf-8")
    outcome = oodbench("check", results, "--against", REFERENCE.parent, "--complete")
    assert outcome.status == (name != "nothing")
    assert name == "nothing" or f"/ {method} /" in outcome.out.partition("\ndiffers:\n")[2]
    assert re.search(r"\n\d+ agree, \d+ differs?, \d+ cannot tell\n$", outcome.out)
