"""OOD images that every machine has."""

import numpy as np
import pytest

from oodbench.data.given_set import GivenSet
from oodbench.data.probes import probes, span_of

NAMES = {"uniform-noise", "gaussian-noise", "bundled-photographs", "digits"}


def id_set(*shape):
    images = np.random.default_rng(0).integers(0, 256, (20, *shape), dtype=np.uint8)
    return GivenSet("photos", images, None, (), None, "content", "an array")


@pytest.mark.parametrize("shape", [(1, 8, 8), (3, 33, 20), (5, 16, 16)])
def test_they_are_pixels_of_the_network_s_shape(shape):
    made = probes(shape, 6, id_set=id_set(*shape))
    assert made.keys() == NAMES | {"shuffled-patches"}
    for name, each in made.items():
        images = np.asarray(each.images)
        assert (each.name, each.labels, len(each)) == (name, None, 6)
        assert images.shape == each.images.shape == (6, *shape) and images.dtype == each.images.dtype == np.uint8
        assert len({image.tobytes() for image in images}) > 1 and all(image.std() > 1 for image in images)


def test_any_of_them_can_be_made_without_the_others_and_again():
    shape = (3, 16, 16)
    once, again = probes(shape, 9, id_set=id_set(*shape)), probes(shape, 9, id_set=id_set(*shape))
    other = probes(shape, 9, seed=1, id_set=id_set(*shape))
    for name in once:
        images = np.asarray(once[name].images)
        np.testing.assert_array_equal(np.asarray(again[name].images[[7, 2]]), images[[7, 2]])
        assert once[name].fingerprint == again[name].fingerprint != other[name].fingerprint
        assert not np.array_equal(np.asarray(other[name].images), images)
    assert len({each.fingerprint for each in once.values()}) == 5


def test_noise_is_as_it_is_called():
    made = probes((3, 32, 32), 20)
    uniform, gaussian = (np.asarray(made[name].images) / 255 for name in ("uniform-noise", "gaussian-noise"))
    assert abs(uniform.mean() - 0.5) < 0.01 and abs(uniform.std() - 12**-0.5) < 0.01
    inside = gaussian[(gaussian > 0) & (gaussian < 1)]
    assert abs(gaussian.mean() - 0.5) < 0.01 and abs(np.median(np.abs(gaussian - 0.5)) - 0.6745 * 0.25) < 0.01
    assert 0.94 < inside.size / gaussian.size < 0.97, "what lies beyond two deviations is black or white"


def test_shuffled_images_hold_the_patches_of_an_id_image_in_another_order():
    whole = id_set(3, 9, 8)
    for image in np.asarray(probes((3, 9, 8), 8, id_set=whole)["shuffled-patches"].images):

        def patches(pixels):
            return sorted(pixels[:, i : i + 2, j : j + 2].tobytes() for i in range(0, 8, 2) for j in range(0, 8, 2))

        original = [each for each in whole.images if patches(each) == patches(image)]
        assert len(original) == 1 and not np.array_equal(original[0], image)
        np.testing.assert_array_equal(original[0][:, 8:], image[:, 8:])


def test_for_images_that_are_already_preprocessed_they_span_the_same_numbers():
    images = np.random.default_rng(0).normal(size=(30, 2, 6, 6)).astype(np.float32) * np.float32([1, 5])[:, None, None]
    black, white = span_of(images)
    assert black.shape == (2,) and black[1] == images[:, 1].min() and white[0] == images[:, 0].max()
    made = probes(
        (2, 6, 6), 50, id_set=GivenSet("x", images, None, (), None, "content", "an array"), span=(black, white)
    )
    noise = np.asarray(made["uniform-noise"].images)
    pixels = np.asarray(probes((2, 6, 6), 50)["uniform-noise"].images)
    assert noise.dtype == made["uniform-noise"].images.dtype == np.float32
    expected = black[:, None, None] + (white - black)[:, None, None] * pixels / 255
    np.testing.assert_allclose(noise, expected, atol=1e-5)
    assert set(np.unique(np.asarray(made["shuffled-patches"].images))) <= set(np.unique(images))
    assert all(each.is_preprocessed for each in made.values())
