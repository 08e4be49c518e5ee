"""DomainBed's augmentation of color images, against torchvision's operations for one image and given factors."""

from dataclasses import replace
from itertools import permutations

import pytest
import torch

from oodbench.config.recipe import Recipe
from oodbench.errors import UserError
from oodbench.learning import augmentation
from oodbench.learning.batches import Data, Split
from oodbench.torchvision_import import import_with_torchvision

CPU = torch.device("cpu")
RECIPE = Recipe(epochs=1, batch_size=50, lr=0.1, augment="domainbed")
ORDERS = list(permutations(range(4)))

tv = import_with_torchvision("torchvision.transforms.functional")
transforms = import_with_torchvision("torchvision.transforms")
THEIRS = (tv.adjust_brightness, tv.adjust_contrast, tv.adjust_saturation, tv.adjust_hue)


def pictures(n, side=9, seed=0):
    """Noise; and among it pixels that are black, white, gray or of one pure color, where hue has its corners."""
    images = torch.randint(256, (n, 3, side, side), dtype=torch.uint8, generator=torch.Generator().manual_seed(seed))
    corners = torch.tensor([[0, 0, 0], [255, 255, 255], [90, 90, 90], [255, 0, 0], [0, 255, 0], [0, 0, 255]])
    images[:, :, 0, :6] = corners.T.to(torch.uint8)
    return images


def by_torchvision(image, amounts, order, grey):
    pixels = image.float() / 255
    for number in order:
        pixels = THEIRS[number](pixels, amounts[number] + (0 if number == 3 else 1))
    return tv.rgb_to_grayscale(pixels, 3) if grey else pixels


@pytest.mark.parametrize("grey", [False, True])
def test_every_order_of_the_changes_gives_what_torchvision_gives(grey):
    images = pictures(len(ORDERS))
    amounts = 0.3 * (2 * torch.rand(len(ORDERS), 4, generator=torch.Generator().manual_seed(1)) - 1)
    ours = augmentation._changed(images, amounts, torch.tensor(ORDERS), torch.full((len(ORDERS),), grey))
    for i, order in enumerate(ORDERS):
        theirs = 255 * by_torchvision(images[i], amounts[i].tolist(), order, grey)
        assert (ours[i] - theirs).abs().max() <= 0.55, order  # rounded once; red weighs 0.2989 there
    assert ours.dtype == torch.uint8


def test_only_the_images_marked_so_become_grey():
    images, none = pictures(3), torch.zeros(3, 4)
    changed = augmentation._changed(images, none, torch.arange(4).expand(3, 4), torch.tensor([False, True, False]))
    assert torch.equal(changed[[0, 2]], images[[0, 2]])
    assert (changed[1] == changed[1, :1]).all() and not torch.equal(changed[1], images[1])


def augmented(image, count=2000, seed=0):
    split = Split(image.expand(count, *image.shape), torch.arange(count))
    batches = list(Data(split, count).batches(replace(RECIPE, batch_size=500), seed, CPU))
    return (255 * torch.cat([batch.x for batch in batches])).round().to(torch.uint8)


def test_one_image_in_ten_is_grey_and_factors_reach_30_percent_and_no_further():
    shown = augmented(torch.tensor([180, 120, 60], dtype=torch.uint8).view(3, 1, 1).expand(3, 8, 8)).float()
    assert (shown == shown[:, :, :1, :1]).all()  # a plain image stays plain, whatever is cut out of it
    shown = shown[:, :, 0, 0]
    grey = (shown == shown[:, :1]).all(dim=1)
    assert grey.float().mean().item() == pytest.approx(0.1, abs=0.02)
    brightness = shown[~grey].amax(dim=1) / 180
    # Least: as (60, 120, 180), of gray 109, contrast and saturation bring 180 to 109 + 0.7 * 0.7 * 71 = 144, and
    # brightness that to 0.7 * 144 = 101. Most: beyond white.
    assert 0.55 < brightness.min() < 0.65 and brightness.max() == 255 / 180
    assert shown[~grey].argmax(dim=1).bincount(minlength=3).min() > 100  # the hue goes round by up to 0.3 either way


def test_crops_are_as_large_and_as_long_as_torchvisions():
    side, count = 96, 800
    ramp = torch.arange(side, dtype=torch.uint8) * 2 + 60
    image = torch.stack([ramp.expand(side, side), ramp.expand(side, side).T, torch.full((side, side), 120)])
    images = image.to(torch.uint8).expand(count, 3, side, side)
    shown = augmentation._resized_crops(images, 0.7, 10, torch.Generator().manual_seed(0)).float()
    step = 2 * (side - 1)
    wide, high = (shown[:, 0, 9, -1] - shown[:, 0, 9, 0]) / step, (shown[:, 1, -1, 9] - shown[:, 1, 0, 9]) / step
    torch.manual_seed(0)
    crop = transforms.RandomResizedCrop(side, scale=(0.7, 1.0))
    drawn = torch.tensor([crop.get_params(image, crop.scale, crop.ratio) for _ in range(count)])
    for ours, theirs in ((wide * high, drawn[:, 2] * drawn[:, 3] / side**2), (wide / high, drawn[:, 3] / drawn[:, 2])):
        for share in (0.02, 0.25, 0.5, 0.75, 0.98):
            assert ours.quantile(share).item() == pytest.approx(theirs.quantile(share).item(), abs=0.05)
    assert (shown[:, 2] == 120).all()


def test_images_without_three_channels_are_refused():
    with pytest.raises(UserError, match=r"these images have 1 channel\(s\); choose none"):
        augmented(torch.zeros(1, 8, 8, dtype=torch.uint8), count=5)


def test_augmentation_follows_from_the_seed():
    image = pictures(1)[0]
    assert torch.equal(augmented(image, 60, seed=3), augmented(image, 60, seed=3))
    assert not torch.equal(augmented(image, 60, seed=3), augmented(image, 60, seed=4))
