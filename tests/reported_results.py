"""Results in the official schema for suites of the paper, and all of its numbers as if they had been measured."""

from dataclasses import replace
from functools import cache

from made_results import a_result

from oodbench.config import suite as suites
from oodbench.config.suite import Column, Defaults
from oodbench.report import reported
from oodbench.results.stored import write

SHARED = {
    "cifar10-c": ("svhn", {"covariate": "gaussian_noise", "severity": 1, "pi_c": 0.5, "pi_s": 0.1}),
    "mnist-c": ("fashion-mnist", {"covariate": "dotted_line", "severity": 1, "pi_c": 0.3, "pi_s": 0.4}),
    "imagenet100-c": ("inaturalist", {"covariate": "gaussian_noise", "severity": 1, "pi_c": 0.5, "pi_s": 0.1}),
    "pacs": ("textures", {"covariate": "art_painting", "severity": 1, "pi_c": 0.5, "pi_s": 0.1}),
    "digits-c": ("unseen-digits", {"covariate": "gaussian_noise", "severity": 3, "pi_c": 0.5, "pi_s": 0.1}),
}
FOUR = ("covariate_acc", "id_acc", "fpr95", "auroc")


def run(
    suite="cifar10-c",
    method="scone",
    seed=0,
    percent=(50, 50, 50, 50),
    semantic=None,
    changed=None,
    values=None,
    first=None,
    **fields,
):
    """One result; `percent` are the four metrics, `changed` what differs from the suite's defaults.

    `first` is the first semantic set of the suite.
    """
    usual, shared = SHARED[suite]
    first = first or usual
    setting = {"semantic": semantic or first, **shared, **(changed or {})}
    differs = [f"{key}={setting[key]}" for key in shared if setting[key] != shared[key]]
    name = ",".join([setting["semantic"], *differs])
    metrics = {name: value / 100 for name, value in zip(FOUR, percent, strict=True)}
    made = {"setting": setting, "contents": contents(suite, first), "values": values}
    return a_result(suite, method, name, seed, made=made, **{"metrics": metrics, **fields})


@cache
def contents(suite, semantic):
    """Of a suite whose settings have a semantic set and the shared values."""
    ours = suites.load(suite).contents
    return replace(ours, defaults=Defaults(**SHARED[suite][1]), settings=[Column(semantic)])


def everything(seeds=(0,), source="scone"):
    """The whole paper, every cell as it reports it."""
    cells = {}
    for number in reported.reference(source).all:
        if len(number.settings) == 1 and number.metric != "out_share":
            place = (number.suite, number.settings[0], number.methods[0])
            cells.setdefault(place, {}).setdefault(number.metric, number.percent)
    found = []
    for (suite, setting, method), values in cells.items():
        words = dict(word.partition("=")[::2] for word in setting.split(",") if "=" in word)
        changed = {key: float(value) if key == "pi_c" else value for key, value in words.items()}
        semantic = None if "=" in setting.split(",")[0] else setting.split(",")[0]
        percent = [values.get(name, 50) for name in FOUR]
        found += [run(suite, method, seed, percent, semantic, changed) for seed in seeds]
    return found


def save(results, folder):
    for result in results:
        name = f"seed{result.seed}-{result.variant}.json"
        write(result, folder / result.suite_label / result.setting / result.method / name, {}, [])
    return folder
