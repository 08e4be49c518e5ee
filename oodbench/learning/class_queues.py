"""The latest features of each class, and the Gaussians that fit them. A trainer hands this to the loop as a module."""

import torch
from torch import Tensor, nn

RIDGE = 1e-4  # added to the variances


class ClassQueues(nn.Module):
    """The latest features of each class."""

    rows: Tensor
    counts: Tensor

    def __init__(self, classes: int, size: int, dim: int) -> None:
        super().__init__()
        self.size = size
        self.register_buffer("rows", torch.zeros(classes, size, dim))
        self.register_buffer("counts", torch.zeros(classes, dtype=torch.int64))  # of all that ever came

    @torch.no_grad()
    def push(self, features: Tensor, y: Tensor) -> None:
        """New rows take the places of the oldest."""
        of_class = (y.unsqueeze(1) == torch.arange(len(self.counts), device=y.device)).long()
        earlier = of_class.cumsum(dim=0).gather(1, y.unsqueeze(1)).squeeze(1) - 1  # of its class in the batch
        slots = (self.counts[y] + earlier) % self.size
        # Where a batch holds more of a class than its queue, all rows of one place write the last of them.
        places = y * self.size + slots
        latest = ((places.unsqueeze(1) == places) * torch.arange(len(y), device=y.device)).amax(dim=1)
        self.rows[y, slots] = features[latest]
        self.counts += of_class.sum(dim=0)

    @torch.no_grad()
    def gaussians(self) -> tuple[Tensor, Tensor]:
        """The means of the classes, and L of which L L' is the covariance within classes, in float64."""
        rows, counts = self.rows.double(), self.counts.clamp(max=self.size).unsqueeze(1)  # rows yet to come are zeros
        means = rows.sum(dim=1) / counts.clamp(min=1)
        flat = rows.flatten(0, 1)
        covariance = (flat.T @ flat - (counts * means).T @ means) / counts.sum().clamp(min=1)
        return means, torch.linalg.cholesky(covariance + RIDGE * torch.eye(len(covariance)).to(covariance))
