"""What `learning.functional` and `learning.constraints` define, under the name that method files import."""

from oodbench.learning.constraints import Constraint, Limits, check_settings
from oodbench.learning.functional import (
    BatchNormMode,
    class_means,
    energy,
    forward_both,
    frozen_batch_norm,
    generalized_entropy,
    gradient_norm,
    logit_score,
    origin,
    penalty_weight,
    percentile,
    principal_dim,
    whitening,
)
from oodbench.learning.outputs import unit

__all__ = [
    "Constraint",
    "Limits",
    "check_settings",
    "BatchNormMode",
    "class_means",
    "energy",
    "forward_both",
    "frozen_batch_norm",
    "generalized_entropy",
    "gradient_norm",
    "logit_score",
    "origin",
    "penalty_weight",
    "percentile",
    "principal_dim",
    "unit",
    "whitening",
]
