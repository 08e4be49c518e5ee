"""The former name of `parts`, `views` and `lookup`, until nothing imports it."""

from oodbench.data.image_part import ImagePart as Part
from oodbench.data.lookup import dataset, fingerprints, num_classes, sources
from oodbench.data.lookup import normalization as normalisation
from oodbench.data.parts import Parts, mixed_validation
from oodbench.data.parts import build_parts as build
from oodbench.data.views import is_embedded, published, side

__all__ = [
    "Part",
    "Parts",
    "build",
    "dataset",
    "fingerprints",
    "is_embedded",
    "mixed_validation",
    "normalisation",
    "num_classes",
    "published",
    "side",
    "sources",
]
