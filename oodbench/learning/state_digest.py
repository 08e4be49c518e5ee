"""A short name for the weights of a network, the same on any machine."""

from collections.abc import Mapping

import torch
from torch import Tensor

from oodbench import digests


def state_digest(state: Mapping[str, Tensor]) -> str:
    """Of names and bits."""
    return digests.of_pieces(name.encode() + bits(state[name]) for name in sorted(state))


def bits(values: Tensor) -> bytes:
    """The bytes of a tensor in row order; NumPy lacks some of torch's types, bfloat16 for one."""
    return values.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()
