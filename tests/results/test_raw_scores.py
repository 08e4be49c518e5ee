"""What is taken for raw scores, and what is told of everything else."""

import io
import os
import zipfile

import numpy as np
import pytest
from command_line import assert_refused, oodbench, plot
from made_results import a_result, with_scores

from oodbench.results.result import Unreadable, read_scores

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
    "'id_scores' is int32, not float16 or float32 or float64": changed(id_scores=np.arange(ROWS, dtype=np.int32)),
    "'id_scores' is >f4, not float16": changed(id_scores=IDS.astype(">f4")),
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


@pytest.mark.parametrize("reason", DAMAGES)
def test_arrays_that_no_run_writes_are_refused_with_the_reason(reason, tmp_path):
    np.savez_compressed(tmp_path / "r.npz", **DAMAGES[reason])
    with pytest.raises(Unreadable) as refused:
        read_scores(tmp_path / "r.json")
    assert str(refused.value).startswith(f"damaged: {reason}")


def test_what_a_run_writes_is_read_with_and_without_confidence_and_semantic_images(tmp_path):
    for left_out in ((), ("confidence",), ("semantic",)):
        written = {name: each for name, each in arrays().items() if not any(word in name for word in left_out)}
        np.savez_compressed(tmp_path / "r.npz", **written)
        scores = read_scores(tmp_path / "r.json")
        assert {
            f"{split}_{kind}" for split, own in scores.items() for kind, a in vars(own).items() if a is not None
        } == {*written}
        assert all(own.scores.flags.writeable for own in scores.values())


def test_scores_that_would_unpickle_are_refused(tmp_path):
    np.savez(tmp_path / "r.npz", **changed(id_scores=np.array([print] * ROWS, dtype=object)))
    with pytest.raises(Unreadable, match="holds Python objects, which could run code"):
        read_scores(tmp_path / "r.json")


def test_a_bomb_is_refused_before_it_unpacks(tmp_path):
    np.savez_compressed(tmp_path / "r.npz", **changed(id_scores=np.zeros(10_000_000, np.float32)))
    with pytest.raises(Unreadable, match="unpacks to far more than its size"):
        read_scores(tmp_path / "r.json")


def test_raw_scores_that_are_no_file_are_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "r.npz")
    with pytest.raises(Unreadable, match="not a file"):
        read_scores(tmp_path / "r.json")


def with_a_flipped_byte(path):
    """In the compressed bytes of an array, where Python's reader says `zlib.error`."""
    content = bytearray(path.read_bytes())
    with zipfile.ZipFile(io.BytesIO(content)) as packed:
        start = packed.getinfo("id_scores.npy").header_offset
    content[start + 80] ^= 0xFF
    path.write_bytes(content)


@pytest.fixture
def damaged(tmp_path):
    """A folder with two results, and the raw scores of one, which have a flipped byte."""
    with_scores(a_result(method="scone"), tmp_path / "results", np.arange(300) % 4 > 0)
    result = with_scores(a_result(method="woods"), tmp_path / "results", np.arange(300) % 3 > 0)
    scores = result.path.with_suffix(".npz")
    with_a_flipped_byte(scores)
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
