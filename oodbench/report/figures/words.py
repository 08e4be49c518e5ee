"""Names that files and options go by in; the words that a reader of a figure sees out."""

from oodbench.config.suite import NONE
from oodbench.report.tables import plain
from oodbench.results.metrics import Metric
from oodbench.results.result import MethodRun, Result

# How authors spell their data sets. Any other name is read as words.
SPELLED = {
    "cifar10": "CIFAR-10", "cifar10-c": "CIFAR-10-C", "cifar100": "CIFAR-100", "colored-mnist": "Colored MNIST",
    "colored-mnist-irm": "Colored MNIST (IRM)", "digits-c": "Digits-C", "fashion-mnist": "FashionMNIST",
    "imagenet100-c": "ImageNet-100-C", "lsun-c": "LSUN-C", "lsun-r": "LSUN-R", "mnist": "MNIST", "mnist-c": "MNIST-C",
    "pacs": "PACS", "pacs-photos": "PACS photos", "places365": "Places365", "rotated-mnist": "Rotated MNIST",
    "svhn": "SVHN", "textures": "Textures",
    "gaussian_noise": "Gaussian noise", "gaussian_blur": "Gaussian blur", "jpeg_compression": "JPEG compression",
}  # fmt: skip
SPELLED_METRICS = {"OOD Acc.": "OOD accuracy", "ID Acc.": "ID accuracy"}


def in_words(name: str) -> str:
    """Of a data set, a domain or a kind of corruption."""
    return SPELLED.get(name) or plain(name.replace("_", " ").replace("-", " "))


def suite_name(result: Result) -> str:
    name = SPELLED.get(result.suite) or plain(result.suite)
    words = [*([] if result.preset is None else [f"preset {result.preset}"])]
    words += [] if result.collection is None else [f"{result.collection} results"]
    return f"{name} ({', '.join(words)})" if words else name


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


def method_name(method: MethodRun) -> str:
    """SCONE (margin −2)."""
    changed = ", ".join(method.changed).replace("=-", " −").replace("=", " ")
    return plain(method.display) + (f" ({changed})" if changed else "")


def metric_name(metric: Metric) -> str:
    return SPELLED_METRICS.get(metric.title, metric.title)


def axis_title(metric: Metric) -> str:
    """With an arrow to where better numbers lie."""
    return f"{metric_name(metric)} {'↑' if metric.higher_is_better else '↓'} (%)"


def listed(names: list[str]) -> str:
    """a, b and c."""
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)


def network_name(method: MethodRun) -> str:
    """Of what was trained, whichever scorer reads it."""
    if method.name == method.trainer.name:
        return method_name(method)
    changed = ", ".join(f"{key} {value}" for key, value in sorted(method.trainer.changed.items())).replace(" -", " −")
    return plain(method.trainer.display) + (f" ({changed})" if changed else "")
