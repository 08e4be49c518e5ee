"""A set as the suite's network takes it: as large as the ID images and with as many channels, encoded, embedded or
corrupted as the suite says. What takes long is computed once and cached.
"""

from dataclasses import replace
from typing import Any

import numpy as np

from oodbench.config import identity
from oodbench.config.suite import Setting, Source, Suite
from oodbench.data import corruptions, embedding, store
from oodbench.data.dataset import Dataset, Rows
from oodbench.data.decoder import code as decoder_code
from oodbench.data.folder import Folder
from oodbench.data.image_part import ImagePart
from oodbench.data.jpeg import encoded
from oodbench.data.lookup import dataset, official_files
from oodbench.data.pictures import Pictures, PictureSet
from oodbench.data.resizing import resized
from oodbench.data.sets.corrupted import Official
from oodbench.data.stored import Stored
from oodbench.data.weights import WEIGHTS
from oodbench.errors import UserError


def part_of(suite: Suite, source: Source, test: bool | None) -> ImagePart:
    """Train (False), test (True) or all rows (None) of a set, as large and with as many channels as the ID images."""
    id_source, data = suite.contents.id, dataset(source.dataset)
    size = id_source.size if source.dataset == id_source.dataset else side(suite)
    chosen: Rows = data.part(test, source.classes, source.domains)
    origin = data.name
    if id_source.embed is not None and isinstance(data, PictureSet):
        whole: Any = data.pictures(size or data.size)  # not cached, since they are read once
    else:
        whole = _at_size(data, size) if source is suite.contents.outliers else data.arrays(size)[0]
    labels = chosen.labels
    if source in suite.contents.covariate.values():
        labels = _as_id_labels(suite, source, labels)
    if source.dataset == id_source.dataset and id_source.jpeg is not None:
        whole, origin = _encoded(suite), f"{origin} jpeg-{id_source.jpeg}"
    if id_source.embed is not None:
        whole, origin = _embedded(suite, source, whole), f"{origin} {id_source.embed}"
    else:
        whole = _with_channels(suite, whole)
    content = data.fingerprint if isinstance(data, Folder) else ""
    return ImagePart(whole, chosen.rows, labels, chosen.rows, origin, chosen.domains, content)


def _at_size(data: Dataset, size: int | None) -> Any:
    """All images of auxiliary outliers, enlarged or reduced where their files fix another size than the suite's.

    Test sets are never resized like this: a detector would learn to see the interpolation.
    """
    if isinstance(data, PictureSet):
        return data.arrays(size)[0]
    images = data.arrays(None)[0]
    if size is None or size == images.shape[-1]:
        return images
    version = f"{data.fingerprint}-{decoder_code()}"
    return store.cached_array(f"{data.name}-resized-{size}", version, lambda: resized(images, size))


def _as_id_labels(suite: Suite, source: Source, labels: np.ndarray) -> np.ndarray:
    """Labels of a covariate set, matched by the names of the classes where both sets have names."""
    ours, theirs = dataset(suite.contents.id.dataset).class_names, dataset(source.dataset).class_names
    if not ours or not theirs or ours == theirs:
        return labels
    strange = [name for name in theirs if name not in ours]
    if strange:
        raise UserError(
            f"'{dataset(source.dataset).name}' has the class '{strange[0]}', which is none of the ID data; "
            f"name its folders {', '.join(ours)}"
        )
    return np.array([ours.index(name) for name in theirs])[labels]


def side(suite: Suite) -> int:
    """How wide and high the ID images are, in pixels."""
    id_source = suite.contents.id
    return id_source.size if id_source.size is not None else int(dataset(id_source.dataset).arrays(None)[0].shape[-1])


def _encoded(suite: Suite) -> np.ndarray:
    """The whole ID data set as JPEG files would give it back."""
    id_source = suite.contents.id
    origin = dataset(id_source.dataset)
    images = origin.arrays(id_source.size)[0]
    quality = id_source.jpeg
    assert quality is not None
    if isinstance(images, Pictures):
        raise UserError(f"'{origin.name}' is too large to be encoded in memory; leave out id.jpeg={quality}")
    version = f"{origin.fingerprint}-{id_source.size}-{decoder_code()}"
    return store.cached_array(f"{origin.name}-jpeg-{quality}", version, lambda: encoded(images, quality))


def _embedded(suite: Suite, source: Source, images: Any) -> np.ndarray:
    """A whole set as the features that the suite's embedding gives of its images, computed once."""
    embed = suite.contents.id.embed
    assert embed is not None
    colored = _with_channels(suite, images)

    def make() -> np.ndarray:
        return embedding.embedded(colored, embedding.network(WEIGHTS[embed].path()))

    return store.cached_array(*_embedding(suite, source), make)


def _embedding(suite: Suite, source: Source) -> tuple[str, str]:
    """The name and version that the features of a set are cached under."""
    id_source, data = suite.contents.id, dataset(source.dataset)
    assert id_source.embed is not None
    key = data.key if isinstance(data, PictureSet) else data.name
    jpeg = f"-jpeg-{id_source.jpeg}" if source.dataset == id_source.dataset and id_source.jpeg is not None else ""
    weights, code = WEIGHTS[id_source.embed].digest, identity.of_harness("embedding")
    version = f"{data.fingerprint}-{decoder_code()}-{weights}-{code}"
    return f"{key}-{side(suite)}{jpeg}-{id_source.embed}", version


def is_embedded(suite: Suite) -> bool:
    """Whether the features of the ID data set are there."""
    return store.cached_file(*_embedding(suite, suite.contents.id)).exists()


def _with_channels(suite: Suite, images: Any) -> Any:
    """Color as gray (ITU-R 601 luma) or gray as color, where the ID images are so; embeddings are of colors."""
    id_source = suite.contents.id
    return in_channels(images, 3 if id_source.embed is not None else len(dataset(id_source.dataset).mean))


def in_channels(images: Any, wanted: int) -> Any:
    """Images of so many channels; the same object where they have them."""
    if images.shape[1] == wanted:
        return images
    if {wanted, images.shape[1]} != {1, 3}:
        raise UserError(
            f"images of {images.shape[1]} channels cannot become like the ID images of {wanted}; choose another set"
        )
    convert = _grey if wanted == 1 else _colored
    if isinstance(images, np.ndarray):
        return convert(images)
    return images.then(lambda pixels, rows: convert(pixels), channels=wanted)


def _grey(images: np.ndarray) -> np.ndarray:
    weights = np.array([299, 587, 114], dtype=np.uint32).reshape(1, 3, 1, 1)
    grey = np.empty((len(images), 1, *images.shape[2:]), dtype=np.uint8)
    for start in range(0, len(images), 4096):  # whole sets would take sixteen times their size for a moment
        some = slice(start, start + 4096)
        grey[some] = (images[some] * weights).sum(axis=1, keepdims=True) // 1000
    return grey


def _colored(images: np.ndarray) -> np.ndarray:
    return np.repeat(images, 3, axis=1)


def published(suite: Suite, setting: Setting, rows: np.ndarray) -> tuple[Official, np.ndarray] | None:
    """Files that hold copies of all these rows of the ID data set, and where in them."""
    files = official_files(suite, setting)
    if files is None or not np.isin(rows, files.rows).all():
        return None
    return files, np.searchsorted(files.rows, rows)


def corrupted(suite: Suite, setting: Setting, part: ImagePart) -> ImagePart:
    """A part under the setting's corruption: from the published files if they cover it, otherwise made here."""
    id_source = suite.contents.id
    family, kind, severity = suite.contents.corruptions, setting.covariate, setting.severity
    assert family is not None
    copies = published(suite, setting, part.rows)
    if copies is not None:
        files, where = copies
        origin = f"{part.origin} {files.name}.{kind}-{severity}"
        return replace(part, whole=files.images, chosen=where, origin=origin)
    corrupt = corruptions.kinds(family)[kind]
    data = dataset(id_source.dataset)
    origin = f"{part.origin} {family}.{kind}-{severity}"
    if isinstance(part.whole, Pictures):
        return replace(part, whole=part.whole.then(lambda pixels, rows: corrupt(pixels, severity, rows)), origin=origin)
    if isinstance(data, Stored | PictureSet):
        jpeg = id_source.jpeg
        clean = _encoded(suite) if jpeg is not None else data.arrays(id_source.size)[0]
        key = f"{data.name}-{family}-{kind}-{severity}" + ("" if jpeg is None else f"-jpeg-{jpeg}")
        is_decoded = isinstance(data, PictureSet) or jpeg is not None
        decoded = f"-{id_source.size}-{decoder_code()}" if is_decoded else ""
        version = f"{data.fingerprint}{decoded}-{identity.of_family(family)}"
        whole = store.cached_array(key, version, lambda: corrupt(clean, severity, np.arange(len(clean))))
        return replace(part, whole=whole, chosen=part.rows, origin=origin)
    images = corrupt(part.images, severity, part.rows)
    return replace(part, whole=images, chosen=np.arange(len(part)), origin=origin)
