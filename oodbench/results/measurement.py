"""Results in, what a table shows of them out: numbers of one method, setting and seed, and where they come from."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from oodbench.results.result import Result


@dataclass(frozen=True)
class Choice:
    """The epoch that a selection rule took."""

    draw: int
    epoch: int
    step: int
    is_last: bool  # of its training; only there are other metrics than accuracies known
    passed_over: int  # draws that failed, or lack what the rule compares them by


@dataclass(frozen=True)
class Measurement:
    """One method, setting and seed."""

    result: Result  # where it comes from
    metrics: dict[str, float]  # at the chosen epoch, or else at the end
    problem: str | None = None  # why there are none: the run failed, or nothing could be chosen
    draws: int = 0  # that a selection rule had to choose from; 0 where there was nothing to choose
    choice: Choice | None = None

    @property
    def seed(self) -> int:
        return self.result.seed


def at_the_end(result: Result) -> Measurement:
    """What a result itself says."""
    problem = None if result.status == "ok" else result.error or "no message"
    return Measurement(result, result.metrics, problem)


@dataclass(frozen=True)
class Runs:
    """One method in one setting, in the configuration that was run last: a measurement of each seed."""

    newest: Result
    measurements: list[Measurement]  # by seed
    left_out: int = 0  # results of other configurations

    @property
    def ok(self) -> list[Measurement]:
        return [each for each in self.measurements if each.problem is None]

    @property
    def failed(self) -> list[Measurement]:
        return [each for each in self.measurements if each.problem is not None]

    def lowest(self, seeds: int | None) -> "Runs":
        """So many of the lowest seeds; None is all."""
        return self if seeds is None else replace(self, measurements=self.measurements[:seeds])


def last_runs(results: Sequence[Result]) -> Runs:
    """Of one method and setting, oldest first: the newest result of every seed, in the variant run last."""
    newest = results[-1]
    by_seed = {each.seed: each for each in results if each.variant == newest.variant}
    left_out = sum(each.variant != newest.variant for each in results)
    return Runs(newest, [at_the_end(by_seed[seed]) for seed in sorted(by_seed)], left_out)
