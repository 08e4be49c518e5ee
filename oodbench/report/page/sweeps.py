"""A board in; which of its rows and columns form a sweep out: of a hyperparameter, of π_c, of kinds of corruption.

A sweep names rows and columns of the leaderboard. Its numbers are those, and are not made again.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from oodbench.config.suite import NONE, Setting
from oodbench.report.page.leaderboard import Standings
from oodbench.results.ledger import examples_of, methods_of
from oodbench.results.result import MethodRun


def data_of(some: Standings) -> list[dict[str, Any]]:
    settings = {name: each.config.setting for name, each in examples_of(some.runs).items()}
    columns = {title: i for i, title in enumerate(some.columns)}
    return [*_hyperparameters(some), *_ratios(settings, columns), *_corruptions(settings, columns)]


def _hyperparameters(some: Standings) -> list[dict[str, Any]]:
    """A method under two values or more of a hyperparameter, all else being equal."""
    methods = methods_of(some.runs)
    found: dict[tuple[str, ...], dict[float, int]] = {}
    keys = {key for method in methods.values() for key in _changed(method)}
    for i, row in enumerate(some.rows):
        method = methods[row.method]
        for key in sorted(keys):
            value = _values(method).get(key)
            if isinstance(value, (int, float)) and not isinstance(value, bool):
                rest = tuple(f"{k}={v}" for k, v in sorted(_changed(method).items()) if k != key)
                found.setdefault((method.name, key, *rest), {}).setdefault(float(value), i)
    return [
        {
            "kind": "hyperparameter",
            "title": " ".join([methods[some.rows[min(points.values())].method].display, *rest]),
            "axis": key.rpartition(".")[2],
            "points": [[value, points[value]] for value in sorted(points)],
        }
        for (_, key, *rest), points in sorted(found.items())
        if len(points) > 1
    ]


def _changed(method: MethodRun) -> dict[str, Any]:
    return {f"{c.name}.{key}": value for c in (method.trainer, method.scorer) for key, value in c.changed.items()}


def _values(method: MethodRun) -> dict[str, Any]:
    return {f"{c.name}.{key}": value for c in (method.trainer, method.scorer) for key, value in c.values.items()}


def _ratios(settings: Mapping[str, Setting], columns: Mapping[str, int]) -> list[dict[str, Any]]:
    """Settings that differ in the covariate share of the wild mixture alone."""
    families: dict[Setting, dict[float, str]] = {}
    for name in (name for name in columns if name in settings):
        families.setdefault(replace(settings[name], pi_c=0.0), {})[settings[name].pi_c] = name
    return [
        {
            "kind": "ratio",
            "title": _first_named(by_ratio.values(), columns),
            "axis": "π_c",
            "points": [[ratio, columns[by_ratio[ratio]]] for ratio in sorted(by_ratio)],
        }
        for by_ratio in families.values()
        if len(by_ratio) > 1
    ]


def _corruptions(settings: Mapping[str, Setting], columns: Mapping[str, int]) -> list[dict[str, Any]]:
    """Settings that differ in the kind of covariate shift and its severity alone."""
    families: dict[Setting, list[str]] = {}
    for name in (name for name in columns if name in settings):
        if settings[name].covariate != NONE:
            families.setdefault(replace(settings[name], covariate="", severity=0), []).append(name)
    return [
        {
            "kind": "corruptions",
            "title": rest.semantic if rest.semantic != NONE else "no semantic set",
            "points": [[settings[name].covariate, settings[name].severity, columns[name]] for name in names],
        }
        for rest, names in families.items()
        if len(names) > 1
    ]


def _first_named(names: Any, columns: Mapping[str, int]) -> str:
    return min(names, key=lambda name: (len(name), columns[name]))
