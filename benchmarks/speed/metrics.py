"""The detection metrics beside scikit-learn's, on as many scores as CIFAR-10 and SVHN test images make.

    python benchmarks/speed/metrics.py

Both sides compute the same values, which is checked first. CPU time of one thread.
"""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

import sys
from collections.abc import Iterator

import numpy as np
from sklearn.metrics import average_precision_score, roc_auc_score, roc_curve
from timing import TURNS, Row, least, main

from oodbench.results.metrics import curve, detection


def rows(quick: bool) -> Iterator[Row]:
    rng = np.random.default_rng(0)
    id_scores, ood_scores = rng.normal(0, 1, 10000), rng.normal(1, 1, 26000)
    scores, is_ood = np.concatenate([id_scores, ood_scores]), np.repeat([0, 1], [10000, 26000])

    def ours() -> list[float]:
        found = curve(id_scores, ood_scores)
        return [found.auroc(), found.fpr95_ood_positive()]

    def theirs() -> list[float]:
        fpr, tpr, _ = roc_curve(is_ood, scores, drop_intermediate=False)
        return [roc_auc_score(is_ood, scores), fpr[np.argmax(tpr >= 0.95)]]

    def all_ours() -> list[float]:
        found = detection(id_scores, ood_scores)
        return [found[name] for name in ("auroc", "fpr95_ood_positive", "aupr_out", "aupr_in")]

    def all_theirs() -> list[float]:
        precisions = [average_precision_score(is_ood, scores), average_precision_score(1 - is_ood, -scores)]
        return [*theirs(), *precisions]

    np.testing.assert_allclose(ours(), theirs(), rtol=1e-12)
    np.testing.assert_allclose(all_ours(), all_theirs(), rtol=1e-12)
    sides = {"ours": ours, "theirs": theirs, "all ours": all_ours, "all theirs": all_theirs}
    spent = least(sides, 1 if quick else 4 * TURNS)
    two, five = spent["theirs"] / spent["ours"], spent["all theirs"] / spent["all ours"]
    yield Row("speed of AUROC and FPR95 of 36,000 scores : scikit-learn", two, 10, at_least=True)
    yield Row("speed of all five detection metrics : scikit-learn (four of them)", five, 10, at_least=True)


if __name__ == "__main__":
    sys.exit(main(rows, __doc__))
