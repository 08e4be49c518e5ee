"""Files of data sets as their makers publish them, in every layout, and damaged in every way."""

import gzip
import hashlib
import json
import os
import pickle
import random
import struct
import tracemalloc
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from data_files import (
    PACKINGS,
    SmallCIFAR10,
    SmallCIFAR100,
    SmallMNIST,
    batch,
    binary,
    cifar10_batches,
    cifar10_binary,
    cifar10_pictures,
    cifar10_python,
    cifar100_binary,
    cifar100_python,
    damaged,
    gzipped,
    idx,
    idx_files,
    packed,
    png,
    png_of,
    python2,
    scratch,
    small,
    write,
)
from PIL import Image

from oodbench.data import store
from oodbench.data.sets.cifar import CIFAR10
from oodbench.data.sets.idx import MNIST, NAMES, FashionMNIST
from oodbench.data.untrusted import arrays
from oodbench.data.untrusted.arrays import read_idx
from oodbench.data.untrusted.cifar import read_batch, read_binary, read_labels, read_picture
from oodbench.errors import UserError


@pytest.fixture
def tmp_path():
    with scratch() as folder:
        yield Path(folder)


def dotted(files):
    """As some tools write the names."""
    return {name.replace("-idx", ".idx"): content for name, content in files.items()}


LAYOUTS = {
    "idx": (SmallMNIST, idx_files),
    "idx.gz": (SmallMNIST, lambda seed=0: gzipped(idx_files(seed))),
    "dotted idx": (SmallMNIST, lambda seed=0: dotted(idx_files(seed))),
    "dotted idx.gz": (SmallMNIST, lambda seed=0: dotted(gzipped(idx_files(seed)))),
    "cifar10 python": (SmallCIFAR10, cifar10_python),
    "cifar10 binary": (SmallCIFAR10, cifar10_binary),
    "cifar10 npm": (SmallCIFAR10, cifar10_pictures),
    "cifar100 python": (SmallCIFAR100, cifar100_python),
    "cifar100 binary": (SmallCIFAR100, cifar100_binary),
}
every_layout = pytest.mark.parametrize("layout", LAYOUTS)
ARRAYS = (
    "train_images.npy, train_labels.npy, test_images.npy, test_labels.npy or "
    "x_train.npy, y_train.npy, x_test.npy, y_test.npy or an .npz of these"
)


def decode(data, path, tmp_path):
    return data().decode(path, tmp_path / "unpacked")


def refusal(data, path, tmp_path):
    """The one line."""
    with pytest.raises(UserError) as error:
        decode(data, path, tmp_path)
    assert "\n" not in str(error.value)
    return str(error.value)


def assert_holds(decoded, data, seed=0):
    images, labels = small(data, seed)
    assert decoded.images.dtype == np.uint8 and decoded.labels.dtype == np.int64 and decoded.in_test.dtype == bool
    assert np.array_equal(decoded.images, images) and np.array_equal(decoded.labels, labels)
    assert np.array_equal(decoded.in_test, np.arange(sum(data.rows)) >= data.rows[0])


# All layouts


@every_layout
def test_a_folder_gives_every_pixel_and_label(tmp_path, layout):
    data, files = LAYOUTS[layout]
    assert_holds(decode(data, write(tmp_path / "set", files()), tmp_path), data)


@every_layout
@pytest.mark.parametrize("packing", PACKINGS)
def test_an_archive_gives_the_same_as_the_folder_however_deep(tmp_path, layout, packing):
    data, files = LAYOUTS[layout]
    content = {f"some/folder in/it/{name}": content for name, content in files().items()}
    (tmp_path / "archive").write_bytes(packed({"readme.html": b"<html>", **content}, packing))
    assert_holds(decode(data, tmp_path / "archive", tmp_path), data)


@every_layout
def test_the_fingerprint_is_that_of_the_pixels_whatever_the_files(tmp_path, layout, monkeypatch):
    monkeypatch.setenv("OODBENCH_DATA", str(tmp_path / "data"))
    data, files = LAYOUTS[layout]
    images, labels = small(data)
    expected = store.fingerprint(store.Decoded(images, labels, np.arange(len(labels)) >= data.rows[0]))
    folder = write(tmp_path / "set" / "nested", files())
    (tmp_path / "archive").write_bytes(packed(files(), "zip"))
    for path in (folder, folder.parent, folder / next(iter(files())), tmp_path / "archive"):
        assert data().add(path).fingerprint == data().fingerprint == expected
        assert store.entry(data.name).source == f"added from {path.name}"
    other = write(tmp_path / "other", files(seed=1))
    assert data().add(other).fingerprint != expected


@every_layout
def test_each_missing_file_is_named(tmp_path, layout):
    data, files = LAYOUTS[layout]
    for name in files():
        folder = write(tmp_path / name / "set", {other: content for other, content in files().items() if other != name})
        message = refusal(data, folder, tmp_path)
        plain = name.removesuffix(".gz").replace(".idx", "-idx")
        if data is SmallCIFAR100:
            assert f"looked for train, test or train.bin, test.bin or {ARRAYS} in it and the folders" in message
        else:
            assert f"'{folder}' lacks '{plain}'" in message


@pytest.mark.parametrize(
    ("data", "files"),
    [
        (SmallMNIST, ", ".join(f"{name}[.gz]" for name in NAMES)),
        (
            SmallCIFAR10,
            "data_batch_1, data_batch_2, data_batch_3, data_batch_4, data_batch_5, test_batch or data_batch_1.bin, "
            "data_batch_2.bin, data_batch_3.bin, data_batch_4.bin, data_batch_5.bin, test_batch.bin or "
            "data_batch_1.png, data_batch_2.png, data_batch_3.png, data_batch_4.png, data_batch_5.png, test_batch.png, "
            "train_lables.json, test_lables.json",
        ),
        (SmallCIFAR100, "train, test or train.bin, test.bin"),
    ],
)
def test_a_folder_or_archive_without_the_set_is_told_with_all_that_was_looked_for(tmp_path, data, files):
    folder = write(tmp_path / "set", {"notes.txt": b"notes", "sub/more.txt": b"more"})
    expected = f"' does not hold '{data.name}': looked for {files} or {ARRAYS} in it and the folders below"
    assert refusal(data, folder, tmp_path) == f"'{folder}{expected}"
    for packing in PACKINGS:
        for content in ({}, {"notes.txt": b"notes"}):
            (tmp_path / "archive").write_bytes(packed(content, packing))
            work = tmp_path / f"{packing}-{len(content)}"
            work.mkdir()
            assert refusal(data, tmp_path / "archive", work) == f"'{tmp_path / 'archive'}{expected}"
    message = refusal(data, folder / "notes.txt", tmp_path)
    assert "notes.txt' is neither an archive (tar, zip) that can be read nor a file of" in message and files in message


def test_what_is_wrong_in_an_archive_is_told_by_its_place_in_the_archive(tmp_path):
    files = idx_files()
    del files[NAMES[3]]
    (tmp_path / "mnist.tgz").write_bytes(packed({f"a/{name}": content for name, content in files.items()}))
    message = refusal(SmallMNIST, tmp_path / "mnist.tgz", tmp_path)
    assert message == f"'{tmp_path}/mnist.tgz/a' lacks 't10k-labels-idx1-ubyte'; all four files are needed"


@every_layout
def test_another_number_of_images_is_told(tmp_path, layout, monkeypatch):
    data, files = LAYOUTS[layout]
    folder = write(tmp_path / "set", files())
    rows = (data.rows[0] + 1, data.rows[1] - 1)
    monkeypatch.setattr(data, "rows", rows)
    message = refusal(data, folder, tmp_path)
    assert f"holds {rows[0] - 1} and {rows[1] + 1} images; '{data.name}' has {rows[0]} training and" in message


@every_layout
def test_a_label_out_of_range_is_told(tmp_path, layout, monkeypatch):
    data, files = LAYOUTS[layout]
    folder = write(tmp_path / "set", files())
    largest = int(small(data)[1].max())
    monkeypatch.setattr(data, "num_classes", largest)
    message = refusal(data, folder, tmp_path)
    assert f"holds the label {largest}; '{data.name}' has labels 0 to {largest - 1}" in message


def test_where_two_sets_share_names_of_files_the_official_one_is_taken(tmp_path):
    """As in a folder that torchvision has filled, with FashionMNIST before MNIST."""
    root = tmp_path / "root"
    write(root / "FashionMNIST" / "raw", idx_files(seed=1))
    write(root / "MNIST" / "raw", idx_files(seed=0))
    images, labels = small(SmallMNIST)
    official = store.fingerprint(store.Decoded(images, labels, np.arange(17) >= 12))

    class Known(SmallMNIST):
        pass

    Known.official = official
    assert_holds(decode(Known, root, tmp_path), SmallMNIST, seed=0)
    Known.official = "another"
    assert_holds(decode(Known, root, tmp_path), SmallMNIST, seed=1)


def test_a_whole_set_is_found_beside_a_broken_one(tmp_path):
    root = write(tmp_path / "root", {NAMES[0]: b"broken"})
    write(root / "below", idx_files())
    assert_holds(decode(SmallMNIST, root, tmp_path), SmallMNIST)


@pytest.mark.parametrize("layout", [layout for layout in LAYOUTS if "dotted" not in layout])
def test_damaged_files_give_one_line_or_a_set(tmp_path, layout):
    data, files = LAYOUTS[layout]
    whole, random_ = files(), random.Random(layout)
    folder = write(tmp_path / "set", whole)
    for _ in range(300):
        name = random_.choice(list(whole))
        (folder / name).write_bytes(damaged(whole[name], random_))
        try:
            decoded = decode(data, folder, tmp_path)
        except UserError as error:
            assert str(folder) in str(error)
        else:
            assert decoded.images.shape == (sum(data.rows), *data.shape) and decoded.images.dtype == np.uint8
            assert 0 <= decoded.labels.min() <= decoded.labels.max() < data.num_classes
        (folder / name).write_bytes(whole[name])


# idx


def idx_refusal(tmp_path, content, name="file"):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(UserError) as error:
        read_idx(tmp_path / name)
    assert str(error.value).startswith(f"'{tmp_path / name}' ")
    return str(error.value)


@pytest.mark.parametrize("shape", [(5,), (2, 3), (4, 3, 2)])
def test_an_idx_file_is_read_plain_and_gzipped(tmp_path, shape):
    array = np.arange(np.prod(shape), dtype=np.uint8).reshape(shape)
    (tmp_path / "file").write_bytes(idx(array))
    (tmp_path / "file.gz").write_bytes(gzip.compress(idx(array)))
    assert np.array_equal(read_idx(tmp_path / "file"), array)
    assert np.array_equal(read_idx(tmp_path / "file.gz"), array)


def test_a_truncated_idx_file_is_refused_wherever_it_ends(tmp_path):
    content = idx(np.arange(24, dtype=np.uint8).reshape(2, 3, 4))
    packed_ = gzip.compress(content)
    for end in range(len(content)):
        message = idx_refusal(tmp_path, content[:end])
        assert "is not an idx file of bytes" in message or f"{end - 16:,} bytes for 24 values; get it again" in message
    for end in range(1, len(packed_)):
        idx_refusal(tmp_path, packed_[:end], "file.gz")
    assert "over 24 bytes for 24 values" in idx_refusal(tmp_path, content + b"more")


@pytest.mark.parametrize(
    "head",
    [
        b"\0\0\x08\0",
        b"\0\0\x08\x04",
        b"\0\0\x08\xff",
        b"\0\0\x09\x01",
        b"\0\0\x0d\x01",
        b"\0\x01\x08\x01",
        b"\x08\0\0\x01",
    ],
)
def test_another_magic_number_is_refused(tmp_path, head):
    message = idx_refusal(tmp_path, head + struct.pack(">255I", *[1] * 255) + b"\x07")
    assert message.endswith("is not an idx file of bytes; get it again")


@pytest.mark.parametrize(
    "sizes", [(2**32 - 1,) * 3, (2**31, 2, 2**32 - 1), (2**16, 2**16, 2**16), (2**32 - 1, 2**32 - 1, 1)]
)
@pytest.mark.parametrize("name", ["file", "file.gz"])
def test_sizes_that_overflow_are_refused_before_anything_is_allocated(tmp_path, sizes, name):
    content = struct.pack(">HBB3I", 0, 8, 3, *sizes) + b"x" * 100
    message = idx_refusal(tmp_path, gzip.compress(content) if name == "file.gz" else content, name)
    assert "it is not to be trusted" in message


@pytest.mark.parametrize("sizes", [(0, 28, 28), (0, 2**32 - 1, 2**32 - 1), (2**32 - 1, 0, 2**32 - 1)])
def test_an_idx_file_without_values_is_refused(tmp_path, sizes):
    assert "is empty" in idx_refusal(tmp_path, struct.pack(">HBB3I", 0, 8, 3, *sizes))


def test_an_idx_file_that_swells_is_read_no_further_than_its_sizes(tmp_path, monkeypatch):
    bomb = gzip.compress(idx(np.zeros(10, np.uint8)) + bytes(2**24))
    assert "over 10 bytes for 10 values" in idx_refusal(tmp_path, bomb, "file.gz")
    monkeypatch.setattr(arrays, "ARRAY_LIMIT", 2**20)
    honest = gzip.compress(idx(np.zeros(2**20 + 1, np.uint8)))
    assert "says that it holds 1,048,577 values" in idx_refusal(tmp_path, honest, "file.gz")


def test_a_file_that_is_not_gzip_in_spite_of_its_name_is_refused(tmp_path):
    assert "cannot be read (Not a gzipped file" in idx_refusal(tmp_path, idx(np.zeros(3)), "file.gz")
    assert "is not an idx file" in idx_refusal(tmp_path, gzip.compress(idx(np.zeros(3))))


def test_a_flipped_bit_never_changes_what_is_read_from_gzip(tmp_path):
    array = np.random.default_rng(0).integers(0, 256, (2, 3, 3), dtype=np.uint8)
    content, read = gzip.compress(idx(array)), 0
    for bit in range(8 * len(content)):
        wounded = bytearray(content)
        wounded[bit // 8] ^= 1 << bit % 8
        (tmp_path / "file.gz").write_bytes(wounded)
        try:
            assert np.array_equal(read_idx(tmp_path / "file.gz"), array)
            read += 1  # flags, time and system of the header
        except UserError:
            pass
    assert read <= 8 * 10


@pytest.mark.parametrize(
    ("name", "array", "message"),
    [
        (NAMES[1], np.zeros(11), "'train-images-idx3-ubyte' has shape (12, 28, 28) for (11,) labels"),
        (NAMES[3], np.zeros(6), "'t10k-images-idx3-ubyte' has shape (5, 28, 28) for (6,) labels"),
        (NAMES[1], np.zeros((12, 1)), "'train-images-idx3-ubyte' has shape (12, 28, 28) for (12, 1) labels"),
        (NAMES[0], np.zeros((12, 784)), "'train-images-idx3-ubyte' has shape (12, 784) for (12,) labels"),
        (NAMES[2], np.zeros((5, 28, 27)), "images of (28, 28) and (28, 27) pixels"),
    ],
)
def test_idx_files_that_do_not_fit_each_other_are_refused(tmp_path, name, array, message):
    assert message in refusal(SmallMNIST, write(tmp_path / "set", {**idx_files(), name: idx(array)}), tmp_path)


def test_images_of_another_size_are_refused(tmp_path):
    files = {**idx_files(), NAMES[0]: idx(np.zeros((12, 32, 32))), NAMES[2]: idx(np.zeros((5, 32, 32)))}
    message = refusal(SmallMNIST, write(tmp_path / "set", files), tmp_path)
    assert "holds images of shape (1, 32, 32); 'mnist' has (1, 28, 28)" in message


def test_images_and_labels_in_each_others_place_are_refused(tmp_path):
    files = idx_files()
    files[NAMES[0]], files[NAMES[1]] = files[NAMES[1]], files[NAMES[0]]
    assert "has shape (12,) for (12, 28, 28) labels" in refusal(SmallMNIST, write(tmp_path / "set", files), tmp_path)


def test_a_plain_file_comes_before_a_gzipped_one(tmp_path):
    folder = write(tmp_path / "set", {**gzipped(idx_files(seed=1)), **idx_files(seed=0)})
    assert_holds(decode(SmallMNIST, folder, tmp_path), SmallMNIST, seed=0)


# Batches


def test_the_batches_of_these_tests_are_pickles_as_python_2_wrote_them():
    images, labels = cifar10_batches()[0]
    content = cifar10_python()["data_batch_1"]
    assert content.startswith(
        b"\x80\x02}q\x01(U\x0bbatch_labelq\x02U\x15training batch 1 of 5q\x03U\x06labelsq\x04]q\x05(K"
    )
    assert b"cnumpy.core.multiarray\n_reconstruct\n" in content and b"cnumpy\nndarray\n" in content
    values = pickle.loads(content, encoding="latin1")
    assert values["labels"] == labels.tolist() and np.array_equal(values["data"].reshape(images.shape), images)


def test_a_batch_of_many_rows_is_read(tmp_path):
    """More rows than fit the short forms of numbers and names."""
    random_ = np.random.default_rng(0)
    images = random_.integers(0, 256, (300, 3, 32, 32), dtype=np.uint8)
    labels = random_.integers(0, 10, 300)
    (tmp_path / "batch").write_bytes(python2(batch(images, labels, 1)))
    got_images, got_labels = read_batch(tmp_path / "batch", "labels")
    assert np.array_equal(got_images, images) and np.array_equal(got_labels, labels)


@pytest.mark.parametrize("protocol", [2, 3, 4])
@pytest.mark.parametrize("labels_as", [list, np.array, lambda labels: np.array(labels, np.int32)])
def test_a_batch_saved_again_by_python_3_is_read(tmp_path, protocol, labels_as):
    images, labels = cifar10_batches()[0]
    values = {"data": images.reshape(3, -1), "labels": labels_as(labels.tolist())}
    for data in (values["data"], np.asfortranarray(values["data"])):
        (tmp_path / "batch").write_bytes(pickle.dumps({**values, "data": data}, protocol))
        got_images, got_labels = read_batch(tmp_path / "batch", "labels")
        assert np.array_equal(got_images, images) and np.array_equal(got_labels, labels)


class Evil:
    """Runs what it is told when it is unpickled."""

    def __init__(self, function, *arguments):
        self.parts = function, arguments

    def __reduce__(self):
        return self.parts


@pytest.mark.parametrize("protocol", range(5))
@pytest.mark.parametrize(
    ("evil", "named"),
    [
        (lambda path: Evil(os.system, f"touch {path}"), f"{os.system.__module__}.system"),
        (lambda path: Evil(exec, f"open({str(path)!r}, 'w')"), "exec"),
        (lambda path: Evil(open, str(path), "w"), "open"),
        (lambda path: Evil(np.save, str(path), 1), "numpy"),
        (lambda path: Evil(np.ndarray.tofile, str(path)), "getattr"),
        (lambda path: Evil(Evil, path), "Evil"),
    ],
)
def test_a_batch_that_wants_to_run_something_is_refused_and_nothing_runs(tmp_path, protocol, evil, named):
    values = {**batch(*cifar10_batches()[0], 1), "batch_label": evil(tmp_path / "ran")}
    content = pickle.dumps(values, protocol)
    (tmp_path / "batch").write_bytes(content)
    with pytest.raises(UserError, match="a batch wants to run '.*'; it is damaged or not to be trusted") as error:
        read_batch(tmp_path / "batch", "labels")
    assert named in str(error.value) and f"'{tmp_path / 'batch'}'" in str(error.value)
    assert not (tmp_path / "ran").exists()
    folder = write(tmp_path / "set", {**cifar10_python(), "test_batch": content})
    assert "a batch wants to run" in refusal(SmallCIFAR10, folder, tmp_path)
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize(
    "name",
    [
        *("os\nsystem", "posix\nsystem", "builtins\neval", "__builtin__\neval", "subprocess\nPopen", "numpy\nload"),
        *(
            "numpy\nmemmap",
            "numpy.core.multiarray\nscalar",
            "numpy.core\nmultiarray._reconstruct",
            "numpy\nndarray.tofile",
        ),
        *("_codecs\ndecode", "codecs\nopen", "copyreg\n_reconstructor", "oodbench.data.untrusted.cifar\n_Array"),
    ],
)
def test_a_batch_may_name_nothing_but_arrays(tmp_path, name):
    (tmp_path / "batch").write_bytes(b"\x80\x02c" + name.encode() + b"\n.")
    with pytest.raises(UserError, match=f"wants to run '{name.replace(chr(10), '.')}'"):
        read_batch(tmp_path / "batch", "labels")


def test_nothing_of_numpy_is_called_while_a_batch_is_read(tmp_path):
    """A state that numpy believes can make it take numbers for addresses."""
    content = cifar10_python()["data_batch_1"]
    place = content.index(b"K\0t", content.index(b"cnumpy\ndtype\n")) + 1  # the flags of the type
    for flags in range(1, 128):
        wounded = bytearray(content)
        wounded[place] = flags
        (tmp_path / "batch").write_bytes(wounded)
        images, _ = read_batch(tmp_path / "batch", "labels")
        assert not images.dtype.hasobject and np.array_equal(images, cifar10_batches()[0][0])


@pytest.mark.parametrize("code", [b"O8", b"V9", b"f4", b"S1", b"u2", b"M8"])
def test_an_array_of_another_type_is_refused(tmp_path, code):
    (tmp_path / "batch").write_bytes(cifar10_python()["data_batch_1"].replace(b"U\x02u1", b"U\x02" + code))
    with pytest.raises(UserError, match="is damaged .ValueError: an array of type"):
        read_batch(tmp_path / "batch", "labels")


def test_a_damaged_number_of_the_memo_costs_no_memory(tmp_path):
    (tmp_path / "batch").write_bytes(b"\x80\x02}q\x01r\x00\x00\x00\x01.")
    tracemalloc.start()
    with pytest.raises(UserError, match="is damaged"):
        read_batch(tmp_path / "batch", "labels")
    assert tracemalloc.get_traced_memory()[1] < 2**20
    tracemalloc.stop()


ROWS, LABELS = np.zeros((2, 3072), np.uint8), [1, 2]


@pytest.mark.parametrize(
    "values",
    [
        *([], 7, None, "text", {}, {"data": ROWS}, {"labels": LABELS}, {"data": ROWS, "labels": [1]}),
        *(
            {"data": ROWS, "labels": [1, 2, 3]},
            {"data": ROWS, "labels": [[1], [2]]},
            {"data": ROWS, "labels": [1, [2]]},
        ),
        *({"data": ROWS, "labels": ["1", "2"]}, {"data": ROWS, "labels": [1.0, 2.0]}, {"data": ROWS, "labels": 3}),
        *({"data": ROWS, "labels": [True, False]}, {"data": ROWS, "labels": [None, None]}, {"data": [], "labels": []}),
        *({"data": ROWS[:, 1:], "labels": LABELS}, {"data": ROWS[0], "labels": LABELS}, {"data": 3, "labels": LABELS}),
        *({"data": ROWS.astype(np.int64), "labels": LABELS}, {"data": ROWS.tolist(), "labels": LABELS}),
        {"data": ROWS, "labels": [10**30, 1]},
    ],
)
def test_a_batch_with_other_values_is_refused(tmp_path, values):
    (tmp_path / "batch").write_bytes(pickle.dumps(values, 2))
    with pytest.raises(UserError, match=r"batch' is damaged \(.*\); get it again"):
        read_batch(tmp_path / "batch", "labels")


@pytest.mark.parametrize(
    "content", [b"", b".", b"\x80\x02", b"\x80\x05", b"N.", b"(" * 9999, b"text", b"<html>\n</html>"]
)
def test_what_is_no_batch_is_refused(tmp_path, content):
    (tmp_path / "batch").write_bytes(content)
    with pytest.raises(UserError, match="batch' is damaged"):
        read_batch(tmp_path / "batch", "labels")


def test_a_truncated_batch_is_refused_wherever_it_ends(tmp_path):
    """Within a name of numpy's, the name is another's."""
    for content, key in ((cifar10_python()["data_batch_1"], "labels"), (cifar100_python()["train"], "fine_labels")):
        for end in (*range(0, 400, 3), *range(400, len(content), 197)):
            (tmp_path / "batch").write_bytes(content[:end])
            with pytest.raises(UserError, match="batch'.* is damaged"):
                read_batch(tmp_path / "batch", key)


@pytest.mark.parametrize("label_bytes", [1, 2])
def test_a_truncated_binary_batch_is_refused(tmp_path, label_bytes):
    images, labels = cifar10_batches()[0]
    content, width = binary(images, *[labels] * label_bytes), label_bytes + 3072
    for end in (0, 1, width - 1, width + 1, 2 * width - 1, len(content) - 1):
        (tmp_path / "batch").write_bytes(content[:end])
        with pytest.raises(UserError, match=f"is truncated: {end:,} bytes are not rows of {width:,}; get it again"):
            read_binary(tmp_path / "batch", label_bytes)
    (tmp_path / "batch").write_bytes(content)
    assert np.array_equal(read_binary(tmp_path / "batch", label_bytes)[0], images)


def test_of_the_two_labels_of_cifar100_the_fine_one_counts(tmp_path):
    images, labels = small(SmallCIFAR100)
    assert (labels != labels // 5).any()
    for files in (cifar100_python(), cifar100_binary()):
        folder = write(tmp_path / str(len(files)) / next(iter(files)), files)
        assert np.array_equal(decode(SmallCIFAR100, folder, tmp_path).labels, labels)


# Pictures


@pytest.mark.parametrize("mode", ["L", "RGBA", "P", "1"])
def test_a_picture_of_another_mode_is_refused(tmp_path, mode):
    (tmp_path / "data.png").write_bytes(png(cifar10_batches()[0][0], mode))
    with pytest.raises(UserError, match=f"data.png' is 1024x3 {mode}, not rows of 32x32 RGB images"):
        read_picture(tmp_path / "data.png")


@pytest.mark.parametrize("size", [(1023, 3), (3, 1024), (1, 1), (1024, 20001)])
def test_a_picture_of_another_size_is_refused(tmp_path, size):
    (tmp_path / "data.png").write_bytes(png_of(Image.new("RGB", size)))
    with pytest.raises(UserError, match=f"is {size[0]}x{size[1]} RGB, not rows of 32x32 RGB images"):
        read_picture(tmp_path / "data.png")


def test_a_picture_larger_than_pillow_likes_is_read_and_its_limit_is_as_before(tmp_path, monkeypatch):
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 1000)
    images = cifar10_batches()[0][0]
    (tmp_path / "data.png").write_bytes(png(images))
    assert np.array_equal(read_picture(tmp_path / "data.png"), images)
    assert Image.MAX_IMAGE_PIXELS == 1000
    (tmp_path / "data.png").write_bytes(b"broken")
    with pytest.raises(UserError, match="data.png' is damaged"):
        read_picture(tmp_path / "data.png")
    assert Image.MAX_IMAGE_PIXELS == 1000


def test_a_picture_of_another_format_is_refused(tmp_path):
    Image.new("RGB", (1024, 3)).save(tmp_path / "data.png", "BMP")
    with pytest.raises(UserError, match="data.png' is damaged"):
        read_picture(tmp_path / "data.png")


@pytest.mark.parametrize(
    "text",
    [
        *("", "[", "{}", "7", "null", '"text"', "[[1], [2]]", "[1, [2]]", "[1.5, 2]", '["1", "2"]', "[null]", "[true]"),
        *("[" * 100_000, "[1e400]", "[NaN]", f"[{10**30}]", "[{}]", "[]", "\xff\xfe"),
    ],
)
def test_labels_that_are_no_whole_numbers_are_refused(tmp_path, text):
    (tmp_path / "labels.json").write_bytes(text.encode("latin1"))
    with pytest.raises(UserError, match="labels.json' is damaged .*; get it again"):
        read_labels(tmp_path / "labels.json")


@pytest.mark.parametrize(
    ("name", "labels", "message"),
    [
        ("train_lables.json", [1] * 14, "holds 18 images and 17 labels; get it again"),
        ("test_lables.json", [1] * 4, "holds 18 images and 19 labels; get it again"),
        ("test_lables.json", [1, 2, 10], "holds the label 10; 'cifar10' has labels 0 to 9"),
        ("test_lables.json", [1, 2, -1], "holds the label -1; 'cifar10' has labels 0 to 9"),
    ],
)
def test_labels_that_do_not_fit_the_pictures_are_refused(tmp_path, name, labels, message):
    folder = write(tmp_path / "set", {**cifar10_pictures(), name: json.dumps(labels).encode()})
    assert message in refusal(SmallCIFAR10, folder, tmp_path)


def test_labels_of_one_picture_counted_with_the_other_part_are_refused(tmp_path):
    labels = {"train_lables.json": json.dumps([1] * 14).encode(), "test_lables.json": json.dumps([1] * 4).encode()}
    message = refusal(SmallCIFAR10, write(tmp_path / "set", {**cifar10_pictures(), **labels}), tmp_path)
    assert "holds 14 and 4 images; 'cifar10' has 15 training and 3 test images" in message


# What the user adds


@pytest.fixture
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("OODBENCH_DATA", str(tmp_path / "data"))
    return tmp_path / "data"


@pytest.mark.parametrize("name", ["missing", "missing/below", "x" * 5000])
def test_a_path_that_is_not_there_is_told(home, tmp_path, name):
    with pytest.raises(UserError, match="there is no file or folder '.*'; give the archive or folder of 'mnist'"):
        SmallMNIST().add(tmp_path / name)


def test_a_bad_set_leaves_the_one_that_was_there(home, tmp_path):
    good = SmallMNIST().add(write(tmp_path / "good", idx_files()))
    whole = packed({f"x/{name}": content for name, content in idx_files(seed=1).items()})
    (tmp_path / "cut.tgz").write_bytes(whole[: len(whole) // 2])
    (tmp_path / "head.tgz").write_bytes(whole[:5])
    (tmp_path / "evil.tgz").write_bytes(packed({**idx_files(seed=1), "../evil": b"evil"}))
    bad = write(tmp_path / "bad", {**idx_files(seed=1), NAMES[0]: b"broken"})
    for path in (tmp_path / "cut.tgz", tmp_path / "head.tgz", tmp_path / "evil.tgz", bad, home):
        if path != home:
            with pytest.raises(UserError):
                SmallMNIST().add(path)
        assert store.entry("mnist") == good and sorted(os.listdir(home)) == ["mnist"]
    assert_holds(store.load("mnist"), SmallMNIST)


def test_a_broken_archive_does_not_make_the_folder_around_it_be_taken(home, tmp_path):
    folder = write(tmp_path / "set", {**idx_files(), "mnist.zip": packed(idx_files(), "zip")[:-30]})
    with pytest.raises(UserError, match="mnist.zip' is neither an archive .tar, zip. that can be read nor a file of"):
        SmallMNIST().add(folder / "mnist.zip")


def test_what_an_object_has_read_is_forgotten_when_the_set_changes(home, tmp_path):
    data = SmallMNIST()
    first = data.add(write(tmp_path / "first", idx_files()))
    before = data.fingerprint, data.part(None).labels.tolist()
    second = data.add(write(tmp_path / "second", idx_files(seed=1)))
    assert before[0] == first.fingerprint and data.fingerprint == second.fingerprint != first.fingerprint
    assert data.part(None).labels.tolist() == small(SmallMNIST, 1)[1].tolist() != before[1]


def test_a_set_that_is_not_there_tells_how_to_get_it(home):
    for ask in (lambda: SmallMNIST().fingerprint, lambda: SmallMNIST().load()):
        with pytest.raises(UserError, match=f"the data set 'mnist' is not in '{home}'; get it with: oodbench data get"):
            ask()


# Real data


def real(data):
    if store.entry(data.name) is None:
        pytest.skip(f"'{data.name}' is not in '{store.data_folder()}'; get it with: oodbench data get {data.name}")
    return store.load(data.name)


@pytest.mark.slow
@pytest.mark.parametrize("data", [MNIST, FashionMNIST, CIFAR10], ids=lambda data: data.name)
def test_real_data_is_the_official_content_with_its_classes(data):
    stored = real(data)
    assert store.fingerprint(stored) == store.entry(data.name).fingerprint == data.official
    assert stored.images.shape == (sum(data.rows), *data.shape)
    train, test = (Counter(stored.labels[stored.in_test == part].tolist()) for part in (False, True))
    if data is MNIST:
        assert [train[i] for i in range(10)] == [5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949]
        assert [test[i] for i in range(10)] == [980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009]
    else:
        assert set(train.values()) == {data.rows[0] // 10} and set(test.values()) == {data.rows[1] // 10}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("data", "digests"),
    [
        (
            MNIST,
            {
                NAMES[0]: "6bbc9ace898e44ae57da46a324031adb",
                NAMES[1]: "a25bea736e30d166cdddb491f175f624",
                NAMES[2]: "2646ac647ad5339dbf082846283269ea",
                NAMES[3]: "27ae3e4e09519cfbb04c329615203637",
            },
        ),
        (FashionMNIST, {NAMES[0]: "f4a8712d7a061bf5bd6d2ca38dc4d50a"}),
    ],
    ids=["mnist", "fashion-mnist"],
)
def test_real_data_written_as_idx_has_the_published_checksums(data, digests):
    stored, cut = real(data), data.rows[0]
    arrays = (stored.images[:cut, 0], stored.labels[:cut], stored.images[cut:, 0], stored.labels[cut:])
    files = {name: idx(array) for name, array in zip(NAMES, arrays, strict=True)}
    assert {name: hashlib.md5(files[name]).hexdigest() for name in digests} == digests


@pytest.mark.slow
def test_real_cifar10_in_the_binary_layout_has_the_published_checksum():
    stored = real(CIFAR10)
    content = binary(stored.images[:10000], stored.labels[:10000])
    assert hashlib.md5(content).hexdigest() == "5dd7e06a14cb22eb9f671a540d1b7c25"


@pytest.mark.slow
def test_real_cifar10_in_every_layout_is_the_same_set(tmp_path):
    stored = real(CIFAR10)
    batches = list(zip(np.split(stored.images, 6), np.split(stored.labels, 6), strict=True))
    write(
        tmp_path / "python",
        {name: python2(batch(*rows, 1)) for name, rows in zip(CIFAR10.PYTHON, batches, strict=True)},
    )
    write(tmp_path / "binary", {name: binary(*rows) for name, rows in zip(CIFAR10.BINARY, batches, strict=True)})
    for layout in ("python", "binary"):
        decoded = CIFAR10().decode(tmp_path / layout, tmp_path / "unpacked")
        assert store.fingerprint(decoded) == CIFAR10.official
