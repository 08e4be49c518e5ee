"""What a user's method does wrong, in one line: the exception, where it was raised and what to do."""

import re
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from oodbench.config.cards import NEEDS, Card
from oodbench.config.registry import Component
from oodbench.errors import UserError
from oodbench.files import CannotWrite
from oodbench.learning.loop import Failed

GIVEN = {"wild": "batch.wild", "environments": "batch.env", "validation": "validation"}  # only to those that need it


@contextmanager
def users_mistakes(component: Component) -> Iterator[None]:
    """What a plugin raises fails its cells, in one line; in our own methods it is a bug and keeps its traceback."""
    try:
        yield
    except (Failed, CannotWrite):
        raise
    except UserError as error:
        raise Failed(str(error)) from error
    except Exception as error:
        if "torch.use_deterministic_algorithms(True)" in str(error):
            operation = str(error).split(" does not have")[0]
            raise Failed(f"{operation} cannot be repeated to the bit here; leave out --deterministic") from error
        if component.card.is_ours:
            raise
        raise Failed(in_words(component.card, error)) from error


def in_words(card: Card, error: Exception) -> str:
    """An exception out of a method's file: what it is and in which line, or what the method forgot to ask for."""
    where = str(card.path)
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if Path(frame.filename) == card.path]
    if lines:
        where += f":{lines[-1]}"
    for need, given in GIVEN.items():
        if need in NEEDS[card.kind] and need not in card.needs and _lacks(given, card, error):
            return f'{where}: {given} is None; add needs = frozenset({{"{need}"}}) to class {card.class_name}'
    return f"{type(error).__name__} at {where}: {error}"


def _lacks(given: str, card: Card, error: Exception) -> bool:
    """Whether the error is about a None, or a missing argument, that the file takes for what it was not given."""
    about = "NoneType" in str(error) or f"'{given}'" in str(error)
    return about and re.search(rf"\b{re.escape(given)}\b", card.path.read_text(encoding="utf-8")) is not None
