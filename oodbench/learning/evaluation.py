"""One network under every scorer: each split passes once, each scorer is fitted once.

Scorers that oodbench ships are scored together, some rows under all of them and then the next: what several compute of
the same rows is computed once and then makes room.
"""

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from oodbench.data.image_part import ImagePart
from oodbench.data.parts import Parts
from oodbench.learning.bank import compare, halved
from oodbench.learning.loop import Failed
from oodbench.learning.method import BankScorer, Scorer
from oodbench.learning.networks import Classifier
from oodbench.learning.outputs import MapsReader, Outputs, forward_reading
from oodbench.learning.rows import as_rows
from oodbench.learning.scoring import ROWS, fit, joined, one_per_row, refuse_negative

TEST_SPLITS = ("id", "covariate", "semantic")


Watch = Callable[[str, float], None]  # what is being done, in words, and the share of it that is


def _unwatched(what: str, share: float) -> None: ...


@dataclass(frozen=True)
class KeyedScorer:
    """A scorer that is yet to be fitted, and what tells it from others."""

    scorer: Scorer
    name: str  # for messages
    key: str  # equal where code and values are
    shipped: bool = False  # with oodbench, and so tested to change nothing


@dataclass(frozen=True)
class SplitScores:
    """What a scorer and its network say of the rows of a test split."""

    scores: NDArray[Any]
    predictions: NDArray[np.int16]
    labels: NDArray[np.int16] | None  # None of semantic OOD, which belongs to no class
    confidence: NDArray[np.float32]  # the largest softmax probability, that of the prediction


class Evaluation:
    """Scores the test splits; outputs, fitted scorers and scores are remembered by content for the next cell.

    `expected` are scorers that will be asked for too: those that oodbench ships are scored with the first. Images whose
    outputs are `known` pass only for scorers that read feature maps. `watch` hears what is being done and which share
    of it is. With `half_bank`, training rows are in memory in
    half precision alone once the scorers are fitted; what is fitted later passes the training images again.
    """

    def __init__(
        self,
        model: Classifier,
        labelled: ImagePart,
        expected: Iterable[KeyedScorer] = (),
        known: Mapping[str, Outputs] = MappingProxyType({}),  # by the keys of the images
        half_bank: bool = False,
        watch: Watch | None = None,
    ) -> None:
        self.model, self.labelled = model, labelled
        self._watch = watch or _unwatched
        self._expected = [each for each in expected if each.shipped]
        self._alone: set[str] = set()  # keys of expected scorers that failed: when they are asked for, they say why
        self._outputs: dict[str, tuple[Outputs, float]] = {key: (out, 0.0) for key, out in known.items()}
        self._maps: dict[tuple[str, str], Tensor] = {}  # what scorers read in feature maps, by scorer and images
        self._known = frozenset(known)
        self._half = half_bank
        self._half_bank: Tensor | None = None
        self._scorers: dict[str, tuple[Scorer, dict[str, float]]] = {}
        self._scores: dict[tuple[str, str], tuple[Tensor, float]] = {}

    def score(self, keyed: KeyedScorer, parts: Parts) -> tuple[dict[str, SplitScores], dict[str, float]]:
        """Scores and predictions of the test splits that have images, and the seconds each stage took when done."""
        seconds = self.fitted(keyed, parts.id_validation)[1]
        seconds["score"] = 0.0
        scored = {}
        for split in TEST_SPLITS:
            images: ImagePart = getattr(parts, split)
            if split != "id" and len(images) == 0:
                continue  # a suite of generalization alone, or of detection alone
            out, spent = self._pass(images, keyed)
            if len(self.labelled) == 0:
                _check_features(keyed, out)
            values, scoring = self._scored(keyed, parts.id_validation, out, images)
            seconds["forward"] += spent
            seconds["score"] += scoring
            predictions = out.logits.argmax(dim=-1).cpu().numpy().astype(np.int16)
            labels = None if split == "semantic" else images.labels.astype(np.int16)
            confidence = out.logits.softmax(dim=-1).amax(dim=-1).cpu().numpy().astype(np.float32)
            scored[split] = SplitScores(values.cpu().numpy(), predictions, labels, confidence)
        return scored, seconds

    def fitted(self, keyed: KeyedScorer, id_validation: ImagePart) -> tuple[Scorer, dict[str, float]]:
        """The scorer, fitted on the labeled images, and the seconds of the passes and the fit."""
        key = _fit_key(keyed, id_validation)
        if key not in self._scorers:
            self._scorers[key] = self._fit(keyed, id_validation)
        scorer, seconds = self._scorers[key]
        return scorer, dict(seconds)

    def _fit(self, keyed: KeyedScorer, id_validation: ImagePart) -> tuple[Scorer, dict[str, float]]:
        train, passing = self._pass(self.labelled, keyed, labels=True)
        if len(self.labelled) > 0:
            _check_features(keyed, train)
        validation = None
        if "validation" in keyed.scorer.needs:
            if len(id_validation) == 0:
                raise Failed(f"'{keyed.name}' needs ID validation images, and this setting has none")
            validation, spent = self._pass(id_validation, keyed, labels=True)
            passing += spent
        started = time.perf_counter()
        scorer = copy(keyed.scorer)  # which may be fitted on other validation images too
        with torch.no_grad():
            given = _given(keyed, train)
            fit(scorer, given, validation and _given(keyed, validation))
            if self._half and isinstance(scorer, BankScorer) and scorer.bank is given.features:
                scorer.bank = self._halved(train) if keyed.shipped else halved(scorer.bank)
        return scorer, {"forward": passing, "fit": time.perf_counter() - started}

    def _halved(self, train: Outputs) -> Tensor:
        """One for all that oodbench ships: scorers share the products with a bank if it is the same object."""
        if self._half_bank is None:
            self._half_bank = halved(train.features)
        return self._half_bank

    def _make_room(self) -> None:
        """Forget the training rows, if the bank shall stand for them; what the caller holds is no room to be made."""
        key = key_of(self.labelled)
        if self._half and key not in self._known:
            self._outputs.pop(key, None)

    def outputs(self, images: ImagePart, labels: bool = False) -> tuple[Outputs, float]:
        """Of images, for whoever reads no feature maps, and the seconds that their pass took."""
        key = key_of(images)
        if key not in self._outputs:
            started = time.perf_counter()
            out = self._forward(images, _labels(images) if labels else None, {}, "")[0]
            self._outputs[key] = out, time.perf_counter() - started
        return self._outputs[key]

    def know(self, images: ImagePart, out: Outputs, seconds: float) -> None:
        """Take outputs that an earlier pass has given, unless there are any; it took so many seconds then."""
        self._outputs.setdefault(key_of(images), (out, seconds))

    def _pass(self, images: ImagePart, keyed: KeyedScorer, labels: bool = False) -> tuple[Outputs, float]:
        """The outputs for a scorer, with what it reads in feature maps, and the seconds of their pass."""
        key, needs_maps = key_of(images), "feature-maps" in keyed.scorer.needs
        if key not in self._outputs or (needs_maps and (keyed.key, key) not in self._maps):
            some = [each for each in self._with(keyed) if "feature-maps" in each.scorer.needs]
            readers = {each.key: each.scorer.read_maps for each in some}
            started = time.perf_counter()
            out, read = self._forward(images, _labels(images) if labels else None, readers, keyed.key)
            self._maps |= {(each, key): values for each, values in read.items()}
            self._outputs.setdefault(key, (out, time.perf_counter() - started))
        out, seconds = self._outputs[key]
        return (replace(out, maps=self._maps[keyed.key, key]) if needs_maps else out), seconds

    def _forward(
        self, images: ImagePart, y: Tensor | None, readers: Mapping[str, MapsReader], asked: str
    ) -> tuple[Outputs, dict[str, Tensor]]:
        """One pass for all that read maps; where it fails, one for the scorer that was asked for alone."""
        rows, count = as_rows(images.images), len(images)

        def passed(so_far: int) -> None:
            self._watch(f"{count:,} images through the network", so_far / count)

        try:
            return forward_reading(self.model, rows, readers, y, passed=passed)
        except Exception:
            others = readers.keys() - {asked}
            if not others:
                raise
            self._alone |= others
            own = {key: readers[key] for key in readers.keys() - others}
            return forward_reading(self.model, rows, own, y, passed=passed)

    def _with(self, keyed: KeyedScorer) -> list[KeyedScorer]:
        """The scorer, and those that are done along with it."""
        if not keyed.shipped:
            return [keyed]
        return [keyed, *(each for each in self._expected if each.key not in {keyed.key, *self._alone})]

    def _scored(
        self, keyed: KeyedScorer, id_validation: ImagePart, out: Outputs, images: ImagePart
    ) -> tuple[Tensor, float]:
        key = _fit_key(keyed, id_validation), key_of(images)
        if key not in self._scores:
            turns = self._ready(keyed, id_validation, images)
            self._make_room()
            self._score_together(turns, out, images)
        values, spent = self._scores[key]
        bad = int((~values.isfinite()).sum())
        if bad:
            del self._scores[key]  # the next cell shall try anew
            raise Failed(f"'{keyed.name}' gave {bad} of {len(images)} scores that are not finite")
        return values, spent

    def _ready(self, keyed: KeyedScorer, id_validation: ImagePart, images: ImagePart) -> "list[_Turn]":
        """The scorer, fitted, and before it the expected ones that have yet to score these images.

        What an expected one does wrong is told when it is asked for; until then the others go on without it.
        """
        turns = []
        for each in self._with(keyed)[::-1]:
            key = _fit_key(each, id_validation)
            if (key, key_of(images)) in self._scores:
                continue
            try:
                scorer = self.fitted(each, id_validation)[0]
                turns.append(_Turn(each, key, scorer, self._maps.get((each.key, key_of(images)))))
            except Exception:
                if each is keyed:
                    raise
                self._alone.add(each.key)
        return turns

    def _score_together(self, turns: "list[_Turn]", out: Outputs, images: ImagePart) -> None:
        """The last turn is of the scorer that was asked for; others that fail are left out until they are asked for."""
        asked, what = turns[-1], f"{len(turns)} scorer{'s' * (len(turns) > 1)} on {len(images):,} images"
        for start in range(0, len(images), ROWS):
            rows = slice(start, start + ROWS)
            shared = out.rows(rows)
            together = _side_by_side(turns)
            for i, some in enumerate(together):
                self._watch(what, (start + len(shared.logits) * i / len(together)) / len(images))
                started = time.perf_counter()
                try:
                    self._take_turns(some, shared, rows)
                except Exception:
                    if some == [asked]:
                        raise
                    turns = [each for each in turns if each not in some]
                    self._alone |= {each.keyed.key for each in some}
                    if asked in some:
                        return self._score_together([replace(asked, values=[])], out, images)
                for each in some:
                    each.seconds += (time.perf_counter() - started) / len(some)
        for each in turns:
            self._scores[each.key, key_of(images)] = joined(each.values), each.seconds

    def _take_turns(self, turns: "list[_Turn]", shared: Outputs, rows: slice) -> None:
        """One scorer, or several that compare with the same bank."""
        with torch.no_grad():
            if len(turns) > 1:
                found = compare([cast(BankScorer, turn.scorer) for turn in turns], shared)
                for turn, values in zip(turns, found, strict=True):
                    turn.values.append(values)
                return
            (turn,) = turns
            own = shared if turn.maps is None else replace(shared, maps=turn.maps[rows])
            turn.values.append(one_per_row(turn.scorer, _given(turn.keyed, own)))


def _given(keyed: KeyedScorer, out: Outputs) -> Outputs:
    """What a scorer sees; one that oodbench does not ship may change it, and gets a copy."""
    return out if keyed.shipped else out.copied()


@dataclass(eq=False)
class _Turn:
    """A fitted scorer and what it has given for the rows so far."""

    keyed: KeyedScorer
    key: str
    scorer: Scorer
    maps: Tensor | None
    values: list[Tensor] = field(default_factory=list)
    seconds: float = 0.0


def _side_by_side(turns: Sequence[_Turn]) -> list[list[_Turn]]:
    """Those that compare with the same bank together, the others one by one; the last stays in the last."""
    groups: dict[int, list[_Turn]] = {}
    for turn in turns:
        is_shared = isinstance(turn.scorer, BankScorer) and turn.keyed.shipped
        groups.setdefault(id(cast(BankScorer, turn.scorer).bank if is_shared else turn), []).append(turn)
    return list(groups.values())


def _fit_key(keyed: KeyedScorer, id_validation: ImagePart) -> str:
    """What a fitted scorer depends on beside the network and its labeled images."""
    return keyed.key + (key_of(id_validation) if "validation" in keyed.scorer.needs else "")


def key_of(images: ImagePart) -> str:
    """Two parts with one key hold the same pixels."""
    return images.key


def _labels(images: ImagePart) -> Tensor:
    return torch.from_numpy(images.labels)


def _check_features(keyed: KeyedScorer, out: Outputs) -> None:
    if "nonnegative-features" in keyed.scorer.needs:
        refuse_negative(keyed.name, out.features[:ROWS])
