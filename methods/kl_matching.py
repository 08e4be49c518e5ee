"""D. Hendrycks et al., Scaling Out-of-Distribution Detection for Real-World Settings, ICML 2022.

In OpenOOD's code a class that no validation image is predicted to be has the typical probabilities of a one-hot
vector. Every softmax is infinitely far from that, so it is never the nearest and is left out here.

The score:

    s = min_k Σ_j p_j log(p_j / q_kj), where q_k is the mean of p over validation images that are predicted as k
"""

import math
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from oodbench import Outputs, Scorer


@dataclass
class KLMatching(Scorer):
    """KL divergence of the probabilities from those typical of the nearest predicted class."""

    display: ClassVar[str | None] = "KL-Matching"
    reads: ClassVar[str | None] = "logits"
    needs: ClassVar[frozenset[str]] = frozenset({"validation"})

    def fit(self, train: Outputs, validation: Outputs | None = None) -> None:
        rows = train if validation is None else validation
        logs = rows.logits.double().log_softmax(dim=-1)
        each = [logs[rows.predicted == k] for k in rows.predicted.unique()]
        self.typical = torch.stack([some.logsumexp(dim=0) - math.log(len(some)) for some in each])  # log q_k

    def score(self, out: Outputs) -> Tensor:
        """min_k sum_j p_j (log p_j - log q_kj), where all logarithms are finite, so that 0 log 0 = 0."""
        logs = out.logits.double().log_softmax(dim=-1)
        p = logs.exp()
        return (p * logs).sum(dim=-1) - (p @ self.typical.T).amax(dim=-1)
