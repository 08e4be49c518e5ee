"""Tiny stand-ins for every data set, of the right kind and with pixels of their own: enough to build any suite."""

import io
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from data_files import write
from PIL import Image

from oodbench.config.cards import catalogue
from oodbench.data import lookup, store
from oodbench.data.pictures import PictureSet
from oodbench.data.sets.folders import WNIDS
from oodbench.data.stored import Fetched, Stored

TRAIN, TEST = 240, 60  # images of the sets that are stored as arrays


@contextmanager
def data_in(home):
    """`home` as the data folder, and nothing remembered of another."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OODBENCH_DATA", str(home))
        lookup.dataset.cache_clear()
        yield home
        lookup.dataset.cache_clear()


def noise(random, *shape):
    """No two images are alike, whatever is done to them."""
    return random.integers(0, 256, shape, dtype=np.uint8)


def picture(random, side=12, kind="PNG"):
    file = io.BytesIO()
    Image.fromarray(noise(random, side, side, 3)).save(file, kind)
    return file.getvalue()


def arrays(data, random, train=TRAIN, test=TEST):
    """Every class in every part, as far as there is room."""
    classes = np.arange(train + test) % data.num_classes
    return store.Decoded(noise(random, train + test, *data.shape), classes, np.arange(train + test) >= train)


def files(data, random):
    """In the set's own layout, with every domain and both parts where it has them."""
    if data.domains:
        names = [f"{domain}/{kind}/{i}.png" for domain in data.domains for kind in "abcdefg" for i in range(6)]
    elif data.has_test_part:
        kinds = WNIDS.split() if data.name == "imagenet100" else "ab"
        names = [f"{part}/{kind}/{i}.png" for kind in kinds for part, n in (("train", 3), ("val", 1)) for i in range(n)]
    else:
        names = [f"{i}.png" for i in range(60)]
    return {name: picture(random) for name in names}


@contextmanager
def stand_ins(folder: Path):
    """A data folder with a stand-in for every set that is not embedded."""
    with data_in(folder / "data") as home, pytest.MonkeyPatch.context() as patch:
        for number, name in enumerate(catalogue("datasets")):
            data, random = lookup.dataset(name), np.random.default_rng(number)
            if isinstance(data, Stored):
                store.save(name, arrays(data, random), "a test")
            elif isinstance(data, PictureSet):
                data.add(write(folder / name, files(data, random)))
        for name in catalogue("datasets"):
            data = lookup.dataset(name)
            if not isinstance(data, Fetched) and data.domains:  # made of another set, and kept
                keep(data, np.random.default_rng(len(name)), patch)
        yield home


def keep(data, random, patch, rows=300):
    count = len(data.domains)
    patch.setattr(type(data), "domain_of", np.arange(rows) % count)
    store.cached_array(f"{data.name}-images", data.fingerprint, lambda: noise(random, rows, len(data.mean), 14, 14))
    store.cached_array(
        f"{data.name}-labels", data.fingerprint, lambda: np.arange(rows) // count % len(data.class_names or "ab")
    )
