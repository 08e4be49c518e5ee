"""A component at work: what it does wrong is told in one line."""

import re
from collections.abc import Iterator
from contextlib import contextmanager

from oodbench import files
from oodbench.config import networks
from oodbench.config.cards import NEEDS, Card
from oodbench.config.registry import Component
from oodbench.config.suite import Suite
from oodbench.errors import UserError, line_in, said
from oodbench.files import CannotWrite
from oodbench.learning.loop import Failed
from oodbench.learning.precision import fresh_state

GIVEN = {  # only to those that need it
    "wild": "batch.wild",
    "outliers": "batch.outliers",
    "views": "batch.views",
    "environments": "batch.env",
    "validation": "validation",
}


@contextmanager
def at_work(component: Component) -> Iterator[None]:
    """While a trainer or scorer runs: its mistakes fail its own cells, and its random numbers are its own."""
    with users_mistakes(component.card), fresh_state():
        yield


@contextmanager
def users_mistakes(card: Card) -> Iterator[None]:
    """What a plugin raises fails its cells, in one line; in our own methods it is a bug and keeps its traceback."""
    try:
        yield
    except (Failed, CannotWrite):
        raise
    except UserError as error:
        raise Failed(said(error)) from error
    except BaseException as error:
        if isinstance(error, KeyboardInterrupt) and files.leader is None:
            raise  # of the user's; a worker hears of none
        if "torch.use_deterministic_algorithms(True)" in said(error):
            operation = said(error).split(" does not have")[0]
            raise Failed(f"{operation} is not deterministic here; leave out --deterministic") from error
        if card.is_ours:
            raise
        raise Failed(in_words(card, error)) from error


@contextmanager
def network_at_work(suite: Suite) -> Iterator[None]:
    """What a network of the user's raises in its own file fails the cells that it is in, in one line."""
    try:
        yield
    except (Failed, UserError, CannotWrite, KeyboardInterrupt):
        raise
    except BaseException as error:
        card = networks.card(suite.contents.network.name)
        if card.is_ours or line_in(card.path, error) == str(card.path):
            raise
        raise Failed(in_words(card, error)) from error


def in_words(card: Card, error: BaseException) -> str:
    """An exception out of a user's file: what it is and in which line, or what the method forgot to ask for."""
    where = line_in(card.path, error)
    for need, given in GIVEN.items():
        if need in NEEDS.get(card.kind, ()) and need not in card.needs and _lacks(given, card, error):
            return f'{where}: {given} is None; add needs = frozenset({{"{need}"}}) to class {card.class_name}'
    if isinstance(error, SystemExit | KeyboardInterrupt):
        return f"{where} ends the process, {type(error).__name__}({said(error)}); raise an exception instead"
    return f"{type(error).__name__} at {where}: {said(error)}"


def _lacks(given: str, card: Card, error: BaseException) -> bool:
    """Whether the error is about a None, or a missing argument, that the file takes for what it was not given."""
    about = "NoneType" in said(error) or f"'{given}'" in said(error)
    return about and re.search(rf"\b{re.escape(given)}\b", card.path.read_text(encoding="utf-8")) is not None
