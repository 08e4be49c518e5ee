"""H. Wang and Y. Li, Bridging OOD Detection and Generalization: A Graph-Theoretic View, NeurIPS 2024.

Augmented images are the nodes of a graph. Two are joined as likely as they are views of one image (weight eta_u) or of
two labeled images of one class (eta_l). The loss below is least where features are a spectral embedding of that graph,
in which covariate-shifted images lie near their class and semantic ones apart. Cross-entropy then fine-tunes it.

The loss:

    L = −2 η_l L1 − 2 η_u L2 + η_l² L3 + 2 η_l η_u L4 + η_u² L5, with 4 for 2 before L4 in the reference form,
    where L1 and L2 are mean products of the features of two views of one class and of one image,
    and L3, L4 and L5 are mean squared products of labeled, of mixed and of wild pairs
"""

from dataclasses import dataclass, replace
from typing import ClassVar, Literal

import torch
from torch import Tensor

from oodbench import Batch, Classifier, Data, Loop, Trainer, UserError
from oodbench.functional import short_features


@dataclass
class GraphSpectral(Trainer):
    """Features embed a graph of views of wild images and of labeled images of one class; KNN finds what lies apart."""

    display: ClassVar[str] = "Graph-spectral"
    needs: ClassVar[frozenset[str]] = frozenset({"wild", "views"})
    scorer: ClassVar[str] = "knn"

    eta_l: float = 0.5  # weight of edges between labeled images of a class
    eta_u: float = 2.0  # weight of edges between views of an image
    form: Literal["paper", "reference"] = "paper"  # reference: as the released code weighs L4; see `spectral_loss`
    head_epochs: int = 20  # of the second stage, the cross-entropy
    head_lr: float = 0.005  # of the second stage

    def __post_init__(self) -> None:
        for name in ("eta_l", "eta_u"):
            if getattr(self, name) <= 0:
                raise UserError(f"graph-spectral.{name}={getattr(self, name):g} is out of range; choose above 0")
        if self.head_epochs < 1 or self.head_lr <= 0:
            raise UserError("graph-spectral.head_epochs and head_lr are above 0; choose 20 and 0.005")

    def train(self, model: Classifier, data: Data, loop: Loop) -> None:
        def loss(model: Classifier, batch: Batch) -> Tensor:
            assert batch.views is not None and batch.wild is not None and batch.wild_views is not None
            images = torch.cat([batch.x, batch.views, batch.wild, batch.wild_views])
            features = short_features(model.features(images))
            x, x2, wild, wild2 = features.split([len(batch), len(batch), len(batch.wild), len(batch.wild)])
            return self.spectral_loss(x, x2, wild, wild2, batch.y, data.num_classes)

        for _ in loop.epochs(model, data, loss):
            pass
        head = loop.stage("head")
        head.recipe = loop.recipe.changed(epochs=self.head_epochs, lr=self.head_lr)
        for _ in head.epochs(model, replace(data, wild=None, views=None), super().loss):
            pass
        loop.notes["head_log"] = head.log

    def spectral_loss(self, x: Tensor, x2: Tensor, wild: Tensor, wild2: Tensor, y: Tensor, classes: int) -> Tensor:
        """-2 eta_l L1 - 2 eta_u L2 + eta_l^2 L3 + 2 eta_l eta_u L4 + eta_u^2 L5; equation 6 prints the etas swapped.

        The released code counts L4 in both directions and takes L2 over wild images alone. In L3 and L5 no image meets
        itself. Features longer than 1 are scaled back to 1 first, as only the code says; without it the loss diverges.
        """
        own = (y.unsqueeze(1) == torch.arange(classes, device=y.device)).to(x)  # N x K
        counts = own.sum(dim=0)  # a class that the batch lacks adds nothing to any sum
        products = x @ x2.T
        l1 = (own.T @ products @ own).diagonal() / counts.square().clamp(min=1)
        l3 = own.T @ _off_diagonal(products.square()) @ own / (counts[:, None] * counts - counts.diag()).clamp(min=1)
        l4 = (own / counts.clamp(min=1)).T @ (x @ wild2.T).square().mean(dim=1)
        same = (wild * wild2).sum(dim=-1)
        if self.form == "paper":
            same = torch.cat([same, (x * x2).sum(dim=-1)])
        l5 = _off_diagonal((wild @ wild2.T).square()).sum() / (len(wild) * (len(wild) - 1))
        both = 4 if self.form == "reference" else 2
        return (
            -2 * self.eta_l * l1.sum()
            - 2 * self.eta_u * same.mean()
            + self.eta_l**2 * l3.sum()
            + both * self.eta_l * self.eta_u * l4.sum()
            + self.eta_u**2 * l5
        )


def _off_diagonal(matrix: Tensor) -> Tensor:
    return matrix - torch.diag_embed(matrix.diagonal())
