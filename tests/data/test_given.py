"""The sets of images that a user brings: folders, names, arrays, lists, data sets; and how they are divided."""

import io
import re
from dataclasses import replace

import numpy as np
import pytest
import torch
from data_files import write
from PIL import Image
from stand_ins import data_in, picture

from oodbench.data.division import as_classes, divided
from oodbench.data.given import as_set, read_set
from oodbench.data.given_set import GivenSet, check_alike, distinct, name_of
from oodbench.data.preprocessing import Preprocessing, scaled
from oodbench.errors import UserError

PIXELS = Preprocessing()
SMALL = Preprocessing(size=(6, 6), resize=7)


@pytest.fixture(autouse=True)
def home(tmp_path):
    with data_in(tmp_path / "data") as home:
        yield home


def noise(*shape, seed=0):
    return np.random.default_rng(seed).integers(0, 256, shape, dtype=np.uint8)


def folder(place, *names, side=8):
    random = np.random.default_rng(len(str(names)))
    return write(place, {name: picture(random, side) for name in names})


def refused(message):
    return pytest.raises(UserError, match=re.escape(message))


# Folders and names


def test_a_folder_is_not_decoded_before_it_is_read_and_then_as_the_network_wants_it(tmp_path):
    place = folder(tmp_path / "my photos", "cat/a.png", "cat/b.png", "dog/c.png")
    found = read_set(f"folder:{place}", SMALL)
    assert (found.name, found.classes, found.source) == ("my-photos", ("cat", "dog"), "a folder of images")
    assert found.labels.tolist() == [0, 0, 1] and found.in_test is None and len(found) == 3
    assert found.counts() == {"cat": 2, "dog": 1}
    expected = SMALL.apply(Image.open(place / "dog" / "c.png"))
    np.testing.assert_array_equal(np.asarray(found.images[2:])[0], np.asarray(expected).transpose(2, 0, 1))
    (place / "dog" / "c.png").unlink()
    assert found.images[:2].read().shape == (2, 3, 6, 6)


def test_a_folder_counts_by_its_content(tmp_path):
    here, there = (folder(tmp_path / above / "x", "a/1.png", "b/2.png") for above in ("here", "there"))
    other = folder(tmp_path / "other" / "x", "a/1.png", "b/3.png")
    marks = [read_set(f"folder:{place}", SMALL).fingerprint for place in (here, there, other)]
    assert marks[0] == marks[1] != marks[2]


def test_a_part_of_it_knows_its_rows_labels_and_content(tmp_path):
    found = read_set(f"folder:{folder(tmp_path / 'x', 'a/1.png', 'b/2.png', 'b/3.png')}", SMALL)
    part = found.part(np.array([2, 0]))
    assert part.labels.tolist() == [1, 0] and part.origin == f"x {found.fingerprint}" and len(found.part()) == 3
    np.testing.assert_array_equal(np.asarray(part.images), np.asarray(found.images)[[2, 0]])
    assert replace(found, labels=None).part().labels.tolist() == [-1, -1, -1]


def test_train_and_test_folders_are_known(tmp_path):
    place = folder(tmp_path / "x", "train/a/1.png", "train/b/1.png", "test/a/1.png")
    assert read_set(f"folder:{place}", SMALL).in_test.tolist() == [False, False, True]


def test_images_of_one_size_need_no_size_and_others_do(tmp_path):
    same = read_set(f"folder:{folder(tmp_path / 'same', 'a/1.png', 'b/2.png')}", PIXELS)
    assert same.images.shape == (2, 3, 8, 8)
    place = folder(tmp_path / "photos", "a/1.png", "a/2.png")
    file = io.BytesIO()
    Image.new("RGB", (12, 9)).save(file, "PNG")
    write(place, {"b/3.png": file.getvalue()})
    with refused("the images of 'photos' have different sizes, the first two 8x8 and 12x9; say with --size what the"):
        read_set(f"folder:{place}", PIXELS)
    assert read_set(f"folder:{place}", SMALL).images.shape == (3, 3, 6, 6)
    assert read_set(f"folder:{place}", Preprocessing(resize=(5, 4))).images.read().shape == (3, 3, 5, 4)


def test_a_data_set_by_name_is_scaled_and_colored_for_the_network():
    found = read_set("digits", Preprocessing(size=(12, 12), resize=14), channels=3)
    plain = read_set("digits", PIXELS)
    assert found.images.shape == (1797, 3, 12, 12) and plain.images.shape == (1797, 1, 8, 8)
    assert found.name == "digits" and found.in_test.sum() == 540 and found.fingerprint == plain.fingerprint
    expected = scaled(plain.images[5:7], (12, 12), "bilinear")
    np.testing.assert_array_equal(np.asarray(found.images[5:7]), np.repeat(expected, 3, axis=1))


def test_files_become_grey_for_a_grey_network(tmp_path):
    place = folder(tmp_path / "x", "a/1.png", "b/2.png")
    grey = read_set(f"folder:{place}", SMALL, channels=1)
    color = read_set(f"folder:{place}", SMALL).images.read().astype(int)
    expected = (299 * color[:, 0] + 587 * color[:, 1] + 114 * color[:, 2]) // 1000
    np.testing.assert_array_equal(np.asarray(grey.images)[:, 0], expected)


def test_what_is_no_set_is_refused_in_words(tmp_path):
    (tmp_path / "empty").mkdir()
    with refused("holds no images: looked for .jpg"):
        read_set(f"folder:{tmp_path / 'empty'}", SMALL)
    with refused(f"there is no file or folder '{tmp_path / 'nowhere'}'; give"):
        read_set(f"folder:{tmp_path / 'nowhere'}", SMALL)
    with refused("unknown data set 'digitz'; did you mean 'digits'?"):
        read_set("digitz", SMALL)
    with refused("unknown data set or folder 'digitz'; did you mean 'digits'?"):
        as_set("digitz", "", SMALL)
    with refused(f"'{tmp_path}' is a folder and not the name of a data set; write folder:{tmp_path}"):
        read_set(str(tmp_path), SMALL)


def test_names_are_those_of_folders_and_no_two_are_the_same():
    for text, name in (
        ("folder:/data/My Photos (2)/", "My-Photos-2"),
        ("a/résumé.v2", "resume.v2"),
        ("..hidden", "hidden"),
        ("写真", "set"),
        ("x" * 200, "x" * 60),
    ):
        assert name_of(text) == name
    sets = [GivenSet(name, None, None, (), None, "", "") for name in ("a", "b", "A", "a", "a-2")]
    assert [each.name for each in distinct(sets)] == ["a", "b", "A-2", "a-3", "a-2-2"]


# What a program has in memory


def test_the_same_images_are_the_same_set_however_they_are_given():
    images, labels = noise(5, 3, 8, 8), [0, 1, 1, 2, 0]
    pictures = [Image.fromarray(image.transpose(1, 2, 0)) for image in images]
    given = {
        "an array": (images, labels),
        "tensors": (torch.from_numpy(images), torch.tensor(labels)),
        "a list of pairs": list(zip(images, labels, strict=True)),
        "a tuple of arrays with the channels last": ([image.transpose(1, 2, 0) for image in images], labels),
        "PIL images": list(zip(pictures, labels, strict=True)),
        "a data set": torch.utils.data.TensorDataset(torch.from_numpy(images), torch.tensor(labels)),
        "mappings": [{"image": image, "label": label} for image, label in zip(pictures, labels, strict=True)],
    }
    marks = set()
    for kind, each in given.items():
        found = as_set(each, "mine", PIXELS)
        np.testing.assert_array_equal(np.asarray(found.images), images, err_msg=kind)
        assert found.labels.tolist() == labels and found.labels.dtype == np.int64 and found.name == "mine"
        marks.add(found.fingerprint)
    assert len(marks) == 1
    other = as_set((images, [0, 1, 1, 2, 1]), "mine", PIXELS), as_set((images[::-1], labels), "mine", PIXELS)
    assert len(marks | {each.fingerprint for each in other}) == 3


def test_images_alone_have_no_labels():
    for given in (
        noise(2, 3, 8, 8),
        torch.from_numpy(noise(2, 3, 8, 8)),
        [*noise(2, 3, 8, 8)],
        (noise(2, 3, 8, 8), None),
    ):
        found = as_set(given, "x", PIXELS)
        assert found.labels is None and len(found) == 2 and found.counts() == {}


def test_grey_arrays_get_a_channel():
    assert as_set(noise(4, 8, 7), "x", PIXELS).images.shape == (4, 1, 8, 7)
    assert as_set([*noise(4, 8, 7)], "x", PIXELS).images.shape == (4, 1, 8, 7)
    assert as_set([Image.fromarray(noise(8, 7))], "x", PIXELS).images.shape == (1, 1, 8, 7)


def test_pixels_are_prepared_and_fractions_stay():
    pixels, fractions = noise(2, 3, 12, 12), noise(2, 3, 12, 12).astype(np.float64)
    assert as_set(pixels, "x", SMALL).images.shape == (2, 3, 6, 6)
    for given in (fractions, torch.from_numpy(fractions).half(), [*fractions]):
        found = as_set(given, "x", SMALL)
        assert found.images.dtype == np.float32 and found.is_preprocessed
        np.testing.assert_array_equal(np.asarray(found.images), fractions)
    square = Image.fromarray(pixels[0].transpose(1, 2, 0))
    listed = as_set([square], "x", SMALL)
    np.testing.assert_array_equal(np.asarray(listed.images)[0], np.asarray(SMALL.apply(square)).transpose(2, 0, 1))


def test_paths_of_files_are_read_when_they_are_needed(tmp_path):
    place = folder(tmp_path / "x", "1.png", "2.png", "3.png")
    paths = sorted(place.glob("*.png"))
    found = as_set(list(zip(map(str, paths), [1, 0, 1], strict=True)), "x", SMALL)
    assert found.labels.tolist() == [1, 0, 1] and found.images.shape == (3, 3, 6, 6)
    bare = as_set(paths, "x", SMALL)
    np.testing.assert_array_equal(np.asarray(bare.images), np.asarray(found.images))
    whole = as_set(place, "", SMALL)
    assert whole.name == "x" and as_set(str(place), "y", SMALL).name == "y" and as_set(whole, "z", SMALL) is whole
    with refused("nowhere.png' is not an image that can be read (No such file or directory); fix or remove it"):
        as_set([tmp_path / "nowhere.png"], "x", SMALL)


class Augmented:
    """Other images each time, with names of classes."""

    classes = ["ant", "bee"]

    def __init__(self):
        self.lot = np.random.default_rng(0)

    def __len__(self):
        return 3

    def __getitem__(self, row):
        return self.lot.integers(0, 256, (3, 8, 8), dtype=np.uint8), row % 2


def test_a_data_set_tells_its_classes_and_is_noticed_if_it_augments():
    found = as_set(Augmented(), "mine", PIXELS)
    assert found.classes == ("ant", "bee") and found.labels.tolist() == [0, 1, 0]
    with refused("the set 'mine' gives other images each time; leave out its random augmentation"):
        np.asarray(found.images)


@pytest.mark.parametrize(
    "given,message",
    [
        (noise(4, 8, 8, 3), "'x' has the shape (4, 8, 8, 3), channels last; give images.transpose(0, 3, 1, 2)"),
        (noise(4, 64), "'x' has the shape (4, 64); give images as N x channels x height x width"),
        (noise(0, 3, 8, 8), "'x' has the shape (0, 3, 8, 8), so there are no images; give at least one"),
        ([], "'x' has no images; give at least one"),
        (noise(2, 3, 8, 8).astype(int), "'x' holds int64; give pixels from 0 to 255 as uint8, or what"),
        (np.full((2, 3, 8, 8), np.nan), "image 0 of 'x' holds numbers that are not finite; fix or remove it"),
        ([np.zeros((3, 8, 8)), np.full((3, 8, 8), np.inf)], "image 1 of 'x' holds numbers that are not finite"),
        ([noise(3, 8, 8), noise(3, 9, 7)], "the images of 'x' have different sizes, the first two 8x8 and 7x9; say"),
        ([noise(3, 8, 8), noise(1, 8, 8)], "the images of 'x' have 3 and 1 channels; give one kind"),
        ([noise(3, 8, 8), np.zeros((3, 8, 8))], "'x' holds both pixels (uint8) and fractions; give all images in"),
        ([noise(64)], "image 0 of 'x' has the shape (64,); give channels x height x width"),
        ([object()], "image 0 of 'x' is of type object; give arrays, tensors, PIL images or paths of files"),
        ([Image.new("F", (8, 8))], "image 0 of 'x' has the mode F; convert it to L or RGB"),
        ([{"picture": 1}], "an item has the keys picture; give it 'image' and 'label'"),
        ([()], "an item is empty; give pairs of an image and its label"),
        (5, "'x' is of type int, and no images can be read from that; give an array, a list, a data set with __len__"),
        ((noise(3, 3, 8, 8), [0, 1]), "'x' has 3 images and 2 labels; give one label for each image"),
        ((noise(2, 3, 8, 8), [0, -1]), "the labels of 'x' hold -1; number the classes from 0"),
        ((noise(2, 3, 8, 8), [0.0, 0.5]), "the labels of 'x' are no whole numbers, the first is 0.0; number"),
        ((noise(2, 3, 8, 8), np.eye(2)), "the labels of 'x' have the shape (2, 2), a number for each class; "
         "give the number of the class, labels.argmax(axis=1)"),
        ([(noise(3, 8, 8), "cat")], "the labels of 'x' are no whole numbers, the first is 'cat'; number the classes"),
        ([(noise(3, 8, 8), 1), noise(3, 8, 8)], "1 of 2 images of 'x' have no label; give all or none"),
        ([(noise(3, 8, 8), np.eye(2)), (noise(3, 8, 8), 1)], "the labels of 'x' have different shapes; number the"),
    ],
)  # fmt: skip
def test_what_is_wrong_with_them_is_said_in_a_line(given, message):
    with refused(message) as error:
        as_set(given, "x", PIXELS)
    assert "\n" not in str(error.value)


def test_a_column_of_labels_is_taken_for_a_row():
    assert as_set((noise(2, 3, 8, 8), np.array([[1], [0]])), "x", PIXELS).labels.tolist() == [1, 0]


def test_what_a_program_has_in_memory_must_have_the_channels_of_the_network():
    assert as_set(noise(2, 3, 8, 8), "x", PIXELS, channels=3).images.shape[1] == 3
    with refused(
        "'x' has gray images (1 channel), and the network takes 3; repeat their channel, numpy.repeat(images, 3"
    ):
        as_set(noise(2, 8, 8), "x", PIXELS, channels=3)
    with refused("'x' has color images (3 channels), and the network takes 1; make them gray"):
        as_set(noise(2, 3, 8, 8), "x", PIXELS, channels=1)
    with refused("'x' has images of 5 channels, and the network takes 3; give images as it takes them"):
        as_set(noise(2, 5, 8, 8), "x", PIXELS, channels=3)


def test_sets_of_both_kinds_or_of_different_sizes_do_not_fit_together():
    pixels, fractions = as_set(noise(2, 3, 8, 8), "p", PIXELS), as_set(np.zeros((2, 3, 8, 8)), "f", PIXELS)
    check_alike([pixels, pixels])
    for pair in ([pixels, fractions], [fractions, pixels]):
        with refused(
            "'f' holds fractions, which count as already preprocessed, and 'p' pixels (uint8); give all images"
        ):
            check_alike(pair)
    with refused("the images of 'p' are 3x8x8 (channels, height, width) and those of 'q' 3x9x9; give all as"):
        check_alike([pixels, as_set(noise(2, 3, 9, 9), "q", PIXELS)])


# Training, validation and test


def labelled(labels, name="photos", classes=(), in_test=None):
    images = noise(len(labels), 1, 4, 4, seed=len(labels) + len(name))
    found = as_set((images, labels), name, PIXELS)
    return replace(found, classes=classes, in_test=None if in_test is None else np.array(in_test))


def test_without_training_images_seventy_percent_of_every_class_are_taken():
    given = labelled(np.repeat([0, 1, 2, 3], [100, 10, 2, 2]))
    parts = divided(given)
    rows = [part.rows for part in (parts.train, parts.validation, parts.test)]
    assert sorted(np.concatenate(rows).tolist()) == list(range(114)) and all((np.diff(each) > 0).all() for each in rows)
    assert np.bincount(parts.test.labels, minlength=4).tolist() == [30, 3, 1, 1]
    assert np.bincount(parts.validation.labels, minlength=4).tolist() == [7, 1, 0, 0]
    assert np.bincount(parts.train.labels).tolist() == [63, 6, 1, 1]
    assert parts.said == (
        "no training images given, so 70 % of 'photos', drawn at random, take their place "
        "(71 to fit on, 8 held out for validation, 35 to test)"
    )
    assert parts.by_lot
    assert [part.rows.tolist() for part in (divided(given).test, divided(given, seed=1).test)].count(
        rows[2].tolist()
    ) == 1


def test_the_train_part_inside_the_id_set_is_taken():
    parts = divided(labelled([0, 0, 1, 1, 0, 1], in_test=[False] * 4 + [True] * 2))
    assert parts.test.rows.tolist() == [4, 5] and len(parts.train) == len(parts.validation) == 2
    assert parts.said.startswith("training images are the train part of 'photos' (2 to fit on, 2 held out")
    assert not parts.by_lot


def test_training_images_of_their_own_leave_all_id_images_to_test_with_labels_in_their_order():
    test = labelled([0, 1, 1], "test", ("cat", "dog"))
    train = labelled([0, 0, 1, 1, 2, 2], "train", ("dog", "ant", "cat"))
    parts = divided(test, train)
    assert parts.test.labels.tolist() == [2, 0, 0] and parts.classes == ("dog", "ant", "cat")
    assert set(parts.train.origin.split()) == {"train", train.fingerprint} and len(parts.train) == 3
    assert parts.said.startswith("training images are those of 'train' (3 to fit on, 3 held out for validation, 3 to")
    assert not parts.by_lot
    of_its_own = divided(labelled([0, 1, 0], "test", (), [True, False, True]), labelled([0, 0, 1, 1], "train"))
    assert of_its_own.test.rows.tolist() == [0, 2]


def test_validation_takes_no_more_than_five_thousand():
    parts = divided(labelled([0, 1]), labelled(np.arange(60_000) % 2, "train"))
    assert len(parts.validation) == 5_000 and len(parts.train) == 55_000


def test_what_cannot_be_divided_is_refused_in_words():
    with refused("'photos' has no labels; give a folder per class, or (images, labels)"):
        divided(replace(labelled([0, 1]), labels=None))
    with refused("'photos' has training images of one class alone ('photos'); give a folder per class"):
        divided(labelled([0, 0, 0], classes=("photos",)))
    with refused("the class 1 of 'photos' has one image, which cannot be both for fitting and for testing; give"):
        divided(labelled([0, 0, 1, 2, 2]))
    with refused("the class 'dog' of 'photos' has one image, which cannot be both"):
        divided(labelled([0, 0, 1], classes=("cat", "dog")))
    with refused("'photos' leaves no image to test with"):
        divided(labelled([0, 1, 0, 1], in_test=[False] * 4))
    with refused("'test' has the class 'cat', which 'train' has no images of; name its folders ant, dog"):
        divided(labelled([0, 1], "test", ("cat", "dog")), labelled([0, 1, 1], "train", ("ant", "dog")))
    with refused("'test' has the label 2, which 'train' has no images of; give training images of all classes"):
        divided(labelled([0, 2], "test"), labelled([0, 1, 1], "train"))
    same = labelled([0, 1, 1])
    with refused("the training images 'photos' are the ID images 'photos'; give others, or leave them out"):
        divided(same, same)


def test_covariate_labels_follow_the_names_of_the_classes():
    snow = labelled([0, 1, 1], "snow", ("dog", "ant"))
    assert as_classes(snow, ("ant", "cat", "dog")).labels.tolist() == [2, 0, 0]
    assert as_classes(snow, ("ant", "cat", "dog")).classes == ("ant", "cat", "dog")
    assert (
        as_classes(snow, ()).labels.tolist()
        == as_classes(replace(snow, classes=()), ("a", "b")).labels.tolist()
        == [0, 1, 1]
    )
    with refused("'snow' has the class 'dog', which is none of the ID classes; name its folders ant, cat"):
        as_classes(snow, ("ant", "cat"))
    with refused("'snow' has the label 1, and there are 1 ID classes; number them from 0"):
        as_classes(replace(snow, classes=()), ("ant",))
    with refused("'snow' has no labels, and is said to show the ID classes; give (images, labels)"):
        as_classes(replace(snow, labels=None), ("ant",))
