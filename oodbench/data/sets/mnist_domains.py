"""MNIST in several looks: colored (M. Arjovsky et al. 2019; I. Gulrajani and D. Lopez-Paz 2021) and rotated.

Which digit goes where and is colored how follows from fixed seeds, so that these are data sets like any other.
"""

from functools import cached_property
from pathlib import Path
from typing import ClassVar

import numpy as np
from PIL import Image

from oodbench.config import identity
from oodbench.config.cards import catalogue
from oodbench.data import store
from oodbench.data.dataset import Dataset
from oodbench.data.sets.idx import MNIST
from oodbench.seeds import derive


class _FromMNIST(Dataset):
    has_test_part = False
    source = "MNIST"
    made_from = "mnist"

    def files(self) -> list[Path]:
        return MNIST().files()

    @cached_property
    def fingerprint(self) -> str:
        """Of MNIST, and of what is made from it here."""
        return f"{MNIST().fingerprint}-{identity.of_card(catalogue('datasets')[self.name])}"

    def generator(self, purpose: str) -> np.random.Generator:
        return np.random.default_rng(derive(self.name, purpose))

    def load(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        images = store.cached_array(f"{self.name}-images", self.fingerprint, lambda: self.make()[0])
        labels = store.cached_array(f"{self.name}-labels", self.fingerprint, lambda: self.make()[1])
        return images, np.array(labels), np.zeros(len(labels), dtype=bool)

    def make(self) -> tuple[np.ndarray, np.ndarray]:
        raise NotImplementedError


class _Colored(_FromMNIST):
    """Is the digit below five? The label is wrong for a quarter of them, and the color tells it better than the shape.

    y = [digit < 5] xor Bernoulli(0.25); color = y xor Bernoulli(e), where e is the domain's.
    """

    mean, std = (0.0, 0.0), (1.0, 1.0)
    class_names = ("5 to 9", "0 to 4")
    flips: ClassVar[tuple[float, ...]]  # e of each domain

    def colored(self, grey: np.ndarray, digits: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        draws = self.generator("flips").random((2, len(digits)))
        labels = (digits < 5) ^ (draws[0] < 0.25)
        colors = labels ^ (draws[1] < np.array(self.flips)[self.domain_of])
        images = np.repeat(grey, 2, axis=1)
        images[np.arange(len(images)), 1 - colors.astype(np.int64)] = 0
        return images, labels.astype(np.int64)


class ColoredMNIST(_Colored):
    """70,000 digits in two colors, three domains: DomainBed's construction."""

    name = "colored-mnist"
    domains = ("plus90", "plus80", "minus90")  # how often the color tells the label, and that it tells the opposite
    flips = (0.1, 0.2, 0.9)

    @cached_property
    def domain_of(self) -> np.ndarray:  # type: ignore[override]
        return np.arange(70000) % 3

    def make(self) -> tuple[np.ndarray, np.ndarray]:
        images, digits, _ = MNIST().load()
        order = self.generator("order").permutation(len(digits))
        return self.colored(images[order], digits[order])


class ColoredMNISTOriginal(_Colored):
    """60,000 digits in two colors at 14x14, two training domains and one to test: the IRM paper's construction."""

    name = "colored-mnist-irm"
    domains = ("flip20", "flip10", "flip90")
    flips = (0.2, 0.1, 0.9)

    @cached_property
    def domain_of(self) -> np.ndarray:  # type: ignore[override]
        return np.concatenate([np.arange(50000) % 2, np.full(10000, 2)])

    def make(self) -> tuple[np.ndarray, np.ndarray]:
        images, digits, _ = MNIST().load()
        order = np.concatenate([self.generator("order").permutation(50000), np.arange(50000, 60000)])
        return self.colored(images[order][:, :, ::2, ::2], digits[order])


class RotatedMNIST(_FromMNIST):
    """70,000 digits in six domains, each turned by another angle: DomainBed's construction."""

    name = "rotated-mnist"
    mean, std = (0.0,), (1.0,)
    domains = ("turn0", "turn15", "turn30", "turn45", "turn60", "turn75")

    @cached_property
    def domain_of(self) -> np.ndarray:  # type: ignore[override]
        return np.arange(70000) % 6

    def make(self) -> tuple[np.ndarray, np.ndarray]:
        images, digits, _ = MNIST().load()
        order = self.generator("order").permutation(len(digits))
        images = images[order]
        for i, domain in enumerate(self.domain_of):
            if domain:
                turned = Image.fromarray(images[i, 0]).rotate(15 * int(domain), resample=Image.Resampling.BILINEAR)
                images[i, 0] = np.asarray(turned)
        return images, digits[order]
