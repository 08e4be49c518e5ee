"""A user's DataLoader as rows of images: one pass tells all, and a second one is noticed where it differs."""

import re

import numpy as np
import pytest
import torch
from command_line import python
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from oodbench.data.given_set import check_alike
from oodbench.data.preprocessing import ALREADY, Preprocessing
from oodbench.errors import UserError
from oodbench.learning import collected
from oodbench.learning.collected import Collected
from oodbench.learning.loaders import LoaderRows, as_set, completed, is_loader, read_once
from oodbench.learning.networks import Classifier
from oodbench.learning.outputs import Outputs, forward
from oodbench.learning.rows import Streamed, as_rows, to_input

ROWS = 23
IMAGES = torch.randn(ROWS, 3, 6, 5, generator=torch.Generator().manual_seed(0))
LABELS = torch.arange(ROWS) % 4
CPU = torch.device("cpu")


class Counted(TensorDataset):
    """Knows which of its rows were read."""

    def __init__(self, *tensors):
        super().__init__(*tensors)
        self.read = []

    def __getitem__(self, row):
        self.read.append(row)
        return super().__getitem__(row)


def loader(batch_size=5, **more):
    return DataLoader(Counted(IMAGES, LABELS), batch_size, **more)


def refused(message):
    return pytest.raises(UserError, match=re.escape(message))


def classifier():
    torch.manual_seed(0)
    return Classifier(nn.Sequential(nn.Flatten(), nn.Linear(90, 7)), 7, 4, (0.0,), (1.0,)).eval()


def test_one_pass_asks_the_network_and_collects_labels_digest_and_number():
    own = loader()
    rows = LoaderRows(own)
    assert rows.each == (3, 6, 5) and rows.dtype == np.float32 and own.dataset.read == list(range(5))
    seen = []
    rows.passed(lambda images: seen.append(images.sum(dim=(1, 2, 3))))
    assert own.dataset.read == list(range(ROWS)), "the batch that told the shape is not read twice"
    torch.testing.assert_close(torch.cat(seen), IMAGES.sum(dim=(1, 2, 3)), rtol=0, atol=0)
    assert [len(each) for each in seen] == [5, 5, 5, 5, 3]
    assert len(rows) == ROWS and rows.shape == (ROWS, 3, 6, 5) and rows.labels.tolist() == LABELS.tolist()
    assert rows.labels.dtype == np.int64 and own.dataset.read == list(range(ROWS))


def test_the_digest_is_that_of_an_array_of_the_same_images_whatever_the_batches():
    array = as_set((IMAGES.numpy(), LABELS.numpy()), "x", ALREADY)
    assert LoaderRows(loader()).digest == LoaderRows(loader(7)).digest == array.fingerprint
    other = IMAGES.clone()
    other[20, 1, 2, 3] += 1e-5
    assert LoaderRows(DataLoader(TensorDataset(other, LABELS), 5)).digest != array.fingerprint


def test_the_pass_of_chosen_rows_shows_these_alone():
    rows, seen = LoaderRows(loader()), []
    rows[6:12].passed(seen.append)
    assert torch.equal(torch.cat(seen), IMAGES[6:12]) and len(rows) == ROWS


def test_what_is_asked_for_before_a_pass_makes_one():
    own = loader()
    assert len(LoaderRows(own)) == ROWS and own.dataset.read == list(range(ROWS))


def test_rows_are_read_again_in_pieces_of_any_size():
    rows = LoaderRows(loader())
    for size in (1, 4, 5, 8, 100):
        pieces = list(rows.split(size))
        assert [len(piece) for piece in pieces[:-1]] == [size] * (len(pieces) - 1) and 0 < len(pieces[-1]) <= size
        torch.testing.assert_close(torch.cat(pieces), IMAGES, rtol=0, atol=0)


@pytest.mark.parametrize("some", [slice(7, 19), slice(0, 5), slice(20, 40), slice(3, 3), np.array([0, 6, 7, 22])])
def test_some_rows_are_chosen_without_reading_and_read_without_those_before_their_batch(some):
    own = loader()
    rows = LoaderRows(own)
    rows.passed(len)
    own.dataset.read.clear()
    chosen, expected = rows[some], IMAGES[some]
    assert chosen.shape == tuple(expected.shape) and chosen.labels.tolist() == LABELS[some].tolist()
    assert own.dataset.read == []
    np.testing.assert_array_equal(np.asarray(chosen), expected)
    start = np.arange(ROWS)[some]
    assert own.dataset.read[:1] == ([] if len(start) == 0 else [start[0] // 5 * 5])
    again = list(chosen.split(4))
    assert sum(map(len, again)) == len(expected) and chosen[1:].shape[0] == max(len(expected) - 1, 0)


def test_rows_are_selected_in_any_order_like_those_of_a_tensor():
    picked = torch.tensor([20, 3, 3, 7])
    torch.testing.assert_close(LoaderRows(loader()).index_select(0, picked), IMAGES[picked], rtol=0, atol=0)
    with pytest.raises(TypeError, match="ascending"):
        LoaderRows(loader())[picked.numpy()]


def test_a_loader_that_shuffles_or_augments_is_noticed_at_the_second_pass():
    def noisy(batch):
        images, labels = torch.utils.data.default_collate(batch)
        return images + torch.rand_like(images), labels

    for own in (loader(shuffle=True), loader(collate_fn=noisy)):
        rows = LoaderRows(own)
        rows.passed(len)
        for read in (
            lambda rows: list(rows.split(8)),
            np.asarray,
            lambda rows: rows.passed(len),
            lambda rows: np.asarray(rows[6:]),
        ):
            with refused("the loader gives other images each time; make it with shuffle=False (and no random augm"):
                read(rows)


def test_a_loader_that_has_become_shorter_is_noticed():
    batches = [(IMAGES[:5], LABELS[:5]), (IMAGES[5:9], LABELS[5:9])]
    rows = LoaderRows(batches)
    assert len(rows) == 9
    batches.pop()
    with refused("the loader gives other images each time"):
        np.asarray(rows)


def test_a_generator_is_read_once_and_no_more():
    rows = LoaderRows(batch for batch in [(IMAGES[:5], LABELS[:5]), (IMAGES[5:], LABELS[5:])])
    seen = []
    rows.passed(seen.append)
    assert torch.equal(torch.cat(seen), IMAGES) and len(rows) == ROWS
    with refused("'set' can be read only once, and has to be read again; give a DataLoader for it"):
        list(rows.split(4))


def test_batches_may_be_mappings_or_images_alone():
    for batch, labels in (
        ({"pixel_values": IMAGES, "labels": LABELS}, LABELS.tolist()),
        ({"image": IMAGES.numpy(), "label": LABELS[:, None]}, LABELS.tolist()),
        ([IMAGES, LABELS, "more"], LABELS.tolist()),
        (IMAGES.double(), None),
        ((IMAGES.half(),), None),
    ):
        ((images, found),) = read_once([batch])
        assert images.dtype == torch.float32 and images.shape == IMAGES.shape
        assert (found if found is None else found.tolist()) == labels
    assert LoaderRows([IMAGES]).labels is None


def test_pixels_of_a_loader_are_scaled_for_the_network():
    pixels = torch.randint(0, 256, (4, 3, 6, 6), dtype=torch.uint8)
    rows = LoaderRows([pixels], preprocessing=Preprocessing(size=(9, 9)))
    assert rows.dtype == np.uint8 and rows.shape == np.asarray(rows).shape == (4, 3, 9, 9)


@pytest.mark.parametrize(
    "batches,message",
    [
        ([], "'x' gives no images; give at least one"),
        ([(IMAGES[0], 3)], "'x' gives single images of shape (3, 6, 5); give its loader a batch_size"),
        ([("a.png", 3)], "a batch of 'x' holds the type str for its images; let the loader give tensors"),
        ([{"x": IMAGES}], "an item has the keys x; give it 'image' and 'label'"),
        ([(IMAGES, LABELS.float())], "the labels of 'x' are no whole numbers, the first is 0.0; number the classes"),
        (
            [(IMAGES, nn.functional.one_hot(LABELS))],
            "the labels of 'x' have the shape (23, 4), a number for each class",
        ),
        ([(IMAGES, LABELS[1:])], "'x' has 23 images and 22 labels; give one label for each image"),
        ([(IMAGES, LABELS), IMAGES], "'x' gives labels with some batches and not with others; give all or none"),
        ([IMAGES, (IMAGES, LABELS)], "'x' gives labels with some batches and not with others; give all or none"),
        ([IMAGES, IMAGES[..., :4]], "'x' gives images of 3x6x5 and 3x6x4 (float32 and float32); give all alike"),
        ([IMAGES, (IMAGES * 0).byte()], "'x' gives images of 3x6x5 and 3x6x5 (float32 and uint8); give all alike"),
        ([IMAGES, IMAGES / 0 * 0], "image 23 of 'x' holds numbers that are not finite; fix or remove it"),
        ([IMAGES.permute(0, 2, 3, 1)], "'x' has the shape (23, 6, 5, 3), channels last; give"),
        ([IMAGES.long()], "'x' holds int64; give pixels from 0 to 255 as uint8"),
    ],
)
def test_what_is_wrong_with_batches_is_said_in_a_line(batches, message):
    with refused(message):
        LoaderRows(batches, "x").passed(len)


# As a set


def test_a_loader_is_a_set_whose_labels_and_content_its_pass_brings():
    own = loader()
    found = as_set(own, "my set", ALREADY, channels=3)
    assert (found.name, found.labels, found.source, found.is_preprocessed) == ("my-set", None, "a DataLoader", True)
    check_alike([found, as_set(IMAGES.numpy(), "y", ALREADY)])
    assert own.dataset.read == list(range(5)), "no more than the first batch"
    done = completed(found)
    assert done.labels.tolist() == LABELS.tolist() and done.fingerprint == found.images.digest and len(done) == ROWS
    part = done.part(np.array([2, 9]))
    assert part.labels.tolist() == [2, 1] and torch.equal(torch.from_numpy(np.asarray(part.images)), IMAGES[[2, 9]])
    with refused("'x' has color images (3 channels), and the network takes 1"):
        as_set(loader(), "x", ALREADY, channels=1)


def test_other_sets_are_read_without_a_loader():
    array = as_set(IMAGES.numpy(), "x", ALREADY)
    assert isinstance(array.images, np.ndarray) and completed(array) is array
    assert not is_loader("digits") and not is_loader([IMAGES]) and is_loader(iter([IMAGES])) and is_loader(loader())


def test_a_data_set_of_preprocessed_tensors_is_read_once():
    data = Counted(IMAGES, LABELS)
    data.classes = ["a", "b", "c", "d"]
    found = as_set(data, "x", ALREADY)
    data.read.clear()
    done = completed(found)
    assert data.read == list(range(ROWS)) and done.classes == ("a", "b", "c", "d") and len(done) == ROWS
    pixels = TensorDataset((IMAGES * 0).byte(), LABELS)
    assert not isinstance(as_set(pixels, "x", Preprocessing()).images, LoaderRows)


# What is kept of batches


def test_rows_are_collected_in_their_order_in_few_tensors(monkeypatch):
    monkeypatch.setattr(collected, "BLOCK", 10 * 30 * 4)  # ten rows
    kept = Collected()
    for images in IMAGES.flatten(1)[:, :30].split([1, 4, 18]):
        kept.add(images)
    assert len(kept) == ROWS and [len(block) for block in kept._blocks] == [10, 10, 10]
    assert torch.equal(kept.joined(), IMAGES.flatten(1)[:, :30])
    with pytest.raises(ValueError, match="no rows"):
        Collected().joined()


MEMORY = """
import resource, torch
from torch.utils.data import DataLoader, Dataset
from oodbench.learning.collected import Collected
from oodbench.learning import collected
from oodbench.learning.collected import Collected
from oodbench.learning.loaders import LoaderRows

class Same(Dataset):
    def __init__(self, rows):
        self.rows, self.image = rows, torch.rand(3, 32, 32)
    def __len__(self):
        return self.rows
    def __getitem__(self, row):
        return self.image, row % 10

torch.set_num_threads(1)
for rows in (2_000, 2_000, 8_000):
    kept = Collected()
    LoaderRows(DataLoader(Same(rows), 256)).passed(lambda images: kept.add(images.mean(dim=(1, 2, 3))))
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024)
"""


def test_memory_does_not_grow_with_the_rows():
    """6,000 more images are 74 MB."""
    _, before, after = map(int, python("-c", MEMORY).out.split())
    assert after - before < 16


# As what networks take


def test_outputs_of_a_loader_are_those_of_the_array():
    model = classifier()
    expected, found = forward(model, IMAGES), forward(model, as_rows(LoaderRows(loader())))
    for name in ("features", "logits"):
        torch.testing.assert_close(getattr(found, name), getattr(expected, name))
    assert torch.equal(torch.cat(list(found.inputs())), IMAGES)
    some = found.rows(slice(6, 14))
    assert torch.equal(torch.cat(list(some.inputs())), IMAGES[6:14])
    copied = Outputs(model, found.images, found.features, found.logits).copied()
    assert copied.images is found.images


def test_rows_are_taken_as_they_are_and_arrays_as_tensors():
    rows = LoaderRows(loader())
    assert as_rows(rows) is rows and isinstance(rows, Streamed)
    assert as_rows(np.zeros((2, 1, 4, 4))).dtype == torch.float32
    floats = np.zeros((2, 1, 4, 4), dtype=np.float32)
    assert as_rows(floats).data_ptr() == floats.ctypes.data


def test_pixels_are_divided_by_255_and_fractions_stay():
    pixels = torch.arange(256, dtype=torch.uint8)
    assert torch.equal(to_input(pixels, CPU), pixels.to(torch.float32) / 255)
    assert torch.equal(to_input(IMAGES, CPU), IMAGES)
