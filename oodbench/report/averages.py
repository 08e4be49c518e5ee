"""The settings of a table in, the columns over several of them out: held-out domains, semantic sets, named groups."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from oodbench.config import suite as suites
from oodbench.config.suite import NONE
from oodbench.errors import UserError
from oodbench.report.sentences import AVERAGE
from oodbench.results.ledger import Place, examples_of
from oodbench.results.measurement import Runs
from oodbench.results.result import Result

Groups = Mapping[str, Sequence[str]]  # semantic sets by the name of a group


def averages(runs: Mapping[Place, Runs], settings: Sequence[str], groups: Groups | None = None) -> dict[str, list[str]]:
    """Titles and the settings that a mean is taken over; none where the settings differ in more than one thing.

    `groups` are those of the suite, where it is at hand.
    """
    examples = examples_of(runs)
    if _hold_out_one_domain_each(list(examples.values())):
        return {AVERAGE: list(settings)}
    if _differ_in_semantic_sets(list(examples.values())):
        sets = {setting: examples[setting].config.setting.semantic for setting in settings}
        named = groups if groups is not None else _groups_of(max(examples.values(), key=lambda each: each.written))
        over = {
            f"{AVERAGE} ({name})": [setting for setting in settings if sets[setting] in members]
            for name, members in sorted(named.items())
        }
        several = [(title, some) for title, some in over.items() if len(some) > 1]
        shown = dict(sorted(several, key=lambda each: settings.index(each[1][0])))  # as their settings stand
        return shown if list(settings) in shown.values() else {**shown, AVERAGE: list(settings)}
    return {}


def _hold_out_one_domain_each(examples: Sequence[Result]) -> bool:
    if len(examples) < 2 or any(len(each.held_out) != 1 for each in examples):
        return False
    rest = {replace(each.config.setting, covariate="") for each in examples}
    return len(rest) == 1 and len({each.held_out for each in examples}) == len(examples)


def _differ_in_semantic_sets(examples: Sequence[Result]) -> bool:
    sets = {each.config.setting.semantic for each in examples}
    rest = {replace(each.config.setting, semantic="") for each in examples}
    return len(rest) == 1 and len(sets) == len(examples) > 1 and NONE not in sets


def _groups_of(result: Result) -> Groups:
    """As the file of a suite of ours names them today; of a user's suite, whose file may lie anywhere, as it ran."""
    if result.suite in suites.suite_files():
        try:
            return suites.load(result.suite, result.preset).contents.groups
        except UserError:  # a table is of results, and a file that was broken since must not stand in its way
            pass
    return result.config.suite.groups
