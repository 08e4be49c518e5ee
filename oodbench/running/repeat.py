"""A result in; the command that would make it again out, and what no command can say."""

import json
import shlex
from collections.abc import Collection
from typing import Any

from oodbench.config import networks
from oodbench.config import suite as suites
from oodbench.config.cards import catalogue
from oodbench.config.contents import WILD
from oodbench.config.registry import Component, MethodSpec, Registry
from oodbench.config.schema import values_of
from oodbench.config.stated import Stated
from oodbench.config.suite import FOLDER, Contents, Suite
from oodbench.config.validation import RECIPE
from oodbench.errors import UserError
from oodbench.results.result import ComponentRun, GivenRun, Result

OF_PYTHON = ("an array", "a DataLoader")  # the sources of sets that no command can name


class Files:
    """Methods and suites as they are today, each read once: for the commands of many results."""

    def __init__(self) -> None:
        self.registry = Registry()
        self.suites: dict[tuple[str, str | None], Suite | None] = {}

    def suite_of(self, result: Result) -> Suite | None:
        """None where it is not here, or has changed so that it lacks the preset."""
        place = result.suite, result.preset
        if place not in self.suites:
            try:
                self.suites[place] = suites.load(*place)
            except UserError:
                self.suites[place] = None
        return self.suites[place]


def command(result: Result, files: Files | None = None) -> tuple[str, list[str]]:
    """The command, and remarks on where it may differ from what ran."""
    remarks: list[str] = []
    files = files or Files()
    if result.config.given is not None:
        return shlex.join(_of_given(result, result.config.given, remarks, files.registry)), remarks
    words = ["oodbench", "run", "--suite", result.suite]
    if result.preset is not None:
        words += ["--preset", result.preset]
    words += ["--methods", result.config.method.name]
    loaded = files.suite_of(result)
    suite, here = loaded or result.ran_suite, loaded is not None
    stated = _stated(suite, files.registry)
    if not here:
        remarks.append(f"the suite '{result.suite}' was not found or has changed; give its file after --suite")
    method = _method_today(result, stated)
    today = _with_own_recipes(suite, stated, method).contents
    assignments = [*_method_values(result, method if here else None), *_suite_values(result, today, remarks)]
    words += [word for each in assignments for word in ("--set", each)]
    words += [*_model(result, today, remarks), *_sets(result, remarks), *_outliers(result, today, remarks)]
    if result.draw:
        words += ["--draws", str(result.draw + 1)]
    words += ["--seeds", str(result.seed), *_how(result, today)]
    if result.config.init is not None:
        words += ["--init", "FILE"]
        remarks.append(f"FILE holds the weights with the digest {result.config.init}")
    if method is None:
        words += ["--plugin", "FILE.py"]
        remarks.append(f"'{result.config.method.name}' is not shipped with oodbench; FILE.py is its file")
    return shlex.join(words), remarks


def _of_given(result: Result, given: GivenRun, remarks: list[str], registry: Registry) -> list[str]:
    """What evaluates a network of the user's again, under this scorer."""
    words = ["oodbench", "evaluate"]
    method, scorer = result.config.method, result.config.method.scorer
    if method.name != scorer.name:  # which is named after the network, and the suite is not
        words += ["--suite", result.suite, *(["--preset", result.preset] if result.preset is not None else [])]
        words += _sets(result, remarks)
    else:
        words += _given_sets(result, remarks)
    words += _given_network(given, remarks)
    words += ["--scorers", scorer.name]
    today = registry.method(scorer.name).scorer if scorer.name in registry.cards else None
    words += [word for each in _component_values(scorer, today, drawn=()) for word in ("--set", each)]
    words += ["--cpu-threads", str(result.config.threads)] if result.device.startswith("cpu") else ["--device", "cuda"]
    if today is None:
        words += ["--plugin", "FILE.py"]
        remarks.append(f"'{scorer.name}' is not shipped with oodbench; FILE.py is its file")
    return words


def _given_network(given: GivenRun, remarks: list[str]) -> list[str]:
    words = ["--model", given.model]
    if ":" not in given.model:
        words = ["--model", "FILE.py:FUNCTION"]
        remarks.append(f"the network was '{given.model}' in Python; FUNCTION in FILE.py returns such a module")
    if given.weights is not None:
        words += ["--weights", given.weights]
        remarks.append(f"'{given.weights}' is a file name without its folder")
    remarks.append(f"the network with its weights has the digest {given.digest}")
    words += ["--name", given.name]
    words += ["--head", given.head] if given.head is not None else []
    words += ["--features", given.features] if given.features is not None else []
    stated = given.preprocessing
    if stated.get("stated_by") == "the user":
        between = {"mean": ",", "std": ",", "size": "x"}
        for name in [each for each in between if stated.get(each)]:
            words += [f"--{name}", between[name].join(map(str, stated[name]))]
    if given.classes is not None:
        remarks.append(f"{len(given.classes)} of the network's outputs counted, those of the ID classes by name")
    return words


def _given_sets(result: Result, remarks: list[str]) -> list[str]:
    """The sets of the setting and, where they were a set of their own, the training images."""
    contents, setting, sets = result.config.suite, result.config.setting, result.data.sets
    texts = {"id": contents.id.dataset}
    for kind, sources in (("covariate", contents.covariate), ("semantic", contents.semantic)):
        name = getattr(setting, kind)
        texts |= {kind: sources[name].dataset} if name in sources else {}
    known = {contents.id.dataset.removeprefix(FOLDER), *contents.covariate, *contents.semantic}
    train = next((name for name in sets if name not in known), None)
    if train is not None:
        texts["train"] = train if train in catalogue("datasets") else f"{FOLDER}{train}"
    if any(text.startswith(FOLDER) for text in texts.values()):
        remarks.append(f"put the folder's path after '{FOLDER}'; a result records only its name")
    for name in [text.removeprefix(FOLDER) for text in texts.values()]:
        if name in sets and sets[name].source in OF_PYTHON:
            remarks.append(f"'{name}' was {sets[name].source} in Python; oodbench.evaluate takes it again")
    return [word for kind, text in texts.items() for word in (f"--{kind}", text)]


def _stated(suite: Suite, registry: Registry) -> Stated:
    """What the suite states for methods today; nothing where it names one that is not here."""
    try:
        return Stated.of(suite, registry)
    except UserError:
        return Stated(registry)


def _method_today(result: Result, stated: Stated) -> MethodSpec | None:
    try:
        return stated.method(result.config.method.name)
    except UserError:
        return None


def _with_own_recipes(suite: Suite, stated: Stated, method: MethodSpec | None) -> Suite:
    """The suite with the recipes that it has today for a method and for what that starts from."""
    if method is None:
        return suite
    base = stated.registry.start_of(method.trainer.card)
    own = stated.recipe(method.trainer.card, method.name)
    if base is None:
        return suite.with_recipe("scratch", own)
    return suite.with_recipe("scratch", stated.recipe(base)).with_recipe("finetune", own)


def _method_values(result: Result, today: MethodSpec | None) -> list[str]:
    """What the user set, and what ran under other values than suite and method have today, unless a search drew it."""
    ran = result.config.method
    parts = (today.trainer, today.scorer) if today is not None else (None, None)
    assignments = []
    for each, part in zip((ran.trainer, ran.scorer), parts, strict=True):
        drawn = part.card.search if part is not None and result.draw else {}
        assignments += _component_values(each, part, drawn)
    return assignments


def _component_values(ran: ComponentRun, today: Component | None, drawn: Collection[str]) -> list[str]:
    values = dict(ran.changed)
    if today is not None:
        known = [key for key in ran.values if key in today.values and key not in drawn]
        values |= {key: ran.values[key] for key in known if ran.values[key] != today.values[key]}
    return [f"{ran.name}.{key}={_text(value)}" for key, value in values.items()]


def _suite_values(result: Result, today: Contents, remarks: list[str]) -> list[str]:
    """What ran under other values than the suite's file has today, whoever changed them."""
    ran = result.config.suite
    assignments = _differing("id", values_of(ran.id), values_of(today.id) | {"dataset": ran.id.dataset})
    assignments += _differing("splits", values_of(ran.splits), values_of(today.splits))
    same = ran.network.name == networks.recorded(today.network).name
    assignments += _differing("network", ran.network.options, today.network.options if same else {})
    assignments += _recipe_values(result, today, remarks)
    for key in ("defaults", "corruptions", "wild", "mixture"):
        if getattr(ran, key) != getattr(today, key):
            remarks.append(f"the suite's file has changed since: it ran with {key} {getattr(ran, key)}")
    return assignments


def _model(result: Result, today: Contents, remarks: list[str]) -> list[str]:
    """The network, where the suite has another today; a result records only the name of a user's file."""
    ran = result.config.suite.network.name
    if ran == networks.recorded(today.network).name:
        return []
    code = result.config.code.get("network")
    if networks.is_file(ran):
        remarks.append(f"'{ran.rpartition(':')[0]}' is the file of its network, which was {code}; give its path")
    return ["--model", ran]


def _recipe_values(result: Result, today: Contents, remarks: list[str]) -> list[str]:
    """Of the recipes that the training and those it starts from went by; `--set` changes both of a suite."""
    kinds = ("scratch", "finetune") if result.config.method.starts_from else ("scratch",)
    pairs = [
        (values_of(getattr(result.config.suite.recipes, kind)), values_of(getattr(today.recipes, kind)))
        for kind in kinds
    ]
    assignments = []
    drawn = today.search if result.draw else ()
    for key, value in pairs[0][0].items():
        if f"{RECIPE}{key}" not in drawn and any(ran[key] != now[key] for ran, now in pairs):
            if all(ran[key] == value for ran, _ in pairs):
                assignments.append(f"recipe.{key}={_text(value)}")
            else:
                remarks.append(f"the suite's file has changed since: it ran with recipe.{key} {_each(pairs, key)}")
    return assignments


def _each(pairs: list[tuple[dict[str, Any], dict[str, Any]]], key: str) -> str:
    return " and then ".join(_text(ran[key]) for ran, _ in pairs)


def _differing(section: str, ran: dict[str, Any], today: dict[str, Any]) -> list[str]:
    missing = object()
    return [f"{section}.{key}={_text(value)}" for key, value in ran.items() if today.get(key, missing) != value]


def _sets(result: Result, remarks: list[str]) -> list[str]:
    """The setting by its name, or by its sets where one is a folder of the user's."""
    setting, contents = result.config.setting, result.config.suite
    semantic, covariate = contents.semantic.get(setting.semantic), contents.covariate.get(setting.covariate)
    sources = {"semantic": semantic, "covariate": covariate}
    folders = {kind: source.dataset for kind, source in sources.items() if source and source.dataset.startswith(FOLDER)}
    if not folders:
        return ["--setting", result.setting]
    remarks.append(f"put the folder's path after '{FOLDER}'; a result records only its name")
    words = [word for kind, dataset in folders.items() for word in (f"--{kind}", dataset)]
    for kind in ("semantic", "covariate"):
        if kind not in folders and getattr(setting, kind) != getattr(contents.defaults, kind, suites.NONE):
            words += [f"--{kind}", getattr(setting, kind)]
    changed = [key for key in ("severity", "pi_c", "pi_s") if getattr(setting, key) != getattr(contents.defaults, key)]
    if changed:
        remarks.append(f"its {', '.join(changed)} came from a sweep or a suite file: {result.setting}")
    return words


def _outliers(result: Result, today: Contents, remarks: list[str]) -> list[str]:
    """The auxiliary set, where it is not what the suite has today."""
    ran = result.config.suite.outliers
    if result.config.method.outliers is None:
        needs = "outliers" in result.notes and today.outliers is not None
        return ["--outliers", WILD] if needs else []
    assert ran is not None
    if ran.dataset.startswith(FOLDER):
        remarks.append(f"put the folder's path after '{FOLDER}'; a result records only its name")
    return [] if ran == today.outliers else ["--outliers", ran.dataset]


def _how(result: Result, today: Contents) -> list[str]:
    config, flags = result.config, result.device.split(", ")
    words = ["--cpu-threads", str(config.threads)] if config.threads != (today.cpu_threads or 1) else []
    words += ["--precision", config.suite.precision] if config.suite.precision != today.precision else []
    words += ["--device", "cuda"] if result.device.startswith("cuda") else []
    words += ["--deterministic"] if "deterministic" in flags else []
    return words + (["--compile"] if "compiled" in flags else [])


def _text(value: Any) -> str:
    """As `--set` reads it back; a comma outside brackets and quotes would separate two values."""
    return value if isinstance(value, str) and not set(value) & set(",[]{}()\"'") else json.dumps(value)
