"""What a result says of a network that was given. Its fields are described in docs/results.md."""

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class GivenRun:
    """A network that the user brought, which nothing here has trained: what stands in place of a recipe."""

    name: str
    model: str  # timm:resnet18, my_net.py:build, or the class of a module from Python
    weights: str | None  # the name of the file they came from
    head: str | None  # the module that is the last layer; None: logits alone
    form: str  # what the logits are of the features, such as W f + b
    preprocessing: dict[str, Any]  # mean, std, size and the like, and who stated them
    classes: list[int] | None  # which outputs of the network the ID classes are; None: all, in order
    adapter: str  # adapter@version
    digest: str  # of the weights and of what the network computes
    features: str | None = None  # the layer whose output scorers read as features, if the user named one

    @property
    def words(self) -> str:
        """`resnet18 (timm:resnet18, weights mine.safetensors)`."""
        return f"{self.name} ({', '.join([self.model, *([f'weights {self.weights}'] if self.weights else [])])})"
