"""A run with a hostile plugin: its own cells fail or not, everybody else's numbers are those of a run without it."""

import json
import os
from pathlib import Path

import numpy as np
import pytest
import torch
from command_line import assert_done, smoke

from oodbench.learning.checkpoint import save_tensors
from oodbench.results.folder import read_folder
from oodbench.results.stored import read_scores

TRAINER = '''"""A trainer."""
import os, sys
from dataclasses import dataclass
import torch
from oodbench import Trainer


@dataclass
class Hostile(Trainer):
    """Does harm."""

    def train(self, model, data, loop):
        {before}
        super().train(model, data, loop)
        {after}
'''
SCORER = '''"""A scorer."""
import os, sys
from dataclasses import dataclass
import torch
from oodbench import Scorer


@dataclass
class Hostile(Scorer):
    """Does harm."""

    def fit(self, train):
        {fit}

    def score(self, out):
        {score}
        return out.logits[:, 0]
'''


def trainer(before: str = "pass", after: str = "pass") -> str:
    return TRAINER.format(before=before, after=after)


def scorer(fit: str = "pass", score: str = "pass") -> str:
    return SCORER.format(fit=fit, score=score)


OTHERS = "knn,vim,odin,mixup"


def _numbers(folder: Path) -> dict[str, object]:
    """Raw scores of every cell but those of the plugin, and the digests of the weights."""
    numbers = {}
    for each in read_folder(folder)[0]:
        if "hostile" not in each.method:
            scores = read_scores(each)
            arrays = {f"{split}.{name}": a for split, s in scores.items() for name, a in vars(s).items()}
            shown = {name: None if a is None else np.asarray(a).tobytes() for name, a in arrays.items()}
            numbers[f"{each.setting}/{each.method}"] = (each.weights, each.metrics, shown)
    return numbers


@pytest.fixture(scope="module")
def clean(tmp_path_factory):
    folder = tmp_path_factory.mktemp("clean")
    assert_done(smoke(folder, OTHERS))
    return _numbers(folder)


def run(tmp_path: Path, source: str, methods: str = f"hostile,{OTHERS}"):
    plugin = tmp_path / "hostile.py"
    plugin.write_text(source)
    return smoke(tmp_path / "results", methods, "--plugin", plugin)


def _errors(folder: Path) -> set[str]:
    return {each.error for each in read_folder(folder)[0] if each.status == "failed"}


@pytest.mark.slow  # A run for each kind of harm, each with processes of its own.
@pytest.mark.parametrize(
    ("source", "says"),
    [
        (trainer(before="data.labelled.y.clamp_(max=3)"), "the trainer changed data.labelled.y"),
        (trainer(before="data.labelled.images.numpy()[:] = 0"), "the trainer changed data.labelled.images"),
        (
            scorer(score="out.model.head.weight.mul_(2)"),
            "changed the network, which is to be the same for every image and scorer",
        ),
        (trainer(before="sys.exit(0)"), "ends the process, SystemExit(0); raise an exception instead"),
        (trainer(before="os._exit(0)"), "its worker was lost 3 times: worker 1 ended: status 0"),
        (scorer(score="raise KeyboardInterrupt"), "ends the process, KeyboardInterrupt()"),
        (scorer(score="sys.exit(0)"), "ends the process"),
        (trainer(after="loop.notes['t'] = torch.ones(2)"), "loop.notes['t'] cannot be written to a result"),
        (trainer(after="loop.notes['t'] = float('nan')"), "loop.notes['t'] cannot be written to a result"),
        (trainer(after="loop.log.append({'loss': float('inf')})"), "loop.log["),
        (trainer(after="loop.log[0]['domains'] = 5"), "loop.log.domains"),
        (trainer(after="raise ValueError('a' * 10**7 + chr(0xd800))"), "ValueError at"),
        (trainer(after="model.head.register_buffer('more', torch.ones(1))"), "add what a trainer needs in extend"),
    ],
)
def test_the_cell_of_the_culprit_fails_and_all_others_are_as_without_it(source, says, clean, tmp_path):
    outcome = run(tmp_path, source)
    assert outcome.status == 1 and "Traceback" not in outcome.out + outcome.err
    (error,) = _errors(tmp_path / "results")
    assert says in error and len(error) < 1200
    assert _numbers(tmp_path / "results") == clean
    after = assert_done(smoke(tmp_path / "results", OTHERS))  # without the plugin
    assert "nothing to do" in after and _numbers(tmp_path / "results") == clean


@pytest.mark.slow  # for the same reason
@pytest.mark.parametrize(
    "source",
    [
        scorer(fit="train.features.sub_(1); train.logits.zero_(); train.y.zero_(); train.images.zero_()"),
        scorer(score="out.features.numpy()[:] = 0; out.images.zero_(); out.logits.copy_(out.logits.flip(0))"),
        scorer(fit="train.model.register_forward_hook(lambda *_: torch.zeros(1))"),
        scorer(fit="train.model.head = torch.nn.Identity()"),
        scorer(fit="torch.backends.mkldnn.enabled = False"),
        scorer(score="torch.set_num_threads(2); torch.set_default_dtype(torch.float64); torch.manual_seed(3)"),
        trainer(after="torch.nn.functional.cross_entropy = lambda *a, **k: 1 / 0"),
        trainer(after="os.chdir('/'); os.environ.clear()"),
    ],
)
def test_what_a_plugin_changes_in_its_process_changes_no_other_number(source, clean, tmp_path):
    outcome = run(tmp_path, source)
    assert outcome.status in (0, 1) and "Traceback" not in outcome.out + outcome.err
    assert _numbers(tmp_path / "results") == clean


def test_a_network_is_scored_as_it_will_be_read_back(tmp_path):
    """A hook that a trainer leaves on its network would be gone the next time, and its numbers others."""
    source = trainer(after="model.head.register_forward_hook(lambda m, i, o: o * 0)")
    assert_done(run(tmp_path, source, "hostile"))
    first = {each.setting: each.metrics for each in read_folder(tmp_path / "results")[0]}
    for path in (tmp_path / "results").rglob("seed*.json"):
        path.unlink()
    assert_done(run(tmp_path, source, "hostile"))
    assert {each.setting: each.metrics for each in read_folder(tmp_path / "results")[0]} == first


def test_weights_name_the_training_the_seed_and_the_data_they_come_from(tmp_path):
    assert_done(smoke(tmp_path, "msp"))
    (path,) = (tmp_path / "weights").glob("*.pt")
    contents = torch.load(path, weights_only=True)
    assert contents["training"] == path.stem and contents["seed"] == 0
    assert set(contents["seen"]) == {"labelled.images", "labelled.y"} and set(contents["data"]) == {"digits"}


def test_weights_that_learned_from_other_data_are_trained_again(tmp_path):
    assert_done(smoke(tmp_path, "msp"))
    (path,) = (tmp_path / "weights").glob("*.pt")
    contents = torch.load(path, weights_only=True)
    del contents["digest"]
    digest = contents["seen"]["labelled.y"]
    save_tensors(path, {**contents, "seen": {**contents["seen"], "labelled.y": "0" * 16}})
    for result in tmp_path.rglob("seed*.json"):
        result.unlink()
    out = assert_done(smoke(tmp_path, "msp"))
    assert f"'{path}' was trained on other data: its 'labelled.y' differs" in out
    assert path.with_suffix(".pt.unreadable").exists()
    assert torch.load(path, weights_only=True)["seen"]["labelled.y"] == digest


def test_a_plugin_that_ends_its_process_when_it_is_imported_fails_alone(clean, tmp_path):
    source = scorer().replace("import os, sys", "import os, sys\nos._exit(0)")
    assert run(tmp_path, source).status == 1
    assert _errors(tmp_path / "results") == {"its worker was lost 3 times: worker 1 ended: status 0"}
    assert _numbers(tmp_path / "results") == clean


def test_an_endless_loop_ends_at_the_limit_of_time_before_the_training_and_after(clean, tmp_path):
    plugin = tmp_path / "hostile.py"
    plugin.write_text(scorer(score="[None for _ in iter(int, 1)]"))
    outcome = smoke(tmp_path / "results", f"hostile,{OTHERS}", "--plugin", plugin, "--timeout", "20")
    assert outcome.status == 1 and _errors(tmp_path / "results") == {"it took longer than --timeout 20"}
    assert _numbers(tmp_path / "results") == clean


def test_a_dry_run_imports_a_plugin_in_another_process_and_a_run_of_others_never_does(tmp_path):
    seen = tmp_path / "seen"
    note = f"import os, sys\nopen({str(seen)!r}, 'a').write(str(os.getpid()) + ' ')"
    plugin = tmp_path / "hostile.py"
    plugin.write_text(scorer().replace("import os, sys", note))
    assert smoke(tmp_path / "results", "msp", "--plugin", plugin).status == 0 and not seen.exists()
    assert smoke(tmp_path / "results", "hostile", "--plugin", plugin, "--dry-run").status == 0
    assert seen.read_text().split() and str(os.getpid()) not in seen.read_text().split()
    seen.unlink()
    assert smoke(tmp_path / "results", "hostile", "--plugin", plugin, "--here").status == 0
    assert {*seen.read_text().split()} == {str(os.getpid())}


def test_a_notes_file_keeps_what_json_can_hold(tmp_path):
    source = trainer(after="loop.notes |= {'list': (1, 2.5, 'x', None), 'inner': {'a': True}}")
    assert_done(run(tmp_path, source, "hostile"))
    stored = json.loads(next((tmp_path / "results").rglob("seed*.json")).read_text())
    assert stored["notes"]["list"] == [1, 2.5, "x", None] and stored["notes"]["inner"] == {"a": True}
