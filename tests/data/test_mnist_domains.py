"""What is made from MNIST, to the pixel: results are kept under a version that stands for it."""

import hashlib

import numpy as np
import pytest

from oodbench.config import identity
from oodbench.data.sets import mnist_domains
from oodbench.data.sets.mnist_domains import ColoredMNIST, ColoredMNISTOriginal, RotatedMNIST

DIGESTS = {ColoredMNIST: "d0039e90c672eabc", ColoredMNISTOriginal: "242e523ba255e9ac", RotatedMNIST: "84c657f7c5680c66"}


@pytest.mark.parametrize("data", DIGESTS, ids=lambda data: data.name)
def test_other_images_need_another_version(data, monkeypatch):
    """Another digest here means that results with the old images would pass for results with the new ones."""
    count = 600 if data is RotatedMNIST else 70000  # turning all of them takes seconds
    rows = np.arange(count)
    images = (7 * rows[:, None, None, None] + 3 * np.arange(28)[:, None] + 5 * np.arange(28)).astype(np.uint8)
    monkeypatch.setattr(mnist_domains.MNIST, "load", lambda self: (images, rows % 10, rows >= 60000))
    few = data()
    if data is RotatedMNIST:
        few.domain_of = rows % 6
    pixels, labels = few.make()
    digest = hashlib.sha256(np.ascontiguousarray(pixels).tobytes() + labels.astype("<i8").tobytes())
    version = identity.lock()[f"dataset/{data.name}"].version
    assert (version, digest.hexdigest()[:16]) == (1, DIGESTS[data])


def test_the_fingerprint_is_of_mnist_and_of_the_version(monkeypatch):
    """Committed results of 'colored-mnist-irm' bear it."""
    monkeypatch.setattr(mnist_domains.MNIST, "fingerprint", mnist_domains.MNIST.official)
    assert ColoredMNISTOriginal().fingerprint == "e8697c4511480f84-colored-mnist-irm@1"
