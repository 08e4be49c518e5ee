"""What `learning.functional` and `learning.constraints` define, under the name that method files import."""

from oodbench.learning.constraints import Constraint, Limits, check_settings
from oodbench.learning.functional import (
    BatchNormMode,
    energy,
    forward_both,
    frozen_batch_norm,
    gradient_norm,
    penalty_weight,
)

__all__ = [
    "Constraint",
    "Limits",
    "check_settings",
    "BatchNormMode",
    "energy",
    "forward_both",
    "frozen_batch_norm",
    "gradient_norm",
    "penalty_weight",
]
