"""The labels that a user gives: whole numbers from 0, one for each image; anything else is refused in words."""

from typing import Any

import numpy as np

from oodbench.errors import UserError, shown


def as_array(values: Any) -> np.ndarray:
    """An array, a tensor of any device or a list as an array."""
    return np.asarray(values.detach().cpu() if hasattr(values, "detach") else values)


def checked(labels: Any, count: int, name: str) -> np.ndarray:
    """int64, one for each of so many images of the set of that name; a column of them is taken for a row."""
    values = as_array(labels)
    if values.ndim == 2 and values.shape[1] == 1:
        values = values[:, 0]
    if values.ndim == 2:
        raise UserError(
            f"the labels of '{name}' have the shape {values.shape}, a number for each class; "
            "give the number of the class, labels.argmax(axis=1)"
        )
    if values.ndim != 1:
        raise UserError(f"the labels of '{name}' have {values.ndim} dimensions; give one number for each image")
    if len(values) != count:
        raise UserError(f"'{name}' has {count:,} images and {len(values):,} labels; give one label for each image")
    if not np.issubdtype(values.dtype, np.integer):
        first = shown(values[:1].tolist()[0])
        raise UserError(f"the labels of '{name}' are no whole numbers, the first is {first}; number the classes from 0")
    if values.min() < 0:
        raise UserError(f"the labels of '{name}' hold {values.min()}; number the classes from 0")
    return values.astype(np.int64)
