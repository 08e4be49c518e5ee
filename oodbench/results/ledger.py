"""Results in, answers out: which there are by suite, method, setting and seed, which count, and which failed.

Reads no files: `folder` does. Imports no torch.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from pathlib import Path

from oodbench.errors import UserError, unknown
from oodbench.results.measurement import Runs, last_runs
from oodbench.results.result import MethodRun, Result

Place = tuple[str, str]  # a method and a setting


class Ledger:
    """Results, oldest first. Questions about methods and settings are for those of one suite: see `suites`."""

    def __init__(self, results: Iterable[Result], problems: Mapping[Path, str] | None = None) -> None:
        self.results = sorted(results, key=lambda each: (each.written, each.key))
        self.problems = dict(problems or {})  # files and folders that could not be read, and why

    def where(
        self,
        suite: str | None = None,
        method: str | None = None,
        setting: str | None = None,
        seed: int | None = None,
    ) -> "Ledger":
        """The results of this suite and preset, method, setting and seed; None is any."""
        wanted = (suite, method, setting, seed)
        return self.filtered(
            lambda each: all(
                value is None or value == own
                for value, own in zip(wanted, (each.suite_label, each.method, each.setting, each.seed), strict=True)
            )
        )

    def filtered(self, wanted: Callable[[Result], bool]) -> "Ledger":
        return Ledger([each for each in self.results if wanted(each)], self.problems)

    def narrowed(
        self,
        suites: Sequence[str] = (),
        settings: Sequence[str] = (),
        methods: Sequence[str] = (),
        seeds: Sequence[int] | None = None,
    ) -> "Ledger":
        """What these names leave, as tables have them; none named is all. A name that nothing has is refused."""
        rest = self._of("suite", suites, lambda each: each.suite_label)
        rest = rest._of("setting", settings, lambda each: each.setting)
        rest = rest._of("seed", [] if seeds is None else [*map(str, seeds)], lambda each: str(each.seed))
        return rest._of("method", methods, lambda each: each.method)

    def _of(self, kind: str, names: Sequence[str], name_of: Callable[[Result], str]) -> "Ledger":
        known = {name_of(each) for each in self.results} if names else set()
        for name in names:
            if name not in known:
                raise unknown(f"{kind} of these results", name, known)
        return self.filtered(lambda each: name_of(each) in names) if names else self

    @cached_property
    def suites(self) -> "dict[str, Ledger]":
        """A ledger for every suite and preset, by its label."""
        if not self.results:
            raise UserError("no results to show; run one with: oodbench run --suite digits-c --methods msp")
        groups: dict[str, list[Result]] = {}
        for each in self.results:
            groups.setdefault(each.suite_label, []).append(each)
        return {label: Ledger(groups[label]) for label in sorted(groups)}

    @property
    def newest(self) -> Result:
        return self.results[-1]

    @cached_property
    def places(self) -> dict[Place, list[Result]]:
        """Every result of a method and setting, oldest first."""
        groups: dict[Place, list[Result]] = {}
        for each in self.results:
            groups.setdefault((each.method, each.setting), []).append(each)
        return groups

    @cached_property
    def last_runs(self) -> dict[Place, Runs]:
        """What counts of each method and setting: the newest result of every seed, in the variant run last."""
        return {place: last_runs(results) for place, results in self.places.items()}

    def runs(self, method: str, setting: str, seeds: int | None = None) -> Runs | None:
        """What counts of one method and setting, of so many of the lowest seeds; None if it was not run."""
        runs = self.last_runs.get((method, setting))
        return None if runs is None else runs.lowest(seeds)

    @property
    def failed(self) -> list[Result]:
        """Cells whose last run failed."""
        return [each.result for runs in self.last_runs.values() for each in runs.failed]

    @property
    def settings(self) -> list[str]:
        return in_order(self.last_runs)

    @property
    def methods(self) -> dict[str, MethodRun]:
        """Each method as it ran last, by its label."""
        return methods_of(self.last_runs)


def as_ledger(results: "Ledger | Sequence[Result]") -> Ledger:
    return results if isinstance(results, Ledger) else Ledger(results)


def in_order(runs: Mapping[Place, Runs]) -> list[str]:
    """The settings in the order of the suite as it ran last; those it does not list after them, by name."""
    order = _newest_last(runs)[-1].settings_order if runs else []
    names = {setting for _, setting in runs}
    return [name for name in order if name in names] + sorted(names.difference(order))


def methods_of(runs: Mapping[Place, Runs]) -> dict[str, MethodRun]:
    return {each.method: each.config.method for each in _newest_last(runs)}


def examples_of(runs: Mapping[Place, Runs]) -> dict[str, Result]:
    """The newest result of each setting."""
    return {each.setting: each for each in _newest_last(runs)}


def _newest_last(runs: Mapping[Place, Runs]) -> list[Result]:
    return sorted((each.newest for each in runs.values()), key=lambda each: (each.written, each.key))
