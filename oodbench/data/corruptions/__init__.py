"""Covariate shift: one module per family, each a dictionary KINDS of name -> function(images, severity, rows)."""

from collections.abc import Callable, Mapping
from importlib import import_module

import numpy as np

Corruption = Callable[[np.ndarray, int, np.ndarray], np.ndarray]


def kinds(family: str) -> Mapping[str, Corruption]:
    """The corruptions of a family by name."""
    loaded: Mapping[str, Corruption] = import_module(f"{__name__}.{family}").KINDS
    return loaded
