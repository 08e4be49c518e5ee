"""Results as a run writes them, without running: for tests of what reads results."""

from dataclasses import replace
from functools import cache

import numpy as np

from oodbench.config import suite as suites
from oodbench.config.contents import NONE, Column, Contents, Defaults, NetworkChoice, Recipes, Setting, Source
from oodbench.config.recipe import Recipe
from oodbench.config.registry import Registry
from oodbench.config.shipped import YOUR_NETWORK
from oodbench.results.metrics import Scored, evaluate
from oodbench.results.result import ComponentRun, Config, DataRead, GivenRun, MethodRun, Result
from oodbench.results.stored import write

CARDS = Registry().cards
DETECTION, GROUP = "OOD detection", "Learning with wild data"


def spelled(method):
    """As the method's files spell it, if there is such a method."""
    return " + ".join(CARDS[name].display if name in CARDS else name for name in method.split("+"))


def component(name, values=None, changed=None):
    return ComponentRun(name, spelled(name), f"{name}@1", values or {}, changed or {})


@cache
def contents_of(suite):
    """As a result records them."""
    return replace(suites.load(suite).contents, presets={}, sweeps={}, search={})


def config(
    suite="digits-c", setting=None, method="scone", display=None, group=GROUP, values=None, contents=None, changed=None
):
    """What ran: a suite of ours unless `contents` are given, `setting` as keys that differ from its first."""
    contents = contents or contents_of(suite)
    first = suites.Suite(suite, None, None, contents).settings[0]
    ran = Setting(**{**vars(first), **(setting or {})})
    run = method_run(method, display, group, values, changed)
    return Config(contents, ran, run, contents.recipes.scratch, {}, threads=1)


def method_run(label, display=None, group=GROUP, values=None, changed=None):
    """`mixup+knn,knn.k=5` with the values as text; else a scorer on ERM, or a trainer with energy scores."""
    name, *words = label.split(",")
    trainer, _, scorer = name.partition("+")
    stated = {"trainer": dict(changed or {}), "scorer": {}}
    for word in words if changed is None else ():
        key, _, value = word.partition("=")
        owner, _, key = key.rpartition(".")
        stated["scorer" if scorer and owner == scorer else "trainer"][key] = value
    if not scorer and (CARDS[name].kind == "Scorer" if name in CARDS else group == DETECTION):
        return MethodRun(
            name, display or spelled(name), group, component("erm"), component(name, values, stated["trainer"])
        )
    components = component(trainer, values, stated["trainer"]), component(scorer or "energy", None, stated["scorer"])
    return MethodRun(name, display or spelled(name), group, *components)


def a_result(suite="digits-c", method="scone", setting="unseen-digits", seed=0, *, made=None, **fields):
    """One result; `made` are the arguments of `config`."""
    made = {"method": method, **(made or {})}
    values = {
        "suite": suite, "preset": None, "setting": setting, "method": method, "seed": seed, "status": "ok",
        "error": None, "traceback": None, "metrics": {}, "metrics_version": 1, "key": f"{method}-{seed}",
        "variant": "v", "training": "t", "config": None, "seeds": {}, "versions": {}, "commit": None, "device": "cpu",
        "machine": {}, "data": DataRead(), "weights": None, "notes": {}, "domain_accuracies": [], "seconds": {},
        "written": "2026-08-01T12:00:00",
    }  # fmt: skip
    values |= fields
    if values["config"] is None:
        values["config"] = config(**{"suite": suite, **made} if "contents" not in made else made)
    return Result(**values)


def with_scores(result, folder, id_correct, covariate_correct=None, id_scores=None, semantic_scores=(1.0,)):
    """The same, written with raw scores and the metrics that follow; `…_correct` say which images are classified so.

    Without the sets that the setting of a given result lacks.
    """

    def split(correct, scores=None):
        correct = np.asarray(correct)
        scores = np.zeros(len(correct)) if scores is None else np.asarray(scores, float)
        return Scored(scores, predictions=correct.astype(np.int16), labels=np.ones(len(correct), np.int16))

    semantic = np.asarray(semantic_scores, float)
    scores = {
        "id": split(id_correct, id_scores),
        "covariate": split(id_correct if covariate_correct is None else covariate_correct),
        "semantic": Scored(semantic, predictions=np.zeros(len(semantic), np.int16)),
    }
    if result.config.given is not None:
        ran = result.config.setting
        scores = {name: each for name, each in scores.items() if getattr(ran, name, None) != NONE}
    path = folder / result.suite_label / result.setting / result.method / f"seed{result.seed}-{result.variant}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    return write(replace(result, metrics=evaluate(**scores)), path, scores, [])


def given_run(name="resnet18", **fields):
    """A network as a user brings it."""
    values = {
        "name": name, "model": f"timm:{name}", "weights": "mine.safetensors", "head": "fc", "form": "W f + b",
        "preprocessing": {
            "mean": [0.5, 0.5, 0.5], "std": [0.25, 0.25, 0.25], "size": [32, 32], "resize": None,
            "interpolation": "bilinear", "stated_by": "timm",
        },
        "classes": None, "adapter": "adapter@1", "digest": f"digest-of-{name}",
    }  # fmt: skip
    return GivenRun(**{**values, **fields})


def given_contents(semantic=(), covariate=()):
    """Of sets that a user gives; nothing is trained."""
    nothing = Recipe(epochs=0, batch_size=0, lr=0.0)
    columns = [Column(each, one) for one in covariate or (NONE,) for each in semantic or (NONE,)]
    return Contents(
        title="photos",
        id=Source("folder:photos"),
        network=NetworkChoice("given"),
        recipes=Recipes(nothing, nothing),
        defaults=Defaults(covariate=covariate[0] if covariate else NONE, pi_c=0.0, pi_s=0.0),
        settings=columns,
        semantic={name: Source(f"folder:{name}") for name in semantic},
        covariate={name: Source(f"folder:{name}") for name in covariate},
    )


def a_given_result(scorer="msp", semantic="others", covariate=NONE, given=None, *, suite=None, contents=None, **fields):
    """A given network under one scorer: on sets of the user's or, with `suite`, on one of ours and its covariate set.

    `contents` list all sets of the evaluation; otherwise there are none but these two.
    """
    given = given or given_run()
    if suite is not None:
        nothing = given_contents()
        contents = replace(contents_of(suite), network=nothing.network, recipes=nothing.recipes)
    sets = [[name] if name != NONE else [] for name in (semantic, covariate)]
    contents = contents or given_contents(*sets)
    setting = contents.completed(Column(semantic, None if suite is not None and covariate == NONE else covariate))
    method = scorer if suite is None else f"{given.name}+{scorer}"
    display = spelled(scorer) if suite is None else f"{given.name} + {spelled(scorer)}"
    trainer = ComponentRun("given", given.name, f"given@{given.digest}", {})
    ran = MethodRun(method, display, YOUR_NETWORK, trainer, component(scorer))
    made = Config(contents, setting, ran, contents.recipes.scratch, {}, threads=1, given=given)
    name = suites.Suite(suite or given.name, None, None, contents).setting_name(setting)
    values = {"variant": f"{given.digest}-{scorer}", "training": given.digest, "weights": given.digest, **fields}
    return a_result(suite or given.name, method, name, config=made, **values)
