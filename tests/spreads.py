"""Spreads for tests of `oodbench check`, as if they had been measured."""

from oodbench.report.spread import MethodSpread, Spread, SuiteSpread

FOUR = ("covariate_acc", "id_acc", "fpr95", "auroc")


def method(over_seeds, between_machines=None, seeds=11, machines=3):
    """In points of percent, the same for every metric."""
    return MethodSpread(seeds, machines, {metric: [over_seeds, between_machines] for metric in FOUR})


def even(over_seeds, between_machines=None, seeds=1001):
    """The same for every method of every suite; known well, unless there are few seeds."""
    measured = method(over_seeds, between_machines, seeds)
    return Spread({"some-suite": SuiteSpread("some-suite", {"anywhere": {"some group": {"some-method": measured}}})})
