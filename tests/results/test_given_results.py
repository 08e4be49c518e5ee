"""Results of networks that users bring: without covariate or semantic rows, with a network in place of a training."""

import json
import re
import warnings
from dataclasses import MISSING, fields, replace
from pathlib import Path

import numpy as np
import pytest
from made_results import a_given_result, a_result, given_contents, given_run, with_scores

import oodbench
from oodbench.config.shipped import GROUPS, YOUR_NETWORK
from oodbench.config.suite import NONE, Setting, Suite
from oodbench.errors import UserError
from oodbench.results import resampling, statistics
from oodbench.results.best import choose, cost_order
from oodbench.results.ledger import Ledger
from oodbench.results.metrics import METRICS, Scored, evaluate
from oodbench.results.rescore import NotRescored, rescore, rescored
from oodbench.results.result import GivenRun, PartRead, Unreadable, as_json, read
from oodbench.results.stored import read_scores, write
from oodbench.running import trained
from oodbench.running.repeat import command

DOC = Path(__file__).parents[2] / "docs" / "results.md"
SETS = [("others", "snow"), ("others", NONE), (NONE, "snow"), (NONE, NONE)]  # semantic, covariate


def scored(scores, predictions, labels=None):
    return Scored(np.float64(scores), np.int16(predictions), None if labels is None else np.int16(labels),
                  np.full(len(scores), 0.75, np.float32))  # fmt: skip


ID = scored([0, 1, 2, 3], [0, 1, 1, 0], [0, 1, 1, 1])
SHIFTED = scored([1, 4], [0, 1], [0, 0])
SEMANTIC = scored([2, 5], [0, 1])


def test_without_covariate_rows_detection_and_the_accuracy_on_id_remain():
    alone, beside = evaluate(ID, semantic=SEMANTIC), evaluate(ID, SHIFTED, SEMANTIC)
    # Of eight pairs the 5 wins four and the 2 wins two and ties once.
    assert alone["auroc"] == (4 + 2 + 0.5) / 8 and alone["id_acc"] == 3 / 4
    assert list(alone) == ["id_acc", "fpr95", "auroc", "aupr_in", "aupr_out", "fpr95_ood_positive", "id_ece"]
    assert alone == {name: value for name, value in beside.items() if name in alone}
    needs_both = {"auroc_full", "fpr95_full", "covariate_flagged", "accepted_acc"}
    assert set(beside) - set(alone) == {"covariate_acc", "covariate_ece", *needs_both}
    assert list(beside) == list(METRICS)


def test_with_neither_kind_of_ood_rows_id_accuracy_and_calibration_remain():
    assert evaluate(ID) == {"id_acc": 3 / 4, "id_ece": 0.0}


def test_id_rows_need_labels_whatever_else_there_is():
    with pytest.raises(ValueError, match="need labels"):
        evaluate(replace(ID, labels=None))


@pytest.mark.parametrize("splits", [("id",), ("id", "covariate"), ("id", "semantic")])
def test_raw_scores_of_what_was_given_are_read_back(splits, tmp_path):
    every = {"id": ID, "covariate": SHIFTED, "semantic": SEMANTIC}
    path = tmp_path / "suite" / "setting" / "msp" / "r.json"
    found = read_scores(write(a_given_result(), path, {name: every[name] for name in splits}, []))
    assert tuple(found) == splits
    assert all(np.array_equal(found[name].scores, every[name].scores) for name in splits)


def test_raw_scores_without_id_rows_are_damaged(tmp_path):
    written = write(a_given_result(), tmp_path / "suite" / "setting" / "msp" / "r.json", {"semantic": SEMANTIC}, [])
    with pytest.raises(Unreadable, match="'id_scores' is missing"):
        read_scores(written)


@pytest.mark.parametrize("semantic, covariate", SETS)
def test_rescoring_gives_the_metrics_that_the_sets_allow(semantic, covariate, tmp_path):
    made = with_scores(a_given_result(semantic=semantic, covariate=covariate), tmp_path, [1, 1, 0, 1])
    written = replace(made, metrics={"id_acc": 0.1}, metrics_version=1)
    write(written, made.path, read_scores(made), [])
    assert rescore(made.path)
    again = read(made.path)
    assert again.metrics == made.metrics and again.metrics["id_acc"] == 3 / 4
    assert ("covariate_acc" in again.metrics, "auroc" in again.metrics) == (covariate != NONE, semantic != NONE)


def test_raw_scores_that_lack_a_part_of_the_result_are_not_its_own(tmp_path):
    made = with_scores(a_given_result(), tmp_path, [1, 1, 0, 1])
    parts = replace(made.data, parts={"covariate": PartRead(7, "digest", "snow")})
    with pytest.raises(NotRescored, match="for 0 covariate images, and it was made with 7"):
        rescored(replace(made, data=parts))
    (runs,) = Ledger([replace(made, data=parts)]).last_runs.values()
    assert statistics.columns({"msp": runs}, ["id_acc"])["id_acc"].samples["msp"].draws is None
    (runs,) = Ledger([made]).last_runs.values()
    assert statistics.columns({"msp": runs}, ["id_acc"])["id_acc"].samples["msp"].draws is not None


def test_every_metric_without_covariate_rows_has_an_interval(tmp_path):
    rng = np.random.default_rng(0)
    made = with_scores(
        a_given_result(), tmp_path, rng.random(60) < 0.8, id_scores=rng.normal(size=60),
        semantic_scores=rng.normal(1, 1, 40),
    )  # fmt: skip
    (runs,) = Ledger([made]).last_runs.values()
    names = list(made.metrics)
    columns = statistics.columns({"msp": runs}, names, draws=50)
    for name in names:
        found = statistics.interval(columns[name], "msp")
        assert found.kind == "images" and found.low <= made.metrics[name] <= found.high and found.low < found.high, name


def test_draws_of_detection_do_not_depend_on_covariate_rows():
    """The same images are drawn, whatever else was measured."""
    from oodbench.results.draws import Split

    raw = {"id": Split("a", ID), "semantic": Split("b", SEMANTIC)}
    beside = {**raw, "covariate": Split("c", SHIFTED)}
    for metric in ("auroc", "fpr95", "aupr_out", "id_acc"):
        assert np.array_equal(*(resampling.resample({metric: [each]}, 30)[metric] for each in (raw, beside)))


def test_a_given_result_reads_back_as_it_was_written(tmp_path):
    made = a_given_result(given=given_run(classes=[3, 1], weights=None, head=None, form="logits alone"))
    write(made, tmp_path / "r.json", {}, [])
    again = read(tmp_path / "r.json")
    assert again == made and again.config.given.classes == [3, 1] and again.config.given.weights is None
    assert again.group == YOUR_NETWORK not in GROUPS


def test_the_field_is_not_written_where_a_network_was_trained(tmp_path):
    text = as_json(a_result())
    assert "given" not in json.loads(text)["config"]
    (tmp_path / "r.json").write_text(text)
    assert read(tmp_path / "r.json").config.given is None


@pytest.mark.parametrize("field", [each.name for each in fields(GivenRun) if each.default is MISSING])
def test_a_given_network_that_lacks_a_field_is_no_result(field, tmp_path):
    values = json.loads(as_json(a_given_result()))
    del values["config"]["given"][field]
    (tmp_path / "r.json").write_text(json.dumps(values))
    with pytest.raises(Unreadable, match="damaged"):
        read(tmp_path / "r.json")


def test_the_page_lists_every_field_of_a_given_network():
    section = re.search(r"^## Networks that were given\n(.*?)(?=^##)", DOC.read_text(), re.M | re.S)[1]
    listed = re.findall(r"^\| `(\w+)` \|", section, re.M)
    assert listed == [each.name for each in fields(GivenRun)]


@pytest.mark.parametrize(
    "semantic, covariate, name",
    [
        ("others", NONE, "others"),
        ("others", "snow", "others"),
        (NONE, "snow", "covariate=snow"),
        (NONE, NONE, "id"),
        ("others", "rain", "others,covariate=rain"),
    ],
)
def test_settings_are_named_after_the_sets(semantic, covariate, name):
    contents = given_contents(("others",), ("snow", "rain") if covariate != NONE else ())
    setting = Setting(semantic, covariate, severity=1, pi_c=0.0, pi_s=0.0)
    assert Suite("photos", None, None, contents).setting_name(setting) == name


def test_a_given_network_is_not_to_be_had_from_its_result(tmp_path):
    made = with_scores(a_given_result(), tmp_path, [1, 1])
    for get in (oodbench.load, trained.of):
        with pytest.raises(UserError, match="^the network 'resnet18' was given and is not stored") as told:
            get(made)
        assert "oodbench.fit" in str(told.value) and "\n" not in str(told.value)


def test_the_command_evaluates_the_network_again():
    words, remarks = command(a_given_result("knn", "others", "snow"))
    assert words == (
        "oodbench evaluate --id folder:photos --covariate folder:snow --semantic folder:others --model timm:resnet18 "
        "--weights mine.safetensors --name resnet18 --head fc --scorers knn --cpu-threads 1"
    )
    assert any("digest-of-resnet18" in each for each in remarks) and any("'folder:'" in each for each in remarks)


def test_the_command_on_a_suite_names_suite_preset_and_setting():
    result = replace(a_given_result("knn", "unseen-digits", suite="digits-c"), preset="smoke")
    words, remarks = command(result)
    assert words.startswith("oodbench evaluate --suite digits-c --preset smoke --setting unseen-digits --model timm:")
    assert not any("folder:" in each for each in remarks)


def test_the_command_says_what_the_user_stated_and_changed():
    stated = {"mean": [0.5], "std": [0.25], "size": [32, 48], "stated_by": "the user"}
    result = a_given_result("knn", given=given_run(model="Net", weights=None, head=None, preprocessing=stated))
    scorer = replace(result.config.method.scorer, changed={"k": 5})
    method = replace(result.config.method, scorer=scorer)
    words, remarks = command(replace(result, config=replace(result.config, method=method)))
    assert "--mean 0.5 --std 0.25 --size 32x48 --scorers knn --set knn.k=5" in words
    assert "--model FILE.py:FUNCTION" in words and "--weights" not in words and "--head" not in words
    assert any(each.startswith("the network was 'Net' in Python") for each in remarks)


def scorers_on(folder, sets, **scores):
    """A result of every scorer on every set, with the scores of its semantic rows; ID rows score 0 to 99."""
    contents = given_contents(sets)
    return [
        with_scores(
            a_given_result(scorer, each, contents=contents), folder, np.ones(100), id_scores=np.arange(100),
            semantic_scores=np.asarray(own[each] if isinstance(own, dict) else own, float),
        )
        for scorer, own in scores.items()
        for each in sets
    ]  # fmt: skip


def test_the_best_scorer_is_that_with_the_highest_mean_over_the_semantic_sets(tmp_path):
    low, high = np.arange(100) + 5, np.arange(100) + 90
    results = scorers_on(tmp_path, ["a", "b"], msp={"a": high, "b": low}, knn={"a": high, "b": high})
    best = choose(results)
    assert (best.scorer, best.method, best.highest, best.sets, best.compared) == ("knn", "knn", "KNN", ("a", "b"), 2)
    # Of 100 x 100 pairs an OOD row loses, or ties half, only where an ID row is at least 90 above its own place.
    assert best.mean == pytest.approx(1 - (45 + 10 / 2) / 10_000) and best.difference_error == 0
    assert 0 < best.standard_error < 0.01
    assert "Among 2 scorers" in best.rule and "mean AUROC over the 2 semantic sets" in best.rule
    assert best.warning.startswith("The choice was made on a, b:")


def test_of_scorers_that_are_equally_good_the_cheapest_is_taken(tmp_path):
    rng = np.random.default_rng(0)
    shifted = np.arange(100) + 50.0
    one, other = (shifted + rng.normal(0, 30, 100) for _ in range(2))
    best = choose(scorers_on(tmp_path, ["a"], odin=one - 1, knn=one, gen=other, entropy=shifted - 40))
    assert (best.scorer, best.highest) == ("gen", "KNN")
    assert 0 < best.highest_mean - best.mean <= best.difference_error


def test_a_cheaper_scorer_that_is_worse_beyond_one_standard_error_is_not(tmp_path):
    shifted = np.arange(100) + 50.0
    best = choose(scorers_on(tmp_path, ["a"], knn=shifted, msp=shifted - 3))
    assert best.scorer == "knn"  # on the same images always a little better, though both means vary by far more
    assert best.standard_error > 0.02


def test_scorers_that_were_not_measured_on_every_set_do_not_compete(tmp_path):
    high = np.arange(100) + 90
    results = scorers_on(tmp_path, ["a", "b"], msp=high - 50, knn=high)
    assert choose([each for each in results if (each.method, each.setting) != ("knn", "b")]).scorer == "msp"


def test_a_set_beside_several_covariate_sets_counts_once(tmp_path):
    contents = given_contents(("a", "b"), ("snow", "rain"))
    results = []
    for semantic, covariate, scores in (("a", "snow", [9]), ("a", "rain", [9]), ("b", "snow", [-9])):
        made = a_given_result("msp", semantic, covariate, contents=contents)
        results.append(with_scores(made, tmp_path, [1, 1], semantic_scores=scores))
    assert choose(results).mean == 0.5


def test_without_raw_scores_only_equals_are_equal():
    def of(scorer, auroc):
        return a_given_result(scorer, metrics={"auroc": auroc, "fpr95": 1 - auroc})

    assert choose([of("knn", 0.9), of("msp", 0.9), of("odin", 0.8)]).scorer == "msp"
    best = choose([of("knn", 0.9001), of("msp", 0.9)])
    assert best.scorer == "knn" and np.isnan(best.standard_error)
    assert choose([of("knn", 0.9001), of("msp", 0.9)], "fpr95").mean == pytest.approx(0.0999)


def test_without_a_semantic_set_there_is_nothing_to_choose_by():
    assert choose([]) is None
    assert choose([a_given_result(semantic=NONE, metrics={"id_acc": 1.0})]) is None
    assert choose([a_given_result(status="failed", error="no")]) is None
    with pytest.raises(UserError, match="unknown metric to choose by 'aurok'.*auroc"):
        choose([], "aurok")


def test_cheaper_is_a_fixed_order_by_what_a_scorer_reads_and_needs():
    cost = cost_order()
    assert sorted(["odin", "mine", "gram", "knn", "rankfeat", "react", "vim", "msp", "energy"], key=cost) == [
        "energy", "msp", "react", "vim", "rankfeat", "knn", "gram", "odin", "mine",
    ]  # fmt: skip


def test_a_caller_may_state_another_order(tmp_path):
    high = np.arange(100) + 90
    results = scorers_on(tmp_path, ["a"], msp=high, knn=high)
    assert choose(results).scorer == "msp"
    assert choose(results, cost=lambda name: name != "knn").scorer == "knn"


def test_nothing_is_warned_about(tmp_path):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        choose(scorers_on(tmp_path, ["a"], msp=[200.0, 300.0], knn=[200.0, 201.0]))
