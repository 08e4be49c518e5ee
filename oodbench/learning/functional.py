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
LogitScore = Literal["energy", "max-logit", "msp", "gen"]


def energy(logits: Tensor, temperature: float = 1.0) -> Tensor:
    """E(x) = -T log sum_k exp(f_k(x) / T): low where the network is sure of some class."""
    return -temperature * torch.logsumexp(logits / temperature, dim=-1)


def generalized_entropy(logits: Tensor, gamma: float = 0.1, top: int = 100) -> Tensor:
    """The sum of p^gamma (1 - p)^gamma over the `top` largest probabilities p: low where one of them is near 1.

    In logarithms of float64, since a small power amplifies what rounding leaves of p near 0 and of 1 - p near 0.
    """
    logits = logits.double()
    logs = logits.log_softmax(dim=-1)
    rest = torch.log1p(-logs.exp())
    largest = logits.argmax(dim=-1, keepdim=True)
    others = logits.scatter(-1, largest, -torch.inf).logsumexp(dim=-1, keepdim=True)
    rest = rest.scatter(-1, largest, others - logits.logsumexp(dim=-1, keepdim=True))  # 1 - p is what the others have
    kept = logs.topk(min(top, logs.shape[-1]), dim=-1).indices
    return (gamma * (logs + rest)).exp().gather(-1, kept).sum(dim=-1)


def dirichlet_entropy(alpha: Tensor) -> Tensor:
    """Differential entropy of Dirichlet distributions, N x K: highest, -ln Gamma(K), where every alpha is 1.

    h = sum_k [ln Gamma(alpha_k) - (alpha_k - 1) (psi(alpha_k) - psi(alpha_0))] - ln Gamma(alpha_0)
    with alpha_0 = sum_k alpha_k.
    """
    total = alpha.sum(dim=-1, keepdim=True)
    each = alpha.lgamma() - (alpha - 1) * (alpha.digamma() - total.digamma())
    return each.sum(dim=-1) - total.squeeze(-1).lgamma()


def logit_score(logits: Tensor, base: LogitScore) -> Tensor:
    """A score that reads logits alone, by its name."""
    if base == "energy":
        return energy(logits)
    if base == "max-logit":
        return -logits.amax(dim=-1)
    return -logits.softmax(dim=-1).amax(dim=-1) if base == "msp" else generalized_entropy(logits)


def to_uniform(logits: Tensor) -> Tensor:
    """U(z) = log sum_k exp(z_k) - mean_k z_k, the cross-entropy to the uniform distribution, row by row."""
    return logits.logsumexp(dim=-1) - logits.mean(dim=-1)


def origin(weight: Tensor, bias: Tensor) -> Tensor:
    """o = -W^+ b, the feature whose logits are as near to 0 as any; ViM measures from there.

    A head whose rows sum to zero, as of a linear probe with L2, has rank K - 1 up to the rounding of its float32
    weights; the default cut, which is that of float64, would invert that rounding.
    """
    cut = max(weight.shape) * torch.finfo(torch.float32).eps
    return -torch.linalg.pinv(weight, rtol=cut) @ bias


def percentile(values: Tensor, percent: float, dim: int | None = None) -> Tensor:
    """Of all values, or along a dimension, interpolated linearly; like NumPy's, for any number of them, in float64."""
    values = values.flatten() if dim is None else values.movedim(dim, -1).contiguous()  # far faster along memory
    place = percent / 100 * (values.shape[-1] - 1)
    below = int(place)
    lower = values.kthvalue(below + 1, dim=-1).values.double()
    if below == place:
        return lower
    return lower + (place - below) * (values.kthvalue(below + 2, dim=-1).values.double() - lower)


def class_means(features: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    """The mean of every class that occurs, in float64, and for each row which of them is its own."""
    features, present = features.double(), y.unique()
    return torch.stack([features[y == k].mean(dim=0) for k in present]), torch.searchsorted(present, y)


def whitening(covariance: Tensor) -> Tensor:
    """A of which A A' is the pseudo-inverse of a covariance: ||(f - mu) A||^2 is a squared Mahalanobis distance.

    Directions in which nothing varies, as of a feature that never fires, count for nothing; a ridge in their place
    would put any row that differs there infinitely far away.
    """
    values, vectors = torch.linalg.eigh(covariance)
    kept = values > len(values) * torch.finfo(values.dtype).eps * values[-1].clamp(min=0)
    return vectors[:, kept] / values[kept].sqrt()


def forward_both(
    model: Classifier, batch: Batch, bn_mode: BatchNormMode, others: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """Logits of the labeled and of the wild images, or of others; `bn_mode` is whose statistics normalization uses.

    joint: of both together, in one pass, as the released code does; id_only: of the labeled images, the wild ones see
    the running statistics; frozen: nobody's, the running statistics stay as they were.
    """
    others = batch.wild if others is None else others
    if others is None:
        raise UserError('batch.wild is None; add needs = frozenset({"wild"}) to the trainer')
    if bn_mode == "id_only":
        logits = model(batch.x)
        with frozen_batch_norm(model):
            return logits, model(others)
    if bn_mode == "frozen":
        with frozen_batch_norm(model):
            both = model(torch.cat([batch.x, others]))
    else:
        both = model(torch.cat([batch.x, others]))
    return both[: len(batch)], both[len(batch) :]


@contextmanager
def frozen_batch_norm(model: nn.Module) -> Iterator[None]:
    """Batch normalization uses its running statistics and leaves them; its scale and shift still learn."""
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


def principal_dim(dim: int | Literal["auto"], size: int, name: str) -> int:
    """D of ViM's principal space among `size` features: as many as asked for, or by the rule of its authors."""
    if dim == "auto":
        return 1000 if size >= 2048 else 512 if size >= 768 else size // 2
    if dim >= size:
        raise UserError(
            f"{name}.dim={dim} is out of range; choose 1 to {size - 1} for the {size} features of the network"
        )
    return dim


def variance_dim(dim: int | Literal["auto"], variances: Tensor, name: str) -> int:
    """How many leading directions to take, of ascending variances: as asked, or the fewest that hold 90 % of them.

    One direction at least is left, and what rounding alone keeps below 90 % counts as reaching it.
    """
    size = len(variances)
    if dim == "auto":
        shares = variances.flip(0).cumsum(dim=0) / variances.sum()
        return min(int((shares < 0.9 - 1e-9).sum()) + 1, size - 1)
    if dim >= size:
        raise UserError(f"{name}.dim={dim} is out of range; choose 1 to {size - 1}, or auto")
    return dim


def squared_distances(rows: Tensor, centers: Tensor) -> Tensor:
    """||a - b||^2 of each row a and each center b, N x K, by one product.

    Where rows or centers are long and their differences short, subtract a common mean first: it keeps the digits.
    """
    return rows.square().sum(dim=-1, keepdim=True) - 2 * rows @ centers.T + centers.square().sum(dim=-1)


def class_templates(features: Tensor, classes: int, *labels: Tensor) -> Tensor:
    """A mean for every class, K x d in float64: of the rows that the first labels give to it.

    Where these give it none, the next labels are asked; a class that has no row in any takes the mean of all rows.
    """
    features = features.double()
    overall = features.mean(dim=0)

    def template(k: int) -> Tensor:
        rows = next((own for own in (each == k for each in labels) if own.any()), None)
        return overall if rows is None else features[rows].mean(dim=0)

    return torch.stack([template(k) for k in range(classes)])


def short_features(features: Tensor) -> Tensor:
    """Features longer than 1 scaled back to length 1, shorter ones as they are."""
    return features / torch.linalg.vector_norm(features, dim=-1, keepdim=True).clamp(min=1)
