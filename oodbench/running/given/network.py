"""A network that a user brings: from what he asked for to a Classifier and the parts it is measured on."""

import itertools
import re
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path

import torch
from torch import Tensor, nn

from oodbench.config import identity
from oodbench.config.cards import OOD_HEAD
from oodbench.config.contents import Column, Contents, Defaults, NetworkChoice, Recipes, Source
from oodbench.config.recipe import Recipe
from oodbench.config.suite import NONE, Setting, Suite, suite_files
from oodbench.data.class_names import match
from oodbench.data.given_set import GivenSet
from oodbench.data.image_part import ImagePart
from oodbench.data.parts import Parts
from oodbench.data.preprocessing import Preprocessing, stated
from oodbench.errors import UserError, shortened
from oodbench.learning.adapter import Adapted, NoHead, adapt, behaviour_digest
from oodbench.learning.given_models import GivenModel, from_module, load_model, output_names
from oodbench.learning.loaders import LoaderRows
from oodbench.learning.method import Scorer
from oodbench.learning.networks import Classifier
from oodbench.learning.outputs import Outputs, forward
from oodbench.learning.rows import as_rows, to_input
from oodbench.learning.scoring import NEGATIVE
from oodbench.results.result import GivenRun, SetRead
from oodbench.running.given.request import GivenRequest
from oodbench.running.preflight import choose_device
from oodbench.running.reporting import Reporter

SEED = 0  # of what lots decide: nothing is trained, so one is enough
BATCH = 16  # images that a network is tried on
NOT_TRAINED = Recipes(*[Recipe(epochs=0, batch_size=0, lr=0.0)] * 2)
NO_NORMALIZATION = "its normalization is unknown, so it gets pixels in [0, 1]; set it with --mean and --std"


@dataclass(frozen=True)
class Case:
    """A setting, and the images that play its parts."""

    setting: Setting
    parts: Parts
    marks: dict[str, str]  # what its key says of where they come from, beside their own contents


@dataclass(frozen=True)
class Network:
    """A network that was brought, as a Classifier on images in [0, 1]."""

    model: Classifier
    run: GivenRun
    brought: GivenModel | None  # None: only outputs of it are here
    preprocessing: Preprocessing
    class_names: tuple[str, ...]  # of the ID classes, where they are known
    misfit: Callable[[Scorer], str | None]  # why a scorer cannot be used with it, if so


@dataclass(frozen=True)
class Given:
    """A network and all that it will be measured on."""

    network: Network
    suite: Suite  # as results record it
    cases: list[Case]
    sets: dict[str, SetRead]
    known: dict[str, Outputs] = field(default_factory=dict)  # by the key of a part: outputs that are there already
    division: str = ""  # which ID images are for what, in a line
    by_lot: bool = False  # whether that is a lot, and the network may have been trained on the test images

    @property
    def run(self) -> GivenRun:
        return self.network.run

    @property
    def model(self) -> Classifier:
        return self.network.model


def bring(asked: GivenRequest, num_classes: int | None, channels: int) -> GivenModel:
    """The network as its author wrote it, with its weights."""
    if isinstance(asked.model, nn.Module):
        if asked.weights is not None:
            raise UserError("a module from Python already has its weights; load them into it and leave out weights=")
        return from_module(asked.model, asked.name)
    if not isinstance(asked.model, str):
        raise UserError(f"a network is an nn.Module or a text such as timm:resnet18, not {type(asked.model).__name__}")
    weights = None if asked.weights is None else Path(asked.weights)
    return load_model(asked.model, weights, num_classes, channels)


def preprocessing_of(asked: GivenRequest, brought: GivenModel) -> Preprocessing:
    """What the user says, over what the network's own configuration does."""
    return stated(asked.mean, asked.std, asked.size, brought.preprocessing)


def adapted(
    asked: GivenRequest,
    brought: GivenModel,
    preprocessing: Preprocessing,
    few: Tensor,
    id_classes: tuple[str, ...],
    reporter: Reporter,
) -> Network:
    """The network as a Classifier, tried on a few ID images; refused in words where that does not work."""
    if preprocessing.stated_by == "nobody":
        reporter.note(f"note: {brought.text}: {NO_NORMALIZATION}")
    else:
        reporter.note(f"images for {brought.text}: {preprocessing.in_words()}")
    few = to_input(few, torch.device("cpu"))
    mean, std = preprocessing.for_channels(few.shape[1])
    whole = adapt(brought.module, few, mean, std, asked.head, features=asked.features)
    file = None if asked.classes is None else Path(asked.classes)
    matching = match(output_names(brought), id_classes, whole.head.out_features, file)
    model = whole
    if matching.outputs is not None:
        model = adapt(brought.module, few, mean, std, asked.head, matching.outputs, asked.features)
    for line in (model.doubt, matching.note):
        if line:
            reporter.note(f"note: {line}")
    run = GivenRun(
        name=checked_name(asked.name or brought.name),
        model=brought.text,
        weights=brought.weights,
        head=model.head_name,
        form=model.form,
        preprocessing=asdict(preprocessing),
        classes=matching.outputs,
        adapter=identity.of_harness("adapter"),
        digest=behaviour_digest(model, few),
        features=model.layer_name,
    )
    model = model.to(choose_device(asked.device))
    with torch.no_grad():
        out = forward(model, few.to(model.device))
    return Network(model, run, brought, preprocessing, id_classes, partial(_misfit, model, out))


def _misfit(model: Adapted, out: Outputs, scorer: Scorer) -> str | None:
    """`out` are the outputs of a few images."""
    if not model.has_features and scorer.reads != "logits" and "images" not in scorer.needs:
        say = "" if scorer.reads != "distances" else " (--features LAYER names a layer to read instead)"
        return f"reads {scorer.reads or 'features'}, and no linear layer gives this network's logits{say}"
    if not model.has_head and _asks_for_the_head(scorer, out):
        return "reads the head, and no linear layer gives this network's logits"
    if OOD_HEAD in scorer.needs:
        return "needs an OOD head, which a trainer adds to a network"
    if not model.has_maps and "feature-maps" in scorer.needs:
        return "needs feature maps, and this network has none before its last pooling"
    return negative_misfit(float((out.features < 0).float().mean()), scorer)


def _asks_for_the_head(scorer: Scorer, out: Outputs) -> bool:
    """Whether it does when it is tried on a few images; what else it cannot do with these is no matter."""
    tried = copy(scorer)
    try:
        tried.fit(replace(out, y=out.predicted))
        tried.score(out)
    except NoHead:
        return True
    except Exception:
        pass
    return scorer.reads in ("features and head", "gradients") and "images" not in scorer.needs


def negative_misfit(share: float, scorer: Scorer) -> str | None:
    """Why a scorer cannot be used with a network, a share of whose features is negative."""
    if share > NEGATIVE and "nonnegative-features" in scorer.needs:
        return f"needs features that are not negative, and {100 * share:.0f} % of this network's are"
    return None


def checked_name(name: str) -> str:
    """What results call a network, if folders may be called so and no suite is, whose rows they would stand among."""
    if re.fullmatch(r"\w[\w.+-]*", name) is None or name in (*suite_files(), NONE):
        raise UserError(
            f"a network cannot be called '{shortened(name)}', as a suite is or with signs that no folder should have; "
            "give it another name with --name, of letters, digits and . + - _"
        )
    return name


def suite_of(
    name: str, id: str, semantic: Sequence[str], covariate: Sequence[str], groups: Mapping[str, list[str]] | None = None
) -> Suite:
    """What a suite file would say of sets of these names, for results; none of a kind is [NONE].

    A table averages the semantic sets of a group.
    """
    contents = Contents(
        title=f"{name} on the sets given",
        id=Source(id),
        network=NetworkChoice("given"),
        recipes=NOT_TRAINED,
        defaults=Defaults(covariate[0], pi_c=0.0, pi_s=0.0),
        settings=[Column(unknown, shift) for unknown, shift in itertools.product(semantic, covariate)],
        semantic={each: Source(each) for each in semantic if each != NONE},
        groups=dict(groups or {}),
        covariate={each: Source(each) for each in covariate if each != NONE},
    )
    return Suite(name, Path(name), None, contents)


def check_labels(test: ImagePart, train: ImagePart, outputs: int) -> None:
    """That the network can be right about every ID image."""
    largest = int(max(test.labels.max(initial=0), train.labels.max(initial=0)))
    if largest >= outputs:
        raise UserError(
            f"an ID image has the label {largest}, and the network has {outputs} classes, counted from 0; "
            "give the network that was trained on these classes"
        )


def few_of(images: ImagePart | GivenSet) -> Tensor:
    """Some images, spread over all: the first ones may be of one class. A loader's first batch has to do."""
    if isinstance(images, GivenSet):
        if isinstance(images.images, LoaderRows):
            return images.images.first()[:BATCH]
        images = images.part()
    rows = torch.linspace(0, len(images) - 1, min(BATCH, len(images))).long().unique()
    return next(iter(as_rows(images.take(rows.numpy()).images).split(BATCH)))
