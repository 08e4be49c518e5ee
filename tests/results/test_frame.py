"""Results as a DataFrame: one row per cell, and what `read_results` reads."""

import math
from dataclasses import asdict, replace
from pathlib import Path

import pytest
from command_line import python
from made_results import a_result

import oodbench
from oodbench.results.metrics import METRICS
from oodbench.results.result import Search, as_json

COMMITTED = Path(__file__).parents[2] / "results" / "reference"
RATES = {"covariate_acc": 0.75, "id_acc": 0.9, "fpr95": 0.25, "auroc": 0.5}
COLUMNS = """
suite preset setting method display group trainer scorer seed status draw semantic covariate severity
pi_c pi_s covariate_acc id_acc fpr95 auroc aupr_in aupr_out fpr95_ood_positive auroc_full fpr95_full
covariate_flagged accepted_acc id_ece covariate_ece seconds key variant training device written path
"""


def stored(folder, *results):
    for i, result in enumerate(results):
        (folder / f"{i}.json").write_text(as_json(result))
    return folder


@pytest.mark.parametrize("name", ["mnist-c", "pacs-cpu"])
def test_a_row_is_a_result_and_a_column_one_of_its_values(name):
    frame, results = oodbench.frame(COMMITTED / name), oodbench.read_results(COMMITTED / name)
    assert len(frame) == len(results) > 30 and frame["path"].tolist() == [str(r.path) for r in results]
    for row, result in zip(frame.to_dict("records"), results, strict=True):
        for field in ("suite", "setting", "method", "group", "seed", "status", "draw", "key", "variant", "training",
                      "device", "written"):  # fmt: skip
            assert row[field] == getattr(result, field)
        method = result.config.method
        assert (row["display"], row["trainer"], row["scorer"]) == (
            method.display, method.trainer.name, method.scorer.name
        )  # fmt: skip
        assert {field: row[field] for field in asdict(result.config.setting)} == asdict(result.config.setting)
        assert {name: row[name] for name in METRICS if not math.isnan(row[name])} == result.metrics
        assert row["seconds"] == pytest.approx(sum(result.seconds.values()))


def test_the_columns_are_these_whatever_was_run(tmp_path):
    expected = COLUMNS.split()
    assert oodbench.frame(tmp_path).columns.tolist() == expected and oodbench.frame(tmp_path).empty
    assert oodbench.frame(stored(tmp_path, a_result(metrics=RATES))).columns.tolist() == expected


def test_a_failed_cell_is_a_row_without_metrics(tmp_path):
    failed = a_result(method="msp", status="failed", error="diverged", seed=1)
    frame = oodbench.frame(stored(tmp_path, a_result(metrics=RATES, seconds={"train": 2.0, "score": 0.5}), failed))
    assert frame["status"].tolist() == ["ok", "failed"] and frame["seed"].tolist() == [0, 1]
    assert frame.loc[0, list(RATES)].tolist() == list(RATES.values()) and frame.loc[0, "seconds"] == 2.5
    assert frame.loc[1, [*METRICS, "seconds"]].isna().all() and frame["fpr95"].mean() == 0.25


def test_presets_and_draws_are_columns(tmp_path):
    result = a_result(preset="smoke", metrics=RATES)
    drawn = replace(result, config=replace(result.config, search=Search(3, "v")))
    frame = oodbench.frame(stored(tmp_path, result, drawn))
    assert frame["preset"].tolist() == ["smoke", "smoke"] and frame["draw"].tolist() == [0, 3]


def test_a_metric_of_another_version_is_a_column_and_none_replaces_what_ran(tmp_path):
    frame = oodbench.frame(stored(tmp_path, a_result(metrics={**RATES, "brier": 0.125, "suite": 0.5, "path": 0.5})))
    assert frame["brier"].tolist() == [0.125] and frame["suite"].tolist() == ["digits-c"]
    assert frame.columns.is_unique and frame["path"].tolist() == [str(tmp_path / "0.json")]


def test_pandas_waits_until_a_frame_is_asked_for():
    code = "import sys, oodbench; oodbench.frame; assert not {'pandas', 'torch'} & {*sys.modules}"
    assert python("-c", code) == (0, "", "")
