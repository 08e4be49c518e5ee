"""Small sets in the formats of SVHN, CIFAR-10-C and MNIST-C, and arrays as numpy writes them."""

import io
import struct
import zlib

import numpy as np
from data_files import SmallCIFAR10, SmallMNIST, small

from oodbench.data.sets.corrupted import CIFAR10C, MNISTC
from oodbench.data.sets.svhn import SVHN


class SmallSVHN(SVHN):
    rows = (9, 4)


class SmallCIFAR10C(CIFAR10C):
    clean = SmallCIFAR10


class SmallMNISTC(MNISTC):
    clean = SmallMNIST


def element(kind, content):
    """A data element of a MATLAB 5 file: type, length, content to the next multiple of eight."""
    return struct.pack("<II", kind, len(content)) + content + bytes(-len(content) % 8)


def matrix(name, array, sizes=None):
    """A uint8 array, column by column."""
    flags, sizes = struct.pack("<II", 9, 0), struct.pack(f"<{array.ndim}i", *(sizes or array.shape))
    parts = element(6, flags) + element(5, sizes) + element(1, name.encode()) + element(2, array.tobytes(order="F"))
    return element(14, parts)


def mat(*elements, compress=True):
    """A MATLAB 5 file; the published ones are compressed."""
    head = b"MATLAB 5.0 MAT-file, Platform: GLNXA64".ljust(124) + struct.pack("<HH", 0x0100, 0x4D49)
    if compress:
        packed = [zlib.compress(each) for each in elements]
        return head + b"".join(struct.pack("<II", 15, len(each)) + each for each in packed)
    return head + b"".join(elements)


def svhn_arrays(images, labels):
    """X and y as the published files have them."""
    ten = np.where(labels == 0, 10, labels).astype(np.uint8)[:, None]
    return matrix("X", images.transpose(2, 3, 1, 0)), matrix("y", ten)


def svhn_files(seed=0, compress=True):
    images, labels = small(SmallSVHN, seed)
    cut = SmallSVHN.rows[0]
    return {
        "train_32x32.mat": mat(*svhn_arrays(images[:cut], labels[:cut]), compress=compress),
        "test_32x32.mat": mat(*svhn_arrays(images[cut:], labels[cut:]), compress=compress),
    }


def npy(array, **options):
    file = io.BytesIO()
    np.save(file, array, **options)
    return file.getvalue()


def npz(arrays, save=np.savez):
    file = io.BytesIO()
    save(file, **arrays)
    return file.getvalue()


def noisy(images, seed):
    """Copies that still resemble their originals."""
    noise = np.random.default_rng(seed).integers(-20, 21, images.shape)
    return np.clip(images.astype(int) + noise, 0, 255).astype(np.uint8)


def cifar10_c(kinds, seed=0):
    """Copies of the test images of the small CIFAR-10, five severities after another; N x H x W x C, and the labels."""
    images, labels = small(SmallCIFAR10, seed)
    cut = SmallCIFAR10.rows[0]
    copies = {
        kind: np.concatenate([noisy(images[cut:], 10 * number + severity) for severity in range(5)])
        for number, kind in enumerate(kinds)
    }
    return copies, np.tile(labels[cut:], 5)


def cifar10_c_files(kinds=("fog", "snow"), seed=0):
    copies, labels = cifar10_c(kinds, seed)
    files = {f"{kind}.npy": npy(each.transpose(0, 2, 3, 1)) for kind, each in copies.items()}
    return {**files, "labels.npy": npy(labels)}


def mnist_c(kinds, seed=0):
    """Copies of the small MNIST, and its labels."""
    images, labels = small(SmallMNIST, seed)
    return {kind: noisy(images, number) for number, kind in enumerate(kinds)}, labels


def mnist_c_files(kinds=("fog", "zigzag"), seed=0):
    copies, labels = mnist_c(kinds, seed)
    cut, files = SmallMNIST.rows[0], {}
    for kind, each in copies.items():
        for part, rows in (("train", slice(cut)), ("test", slice(cut, None))):
            files[f"{kind}/{part}_images.npy"] = npy(each[rows].transpose(0, 2, 3, 1))
            files[f"{kind}/{part}_labels.npy"] = npy(labels[rows])
    return files
