"""Methods as they ran in; the names of their rows out, and the order of rows that differ in a value alone."""

import math
from collections.abc import Mapping
from typing import Any

from oodbench.config.cards import BUDGET
from oodbench.config.registry import changed_words
from oodbench.report.cells import plain
from oodbench.results.result import MethodRun

SYMBOLS = {"margin": "η"}  # of hyperparameters that papers write as a letter
Parameter = tuple[str, str]  # a component and a hyperparameter of it


def method_name(method: MethodRun) -> str:
    """As the paper would write it, on one line: Mixup + KNN (knn.k=5)."""
    return _named(method, _changed(method))


def row_names(methods: Mapping[str, MethodRun]) -> dict[str, str]:
    """Of the rows of one table: where some differ from a method in a value, the method's own row says its value too."""
    varied = _varied(methods)
    return {label: _named(method, _values(method, varied[method.name])) for label, method in methods.items()}


def value_order(methods: Mapping[str, MethodRun]) -> dict[str, tuple[Any, ...]]:
    """What sorts the rows of one method: their values as numbers; those that are none, such as `auto`, come last.

    Values of which none is above 0 go from 0 downwards, as in the tables of papers.
    """
    varied = _varied(methods)
    values = {label: _values(method, varied[method.name]) for label, method in methods.items()}
    rising = {(methods[label].name, of) for label, own in values.items() for of in own if _number(own[of]) > 0}

    def key(label: str) -> tuple[Any, ...]:
        name, own = methods[label].name, values[label]
        return name, [(of, *_key(value, 1 if (name, of) in rising else -1)) for of, value in own.items()]

    return {label: key(label) for label in methods}


def _key(value: Any, sign: int) -> tuple[bool, float, str]:
    number = _number(value)
    return math.isnan(number), 0.0 if math.isnan(number) else sign * number, str(value)


def _number(value: Any) -> float:
    """NaN for what is none, `auto` for example."""
    try:
        return float(str(value))
    except ValueError:
        return math.nan


def _varied(methods: Mapping[str, MethodRun]) -> dict[str, set[Parameter]]:
    """The hyperparameters in which rows of a method differ, by its name."""
    varied: dict[str, set[Parameter]] = {}
    for method in methods.values():
        varied.setdefault(method.name, set()).update(_changed(method))
    return varied


def _changed(method: MethodRun) -> dict[Parameter, Any]:
    parts = (method.trainer, method.scorer)
    return {(each.name, key): value for each in parts for key, value in method.shown(each).items()}


def _values(method: MethodRun, parameters: set[Parameter]) -> dict[Parameter, Any]:
    """Those of its own that are known."""
    known = {(each.name, key): value for each in (method.trainer, method.scorer) for key, value in each.values.items()}
    known |= _changed(method)
    return {parameter: known[parameter] for parameter in sorted(parameters) if parameter in known}


def _named(method: MethodRun, values: Mapping[Parameter, Any]) -> str:
    words = ", ".join(_word(method.name, parameter, value) for parameter, value in values.items())
    return plain(f"{method.display} ({words})" if words else method.display)


def _word(method: str, parameter: Parameter, value: Any) -> str:
    component, key = parameter
    (word,) = changed_words(method, {component: {key: value}})
    if key == BUDGET:
        return f"{value} labels"
    if key not in SYMBOLS:
        return word
    return f"{SYMBOLS[key]} = {word.partition('=')[2]}".replace("-", "−")
