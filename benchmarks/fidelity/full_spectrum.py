"""Do distance scorers fall more than logit scorers when covariate-shifted images count as ID? And is the order of
scorers that of OpenOOD's leaderboard?

    python benchmarks/fidelity/full_spectrum.py results/reference

The fall of a scorer is its AUROC minus its full-spectrum AUROC. For every suite of the folder with many scorers on ERM:
the mean fall by what a scorer reads, the difference of distances and logits with its 95 % interval over seeds and
images, and Spearman's rank correlation of our AUROC with OpenOOD's, with a p-value by permutation.
"""

import sys
from pathlib import Path

import numpy as np
from scipy.stats import permutation_test, spearmanr

from oodbench.config.cards import READS
from oodbench.config.registry import Registry
from oodbench.results import statistics
from oodbench.results.folder import read_with
from oodbench.results.ledger import Ledger
from oodbench.results.samples import Sample, interval, mean_of

MANY = 15
DRAWS = 2_000
# OpenOOD 1.5, snapshot of July 2024: CIFAR-10, ResNet-18, cross-entropy, three seeds; mean near and far AUROC.
OPENOOD = {
    "relation": (89.77, 92.21), "dice": (78.34, 84.23), "react": (87.11, 90.42), "fdbd": (90.42, 93.16),
    "rmd": (89.80, 92.20), "temp-scale": (88.09, 90.97), "max-logit": (87.52, 91.10), "energy": (87.58, 91.21),
    "rankfeat": (79.46, 75.87), "msp": (88.03, 90.73), "kl-matching": (79.19, 82.68), "gen": (88.20, 91.35),
    "vim": (88.68, 93.48), "odin": (82.87, 87.96), "she": (81.54, 85.32), "knn": (90.64, 92.96),
    "gram": (58.66, 71.73), "ash": (75.27, 78.49), "scale": (82.55, 86.39), "gradnorm": (54.90, 57.55),
    "mahalanobis": (84.20, 89.72),
}  # fmt: skip


def samples(ledger: Ledger, setting: str) -> dict[str, tuple[Sample, Sample]]:
    """AUROC and full-spectrum AUROC of every scorer on ERM, by its name."""
    runs = {
        method: some
        for (method, where), some in ledger.last_runs.items()
        if where == setting and some.ok and some.ok[0].result.config.method.trainer.name == "erm" and method != "erm"
    }
    columns = statistics.columns(runs, ["auroc", "auroc_full"], DRAWS)
    plain, full = columns["auroc"].samples, columns["auroc_full"].samples
    return {method: (plain[method], full[method]) for method in plain if method in full}


def common_seeds(found: dict[str, tuple[Sample, Sample]]) -> dict[str, tuple[Sample, Sample]]:
    seeds = set.intersection(*({*plain.values} for plain, _ in found.values()))
    return {method: (plain.of(seeds), full.of(seeds)) for method, (plain, full) in found.items()}


def fall(found: dict[str, tuple[Sample, Sample]], methods: list[str]) -> Sample:
    return mean_of([found[method][0].minus(found[method][1]) for method in methods])


def correlation(found: dict[str, tuple[Sample, Sample]], column: int) -> tuple[float, float, int]:
    """Spearman's rho of our AUROC and OpenOOD's, its two-sided p-value, and of how many scorers."""
    both = [method for method in found if method in OPENOOD]
    ours = np.array([found[method][0].mean for method in both])
    theirs = np.array([OPENOOD[method][column] for method in both])
    tested = permutation_test(
        (ours,), lambda x: spearmanr(x, theirs).statistic, permutation_type="pairings", n_resamples=9_999, rng=0
    )
    return float(tested.statistic), float(tested.pvalue), len(both)


def main(folder: Path) -> int:
    reads = {name: card.reads for name, card in Registry().cards.items() if card.kind == "Scorer"}
    print("| setting | seeds | fall of logits | features and head | distances | distances − logits | rho near | far |")
    print("|---|---|---|---|---|---|---|---|")
    for suite, ledger in Ledger(read_with(folder, []).results).suites.items():
        for setting in dict.fromkeys(where for _, where in ledger.last_runs):
            found = samples(ledger, setting)
            if len(found) < MANY:
                continue
            found = common_seeds(found)
            groups = {kind: [method for method in found if reads.get(method) == kind] for kind in READS}
            falls = {kind: fall(found, methods) for kind, methods in groups.items() if methods}
            difference = falls["distances"].minus(falls["logits"])
            between = interval(difference)
            assert between is not None
            points = " | ".join(f"{100 * falls[kind].mean:.1f}" for kind in READS[:3])
            rhos = [correlation(found, column) for column in (0, 1)]
            rho = " | ".join(f"{value:.2f} (p {p:.3f}, {count})" for value, p, count in rhos)
            wide = f"{100 * between.mean:.1f} [{100 * between.low:.1f}, {100 * between.high:.1f}]"
            print(f"| {suite} / {setting} | {len(difference.values)} | {points} | {wide} | {rho} |")
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
