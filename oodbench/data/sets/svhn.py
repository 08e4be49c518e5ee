"""SVHN: Y. Netzer et al., Reading Digits in Natural Images with Unsupervised Feature Learning, 2011."""

from pathlib import Path

from oodbench.data.listing import holds
from oodbench.data.sets.cifar import CIFAR10
from oodbench.data.sources import Torchvision
from oodbench.data.store import Decoded
from oodbench.data.stored import Layout, Stored
from oodbench.data.untrusted.matlab import read_mat


class SVHN(Stored):
    """99,289 digits of house numbers at 32x32, ten classes."""

    name = "svhn"
    has_test_part = True
    rows, shape, num_classes = (73257, 26032), (3, 32, 32), 10
    mean, std = CIFAR10.mean, CIFAR10.std  # it is told from CIFAR-10, whose statistics the paper uses for all sets
    sources = (Torchvision("SVHN", ({"split": "train"}, {"split": "test"})),)
    FILES = ("train_32x32.mat", "test_32x32.mat")

    def layouts(self) -> tuple[Layout, ...]:
        return (Layout(self.FILES, self._read),)

    def _read(self, folder: Path) -> Decoded | None:
        if not holds(folder, self.FILES, f"both {' and '.join(self.FILES)}"):
            return None
        train, test = (read_mat(folder / name) for name in self.FILES)
        return Decoded.of([train], [test])
