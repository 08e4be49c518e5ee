"""Names that files and options go by in; the words that a reader of a figure sees out."""

from oodbench.config.suite import NONE
from oodbench.report.names import method_name as method_name
from oodbench.report.names import network_name as network_name
from oodbench.report.spelling import in_words as in_words
from oodbench.report.spelling import suite_in_words as suite_in_words
from oodbench.results.metrics import Metric
from oodbench.results.result import Result

SPELLED_METRICS = {"OOD Acc.": "OOD accuracy", "ID Acc.": "ID accuracy"}


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
