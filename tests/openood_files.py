"""What OpenOOD's users have on disk, small and made up: a checkpoint, and image lists beside their pictures."""

from pathlib import Path

import numpy as np
import torch
from PIL import Image
from torch import Tensor

SETS = {
    "cifar10": ("cifar100", "tin", "mnist", "svhn", "texture", "places365"),
    "cifar100": ("cifar10", "tin", "mnist", "svhn", "texture", "places365"),
}


def random_state(classes: int, seed: int = 0) -> dict[str, Tensor]:
    """A state dictionary under the names of OpenOOD's ResNet-18, in the order of its layers."""
    lot = torch.Generator().manual_seed(seed)
    state: dict[str, Tensor] = {}

    def convolution(name: str, wide: int, channels: int, side: int) -> None:
        shape = (wide, channels, side, side)
        state[f"{name}.weight"] = torch.randn(shape, generator=lot) * (2 / (channels * side**2)) ** 0.5

    def normalization(name: str, wide: int) -> None:
        state[f"{name}.weight"] = 0.5 + torch.rand(wide, generator=lot)
        state[f"{name}.bias"] = torch.randn(wide, generator=lot) / 10
        state[f"{name}.running_mean"] = torch.randn(wide, generator=lot) / 10
        state[f"{name}.running_var"] = 0.5 + torch.rand(wide, generator=lot)
        state[f"{name}.num_batches_tracked"] = torch.tensor(1)

    convolution("conv1", 64, 3, 3)
    normalization("bn1", 64)
    channels = 64
    for stage, wide in enumerate((64, 128, 256, 512), 1):
        for block in (f"layer{stage}.0", f"layer{stage}.1"):
            convolution(f"{block}.conv1", wide, channels, 3)
            normalization(f"{block}.bn1", wide)
            convolution(f"{block}.conv2", wide, wide, 3)
            normalization(f"{block}.bn2", wide)
            if channels != wide:
                convolution(f"{block}.shortcut.0", wide, channels, 1)
                normalization(f"{block}.shortcut.1", wide)
            channels = wide
    state["fc.weight"] = torch.randn((classes, 512), generator=lot) / 512**0.5
    state["fc.bias"] = torch.randn(classes, generator=lot) / 10
    return state


def save_checkpoint(path: Path, state: dict[str, Tensor]) -> Path:
    torch.save(state, path)
    return path


def write_lists(data: Path, name: str, classes: int) -> Path:
    """The lists of a benchmark below `data`, each with a few pictures of its own; the folder of the lists."""
    lists, lot = data / "benchmark_imglist" / name, np.random.default_rng(0)
    lists.mkdir(parents=True)

    def write(kind: str, own: str, labels: list[int], side: int = 32) -> None:
        lines = []
        for number, label in enumerate(labels):
            file = f"{own}/{kind}/{number:04d}.png"
            (data / "images_classic" / file).parent.mkdir(parents=True, exist_ok=True)
            pixels = lot.integers(0, 256, (side, side + side // 2, 3), dtype=np.uint8)
            Image.fromarray(pixels).save(data / "images_classic" / file)
            lines.append(f"{file} {label}\n")
        (lists / f"{kind}_{own}.txt").write_text("".join(lines))

    for kind, each in (("train", 2), ("test", 1)):
        write(kind, name, [label for label in range(classes) for _ in range(each)])
    for own in SETS[name]:
        write("test", own, [-1, -1], side=40)
    return lists
