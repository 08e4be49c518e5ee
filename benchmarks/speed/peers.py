"""pytorch-ood 0.4 beside oodbench: five closed-form detectors, the same WRN-40-2 and images, fit and metrics included.

    python benchmarks/speed/peers.py

pytorch-ood runs as its documentation shows: each detector is fitted by its own pass over the training bank, then its
benchmark evaluates each OOD set together with the ID images, all detectors in one call that share network outputs, or
one call for each. It is given its images as float32 tensors, normalized and channels last. Ratios are to a plain pass
over bank and test splits. CPU time of one thread.
"""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

import sys
import warnings
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

import torch
from subject import CLOSED_FORM, network, parts, plain_pass, scorers
from timing import TURNS, Row, least, main
from torch import nn
from torch.utils.data import ConcatDataset, DataLoader, Dataset, TensorDataset

from oodbench.data.image_part import ImagePart
from oodbench.data.parts import Parts
from oodbench.learning.evaluation import Evaluation
from oodbench.learning.networks import Classifier
from oodbench.results import metrics
from oodbench.running.execution import keyed
from oodbench.torchvision_import import import_with_torchvision

LOADER = {"batch_size": 32}


def peer(model: Classifier, images: Parts, package: ModuleType) -> Callable[[bool], None]:
    def tensors(part: ImagePart, known: bool = True) -> TensorDataset:
        x = (torch.from_numpy(part.whole).float() / 255 - model.mean) / model.std
        y = torch.from_numpy(part.labels)
        return TensorDataset(x.contiguous(memory_format=torch.channels_last), y if known else torch.full_like(y, -1))

    bank, known = tensors(images.labelled), tensors(images.id)
    tests = [ConcatDataset([known, tensors(part, known=False)]) for part in (images.covariate, images.semantic)]

    class Splits(package.benchmark.base.Benchmark):  # type: ignore[misc,name-defined]
        ood_names = ("covariate", "semantic")

        def train_set(self) -> Dataset[Any]:
            return bank

        def test_sets(self, known: bool = True, unknown: bool = True) -> list[Dataset[Any]]:
            return list(tests)

    body, detector = model.body, package.detector
    whole = nn.Sequential(body, model.head)

    def run(together: bool) -> None:
        vim = detector.ViM(body, d=model.head.in_features // 2, w=model.head.weight, b=model.head.bias)
        fitted = [detector.Mahalanobis(body), vim, detector.KNN(body, k=50)]
        for each in fitted:
            each.to("cpu").fit(DataLoader(bank, **LOADER))
        detectors = [detector.MaxSoftmax(whole), detector.EnergyBased(whole), *fitted]
        splits = Splits()
        for chosen in [detectors] if together else [[each] for each in detectors]:
            splits.evaluate(chosen, loader_kwargs=LOADER)

    return run


def rows(quick: bool) -> Iterator[Row]:
    warnings.filterwarnings("ignore")  # of its optional dependencies
    package = import_with_torchvision("pytorch_ood")
    import_with_torchvision("pytorch_ood.benchmark.base")
    model = network("wrn", depth=10, width=1) if quick else network("wrn", depth=40, width=2)
    images = parts(bank=60, each=20) if quick else parts(bank=120, each=40)
    chosen, run = scorers(*CLOSED_FORM), peer(model, images, package)

    def ours() -> None:
        evaluation = Evaluation(model, images.labelled)
        for scorer in chosen:
            scored = evaluation.score(keyed(scorer), images)[0]
            metrics.evaluate(**{split: metrics.Scored(**vars(each)) for split, each in scored.items()})

    every = (images.labelled, images.id, images.covariate, images.semantic)
    sides = {
        "plain": lambda: plain_pass(model, *every),
        "oodbench": ours,
        "together": lambda: run(True),
        "one at a time": lambda: run(False),
    }
    spent = least(sides, 1 if quick else TURNS)
    yield Row("oodbench, five scorers : a plain pass (few images)", spent["oodbench"] / spent["plain"])
    yield Row("pytorch-ood, its five scorers in one call : a plain pass", spent["together"] / spent["plain"])
    yield Row("pytorch-ood, one scorer at a time : a plain pass", spent["one at a time"] / spent["plain"])


if __name__ == "__main__":
    sys.exit(main(rows, __doc__))
