"""What is taken for raw scores, and what is told of everything else, in files of today and of schema 2."""

import os
from dataclasses import replace

import numpy as np
import pytest
from command_line import assert_refused, oodbench, plot
from made_results import a_result, with_scores
from result_files import flip

from oodbench.results import raw_scores, schema_2
from oodbench.results.metrics import Scored
from oodbench.results.result import Unreadable
from oodbench.results.stored import read_scores

ROWS = 40


def arrays():
    random = np.random.default_rng(0)
    made = {}
    for split in ("id", "covariate", "semantic"):
        made[f"{split}_scores"] = random.normal(0, 1, ROWS).astype(np.float32)
        made[f"{split}_predictions"] = random.integers(0, 5, ROWS).astype(np.int16)
        made[f"{split}_confidence"] = random.random(ROWS).astype(np.float32)
        if split != "semantic":
            made[f"{split}_labels"] = random.integers(0, 5, ROWS).astype(np.int16)
    return made


def changed(**values):
    """The arrays with these in place of theirs, without those that are None."""
    return {name: array for name, array in {**arrays(), **values}.items() if array is not None}


def one_wrong(array, value):
    return np.concatenate([array[:-1], np.array([value], array.dtype)])


IDS = arrays()["id_scores"]
CLASSES = arrays()["id_predictions"]
DAMAGES = {
    "'id_scores' is missing": changed(id_scores=None),
    "'covariate_labels' is missing": changed(covariate_labels=None),
    "'semantic_predictions' is missing": changed(semantic_predictions=None),
    "'semantic_labels' is none of its arrays": changed(semantic_labels=CLASSES),
    "'surplus' is none of its arrays": changed(surplus=CLASSES),
    "'id_scores' is int32, not uint16 or uint32 or float16": changed(id_scores=np.arange(ROWS, dtype=np.int32)),
    "'id_predictions' is int64, not int16": changed(id_predictions=CLASSES.astype(np.int64)),
    "'id_labels' is float32, not int16": changed(id_labels=CLASSES.astype(np.float32)),
    "'semantic_confidence' is float64, not float32": changed(semantic_confidence=np.ones(ROWS)),
    "'id_predictions' has the shape (39,), not (40,)": changed(id_predictions=CLASSES[1:]),
    "'id_scores' has the shape (20, 2), not (20,)": changed(id_scores=IDS.reshape(20, 2)),
    "'id_scores' are not all finite": changed(id_scores=one_wrong(IDS, np.nan)),
    "'covariate_scores' are not all finite": changed(covariate_scores=one_wrong(IDS, np.inf)),
    "'id' has a class below 0": changed(id_predictions=one_wrong(CLASSES, -1)),
    "'covariate' has a class below 0": changed(covariate_labels=one_wrong(CLASSES, -1)),
    "'id_confidence' is not between 0 and 1": changed(id_confidence=one_wrong(arrays()["id_confidence"], 1.5)),
}


def of_today(path, arrays):
    """Read from files that name these very arrays, whatever they are."""
    named = raw_scores.digests_of(arrays)
    result = replace(a_result(), arrays=named, network=raw_scores.network_digest(named), path=path)
    own = {name: array for name, array in arrays.items() if raw_scores.is_own(name)}
    path.parent.mkdir(parents=True, exist_ok=True)
    path.with_suffix(".safetensors").write_bytes(raw_scores.packed(own))
    shared = path.parent.parent / f"network-{result.network}.safetensors"
    shared.write_bytes(raw_scores.packed({name: array for name, array in arrays.items() if name not in own}))
    return read_scores(result)


def of_schema_2(path, arrays):
    path.parent.mkdir(parents=True, exist_ok=True)
    np.savez_compressed(path.with_suffix(".npz"), **arrays)
    return read_scores(replace(a_result(), schema=2, path=path))


FORMATS = pytest.mark.parametrize("stored", [of_today, of_schema_2])


@FORMATS
@pytest.mark.parametrize("reason", DAMAGES)
def test_arrays_that_no_run_writes_are_refused_with_the_reason(reason, stored, tmp_path):
    with pytest.raises(Unreadable) as refused:
        stored(tmp_path / "suite" / "setting" / "msp" / "r.json", DAMAGES[reason])
    assert str(refused.value).startswith(f"damaged: {reason}")


@FORMATS
def test_what_a_run_writes_is_read_with_and_without_confidence_and_semantic_images(stored, tmp_path):
    for left_out in ((), ("confidence",), ("semantic",)):
        written = {name: each for name, each in arrays().items() if not any(word in name for word in left_out)}
        scores = stored(tmp_path / "suite" / "setting" / "msp" / "r.json", written)
        assert {
            f"{split}_{kind}" for split, own in scores.items() for kind, a in vars(own).items() if a is not None
        } == {*written}
        assert all(own.scores.flags.writeable for own in scores.values())


def test_scores_that_would_unpickle_are_refused(tmp_path):
    np.savez(tmp_path / "r.npz", **changed(id_scores=np.array([print] * ROWS, dtype=object)))
    with pytest.raises(Unreadable, match="holds Python objects, which could run code"):
        schema_2.read_scores(tmp_path / "r.json")


def test_a_bomb_is_refused_before_it_unpacks(tmp_path):
    np.savez_compressed(tmp_path / "r.npz", **changed(id_scores=np.zeros(10_000_000, np.float32)))
    with pytest.raises(Unreadable, match="unpacks to far more than its size"):
        schema_2.read_scores(tmp_path / "r.json")


def test_raw_scores_that_are_no_file_are_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "r.npz")
    with pytest.raises(Unreadable, match="not a file"):
        schema_2.read_scores(tmp_path / "r.json")
    os.mkfifo(tmp_path / "r.safetensors")
    with pytest.raises(Unreadable, match="cannot be read: Not a regular file"):
        read_scores(replace(a_result(), arrays={"id_scores": "0" * 16}, path=tmp_path / "r.json"))


def test_a_changed_bit_in_any_array_is_found_when_it_is_read(tmp_path):
    result = with_scores(a_result(), tmp_path, np.arange(300) % 3 > 0)
    own, shared = result.path.with_suffix(".safetensors"), *tmp_path.rglob("network-*.safetensors")
    for file in (own, shared):
        whole = file.read_bytes()
        for place in (0.5, 0.7, 0.95):
            flip(file, place)
            with pytest.raises(Unreadable, match="damaged: '.*' is not what the result names"):
                read_scores(result)
            file.write_bytes(whole)
    assert read_scores(result)


def test_ranks_keep_order_and_ties_over_all_splits():
    given = {"id_scores": np.array([0.5, -1.0, 0.5]), "semantic_scores": np.array([7.0, 0.5]), "id_labels": CLASSES[:3]}
    ranks = raw_scores.ranked(given)
    assert [*ranks["id_scores"]] == [1, 0, 1] and [*ranks["semantic_scores"]] == [2, 1]
    assert ranks["id_scores"].dtype == np.uint16 and ranks["id_labels"] is given["id_labels"]
    many = raw_scores.ranked({"id_scores": np.arange(70_000.0)[::-1]})["id_scores"]
    assert many.dtype == np.uint32 and many[0] == 69_999 and many[-1] == 0


def test_a_digest_is_that_of_type_shape_and_values_on_any_machine():
    array = np.arange(6, dtype="<f4")
    assert raw_scores.digest_of(array) == raw_scores.digest_of(array.astype(">f4"))
    others = [array.astype("<f8"), array.reshape(2, 3), array[::-1], -array]
    assert len({raw_scores.digest_of(each) for each in (array, *others)}) == 5


def test_a_contradiction_names_the_metric_and_both_numbers():
    scores = {
        "id": Scored(np.float64([0, 1]), np.int16([0, 1]), np.int16([0, 0])),
        "semantic": Scored(np.float64([2, 0.5]), np.int16([0, 0])),
    }
    told = {"id_acc": 0.5, "fpr95": 0.0, "auroc": 0.75}
    true = raw_scores.evaluate(**scores)
    assert raw_scores.contradiction(true, scores) is None and true["auroc"] == 0.75
    assert raw_scores.contradiction({**true, "auroc": 0.75 + 1e-12}, scores) is None
    assert raw_scores.contradiction({**true, "auroc": 0.8}, scores) == "auroc is 0.8, and its raw scores give 0.75"
    assert raw_scores.contradiction({**true, "id_acc": 1.0, "auroc": 0.8}, scores).endswith(" (and 1 more)")
    assert "'aupr_in' is missing" in raw_scores.contradiction(told, scores)
    assert "'made_up'" in raw_scores.contradiction({**true, "made_up": 0.1}, scores)


@pytest.fixture
def damaged(tmp_path):
    """A folder with two results, and the raw scores of one, which have a flipped byte."""
    with_scores(a_result(method="scone"), tmp_path / "results", np.arange(300) % 4 > 0)
    result = with_scores(a_result(method="woods"), tmp_path / "results", np.arange(300) % 3 > 0)
    scores = result.path.with_suffix(".safetensors")
    flip(scores)
    return tmp_path / "results", scores


def test_a_figure_of_damaged_scores_is_refused_in_one_line(damaged):
    folder, scores = damaged
    assert_refused(plot(folder, "--only", "energies"), f"the raw scores '{scores}' cannot be read: damaged: ")


@pytest.mark.parametrize("command", [["table"], ["compare", "--baseline", "woods"]])
def test_tables_name_damaged_scores_once_and_go_on(damaged, command):
    folder, scores = damaged
    outcome = oodbench(command[0], folder, *command[1:])
    assert outcome.status == 0 and "WOODS" in outcome.out
    (line,) = outcome.err.splitlines()
    assert line.startswith(f"oodbench: ignored the raw scores '{scores}': damaged: ")
