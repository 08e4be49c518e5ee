"""What a table makes of raw scores: intervals over seeds and images, what is bold, and means over several settings."""

import math
from dataclasses import replace

import numpy as np
import pytest
from made_results import a_result, with_scores
from reported_results import run
from scipy.stats import beta

from oodbench.report.render import render
from oodbench.report.tables import build
from oodbench.results import statistics
from oodbench.results.measurement import last_runs
from oodbench.results.result import EpochAccuracies
from oodbench.results.stored import read_scores


def correct(count, wrong=()):
    """Of so many images all but the `wrong` ones."""
    found = np.ones(count, bool)
    found[list(wrong)] = False
    return found


def scored(folder, method, wrong, seed=0, count=1000, **options):
    return with_scores(a_result(method=method, seed=seed), folder, correct(count, wrong), **options)


def table(results, metrics=("id_acc",), **options):
    (built,) = build(results, metrics, **options)
    return built


def bold(built):
    return {row.method for row in built.rows if row.cells[0].best}


def test_one_seed_carries_the_interval_over_images_and_says_what_it_leaves_out(tmp_path):
    built = table([scored(tmp_path, "msp", wrong=(0, 1), count=10)])
    (cell,) = built.rows[0].cells
    # 8 of 10 are correct; Clopper and Pearson's interval has its ends at quantiles of two beta distributions.
    low, high = beta.ppf(0.025, 8, 3), beta.ppf(0.975, 9, 2)
    assert (cell.interval.low, cell.interval.high) == (pytest.approx(low), pytest.approx(high))
    assert (cell.percent, cell.margin_percent) == ("80.00", f"{50 * (high - low):.2f}")
    assert built.seeds_line == (
        "One seed. ±: half of the 95 % interval over images only, which leaves out the variation between trainings."
    )


def test_several_seeds_carry_the_interval_over_seeds_and_images_together(tmp_path):
    # Of 1000 images 100 are wrong under both seeds, and 20 and 21 others under one of them: 12 % and 12.1 %.
    seeds = [range(120), [*range(100), *range(500, 521)]]
    built = table([scored(tmp_path, "msp", wrong, seed) for seed, wrong in enumerate(seeds)])
    (cell,) = built.rows[0].cells
    # Variance over seeds 0.001² / 2 / 2; images give both seeds alike the covariance (0.1 - 0.12 · 0.121) / 1000, which
    # is 340 times as much: normal quantile.
    margin = 1.96 * math.sqrt(0.001**2 / 4 + (0.1 - 0.12 * 0.121) / 1000)
    assert cell.percent == "87.95" and cell.interval.kind == "seeds and images"
    assert cell.interval.margin == pytest.approx(margin, rel=0.12)  # of 300 draws
    assert built.seeds_line == "Mean over 2 seeds. ±: half of the 95 % interval over seeds and images."
    records = render([built], "json")
    assert '"interval": "seeds and images"' in records and '"low"' in records


def test_a_table_of_several_kinds_of_intervals_says_which_is_which(tmp_path):
    both = [scored(tmp_path, "msp", range(10 + seed), seed) for seed in (0, 1)]
    alone = scored(tmp_path, "knn", range(5))
    lost = [scored(tmp_path, "vim", range(20 + seed), seed) for seed in (0, 1)]
    for each in lost:
        each.path.with_suffix(".safetensors").unlink()
    assert table([*both, alone, *lost]).seeds_line == (
        "Mean over 2 seeds; KNN: 1. ±: half of the 95 % interval over seeds and images; with one seed, over "
        "images only, which leaves out the variation between trainings; where a number has no raw scores, over seeds "
        "only."
    )
    by_metric = [replace(each, metrics=each.metrics | {"auroc": 0.5 + each.seed / 10}) for each in both]
    assert "; for AUROC, where a number has no raw scores, over seeds only." in table(
        by_metric, ("id_acc", "auroc")
    ).seeds_line  # fmt: skip


def test_raw_scores_are_read_once_for_all_metrics_and_not_at_all_without_images(tmp_path, monkeypatch):
    results = [scored(tmp_path, method, range(10 + seed), seed) for method in ("msp", "knn") for seed in (0, 1)]
    read = []
    monkeypatch.setattr("oodbench.results.statistics.read_scores", lambda each: read.append(each) or read_scores(each))
    table(results, ("covariate_acc", "id_acc", "fpr95", "auroc"))
    assert sorted(each.path for each in read) == sorted(each.path for each in results)
    assert table(results, images=False).rows[0].cells[0].interval.kind == "seeds" and len(read) == 4


def test_a_selected_checkpoint_has_an_interval_over_seeds_alone(tmp_path):
    """The raw scores are of the last one."""
    ends = [EpochAccuracies(epoch, epoch, {"a": 0.9 - epoch / 10}, {"b": 0.5}) for epoch in (1, 2)]
    results = [replace(scored(tmp_path, "erm", range(9), s), domain_accuracies=ends) for s in (0, 1)]
    results[1] = replace(results[1], domain_accuracies=[replace(ends[0], test={"b": 0.6}), ends[1]])
    built = table(results, ("covariate_acc",))
    assert built.rows[0].cells[0].percent == "55.00" and built.rows[0].cells[0].interval.kind == "seeds"


def significant(*results):
    """The methods that differ from the first, as `compare` tests them."""
    runs = {result.method: last_runs([result]) for result in results}
    compared = statistics.compare(statistics.columns(runs, ["id_acc"])["id_acc"], results[0].method)
    return {method for method, difference in compared.items() if difference.is_significant}


@pytest.mark.parametrize(("flipped", "expected"), [(5, set()), (6, {"knn"})])
def test_methods_on_the_same_images_are_compared_in_pairs(tmp_path, flipped, expected):
    # McNemar: 5 images that only the better one has right, p = 2 / 2^5 = 0.0625; 6: p = 2 / 2^6 = 0.031.
    results = [scored(tmp_path, "msp", range(100)), scored(tmp_path, "knn", range(100 + flipped))]
    assert significant(*results) == expected
    assert bold(table(results)) == {"msp"}  # the better mean, whether or not a test tells the two apart


def test_every_further_comparison_makes_it_harder_to_tell_rows_apart(tmp_path):
    # Two comparisons of p = 0.031 each: by Holm the smaller counts twice, 0.0625.
    best, knn = scored(tmp_path, "msp", range(100)), scored(tmp_path, "knn", range(106))
    assert significant(best, knn) == {"knn"}
    assert significant(best, knn, scored(tmp_path, "vim", [*range(100), *range(200, 206)])) == set()


def test_rows_that_share_a_network_are_one_comparison_and_the_table_says_so(tmp_path):
    best = scored(tmp_path, "msp", range(100))
    shared = [replace(scored(tmp_path, name, range(106)), weights="w") for name in ("knn", "vim")]
    assert significant(best, *shared) == {"knn", "vim"}
    built = table([best, *shared])
    assert bold(built) == {"msp"}
    (line,) = built.remarks
    assert "share one network per seed" in line and line.endswith(": ViM, KNN.")
    assert bold(table(shared)) == {"knn", "vim"}  # one number, twice the best
    assert table([best, *shared], ("auroc",)).remarks == []


def digits(semantic, seed, auroc, method="msp"):
    made = {"setting": {"semantic": semantic}}
    return a_result(method=method, setting=semantic, seed=seed, made=made, metrics={"auroc": auroc})


def test_several_semantic_sets_end_with_their_average():
    # Seed 0: (0.6 + 0.8) / 2 = 0.70. Seed 1: (0.66 + 0.78) / 2 = 0.72. Mean 0.71, standard error 0.01, t(1) = 12.706.
    values = {("unseen-digits", 0): 0.6, ("photo-patches", 0): 0.8, ("unseen-digits", 1): 0.66,
              ("photo-patches", 1): 0.78}  # fmt: skip
    results = [digits(*place, value) for place, value in values.items()]
    results.append(digits("unseen-digits", 0, 0.9, method="knn"))
    built = table(results, ("auroc",))
    assert built.settings == ["unseen-digits", "photo-patches", "Average"]
    average = built.rows[0].cells[-1]
    assert (average.percent, average.margin_percent, average.setting) == ("71.00", "12.71", "Average")
    assert [row.cells[-1].note for row in built.rows] == ["", "not run in every setting"]
    assert table(results[:1], ("auroc",)).settings == ["unseen-digits"]


def test_settings_that_differ_in_more_than_the_semantic_set_have_no_average():
    made = {"setting": {"semantic": "photo-patches", "severity": 5}}
    severe = a_result(setting="photo-patches,severity=5", made=made, metrics={"auroc": 0.5})
    assert "Average" not in table([digits("unseen-digits", 0, 0.5, "scone"), severe], ("auroc",)).settings


def test_groups_that_the_suite_names_have_an_average_of_their_own():
    far = [run(semantic="svhn", percent=(1, 1, 10, 1)), run(semantic="lsun-c", percent=(1, 1, 20, 1))]
    built = table(far, ("fpr95",))
    assert built.settings == ["svhn", "lsun-c", "Average (far)"]  # which is the average of all
    assert [cell.percent for cell in built.rows[0].cells] == ["10.00", "20.00", "15.00"]
    built = table([*far, run(semantic="mine", percent=(1, 1, 60, 1))], ("fpr95",))
    assert built.settings == ["svhn", "lsun-c", "mine", "Average (far)", "Average"]
    assert [cell.percent for cell in built.rows[0].cells[3:]] == ["15.00", "30.00"]


def test_a_suite_of_the_users_has_the_groups_it_ran_with_and_without_any_the_plain_average():
    results = [replace(each, suite="unknown") for each in (run(semantic="svhn"), run(semantic="lsun-c"))]
    assert table(results, ("fpr95",)).settings == ["svhn", "lsun-c", "Average (far)"]
    plain = [
        replace(each, config=replace(each.config, suite=replace(each.config.suite, groups={}))) for each in results
    ]
    assert table(plain, ("fpr95",)).settings == ["svhn", "lsun-c", "Average"]
    assert table(plain, ("fpr95",), groups={"both": ["svhn", "lsun-c"]}).settings[-1] == "Average (both)"


def test_an_average_of_raw_scores_is_over_seeds_and_images(tmp_path):
    results = [
        with_scores(
            digits(semantic, seed, 0.5), tmp_path, correct(50, range(5 + seed)), semantic_scores=[0.0, 1.0, 1.0]
        )
        for semantic in ("unseen-digits", "photo-patches")
        for seed in (0, 1)
    ]
    assert table(results).rows[0].cells[-1].interval.kind == "seeds and images"
