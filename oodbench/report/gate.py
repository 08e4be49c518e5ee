"""The verdicts of a check in; its exit status, and what programs read of it, out: JUnit, GitHub's annotations, a badge.

docs/ci.md describes them. Imports no torch.
"""

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from xml.etree import ElementTree

from oodbench.errors import visible
from oodbench.report.verdicts import Status, Verdict, in_words, title_of

WORSE = {"agrees": "no worse", "differs": "worse"}  # what these are called where only differences for the worse count
COLORS = {0: "brightgreen", 1: "red", 3: "lightgrey"}  # of a badge, by exit status


@dataclass(frozen=True)
class Gate:
    """A check, and what it is to fail for."""

    against: str
    verdicts: Sequence[Verdict]
    no_worse: bool = False  # count only what is worse
    complete: bool = False  # fail for what is missing too
    strict: bool = False  # and for what cannot be told
    not_compared: Sequence[str] = ()  # methods with nothing to compare to in some setting

    @cached_property
    def counts(self) -> Counter[Status]:
        return Counter(verdict.status for verdict in self.verdicts)

    @property
    def status(self) -> int:
        """1 if a cell fails, 3 if too little could be decided, else 0."""
        if any(map(self.fails, self.verdicts)):
            return 1
        return 0 if self.problem is None else 3

    def fails(self, verdict: Verdict) -> bool:
        return verdict.status == "differs" or (self.complete and verdict.status == "missing")

    @property
    def problem(self) -> str | None:
        """Why too little could be decided, if nothing fails."""
        if not self.counts["agrees"]:
            return "no cell could be decided"
        if self.strict and self.counts["cannot tell"]:
            return f"{self.counts['cannot tell']} cannot tell, which --strict does not allow"
        return None

    @property
    def words(self) -> str:
        return in_words(self.counts, self.no_worse)

    def word(self, verdict: Verdict) -> str:
        """The status of a cell as people read it."""
        return WORSE.get(verdict.status, verdict.status) if self.no_worse else verdict.status


def junit(gate: Gate) -> str:
    """A suite of tests for each suite, a test for each cell. What fails is a failure, what is undecided is skipped."""
    suites: dict[str, list[Verdict]] = {}
    for verdict in gate.verdicts:
        suites.setdefault(" ".join(filter(None, [verdict.suite, verdict.table])), []).append(verdict)
    root = ElementTree.Element("testsuites", {"name": visible(f"oodbench check against {gate.against}")})
    _count(root, gate, gate.verdicts)
    for name, verdicts in suites.items():
        suite = ElementTree.SubElement(root, "testsuite", {"name": visible(name)})
        _count(suite, gate, verdicts)
        for verdict in verdicts:
            place = {"classname": visible(f"{name}.{verdict.setting}.{verdict.row}"), "name": title_of(verdict.metric)}
            case = ElementTree.SubElement(suite, "testcase", {**place, "time": "0"})
            message = visible(f"{gate.word(verdict)}: {verdict}")
            if gate.fails(verdict):
                ElementTree.SubElement(case, "failure", {"type": verdict.status, "message": message}).text = message
            elif verdict.status != "agrees":
                ElementTree.SubElement(case, "skipped", {"message": message})
    ElementTree.indent(root, " ")
    return ElementTree.tostring(root, encoding="utf-8", xml_declaration=True).decode()


def _count(element: ElementTree.Element, gate: Gate, verdicts: Sequence[Verdict]) -> None:
    failures = sum(map(gate.fails, verdicts))
    skipped = sum(not gate.fails(each) and each.status != "agrees" for each in verdicts)
    for name, count in (("tests", len(verdicts)), ("failures", failures), ("errors", 0), ("skipped", skipped)):
        element.set(name, str(count))
    element.set("time", "0")


def github(gate: Gate) -> str:
    """A line for the whole, an error for each cell that fails, a warning for each that cannot tell."""
    outcome = gate.words if gate.problem is None or gate.status == 1 else f"{gate.words}: {gate.problem}"
    lines = [_annotation("error" if gate.status else "notice", f"oodbench check against {gate.against}", outcome)]
    for verdict in gate.verdicts:
        if gate.fails(verdict) or verdict.status == "cannot tell":
            title = f"{verdict.row} {title_of(verdict.metric)}: {gate.word(verdict)}"
            lines.append(_annotation("error" if gate.fails(verdict) else "warning", title, str(verdict)))
    return "\n".join(lines)


def _annotation(level: str, title: str, message: str) -> str:
    """A workflow command: GitHub reads the percent sign as an escape, and in a title a colon and a comma as its end."""
    message, title = (visible(text).replace("%", "%25") for text in (message, title))
    return f"::{level} title={title.replace(':', '%3A').replace(',', '%2C')}::{message}"


def badge(gate: Gate) -> str:
    """The JSON that shields.io draws a badge from at its address /endpoint."""
    fields = {"label": visible(f"against {gate.against}"), "message": gate.words, "color": COLORS[gate.status]}
    return json.dumps({"schemaVersion": 1, **fields})
