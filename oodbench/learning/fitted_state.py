"""What a fitted scorer has learned, as tensors by name and JSON values: it can be stored, and nothing of it is code.

Attributes that are no fields of the scorer's dataclass are what it has learned; fields are its hyperparameters.
"""

import math
from collections.abc import Mapping
from dataclasses import fields
from typing import Any

import torch
from torch import Tensor

from oodbench.errors import UserError, shown
from oodbench.learning.method import Scorer

DEEPEST = 32  # lists in lists in lists: more is a list that holds itself
COLLECTIONS: dict[str, type] = {"list": list, "tuple": tuple, "set": set, "frozenset": frozenset}


def state_of(scorer: Scorer) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Its tensors by name, none copied, and all attributes as JSON values, in which a tensor is a name.

    A tensor that several attributes hold has one name.
    """
    tensors: dict[str, Tensor] = {}
    own = {field.name for field in fields(scorer)}
    learned = {name: value for name, value in vars(scorer).items() if name not in own}
    plain = {name: _Encoder(type(scorer).__name__, name, tensors).encoded(value) for name, value in learned.items()}
    return tensors, plain


def restore(scorer: Scorer, tensors: Mapping[str, Tensor], plain: Mapping[str, Any]) -> None:
    """Give a scorer the state that `state_of` told; ValueError if that is not what these values are."""
    own = {field.name for field in fields(scorer)} & plain.keys()
    if own:
        raise ValueError(f"'{min(own)}' is a hyperparameter")
    vars(scorer).update({name: decoded(value, tensors) for name, value in plain.items()})


class _Encoder:
    """Turns the value of one attribute into JSON values, and puts its tensors aside."""

    def __init__(self, owner: str, attribute: str, tensors: dict[str, Tensor]) -> None:
        self.owner, self.attribute, self.tensors = owner, attribute, tensors

    def encoded(self, value: Any, depth: int = 0) -> Any:
        if isinstance(value, Tensor):
            return {"tensor": self._name(value)}
        if depth > DEEPEST:
            raise self._refused(f"lists in lists, more than {DEEPEST} deep")
        for kind, collection in COLLECTIONS.items():
            if isinstance(value, list | tuple | set | frozenset) and type(value) is collection:
                return {kind: [self.encoded(each, depth + 1) for each in value]}
        if type(value) is dict:
            return {"dict": [[self.encoded(each, depth + 1) for each in pair] for pair in value.items()]}
        if type(value) not in (type(None), bool, int, float, str):
            raise self._refused(f"{shown(value)}, a {type(value).__name__}")
        return _plain_number(value) if type(value) is float else value

    def _name(self, tensor: Tensor) -> str:
        """That of the attribute, with a number after it where the attribute holds several."""
        for name, other in self.tensors.items():
            if other is tensor:
                return name
        if tensor.layout != torch.strided or tensor.is_quantized or tensor.is_meta:
            raise self._refused("a tensor of a rare kind")
        name, number = self.attribute, 1
        while name in self.tensors:
            name, number = f"{self.attribute}-{number}", number + 1
        self.tensors[name] = tensor
        return name

    def _refused(self, what: str) -> UserError:
        return UserError(
            f"class {self.owner} has learned what cannot be stored: '{self.attribute}' is {what}; let `fit` set "
            "attributes to tensors, numbers, texts, and lists, tuples, sets and dictionaries of these"
        )


def plain_value(value: Any, owner: str, name: str) -> Any:
    """A hyperparameter as JSON values, which `decoded` reads again."""
    return _Encoder(owner, name, {}).encoded(value)


def _plain_number(value: float) -> Any:
    """As JSON has it, which knows neither infinity nor what is not a number."""
    return value if math.isfinite(value) else {"float": repr(value)}


def decoded(value: Any, tensors: Mapping[str, Tensor]) -> Any:
    """What was encoded; ValueError if nothing was."""
    if not isinstance(value, list | dict):
        return value
    if isinstance(value, list) or len(value) != 1:
        raise ValueError("a value of no known kind")
    (kind, inner), *_ = value.items()
    if kind == "tensor" and isinstance(inner, str) and inner in tensors:
        return tensors[inner]
    if kind == "float" and inner in ("nan", "inf", "-inf"):
        return float(inner)
    if kind not in (*COLLECTIONS, "dict") or not isinstance(inner, list):
        raise ValueError("a value of no known kind")
    try:
        if kind == "dict":
            return {decoded(key, tensors): decoded(each, tensors) for key, each in inner}
        return COLLECTIONS[kind](decoded(each, tensors) for each in inner)
    except (TypeError, RecursionError) as error:  # a list as a key, say
        raise ValueError(str(error)) from None
