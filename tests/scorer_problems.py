"""Features and heads on which scorers are compared with plain readings of their formulas: what trips a scorer is there.

Half of the features are exactly zero, one never fires in training, and some test rows are all zeros or full of ties.
"""

from dataclasses import dataclass
from functools import cache, partial

import numpy as np
import torch
from torch import nn

from oodbench.learning.method import Classifier, Outputs

ROWS, DIM, CLASSES = 400, 24, 6
ORDINARY = 150  # the first so many test rows have no ties but zeros; the others are there to be met
NONNEGATIVE = ("relu", "rank k - 1", "no bias")
EVERY = (*NONNEGATIVE, "signed")


@dataclass(frozen=True)
class Problem:
    train: Outputs
    validation: Outputs
    test: Outputs


def outputs(features, head=None, y=None, logits=None):
    """Outputs with these features, as a network with this linear head would give them; images play no part."""
    features = torch.as_tensor(features, dtype=torch.float32)
    model = Classifier(nn.Flatten(), features.shape[1], 2, mean=(0.0,), std=(1.0,))
    model.head = model.head if head is None else head
    model.eval().requires_grad_(False)
    images = torch.zeros(len(features), 1, 1, 1, dtype=torch.uint8)
    logits = model.head(features) if logits is None else torch.as_tensor(np.asarray(logits), dtype=torch.float32)
    return Outputs(model, images, features, logits, None if y is None else torch.as_tensor(y))


def linear(weight, bias=None):
    """A head with these weights."""
    weight = torch.as_tensor(weight, dtype=torch.float32)
    head = nn.Linear(weight.shape[1], weight.shape[0], bias=bias is not None)
    with torch.no_grad():
        head.weight.copy_(weight)
        if bias is not None:
            head.bias.copy_(torch.as_tensor(bias, dtype=torch.float32))
    return head


@cache
def problem(name):
    """`relu`, as most networks have them; `rank k - 1`, a head whose rows sum to zero; `no bias`; `signed` features."""
    generator = torch.Generator().manual_seed(0)
    draw = partial(torch.randn, generator=generator)
    means, mixing = 1.2 * draw(CLASSES, DIM), torch.eye(DIM) + draw(DIM, DIM) / 8
    weight, bias = means / 3 + draw(CLASSES, DIM) / 8, draw(CLASSES)
    if name == "rank k - 1":
        weight = (weight.double() - weight.double().mean(dim=0)).float()
    head = linear(weight, None if name == "no bias" else bias)

    def rows(count, spread=1.0):
        y = torch.arange(count) % CLASSES
        features = spread * means[y] + draw(count, DIM) @ mixing
        features = features if name == "signed" else features.relu()
        features[:, 5] = 0  # never fires on known classes
        return features, y

    (train, y), (validation, validation_y), (known, _) = rows(ROWS), rows(200), rows(100)
    unknown = rows(50, spread=-0.5)[0]
    unknown[:, 5] = draw(50).abs()
    tied = (2 * rows(20)[0]).round() / 2  # positive entries that are equal too
    lonely = torch.zeros(3, DIM)
    lonely[1, 3], lonely[2] = 2.5, 1.5  # no entry, a single one, all the same
    test = torch.cat([known, unknown, tied, lonely])
    return Problem(outputs(train, head, y), outputs(validation, head, validation_y), outputs(test, head))


@dataclass(frozen=True)
class Plain:
    """The same numbers in NumPy's float64: f, W, b and z = W f + b."""

    f: np.ndarray
    weight: np.ndarray
    bias: np.ndarray
    y: np.ndarray | None

    @property
    def z(self):
        return self.f @ self.weight.T + self.bias


def plain(out):
    head = out.model.head
    weight = head.weight.double().numpy()
    bias = np.zeros(len(weight)) if head.bias is None else head.bias.double().numpy()
    return Plain(out.features.double().numpy(), weight, bias, None if out.y is None else out.y.numpy())


def scores(scorer, train, test, validation=None):
    """Fitted as a run does it."""
    with torch.no_grad():
        if validation is None:
            scorer.fit(train)
        else:
            scorer.fit(train, validation)
        return scorer.score(test).double().numpy()


def agree(got, expected):
    """Within 1e-4 of a standard deviation, the unit in which a difference could matter."""
    got, expected = np.asarray(got, dtype=float), np.asarray(expected, dtype=float)
    assert got.shape == expected.shape and np.isfinite(expected).all()
    assert expected.std() > 1e-3 * np.abs(expected).mean(), "rows that score alike show nothing"
    assert np.abs(got - expected).max() <= 1e-4 * expected.std()
