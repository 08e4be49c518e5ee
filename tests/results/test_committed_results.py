"""The results in the repository: readable, complete, and keyed by the code of today."""

import re
from pathlib import Path
from statistics import fmean

import pytest

from oodbench.config.registry import Registry
from oodbench.results.folder import read_folder
from oodbench.results.metrics import evaluate
from oodbench.results.stored import read_scores
from oodbench.running import plan

HOME = Path(__file__).parents[2] / "results" / "reference"
RESULTS, PROBLEMS = read_folder(HOME)
REGISTRY = Registry()


def test_every_committed_result_is_read():
    assert not PROBLEMS and len(RESULTS) > 200


@pytest.mark.parametrize("suite", sorted({result.suite_label for result in RESULTS}))
def test_the_key_of_a_result_follows_from_what_it_says_of_itself(suite):
    """So a run of today's code would count it as done: moving and rewriting code has changed no key."""
    for result in [each for each in RESULTS if each.suite_label == suite]:
        cell = plan.cell_of(result, REGISTRY, HOME)
        assert (cell.key, cell.variant, cell.training.key) == (result.key, result.variant, result.training)
        assert cell.path.relative_to(HOME).parts[-4:] == result.path.parts[-4:]


def test_metrics_follow_from_the_raw_scores():
    for result in RESULTS[::20]:
        assert evaluate(**read_scores(result)) == result.metrics, result.path


def test_rows_of_one_training_have_one_network():
    """Scorers that a table compares have scored the same weights: one digest for each training and seed of a suite."""
    weights: dict[tuple[str, str], set[str | None]] = {}
    for result in RESULTS:
        weights.setdefault((result.suite_label, result.training), set()).add(result.weights)
    assert {where: found for where, found in weights.items() if len(found) != 1} == {}
    scored = [each for each in RESULTS if each.suite_label.startswith(("digits-c-scorers", "mnist-c-scorers"))]
    assert len({each.method for each in scored}) > 30


def test_every_scorer_has_a_row_wherever_scorers_are_compared():
    """But those that need what the network lacks: feature maps, or features that are not negative."""
    newer = {"dirichlet-entropy"}  # than these results
    shipped = {name for name, card in REGISTRY.cards.items() if card.kind == "Scorer" and "ood-head" not in card.needs}
    shipped -= newer
    lacking = {
        "digits-c-scorers": set(),
        "mnist-c-scorers": set(),
        "cifar10-c-scorers": {"ash", "scale", "vra"},
        "pacs-photos": {"gram", "rankfeat"},
        "pacs-photos-pixels32": {"gram", "rankfeat"},
    }
    for suite, missing in lacking.items():
        rows = {(each.method, each.seed) for each in RESULTS if each.suite_label == suite}
        assert {method for method, _ in rows} == shipped - missing, suite
        assert len({seed for _, seed in rows}) >= 3
        assert len(rows) == len(shipped - missing) * len({seed for _, seed in rows})


@pytest.mark.parametrize("suite", sorted({result.suite_label for result in RESULTS}))
def test_the_tables_beside_results_have_their_means(suite):
    """A table is written by a run; results that are made anew elsewhere and copied leave an old one behind."""
    rates: dict[tuple[str, str], list[float]] = {}
    for each in RESULTS:
        if each.suite_label == suite and not each.domain_accuracies:  # of those, tables show a selected checkpoint
            rates.setdefault((each.setting, each.variant), []).append(100 * each.metrics["covariate_acc"])
    for name in ("table.md", "table.tex"):
        shown = {
            float(number) for number in re.findall(r"\d+\.\d\d", (HOME / suite / name).read_text(encoding="utf-8"))
        }
        lacking = [place for place, own in rates.items() if all(abs(each - fmean(own)) > 0.0051 for each in shown)]
        assert not lacking, name
