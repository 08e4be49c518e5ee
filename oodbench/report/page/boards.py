"""Results in, boards out: results that may stand in one ranking, and what they have in common.

Suite, preset and collection keep results apart as in tables. A board is narrower than a table: it has one protocol, one
set of versions and one kind of machine. What a result does not record keeps it from no board.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from oodbench import digests
from oodbench.results.ledger import Ledger
from oodbench.results.result import Result
from oodbench.results.selection import by_protocol

VERSIONS = ("oodbench", "torch")
PROCESSOR = ("cpu", "capability", "architecture")
SEMANTIC = "with a semantic set"  # the part of a suite whose other results measure generalization alone


@dataclass(frozen=True)
class Board:
    """Results of one suite and preset that may be ranked together."""

    id: str  # in addresses
    suite: str  # as tables name it, with its preset
    part: str  # of the suite's results, if they fill two tables
    ledger: Ledger
    last_only: bool  # whether only the last checkpoint of a training counts
    facts: dict[str, str]  # what all of its results have in common, by what it is
    apart: str = ""  # by which of these it differs from other boards of the suite

    @property
    def title(self) -> str:
        return ", ".join(filter(None, [self.suite, self.part, self.apart]))


@dataclass
class _Group:
    facts: dict[str, str] = field(default_factory=dict)
    results: list[Result] = field(default_factory=list)

    def takes(self, facts: dict[str, str]) -> bool:
        return all(self.facts.get(name, value) == value for name, value in facts.items())


def boards(ledger: Ledger) -> list[Board]:
    """By suite; of one suite those with the newest result first."""
    made = []
    for suite, own in ledger.suites.items():
        kinds = by_protocol(own)
        for some, last_only in kinds:
            part = SEMANTIC if last_only and len(kinds) > 1 else ""
            groups = _groups(some.results)
            for group in groups:
                others = [other for other in groups if other is not group]
                made.append(
                    Board(
                        id=_id(suite, part, group.facts if others else {}),
                        suite=suite,
                        part=part,
                        ledger=Ledger(group.results),
                        last_only=last_only,
                        facts=group.facts,
                        apart=_differing(group, others),
                    )
                )
    return made


def facts_of(result: Result) -> dict[str, str]:
    """What must be equal for two results to be ranked together, as far as it is recorded."""
    contents, given = result.config.suite, result.config.given
    facts = {name: result.versions.get(name, "") for name in VERSIONS}
    facts["device"] = result.device
    facts["processor"] = ", ".join(filter(None, (result.machine.get(name) for name in PROCESSOR)))
    facts["precision"] = contents.precision
    if given is None:  # of those that were given, each row has its own
        options = ", ".join(f"{key}={value}" for key, value in sorted(contents.network.options.items()))
        facts["network"] = f"{contents.network.name} {f'({options})' if options else ''}".strip()
    facts["metrics"] = f"version {result.metrics_version}"
    facts["ID images"] = _words(vars(contents.id))
    facts["division"] = _words({**vars(contents.splits), "mixture": contents.mixture})
    facts |= {f"code: {name}": code for name, code in sorted(result.config.code.items()) if name != "network"}
    facts |= {f"data: {name}": read.fingerprint for name, read in sorted(result.data.sets.items())}
    return {name: value for name, value in facts.items() if value}


def _words(values: dict[str, object]) -> str:
    return ", ".join(f"{key} {value}" for key, value in values.items() if value is not None)


def _groups(results: Sequence[Result]) -> list[_Group]:
    groups: list[_Group] = []
    for result in reversed(results):
        facts = facts_of(result)
        fitting = next((group for group in groups if group.takes(facts)), None)
        if fitting is None:
            fitting = _Group()
            groups.append(fitting)
        fitting.facts.update(facts)
        fitting.results.append(result)
    return groups


def _differing(group: _Group, others: Sequence[_Group]) -> str:
    """As few of the facts that part it from others as tell it from all of them, in words."""
    left, words = list(others), []
    for name, value in group.facts.items():
        agreeing = [other for other in left if _agree(group, other, name)]
        if len(agreeing) < len(left):
            words.append(f"{name} {value}")
            left = agreeing
    return ", ".join(words)


def _agree(one: _Group, other: _Group, name: str) -> bool:
    return other.facts.get(name, one.facts[name]) == one.facts[name]


def _id(suite: str, part: str, facts: dict[str, str]) -> str:
    """Letters that an address has as they are; a name that loses some by it ends in its digest."""
    words = [suite, *(["semantic"] if part else []), *([digests.of_values(facts)[:6]] if facts else [])]
    name = re.sub(r"[^A-Za-z0-9_.=-]+", "_", suite)
    return ".".join([name if name == suite else f"{name}-{digests.of_text(suite)[:6]}", *words[1:]])
