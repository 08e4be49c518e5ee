"""Detectors: a network, a fitted scorer and a threshold, which say of an image whether it is OOD."""

from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from oodbench.config import identity
from oodbench.config.registry import Component, Registry
from oodbench.config.schema import Misfit, conform
from oodbench.data.preprocessing import ALREADY, Preprocessing
from oodbench.errors import UserError, said, shown, unknown
from oodbench.learning import precision
from oodbench.learning.fitted_state import decoded, restore, state_of
from oodbench.learning.method import Scorer
from oodbench.learning.networks import Classifier
from oodbench.learning.scoring import forward_for, scores_of
from oodbench.running.given import detector_files, detector_networks
from oodbench.running.given.detector_files import AGAIN, DetectorCard, ScorerCard, Stored
from oodbench.running.preflight import choose_device

SCORER, ID_SCORES = "scorer.", "id_scores"  # names of tensors in the file, or how they begin


class Verdicts(NamedTuple):
    """What a detector says of images, one value for each."""

    scores: Tensor  # greater where an image looks more OOD
    is_ood: Tensor  # bool: the score is greater than the threshold
    labels: Tensor  # int64: the predicted class, a number of `detector.classes`
    quantiles: Tensor  # float64: the share of held-out ID images with this score or a smaller one


class _Learned(nn.Module):
    """The tensors of a fitted scorer as buffers, so that they move and are stored as a module's are."""

    def __init__(self, scorer: Scorer) -> None:
        super().__init__()
        tensors, self.plain = state_of(scorer)
        self.scorer = scorer
        for name, each in tensors.items():
            self.register_buffer(name, _usual(each))
        self._give()

    def _give(self) -> None:
        restore(self.scorer, dict(self.named_buffers()), self.plain)

    def _apply(self, fn: Any, recurse: bool = True) -> "_Learned":
        super()._apply(fn, recurse)
        self._give()
        return self


class Detector(nn.Module):
    """Says of images whether they are OOD: `detector(images).is_ood`.

    It is in eval mode whatever is asked of it, computes in the precision it was fitted in, and follows `.to(device)`.
    """

    def __init__(
        self,
        model: Classifier,
        scorer: Scorer,
        id_scores: Tensor,
        card: DetectorCard,
        shipped: bool = False,
    ) -> None:
        super().__init__()
        self.model = model
        self.learned = _Learned(scorer)
        self.id_scores: Tensor
        self.register_buffer(ID_SCORES, id_scores.double())
        self.card = card
        self._threshold = card.threshold.value
        self._shipped = shipped  # the scorer, which then leaves nothing behind that must be put right
        self.eval()

    @property
    def threshold(self) -> float:
        """An image is OOD where its score is greater. May be set; `keep` and `flagged` are of the fitted one."""
        return self._threshold

    @threshold.setter
    def threshold(self, value: float) -> None:
        if not np.isfinite(value):
            raise UserError(f"a threshold of {value} decides nothing; give a number")
        self._threshold = float(value)

    @property
    def keep(self) -> float:
        return self.card.threshold.keep

    @property
    def flagged(self) -> dict[str, float]:
        """The share of each set that the fitted threshold flags, by name; `id` are the held-out ID images."""
        return {name: each.share.value for name, each in self.card.flagged.items()}

    @property
    def classes(self) -> tuple[str, ...]:
        return self.card.classes

    @property
    def preprocessing(self) -> Preprocessing:
        return self.card.preprocessing

    @property
    def notes(self) -> tuple[str, ...]:
        """What its user should know."""
        return self.card.notes

    @property
    def device(self) -> torch.device:
        return self.model.device

    def train(self, mode: bool = True) -> "Detector":
        """Nothing here is trained: it stays in eval mode."""
        return super().train(False)

    def forward(self, images: Any) -> Verdicts:
        """Of uint8 images, which are pixels, or of floats, which are fed to the network as they are.

        An array or a tensor, N x C x H x W, or one image, C x H x W.
        """
        rows = self._checked(images)
        if rows.is_floating_point():
            # The network normalizes its input, so that this is what it sees, up to rounding. Scorers that change the
            # image take their step in pixels, as they did when the threshold was drawn.
            rows = rows.to(self.device, torch.float32) * self.model.std + self.model.mean
        with self._as_fitted():
            out = forward_for(self.learned.scorer, self.model, rows)
            scores = scores_of(self.learned.scorer, out)
        at = torch.searchsorted(self.id_scores, scores.double().contiguous(), right=True)
        quantiles = torch.where(scores.isnan(), 1.0, at.double() / len(self.id_scores))
        line = replace(self.card.threshold, value=self._threshold)
        return Verdicts(_usual(scores), line.is_ood(scores), _usual(out.predicted), quantiles)

    @contextmanager
    def _as_fitted(self) -> Iterator[None]:
        """The arithmetic that it was fitted in, and random numbers that begin anew."""
        with ExitStack() as inside:
            inside.enter_context(precision.arithmetic("fp32", deterministic=False))
            inside.enter_context(precision.nondeterminism_warns())
            if not self._shipped:
                inside.enter_context(precision.fresh_state())
            yield

    def _checked(self, images: Any) -> Tensor:
        """The images as rows of a tensor; UserError for what this network was not fitted on."""
        try:
            rows = images if isinstance(images, Tensor) else torch.from_numpy(np.asarray(images))
        except (TypeError, ValueError):
            raise UserError(f"{shown(images)} holds no images; give an array or a tensor N x C x H x W") from None
        shape = tuple(rows.shape)
        if rows.ndim == 3:
            rows = rows[None]
        if rows.ndim != 4 or not (rows.dtype == torch.uint8 or rows.is_floating_point()):
            kind = str(rows.dtype).removeprefix("torch.")
            raise UserError(f"the images are {kind} of shape {shape}; give uint8 or floats, N x C x H x W")
        if len(rows) == 0:
            raise UserError("there are no images; give at least one")
        channels, size = self.card.network.input[0], self.preprocessing.size
        if rows.shape[1] != channels:
            raise UserError(f"the images have {rows.shape[1]} channels, and the network takes {channels}; convert them")
        if rows.dtype == torch.uint8:
            if self.preprocessing.stated_by == ALREADY.stated_by:
                raise UserError(
                    "this detector was fitted on preprocessed images, and these are uint8 pixels; give floats that are "
                    "preprocessed in the same way"
                )
            if size is not None and tuple(rows.shape[2:]) != size:
                given, wanted = (" x ".join(map(str, each)) for each in (rows.shape[2:], size))
                raise UserError(f"the images are {given} pixels, and the network takes {wanted}; resize them")
        return rows

    def __repr__(self) -> str:
        card = self.card
        shares = ", ".join(f"{name} {100 * share:.1f} %" for name, share in self.flagged.items())
        return f"Detector({card.network.text}, {card.scorer.display}, OOD above {self._threshold:.6g}, flags {shares})"

    def save(self, path: str | Path) -> None:
        """Into a folder of its own, whole or not at all."""
        card = self.card
        if self._threshold != card.threshold.value:
            raise UserError(
                f"the threshold was set to {self._threshold:g}, and the shares that would be stored were measured at "
                f"{card.threshold.value:g}; set it again after loading, or fit with another keep"
            )
        tensors = detector_networks.tensors_of(self.model, card.network, card.preprocessing)
        tensors |= {SCORER + name: each for name, each in self.learned.named_buffers()}
        tensors[ID_SCORES] = self.id_scores
        detector_files.write(Path(path), Stored(card, self.learned.plain, tensors))

    @classmethod
    def load(
        cls,
        path: str | Path,
        model: nn.Module | str | None = None,
        device: str = "auto",
        plugins: Iterable[str | Path] = (),
    ) -> "Detector":
        """What `save` wrote; `model` is the architecture where the folder does not say it, with any weights."""
        chosen = choose_device(device)
        stored = detector_files.read(Path(path))
        component = _component(stored.card.scorer, Registry(plugins))
        scorer = component.make()
        scores = stored.tensors.get(ID_SCORES)
        try:
            restore(scorer, stored.below(SCORER), stored.learned)
            if scores is None or scores.ndim != 1 or not len(scores) or not bool(scores.isfinite().all()):
                raise ValueError("no scores of ID images")
        except ValueError as error:
            raise UserError(f"'{path}' does not hold a fitted {component.card.name} ({said(error)}); {AGAIN}") from None
        classifier = detector_networks.rebuilt(stored, model)
        shipped = identity.is_shipped(component.card)
        detector = cls(classifier, scorer, scores.sort().values, stored.card, shipped).to(chosen)
        detector._rehearse()
        return detector

    def _rehearse(self) -> None:
        """Score noise once, so that what does not fit together is told now and not with the first image."""
        images = torch.zeros(2, *self.card.network.input, dtype=torch.uint8)
        try:
            self(images.float() if self.preprocessing.stated_by == ALREADY.stated_by else images)
        except UserError:
            raise
        except Exception as error:
            name = self.card.scorer.name
            raise UserError(f"the fitted {name} does not fit the network ({said(error)}); {AGAIN}") from error


def _component(card: ScorerCard, registry: Registry) -> Component:
    """The scorer of a card, if it is here and the same code."""
    scorers = {name: each for name, each in registry.cards.items() if each.kind == "Scorer"}
    if card.name not in scorers:
        known = unknown("scorer", card.name, scorers)
        raise UserError(f"fitted by a scorer that is not here ({known}); bring its file: --plugin FILE.py")
    found = scorers[card.name]
    here = identity.of_card(found)
    if here != card.code:
        raise UserError(f"fitted by {card.code}, and this oodbench has {here}; {AGAIN}")
    try:
        values = {name: decoded(value, {}) for name, value in card.values.items()}
        if values.keys() != found.parameters.keys():
            raise ValueError("other hyperparameters")
        for name, value in values.items():
            conform(value, found.parameters[name].type, (card.name, name))
    except (ValueError, Misfit) as error:
        raise UserError(f"the hyperparameters of {card.name} are damaged ({said(error)}); {AGAIN}") from None
    return Component(found, changed=values)


def _usual(tensor: Tensor) -> Tensor:
    """A tensor like any other, also where inference made it, which nobody could change or differentiate by."""
    if not tensor.is_inference():
        return tensor.detach()
    with torch.inference_mode(False):
        return tensor.clone()
