"""A result's network and its fitted scorer, ready to score images."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from oodbench.config import networks
from oodbench.config import suite as suites
from oodbench.config.registry import Registry, defines_method
from oodbench.config.suite import Suite
from oodbench.data.parts import build_parts
from oodbench.errors import UserError
from oodbench.learning import precision
from oodbench.learning.evaluation import Evaluation
from oodbench.learning.loop import Failed
from oodbench.learning.method import Scorer
from oodbench.learning.networks import Classifier
from oodbench.learning.rows import as_rows
from oodbench.learning.scoring import forward_for, scores_of
from oodbench.results import result as results
from oodbench.results.result import Result
from oodbench.running import trained
from oodbench.running.execution import keyed
from oodbench.running.plan import cell_of
from oodbench.running.preflight import choose_device
from oodbench.running.session import arithmetic


@dataclass(frozen=True)
class Loaded:
    """What a cell ran with; `score` gives the very numbers that its result has stored."""

    result: Result
    model: Classifier  # in eval mode, parameters frozen
    scorer: Scorer = field(repr=False)  # fitted on the labeled images

    def score(self, images: NDArray[np.uint8] | Any) -> NDArray[Any]:
        """One number per image, higher where it looks more OOD; images are uint8, N x C x H x W."""
        if isinstance(images, np.ndarray) and (images.dtype != np.uint8 or images.ndim != 4):
            given = f"{images.dtype} of shape {images.shape}"
            raise UserError(f"the images are {given}; give uint8 of the shape (N, C, H, W)")
        with _as_in_the_run(self.result.ran_suite, self.model.device):
            return scores_of(self.scorer, forward_for(self.scorer, self.model, as_rows(images))).cpu().numpy()


@contextmanager
def _as_in_the_run(suite: Suite, device: torch.device) -> Iterator[None]:
    """The same arithmetic and random numbers; whoever called keeps his own."""
    with arithmetic(suite, device), precision.fresh_state(), precision.nondeterminism_warns():
        yield


def _with_network(result: Result, plugins: list[str | Path]) -> tuple[Result, list[str | Path]]:
    """A result that knows where the file of its network lies, if a user brings that, and the files of methods."""
    choice = networks.brought(result.config.suite.network, plugins)
    suite = replace(result.config.suite, network=choice)
    methods = [file for file in plugins if not networks.is_of(choice, file) or defines_method(Path(file))]
    return replace(result, config=replace(result.config, suite=suite)), methods


def load(result: Result | str | Path, device: str = "auto", plugins: Iterable[str | Path] = ()) -> Loaded:
    """The network of a result, or of its JSON file, with its weights, and its scorer, fitted as in the run."""
    if not isinstance(result, Result):
        try:
            result = results.read(Path(result))
        except results.Unreadable as problem:
            raise UserError(f"'{result}': {problem}; give the JSON file of a result") from None
    trained.check_trained(result)
    given, (result, methods) = result, _with_network(result, [*plugins])
    trained.check_network(result)
    suite, setting = result.ran_suite, result.config.setting
    suites.check(result.config.suite)  # the file may have been edited
    suites.check_setting(setting, result.config.suite)
    registry, folder = Registry(methods), trained.folder_of(result)
    with _as_in_the_run(suite, chosen := choose_device(device)):
        model = trained.of(result, folder, chosen, registry).model
        parts = build_parts(suite, setting, result.seed)
        scorer = keyed(cell_of(result, registry, folder).method.scorer)
        for name in ("labelled", *(("id_validation",) if "validation" in scorer.scorer.needs else ())):
            if result.data.parts[name].digest != getattr(parts, name).digest:
                raise UserError(
                    f"the split '{name}' differs from the one of '{result.path}'; run it again with --force"
                )
        try:
            fitted, _ = Evaluation(model, parts.labelled).fitted(scorer, parts.id_validation)
        except Failed as failure:
            raise UserError(str(failure)) from None
    return Loaded(given, model, fitted)
