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


def averages(runs: Mapping[Place, Runs], settings: Sequence[str]) -> dict[str, list[str]]:
    """Titles and the settings that a mean is taken over; none where the settings differ in more than one thing."""
    examples = examples_of(runs)
    if _hold_out_one_domain_each(list(examples.values())):
        return {AVERAGE: list(settings)}
    if _differ_in_semantic_sets(list(examples.values())):
        sets = {setting: examples[setting].config.setting.semantic for setting in settings}
        groups = {
            f"{AVERAGE} ({name})": [setting for setting in settings if sets[setting] in members]
            for name, members in _groups_of(examples[settings[0]]).items()
        }
        shown = {title: some for title, some in groups.items() if len(some) > 1}
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


def _groups_of(result: Result) -> Mapping[str, Sequence[str]]:
    """As the suite's file names them today; results do not carry them."""
    if result.suite not in suites.suite_files():
        return {}
    try:
        return suites.load(result.suite).contents.groups
    except UserError:  # a table is of results, and a file that was broken since must not stand in its way
        return {}
