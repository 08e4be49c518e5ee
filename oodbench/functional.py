"""What `learning.functional` and `learning.constraints` define, under the name that method files import."""

from oodbench.learning.constraints import Checked, Constraint, Limits, check_settings, times_median
from oodbench.learning.functional import (
    BatchNormMode,
    energy,
    forward_both,
    frozen_batch_norm,
    gradient_norm,
    penalty_weight,
)

__all__ = [
    "Checked",
    "Constraint",
    "Limits",
    "check_settings",
    "times_median",
    "BatchNormMode",
    "energy",
    "forward_both",
    "frozen_batch_norm",
    "gradient_norm",
    "penalty_weight",
]
