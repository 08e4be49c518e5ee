"""Mathematics that two or more methods share; they import it from `oodbench.functional`."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from oodbench.errors import UserError
from oodbench.learning.batches import Batch
from oodbench.learning.networks import Classifier

BatchNormMode = Literal["joint", "id_only", "frozen"]


def energy(logits: Tensor, temperature: float = 1.0) -> Tensor:
    """E(x) = -T log sum_k exp(f_k(x) / T): low where the network is sure of some class."""
    return -temperature * torch.logsumexp(logits / temperature, dim=-1)


def forward_both(model: Classifier, batch: Batch, bn_mode: BatchNormMode) -> tuple[Tensor, Tensor]:
    """Logits of the labelled and of the wild images; whose statistics batch normalisation uses is `bn_mode`'s choice.

    joint: of both together, in one pass, as the released code does; id_only: of the labelled images, the wild ones see
    the running statistics; frozen: nobody's, the running statistics stay as they were.
    """
    if batch.wild is None:
        raise UserError('batch.wild is None; add needs = frozenset({"wild"}) to the trainer')
    if bn_mode == "id_only":
        logits = model(batch.x)
        with frozen_batch_norm(model):
            return logits, model(batch.wild)
    if bn_mode == "frozen":
        with frozen_batch_norm(model):
            both = model(torch.cat([batch.x, batch.wild]))
    else:
        both = model(torch.cat([batch.x, batch.wild]))
    return both[: len(batch)], both[len(batch) :]


@contextmanager
def frozen_batch_norm(model: nn.Module) -> Iterator[None]:
    """Batch normalisation uses its running statistics and leaves them; its scale and shift still learn."""
    layers = [m for m in model.modules() if isinstance(m, _BatchNorm) and m.training]
    for layer in layers:
        layer.eval()
    try:
        yield
    finally:
        for layer in layers:
            layer.train()


def penalty_weight(step: int, steps: int, warmup: int, weight: float) -> tuple[float, bool]:
    """DomainBed's schedule of an invariance penalty: 1 while warming up, then `weight`; and whether it changes now.

    A large weight on a network that fits nothing yet is met by shrinking the logits, so a short training warms up for
    half of its steps.
    """
    start = min(warmup, steps // 2)
    return (1.0 if step < start else weight), step == start and start > 0


def gradient_norm(term: Tensor, *logits: Tensor) -> Tensor:
    """The norm of a term's gradient by the logits: shows which term pulls, and costs next to nothing."""
    found = torch.autograd.grad(term, logits, retain_graph=True, allow_unused=True)
    return torch.stack([g.norm() if g is not None else torch.zeros_like(term) for g in found]).norm().detach()
