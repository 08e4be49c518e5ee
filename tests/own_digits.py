"""A user's own network, trained on digits in a moment, and the images that go with it."""

from functools import cache
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from PIL import Image
from sklearn.datasets import load_digits
from torch import nn

from oodbench.learning.precision import threads

CLASSES = 8
BUILD = """
from torch import nn


class Net(nn.Module):
    def __init__(self, num_classes):
        super().__init__()
        self.stem = nn.Sequential(
            nn.Conv2d(1, 16, 3, padding=1),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(16, 48, 3),
            nn.ReLU(),
            nn.AdaptiveAvgPool2d(1),
            nn.Flatten(),
        )
        self.classify = nn.Linear(48, num_classes)

    def forward(self, x):
        return self.classify(self.stem(x))


def build(num_classes=8):
    return Net(num_classes)
"""


class Digits:
    """uint8 images N x 1 x 8 x 8 of the digits 0 to 7, divided; the digits 8 and 9 are semantic OOD."""

    def __init__(self) -> None:
        data = load_digits()
        images, labels = (data.images / 16 * 255).astype(np.uint8)[:, None], data.target.astype(np.int64)
        known, test = labels < CLASSES, np.arange(len(labels)) % 3 == 0
        self.train, self.train_labels = images[known & ~test], labels[known & ~test]
        self.test, self.test_labels = images[known & test], labels[known & test]
        self.unseen = images[~known]
        noise = np.random.default_rng(0).normal(0, 40, self.test.shape)
        self.noisy = (self.test + noise).clip(0, 255).astype(np.uint8)


@cache
def digits() -> Digits:
    return Digits()


def made(num_classes: int = CLASSES) -> nn.Module:
    scope: dict[str, object] = {}
    exec(BUILD, scope)
    return scope["build"](num_classes)  # type: ignore[operator]


@cache
def trained_state() -> dict[str, torch.Tensor]:
    """About nine in ten of the test images right."""
    with torch.random.fork_rng(devices=[]), threads(1, torch.device("cpu")):  # which a busy machine is faster with
        torch.manual_seed(0)
        net = made()
        x, y = torch.from_numpy(digits().train).float() / 255, torch.from_numpy(digits().train_labels)
        optimizer = torch.optim.Adam(net.parameters(), 1e-2)
        for step in range(150):
            some = slice(step % 4, None, 4)
            optimizer.zero_grad()
            F.cross_entropy(net(x[some]), y[some]).backward()
            optimizer.step()
    return {name: each.detach().clone() for name, each in net.state_dict().items()}


def trained() -> nn.Module:
    net = made()
    net.load_state_dict(trained_state())
    return net.eval()


def write_folder(path: Path, images: np.ndarray, labels: np.ndarray | None = None) -> Path:
    """PNG files, in a folder for each class where there are labels; class names sort as their numbers do."""
    for row, image in enumerate(images):
        home = path if labels is None else path / f"digit{labels[row]}"
        home.mkdir(parents=True, exist_ok=True)
        Image.fromarray(image[0] if len(image) == 1 else image.transpose(1, 2, 0)).save(home / f"{row:04d}.png")
    return path


def write_network(folder: Path) -> None:
    """`my_net.py` with `build`, and its weights in `mine.pt`."""
    (folder / "my_net.py").write_text(BUILD)
    torch.save(trained_state(), folder / "mine.pt")
