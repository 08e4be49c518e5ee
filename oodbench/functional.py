"""Mathematics that two or more methods share."""

import torch
from torch import Tensor


def energy(logits: Tensor, temperature: float = 1.0) -> Tensor:
    """E(x) = -T log sum_k exp(f_k(x) / T): low where the network is sure of some class."""
    return -temperature * torch.logsumexp(logits / temperature, dim=-1)
