"""SVHN, arrays as numpy writes them, the published corrupted copies, and what the store does when it is interrupted."""

import contextlib
import errno
import fcntl
import hashlib
import http.server
import io
import os
import pickle
import random
import shutil
import signal
import struct
import subprocess
import sys
import threading
import tracemalloc
import zipfile
import zlib
from pathlib import Path

import numpy as np
import pytest
from array_files import (
    SmallCIFAR10C,
    SmallMNISTC,
    SmallSVHN,
    cifar10_c,
    cifar10_c_files,
    mat,
    matrix,
    mnist_c,
    mnist_c_files,
    npy,
    npz,
    svhn_arrays,
    svhn_files,
)
from command_line import assert_done, assert_refused, oodbench
from data_files import SmallCIFAR10, SmallCIFAR100, SmallMNIST, damaged, idx_files, packed, scratch, small, write
from scipy.io import loadmat, savemat

from oodbench.data import lookup, store
from oodbench.data import npy as npy_module
from oodbench.data.corruptions import cifar_c
from oodbench.data.corruptions import mnist_c as mnist_c_generator
from oodbench.data.download import Url
from oodbench.data.sets.cifar import CIFAR10
from oodbench.data.sets.corrupted import CIFAR10C, MNISTC, official
from oodbench.data.sets.idx import MNIST
from oodbench.data.sets.svhn import SVHN
from oodbench.data.untrusted import matlab
from oodbench.data.untrusted.matlab import read_mat
from oodbench.errors import UserError


@pytest.fixture
def tmp_path():
    with scratch() as folder:
        yield Path(folder)


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    """A data folder of its own, and small sets under the real names."""
    monkeypatch.setenv("OODBENCH_DATA", str(tmp_path / "data"))
    for data, like in ((CIFAR10, SmallCIFAR10), (MNIST, SmallMNIST), (SVHN, SmallSVHN)):
        monkeypatch.setattr(data, "rows", like.rows)
        monkeypatch.setattr(data, "official", None, raising=False)
    lookup.dataset.cache_clear()  # which remembers what it has read
    yield tmp_path / "data"
    lookup.dataset.cache_clear()


def refusal(data, path):
    """The one line."""
    before = contents(store.data_folder())
    with pytest.raises(UserError) as error:
        data().add(path)
    assert "\n" not in str(error.value) and ".work-" not in str(error.value)
    assert contents(store.data_folder()) == before
    return str(error.value)


def with_peak(call):
    """What a call gives, and the most memory that it took."""
    tracemalloc.start()
    try:
        return call(), tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def contents(folder):
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def assert_holds(data, images, labels):
    stored = store.load(data.name)
    assert stored.images.dtype == np.uint8 and np.array_equal(stored.images, images)
    assert np.array_equal(stored.labels, labels)
    assert np.array_equal(stored.in_test, np.arange(len(labels)) >= data.rows[0])


# SVHN


@pytest.mark.parametrize("compress", [True, False], ids=["compressed", "plain"])
def test_svhn_gives_every_pixel_and_label_with_10_as_the_digit_0(tmp_path, compress):
    images, labels = small(SmallSVHN)
    assert 0 in labels
    SmallSVHN().add(write(tmp_path / "svhn", svhn_files(compress=compress)))
    assert_holds(SmallSVHN, images, labels)


def test_svhn_images_are_read_as_row_column_channel_number(tmp_path):
    """By hand: 1 at row 5, column 7, green, of the second image."""
    values = np.zeros((32, 32, 3, 2), np.uint8)
    values[5, 7, 1, 1] = 1
    (tmp_path / "file").write_bytes(mat(matrix("X", values), matrix("y", np.array([[10], [3]], np.uint8))))
    images, labels = read_mat(tmp_path / "file")
    assert np.argwhere(images).tolist() == [[1, 1, 5, 7]] and labels.tolist() == [0, 3]


@pytest.mark.parametrize("compress", [True, False], ids=["compressed", "plain"])
@pytest.mark.parametrize("dtype", ["u1", "i1", "u2", "i4", "f8"])
def test_svhn_is_read_as_scipy_writes_it_and_scipy_reads_the_files_of_these_tests(tmp_path, compress, dtype):
    images, labels = small(SmallSVHN)
    path = tmp_path / "file.mat"
    other = {"extra": np.ones((3, 3)), "a": "text"}
    y = np.where(labels == 0, 10, labels).astype(dtype)[:, None]
    savemat(path, {**other, "X": images.transpose(2, 3, 1, 0), "y": y}, do_compression=compress)
    got = read_mat(path)
    assert np.array_equal(got[0], images) and np.array_equal(got[1], labels) and got[1].dtype == np.int64
    path.write_bytes(mat(*svhn_arrays(images, labels), compress=compress))
    theirs = loadmat(path)
    assert np.array_equal(theirs["X"].transpose(3, 2, 0, 1), images) and np.array_equal(theirs["y"], y)


def test_svhn_comes_through_torchvisions_addresses_and_has_its_official_numbers():
    assert [source.describe() for source in SVHN.sources] == ["official files through torchvision.datasets.SVHN"]
    assert SVHN.sources[0].parts == ({"split": "train"}, {"split": "test"})
    assert SVHN.mean == CIFAR10.mean and SVHN.shape == (3, 32, 32)


def test_svhn_without_one_of_its_files_names_it(tmp_path):
    for name in SVHN.FILES:
        files = svhn_files()
        del files[name]
        folder = write(tmp_path / name / "set", files)
        assert refusal(SmallSVHN, folder).startswith(f"'{folder}' lacks '{name}'; both train_32x32.mat and")
    empty = write(tmp_path / "empty", {"notes": b""})
    assert "looked for train_32x32.mat, test_32x32.mat or train_images.npy, " in refusal(SmallSVHN, empty)


def arrays_of(images=None, labels=None):
    count = 9
    images = np.zeros((32, 32, 3, count), np.uint8) if images is None else images
    return matrix("X", images), matrix("y", np.ones((count, 1), np.uint8) if labels is None else labels)


@pytest.mark.parametrize(
    ("elements", "message"),
    [
        (arrays_of()[:1], "does not hold X and y; it is not a file of SVHN"),
        (arrays_of(np.zeros((28, 28, 3, 9), np.uint8)), "X is 28 x 28 x 3 x 9 uint8, not 32 x 32 x 3 x N uint8"),
        (arrays_of(np.zeros((9, 32, 32, 3), np.uint8)), "X is 9 x 32 x 32 x 3 uint8, not"),
        (arrays_of(np.zeros((32, 32, 3), np.uint8)), "X is 32 x 32 x 3 uint8, not"),
        (arrays_of(labels=np.ones((8, 1), np.uint8)), "y is 8 x 1 uint8 for 9 images; get it again"),
        (arrays_of(labels=np.ones((3, 3), np.uint8)), "y is 3 x 3 uint8 for 9 images; get it again"),
        (arrays_of(labels=np.full((9, 1), 11, np.uint8)), "holds the label 11; 'svhn' has labels 0 to 9"),
    ],
)
def test_a_file_that_is_not_of_svhn_is_told(tmp_path, elements, message):
    files = {**svhn_files(), "train_32x32.mat": mat(*elements)}
    assert message in refusal(SmallSVHN, write(tmp_path / "set", files))


@pytest.mark.parametrize("kind", ["single", "text", "fraction", "nan", "complex", "sparse", "int8"])
def test_arrays_of_another_kind_are_told(tmp_path, kind):
    images, labels = small(SmallSVHN)
    x, y = images.transpose(2, 3, 1, 0), labels[:, None].astype(float)
    if kind == "int8":
        x = x.astype(np.int8)
    elif kind == "single":
        x = x.astype(np.float32)
    elif kind == "sparse":
        from scipy.sparse import csc_matrix

        y = csc_matrix(y)
    else:
        y = {"text": "abc", "fraction": y + 0.5, "nan": y * np.nan, "complex": y + 1j}[kind]
    savemat(tmp_path / "file", {"X": x, "y": y}, appendmat=False)
    with pytest.raises(UserError, match=r"is damaged|not 32 x 32 x 3 x N uint8|for 13 images"):
        read_mat(tmp_path / "file")


def test_other_files_named_like_svhns_are_told(tmp_path):
    for content in (b"", b"x" * 500, b"\x89HDF\r\n\x1a\n" + bytes(500), svhn_files()["test_32x32.mat"][:127]):
        files = {**svhn_files(), "train_32x32.mat": content}
        assert "is not a MATLAB 5 file; get it again" in refusal(SmallSVHN, write(tmp_path / "set", files))
    SmallSVHN().add(write(tmp_path / "set", svhn_files()))


@pytest.mark.parametrize("compress", [True, False], ids=["compressed", "plain"])
def test_a_truncated_mat_file_is_refused_wherever_it_ends(tmp_path, compress):
    content = svhn_files(compress=compress)["test_32x32.mat"]
    ends = random.Random(0).sample(range(128, len(content)), 300) + [len(content) - 1]
    for end in ends:
        (tmp_path / "file").write_bytes(content[:end])
        with pytest.raises(UserError, match="is damaged|does not hold X and y"):
            read_mat(tmp_path / "file")


def test_no_flipped_bit_changes_what_comes_out_of_a_compressed_mat_file(tmp_path):
    images, labels = small(SmallSVHN)
    content = mat(*svhn_arrays(images[:1], labels[:1]))
    random_, read = random.Random(0), 0
    for bit in random_.sample(range(128 * 8, len(content) * 8), 400):
        wounded = bytearray(content)
        wounded[bit // 8] ^= 1 << bit % 8
        (tmp_path / "file").write_bytes(wounded)
        try:
            got = read_mat(tmp_path / "file")
        except UserError:
            continue
        read += 1
        assert np.array_equal(got[0], images[:1]) and np.array_equal(got[1], labels[:1])
    assert read < 10


def test_damaged_mat_files_give_one_line_or_a_set(tmp_path):
    """Wounds in the file, and in arrays that are then compressed with a right checksum; scipy crashes on some."""
    random_ = random.Random(0)
    whole = {compress: svhn_files(compress=compress) for compress in (True, False)}
    images, labels = small(SmallSVHN)
    path = tmp_path / "file"
    for _ in range(1500):
        if random_.random() < 0.5:
            content = damaged(whole[random_.random() < 0.5]["test_32x32.mat"], random_)
        else:
            content = mat(*(damaged(each, random_) for each in svhn_arrays(images[:3], labels[:3])))
        path.write_bytes(content)
        try:
            got_images, got_labels = read_mat(path)
        except UserError as error:
            assert str(path) in str(error) and "\n" not in str(error)
        else:
            assert got_images.shape == (len(got_labels), 3, 32, 32) and got_images.dtype == np.uint8


def huge(name, sizes, length):
    """A compressed array that says it is of some sizes and length."""
    honest = matrix(name, np.zeros((1, 1), np.uint8), sizes=sizes[:2])
    return zlib.compress(struct.pack("<II", 14, length) + honest[8:] + bytes(2**22))


@pytest.mark.parametrize("length", [2**32 - 1, 2**31, 2**30 + 2000])
def test_an_array_that_says_it_is_enormous_takes_no_memory(tmp_path, length):
    packed_ = huge("X", (32, 32), length)
    content = mat()[:128] + struct.pack("<II", 15, len(packed_)) + packed_
    (tmp_path / "file").write_bytes(content)

    def read():
        with pytest.raises(UserError, match=f"is damaged .*an array of {length:,} bytes"):
            read_mat(tmp_path / "file")

    assert with_peak(read)[1] < 2**20


def test_a_mat_file_that_swells_is_read_no_further_than_it_says(tmp_path, monkeypatch):
    arrays = svhn_arrays(*small(SmallSVHN))
    bomb = zlib.compress(arrays[0] + bytes(2**24))
    content = mat(arrays[1]) + struct.pack("<II", 15, len(bomb)) + bomb
    (tmp_path / "file").write_bytes(content)
    with pytest.raises(UserError, match="an array that is not as long as it says"):
        read_mat(tmp_path / "file")
    monkeypatch.setattr(matlab, "ARRAY_LIMIT", 2000)
    (tmp_path / "file").write_bytes(mat(*arrays))
    with pytest.raises(UserError, match="has over 2,000 bytes; it is not a file of SVHN"):
        read_mat(tmp_path / "file")


# npy and npz

SETS = {data.name: data for data in (SmallMNIST, SmallCIFAR10, SmallCIFAR100, SmallSVHN)}
PLACES = {
    "N x C x H x W": lambda images: images,
    "N x H x W x C": lambda images: images.transpose(0, 2, 3, 1),
    "N x H x W": lambda images: images[:, 0],
    "column by column": lambda images: np.asfortranarray(images),
}


def four(data, names=npy_module.NAMES[0], place="N x C x H x W", seed=0, labels_as=lambda labels: labels):
    images, labels = small(data, seed)
    cut, placed = data.rows[0], PLACES[place]
    arrays = (placed(images[:cut]), labels_as(labels[:cut]), placed(images[cut:]), labels_as(labels[cut:]))
    return dict(zip(names, arrays, strict=True))


def as_files(arrays):
    return {f"{name}.npy": npy(array) for name, array in arrays.items()}


@pytest.mark.parametrize("names", npy_module.NAMES, ids=lambda names: names[0])
@pytest.mark.parametrize(
    ("name", "place"), [(name, place) for name in SETS for place in PLACES if name == "mnist" or place != "N x H x W"]
)
def test_every_set_is_taken_from_arrays_wherever_their_channels_are(tmp_path, name, place, names):
    data = SETS[name]
    arrays = four(data, names, place)
    folder = write(tmp_path / "set" / "nested", as_files(arrays))
    (tmp_path / "one.npz").write_bytes(npz(arrays))
    write(tmp_path / "with", {"notes.txt": b"", "other.npz": npz({"a": np.ones(3)}), "set.npz": npz(arrays)})
    (tmp_path / "small.npz").write_bytes(npz(arrays, np.savez_compressed))
    (tmp_path / "folder.tgz").write_bytes(packed(as_files(arrays)))
    (tmp_path / "npz.zip").write_bytes(packed({"set/mnist.npz": npz(arrays)}, "zip"))
    prints = set()
    for path in (
        folder,
        folder.parent,
        folder / f"{names[0]}.npy",
        *(tmp_path / each for each in os.listdir(tmp_path)),
    ):
        if path.name in ("data", "set"):
            continue
        prints.add(data().add(path).fingerprint)
        assert_holds(data, *small(data))
    assert len(prints) == 1


def test_the_fingerprint_of_arrays_is_that_of_the_official_files(tmp_path):
    official_files = SmallMNIST().add(write(tmp_path / "idx", idx_files()))
    assert (
        SmallMNIST().add(write(tmp_path / "npy", as_files(four(SmallMNIST)))).fingerprint == official_files.fingerprint
    )


@pytest.mark.parametrize("labels_as", [lambda y: y[:, None], lambda y: y.astype(np.uint8), lambda y: y.astype(">i4")])
def test_labels_may_be_of_any_whole_type_and_a_column(tmp_path, labels_as):
    SmallCIFAR10().add(write(tmp_path / "set", as_files(four(SmallCIFAR10, labels_as=labels_as))))
    assert_holds(SmallCIFAR10, *small(SmallCIFAR10))


def test_headers_of_version_2_and_of_python_2_are_read_without_a_word(tmp_path, recwarn):
    arrays = four(SmallMNIST)
    files = as_files(arrays)
    file = io.BytesIO()
    np.lib.format.write_array(file, arrays["train_images"], version=(2, 0))
    files["train_images.npy"] = file.getvalue()
    files["test_labels.npy"] = files["test_labels.npy"].replace(b"(5,), }   ", b"(5L,), }  ")
    SmallMNIST().add(write(tmp_path / "set", files))
    assert_holds(SmallMNIST, *small(SmallMNIST))
    assert b"5L" in files["test_labels.npy"] and not recwarn.list


LOOKED = (
    "train_images.npy, train_labels.npy, test_images.npy, test_labels.npy or "
    "x_train.npy, y_train.npy, x_test.npy, y_test.npy or an .npz of these"
)


def test_what_was_looked_for_names_the_arrays(tmp_path):
    folder = write(tmp_path / "set", {"notes.txt": b"", "other.npz": npz({"a": np.ones(3)})})
    for data in SETS.values():
        assert f" or {LOOKED} in it and the folders below" in refusal(data, folder)
        message = refusal(data, folder / "other.npz")
        assert f"other.npz' holds no array of '{data.name}': looked for" in message and message.endswith(LOOKED)
        assert "notes.txt' is neither an archive" in refusal(data, folder / "notes.txt")


@pytest.mark.parametrize("names", npy_module.NAMES, ids=lambda names: names[0])
def test_each_missing_array_is_named(tmp_path, names):
    for name in names:
        arrays = four(SmallMNIST, names)
        del arrays[name]
        folder = write(tmp_path / name / "set", as_files(arrays))
        (tmp_path / name / "set.npz").write_bytes(npz(arrays))
        for path in (folder, tmp_path / name / "set.npz"):
            assert refusal(SmallMNIST, path) == f"'{path}' lacks '{name}.npy'; all of {', '.join(names)} are needed"


def changed(name, array):
    return {**four(SmallCIFAR10), name: array}


WRONG = {
    "float": (changed("train_images", np.zeros((15, 32, 32, 3), np.float32)), "holds float32 values; images must be"),
    "wide": (changed("train_images", np.zeros((15, 32, 32, 3), np.int64)), "holds int64 values; images must be uint8"),
    "bool": (changed("test_images", np.zeros((3, 32, 32, 3), bool)), "holds bool values; images must be uint8 from 0"),
    "size": (
        changed("test_images", np.zeros((3, 28, 28, 3), np.uint8)),
        "has shape 3 x 28 x 28 x 3; needed are N x 32",
    ),
    "grey": (changed("test_images", np.zeros((3, 32, 32), np.uint8)), "3 x 32 x 32; needed are N x 32 x 32 x 3 images"),
    "flat": (changed("test_images", np.zeros((3, 3072), np.uint8)), "has shape 3 x 3072; needed are N x 32 x 32 x 3"),
    "scalar": (changed("test_images", np.uint8(3)), "is empty (shape ())"),
    "none": (changed("test_images", np.zeros((0, 32, 32, 3), np.uint8)), "is empty (shape (0, 32, 32, 3))"),
    "fewer": (changed("test_labels", np.zeros(2, int)), "has shape 2 for 3 images; get it again"),
    "two-hot": (changed("test_labels", np.zeros((3, 10), int)), "has shape 3 x 10 for 3 images; get it again"),
    "float labels": (changed("test_labels", np.zeros(3)), "holds float64 values; labels must be whole numbers"),
    "label": (changed("test_labels", np.array([0, 1, 10])), "holds the label 10; 'cifar10' has labels 0 to 9"),
    "below 0": (changed("test_labels", np.array([0, 1, -1])), "holds the label -1; 'cifar10' has labels 0 to 9"),
    "beyond": (changed("test_labels", np.array([0, 1, 2**64 - 1], np.uint64)), "holds the label -1; 'cifar10' has"),
    "text": (changed("test_labels", np.array(["a", "b", "c"])), "holds values of type <U1; save plain numbers"),
    "fields": (changed("test_labels", np.zeros(3, [("a", "i4")])), "holds values of type [('a', '<i4')]; save plain"),
    "rows": (
        {**changed("test_images", np.zeros((4, 32, 32, 3), np.uint8)), "test_labels": np.zeros(4, int)},
        "holds 15 and 4 images; 'cifar10' has 15 training and 3 test images",
    ),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_arrays_of_another_kind_or_shape_are_told(tmp_path, wrong):
    arrays, message = WRONG[wrong]
    (tmp_path / "set.npz").write_bytes(npz(arrays))
    assert message in refusal(SmallCIFAR10, write(tmp_path / "set", as_files(arrays)))
    assert message in refusal(SmallCIFAR10, tmp_path / "set.npz")


class Evil:
    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return os.mkdir, (str(self.path),)


def test_an_array_of_objects_is_never_unpickled(tmp_path):
    evil = np.array([Evil(tmp_path / "evil")] * 3, dtype=object)
    assert pickle.dumps(evil)
    arrays = changed("test_labels", evil)
    files = {**as_files({**arrays, "test_labels": np.zeros(3)}), "test_labels.npy": npy(evil, allow_pickle=True)}
    (tmp_path / "set.npz").write_bytes(npz(arrays))
    for path in (write(tmp_path / "set", files), tmp_path / "set.npz"):
        assert "holds Python objects, which could run code; save plain numbers" in refusal(SmallCIFAR10, path)
    assert not (tmp_path / "evil").exists()


def declaring(shape, dtype="|u1", content=b"x" * 100):
    head = f"{{'descr': '{dtype}', 'fortran_order': False, 'shape': {shape}, }}"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) + head.encode() + content


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (declaring("(10**3, 10)"), "has no header of an .npy file"),
        (declaring(f"({10**12}, 32, 32, 3)"), "says that it holds 3,072,000,000,000,000 bytes of values; it is not to"),
        (declaring(f"({2**63}, {2**63})", "<f8"), "bytes of values; it is not to be trusted"),
        (declaring("(-1, 32, 32, 3)"), "is empty (shape (-1, 32, 32, 3))"),
        (declaring("(-3, -3)", content=b"x" * 9), "is empty (shape (-3, -3))"),
        (declaring("(2, 32, 32, 3)"), "is truncated or damaged: 100 bytes for 6,144; get it again"),
        (declaring("(9,)"), "is truncated or damaged: 100 bytes for 9; get it again"),
        (declaring("(True, 100)"), "needed are N x 32 x 32 x 3 images"),
        (b"\x93NUMPY\x02\x00" + struct.pack("<I", 2**32 - 1) + b"{" * 50, "has no header of an .npy file"),
        (b"\x93NUMPY\x09\x00" + bytes(100), "has no header of an .npy file"),
        (declaring("(" * 500), "has no header of an .npy file"),
        (b"", "has no header of an .npy file"),
        (b"PK\x03\x04", "has no header of an .npy file"),
    ],
)
def test_a_header_is_believed_only_as_far_as_the_file_is_long(tmp_path, content, message):
    files = {**as_files(four(SmallCIFAR10)), "train_images.npy": content}
    folder = write(tmp_path / "set", files)
    with zipfile.ZipFile(tmp_path / "set.npz", "w") as archive:
        for name, each in files.items():
            archive.writestr(name, each)
    for path in (folder, tmp_path / "set.npz"):
        told, peak = with_peak(lambda path=path: refusal(SmallCIFAR10, path))
        assert f"'{path}/train_images" in told and message in told and peak < 2**22


def test_an_npz_that_swells_is_refused_before_it_is_unpacked(tmp_path):
    arrays = {**four(SmallCIFAR10), "train_images": np.zeros((30000, 32, 32, 3), np.uint8)}
    (tmp_path / "bomb.npz").write_bytes(npz(arrays, np.savez_compressed))
    told, peak = with_peak(lambda: refusal(SmallCIFAR10, tmp_path / "bomb.npz"))
    assert "train_images.npy' unpacks to far more than its size; it is not to be trusted" in told and peak < 2**22


@pytest.mark.parametrize("method", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_an_npz_that_could_only_be_unpacked_all_at_once_is_refused(tmp_path, method):
    with zipfile.ZipFile(tmp_path / "set.npz", "w", method) as archive:
        for name, content in as_files(four(SmallMNIST)).items():
            archive.writestr(name, content)
    assert "is compressed in a rare way; save it with numpy.savez" in refusal(SmallMNIST, tmp_path / "set.npz")


@pytest.mark.parametrize("layout", ["npy", "npz", "compressed npz"])
def test_damaged_arrays_give_one_line_or_a_set(tmp_path, layout):
    random_, data = random.Random(layout), SmallMNIST
    save = np.savez if layout == "npz" else np.savez_compressed
    whole = as_files(four(data)) if layout == "npy" else {"set.npz": npz(four(data), save)}
    folder = write(tmp_path / "set", whole)
    for _ in range(300):
        name = random_.choice(list(whole))
        (folder / name).write_bytes(damaged(whole[name], random_))
        try:
            decoded = data().decode(folder if random_.random() < 0.5 else folder / name, tmp_path / "unpacked")
        except UserError as error:
            assert str(folder) in str(error) and "\n" not in str(error)
        else:
            assert decoded.images.shape == (sum(data.rows), *data.shape) and decoded.images.dtype == np.uint8
            assert 0 <= decoded.labels.min() <= decoded.labels.max() < data.num_classes
        (folder / name).write_bytes(whole[name])


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_no_flipped_bit_changes_what_comes_out_of_an_npz(tmp_path, save):
    whole, random_ = npz(four(SmallMNIST), save), random.Random(0)
    for _ in range(100):
        wounded = bytearray(whole)
        wounded[random_.randrange(len(whole))] ^= 1 << random_.randrange(8)
        (tmp_path / "set.npz").write_bytes(wounded)
        with contextlib.suppress(UserError):
            decoded = SmallMNIST().decode(tmp_path / "set.npz", tmp_path / "unpacked")
            assert np.array_equal(decoded.images, small(SmallMNIST)[0])
            assert np.array_equal(decoded.labels, small(SmallMNIST)[1])


def test_truncated_arrays_are_refused_wherever_they_end(tmp_path):
    whole = as_files(four(SmallMNIST))
    folder = write(tmp_path / "set", whole)
    for name, content in whole.items():
        for end in [*range(0, 130, 7), len(content) - 1]:
            (folder / name).write_bytes(content[:end])
            assert f"'{folder / name}' " in refusal(SmallMNIST, folder)
        (folder / name).write_bytes(content)


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
def test_an_array_that_may_not_be_read_is_told(tmp_path):
    folder = write(tmp_path / "set", as_files(four(SmallMNIST)))
    (folder / "train_labels.npy").chmod(0)
    assert "train_labels.npy' cannot be read (Permission denied)" in refusal(SmallMNIST, folder)


# Published corrupted copies


@pytest.fixture
def small_copies(monkeypatch):
    monkeypatch.setattr(CIFAR10C, "clean", SmallCIFAR10)
    monkeypatch.setattr(MNISTC, "clean", SmallMNIST)


def clean(data, tmp_path):
    """The clean set in the store."""
    images, labels = small(data)
    store.save(data.name, store.Decoded(images, labels, np.arange(len(labels)) >= data.rows[0]), "test")


def test_the_kinds_are_those_of_the_generators():
    assert set(CIFAR10C.kinds) == set(cifar_c.KINDS) and len(CIFAR10C.kinds) == 19
    assert set(MNISTC.kinds) == set(mnist_c_generator.KINDS) and len(MNISTC.kinds) == 16


def test_without_files_nothing_is_official_and_nothing_is_written(home):
    for name in ("cifar10", "mnist", "svhn", "digits", "folder:x"):
        assert official(name, "fog", 1) is None
    assert not home.exists()


@pytest.mark.parametrize("with_clean", [True, False], ids=["beside the clean set", "alone"])
@pytest.mark.parametrize("as_archive", [True, False], ids=["archive", "folder"])
def test_cifar10_c_gives_the_copies_of_the_test_images_severity_by_severity(
    tmp_path, small_copies, with_clean, as_archive
):
    kinds = ("fog", "jpeg_compression")
    copies, _ = cifar10_c(kinds)
    if with_clean:
        clean(SmallCIFAR10, tmp_path)
    files = {f"CIFAR-10-C/{name}": content for name, content in cifar10_c_files(kinds).items()}
    (tmp_path / "CIFAR-10-C.tar").write_bytes(packed(files, "tar"))
    path = tmp_path / "CIFAR-10-C.tar" if as_archive else write(tmp_path / "folder", files)
    entry = SmallCIFAR10C().add(path)
    assert entry.rows == 30 and entry.source == f"added from {path.name}"
    for kind in kinds:
        found = [official("cifar10", kind, severity) for severity in range(1, 6)]
        for severity, each in enumerate(found):
            assert isinstance(each.images, np.memmap) and each.name == "cifar10-c-files"
            assert np.array_equal(each.images, copies[kind][3 * severity : 3 * severity + 3])
            assert each.rows.tolist() == [15, 16, 17]
        assert {each.fingerprint for each in found} == {store.entry(f"cifar10-c-files/{kind}").fingerprint}
    for kind, severity in (("fog", 0), ("fog", 6), ("snow", 1), ("labels", 1), ("../mnist", 1)):
        assert official("cifar10", kind, severity) is None


def test_mnist_c_gives_the_copies_of_all_images_train_first(tmp_path, small_copies):
    clean(SmallMNIST, tmp_path)
    copies, _ = mnist_c(("fog", "zigzag"))
    files = {f"mnist_c/{name}": content for name, content in mnist_c_files().items()}
    (tmp_path / "mnist_c.zip").write_bytes(packed({**files, "mnist_c/inverse/train_images.npy": b""}, "zip"))
    assert SmallMNISTC().add(tmp_path / "mnist_c.zip").rows == 34
    for kind in copies:
        found = official("mnist", kind, 1)
        assert np.array_equal(found.images, copies[kind]) and found.rows.tolist() == list(range(17))
        assert isinstance(found.images, np.memmap) and found.name == "mnist-c-files"
    assert official("mnist", "fog", 2) is None and official("mnist", "stripe", 1) is None


def test_one_kind_of_mnist_c_is_taken_by_its_folder_or_one_of_its_files(tmp_path, small_copies):
    folder = write(tmp_path / "mnist_c", mnist_c_files())
    assert SmallMNISTC().add(folder / "fog").rows == 17
    assert SmallMNISTC().add(folder / "zigzag" / "test_labels.npy").rows == 17
    assert len(SmallMNISTC().files()) == 2


def test_kinds_that_come_later_join_those_that_are_there(tmp_path, small_copies):
    data = SmallCIFAR10C()
    data.add(write(tmp_path / "first", cifar10_c_files(("fog", "snow"))))
    first, fog = data.fingerprint, official("cifar10", "fog", 1).fingerprint
    data.add(write(tmp_path / "second", cifar10_c_files(("frost", "snow"), seed=0)))
    assert official("cifar10", "fog", 1).fingerprint == fog and official("cifar10", "frost", 5) is not None
    assert data.fingerprint != first
    assert data.state() == ("partial", f"3 of 19 kinds, added from second, in {store.data_folder() / data.name}")


def test_status_get_and_add_work_for_the_published_copies_as_for_other_sets(tmp_path, small_copies, home, monkeypatch):
    for data in (CIFAR10C, MNISTC):
        monkeypatch.setattr(data, "sources", ())
        out = assert_done(oodbench("data", "status", data.name))
        assert out == (
            f"{data.name}  missing   not in {home / data.name}; get it with: oodbench data get {data.name}\n"
        )
        assert_refused(oodbench("data", "get", data.name), f"cannot get '{data.name}'", f"data add {data.name} PATH")
        made = cifar10_c_files if data is CIFAR10C else mnist_c_files
        folder = write(tmp_path / data.name, made(data.kinds[:3]))
        out = assert_done(oodbench("data", "add", data.name, folder))
        count = 45 if data is CIFAR10C else 51
        assert out.startswith(f"{data.name}: {count} images, ") and f"; 3 of {len(data.kinds)} kinds are there" in out
        assert "  partial   3 of " in assert_done(oodbench("data", "status", data.name))
        assert_refused(oodbench("data", "get", data.name), "cannot get")  # the rest
        assert_done(oodbench("data", "add", data.name, write(tmp_path / f"{data.name}-all", made(data.kinds))))
        out = assert_done(oodbench("data", "status", data.name))
        assert f"  present   {len(data.kinds)} of {len(data.kinds)} kinds, added from" in out
        assert assert_done(oodbench("data", "get", data.name)) == f"{data.name}: is there already\n"


def test_the_published_copies_are_no_data_set_of_their_own():
    with pytest.raises(UserError, match="'mnist-c-files' holds copies for the corruptions of 'mnist'; name that data"):
        MNISTC().load()


@pytest.mark.parametrize("data", [SmallCIFAR10C, SmallMNISTC], ids=lambda data: data.name)
def test_a_folder_without_published_copies_is_told_with_what_was_looked_for(tmp_path, data):
    folder = write(tmp_path / "set", {"notes.txt": b"", "sub/labels.npy": npy(np.zeros(15, int))})
    expected = f"does not hold '{data.name}': looked for {data.looked_for} in it and the folders below"
    (tmp_path / "x.tar").write_bytes(packed({"notes.txt": b""}, "tar"))
    for path in (folder, tmp_path / "x.tar"):
        assert refusal(data, path) == f"'{path}' {expected}"
    assert "notes.txt' is neither an archive (tar, zip) that can be read nor" in refusal(data, folder / "notes.txt")
    assert "there is no file or folder" in refusal(data, tmp_path / "nothing")


def test_each_missing_file_of_published_copies_is_named(tmp_path):
    files = cifar10_c_files()
    del files["labels.npy"]
    folder = write(tmp_path / "c", files)
    assert refusal(SmallCIFAR10C, folder) == f"'{folder}' lacks 'labels.npy', which belongs to snow.npy, fog.npy"
    for name in [name for name in mnist_c_files() if name.startswith("zigzag")]:
        files = mnist_c_files()
        del files[name]
        (tmp_path / "m.zip").write_bytes(packed(files, "zip"))
        told = refusal(SmallMNISTC, tmp_path / "m.zip")
        assert told.startswith(f"'{tmp_path / 'm.zip'}/zigzag' lacks '{name.split('/')[1]}'; all of train_images, ")


def other(shape=(15, 32, 32, 3), dtype=np.uint8):
    return npy(np.zeros(shape, dtype))


CIFAR_WRONG = {
    "rows": ({"fog.npy": other((14, 32, 32, 3))}, "fog.npy' holds 14 images; 'cifar10-c-files' has 15 there"),
    "one severity": ({"fog.npy": other((3, 32, 32, 3))}, "fog.npy' holds 3 images; 'cifar10-c-files' has 15 there"),
    "size": ({"fog.npy": other((15, 28, 28, 3))}, "fog.npy' has shape 15 x 28 x 28 x 3; needed are N x 32 x 32 x 3"),
    "float": ({"fog.npy": other(dtype=np.float32)}, "fog.npy' holds float32 values; images must be uint8"),
    "cut": ({"fog.npy": other()[:-1]}, "fog.npy' is truncated or damaged: 46,079 bytes for 46,080; get it again"),
    "terabytes": ({"fog.npy": declaring(f"({10**9}, 32, 32, 3)")}, "fog.npy' says that it holds 3,072,000,000,000"),
    "objects": ({"fog.npy": npy(np.array([{}], object), allow_pickle=True)}, "fog.npy' holds Python objects"),
    "labels": ({"labels.npy": npy(np.zeros(3, int))}, "labels.npy' has shape 3 for 15 images; get it again"),
    "range": ({"labels.npy": npy(np.full(15, 10))}, "labels.npy' holds the label 10; 'cifar10' has labels 0 to 9"),
    "order": ({"labels.npy": npy(np.arange(15) // 3)}, "labels.npy' has other labels at other severities; it is not"),
    "mislabelled": (
        {"labels.npy": npy((cifar10_c(())[1] + 1) % 10)},
        "labels.npy' has other labels than 'cifar10' in 3 of 3 rows; it is mislabeled or not in the official order",
    ),
    "shuffled": (
        {"fog.npy": npy(cifar10_c(("fog",))[0]["fog"][[1, 2, 0, *range(3, 15)]].transpose(0, 2, 3, 1))},
        "fog.npy' does not hold copies of the test images of 'cifar10' in their order; get it again",
    ),
    "shuffled at the end": (
        {"fog.npy": npy(cifar10_c(("fog",))[0]["fog"][[*range(12), 13, 14, 12]].transpose(0, 2, 3, 1))},
        "fog.npy' does not hold copies of the test images of 'cifar10' in their order; get it again",
    ),
    "of others": (
        {"fog.npy": npy(cifar10_c(("fog",), seed=5)[0]["fog"].transpose(0, 2, 3, 1))},
        "fog.npy' does not hold copies of the test images of 'cifar10' in their order; get it again",
    ),
    "blank": ({"fog.npy": other()}, "fog.npy' does not hold copies of the test images of 'cifar10' in their order"),
}


@pytest.mark.parametrize("wrong", CIFAR_WRONG)
def test_a_file_of_cifar10_c_that_is_wrong_is_named_and_nothing_is_taken(tmp_path, wrong):
    clean(SmallCIFAR10, tmp_path)
    files, message = CIFAR_WRONG[wrong]
    assert message in refusal(SmallCIFAR10C, write(tmp_path / "set", {**cifar10_c_files(), **files}))
    assert SmallCIFAR10C().state()[0] == "missing"


MNIST_WRONG = {
    "rows": ({"fog/train_images.npy": other((11, 28, 28, 1))}, "holds 11 images; 'mnist-c-files' has 12 there"),
    "colour": ({"fog/train_images.npy": other((12, 28, 28, 3))}, "has shape 12 x 28 x 28 x 3; needed are N x 28 x 28"),
    "parts": ({"fog/test_labels.npy": npy(np.zeros(12, int))}, "test_labels.npy' has shape 12 for 5 images"),
    "mislabelled": (
        {"fog/test_labels.npy": npy((mnist_c(())[1][12:] + 1) % 10)},
        "fog' has other labels than 'mnist' in 5 of 17 rows; it is mislabeled or not in the official order",
    ),
    "float labels": ({"fog/test_labels.npy": npy(np.zeros(5))}, "test_labels.npy' holds float64 values; labels must"),
}


@pytest.mark.parametrize("wrong", MNIST_WRONG)
def test_a_file_of_mnist_c_that_is_wrong_is_named_and_nothing_is_taken(tmp_path, wrong):
    clean(SmallMNIST, tmp_path)
    files, message = MNIST_WRONG[wrong]
    assert message in refusal(SmallMNISTC, write(tmp_path / "set", {**mnist_c_files(), **files}))
    assert SmallMNISTC().state()[0] == "missing"


def test_copies_with_other_labels_are_refused_also_when_the_clean_set_comes_later(tmp_path, small_copies):
    SmallCIFAR10C().add(write(tmp_path / "set", cifar10_c_files(seed=1)))
    assert official("cifar10", "fog", 1) is not None
    clean(SmallCIFAR10, tmp_path)
    with pytest.raises(UserError, match="cifar10-c-files/fog' has other labels than 'cifar10' in . of 3 rows"):
        official("cifar10", "fog", 1)


@pytest.mark.parametrize("harm", ["changed", "cut", "gone", "description"])
def test_a_damaged_kind_is_named_and_the_others_are_not_touched(tmp_path, small_copies, home, harm):
    SmallCIFAR10C().add(write(tmp_path / "set", cifar10_c_files()))
    folder = home / "cifar10-c-files" / "fog"
    content = (folder / "images.npy").read_bytes()
    match harm:
        case "changed":
            (folder / "images.npy").write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
        case "cut":
            (folder / "images.npy").write_bytes(content[:-1])
        case "gone":
            (folder / "images.npy").unlink()
        case "description":
            (folder / "meta.json").write_text("{")
    word, details = SmallCIFAR10C().state()
    assert word == "broken" and str(folder) in details and details.endswith("oodbench data get cifar10-c-files")
    if harm != "changed":
        with pytest.raises(UserError, match=r"cifar10-c-files/fog.* is damaged"):
            official("cifar10", "fog", 1)
    assert official("cifar10", "snow", 1) is not None
    SmallCIFAR10C().add(tmp_path / "set")
    assert SmallCIFAR10C().state()[0] == "partial" and official("cifar10", "fog", 1) is not None


def full_disk(function, call):
    """The function, which finds the disk full once."""
    calls = []

    def fails(*arguments, **options):
        calls.append(arguments)
        if len(calls) == call:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return function(*arguments, **options)

    return fails


@pytest.mark.parametrize("call", [1, 2, 4, 5])
def test_a_disk_that_fills_leaves_every_kind_whole_or_as_it_was(tmp_path, small_copies, home, monkeypatch, call):
    SmallCIFAR10C().add(write(tmp_path / "first", cifar10_c_files()))
    before, second = contents(home), write(tmp_path / "second", cifar10_c_files(seed=1))
    with monkeypatch.context() as patch:
        patch.setattr(np, "save", full_disk(np.save, call))
        with pytest.raises(
            UserError, match=r"cannot write '.*cifar10-c-files/(fog|snow)': No space left on device; fr"
        ):
            SmallCIFAR10C().add(second)
    changed_ = {name.split("/")[1] for name, content in contents(home).items() if before[name] != content}
    assert changed_ == (set() if call < 4 else {"snow"})
    assert SmallCIFAR10C().state()[0] == "partial" and os.listdir(home) == ["cifar10-c-files"]


@pytest.mark.parametrize("data", [SmallCIFAR10C, SmallSVHN, SmallMNIST], ids=lambda data: data.name)
def test_a_data_folder_that_cannot_be_written_is_told(tmp_path, monkeypatch, data):
    (tmp_path / "file").write_text("a file")
    monkeypatch.setenv("OODBENCH_DATA", str(tmp_path / "file" / "data"))
    files = {SmallCIFAR10C: cifar10_c_files, SmallSVHN: svhn_files, SmallMNIST: idx_files}[data]()
    with pytest.raises(UserError, match="cannot write the data folder '.*'; set OODBENCH_DATA to another|cannot write"):
        data().add(write(tmp_path / "set", files))
    assert (tmp_path / "file").read_text() == "a file"


# What is there is not lost


@pytest.fixture
def verified(monkeypatch, tmp_path):
    """The official content of a small MNIST, in the store."""
    images, labels = small(SmallMNIST)
    content = store.fingerprint(store.Decoded(images, labels, np.arange(17) >= 12))
    monkeypatch.setattr(MNIST, "official", content)
    return write(tmp_path / "official", idx_files())


def test_other_content_is_refused_whatever_is_there_unless_forced(verified, tmp_path, home):
    whole = write(tmp_path / "other", idx_files(seed=1))
    images, labels = small(SmallMNIST, 1)
    actual = store.fingerprint(store.Decoded(images, labels, np.arange(17) >= 12))
    expected = (
        f"'{whole}' is not the official content of 'mnist' (its fingerprint is {actual}, the official one "
        f"{MNIST.official}); nothing is stored. Get the official files, or add --force to use these\n"
    )
    assert_refused(oodbench("data", "add", "mnist", whole), expected)
    assert not (home / "mnist").exists()
    assert "verified" in assert_done(oodbench("data", "add", "mnist", verified))
    before = contents(home)
    assert_refused(oodbench("data", "add", "mnist", whole), expected)
    assert contents(home) == before
    assert "verified" in assert_done(oodbench("data", "add", "mnist", verified))  # again is no harm
    assert "NOT the official content" in assert_done(oodbench("data", "add", "mnist", whole, "--force"))
    assert "verified" in assert_done(oodbench("data", "add", "mnist", verified))  # and back


# Working folders

HOLDING = """
import sys, time
import numpy as np
from pathlib import Path
from oodbench.data import store
with store.working_folder() as work:
    (work / "file").write_bytes(b"x")
    {more}
    print(work, flush=True)
    time.sleep(60)
"""


def holding(more="pass"):
    """A process with a working folder, and the folder."""
    process = subprocess.Popen([sys.executable, "-c", HOLDING.format(more=more)], stdout=subprocess.PIPE, text=True)
    return process, Path(process.stdout.readline().strip())


def test_a_working_folder_is_swept_once_its_process_was_killed_and_not_before(home):
    process, left = holding()
    try:
        with store.working_folder() as first, store.working_folder() as second:
            assert {left, first, second} == set(home.iterdir())
        store.save("set", store.Decoded(np.zeros((1, 1, 2, 2), np.uint8), np.zeros(1), np.zeros(1)), "test")
        assert set(home.iterdir()) == {left, home / "set"} and (left / "file").exists()
        os.kill(process.pid, signal.SIGKILL)
    finally:
        process.kill()
        process.communicate()
    assert (left / "file").exists()
    with store.working_folder() as work:
        assert set(home.iterdir()) == {work, home / "set"}
    assert set(home.iterdir()) == {home / "set"}


@pytest.mark.parametrize("name", ["set", "cifar10-c-files/fog"])
def test_a_set_that_a_killed_process_had_just_moved_away_comes_back(home, name):
    decoded = store.Decoded(np.ones((4, 1, 2, 2), np.uint8), np.arange(4), np.zeros(4, bool))
    made = store.save(name, decoded, "test")
    more = (
        "import os; real = os.replace\n"
        "    def once(a, b):\n"
        "        real(a, b); print(work, flush=True); time.sleep(60)\n"
        "    os.replace = once\n"
        f"    store.save({name!r}, store.Decoded(np.zeros((4, 1, 2, 2), np.uint8), np.arange(4), np.zeros(4)), 'x')"
    )
    process, _ = holding(more)
    process.kill()
    process.communicate()
    assert store.entry(name) is None and len(list(home.glob(".work-*"))) == 2
    with store.working_folder():
        pass
    assert store.entry(name) == made and not list(home.glob(".work-*"))
    assert np.array_equal(store.load(name).images, decoded.images)


def test_a_working_folder_that_was_swept_before_it_was_locked_is_made_again(home, monkeypatch):
    """What another process may do between the two steps."""
    folders, lock = [], store.locked

    @contextlib.contextmanager
    def swept_first(path, wait):
        folders.append(path.parent)
        match len(folders):
            case 1:
                with lock(path, wait), lock(path, wait) as mine:
                    yield mine
            case 2:
                with lock(path, wait) as mine:
                    shutil.rmtree(path.parent)
                    yield mine
            case 3:
                raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))
            case 4:
                path.parent.rmdir()
                with lock(path, wait) as mine:
                    yield mine

    monkeypatch.setattr(store, "locked", swept_first)
    with store.working_folder() as work:
        assert folders[-1] == work and len(set(folders)) == 4 and work.is_dir()
    assert list(home.iterdir()) == []


def test_without_locks_nothing_is_swept(home, monkeypatch):
    left = write(home / ".work-left", {"file": b""})
    with monkeypatch.context() as patch:
        patch.setattr(fcntl, "flock", no_locks)
        with store.working_folder() as work:
            assert left.exists() and work.is_dir()
        assert set(home.iterdir()) == {left}
    with store.working_folder():
        assert not left.exists()


def no_locks(*_):
    raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))


# Downloads


@pytest.fixture
def site(monkeypatch):
    """A web site with the small CIFAR-10-C, and how often it was asked."""
    content, asked = packed(cifar10_c_files(), "tar"), []

    class Site(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            asked.append(self.path)
            self.send_response(200)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_):
            pass

    monkeypatch.setenv("no_proxy", "*")
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Site)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    url = Url(f"http://127.0.0.1:{server.server_port}/CIFAR-10-C.tar", hashlib.md5(content).hexdigest())
    yield url, asked
    server.shutdown()
    thread.join()
    server.server_close()


def downloads(home):
    return [path.name for path in (home / "downloads").glob("*.part")]


def test_a_whole_download_is_kept_until_it_is_stored_and_then_no_longer(tmp_path, home, site, monkeypatch):
    url, asked = site
    data = SmallCIFAR10C()
    monkeypatch.setattr(SmallCIFAR10C, "sources", (url,))
    for broken in (full_disk(np.save, 1), full_disk(np.save, 4)):
        with monkeypatch.context() as patch:
            patch.setattr(np, "save", broken)
            with pytest.raises(UserError, match="No space left on device"):
                data.get()
        assert len(downloads(home)) == 1 and not list(home.glob(".work-*"))
    with monkeypatch.context() as patch:
        patch.setattr(SmallCIFAR10C, "find", interrupted)
        with pytest.raises(KeyboardInterrupt):
            data.get()
    entry = data.get()
    assert entry.source == url.address and data.state()[0] == "partial"
    assert downloads(home) == [] and len(asked) == 1


def interrupted(*_):
    raise KeyboardInterrupt


def test_a_download_that_nothing_proves_is_not_kept_if_it_cannot_be_read(home, site, monkeypatch):
    url, asked = site
    monkeypatch.setattr(SmallSVHN, "sources", (Url(url.address),))
    for _ in range(2):
        with pytest.raises(UserError, match="CIFAR-10-C.tar' does not hold 'svhn'"):
            SmallSVHN().get()
        assert downloads(home) == []
    assert len(asked) == 2


def test_the_published_copies_have_addresses_with_checksums():
    for data, record in ((CIFAR10C, "2535967/files/CIFAR-10-C.tar"), (MNISTC, "3239543/files/mnist_c.zip")):
        (url,) = data.sources
        assert url.address == f"https://zenodo.org/records/{record}" and len(url.digest) == 32
