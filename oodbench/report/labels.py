"""The words of tables, pages and figures for what results name: methods, settings, suites, metrics, groups of rows.

Names come from files; what is printed is on one line and holds nothing that a terminal would obey.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from oodbench.config.cards import BUDGET
from oodbench.config.shipped import (
    DETECTION,
    DETECTION_BY,
    DETECTION_OTHER,
    DETECTION_TRAINING,
    GROUPS,
    YOUR_NETWORK,
    YOUR_NETWORK_BY,
    read_by,
)
from oodbench.config.suite import NONE
from oodbench.report.numbers import OUT_SHARE
from oodbench.results.metrics import Metric
from oodbench.results.result import MethodRun, Result

AVERAGE = "Average"  # begins the title of a column over several settings
ERM = "erm"
SYMBOLS = {"margin": "η"}  # of hyperparameters that papers write as a letter
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

# As authors spell them. Any other name is read as words.
SPELLED = {
    "cifar10": "CIFAR-10", "cifar10-c": "CIFAR-10-C", "cifar100": "CIFAR-100", "colored-mnist": "Colored MNIST",
    "colored-mnist-irm": "Colored MNIST (IRM)", "digits-c": "Digits-C", "fashion-mnist": "FashionMNIST",
    "imagenet100": "ImageNet-100", "imagenet100-c": "ImageNet-100-C", "inaturalist": "iNaturalist", "isun": "iSUN",
    "lsun-c": "LSUN-C", "lsun-r": "LSUN-R", "mnist": "MNIST", "mnist-c": "MNIST-C", "pacs": "PACS",
    "pacs-photos": "PACS photos", "places365": "Places365", "rotated-mnist": "Rotated MNIST", "svhn": "SVHN",
    "textures": "Textures", "tiny-imagenet": "Tiny ImageNet",
    "gaussian_noise": "Gaussian noise", "gaussian_blur": "Gaussian blur", "jpeg_compression": "JPEG compression",
}  # fmt: skip
SHARES = {"pi_c": "π_c", "pi_s": "π_s"}

SPELLED_METRICS = {"OOD Acc.": "OOD accuracy", "ID Acc.": "ID accuracy"}

Parameter = tuple[str, str]  # a component and a hyperparameter of it


def plain(text: str) -> str:
    """On one line, without what a terminal or TeX would obey."""
    return "".join(c for c in " ".join(text.split()) if c.isprintable())


def method_name(method: MethodRun) -> str:
    """As the paper would write it, on one line: Mixup + KNN (knn.k=5)."""
    return _named(method, _changed(method))


def network_name(method: MethodRun) -> str:
    """Of what was trained, whichever scorer reads it."""
    trainer, scorer = method.trainer, replace(method.scorer, changed={})
    return method_name(replace(method, name=trainer.name, display=trainer.display, scorer=scorer))


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
    words = ", ".join(_word(method, parameter, value) for parameter, value in values.items())
    return plain(f"{method.display} ({words})" if words else method.display)


def _word(method: MethodRun, parameter: Parameter, value: Any) -> str:
    component, key = parameter
    word = method.word(component, key, value)
    if key == BUDGET:
        return f"{value} labels"
    if key not in SYMBOLS:
        return word
    return f"{SYMBOLS[key]} = {word.partition('=')[2]}".replace("-", "−")


def groups_of(methods: Mapping[str, MethodRun]) -> dict[str, str]:
    """Of the rows of one of our own tables: what a scorer reads, as its file says today, divides a group.

    That is OOD detection and, where nothing else stands in the table, networks that were given; beside trained ones
    these stay together.
    """
    alone = all(map(is_given, methods.values()))
    return {label: _group_of(method, alone) for label, method in methods.items()}


def _group_of(method: MethodRun, alone: bool) -> str:
    reads = read_by(method.scorer.name)
    if method.group == DETECTION:
        return DETECTION_OTHER if reads is None else DETECTION_BY[reads]
    return YOUR_NETWORK_BY[reads] if reads is not None and is_given(method) and alone else method.group


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


def in_words(name: str) -> str:
    """Of a data set, a domain or a kind of corruption; of several domains that are held out together, all."""
    each = (SPELLED.get(part) or part.replace("_", " ").replace("-", " ") for part in name.split("+"))
    return plain(" and ".join(each))


def setting_in_words(setting: str) -> str:
    """As results name it: `svhn,covariate=gaussian_blur,pi_c=0.1` is SVHN, Gaussian blur, π_c = 0.1."""
    return setting if setting.startswith(AVERAGE) else ", ".join(map(_part_in_words, setting.split(",")))


def _part_in_words(part: str) -> str:
    key, equals, value = part.partition("=")
    if not equals or key == "covariate":
        return in_words(value if equals else key)
    return f"{SHARES[key]} = {value}" if key in SHARES else f"{in_words(key)} {value}"


def suite_in_words(result: Result) -> str:
    """The suite that a result is of, its preset and its collection: CIFAR-10-C (preset cpu-effect)."""
    remarks = [
        *([] if result.preset is None else [f"preset {result.preset}"]),
        *([] if result.collection is None else [f"{result.collection} results"]),
    ]
    name = SPELLED.get(result.suite) or plain(result.suite)
    return f"{name} ({', '.join(remarks)})" if remarks else name


def setting_name(result: Result) -> str:
    """What is shifted, and how: unseen digits, Gaussian noise of severity 3."""
    setting, suite = result.config.setting, result.config.suite
    words = [in_words(each) for each in (setting.semantic,) if each != NONE]
    if setting.covariate != NONE:
        words.append(shift_name(result))
    if setting.pi_c != suite.defaults.pi_c:
        words.append(f"π_c = {setting.pi_c:g}")
    return ", ".join(words) or "ID only"


def shift_name(result: Result) -> str:
    """Of the covariate set; only corruptions have a severity."""
    setting = result.config.setting
    return in_words(setting.covariate) + (f" of severity {setting.severity}" if is_corruption(result) else "")


def is_corruption(result: Result) -> bool:
    return result.config.suite.corruptions is not None and (
        result.config.setting.covariate not in result.config.suite.covariate
    )


def metric_name(metric: Metric) -> str:
    return SPELLED_METRICS.get(metric.title, metric.title)


def axis_title(metric: Metric) -> str:
    """With an arrow to where better numbers lie."""
    return f"{metric_name(metric)} {'↑' if metric.higher_is_better else '↓'} (%)"


def listed(names: list[str]) -> str:
    """a, b and c."""
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)


def arrow(metric: Metric) -> str:
    """Which way is better; out% is neither good nor bad."""
    return "" if metric is OUT_SHARE else "↑" if metric.higher_is_better else "↓"


def title_of(metric: Metric) -> str:
    return f"{metric.title} {arrow(metric)}".strip()
