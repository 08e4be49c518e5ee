"""What `oodbench.learning.functional` defines, under the name that method files import."""

from oodbench.learning.functional import (
    BatchNormMode,
    Constraint,
    energy,
    forward_both,
    frozen_batch_norm,
    gradient_norm,
    penalty_weight,
)

__all__ = [
    "BatchNormMode",
    "Constraint",
    "energy",
    "forward_both",
    "frozen_batch_norm",
    "gradient_norm",
    "penalty_weight",
]
