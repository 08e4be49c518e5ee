"""What tables say of methods without reading their files: groups of rows, and facts about the methods of oodbench.

`cards.json` holds the facts; `benchmarks/fidelity/identity.py --same` writes it from the method files.
"""

import json
import re
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from functools import cache

from oodbench.config.cards import PACKAGE, READS, Card

FACTS = PACKAGE / "cards.json"
# Of the rows of a table, in the paper's order.
GROUPS = (DETECTION, GENERALIZATION, WILD_DATA) = ("OOD detection", "OOD generalization", "Learning with wild data")
OUTLIERS = "Learning with auxiliary outliers"  # which are no wild images
LABELS = "Learning with wild data, some of it labeled"  # what spends labels is never beside what does not
DETECTION_BY = {reads: f"{DETECTION}: {reads}" for reads in READS}  # what our own tables divide the first of them into
DETECTION_OTHER = f"{DETECTION}: other"  # of scorers that do not say what they read
DETECTION_TRAINING = f"{DETECTION}: training"  # of trainers that are for detection and see no outliers
YOUR_NETWORK = "Your network"  # the group of what scores a network that was given, and its division where it is alone
YOUR_NETWORK_BY = {reads: f"{YOUR_NETWORK}: {reads}" for reads in READS}
AUTHOR = r"(?:\w\.-?)(?:\w\.|[ -])*[\w-]+(?: [A-Z][\w-]+)?"  # M. B. Ammar, J.-H. Kim, M. Mohammadi Amiri
AUTHORS = rf"{AUTHOR}(?: et al\.|(?:, {AUTHOR})*(?: and {AUTHOR})?)"
CITATION = re.compile(
    rf"(?P<authors>{AUTHORS}), (?P<title>.+?), (?P<venue>arXiv [\d.]+(?=,)|[^,\d]*?),? ?(?P<year>\d{{4}})\b"
)


@dataclass(frozen=True)
class Paper:
    """Where a method comes from."""

    authors: str
    title: str
    venue: str  # empty for a book or a preprint that names none
    year: str


@dataclass(frozen=True)
class Facts:
    """What the file of a trainer or a scorer says of it."""

    reads: str | None  # of a scorer, one of READS
    needs: tuple[str, ...]
    paper: Paper | None


@cache
def facts() -> dict[str, Facts]:
    """Of every method of oodbench, by name."""
    stored = json.loads(FACTS.read_text(encoding="utf-8"))
    return {
        name: Facts(each["reads"], tuple(each["needs"]), each["paper"] and Paper(**each["paper"]))
        for name, each in stored.items()
    }


def read_by(scorer: str) -> str | None:
    """What a scorer of oodbench reads, one of READS; None of one that does not say, and of a plugin."""
    return facts()[scorer].reads if scorer in facts() else None


def needs_outliers(trainer: str) -> bool:
    return trainer in facts() and "outliers" in facts()[trainer].needs


def written(cards: Iterable[Card]) -> str:
    """What `cards.json` should hold."""
    facts_of = {
        card.name: Facts(card.reads, tuple(sorted(card.needs)), paper_of(card.paper)) for card in cards if card.is_ours
    }
    stored = {name: asdict(each) for name, each in sorted(facts_of.items())}
    return json.dumps(stored, indent=1, ensure_ascii=False) + "\n"


def paper_of(docstring: str) -> Paper | None:
    """The citation with which the docstring of a method file begins; None if there is none."""
    sentence = " ".join(docstring.partition("\n\n")[0].split())
    found = CITATION.search(sentence)
    return None if found is None else Paper(**found.groupdict())
