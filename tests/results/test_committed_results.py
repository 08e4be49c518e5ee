"""The results in the repository: readable, complete, and keyed by the code of today."""

from pathlib import Path

import pytest

from oodbench.config.registry import Registry
from oodbench.results.folder import read_folder
from oodbench.results.metrics import evaluate
from oodbench.results.result import read_scores
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
        assert cell.path == result.path


def test_metrics_follow_from_the_raw_scores():
    for result in RESULTS[::20]:
        assert evaluate(**read_scores(result.path)) == result.metrics, result.path
