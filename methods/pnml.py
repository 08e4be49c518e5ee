"""K. Bibas et al., Single Layer Predictive Normalized Maximum Likelihood for Out-of-Distribution Detection,
NeurIPS 2021.

The score:

    s = log(Σ_k p_k / (p_k + (1 − p_k) p_k^g)) / log K, where p = softmax(W u + b) and u = f / ‖f‖
    g = h / (1 + h) and h = uᵀ (XᵀX)⁺ u, where the rows of X are the u of training images
"""

import math
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from oodbench import Outputs, Scorer, functional


@dataclass
class pNML(Scorer):
    """Regret of the head against learners that are told the label, in units of log K."""

    reads: ClassVar[str | None] = "features and head"

    def fit(self, train: Outputs, validation: Outputs | None = None) -> None:
        self.whitening = functional.whitening(train.unit.T @ train.unit)  # A A' = (X'X)^+

    def score(self, out: Outputs) -> Tensor:
        energy = (out.unit @ self.whitening).square().sum(dim=-1, keepdim=True)  # x'(X'X)^+ x
        logs = (out.unit @ out.weight.T + out.bias).log_softmax(dim=-1)
        # p / (p + (1 - p) p^g) is the logistic function of (1 - g) log p - log(1 - p), and 1 - g is 1 / (1 + energy):
        # so p of 0 and of 1 give 0 and 1.
        told = torch.sigmoid(logs / (1 + energy) - torch.log1p(-logs.exp()))
        return told.sum(dim=-1).log() / math.log(logs.shape[-1])
