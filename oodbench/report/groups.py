"""Methods as they ran in; the groups that a table has them in and the order of its rows out."""

from collections.abc import Mapping, Sequence

from oodbench.config.registry import (
    DETECTION,
    DETECTION_BY,
    DETECTION_OTHER,
    DETECTION_TRAINING,
    GROUPS,
    YOUR_NETWORK,
    YOUR_NETWORK_BY,
    detection_groups,
    read_by_scorers,
)
from oodbench.report.names import value_order
from oodbench.results.result import MethodRun

ROW_GROUPS = (
    *DETECTION_BY.values(), DETECTION_OTHER, DETECTION_TRAINING, *GROUPS, *YOUR_NETWORK_BY.values(), YOUR_NETWORK
)  # fmt: skip
# The paper's rows in its order; other methods come after them, by name.
ORDER = (
    "msp", "odin", "energy", "mahalanobis", "vim", "knn",
    "erm", "mixup", "irm", "vrex",
    "groupdro", "i-mixup", "mldg", "coral", "mmd", "dann", "cdann", "mtl", "sagnet", "arm", "rsc",
    "oe", "energy-oe", "woods", "scone", "bn-adapt",
)  # fmt: skip
CONTROLS = ("erm", "bn-adapt")  # near which the paths of fine-tuned networks begin


def groups_of(methods: Mapping[str, MethodRun]) -> dict[str, str]:
    """Of the rows of one of our own tables: what a scorer reads, as its file says today, divides a group.

    That is OOD detection and, where nothing else stands in the table, networks that were given; beside trained ones
    these stay together.
    """
    alone = all(map(is_given, methods.values()))
    return {label: _group_of(method, alone) for label, method in methods.items()}


def _group_of(method: MethodRun, alone: bool) -> str:
    if method.group == DETECTION:
        return detection_groups().get(method.scorer.name, DETECTION_OTHER)
    reads = read_by_scorers().get(method.scorer.name) if is_given(method) and alone else None
    return method.group if reads is None else YOUR_NETWORK_BY[reads]


def is_given(method: MethodRun) -> bool:
    """Whether it scores a network that the user brought."""
    return method.group == YOUR_NETWORK


def whole_group(group: str) -> str:
    """What a group of our own tables is a part of, if it is one, or itself."""
    if group in YOUR_NETWORK_BY.values():
        return YOUR_NETWORK
    return DETECTION if group in (*DETECTION_BY.values(), DETECTION_OTHER, DETECTION_TRAINING) else group


def by_paper(methods: Mapping[str, MethodRun]) -> dict[str, MethodRun]:
    """The paper's groups and rows first, in its order; others after them, by name; rows of a given network together.

    Rows of one method stand in the order of their values.
    """
    groups, values = groups_of(methods), value_order(methods)
    order = sorted(methods, key=lambda label: (*_rank(methods[label], groups[label]), values[label], label))
    return {label: methods[label] for label in order}


def _rank(method: MethodRun, group: str) -> tuple[int, str, str, int]:
    network, own = (method.trainer.display, method.scorer.name) if is_given(method) else ("", method.first)
    return _position(group, ROW_GROUPS), group, network, _position(own, ORDER)


def _position(name: str, names: Sequence[str]) -> int:
    return names.index(name) if name in names else len(names)
