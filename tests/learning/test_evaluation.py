"""Evaluation as a whole: what is passed and scored, and in which pieces."""

import numpy as np
import torch

import oodbench
from oodbench.config.cards import load_class
from oodbench.config.registry import Registry
from oodbench.learning import evaluation, outputs
from oodbench.results.result import read_scores

KNN = load_class(Registry().card("knn"))
SCORERS = "msp,energy,odin,mahalanobis,vim,knn"


def run(folder):
    return oodbench.run("digits-c", SCORERS, ["unseen-digits"], preset="smoke", results=folder)


def test_a_large_split_is_scored_in_parts_with_the_same_scores(tmp_path, monkeypatch):
    at_once = run(tmp_path / "at-once")
    seen = []
    score = KNN.finish
    monkeypatch.setattr(evaluation, "ROWS", 7)
    monkeypatch.setattr(KNN, "finish", lambda knn, carried, out: seen.append(len(carried)) or score(knn, carried, out))
    in_parts = run(tmp_path / "in-parts")
    assert max(seen) == 7
    for one, other in zip(at_once, in_parts, strict=True):
        for part, scored in read_scores(one.path).items():
            np.testing.assert_allclose(read_scores(other.path)[part].scores, scored.scores, rtol=1e-5, atol=1e-7)


def test_the_confidence_of_every_image_is_stored_the_negated_score_of_msp(tmp_path):
    for result in run(tmp_path):
        splits = read_scores(result.path)
        assert splits.keys() == {"id", "covariate", "semantic"}
        for split, scored in splits.items():
            assert scored.confidence.dtype == np.float32 and scored.confidence.shape == scored.predictions.shape
            assert (scored.confidence >= 1 / 10).all() and (scored.confidence <= 1).all(), split
            if result.method == "msp":
                np.testing.assert_array_equal(scored.confidence, -scored.scores)


def test_on_a_cpu_large_images_pass_few_at_a_time(new_model):
    sizes = []
    model = new_model()
    model.features = lambda x: sizes.append(len(x)) or torch.zeros(len(x), model.head.in_features)
    for side, expected in ((32, 32), (28, 256)):
        sizes.clear()
        outputs.forward(model, torch.zeros(300, 1, side, side, dtype=torch.uint8))
        assert sizes[0] == expected and sum(sizes) == 300
