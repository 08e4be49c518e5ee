"""Sets of a user's own images for a network of his own: which of them play which part in which setting."""

import itertools
import os
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch

from oodbench.config.cards import catalogue
from oodbench.config.suite import FOLDER, NONE, Setting
from oodbench.data import availability, lookup, openood
from oodbench.data.division import Divided, as_classes, divided
from oodbench.data.folder import Folder
from oodbench.data.given_set import GivenSet, check_alike, distinct, name_of
from oodbench.data.parts import Parts
from oodbench.data.preprocessing import ALREADY, Preprocessing
from oodbench.data.probes import PROVES_LITTLE, probes, span_of
from oodbench.errors import UserError, unknown
from oodbench.learning.collected import Collected
from oodbench.learning.first_pass import channels_of
from oodbench.learning.loaders import LoaderRows, as_set, completed
from oodbench.learning.networks import Classifier
from oodbench.learning.outputs import Outputs
from oodbench.learning.rows import to_input
from oodbench.results.result import SetRead
from oodbench.running.given.network import (
    SEED,
    Case,
    Given,
    adapted,
    bring,
    check_labels,
    few_of,
    preprocessing_of,
    suite_of,
)
from oodbench.running.given.request import PROBES, UNNAMED, GivenRequest
from oodbench.running.reporting import Reporter

MOST_SHARED = 0.1  # of a semantic set that may be ID images: so many a careful author overlooks
NOTHING_OOD = (
    "there are no OOD images, so detection is not measured; --semantic probes adds images that are always available"
)
PROBED = 500  # images of each probe


@dataclass(frozen=True)
class Sets:
    """What a user gave, by the part it plays, under names that differ."""

    id: GivenSet
    train: GivenSet | None
    covariate: list[GivenSet]
    semantic: list[GivenSet]

    def every(self) -> list[GivenSet]:
        return [self.id, *([] if self.train is None else [self.train]), *self.covariate, *self.semantic]

    def replaced(self, every: list[GivenSet]) -> "Sets":
        """The same with these in place of `every`, in that order."""
        rest = iter(every)
        id, train = next(rest), None if self.train is None else next(rest)
        return Sets(id, train, list(itertools.islice(rest, len(self.covariate))), list(rest))


def on_sets(asked: GivenRequest, reporter: Reporter) -> Given:
    """A network on sets of the user's: those that are OOD test as a whole."""
    brought = bring(asked, *_classes_and_channels(asked.id))
    preprocessing = preprocessing_of(asked, brought)
    sets = _read(asked, preprocessing, channels_of(brought.module), reporter)
    if sets.id.is_preprocessed:
        preprocessing = ALREADY
    network = adapted(asked, brought, preprocessing, few_of(sets.id), sets.id.classes, reporter)
    passed = {each.name: _pass(each, network.model) for each in sets.every() if isinstance(each.images, LoaderRows)}
    sets = sets.replaced([completed(each) for each in sets.every()])
    _refuse_id_as_ood(sets, reporter)
    division = divided(sets.id, sets.train, SEED)
    reporter.note(f"ID images: {division.said}")
    check_labels(division.test, division.train, network.model.head.out_features)
    if not sets.semantic and not sets.covariate:
        reporter.note(f"note: {NOTHING_OOD}")
    cases = _cases(sets, division)
    read = {each.name: SetRead(each.fingerprint, each.source) for each in sets.every()}
    semantic, covariate = ([each.name for each in some] or [NONE] for some in (sets.semantic, sets.covariate))
    benchmark = openood.of_preprocessing(preprocessing)
    groups = {} if benchmark is None else benchmark.groups(semantic)
    suite = suite_of(network.run.name, sets.id.name, semantic, covariate, groups)
    return Given(network, suite, cases, read, _known(sets, cases, passed), division.said, division.by_lot)


def _classes_and_channels(id: Any) -> tuple[int | None, int]:
    """Of the ID images, before the network says how it wants them; None where that takes reading them."""
    if not isinstance(id, str | os.PathLike):
        return None, 3
    data = lookup.dataset(_text(id))
    if isinstance(data, Folder) and len(data.class_names) == 1:
        is_folder = os.path.isdir(data.path)
        why = "has no class folders; give one" if is_folder else "has images of one class alone; give some"
        raise UserError(f"'{os.fspath(id)}' {why} for each class that the network knows")
    return len(data.class_names) or int(data.labels().max()) + 1, len(data.mean)


def _text(given: str | os.PathLike[str]) -> str:
    """A data set of the catalogue, or a folder as the command line names it."""
    text = os.fspath(given)
    if text.startswith(FOLDER) or text in catalogue("datasets"):
        return text
    if isinstance(given, str) and not os.path.exists(os.path.expanduser(text)):
        raise unknown("data set or folder", text, catalogue("datasets"))
    return f"{FOLDER}{text}"


def _read(asked: GivenRequest, preprocessing: Preprocessing, channels: int | None, reporter: Reporter) -> Sets:
    """All sets. Files of images have as many channels as the network takes, and other sets as many as the ID images."""
    is_folder = isinstance(asked.id, str | os.PathLike) and _text(asked.id).startswith(FOLDER)
    id = _set(asked.id, "id", preprocessing, channels if is_folder else None, asked, reporter)
    channels = id.image_shape[0]
    train = None if asked.train is None else _set(asked.train, "train", preprocessing, channels, asked, reporter)
    kinds: dict[str, list[GivenSet]] = {"covariate": [], "semantic": []}
    for kind, given in (("covariate", asked.covariate), ("semantic", asked.semantic)):
        for name, each in given.items():
            if isinstance(each, str) and each == PROBES and kind == "semantic":
                reporter.note(f"note: {PROVES_LITTLE}")
                kinds[kind] += _probes(id)
            else:
                own = "" if name.startswith(UNNAMED) else name
                kinds[kind].append(_set(each, own or kind, preprocessing, channels, asked, reporter, bool(own)))
    sets = Sets(id, train, kinds["covariate"], kinds["semantic"])
    sets = sets.replaced(distinct(sets.every()))
    check_alike(sets.every())
    return sets


def _set(
    given: Any, name: str, preprocessing: Preprocessing, channels: int | None, asked: GivenRequest, reporter: Reporter,
    is_named: bool = False,
) -> GivenSet:  # fmt: skip
    typed = os.fspath(given) if isinstance(given, str | os.PathLike) else None
    if isinstance(given, str | os.PathLike):
        given = _text(given)
        if given in catalogue("datasets"):
            problem = availability.missing(given)
            if problem is not None and asked.offline:
                raise UserError(problem)
            if problem is not None:
                availability.fetch(availability.stored_as(given), reporter.download)
        name = name if is_named else name_of(given)
    found = as_set(given, name, preprocessing, channels)
    return found if typed is None else replace(found, typed=typed)


def _probes(id: GivenSet) -> list[GivenSet]:
    """As large as the ID images; where these are preprocessed, in the span of their values."""
    is_loader = isinstance(id.images, LoaderRows)
    few = id.images.first().numpy() if is_loader else np.asarray(id.images[:PROBED])
    span = span_of(few) if id.is_preprocessed else None
    return list(probes(id.image_shape, PROBED, SEED, None if is_loader else id, span).values())


def _refuse_id_as_ood(sets: Sets, reporter: Reporter) -> None:
    known = [sets.id] if sets.train is None else [sets.id, sets.train]
    for each in (*sets.covariate, *sets.semantic):
        if each.fingerprint in [some.fingerprint for some in known]:
            raise UserError(f"'{each.label}' holds the ID images themselves; give other images, or leave it out")
    pixels = {mark for each in known for mark in each.pixels}
    for each in sets.semantic:
        shared = sum(mark in pixels for mark in each.pixels)
        said = f"{shared:,} of the {len(each):,} images of '{each.label}' are ID images, pixel by pixel"
        if shared > MOST_SHARED * len(each):
            raise UserError(f"{said}; give images of no class that the network knows")
        if shared:
            reporter.note(f"note: {said}")


@torch.inference_mode()
def _pass(given: GivenSet, model: Classifier) -> Outputs:
    """The outputs of a loader's images, in the one pass that also tells what it holds."""

    features, logits = Collected(), Collected()

    def keep(images: torch.Tensor) -> None:
        found = model.features(to_input(images, model.device))
        features.add(found)
        logits.add(model.head(found))

    given.images.passed(keep)
    return Outputs(model, given.images, features.joined(), logits.joined())


def _known(sets: Sets, cases: list[Case], passed: dict[str, Outputs]) -> dict[str, Outputs]:
    """By the key of a part: its rows of what a loader's pass has given."""
    found = {}
    for part in (part for case in cases for part in case.parts.items().values() if len(part)):
        outputs = next(
            (passed[each.name] for each in sets.every() if each.name in passed and part.whole is each.images), None
        )
        if outputs is not None and part.key not in found:
            rows = torch.from_numpy(part.rows).to(outputs.features.device)
            y = torch.from_numpy(part.labels).to(outputs.features.device)
            features, logits = outputs.features[rows], outputs.logits[rows]
            found[part.key] = Outputs(outputs.model, part.images, features, logits, y)
    return found


def _cases(sets: Sets, division: Divided) -> list[Case]:
    """A setting for every semantic and every covariate set."""
    nothing = division.test.take(slice(0))
    wild = dict.fromkeys(("wild_id", "wild_covariate", "wild_semantic"), nothing)
    mixed = dict.fromkeys(("mixed_id", "mixed_covariate", "mixed_semantic"), nothing)
    shifted = {each.name: as_classes(each, division.classes).part() for each in sets.covariate} or {NONE: nothing}
    semantic = {each.name: each.part() for each in sets.semantic} or {NONE: nothing}
    cases = []
    for (unknown_name, unknown_part), (shift, part) in itertools.product(semantic.items(), shifted.items()):
        parts = Parts(
            division.train, **wild, id_validation=division.validation, **mixed, id=division.test, covariate=part,
            semantic=unknown_part,
        )  # fmt: skip
        cases.append(Case(Setting(unknown_name, shift, severity=1, pi_c=0.0, pi_s=0.0), parts, {}))
    return cases
