"""How long a plan takes: images counted, paces remembered, FLOPs listed."""

import dataclasses
import json
import re
import shlex
import sys
from pathlib import Path

import pytest
from command_line import assert_done, oodbench, python

from oodbench.config import suite as suites
from oodbench.config.cards import PACKAGE
from oodbench.data import counting
from oodbench.data.counting import Counts
from oodbench.data.parts import build_parts
from oodbench.running import costs, network_size
from oodbench.running import request as requests
from oodbench.running.costs import Costs, Pace
from oodbench.running.plan import plan
from oodbench.running.request import request


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("OODBENCH_DATA", str(tmp_path / "data"))
    return tmp_path / "data"


def asked(methods, preset="smoke", **more):
    return plan(request(suite="digits-c", preset=preset, methods=methods, results="nowhere", **more))


@pytest.mark.parametrize("preset", [None, "smoke"])
def test_images_are_counted_as_they_are_shared_out(preset):
    suite = suites.load("digits-c", preset)
    for setting in suite.settings:
        assert counting.counts(suite, setting) == counting.of_parts(build_parts(suite, setting, seed=0))


def test_sets_that_are_not_here_count_as_officially():
    suite = suites.load("cifar10-c")
    # Half of 50,000; 60 % of the other half, of 50,000 copies, and 70 % of 73,257; 10,000 twice, and 26,032.
    expected = Counts(25_000, (15_000, 30_000, 51_280), 46_032)
    assert counting.counts(suite, suite.settings[0]) == expected
    assert counting.image_shape(suite) == (3, 32)
    unknown = suites.load("imagenet100-c")
    assert counting.counts(unknown, unknown.settings[0]) is None


def test_costs_by_hand():
    planned = asked("msp,scone", settings="unseen-digits")
    found = costs.costs(planned, lambda *_: Pace(100.0, 1000.0), lambda *_: Counts(640, (126, 127, 173), 1000))
    erm, scone = found.trainings.values()
    assert erm == 3 * 10 * 64 / 100  # three epochs of ten batches of 64
    assert scone == 2 * 10 * 128 / 100  # two epochs, with as many wild images
    assert found.cells == 2 and found.cell == pytest.approx(1.1 * 1640 / 1000)
    assert found.seconds == erm + scone + 2 * found.cell
    assert found.longest == found.together(100) == erm + scone
    assert found.together(1) == found.seconds


def test_scorers_of_a_network_share_its_pass():
    of_one, of_three = (
        costs.costs(asked(methods, settings="unseen-digits"), lambda *_: Pace(1.0, 1.0))
        for methods in ("msp", "msp,knn,energy")
    )
    assert of_one.trainings.keys() == of_three.trainings.keys()
    assert of_three.cell * of_three.cells == pytest.approx(1.3 / 1.1 * of_one.cell * of_one.cells)


def test_what_nobody_knows_the_pace_of_has_no_time():
    assert costs.costs(asked("msp"), lambda *_: None) is None
    assert costs.durations(asked("msp", set=["network.width=17"])) == []


def test_a_pace_is_remembered_by_machine_network_and_recipe(home):
    planned = asked("msp")
    recipe = planned.suite.contents.recipes.scratch
    kind = costs.kind_of(planned.suite, recipe)
    assert costs.remembered("one")(planned.suite, recipe) is None
    costs.remember("one", {kind: Pace(5.0, 10.0)})
    costs.remember("one", {"another": Pace(1.0, 2.0)})
    costs.remember("other", {kind: Pace(7.0, 9.0)})
    assert costs.remembered("one")(planned.suite, recipe) == Pace(5.0, 10.0)
    assert costs.remembered("other")(planned.suite, recipe) == Pace(7.0, 9.0)
    for change in ({"batch_size": 8}, {"augment": "crop-flip"}):
        assert costs.remembered("one")(planned.suite, dataclasses.replace(recipe, **change)) is None
    for text in ("{", "[]", '{"one": 1}', '{"one": {"a": {"trained": "x"}}}'):
        (home / costs.REMEMBERED).write_text(text)
        assert costs.remembered("one")(planned.suite, recipe) is None
    costs.remember("one", {kind: Pace(5.0, 10.0)})
    assert costs.remembered("one")(planned.suite, recipe) == Pace(5.0, 10.0)


def test_what_a_dry_run_measures_is_what_show_says_without_torch(home):
    smoke = ("--suite", "digits-c", "--preset", "smoke", "--methods", "erm,scone", "--device", "cpu")
    assert "(measured)" not in assert_done(oodbench("show", "digits-c"))
    assert_done(oodbench("run", *smoke, "--dry-run", "--results", home / "none"))
    (kinds,) = json.loads((home / costs.REMEMBERED).read_text()).values()
    assert len(kinds) == 1 and all(pace["trained"] > 0 and pace["scored"] > 0 for pace in kinds.values())
    code = "import sys\nfrom oodbench.cli import main\nmain(['show', 'digits-c'])\nassert 'torch' not in sys.modules"
    assert " on this CPU (measured); " in assert_done(python("-c", code))


def test_a_gpu_without_a_precision_has_no_time_under_it():
    planned = asked("msp", precision="bf16")
    assert [each.where for each in costs.durations(planned)] == ["this CPU", "an A100"]


def test_a_measured_time_comes_before_those_that_are_estimated():
    planned = asked("msp")
    recipe = planned.suite.contents.recipes.scratch
    costs.remember(costs.cpu(1), {costs.kind_of(planned.suite, recipe): Pace(50.0, 100.0)})
    costs.remember("A GPU", {costs.kind_of(planned.suite, recipe): Pace(500.0, 1000.0)})
    found = costs.durations(planned)
    assert [(each.where, each.is_measured) for each in found] == [
        ("this CPU", True), ("A GPU", True), ("an A100", False), ("a T4", False)
    ]  # fmt: skip
    assert found[0].seconds == pytest.approx(10 * found[1].seconds)


def test_costs_without_trainings_are_nothing():
    assert Costs({}, 0.0).together(4) == 0.0


def test_the_listed_flops_are_what_torch_counts():
    """A failure means: run benchmarks/fidelity/flops.py --write."""
    sys.path.insert(0, str(suites.suite_files()["digits-c"].parent / "fidelity"))
    try:
        import flops
    finally:
        sys.path.pop(0)
    assert json.loads(costs.FLOPS.read_text()) == flops.counted()


def test_flops_of_a_linear_layer_by_hand():
    choice = suites.load("pacs", "cpu").contents.network
    assert network_size.flops(choice, 1280, 1) == 2 * 1280 * 256


ROW = re.compile(r"^\| [^|]+ \| `(oodbench run [^`]+)` \| (\d+) \| (\d+)[^|]* \|$", re.MULTILINE)


def test_the_hours_of_the_documents_are_those_of_the_estimate(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("cifar10_wrn_pretrained_epoch_99.pt").write_bytes(b"weights")
    checked = 0
    for command, *hours in ROW.findall((PACKAGE.parent / "docs" / "reproduction.md").read_text()):
        if "imagenet100" in command or "folder:" in command:  # whose number of images nobody has noted
            continue
        for precision, stated in zip(("fp32", "bf16"), hours, strict=True):
            words = [*shlex.split(command)[1:], "--precision", precision]
            assert_done(oodbench(*words, "--save-request", "asked.yaml"))
            (each,) = requests.read(Path("asked.yaml"))
            found = costs.costs(plan(each), costs.estimated_on(costs.A100))
            assert round(found.seconds / 3600) == int(stated), command
            checked += 1
    assert checked == 10


def test_the_assumptions_of_the_documents_are_those_of_the_code():
    text = (PACKAGE.parent / "docs" / "reproduction.md").read_text()
    rows = {"A100, float32": (costs.A100, "fp32"), "A100, TF32": (costs.A100, "tf32")}
    rows |= {"A100, bfloat16": (costs.A100, "bf16"), "T4, float32": (costs.T4, "fp32")}
    for name, (gpu, precision) in rows.items():
        peak, share = gpu.peak[precision] / 1e12, 100 * costs.REACHED[precision]
        assert f"| {name} | {peak:g} | {share:.0f} % |" in text
    assert f"{costs.CPU_THREAD / 1e12:g} TFLOPS reached" in text and f"at least {1000 * costs.STEP:g} ms" in text
