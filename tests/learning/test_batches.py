"""What a training step sees: how an image is augmented, what an epoch is, and with the paper's sizes how long."""

import json
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
import torch
from data_files import write
from stand_ins import data_in

from oodbench.config import suite as suites
from oodbench.config.recipe import Recipe
from oodbench.data import pictures, store
from oodbench.data.parts import build_parts
from oodbench.data.sets.cifar import CIFAR10
from oodbench.data.sets.folders import LSUNC, LSUNR, Places365, Textures
from oodbench.data.sets.svhn import SVHN
from oodbench.learning.batches import Data, Split, WildMixture
from oodbench.learning.loop import Loop

CPU = torch.device("cpu")
RECIPE = Recipe(epochs=1, batch_size=50, lr=0.1)


def images_of(x):
    return (255 * x).round().to(torch.uint8)


def repeated(image, count):
    """The same image again and again, each with a label of its own, beside a mixture of other images."""
    wild = [torch.full((40, *image.shape), 200 + kind, dtype=torch.uint8) for kind in range(3)]
    return Data(Split(image.expand(count, *image.shape), torch.arange(count)), count, WildMixture(*wild, 0.3, 0.3))


def augmented(image, kind, count=900, seed=0):
    batches = list(repeated(image, count).batches(replace(RECIPE, augment=kind), seed, CPU))
    return images_of(torch.cat([batch.x for batch in batches])), batches


PATTERN = torch.arange(1, 3 * 8 * 8 + 1, dtype=torch.uint8).reshape(3, 8, 8)  # no two windows of it are alike


def test_without_augmentation_an_image_is_as_it_was():
    assert (augmented(PATTERN, "none")[0] == PATTERN).all()


def test_crop_flip_gives_every_window_of_the_padded_image_mirrored_or_not_equally_often():
    padded = np.pad(PATTERN.numpy(), ((0, 0), (1, 1), (1, 1)))  # an eighth of the side, black
    windows = {
        (padded[:, top : top + 8, left : left + 8][:, :, ::step]).tobytes(): (top, left, step)
        for top in range(3) for left in range(3) for step in (1, -1)
    }  # fmt: skip
    counts = Counter(windows[image.numpy().tobytes()] for image in augmented(PATTERN, "crop-flip")[0])
    assert len(windows) == len(counts) == 18
    chi_square = sum((count - 50) ** 2 / 50 for count in counts.values())
    assert chi_square < 40.8  # of 17 degrees of freedom: once in a thousand seeds


def test_a_32_pixel_image_is_moved_by_up_to_4_pixels():
    image = torch.zeros(1, 32, 32, dtype=torch.uint8)
    image[0, 16, 16] = 255
    rows = {int(each.nonzero()[0, 1]) for each in augmented(image, "crop-flip")[0]}
    assert rows == set(range(12, 21))


def test_resized_crop_flip_shows_8_to_100_percent_of_the_area_at_an_aspect_of_up_to_4_to_3():
    ramp = 8 * torch.arange(32, dtype=torch.uint8)
    image = torch.stack([ramp.expand(32, 32), ramp.expand(32, 32).T, torch.full((32, 32), 77)])
    shown = augmented(image, "resized-crop-flip")[0].int()
    assert (shown[:, 2] == 77).all()
    across, down = shown[:, 0, 16], shown[:, 1, :, 16]
    mirrored = across[:, -1] < across[:, 0]
    assert mirrored.float().mean().item() == pytest.approx(0.5, abs=0.06)
    assert (torch.where(mirrored[:, None], -across, across).diff() >= 0).all() and (down.diff() >= 0).all()
    # A gray level of the ramp is an eighth of a pixel; 31 of 32 steps lie between the first and the last pixel.
    wide, high = (across[:, -1] - across[:, 0]).abs() / 248, (down[:, -1] - down[:, 0]) / 248
    area, aspect = wide * high, wide / high
    assert 0.07 < area.min() < 0.12 and 0.9 < area.max() <= 1.0
    # Of areas drawn evenly from 0.08 to 1 the mean is 0.54; sides are cut at those of the image.
    assert area.mean().item() == pytest.approx(0.53, abs=0.03)
    whole = (wide < 0.95) & (high < 0.95)
    assert 0.72 < aspect[whole].min() < 0.8 and 1.25 < aspect[whole].max() < 1.4


@pytest.mark.parametrize("kind", ["crop-flip", "resized-crop-flip"])
def test_augmentation_follows_from_the_seed_keeps_labels_and_leaves_wild_images_alone(kind):
    first, batches = augmented(PATTERN, kind, seed=3)
    assert torch.equal(first, augmented(PATTERN, kind, seed=3)[0])
    assert not torch.equal(first, augmented(PATTERN, kind, seed=4)[0])
    assert sorted(torch.cat([batch.y for batch in batches]).tolist()) == list(range(900))
    wild = images_of(torch.cat([batch.wild for batch in batches]))
    assert (wild == wild[:, :1, :1, :1]).all() and set(wild.unique().tolist()) == {200, 201, 202}


@pytest.mark.parametrize(("plain", "augmented_epochs"), [(0.0, 4), (0.3, 3), (0.5, 2), (1.0, 0)])
def test_the_last_epochs_are_plain_if_the_recipe_says_so(plain, augmented_epochs, new_model):
    loop = Loop(replace(RECIPE, epochs=4, augment="crop-flip", unaugmented=plain), 0, CPU)
    images, untouched = [], []
    step = lambda batch: images.append(images_of(batch.x)) or torch.zeros(())  # noqa: E731
    for _ in loop.passes(new_model(), repeated(PATTERN, 100), step, []):
        untouched.append(bool((torch.cat(images) == PATTERN).all()))
        images.clear()
    assert untouched == [False] * augmented_epochs + [True] * (4 - augmented_epochs)


def of_lengths(labelled, *wild):
    """Data without pixels."""
    images = [torch.empty(n, 0) for n in (labelled, *wild)]
    return Data(Split(images[0], torch.zeros(labelled)), 10, WildMixture(*images[1:], 0.5, 0.1) if wild else None)


@pytest.mark.parametrize(
    ("data", "steps", "expected"),
    [
        (of_lengths(101), "labelled", 11),  # the last batch is not dropped
        (of_lengths(101), "shortest", 11),  # there is nothing else
        (of_lengths(101, 59, 200, 200), "labelled", 11),
        (of_lengths(101, 59, 200, 200), "shortest", 5),  # whole batches of the others
        (of_lengths(101, 200, 40, 200), "shortest", 4),
        (of_lengths(101, 200, 200, 39), "shortest", 3),
        (of_lengths(101, 500, 500, 500), "shortest", 11),
        (of_lengths(101, 500, 500, 9), "shortest", 1),  # never none
    ],
)
def test_an_epoch_is_a_pass_over_the_labelled_images_or_ends_with_the_shortest_stream(data, steps, expected):
    assert data.steps(Recipe(epochs=1, batch_size=10, lr=0.1, epoch_length=steps)) == expected


def test_an_epoch_has_as_many_batches_as_it_says_and_the_short_one_repeats_no_image():
    images = torch.arange(100, dtype=torch.uint8).view(-1, 1, 1, 1)
    data = Data(Split(images, torch.arange(100)), 100, WildMixture(images, images, images[:35], 0.3, 0.3))
    for steps, count, seen in (("labelled", 10, 100), ("shortest", 3, 30)):
        recipe = Recipe(epochs=1, batch_size=10, lr=0.1, epoch_length=steps)
        batches = list(data.batches(recipe, 0, CPU))
        assert len(batches) == data.steps(recipe) == count
        assert [len(batch) for batch in batches] == [10] * count
        assert len(set(torch.cat([batch.y for batch in batches]).tolist())) == seen


def test_steps_beyond_a_pass_begin_the_next_one_and_fewer_end_it_early():
    images = torch.arange(25, dtype=torch.uint8).view(-1, 1, 1, 1)
    data, recipe = Data(Split(images, torch.arange(25)), 25), Recipe(epochs=1, batch_size=10, lr=0.1)
    whole = [batch.y.tolist() for batch in data.batches(recipe, 0, CPU)]
    longer = [batch.y.tolist() for batch in data.batches(recipe, 0, CPU, steps=7)]
    assert longer[:3] == whole and len(longer) == 7
    for one_pass in (longer[:3], longer[3:6]):
        assert sorted(sum(one_pass, [])) == list(range(25))
    assert [len(batch) for batch in data.batches(recipe, 0, CPU, steps=2)] == [10, 10]


# The paper's sizes: sets with as many rows as the real ones, images of a pixel, and files that nobody opens.

OFFICIAL = {  # what facts are known of each setting: semantic train and test, semantic stream, steps of 128
    "svhn": (73257, 26032, 51280, 117),
    "lsun-c": (7000, 3000, 4900, 38),
    "lsun-r": (7000, 3000, 4900, 38),
    "textures": (3947, 1693, 2763, 21),
    "places365": (25550, 10950, 17885, 117),
}


@pytest.fixture(scope="module")
def official_sizes(tmp_path_factory):
    with data_in(tmp_path_factory.mktemp("sizes")) as home, pytest.MonkeyPatch.context() as patch:
        patch.setattr(pictures, "CACHED_AT_MOST", 0)
        for data in (CIFAR10, SVHN):
            train, rows = data.rows[0], sum(data.rows)
            pixels = np.zeros((rows, 3, 1, 1), dtype=np.uint8)
            store.save(data.name, store.Decoded(pixels, np.arange(rows) % 10, np.arange(rows) >= train), "a test")
        for data in (LSUNC, LSUNR, Textures, Places365):
            rows = data.rows[0]
            index = {
                "root": "files",
                "names": [f"{i}.jpg" for i in range(rows)],
                "labels": [0] * rows,
                "classes": ["x"],
            }
            index |= {"in_test": [False] * rows, "lengths": [1] * rows, "kind": "JPEG 32x32", "of_kind": rows}
            index |= {"fingerprint": data.name, "stamp": ""}
            meta = {"fingerprint": data.name, "source": "a test", "rows": rows, "format": store.FORMAT}
            contents = {"index.json": index, "meta.json": meta}
            write(home / data.name, {name: json.dumps(each).encode() for name, each in contents.items()})
        yield


def parts_of(suite, semantic):
    """Under a corruption that takes images of any size."""
    suite = replace(suite, contents=replace(suite.contents, corruptions="digits_c"))
    return build_parts(suite, suite.setting(f"{semantic},covariate=contrast"), seed=0)


@pytest.mark.parametrize("semantic", OFFICIAL)
def test_the_sizes_are_those_of_the_papers_code(official_sizes, semantic):
    suite = suites.load("cifar10-c", "released")
    sizes = {name: len(part) for name, part in parts_of(suite, semantic).items().items()}
    train, test, stream, steps = OFFICIAL[semantic]
    assert (sizes["labelled"], sizes["mixed_id"], sizes["id_validation"], sizes["wild_id"]) == (
        25000,
        7500,
        2500,
        15000,
    )
    assert (sizes["mixed_covariate"], sizes["wild_covariate"]) == (15000, 30000)
    assert (sizes["id"], sizes["covariate"], sizes["semantic"]) == (10000, 10000, test)
    assert sizes["mixed_semantic"] + sizes["wild_semantic"] == train and abs(sizes["wild_semantic"] - stream) <= 1
    data = of_lengths(sizes["labelled"], sizes["wild_id"], sizes["wild_covariate"], sizes["wild_semantic"])
    finetune = suite.contents.recipes.finetune
    assert (finetune.batch_size, data.steps(finetune)) == (128, steps)
    assert data.steps(replace(finetune, epoch_length="labelled")) == 196


def test_a_set_without_a_test_part_is_divided_by_truncation(official_sizes):
    """0.7 * 5640 is 3947.9999... in floating point, and the paper's code cuts it off."""
    parts = parts_of(suites.load("cifar10-c"), "textures")
    train = np.concatenate([parts.mixed_semantic.rows, parts.wild_semantic.rows])
    assert (len(train), len(parts.semantic)) == (3947, 1693)
    assert sorted([*train, *parts.semantic.rows]) == list(range(5640))
