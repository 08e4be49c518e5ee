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
    short_features,
    squared_distances,
    to_uniform,
    variance_dim,
    whitening,
)
from oodbench.learning.gradients import HeadGradients
from oodbench.learning.label_oracle import SEMANTIC
from oodbench.learning.outputs import unit
from oodbench.learning.prototypes import Prototypes, check_sphere, compactness, dispersion, projected
from oodbench.learning.rows import sent, to_input
from oodbench.learning.wild_detection import detector_loss, linear_ood_head, wild_outputs, with_candidates

__all__ = [
    "SEMANTIC",
    "SLICE",
    "HeadGradients",
    "ClassQueues",
    "Constraint",
    "Limits",
    "Prototypes",
    "check_settings",
    "check_sphere",
    "BatchNormMode",
    "class_means",
    "class_templates",
    "compactness",
    "detector_loss",
    "dirichlet_entropy",
    "dispersion",
    "energy",
    "forward_both",
    "frozen_batch_norm",
    "generalized_entropy",
    "gradient_norm",
    "linear_ood_head",
    "logit_score",
    "origin",
    "penalty_weight",
    "percentile",
    "principal_dim",
    "sent",
    "projected",
    "short_features",
    "squared_distances",
    "to_input",
    "to_uniform",
    "unit",
    "variance_dim",
    "whitening",
    "wild_outputs",
    "with_candidates",
]
