"""Bootstrap draws: against metrics of the very images drawn, against DeLong, and the same on every repetition."""

from dataclasses import replace

import numpy as np
import pytest

from oodbench.results import draws as image_draws
from oodbench.results.draws import Split, counts
from oodbench.results.metrics import Scored, accuracy, auroc, calibration_error, evaluate, fpr95
from oodbench.results.resampling import FEWER, resample
from oodbench.results.threshold_draws import _Thresholds


def made(seed, id_rows, ood_rows, decimals=6, images=""):
    """A cell of random scores; few decimals make ties."""
    random = np.random.default_rng(seed)

    def split(name, rows, shift, labelled=True):
        scores = np.round(random.normal(shift, 1, rows), decimals).astype(np.float32)
        predictions, labels = random.integers(0, 3, rows), random.integers(0, 3, rows)
        return Split(f"{name}{images}", Scored(scores, predictions, labels if labelled else None))

    return {
        "id": split("id", id_rows, 0),
        "covariate": split("covariate", id_rows, 0.5),
        "semantic": split("semantic", ood_rows, 1.5, labelled=False),
    }


def drawn_rows(split, draws):
    """The rows of each draw, one by one."""
    blocks = [block for _, block in counts(split.digest, split.rows, draws)]
    return [np.repeat(np.arange(split.rows), times.astype(int)) for times in np.concatenate(blocks)]


def scores_drawn(cell, name, draws):
    return [cell[name].scored.scores[rows] for rows in drawn_rows(cell[name], draws)]


def delong_covariance(cells):
    """Of AUROCs on the same images, from every pair of an ID and an OOD image, as DeLong et al. (1988) define it."""
    wins = []
    for cell in cells:
        gaps = cell["semantic"].scored.scores[None, :] - cell["id"].scored.scores[:, None]
        wins.append((gaps > 0) + 0.5 * (gaps == 0))
    by_id, by_ood = np.stack([w.mean(axis=1) for w in wins]), np.stack([w.mean(axis=0) for w in wins])
    return np.cov(by_id) / by_id.shape[1] + np.cov(by_ood) / by_ood.shape[1]


def test_a_draw_has_as_many_images_as_the_split_and_every_image_once_on_average():
    drawn = np.concatenate([block for _, block in counts("digest", 50, 1000)])
    assert drawn.shape == (1000, 50) and (drawn.sum(axis=1) == 50).all()
    assert np.allclose(drawn.mean(axis=0), 1, atol=0.15) and drawn.var() == pytest.approx(49 / 50, abs=0.03)


def test_draws_are_the_same_in_one_block_and_in_many(monkeypatch):
    (whole,) = list(counts("digest", 50, 40))
    monkeypatch.setattr(image_draws, "BLOCK", 150)
    monkeypatch.setattr(image_draws, "CHUNK", 100)
    blocks = list(counts("digest", 50, 40))
    assert [which.start for which, _ in blocks] == list(range(0, 40, 3)) and whole[0] == slice(0, 40)
    assert np.array_equal(np.concatenate([block for _, block in blocks]), whole[1])


def test_draws_follow_from_the_images_alone_and_fewer_are_the_first_of_many():
    many, few, others = (np.concatenate([b for _, b in counts(d, 20, n)]) for d, n in (("a", 90), ("a", 7), ("b", 7)))
    assert np.array_equal(many[:7], few) and not np.array_equal(few, others)


@pytest.mark.parametrize(
    ("id_rows", "ood_rows", "decimals"),
    [(433, 107, 6), (433, 107, 1), (10, 15, 6), (10, 7, 0), (30, 4, 1), (1, 3, 6), (300, 900, 0), (3000, 200, 3)],
)
def test_the_draws_of_fpr95_are_those_of_the_very_images_drawn(id_rows, ood_rows, decimals):
    cells = [made(seed, id_rows, ood_rows, decimals) for seed in (1, 2)]
    found = resample({"fpr95": cells}, 60)["fpr95"]
    for column, cell in zip(found.T, cells, strict=True):
        pairs = zip(scores_drawn(cell, "id", 60), scores_drawn(cell, "semantic", 60), strict=True)
        assert column.tolist() == [fpr95(*pair) for pair in pairs]


def test_a_draw_that_needs_images_beyond_the_window_widens_it():
    cell = made(3, 400, 100)
    narrow, usual = (_Thresholds(cell["id"].scored.scores, 60) for _ in range(2))
    narrow.window = 1
    for which, drawn in counts("id", 400, 60):
        narrow.consume(which, drawn)
        usual.consume(which, drawn)
    assert 20 < narrow.window < usual.window < 400
    assert np.array_equal(narrow.unflagged, usual.unflagged)


def test_the_draws_of_accuracies_are_those_of_the_very_images_drawn():
    cell = made(0, 200, 50)
    found = resample({"id_acc": [cell], "covariate_acc": [cell]}, 40)
    for metric, name in (("id_acc", "id"), ("covariate_acc", "covariate")):
        scored = cell[name].scored
        expected = [accuracy(scored.predictions[rows], scored.labels[rows]) for rows in drawn_rows(cell[name], 40)]
        assert found[metric][:, 0] == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("decimals", [6, 1])
def test_the_draws_of_auroc_vary_as_delong_says_and_as_those_of_the_very_images(decimals):
    cells = [made(seed, 400, 120, decimals) for seed in (1, 2)]
    cells[1]["id"].scored.scores[:] += cells[0]["id"].scored.scores  # paired: the two agree in part
    found = resample({"auroc": cells}, 4000)["auroc"]
    exact = [auroc(cell["id"].scored.scores, cell["semantic"].scored.scores) for cell in cells]
    assert found.mean(axis=0) == pytest.approx(exact, abs=0.002)
    # 400 and 120 images: the sample variances of DeLong are larger than a bootstrap's by 1/400 and 1/120.
    assert np.cov(found.T) == pytest.approx(delong_covariance(cells), rel=0.08)
    pairs = zip(*(scores_drawn(cells[0], name, 300) for name in ("id", "semantic")), strict=True)
    # The projection leaves out what the two sides change together: here within a tenth of the standard deviation.
    one_by_one = np.array([auroc(*pair) for pair in pairs])
    assert np.std(found[:300, 0] - one_by_one) < 0.1 * np.std(one_by_one)


def test_a_metric_without_a_way_of_its_own_is_computed_from_the_images_drawn():
    cell = made(0, 60, 40)
    found = resample({"aupr_out": [cell], "fpr95_full": [cell]}, 10_000)
    assert found["aupr_out"].shape == found["fpr95_full"].shape == (FEWER, 1)
    assert 0 < found["aupr_out"].std() < 0.2


@pytest.mark.parametrize("metric", ["covariate_flagged", "accepted_acc"])
def test_the_draws_of_flagged_covariate_images_are_exact_but_for_those_next_to_the_threshold(metric):
    cell = made(0, 500, 2000)
    found = resample({metric: [cell]}, 100)[metric][:, 0]
    expected = []
    for rows in zip(*(drawn_rows(cell[name], 100) for name in cell), strict=True):
        pairs = zip(cell.values(), rows, strict=True)
        some = [Scored(s.scored.scores[r], s.scored.predictions[r], s.scored.labels[r] if s.scored.labels is not None
                       else None) for s, r in pairs]  # fmt: skip
        expected.append(evaluate(*some)[metric])
    assert np.abs(found - expected).max() < 0.01 < np.std(expected) and np.mean(np.isclose(found, expected)) > 0.5


def test_a_draw_that_flags_every_covariate_image_has_no_accuracy_of_the_others():
    cell = made(0, 40, 40)
    cell["covariate"].scored.scores[1:] = 100
    found = resample({"accepted_acc": [cell]}, 100)["accepted_acc"][:, 0]
    has_number = np.isfinite(found)
    assert 0 < has_number.sum() < 100 and set(found[has_number]) == {float(cell["covariate"].correct[0])}


def test_calibration_errors_are_those_of_the_very_images_drawn():
    cell = made(0, 200, 50)
    scored = replace(cell["id"].scored, confidence=np.random.default_rng(0).random(200))
    cell["id"] = Split("id", scored)
    found = resample({"id_ece": [cell]}, 20)["id_ece"][:, 0]
    arrays = (scored.confidence, scored.predictions, scored.labels)
    expected = [calibration_error(*(array[rows] for array in arrays)) for rows in drawn_rows(cell["id"], 20)]
    assert found.tolist() == expected


def test_covariate_copies_of_id_images_are_drawn_with_them():
    """Scores that are equal on both: counting covariate rows as ID then changes nothing."""
    cell = made(0, 60, 40)
    cell["covariate"] = Split("id", cell["id"].scored)
    found = resample({"auroc_full": [cell], "auroc": [cell]}, 50)
    assert found["auroc_full"] == pytest.approx(found["auroc"], abs=1e-12)


def test_the_draws_of_the_full_spectrum_vary_as_those_of_the_very_images():
    cell = made(3, 400, 120)
    found = resample({"auroc_full": [cell]}, 300)["auroc_full"][:, 0]
    splits = (scores_drawn(cell, name, 300) for name in ("id", "covariate", "semantic"))
    exact = np.array([auroc(np.concatenate([id_, shifted]), ood) for id_, shifted, ood in zip(*splits, strict=True)])
    assert np.std(found - exact) < 0.1 * np.std(exact)


def test_a_repetition_gives_the_same_bits_whatever_else_is_asked_for():
    cells = [made(seed, 300, 90) for seed in range(3)]
    metrics = ("auroc", "fpr95", "id_acc")
    together = resample(dict.fromkeys(metrics, cells), 100)
    for metric in metrics:
        alone = np.concatenate([resample({metric: [cell]}, 100)[metric] for cell in cells], axis=1)
        assert np.array_equal(together[metric], alone)


def test_cells_with_images_of_their_own_vary_independently_and_those_with_the_same_together():
    shared = [made(1, 200, 100), made(1, 200, 100)]
    own = [made(1, 200, 100), made(1, 200, 100, images="'")]
    together, apart = (np.corrcoef(resample({"auroc": cells}, 2000)["auroc"].T)[0, 1] for cells in (shared, own))
    assert together == pytest.approx(1) and abs(apart) < 0.1
