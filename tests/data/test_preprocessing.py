"""What a network wants of an image: stated in texts, told in words, and done to the pixel as torchvision does it."""

import io
import re
from dataclasses import replace

import numpy as np
import pytest
from data_files import write
from PIL import Image

from oodbench.data.pictures import Pictures
from oodbench.data.preprocessing import ALREADY, Preprocessing, fitted, resized, scaled, stated
from oodbench.errors import UserError
from oodbench.torchvision_import import import_with_torchvision

TIMM = Preprocessing((0.485, 0.456, 0.406), (0.229, 0.224, 0.225), (224, 224), 256, "bicubic", "timm")
SIZES = [(57, 40), (40, 57), (33, 33), (20, 31), (100, 32), (32, 101), (37, 45)]


def noise(*shape, seed=0):
    return np.random.default_rng(seed).integers(0, 256, shape, dtype=np.uint8)


def files(kind="PNG"):
    contents = {}
    for i, (wide, high) in enumerate(SIZES):
        file = io.BytesIO()
        Image.fromarray(noise(high, wide, 3, seed=i)).save(file, kind)
        contents[f"{i}.{kind.lower()}"] = file.getvalue()
    return contents


def oracle(resize, size, interpolation):
    """torchvision's transforms of PIL images."""
    transforms = import_with_torchvision("torchvision.transforms")
    mode = transforms.InterpolationMode(interpolation)
    steps = [] if resize is None else [transforms.Resize(resize, mode)]
    return transforms.Compose([*steps, *([] if size is None else [transforms.CenterCrop(size)])])


def pixels(image):
    return np.asarray(image).transpose(2, 0, 1)


@pytest.mark.parametrize("interpolation", ["nearest", "bilinear", "bicubic", "lanczos"])
@pytest.mark.parametrize(
    "resize,size", [(36, (32, 32)), (32, (32, 32)), ((40, 30), (25, 28)), (20, (31, 17)), (16, (40, 41))]
)
def test_pixels_are_those_of_torchvision_s_resize_and_center_crop(tmp_path, resize, size, interpolation):
    write(tmp_path, files())
    wanted = Preprocessing(size=size, resize=resize, interpolation=interpolation)
    read = Pictures.prepared(tmp_path, list(files()), wanted)
    assert read.shape == (len(SIZES), 3, *size)
    transform = oracle(resize, size, interpolation)
    expected = [pixels(transform(Image.open(tmp_path / name))) for name in files()]
    np.testing.assert_array_equal(read.read(), expected)


def test_large_jpegs_are_decoded_whole_and_so_to_the_pixel_too(tmp_path):
    file = io.BytesIO()
    Image.fromarray(noise(6, 8, 3)).resize((900, 700), Image.Resampling.BICUBIC).save(file, "JPEG")
    write(tmp_path, {"large.jpg": file.getvalue()})
    read = Pictures.prepared(tmp_path, ["large.jpg"], Preprocessing(size=(32, 32), resize=36)).read()
    with Image.open(tmp_path / "large.jpg") as picture:
        np.testing.assert_array_equal(read[0], pixels(oracle(36, (32, 32), "bilinear")(picture)))


def test_without_a_resize_both_sides_go_to_the_size(tmp_path):
    write(tmp_path, files())
    read = Pictures.prepared(tmp_path, list(files()), Preprocessing(size=(24, 31), interpolation="bicubic")).read()
    transform = oracle((24, 31), None, "bicubic")
    np.testing.assert_array_equal(read, [pixels(transform(Image.open(tmp_path / name))) for name in files()])


def test_a_crop_beyond_the_image_shows_black():
    picture = Image.fromarray(np.full((4, 2), 9, dtype=np.uint8))
    shown = np.asarray(Preprocessing(size=(4, 5), resize=(4, 2)).apply(picture))
    assert shown.tolist() == [[0, 9, 9, 0, 0]] * 4


def test_a_resize_without_a_crop_leaves_the_long_side_as_long_as_it_is():
    wanted = Preprocessing(resize=20)
    assert wanted.sides((40, 57)) == (20, 28) and wanted.sides((57, 40)) == (28, 20)
    assert wanted.apply(Image.new("RGB", (57, 40))).size == (28, 20)
    assert Preprocessing().sides((40, 57)) == (40, 57)


@pytest.mark.parametrize("channels", [1, 3, 5])
def test_arrays_are_scaled_when_they_are_read_and_nothing_is_cut_off(channels):
    images = noise(6, channels, 8, 8)
    scaled_up = resized(images, replace(TIMM, size=(12, 12), resize=14))
    assert scaled_up.shape == (6, channels, 12, 12) and scaled_up.dtype == np.uint8
    plane = Image.fromarray(images[4, channels - 1]).resize((12, 12), Image.Resampling.BICUBIC)
    np.testing.assert_array_equal(scaled_up[[4, 1]].read()[0, channels - 1], plane)
    np.testing.assert_array_equal(np.asarray(scaled_up[2:]), np.asarray(scaled_up)[2:])


def test_planes_scaled_one_by_one_are_the_color_image_scaled():
    images = noise(3, 3, 9, 7)
    whole = [Image.fromarray(image.transpose(1, 2, 0)).resize((20, 15), Image.Resampling.LANCZOS) for image in images]
    np.testing.assert_array_equal(scaled(images, (15, 20), "lanczos"), [pixels(each) for each in whole])


def test_what_has_the_size_already_is_the_same_object():
    images = noise(6, 3, 8, 8)
    assert resized(images, Preprocessing(size=(8, 8), resize=10)) is images
    assert resized(images, Preprocessing()) is images and fitted(images, Preprocessing()) is images


def test_pictures_of_a_suite_are_scaled_after_they_are_decoded(tmp_path):
    write(tmp_path, files())
    squares = Pictures(tmp_path, list(files()), 16, "centre", np.arange(len(SIZES)))
    larger = resized(squares, Preprocessing(size=(24, 20)))
    assert larger[:2].shape == larger[:2].read().shape == (2, 3, 24, 20)
    np.testing.assert_array_equal(larger.read(), scaled(squares.read(), (24, 20), "bilinear"))
    assert resized(squares, Preprocessing(size=(16, 16))) is squares


def test_an_array_of_other_proportions_is_resized_and_cropped_as_files_are():
    images = noise(2, 3, 20, 30)
    wanted = Preprocessing(size=(8, 8), resize=10)
    expected = [pixels(wanted.apply(Image.fromarray(image.transpose(1, 2, 0)))) for image in images]
    np.testing.assert_array_equal(np.asarray(fitted(images, wanted)), expected)


# In texts


def test_what_the_user_states_takes_the_place_of_what_the_network_says():
    assert stated(None, None, None, TIMM) is TIMM and stated(None, None, None, None) == Preprocessing()
    assert stated("0.5", "0.25,0.25, 0.25", None, TIMM) == replace(
        TIMM, mean=(0.5,), std=(0.25, 0.25, 0.25), stated_by="timm and the user"
    )
    assert stated("0", "1", "8", TIMM).stated_by == stated("0", None, None).stated_by == "the user"


def test_a_size_keeps_the_share_of_the_crop():
    assert stated(None, None, "112", TIMM) == replace(TIMM, size=(112, 112), resize=128, stated_by="timm and the user")
    assert stated(None, None, "112x56", replace(TIMM, resize=(256, 256))).resize == (128, 64)
    assert stated(None, None, "112", replace(TIMM, resize=None)).resize is None
    alone = stated(None, None, "224x160")
    assert (alone.size, alone.resize) == ((224, 160), 224), "the short side is as long as the longer one of the crop"


@pytest.mark.parametrize(
    "mean,std,size,message",
    [
        ("grey", None, None, "--mean is 'grey'; give a number, or one for each channel as in 0.5,0.5,0.5"),
        ("0.5,,0.5", None, None, "--mean is '0.5,,0.5'; give a number"),
        ("123.675,116.28,103.53", None, None, "--mean holds 123.675, and it is of pixels in [0, 1]; divide it by 255"),
        ("nan", None, None, "--mean holds nan, and it is of pixels in [0, 1]; give numbers from 0 to 1"),
        (None, "0.2,-1,0.2", None, "--std holds -1, and it is of pixels in [0, 1]; give numbers from 0 to 1"),
        (None, "0.2,0,0.2", None, "--std holds 0, which nothing can be divided by; give numbers above 0"),
        ("0.5,0.5", "0.5,0.5,0.5", None, "the mean has 2 numbers and the std 3; give both as many as"),
        (None, None, "large", "--size is 'large'; give a number of pixels as in 224, or height and width, 224x160"),
        (None, None, "0", "--size is '0'; give"),
        (None, None, "8x8x8", "--size is '8x8x8'; give"),
        (None, None, "-5", "--size is '-5'; give"),
        (None, None, "²", "--size is '²'; give"),
        (None, None, "9" * 400, "--size is '999"),
    ],
)  # fmt: skip
def test_wrong_numbers_are_refused_in_words(mean, std, size, message):
    with pytest.raises(UserError, match=re.escape(message)) as refused:
        stated(mean, std, size)
    assert "\n" not in str(refused.value) and len(str(refused.value)) < 300


def test_one_number_stands_for_all_channels_and_another_number_of_them_is_refused():
    assert Preprocessing((0.5,), (0.1, 0.2, 0.3)).for_channels(3) == ((0.5,) * 3, (0.1, 0.2, 0.3))
    with pytest.raises(
        UserError, match=re.escape("the mean has 3 numbers, and the images have 1 channel; give --mean 1 number")
    ):
        TIMM.for_channels(1)
    with pytest.raises(
        UserError, match=re.escape("the std has 3 numbers, and the images have 4 channels; give --std 1 or 4")
    ):
        replace(TIMM, mean=(0.0,)).for_channels(4)


def test_it_is_told_in_words():
    assert TIMM.in_words() == (
        "short side to 256, central 224x224, bicubic, mean .485 .456 .406, std .229 .224 .225 (timm)"
    )
    assert Preprocessing().in_words() == "images as large as they are, mean 0, std 1 (nobody)"
    assert stated("0.5", None, "32x24").in_words() == (
        "short side to 32, central 32x24, bilinear, mean .5, std 1 (the user)"
    )
    assert Preprocessing(size=(9, 8)).in_words() == "resized to 9x8, bilinear, mean 0, std 1 (nobody)"
    assert ALREADY.in_words() == "images are already preprocessed"
