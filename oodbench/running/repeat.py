"""A result in; the command that would make it again out, and what no command can say."""

import json
import shlex
from typing import Any

from oodbench.config import suite as suites
from oodbench.config.registry import MethodSpec, Registry
from oodbench.config.schema import values_of
from oodbench.config.stated import Stated
from oodbench.config.suite import FOLDER, Contents, Suite
from oodbench.config.validation import RECIPE
from oodbench.errors import UserError
from oodbench.results.result import Result


def command(result: Result) -> tuple[str, list[str]]:
    """The command, and remarks on where it may differ from what ran."""
    remarks: list[str] = []
    words = ["oodbench", "run", "--suite", result.suite]
    if result.preset is not None:
        words += ["--preset", result.preset]
    words += ["--methods", result.config.method.name]
    try:
        suite, here = suites.load(result.suite, result.preset), True
    except UserError:
        suite, here = result.ran_suite, False
        remarks.append(f"the suite '{result.suite}' is not here, or has changed; give its file after --suite")
    stated = _stated(suite)
    method = _method_today(result, stated)
    today = _with_own_recipes(suite, stated, method).contents
    assignments = [*_method_values(result, method if here else None), *_suite_values(result, today, remarks)]
    words += [word for each in assignments for word in ("--set", each)]
    words += _sets(result, remarks)
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


def _stated(suite: Suite) -> Stated:
    """What the suite states for methods today; nothing where it names one that is not here."""
    registry = Registry()
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
        values = dict(each.changed)
        if part is not None:
            drawn = part.card.search if result.draw else {}
            known = [key for key in each.values if key in part.values and key not in drawn]
            values |= {key: each.values[key] for key in known if each.values[key] != part.values[key]}
        assignments += [f"{each.name}.{key}={_text(value)}" for key, value in values.items()]
    return assignments


def _suite_values(result: Result, today: Contents, remarks: list[str]) -> list[str]:
    """What ran under other values than the suite's file has today, whoever changed them."""
    ran = result.config.suite
    assignments = _differing("id", values_of(ran.id), values_of(today.id) | {"dataset": ran.id.dataset})
    assignments += _differing("splits", values_of(ran.splits), values_of(today.splits))
    if ran.network.name == today.network.name:
        assignments += _differing("network", ran.network.options, today.network.options)
    else:
        remarks.append(f"it ran with the network {ran.network.name}; the suite has {today.network.name} today")
    assignments += _recipe_values(result, today, remarks)
    for key in ("defaults", "corruptions", "wild", "mixture"):
        if getattr(ran, key) != getattr(today, key):
            remarks.append(f"the suite's file has changed since: it ran with {key} {getattr(ran, key)}")
    return assignments


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
