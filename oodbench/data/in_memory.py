"""What a Python program has in memory as a set of images: arrays, tensors, lists, map-style data sets.

uint8 images are pixels and are prepared as a network wants them; fractions are already preprocessed and stay.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from oodbench.data import labels as label_values
from oodbench.data import row_digests
from oodbench.data.decoder import decode_whole, examine, in_threads
from oodbench.data.given_set import GivenSet
from oodbench.data.labels import as_array
from oodbench.data.on_demand import OnDemand
from oodbench.data.one_size import differing, prepared
from oodbench.data.preprocessing import Preprocessing, fitted
from oodbench.errors import UserError

IMAGE_KEYS = ("image", "pixel_values", "images", "img")  # in an item or a batch that is a mapping
LABEL_KEYS = ("label", "labels", "target", "targets")
CHANNELS = (1, 3, 4)  # where a dimension is so short, it is hardly one of pixels
OTHER_IMAGES = "the set '{}' gives other images each time; leave out its random augmentation"


def from_memory(given: Any, name: str, preprocessing: Preprocessing) -> GivenSet:
    """A set of an array, a tensor, a list or a map-style data set, with or without labels."""
    images, labels = _halves(given)
    if _is_array(images):
        return _from_array(as_array_of_images(images, name), labels, name, preprocessing)
    if hasattr(images, "__len__") and hasattr(images, "__getitem__") and not isinstance(images, Mapping):
        return _from_items(images, labels, name, preprocessing)
    raise UserError(
        f"'{name}' is of type {type(given).__name__}, and no images can be read from that; give an array, a list, "
        "a data set with __len__ and __getitem__, a DataLoader, or a folder"
    )


def _is_array(value: Any) -> bool:
    """Of NumPy or of torch, which is not imported for the question."""
    return isinstance(value, np.ndarray) or hasattr(value, "detach")


def _halves(given: Any) -> tuple[Any, Any]:
    """A pair of images and labels, or images alone."""
    if isinstance(given, tuple | list) and len(given) == 2:
        images, labels = given
        several = images.ndim > 2 if _is_array(images) else isinstance(images, list | tuple)
        if several and (labels is None or _are_labels(labels)):
            return images, labels
    return given, None


def _are_labels(values: Any) -> bool:
    if _is_array(values):
        return bool(values.ndim in (1, 2))
    return isinstance(values, list | tuple) and bool(values) and isinstance(values[0], int | float | np.number)


def as_array_of_images(values: Any, name: str) -> np.ndarray:
    """N x C x H x W, uint8 or float32; UserError that says what to do with any other shape or type."""
    if hasattr(values, "detach"):
        values = values.detach().cpu()
        values = values.float().numpy() if values.is_floating_point() else values.numpy()
    shape = tuple(values.shape)
    if values.ndim == 3:
        values = values[:, None]
    if values.ndim != 4:
        raise UserError(f"'{name}' has the shape {shape}; give images as N x channels x height x width")
    if 0 in shape:
        raise UserError(f"'{name}' has the shape {shape}, so there are no images; give at least one")
    if shape[-1] in CHANNELS and values.shape[1] not in CHANNELS:
        raise UserError(f"'{name}' has the shape {shape}, channels last; give images.transpose(0, 3, 1, 2)")
    return _of_a_type(values, name)


def _of_a_type(values: np.ndarray, name: str) -> np.ndarray:
    """uint8 or float32."""
    if values.dtype == np.uint8:
        return values
    if not np.issubdtype(values.dtype, np.floating):
        raise UserError(
            f"'{name}' holds {values.dtype}; give pixels from 0 to 255 as uint8, or what the network takes as float32"
        )
    return values.astype(np.float32, copy=False)


def _from_array(images: np.ndarray, labels: Any, name: str, preprocessing: Preprocessing) -> GivenSet:
    values = None if labels is None else label_values.checked(labels, len(images), name)
    if images.dtype != np.uint8:
        for row, image in enumerate(images):
            check_finite(image, row, name)
    marks = row_digests.of_rows(images)
    mark = row_digests.of_set(marks, images.shape[1:], images.dtype, values)
    whole = fitted(images, preprocessing) if images.dtype == np.uint8 else images
    return GivenSet(name, whole, values, (), None, mark, "an array", marks)


def check_finite(image: np.ndarray, row: int, name: str) -> None:
    total = image.sum(dtype=np.float64)  # which is finite where all are, and takes a fraction of the time
    if not np.isfinite(total) and not np.isfinite(image).all():
        raise UserError(f"image {row} of '{name}' holds numbers that are not finite; fix or remove it")


def item_halves(item: Any) -> tuple[Any, Any]:
    """Image and label of one item, or of a batch; None where there is no label."""
    if isinstance(item, Mapping):
        image = next((item[key] for key in IMAGE_KEYS if key in item), None)
        if image is None:
            raise UserError(f"an item has the keys {', '.join(map(str, item))[:200]}; give it 'image' and 'label'")
        return image, next((item[key] for key in LABEL_KEYS if key in item), None)
    if isinstance(item, tuple | list):
        if not item:
            raise UserError("an item is empty; give pairs of an image and its label")
        return item[0], item[1] if len(item) > 1 else None
    return item, None


def _from_items(items: Any, labels: Any, name: str, preprocessing: Preprocessing) -> GivenSet:
    if len(items) == 0:
        raise UserError(f"'{name}' has no images; give at least one")
    if isinstance(items, list | tuple):
        pairs = [item_halves(item) for item in items]
        if labels is None and any(label is not None for _, label in pairs):
            labels = [label for _, label in pairs]
        items = [image for image, _ in pairs]
        if all(isinstance(image, str | Path) for image in items):
            return _from_files([Path(image) for image in items], labels, name, preprocessing)
    return _from_reading(items, labels, name, preprocessing)


def _from_files(paths: Sequence[Path], labels: Any, name: str, preprocessing: Preprocessing) -> GivenSet:
    values = None if labels is None else _listed(labels, len(paths), name)
    files = [str(path.expanduser().absolute()) for path in paths]
    examined = list(in_threads(lambda file: examine(Path(file)), files))
    mark = row_digests.of_set([each.digest for each in examined], (), np.uint8, values)
    images, pixels = prepared(Path(), files, preprocessing, name), [each.pixels for each in examined]
    return GivenSet(name, images, values, (), None, mark, "image files", pixels)


def _from_reading(items: Any, labels: Any, name: str, preprocessing: Preprocessing) -> GivenSet:
    """Every item is read once for its label and its fingerprint, and again for the network: none is kept."""

    def read(row: int) -> tuple[np.ndarray, Any]:
        image, label = item_halves(items[row])
        return one_image(image, row, name, preprocessing), label

    first = read(0)[0]
    marks, own = [], []
    for row in range(len(items)):
        image, label = read(row)
        if image.dtype != first.dtype:
            raise UserError(f"'{name}' holds both pixels (uint8) and fractions; give all images in one of the two ways")
        if image.shape[0] != first.shape[0]:
            raise UserError(
                f"the images of '{name}' have {first.shape[0]} and {image.shape[0]} channels; give one kind"
            )
        if image.shape != first.shape:
            raise differing(name, first.shape[1:], image.shape[1:])
        marks.append(row_digests.of_row(image))
        own.append(label)
    if labels is None and any(label is not None for label in own):
        labels = own
    values = None if labels is None else _listed(labels, len(items), name)
    mark = row_digests.of_set(marks, first.shape, first.dtype, values)
    make = _again(lambda row: read(row)[0], marks, name)
    images = OnDemand(make, first.shape, np.arange(len(items)), first.dtype)
    source = "a list" if isinstance(items, list | tuple) else f"a {type(items).__name__}"
    return GivenSet(name, images, values, names_of_classes(items, values), None, mark, source, marks)


def names_of_classes(data: Any, labels: np.ndarray | None) -> tuple[str, ...]:
    """Those that a data set says under `classes`, as torchvision's do, if they are enough for its labels."""
    names = getattr(data, "classes", None)
    if labels is None or not isinstance(names, list | tuple) or not all(isinstance(name, str) for name in names):
        return ()
    return tuple(names) if len(names) > labels.max() else ()


def _again(read: Callable[[int], np.ndarray], marks: Sequence[bytes], name: str) -> Callable[[np.ndarray], np.ndarray]:
    """Reads rows once more, if they are still what they were."""

    def make(rows: np.ndarray) -> np.ndarray:
        images = []
        for row in rows.tolist():
            image = read(row)
            if row_digests.of_row(image) != marks[row]:
                raise UserError(OTHER_IMAGES.format(name))
            images.append(image)
        return np.stack(images)

    return make


def _listed(labels: Iterable[Any], count: int, name: str) -> np.ndarray:
    """Labels that came one by one, as numbers, arrays or tensors."""
    if _is_array(labels):
        return label_values.checked(labels, count, name)
    values = list(labels)
    missing = sum(label is None for label in values)
    if missing:
        raise UserError(f"{missing:,} of {len(values):,} images of '{name}' have no label; give all or none")
    try:
        return label_values.checked(np.stack([as_array(label) for label in values]), count, name)
    except ValueError:
        raise UserError(f"the labels of '{name}' have different shapes; number the classes from 0") from None


def one_image(image: Any, row: int, name: str, preprocessing: Preprocessing) -> np.ndarray:
    """C x H x W, as the network wants it."""
    if isinstance(image, str | Path):
        return decode_whole(Path(image).expanduser(), preprocessing.apply)
    if isinstance(image, Image.Image):
        if image.mode[0] in "IF":
            raise UserError(f"image {row} of '{name}' has the mode {image.mode}; convert it to L or RGB")
        grey = image.mode in ("1", "L", "LA")
        pixels = np.asarray(preprocessing.apply(image.convert("L" if grey else "RGB")))
        return pixels[None] if grey else pixels.transpose(2, 0, 1)
    if not _is_array(image):
        kind = type(image).__name__
        raise UserError(
            f"image {row} of '{name}' is of type {kind}; give arrays, tensors, PIL images or paths of files"
        )
    values = np.asarray(image.detach().cpu().numpy() if hasattr(image, "detach") else image)
    if values.ndim == 2:
        values = values[None]
    if values.ndim != 3 or 0 in values.shape:
        raise UserError(f"image {row} of '{name}' has the shape {values.shape}; give channels x height x width")
    if values.shape[-1] in CHANNELS and values.shape[0] not in CHANNELS:
        values = values.transpose(2, 0, 1)
    values = _of_a_type(values, name)
    if values.dtype != np.uint8:
        check_finite(values, row, name)
        return values
    return np.asarray(fitted(values[None], preprocessing))[0]
