"""Outputs alone in place of a network and its images: what scorers need of either is there, or missing in words."""

from dataclasses import dataclass, fields
from typing import Any, NoReturn

import numpy as np
import torch
from torch import nn

from oodbench.data.image_part import ImagePart
from oodbench.data.parts import Parts
from oodbench.errors import UserError
from oodbench.learning.evaluation import key_of
from oodbench.learning.exchange import Arrays, PartArrays
from oodbench.learning.method import Scorer
from oodbench.learning.networks import Classifier
from oodbench.learning.outputs import Outputs
from oodbench.learning.rows import Streamed
from oodbench.seeds import derive

HELD_OUT = 0.1  # of the training rows, where there are no validation rows
IMAGES = "the file has no images; leave out scorers that need them, or evaluate the network itself"
HEAD = "the file has no head; give its weight and bias, or leave out scorers that read them"
TRAIN = "the file has no training rows; give train_features and train_labels, or leave out what is fitted on them"


class Lacking(UserError):
    """A scorer asked for what a file does not have."""


@dataclass(frozen=True, eq=False)
class Evaluable:
    """What `Evaluation` takes: a network that has a head alone, parts without images, and their outputs."""

    model: Classifier
    images: dict[str, ImagePart]  # by the names of the file; `train` and `validation` are always there, perhaps empty
    known: dict[str, Outputs]
    remarks: list[str]  # what the user should hear

    def parts(self, covariate: str | None = None, semantic: str | None = None) -> Parts:
        """Of a setting: the names are those of `Arrays.sets`' parts; what is not there is empty."""
        nothing = self.images["id"].take(slice(0))
        roles: dict[str, Any] = {
            "labelled": self.images["train"],
            "id_validation": self.images["validation"],
            "id": self.images["id"],
            "covariate": nothing if covariate is None else self.images[covariate],
            "semantic": nothing if semantic is None else self.images[semantic],
            "covariate_validation": None,
        }
        return Parts(**{each.name: roles.get(each.name, nothing) for each in fields(Parts)})


def as_evaluation(arrays: Arrays, device: torch.device) -> Evaluable:
    """The content of a file for `Evaluation(model, images["train"], known=known)`, in float32 on the device."""
    model = _HeadAlone(arrays).to(device).eval().requires_grad_(False)
    images = {name: _image_part(name, part) for name, part in arrays.parts.items()}
    fitting = ("train", "validation")  # no other rows show their labels
    outputs = {name: _outputs(model, part, name in fitting) for name, part in arrays.parts.items()}
    remarks = []
    nothing = images["id"].take(slice(0))
    if "train" not in images:
        images["train"], outputs["train"] = nothing, _missing(model)
    elif "validation" not in images:
        kept, held_out = _by_lot(len(images["train"]))
        whole, out = images["train"], outputs["train"]
        for name, rows in (("train", kept), ("validation", held_out)):
            images[name], outputs[name] = whole.take(rows), _some(out, rows)
        remarks.append(
            f"the file holds no validation rows, so {len(held_out):,} of its {len(whole):,} training rows, drawn at "
            "random, take their place"
        )
    images.setdefault("validation", nothing)
    return Evaluable(model, images, {key_of(images[name]): out for name, out in outputs.items()}, remarks)


def lacking(arrays: Arrays, scorer: Scorer) -> str | None:
    """Why a scorer is to be left out, by what it says of itself; None if it may be tried.

    What it does not say is a `Lacking` when it asks for it.
    """
    if not scorer.needs.isdisjoint({"images", "feature-maps"}):
        return "needs the images, which the file does not hold"
    if "ood-head" in scorer.needs:
        return "needs an OOD head, which the file does not hold"
    if not arrays.has_features and scorer.reads not in ("logits", None):
        return f"reads {scorer.reads}, and the file holds only logits"
    if arrays.weight is None and scorer.reads == "features and head":
        return "reads the head, whose weight the file does not hold"
    if "train" not in arrays.parts and type(scorer).fit is not Scorer.fit and "validation" not in scorer.needs:
        return "needs training rows, and the file holds none"
    if "validation" in scorer.needs and arrays.parts.keys().isdisjoint({"train", "validation"}):
        return "needs validation rows, and the file holds none"
    return None


class _HeadAlone(Classifier):
    """A network of which only the head is known: features go in, and no image."""

    def __init__(self, arrays: Arrays) -> None:
        classes = arrays.num_classes
        features = arrays.parts["id"].features
        super().__init__(_NoBody(), classes if features is None else features.shape[1], classes, (0.0,), (1.0,))
        with torch.no_grad():
            if features is None:  # the logits are the features then
                self.head.weight.copy_(torch.eye(classes))
                self.head.bias.zero_()
            elif arrays.weight is None:
                self.head = _NoHead(features.shape[1], classes)
            else:
                self.head.weight.copy_(arrays.weight)
                self.head.bias.zero_() if arrays.bias is None else self.head.bias.copy_(arrays.bias)

    @property
    def device(self) -> torch.device:
        return self.mean.device


class _NoBody(nn.Module):
    """Takes no image."""

    def forward(self, x: Any) -> NoReturn:
        raise Lacking(IMAGES)

    maps = pool = forward


class _NoHead(nn.Linear):
    """Has neither weight nor bias."""

    def __init__(self, dim: int, num_classes: int) -> None:
        nn.Module.__init__(self)
        self.in_features, self.out_features = dim, num_classes

    weight = bias = property(lambda self: _raise(HEAD))

    def forward(self, input: Any) -> NoReturn:
        raise Lacking(HEAD)


class _NoImages:
    """So many images, as far as anybody can tell without looking at one."""

    def __init__(self, count: int) -> None:
        self.count = count

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, some: Any) -> "_NoImages":
        return _NoImages(len(range(self.count)[some]) if isinstance(some, slice) else len(some))

    shape = property(lambda self: _raise(IMAGES))

    def __array__(self, *_: Any, **__: Any) -> NoReturn:
        raise Lacking(IMAGES)


def _raise(message: str) -> NoReturn:
    raise Lacking(message)


class _NoRows(Outputs):
    """Of training rows that are not there."""

    def copied(self) -> Outputs:
        return self


def _missing(model: Classifier) -> Outputs:
    out = object.__new__(_NoRows)
    vars(out)["model"] = model
    return out


for _each in ("images", "features", "logits", "y", "maps"):
    setattr(_NoRows, _each, property(lambda self: _raise(TRAIN)))


def _image_part(name: str, part: PartArrays) -> ImagePart:
    rows = np.arange(len(part))
    labels = np.zeros(len(part), np.int64) if part.labels is None else part.labels.numpy()
    return ImagePart(_NoImages(len(part)), rows, labels, rows, f"{name} of a file of arrays {part.digest}")


@torch.inference_mode()
def _outputs(model: Classifier, part: PartArrays, labelled: bool) -> Outputs:
    """In float32; made in inference mode, as those of a pass are."""
    features, logits = (
        None if each is None else each.to(model.device).float() for each in (part.features, part.logits)
    )
    if logits is None:
        assert features is not None
        logits = model.head(features)
    y = part.labels.to(model.device) if labelled and part.labels is not None else None
    return Outputs(model, Streamed(_NoImages(len(part))), logits if features is None else features, logits, y)


@torch.inference_mode()
def _some(out: Outputs, rows: np.ndarray) -> Outputs:
    picked = torch.from_numpy(rows).to(out.logits.device)
    assert out.y is not None
    images = Streamed(_NoImages(len(rows)))
    return Outputs(out.model, images, out.features[picked], out.logits[picked], out.y[picked])


def _by_lot(count: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows to fit on and rows to hold out; the same for every file of so many."""
    lots = np.random.default_rng(derive("exchange", "validation")).permutation(count)
    kept = count - round(HELD_OUT * count)
    return np.sort(lots[:kept]), np.sort(lots[kept:])
