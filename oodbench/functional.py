"""What `learning.functional`, `learning.constraints` and the like define, under the name that method files import."""

from oodbench.learning.bank import SLICE
from oodbench.learning.class_queues import ClassQueues
from oodbench.learning.constraints import Constraint, Limits, check_settings
from oodbench.learning.functional import (
    BatchNormMode,
    class_means,
    class_templates,
    dirichlet_entropy,
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
    squared_distances,
    variance_dim,
    whitening,
)
from oodbench.learning.outputs import unit

__all__ = [
    "SLICE",
    "ClassQueues",
    "Constraint",
    "Limits",
    "check_settings",
    "BatchNormMode",
    "class_means",
    "class_templates",
    "dirichlet_entropy",
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
    "squared_distances",
    "unit",
    "variance_dim",
    "whitening",
]
