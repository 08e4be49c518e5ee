"""The contract of a method, for whoever writes one: `check_method` tries every rule that our own methods keep.

    from oodbench.testing import check_method
    check_method("my_method.py")

A rule that is broken is a Violation, in one sentence. `oodbench check-method FILE` does the same.
"""

import inspect
import os
from collections.abc import Iterator
from pathlib import Path

from oodbench.config.cards import READS, Card, load_class, read_cards
from oodbench.config.registry import read_method
from oodbench.config.shipped import DETECTION_OTHER
from oodbench.errors import UserError
from oodbench.running.mistakes import in_words
from oodbench.testing import scorer_rules, trainer_rules
from oodbench.testing.contract import RULES, Rule, Subject, Violation, subjects
from oodbench.testing.toy_problem import toy

__all__ = ["RULES", "Violation", "check_method", "checks", "hints", "scorer_rules", "trainer_rules"]


def check_method(method: type | str | Path) -> list[str]:
    """Try every rule on a class, or on the one method of a file; the rules, all of which hold, or a Violation."""
    return list(checks(method))


def checks(method: type | str | Path) -> Iterator[str]:
    """The same one by one."""
    card, cls = _class_and_card(method)
    for rule in RULES:
        if rule.kind in ("", card.kind):
            for subject in subjects(card, cls, rule.cases):
                _try(rule, subject)
            yield rule.sentence


def hints(method: type | str | Path) -> list[str]:
    """What no rule asks for and tables would show better with."""
    card = _class_and_card(method)[0] if isinstance(method, type) else _card_of(method)
    if card.kind != "Scorer" or card.reads is not None or card.group is not None:
        return []
    values = ", ".join(f'"{reads}"' for reads in READS[:-1])
    return [
        f"class {card.class_name} does not say what it reads, so tables show it under '{DETECTION_OTHER}'; add "
        f'reads = {values} or "{READS[-1]}"'
    ]


def _card_of(file: str | Path) -> Card:
    if not os.path.isfile(file) or Path(file).suffix != ".py":
        raise UserError(f"there is no file '{file}' that ends in .py; give the path of a method's file")
    path = Path(file).resolve()
    return read_method(path, f"oodbench_plugin_{path.stem}")


def _class_and_card(method: type | str | Path) -> tuple[Card, type]:
    if not isinstance(method, type):
        card = _card_of(method)
        return card, load_class(card)
    try:
        path = Path(inspect.getsourcefile(method) or "").resolve()
        cards = [card for card in read_cards(path, method.__module__) if card.class_name == method.__name__]
    except (TypeError, OSError):
        cards = []
    if not cards:
        raise UserError(f"'{method.__name__}' is no class derived from Trainer or Scorer in a file; save it in one")
    return cards[0], method


def _try(rule: Rule, subject: Subject) -> None:
    broken = f"'{subject.label}' breaks the rule that {rule.sentence}"
    try:
        rule.holds(subject, toy())
    except Violation as violation:
        raise Violation(f"{broken}: {violation}") from None
    except UserError as refusal:
        if not subject.values and subject.key is None:  # a changed value may not go with the other defaults
            raise Violation(f"{broken}: {refusal}") from refusal
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        raise Violation(f"{broken}: {in_words(subject.card, error)}") from error
