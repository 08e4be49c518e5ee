"""Results of oodbench 0.2: read as ever, found if they were edited, written as today when they are written again."""

import json
import os

import numpy as np
import pytest
from command_line import assert_done, oodbench
from made_results import a_result, with_scores
from result_files import as_schema_2, flip

from oodbench.config import identity
from oodbench.results import schema_2
from oodbench.results.folder import read_folder
from oodbench.results.result import Unreadable, read
from oodbench.results.stored import read_scores


@pytest.fixture
def today(tmp_path):
    made = a_result(metrics_version=identity.version_of("metrics"), key="0123456789abcdef")
    return read(with_scores(made, tmp_path / "results", np.arange(300) % 3 > 0).path)


@pytest.fixture
def old(today):
    as_schema_2(today.path)
    return today.path


def test_it_reads_as_what_it_was_written_from(today):
    scores = read_scores(today)
    as_schema_2(today.path)
    found = read(today.path)
    assert found.schema == 2 and found.metrics == today.metrics and found.config == today.config
    again = read_scores(found)
    for split, each in scores.items():
        assert np.array_equal(again[split].scores, each.scores)
        assert np.array_equal(again[split].predictions, each.predictions)


def edit(path, **metrics):
    values = json.loads(path.read_text())
    values["metrics"].update(metrics)
    path.write_text(json.dumps(values))


def test_an_edited_number_is_named_and_left_out_of_tables(old):
    edit(old, auroc=0.9999)
    results, problems = read_folder(old.parents[3])
    assert not results and "edited after it was written: auroc is 0.9999, and its raw scores" in problems[old]


def test_its_scores_are_read_once_and_the_digest_of_the_file_is_remembered(old, monkeypatch, tmp_path):
    monkeypatch.setenv("OODBENCH_DATA", str(tmp_path / "data"))
    read(old)
    noted = (tmp_path / "data" / "checked-results").read_text()
    monkeypatch.setattr(schema_2, "read_scores", lambda path: pytest.fail("read twice"))
    assert read(old).schema == 2
    schema_2._checked.cache_clear()  # as another process would
    assert read(old).schema == 2 and (tmp_path / "data" / "checked-results").read_text() == noted
    old.with_suffix(".npz").unlink()  # which tables do not need
    assert read(old).schema == 2


def test_an_edit_after_the_check_is_found(old, monkeypatch, tmp_path):
    monkeypatch.setenv("OODBENCH_DATA", str(tmp_path / "data"))
    auroc = read(old).metrics["auroc"]
    edit(old, auroc=auroc + 1e-6)
    with pytest.raises(Unreadable, match="edited after it was written"):
        read(old)


def test_without_raw_scores_or_with_metrics_of_another_version_nobody_can_tell(today, tmp_path):
    as_schema_2(today.path)
    edit(today.path, auroc=0.25)
    whole = today.path.with_suffix(".npz").read_bytes()
    flip(today.path.with_suffix(".npz"))
    assert read(today.path).metrics["auroc"] == 0.25
    with pytest.raises(Unreadable):
        read_scores(read(today.path))
    today.path.with_suffix(".npz").unlink()
    assert read(today.path).metrics["auroc"] == 0.25
    today.path.with_suffix(".npz").write_bytes(whole)
    values = json.loads(today.path.read_text())
    today.path.write_text(json.dumps({**values, "metrics_version": values["metrics_version"] - 1}))
    assert read(today.path).metrics["auroc"] == 0.25


def test_a_data_folder_that_cannot_be_written_costs_a_second_check_and_nothing_else(old, monkeypatch, tmp_path):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("OODBENCH_DATA", str(tmp_path / "file" / "data"))
    assert read(old).schema == 2


def test_rescoring_writes_it_as_today_and_takes_the_old_file_away(old):
    values = json.loads(old.read_text())
    del values["metrics"]["aupr_in"]
    old.write_text(json.dumps({**values, "metrics_version": 0}))
    assert_done(oodbench("rescore", old.parents[3]))
    again = read(old)
    assert again.schema == 3 and "aupr_in" in again.metrics and again.key == values["key"]
    assert not old.with_suffix(".npz").exists() and read_scores(again)


def test_a_merge_takes_it_as_it_is(old, tmp_path):
    assert_done(oodbench("merge", old.parents[3], "--into", tmp_path / "into"))
    (copied,) = read_folder(tmp_path / "into")[0]
    assert copied.schema == 2 and os.path.exists(copied.path.with_suffix(".npz"))
