"""Trained networks: the suite's network, what its trainers add to it, and the weights that a training gave it."""

import math
import os
import shlex
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from oodbench.config import networks
from oodbench.config.cards import FACTORY, load_class
from oodbench.config.registry import Registry
from oodbench.config.schema import conform
from oodbench.config.suite import Setting, Suite
from oodbench.data import lookup, views
from oodbench.data.parts import Parts, mixed_validation
from oodbench.errors import UserError
from oodbench.learning import precision
from oodbench.learning.augmentation import view_kind
from oodbench.learning.batches import Data, Split, WildMixture
from oodbench.learning.checkpoint import fits_module, load_state, load_tensors, save_tensors
from oodbench.learning.factories import Factory
from oodbench.learning.initial_weights import describe, read_weights
from oodbench.learning.label_oracle import SEMANTIC, LabelOracle
from oodbench.learning.loop import Loop
from oodbench.learning.networks import Classifier, Network
from oodbench.learning.rows import as_rows, to_input
from oodbench.learning.state_digest import state_digest
from oodbench.results.plain import as_plain
from oodbench.results.result import WEIGHTS, EpochAccuracies, Result
from oodbench.running import keys, provenance
from oodbench.running.cells import Training, weights_file
from oodbench.running.plan import cell_of
from oodbench.running.repeat import command
from oodbench.seeds import derive

CPU = torch.device("cpu")
FIELDS = {"model", "log", "notes", "seconds"}  # of a file of weights
LATER_FIELDS = {"training", "seed", "data", "seen", "digest", "machine"}  # which older ones lack


def build_model(suite: Suite, seed: int) -> Classifier:
    """The suite's network with the initial weights that a seed gives, the same for every trainer."""
    contents = suite.contents
    mean, std = lookup.normalization(suite)
    with networks.mistakes(contents.network.name):
        network = network_of(suite)
        torch.manual_seed(derive(seed, "init"))
        body, dim = network.body(len(mean))
        model = precision.classifier(contents.precision)(body, dim, lookup.num_classes(suite), mean, std)
    if not network.has_head_bias:
        nn.init.zeros_(model.head.bias).requires_grad_(False)
    if isinstance(network, Factory):  # written for the order that torch has, in which `view` joins rows
        model.memory_format = torch.contiguous_format
    return model.to(memory_format=model.memory_format)  # type: ignore[call-overload]  # torch leaves this form untyped


def network_of(suite: Suite) -> Network:
    """What makes the bodies of a suite's classifiers."""
    choice = suite.contents.network
    card = networks.card(choice.name)
    loaded: Any = load_class(card)
    if card.kind != FACTORY:
        network: Network = loaded(**choice.options)
        return network
    classes, side = lookup.num_classes(suite), image_side(suite)
    return Factory(loaded, choice.name, card.path, card.needs, choice.options, classes, side)


@torch.no_grad()
def prepare(model: Classifier, suite: Suite, data: Data) -> None:
    """Give a network that starts from scratch what it takes from training images."""
    network, images = network_of(suite), data.labelled.images
    if network.prepared_from:
        rows = torch.arange(min(network.prepared_from, len(images)), device=images.device)
        network.prepare(model.body, model.normalized(to_input(images.index_select(0, rows), model.device)))


def image_side(suite: Suite) -> int:
    """How wide and high what a network is given is."""
    return 1 if suite.contents.id.embed is not None else views.side(suite)


def data_of(training: Training, parts: Parts, setting: Setting) -> Data:
    """What a trainer may read of a setting's images: what it needs and no more."""
    suite = training.suite
    if training.reads_base and parts.base is not None:
        parts = replace(parts, labelled=parts.base)
    data = training_data(suite, parts, setting if training.reads_wild else None)
    if training.reads_outliers and parts.outliers is not None:
        data = replace(data, outliers=as_rows(parts.outliers.images))
    if "views" in training.trainer.card.needs:
        data = replace(data, views=view_kind(training.recipe.augment))
    return data


def training_data(suite: Suite, parts: Parts, setting: Setting | None) -> Data:
    """The labeled images and, with a setting, its wild mixture."""
    env = None
    if parts.labelled.domains is not None:
        env = torch.from_numpy(np.unique(parts.labelled.domains, return_inverse=True)[1])
    # Labels are copied as images are whenever they are asked for: a trainer that changes them changes its own.
    labelled = Split(as_rows(parts.labelled.images), torch.tensor(parts.labelled.labels), env)
    if setting is None:
        return Data(labelled, lookup.num_classes(suite))
    wild_id, covariate, semantic = (
        as_rows(part.images) for part in (parts.wild_id, parts.wild_covariate, parts.wild_semantic)
    )
    return Data(
        labelled,
        lookup.num_classes(suite),
        WildMixture(wild_id, covariate, semantic, setting.pi_c, setting.pi_s, suite.contents.mixture),
        id_validation=as_rows(parts.id_validation.images),
        mixed_validation=as_rows(mixed_validation(parts, setting)),
        id_test=as_rows(parts.id.images),
    )


def oracle(parts: Parts, wild: WildMixture, budget: int) -> LabelOracle:
    """Who knows the labels of `wild.once()`."""
    id_count, covariate_count, semantic_count = wild.once_counts()
    known = [parts.wild_id.labels[:id_count], parts.wild_covariate.labels[:covariate_count]]
    labels = np.concatenate([*known, np.full(semantic_count, SEMANTIC)])
    return LabelOracle(torch.from_numpy(labels.astype(np.int64)), budget)


@dataclass(frozen=True)
class Trained:
    """A network with its weights, frozen, and how it came to them."""

    model: Classifier
    log: list[dict[str, Any]]  # one record per epoch
    notes: dict[str, Any]  # of the trainer, for the result
    seconds: float
    machine: dict[str, str] = field(default_factory=dict)  # where it was trained, if that is known

    @cached_property
    def digest(self) -> str:
        """Of the weights when it was first asked for: before any scorer has seen them."""
        return provenance.weights_digest(self.model)


class Unusable(Exception):
    """A file of weights that is not what its name promises, and why."""


def of(
    which: Training | Result,
    folder: Path | None = None,
    device: torch.device = CPU,
    registry: Registry | None = None,
) -> Trained:
    """The network of a training or a result, with its weights from the results folder, which a read result knows.

    `registry` knows the plugins of a result, if it was made with any.
    """
    if isinstance(which, Result):
        return _of_result(which, folder or folder_of(which), device, registry or Registry())
    assert folder is not None
    try:
        trained = stored(which, folder, device)
    except Unusable as problem:
        raise UserError(f"{problem}; run its cells again to retrain it") from None
    if trained is None:
        path, name = weights_file(which.key, folder), which.trainer.label
        raise UserError(f"the weights of '{name}', seed {which.seed}, are not in '{path}'; run its cells first")
    return trained


def folder_of(result: Result) -> Path:
    """The results folder that a result was read from."""
    if result.path is None:
        raise UserError("this result was not read from a file; read it with oodbench.read_results")
    path = result.path if len(result.path.parents) > 3 else result.path.absolute()
    return path.parents[3]


def started(training: Training, device: torch.device) -> Classifier:
    """The network that a trainer is given: the suite's, with what the trainers before it add."""
    return extended(build_model(training.suite, training.seed).to(device), training.chain[:-1], device)


def extended(model: Classifier, trainings: Iterable[Training], device: torch.device) -> Classifier:
    """With what trainers add to a network, in place; the first weights of that follow from the seed."""
    for training in trainings:
        torch.manual_seed(derive(training.seed, "trainer"))
        training.trainer.make().extend(model)
        model.to(device)
    return model


def frozen(model: Classifier) -> Classifier:
    """Scorers that differentiate by the input then do not pay for the weights."""
    return model.eval().requires_grad_(False)


def stored(
    training: Training, folder: Path, device: torch.device, data: Callable[[], dict[str, str]] | None = None
) -> Trained | None:
    """The network of a training if its weights are given or in the folder; None if they have yet to be trained.

    `data` gives the digests of what it would learn from now, which must be those of what it has learned from.
    """
    if training.init is not None:
        model = started(training, device)
        read_weights(model, training.init)
        return Trained(frozen(model), [], {"weights": f"given by --init {describe(training.init)}"}, 0.0)
    path = weights_file(training.key, folder)
    if not path.exists():
        return None
    contents = _read(path, device)
    if contents is None:
        raise Unusable(f"'{path}' is damaged, or not a file of weights")
    for name, value in _names(training).items():
        if contents.get(name, value) != value:  # files of 0.1 name neither
            raise Unusable(f"'{path}' belongs to another training: its {name} is {contents[name]}, not {value}")
    for name, mark in training.marks.items():
        if contents.get("data", {}).get(name, mark) != mark:
            raise Unusable(f"'{path}' belongs to another training: its images of '{name}' differ")
    if data is not None and "seen" in contents:
        for name, digest in data().items():
            if contents["seen"].get(name) != digest:
                raise Unusable(f"'{path}' was trained on other data: its '{name}' differs")
    return _filled(started(training, device), training, contents, path)


def keep(
    training: Training, folder: Path, model: Classifier, loop: Loop, seconds: float, seen: dict[str, str]
) -> Trained:
    """Write what a training has learned; the network as it will be read back, without what else was done to it."""
    log = conform(as_plain(loop.log, "loop.log"), list[dict[str, Any]], ("loop.log",))
    notes = conform(as_plain(loop.notes, "loop.notes"), dict[str, Any], ("loop.notes",))
    for record in log:
        if "domains" in record:
            conform(record["domains"], EpochAccuracies, ("loop.log", "domains"))
    contents = {
        "model": {name: each.detach().clone() for name, each in model.state_dict().items()},
        "log": log,
        "notes": notes,
        "seconds": seconds,
        **_names(training),
        "data": dict(training.marks),
        "seen": seen,
        "machine": provenance.machine(),
    }
    path = weights_file(training.key, folder)
    if not _are_weights(contents["model"]):
        raise UserError("after training, some of the network's weights are NaN; lower the learning rate")
    try:
        network = _filled(started(training, model.device), training, contents, path)
    except Unusable:
        raise UserError(
            "after training, the network has other weights than before; add what a trainer needs in extend"
        ) from None
    save_tensors(path, contents)
    return network


def set_aside(training: Training, folder: Path) -> Path:
    """Take an unusable file out of the way without losing it, or one that was set aside before."""
    path = weights_file(training.key, folder)
    aside, n = path.with_suffix(".pt.unreadable"), 1
    while aside.exists():
        aside, n = path.with_suffix(f".pt.unreadable{n}"), n + 1
    with suppress(FileNotFoundError):  # another worker that starts from it was faster
        os.replace(path, aside)
    return aside


def _names(training: Training) -> dict[str, Any]:
    return {"training": training.key, "seed": training.seed}


def _read(path: Path, device: torch.device) -> dict[str, Any] | None:
    """What a file of weights holds; None if it is missing, damaged or not ours."""
    contents: Any = load_tensors(path, device)
    if not isinstance(contents, dict) or not (FIELDS <= contents.keys() <= FIELDS | LATER_FIELDS):
        return None
    log, seconds = contents["log"], contents["seconds"]
    is_log = isinstance(log, list) and all(isinstance(record, dict) for record in log)
    is_time = isinstance(seconds, int | float) and math.isfinite(seconds)
    are_plain = isinstance(contents.get("training", ""), str) and isinstance(contents.get("seed", 0), int)
    are_mappings = all(isinstance(contents.get(name, {}), dict) for name in ("notes", "data", "seen", "machine"))
    if not (is_log and is_time and are_plain and are_mappings):
        return None
    return contents if _are_weights(contents["model"]) else None


def is_whole(path: Path) -> bool:
    """Whether a file holds weights of the training that its name says, as its digest has them."""
    contents = _read(path, CPU)
    return contents is not None and "digest" in contents and contents.get("training") == path.stem


def _are_weights(state: Any) -> bool:
    """Tensors by name, none of them with a value that is no number: no network with such weights is of any use."""
    return isinstance(state, dict) and all(
        isinstance(name, str) and isinstance(each, Tensor) and not each.is_quantized and not each.isnan().any()
        for name, each in state.items()
    )


def _filled(model: Classifier, training: Training, contents: dict[str, Any], path: Path) -> Trained:
    """The network a trainer was given, with what it adds and the weights it has learned."""
    extended(model, [training], model.device)
    if not fits_module(contents["model"], model):
        raise Unusable(f"'{path}' holds the weights of another network")
    load_state(model, contents["model"])
    machine = contents.get("machine", {})
    return Trained(frozen(model), contents["log"], contents["notes"], contents["seconds"], machine)


def check_network(result: Result) -> None:
    """A network of the user's must be the very code that ran: weights may fit another that computes otherwise."""
    choice, ran = result.config.suite.network, result.config.code.get("network")
    try:
        here = keys.network_code(choice)["code"]
    except UserError as error:
        raise UserError(
            f"the network '{choice.name}' of this result is not here ({error}); go to the folder that holds its file, "
            'or bring it: oodbench.load(result, plugins=["FOLDER/FILE.py"])'
        ) from None
    if not networks.card(choice.name).is_ours and here != ran:
        raise UserError(f"the network '{choice.name}' is {here} here and was {ran}; restore its file")


def check_trained(result: Result) -> None:
    """A network that was given is its owner's: a result says which one it was, and has none of it."""
    given = result.config.given
    if given is not None:
        raise UserError(
            f"the network '{given.name}' was given and is not stored with its results; to score images with it, make a "
            "detector with oodbench.fit and read it with oodbench.Detector.load"
        )


def _of_result(result: Result, folder: Path, device: torch.device, registry: Registry) -> Trained:
    """By the name of its training or, where a file has another name, by the digest of its weights."""
    run = f"'{result.method}', seed {result.seed}"
    check_trained(result)
    if result.weights is None:
        raise UserError(f"{run}, failed and has no network; run it again")
    check_network(result)
    training = cell_of(result, registry, folder).training
    named = weights_file(result.training, folder)
    for path in [named, *sorted(set((folder / WEIGHTS).glob("*.pt")) - {named})]:
        contents = _read(path, device)
        if contents is not None and state_digest(contents["model"]) == result.weights:
            try:
                return _filled(started(training, device), training, contents, path)
            except Unusable as problem:
                raise UserError(f"{problem}; the code of {run}, has changed since, so run it again") from None
    missing = f"the weights of {run}, are not in '{folder / WEIGHTS}'"
    if result.config.init is not None and not result.config.method.starts_from:
        raise UserError(f"{missing}: they were given with --init; leave it out to train such a network")
    again = f"{command(result)[0]} --results {shlex.quote(str(folder))} --force"
    raise UserError(f"{missing}; train them again with --force: {again}")
