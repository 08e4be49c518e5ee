"""Networks with their weights, by training and by result; one training or cell in any process; `oodbench.load`."""

import os
import re
import shutil
import subprocess
import sys
import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from command_line import assert_done, oodbench, smoke
from result_files import change as change_result
from stand_ins import arrays, data_in, keep

import oodbench as public
from oodbench.data import lookup, store
from oodbench.data.parts import build_parts
from oodbench.errors import UserError
from oodbench.learning.checkpoint import save_tensors
from oodbench.learning.loop import Failed
from oodbench.results.folder import read_folder
from oodbench.results.result import read
from oodbench.results.stored import read_scores
from oodbench.running import execution, plan, provenance, trained
from oodbench.running.provenance import weights_digest
from oodbench.running.reporting import Silent, Told
from oodbench.running.request import request
from oodbench.running.run import execute
from oodbench.running.session import Session

CPU = torch.device("cpu")
DIGITS = "msp,vim,scone,irm+knn,bn-adapt"
DOMAINS = "mtl,arm,mtl+knn"


def planned(folder, methods="scone", suite="digits-c", settings=("unseen-digits",), **more):
    asked = request(suite=suite, preset="smoke", methods=methods, settings=settings, results=folder, **more)
    return plan.plan(asked)


class Heard(Silent):
    """A reporter that remembers."""

    def __init__(self):
        self.trainings, self.results, self.notes = [], [], []

    def note(self, text):
        self.notes.append(text)

    def training(self, training, number, count, worker=""):
        self.trainings.append((training.trainer.label, number, count))

    def result(self, result):
        self.results.append(result.method)


@pytest.fixture(scope="module")
def domains(tmp_path_factory):
    """300 small images in three domains."""
    folder = tmp_path_factory.mktemp("data")
    with data_in(folder), pytest.MonkeyPatch.context() as patch:
        store.save("mnist", arrays(lookup.dataset("mnist"), np.random.default_rng(0)), "a test")
        keep(lookup.dataset("colored-mnist"), np.random.default_rng(1), patch)
        yield folder


@pytest.fixture(scope="module")
def digits(tmp_path_factory):
    """A results folder of several trainers and scorers."""
    folder = tmp_path_factory.mktemp("digits")
    heard = Heard()
    execute(planned(folder, DIGITS), CPU, heard)
    assert len(heard.results) == 5
    return folder


@pytest.fixture(scope="module")
def held_out(tmp_path_factory, domains):
    """One of trainers that add to the network and trainers that compare domains."""
    folder = tmp_path_factory.mktemp("held-out")
    execute(planned(folder, DOMAINS, "colored-mnist", ["covariate=plus90"]), CPU, Heard())
    return folder


@pytest.fixture
def copy(digits, tmp_path):
    return Path(shutil.copytree(digits, tmp_path / "results"))


def result_of(folder, method):
    return next(each for each in read_folder(folder)[0] if each.method == method)


def assert_scores_as_stored(loaded):
    result = loaded.result
    parts = build_parts(result.ran_suite, result.config.setting, result.seed)
    for split, stored in read_scores(result).items():
        again = loaded.score(getattr(parts, split).images)
        assert again.dtype == stored.scores.dtype and again.tobytes() == stored.scores.tobytes(), split


# Loading


@pytest.mark.parametrize("method", DIGITS.split(","))
def test_a_loaded_result_scores_every_test_split_as_it_is_stored(digits, method):
    loaded = public.load(result_of(digits, method), device="cpu")
    assert not loaded.model.training and not any(p.requires_grad for p in loaded.model.parameters())
    assert_scores_as_stored(loaded)


@pytest.mark.parametrize("method", DOMAINS.split(","))
def test_networks_that_their_trainers_extend_are_loaded_with_what_they_add(held_out, method):
    result = result_of(held_out, method)
    loaded = public.load(result.path, device="cpu")
    assert weights_digest(loaded.model) == result.weights
    assert loaded.model.state_dict().keys() != trained.build_model(result.ran_suite, 0).state_dict().keys()
    assert_scores_as_stored(loaded)


def test_a_result_may_be_loaded_in_another_process_by_its_path(digits):
    path = result_of(digits, "irm+knn").path
    code = f"""
        import oodbench, torch
        loaded = oodbench.load({str(path)!r}, device="cpu")
        print(torch.get_num_threads() > 0, loaded.scorer)
    """
    code = "\n".join(line.strip() for line in code.splitlines())
    out = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout
    assert out.startswith("True KNN(k=")


@pytest.mark.parametrize("images", [np.zeros((2, 1, 8, 8)), np.zeros((8, 8), np.uint8)])
def test_images_of_another_kind_are_refused(digits, images):
    with pytest.raises(UserError, match=r"the images are \w+ of shape .*; give uint8 of the shape \(N, C, H, W\)"):
        public.load(result_of(digits, "msp"), device="cpu").score(images)


def test_what_is_no_result_cannot_be_loaded(tmp_path):
    (tmp_path / "a.json").write_text("{}")
    with pytest.raises(UserError, match="a.json': not an oodbench result; give the JSON file of a result"):
        public.load(tmp_path / "a.json")


def test_a_result_whose_labelled_images_are_others_is_refused(copy):
    result = result_of(copy, "msp")
    change_result(result.path, lambda values: values["data"]["parts"]["labelled"].update(digest="0" * 16))
    with pytest.raises(UserError, match="the split 'labelled' differs from the one of .*; run it again with --force"):
        public.load(result.path, device="cpu")


def test_a_result_that_was_not_read_from_a_file_is_refused(digits):
    with pytest.raises(UserError, match="this result was not read from a file; read it with oodbench.read_results"):
        public.load(replace(result_of(digits, "msp"), path=None))


def test_a_failed_result_has_no_network(digits):
    with pytest.raises(UserError, match="'msp', seed 0, failed and has no network; run it again"):
        trained.of(replace(result_of(digits, "msp"), weights=None))


# Weights


@pytest.mark.parametrize("rename", [False, True], ids=["by the key", "by the digest of its weights"])
def test_a_network_is_there_under_its_key_and_under_another_name(copy, rename):
    result = result_of(copy, "scone")
    if rename:
        weights = copy / "weights"
        (weights / f"{result.training}.pt").rename(weights / "0123456789abcdef.pt")
    assert weights_digest(trained.of(result).model) == result.weights


def test_a_file_under_the_key_with_other_weights_is_not_taken_for_them(copy):
    result, other = result_of(copy, "scone"), result_of(copy, "msp")
    shutil.copy(copy / "weights" / f"{other.training}.pt", copy / "weights" / f"{result.training}.pt")
    with pytest.raises(UserError) as error:
        trained.of(result)
    assert str(error.value) == (
        f"the weights of 'scone', seed 0, are not in '{copy / 'weights'}'; train them again with --force: oodbench run "
        f"--suite digits-c --preset smoke --methods scone --setting unseen-digits --seeds 0 --results {copy} --force"
    )


def test_the_command_that_trains_again_does(copy):
    result = result_of(copy, "scone")
    shutil.rmtree(copy / "weights")
    with pytest.raises(UserError) as error:
        trained.of(result)
    assert_done(oodbench(*str(error.value).partition("oodbench ")[2].split()))
    assert weights_digest(trained.of(result_of(copy, "scone")).model) == result.weights


def test_a_training_has_its_network_or_says_what_to_do(digits, tmp_path):
    training = planned(digits).cells[0].training
    assert weights_digest(trained.of(training, digits).model) == result_of(digits, "scone").weights
    with pytest.raises(UserError, match=rf"the weights of 'scone', seed 0, are not in '{tmp_path}/.*; run its cells"):
        trained.of(training, tmp_path)


def test_a_file_of_weights_names_its_training_its_seed_and_its_data(digits):
    training = planned(digits).cells[0].training
    contents = torch.load(digits / "weights" / f"{training.key}.pt", weights_only=True)
    assert (contents["training"], contents["seed"], contents["data"]) == (training.key, 0, dict(training.marks))


def change(path, **values):
    contents = torch.load(path, weights_only=True)
    del contents["digest"]
    save_tensors(path, {**contents, **values})


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"training": "0" * 16}, "belongs to another training: its training is 0000000000000000, not "),
        ({"seed": 7}, "belongs to another training: its seed is 7, not 0"),
        ({"data": {"digits": "0" * 16}}, "belongs to another training: its images of 'digits' differ"),
        ({"model": {"head.bias": torch.ones(2)}}, "holds the weights of another network"),
        ({"model": 3}, "is damaged, or not a file of weights"),
        ({"surplus": 3}, "is damaged, or not a file of weights"),
        ({"log": {}}, "is damaged, or not a file of weights"),
        ({"log": [3]}, "is damaged, or not a file of weights"),
        ({"notes": []}, "is damaged, or not a file of weights"),
        ({"seconds": "long"}, "is damaged, or not a file of weights"),
        ({"seconds": float("nan")}, "is damaged, or not a file of weights"),
        ({"data": 3}, "is damaged, or not a file of weights"),
    ],
)
def test_weights_of_another_training_are_set_aside_and_trained_again(copy, values, message):
    result = result_of(copy, "scone")
    path = copy / "weights" / f"{result.training}.pt"
    change(path, **values)
    changed = path.read_bytes()
    training = planned(copy).cells[0].training
    with pytest.raises(UserError, match=message):
        trained.of(training, copy)
    heard = Heard()
    again = execution.train_one(training, Session(copy, CPU, Told(heard)))
    (noted,) = heard.notes
    assert re.search(f"{message}.*; it was renamed to '{path.name}.unreadable', and the training starts over", noted)
    assert weights_digest(again.model) == result.weights and heard.trainings == [("scone", 1, 1)]
    assert path.with_suffix(".pt.unreadable").read_bytes() == changed
    assert weights_digest(trained.of(result).model) == result.weights


def test_files_of_weights_that_do_not_name_their_training_are_still_read(copy):
    result = result_of(copy, "scone")
    path = copy / "weights" / f"{result.training}.pt"
    contents = torch.load(path, weights_only=True)
    torch.save({name: contents[name] for name in ("model", "log", "notes", "seconds")}, path)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        network = trained.of(planned(copy).cells[0].training, copy)
    assert weights_digest(network.model) == result.weights


# One training, one cell

SCRIPT = """
import sys
import torch
from pathlib import Path
from oodbench.running import execution, plan
from oodbench.running.reporting import Silent
from oodbench.running.request import request
from oodbench.running.session import Session

what, key, folder = sys.argv[1], sys.argv[2], Path(sys.argv[3])
planned = plan.plan(request(preset="smoke", methods="scone,msp", settings="unseen-digits", results=folder))
at = Session(folder, torch.device("cpu"))
if what == "train":
    execution.train_one(planned.all_trainings[key], at)
else:
    execution.score_one(next(cell for cell in planned.cells if cell.key == key), at)
"""


def fresh(what, key, folder):
    """In a process of its own, with threads of its own."""
    environment = {**os.environ, "OMP_NUM_THREADS": "2"}
    subprocess.run([sys.executable, "-c", SCRIPT, what, key, str(folder)], check=True, env=environment)


def test_trainings_and_cells_by_key_in_fresh_processes_give_what_a_run_gives(digits, tmp_path):
    made = planned(tmp_path, "scone,msp")
    scone, msp = made.cells
    fresh("train", scone.training.parent.key, tmp_path)
    fresh("train", scone.training.key, tmp_path)
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "weights").glob("*.pt")}
    assert len(before) == 2
    fresh("cell", msp.key, tmp_path)
    fresh("cell", scone.key, tmp_path)
    assert {path: path.stat().st_mtime_ns for path in (tmp_path / "weights").glob("*.pt")} == before
    for cell in made.cells:
        ours, theirs = read(cell.path), result_of(digits, cell.method.label)
        assert (ours.key, ours.weights, ours.metrics, ours.device) == (
            theirs.key, theirs.weights, theirs.metrics, theirs.device
        )  # fmt: skip
        a, b = read_scores(ours), read_scores(theirs)
        assert all(a[split].scores.tobytes() == b[split].scores.tobytes() for split in b)


def test_a_cell_alone_trains_what_it_needs(digits, tmp_path):
    (cell,) = planned(tmp_path).cells
    heard = Heard()
    result = execution.score_one(cell, Session(tmp_path, CPU, Told(heard)))
    assert result.weights == result_of(digits, "scone").weights
    assert heard.trainings == [("erm", 1, 1), ("scone", 2, 2)] and read(cell.path).status == result.status == "ok"


def test_a_parent_trains_under_its_own_name_before_its_child(tmp_path):
    heard = Heard()
    execute(planned(tmp_path), CPU, heard)
    assert heard.trainings == [("erm", 1, 2), ("scone", 2, 2)] and heard.results == ["scone"]


def test_two_names_of_one_method_have_a_result_each(tmp_path):
    made = planned(tmp_path, "erm,energy,erm+energy")
    assert len({cell.key for cell in made.cells}) == 1 and len({cell.name for cell in made.cells}) == len(made.cells)
    heard = Heard()
    execute(made, CPU, heard)
    assert heard.results == [cell.method.label for cell in made.cells] and all(cell.is_done() for cell in made.cells)


def test_a_parent_with_cells_of_its_own_comes_first_with_them(tmp_path):
    heard = Heard()
    execute(planned(tmp_path, "scone,woods,msp"), CPU, heard)
    assert heard.trainings == [("erm", 1, 3), ("scone", 2, 3), ("woods", 3, 3)]
    assert heard.results == ["msp", "scone", "woods"]


def test_a_parent_that_is_trained_already_is_not_counted(copy):
    heard = Heard()
    execute(planned(copy, "woods"), CPU, heard)
    assert heard.trainings == [("woods", 1, 1)]


def test_a_scorer_that_is_new_trains_nothing_and_its_training_is_named(copy):
    heard = Heard()
    before = {path: path.stat().st_mtime_ns for path in (copy / "weights").glob("*.pt")}
    execute(planned(copy, "scone+knn"), CPU, heard)
    assert heard.trainings == [("scone", 1, 1)] and heard.results == ["scone+knn"]
    assert {path: path.stat().st_mtime_ns for path in (copy / "weights").glob("*.pt")} == before


def test_a_training_that_failed_is_not_tried_again_by_each_of_its_cells(tmp_path, monkeypatch):
    tried = []

    def diverge(training, at, setting):
        tried.append(training.trainer.label)
        raise Failed("the loss became nan")

    monkeypatch.setattr(execution, "_train", diverge)
    results = execute(planned(tmp_path, "msp,knn,vim"), CPU, Heard())
    assert tried == ["erm"] and [each.error for each in results] == ["the loss became nan"] * 3


def test_force_trains_everything_once_more(copy):
    heard = Heard()
    made = planned(copy, "scone,msp", force=True)
    before = {path.name: path.stat().st_mtime_ns for path in (copy / "weights").glob("*.pt")}
    execute(made, CPU, heard)
    assert heard.trainings == [("erm", 1, 2), ("scone", 2, 2)] and heard.results == ["msp", "scone"]
    after = {path.name: path.stat().st_mtime_ns for path in (copy / "weights").glob("*.pt")}
    anew = {cell.training.key for cell in made.cells}
    assert {name for name in before if before[name] != after[name]} == {f"{key}.pt" for key in anew}


@pytest.mark.parametrize("force", [False, True])
def test_weights_that_are_given_are_not_counted_as_a_training(digits, tmp_path, force):
    weights = digits / "weights" / f"{result_of(digits, 'msp').training}.pt"
    made = planned(tmp_path, "scone", force=force, init=weights)
    heard = Heard()
    (result,) = execute(made, CPU, heard)
    assert heard.trainings == [("scone", 1, 1)] and result.weights == result_of(digits, "scone").weights
    assert weights_digest(trained.of(read(made.cells[0].path)).model) == result.weights


def test_a_network_that_was_given_is_not_stored(digits, tmp_path):
    weights = digits / "weights" / f"{result_of(digits, 'msp').training}.pt"
    made = planned(tmp_path, "msp", init=weights)
    execute(made, CPU, Heard())
    with pytest.raises(UserError, match="they were given with --init; leave it out to train such a network"):
        trained.of(read(made.cells[0].path))


def test_a_result_says_how_it_ran():
    flags = Session(Path("nowhere"), CPU, asked=request(compile=True, deterministic=True)).run_flags
    assert flags == ["deterministic"], "nothing is compiled on a CPU"


def test_a_result_says_where_its_weights_were_trained_if_that_was_elsewhere(tmp_path, monkeypatch):
    there = {"host": "h2", "cpu": "EPYC", "capability": "AVX2", "architecture": "x86_64"}
    with monkeypatch.context() as away:
        away.setattr(provenance, "machine", lambda: there)
        assert_done(smoke(tmp_path, "msp", "--setting", "unseen-digits"))
    assert_done(smoke(tmp_path, "msp,knn", "--setting", "unseen-digits"))
    by_method = {result.method: result for result in read_folder(tmp_path)[0]}
    assert by_method["msp"].machine == there and "trained_on" not in by_method["msp"].notes
    assert by_method["knn"].machine == provenance.machine() and by_method["knn"].notes["trained_on"] == "h2, EPYC"
