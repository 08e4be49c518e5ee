"""Numbers in, intervals and p-values out: the textbook part of the statistics. Two-sided, 95 %; rates in [0, 1].

scipy is imported when it is used: commands that need none of this do not wait for it.
"""

import math
from collections.abc import Hashable, Mapping
from typing import TypeVar

LEVEL = 0.05

Name = TypeVar("Name", bound=Hashable)


def t_quantile(degrees: float) -> float:
    """Of the half-width of an interval; degrees may be infinite."""
    from scipy.special import ndtri, stdtrit

    at = 1 - LEVEL / 2
    return float(stdtrit(degrees, at) if math.isfinite(degrees) else ndtri(at))


def t_test(estimate: float, standard_error: float, degrees: float) -> float:
    """The p-value of an estimate if the truth is 0."""
    from scipy.special import ndtr, stdtr

    if standard_error == 0:
        return 1.0 if estimate == 0 else 0.0
    ratio = -abs(estimate) / standard_error
    return float(2 * (stdtr(degrees, ratio) if math.isfinite(degrees) else ndtr(ratio)))


def clopper_pearson(successes: int, trials: int) -> tuple[float, float]:
    """The exact interval of a share."""
    from scipy.special import betaincinv

    failures = trials - successes
    low = float(betaincinv(successes, failures + 1, LEVEL / 2)) if successes else 0.0
    return low, float(betaincinv(successes + 1, failures, 1 - LEVEL / 2)) if failures else 1.0


def mcnemar(only_first: int, only_second: int) -> float:
    """The exact p-value of two methods on the same images, from those that only one of them gets right."""
    from scipy.special import bdtr

    trials = only_first + only_second
    return min(1.0, 2 * float(bdtr(min(only_first, only_second), trials, 0.5))) if trials else 1.0


def holm(p_values: Mapping[Name, float]) -> dict[Name, float]:
    """Adjusted for as many comparisons as there are: below .05, a difference holds beside all others."""
    adjusted: dict[Name, float] = {}
    largest = 0.0
    for i, name in enumerate(sorted(p_values, key=lambda each: p_values[each])):
        largest = max(largest, min(1.0, (len(p_values) - i) * p_values[name]))
        adjusted[name] = largest
    return {name: adjusted[name] for name in p_values}
