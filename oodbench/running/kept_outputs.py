"""Outputs of a trained network that outlive a run: one exchange file for each training and setting.

`oodbench evaluate --arrays` takes such a file as it is, and the next run reads it in place of passing the images. That
a file is of these weights and these images is in its notes; whatever is wrong with it is a reason to make it again.
"""

import math
import re
from pathlib import Path

import msgspec
import torch

from oodbench.config.suite import Setting
from oodbench.data.image_part import ImagePart
from oodbench.data.parts import Parts
from oodbench.errors import UserError
from oodbench.learning import exchange
from oodbench.learning.evaluation import Evaluation, key_of
from oodbench.learning.exchange import Arrays, PartArrays
from oodbench.learning.outputs import Outputs
from oodbench.learning.rows import as_rows

FITTING = ("train", "validation")  # parts whose labels a scorer may see


class Pass(msgspec.Struct, forbid_unknown_fields=True):
    """One pass through a network: which images, and how long it took."""

    images: str  # the key of the part
    seconds: float


class KeptOutputs:
    """The files of one trained network, and which of them are as its evaluation has it."""

    def __init__(self, folder: Path, network: str, evaluation: Evaluation) -> None:
        self.folder, self.network, self.evaluation = folder, network, evaluation
        self._current: set[Path] = set()

    def restore(self, name: str, setting: Setting, parts: Parts) -> None:
        """Take the outputs of a setting, if its file has those of this network and these images, all or none."""
        path = self._file(name)
        if path in self._current or not path.exists():
            return
        try:
            arrays = exchange.read(path)
            passes = msgspec.json.decode(arrays.notes.get("passes", ""), type=dict[str, Pass])
        except (UserError, msgspec.MsgspecError, RecursionError):
            return
        images = _by_name(setting, parts)
        if not self._is_own(arrays, passes, images):
            return
        for each, part in images.items():
            self.evaluation.know(part, self._outputs(arrays.parts[each], part, each in FITTING), passes[each].seconds)
        self._current.add(path)

    def store(self, name: str, setting: Setting, parts: Parts) -> None:
        """Write the outputs of a setting, unless its file has them."""
        path = self._file(name)
        if path in self._current:
            return
        held, passes = {}, {}
        for each, part in _by_name(setting, parts).items():
            out, seconds = self.evaluation.outputs(part, labels=each in FITTING)
            labels = None if each.startswith("semantic") else torch.from_numpy(part.labels)
            held[each], passes[each] = PartArrays(out.features, out.logits, labels), Pass(key_of(part), seconds)
        head = self.evaluation.model.head
        notes = {"network": self.network, "passes": msgspec.json.encode(passes).decode()}
        exchange.write(path, Arrays(held, head.weight, head.bias, notes))
        self._current.add(path)

    def _file(self, name: str) -> Path:
        return self.folder / f"{name}.safetensors"

    def _is_own(self, arrays: Arrays, passes: dict[str, Pass], images: dict[str, ImagePart]) -> bool:
        """Of this network and these images, in the type of numbers that a pass gives."""
        if arrays.notes.get("network") != self.network or not arrays.parts.keys() == passes.keys() == images.keys():
            return False
        for name, part in images.items():
            kept = arrays.parts[name]
            if kept.features is None or kept.logits is None or len(kept) != len(part):
                return False
            if {kept.features.dtype, kept.logits.dtype} != {torch.float32}:
                return False
            if passes[name].images != key_of(part) or not math.isfinite(passes[name].seconds):
                return False
            if kept.features.shape[1] != self.evaluation.model.head.in_features:
                return False
        return arrays.num_classes == self.evaluation.model.head.out_features

    @torch.inference_mode()
    def _outputs(self, kept: PartArrays, images: ImagePart, labelled: bool) -> Outputs:
        """In memory, where no other process can change them, and made as a pass makes them."""
        model = self.evaluation.model
        assert kept.features is not None and kept.logits is not None
        features, logits = (
            torch.empty_like(each, device=model.device).copy_(each) for each in (kept.features, kept.logits)
        )
        y = torch.from_numpy(images.labels).to(model.device) if labelled else None
        return Outputs(model, as_rows(images.images), features, logits, y)


def _by_name(setting: Setting, parts: Parts) -> dict[str, ImagePart]:
    """The parts that scorers read, as an exchange file names them, without those that are empty."""
    images = {
        "train": parts.labelled,
        "validation": parts.id_validation,
        "id": parts.id,
        f"covariate_{_plain(setting.covariate)}": parts.covariate,
        f"semantic_{_plain(setting.semantic)}": parts.semantic,
    }
    return {name: part for name, part in images.items() if len(part) > 0}


def _plain(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9.+_-]", "-", name)
