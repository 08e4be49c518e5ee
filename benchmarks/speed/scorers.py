"""Every closed-form scorer on one pass of WRN-40-2, beside pytorch-ood, whose detectors pass the images one by one.

    python benchmarks/speed/scorers.py

4,000 test images and a bank of 25,000 training rows. Ours: one pass over the images, then fit, score and metrics of all
scorers that neither differentiate nor read feature maps, of a network as a run has it and of the same as a user gives
it, adapted from a plain module. pytorch-ood's: those of the same scorers that it has, each as
its documentation shows, fitted on the features of the same bank and then given the images in batches of 32; on a tenth
of them, for it takes a pass each. Ratios are to a plain pass over the same images; the bank's own pass is left out on
both sides. CPU time of one thread.
"""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

import sys
import warnings
from collections.abc import Callable, Iterator
from dataclasses import replace
from types import ModuleType
from typing import Any

import torch
from subject import CLASSES, images, network, parts, plain_pass
from timing import Row, least, main
from torch import Tensor, nn

from oodbench.config.registry import Component, Registry
from oodbench.data.parts import Parts
from oodbench.learning.adapter import adapt
from oodbench.learning.evaluation import Evaluation
from oodbench.learning.networks import Classifier
from oodbench.learning.outputs import Outputs
from oodbench.learning.rows import as_rows
from oodbench.results import metrics
from oodbench.running.execution import keyed
from oodbench.torchvision_import import import_with_torchvision

TURNS = 3
BATCH = 32
BACKWARD = {"odin", "adascale"}  # those that differentiate by the input


def closed_form() -> list[Component]:
    """Every scorer of the registry that needs one pass and nothing else of the network."""
    cards = Registry().cards.values()
    chosen = [card for card in cards if card.kind == "Scorer" and card.needs.isdisjoint({"feature-maps", "ood-head"})]
    return [Component(card) for card in chosen if card.name not in BACKWARD]


def trained_rows(model: Classifier, labelled: Any) -> Outputs:
    """The bank: features as a trained network has them, half of them zero, in clusters that its head knows."""
    generator = torch.Generator().manual_seed(0)
    y = torch.from_numpy(labelled.labels)
    means = torch.randn(CLASSES, model.head.in_features, generator=generator)
    model.head.weight.copy_(means.relu())
    model.head.bias.copy_(-means.relu().square().sum(dim=-1) / 2)
    features = (means[y] + 0.5 * torch.randn(len(y), model.head.in_features, generator=generator)).relu()
    return Outputs(model, as_rows(labelled.images), features, model.head(features), y)


def peers(model: Classifier, bank: Outputs, some: Parts, package: ModuleType) -> tuple[int, Callable[[], None]]:
    """How many detectors pytorch-ood has of ours, and their evaluation of the test images."""
    body, head, d = model.body, model.head, package.detector
    whole = nn.Sequential(body, head)
    maps, from_maps = nn.Sequential(body, nn.Unflatten(1, (-1, 1, 1))), nn.Sequential(nn.Flatten(), head)
    weight, bias = head.weight, head.bias
    everything: list[Any] = [
        *(d.MaxSoftmax(whole), d.EnergyBased(whole), d.MaxLogit(whole), d.Entropy(whole), d.GEN(whole)),
        *(d.TemperatureScaling(whole), d.KLMatching(whole), d.GradNorm(whole)),
        *(d.ReAct(maps, from_maps), d.ASH(maps, from_maps), d.SCALE(maps, from_maps), d.VRA(maps, from_maps)),
        *(d.LTS(body, head), d.DICE(body, weight, bias, p=0.9), d.ViM(body, head.in_features // 2, weight, bias)),
        *(d.Mahalanobis(body), d.RMD(body), d.KNN(body), d.NNGuide(body, head), d.GMM(body), d.PNML(body, head)),
        *(d.SHE(body, head), d.NCI(body, head), d.fDBD(body, head)),
    ]
    assert bank.y is not None
    batches: list[Tensor] = []
    for part in (some.id, some.covariate, some.semantic):
        x = (torch.from_numpy(part.whole).float() / 255 - model.mean) / model.std
        batches += x.contiguous(memory_format=torch.channels_last).split(BATCH)

    def run() -> None:
        for each in everything:
            _fit(each, bank)
            for x in batches:
                each.predict(x)

    return len(everything), run


def _fit(detector: Any, bank: Outputs) -> None:
    """On the outputs that it reads, which spares it the pass over the bank."""
    maps = bank.features[:, :, None, None]
    outputs = {"fit_features": bank.features, "fit_feature_maps": maps, "fit_logits": bank.logits}
    for name, values in outputs.items():
        if detector.requires_fit and hasattr(detector, name):
            getattr(detector, name)(values, bank.y)
            return


def rows(quick: bool) -> Iterator[Row]:
    warnings.filterwarnings("ignore")  # of its optional dependencies
    package = import_with_torchvision("pytorch_ood")
    model = network("wrn", depth=10, width=1) if quick else network("wrn", depth=40, width=2)
    many = parts(bank=300, each=20) if quick else parts(bank=25_000, each=1_280)
    many = replace(many, id_validation=images(100 if quick else 160, seed=9))
    tests = (many.id, many.covariate, many.semantic, many.id_validation)
    scorers, bank = closed_form(), trained_rows(model, many.labelled)
    few_images = torch.from_numpy(many.id.whole[:16]).float() / 255
    mean, std = (each.flatten().tolist() for each in (model.mean, model.std))
    given = adapt(nn.Sequential(model.body, model.head), few_images, mean, std)

    def ours(network: Classifier) -> None:
        chosen = [keyed(scorer) for scorer in scorers]
        evaluation = Evaluation(network, many.labelled, chosen, {many.labelled.key: replace(bank, model=network)})
        for each in chosen:
            scored = evaluation.score(each, many)[0]
            metrics.evaluate(**{split: metrics.Scored(**vars(found)) for split, found in scored.items()})

    sides = {"plain": lambda: plain_pass(model, *tests), "run": lambda: ours(model), "given": lambda: ours(given)}
    spent = least(sides, 1 if quick else TURNS)
    claim = (
        f"{len(scorers)} closed-form scorers, fit and metrics included : a plain pass (4,000 images, bank of 25,000)"
    )
    yield Row(claim, spent["run"] / spent["plain"], 1.15)
    yield Row(
        f"the same on a given network, {len(scorers)} scorers : a plain pass", spent["given"] / spent["plain"], 1.15
    )

    few = parts(bank=20, each=20 if quick else 128)
    count, theirs = peers(model, bank, few, package)
    few_tests = (few.id, few.covariate, few.semantic)
    spent = least({"plain": lambda: plain_pass(model, *few_tests), "theirs": theirs}, 1)
    yield Row(f"pytorch-ood, {count} of these scorers, one by one : a plain pass", spent["theirs"] / spent["plain"])


if __name__ == "__main__":
    sys.exit(main(rows, __doc__))
