"""`oodbench rescore`: metrics of today for results of yesterday, from the raw scores beside them."""

import re
import shutil

import numpy as np
import pytest
from command_line import assert_done, assert_refused, oodbench
from made_results import a_result
from result_files import REFERENCE, change, change_arrays, flip, reference

from oodbench.config import identity
from oodbench.results import rescore as rescoring
from oodbench.results.folder import read_folder
from oodbench.results.metrics import METRICS
from oodbench.results.rescore import NotRescored, rescore
from oodbench.results.result import read
from oodbench.results.stored import read_scores, write

PARTS = ("id", "covariate", "semantic")
VERSION = identity.version_of("metrics")


@pytest.fixture
def folder(tmp_path):
    """Committed results of two methods and three seeds in one setting."""
    paths = reference(
        tmp_path,
        "digits-c",
        lambda each: each.setting == "unseen-digits" and each.method in ("msp", "knn") and each.seed < 3,
    )
    assert len(paths) == 6
    return tmp_path


@pytest.fixture
def old(folder):
    """One of them, as an earlier version of the metrics left it."""
    path = next(folder.rglob("seed0-*.json"))

    def edit(values):
        del values["metrics"]["aupr_in"]
        values["metrics_version"] = 0

    change(path, edit)
    return path


def files(folder):
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_committed_results_are_as_the_metrics_of_today_leave_them():
    for result in read_folder(REFERENCE)[0][::10]:
        assert result.has_current_metrics and rescoring.rescored(result) == result


def test_an_older_result_gets_the_metrics_of_today_and_nothing_else_changes(folder, old):
    before = read(old)
    others = {path: content for path, content in files(folder).items() if path != old}
    assert not before.has_current_metrics
    assert assert_done(oodbench("rescore", folder)) == f"metrics version {VERSION}: 1 rescored, 5 as before\n"
    after = read(old)
    assert after.metrics_version == VERSION and "aupr_in" in after.metrics
    assert {path: content for path, content in files(folder).items() if path != old} == others
    unchanged = {name: getattr(before, name) for name in vars(before) if name not in ("metrics", "metrics_version")}
    assert unchanged == {name: getattr(after, name) for name in unchanged}
    assert assert_done(oodbench("rescore", folder)) == f"metrics version {VERSION}: 0 rescored, 6 as before\n"


def test_a_new_metric_reaches_old_results(folder, monkeypatch):
    def evaluate(**scores):
        return {"id_rows": float(len(scores["id"].scores))}

    monkeypatch.setattr(rescoring, "evaluate", evaluate)
    assert assert_done(oodbench("rescore", folder)) == f"metrics version {VERSION}: 6 rescored, 0 as before\n"
    assert {r.metrics["id_rows"] for r in read_folder(folder)[0]} == {433.0}


def test_a_result_without_confidences_gets_what_its_scores_allow_and_one_with_them_its_calibration(old):
    change_arrays(old, **dict.fromkeys([f"{split}_confidence" for split in PARTS]))
    assert rescore(old) and METRICS.keys() - read(old).metrics.keys() == {"id_ece", "covariate_ece"}
    rows = {split: len(each.scores) for split, each in read_scores(read(old)).items()}
    change_arrays(old, **{f"{split}_confidence": np.ones(rows[split], np.float32) for split in PARTS})
    assert rescore(old) and read(old).metrics.keys() == METRICS.keys()
    for split in ("id", "covariate"):  # whoever is always certain is wrong by the share of errors
        assert read(old).metrics[f"{split}_ece"] == pytest.approx(1 - read(old).metrics[f"{split}_acc"], abs=1e-12)


def test_one_file_says_whether_it_changed(old):
    assert rescore(old) and not rescore(old)


def test_a_dry_run_writes_nothing(folder, old):
    before = files(folder)
    assert (
        assert_done(oodbench("rescore", folder, "--dry-run"))
        == f"metrics version {VERSION}: 1 would be rescored, 5 as before\n"
    )
    assert files(folder) == before


def scores_of(path):
    return path.with_suffix(".safetensors")


def truncate(path):
    scores_of(path).write_bytes(scores_of(path).read_bytes()[:300])


def cut_rows(path):
    found = {split: vars(each).items() for split, each in read_scores(read(path)).items()}
    halves = {f"{split}_{kind}": a[: len(a) // 2] for split, each in found.items() for kind, a in each if a is not None}
    change_arrays(path, **halves)


def lose_semantic(path):
    scores = read_scores(read(path))
    del scores["semantic"]
    write(read(path), path, scores, [])


def of_another(path):
    (other,) = path.parent.glob("seed1-*.safetensors")
    scores_of(path).write_bytes(other.read_bytes())


@pytest.mark.parametrize(
    ("damage", "reason"),
    [
        (lambda path: scores_of(path).unlink(), "it has no raw scores"),
        (truncate, "its raw scores cannot be read: damaged: "),
        (lambda path: flip(scores_of(path)), "its raw scores cannot be read: damaged: '"),
        (of_another, "its raw scores cannot be read: damaged: '"),
        (cut_rows, "its raw scores are for 216 covariate images, and it was made with 433"),
        (lose_semantic, "its raw scores are for 0 semantic images, and it was made with 107"),
    ],
)
def test_what_has_no_scores_or_damaged_ones_is_named_and_left_alone(folder, old, damage, reason):
    damage(old)
    before = files(folder)
    outcome = oodbench("rescore", folder)
    assert outcome.status == 1 and outcome.err.startswith(f"oodbench: not rescored '{old}': {reason}")
    assert outcome.err.count("\n") == 1
    assert outcome.out == f"metrics version {VERSION}: 0 rescored, 5 as before, 1 skipped\n"
    assert files(folder) == before
    with pytest.raises(NotRescored, match=re.escape(reason)):
        rescore(old)


def test_failed_cells_and_collections_are_left_alone(folder):
    failed = folder / "digits-c" / "unseen-digits" / "vim" / "failed.json"
    write(a_result(status="failed", error="no", metrics_version=0), failed, {}, [])
    shutil.copytree(folder / "digits-c", folder / "reference" / "digits-c")
    (folder / "reference" / "COLLECTION").write_text("reference")
    before = files(folder)
    expected = f"metrics version {VERSION}: 0 rescored, 6 as before, 1 failed, left alone\n"
    assert assert_done(oodbench("rescore", folder)) == expected and files(folder) == before


def test_a_folder_without_results_is_refused(tmp_path):
    assert_refused(oodbench("rescore", tmp_path), "there are no results in", "to rescore; name another folder")
