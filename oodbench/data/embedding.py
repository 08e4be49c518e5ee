"""Images as the features of a frozen ImageNet network: EfficientNet-Lite0, pooled, a byte for each of its 1280 numbers.

M. Tan and Q. Le, EfficientNet: Rethinking Model Scaling for Convolutional Neural Networks, ICML 2019; the Lite form has
neither swish nor squeeze-and-excitation. The features are means of ReLU6 outputs over space, so they lie in [0, 6].
"""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from torch import nn

FEATURES = 1280
SIDE = 224  # of the images that the network was trained on
LARGEST = 4.0  # the feature that is stored as 255; larger ones are stored so too
AT_ONCE = 32  # images


def network(weights: Path) -> "nn.Module":
    """With its classifier, for inference."""
    import torch

    from oodbench.torchvision_import import import_with_torchvision

    # Padding and epsilon as in TensorFlow, where the weights come from: of the ways that fit their shapes, this is the
    # one under which the batch statistics of photographs agree best with the stored ones.
    model: nn.Module = import_with_torchvision("timm").create_model("tf_efficientnet_lite0")
    theirs = torch.load(weights, map_location="cpu", weights_only=True)
    ours = model.state_dict()
    # Layers have other names in the file, and the same order.
    assert [name.rpartition(".")[2] for name in theirs] == [name.rpartition(".")[2] for name in ours]
    model.load_state_dict(dict(zip(ours, theirs.values(), strict=True)))
    model.eval().requires_grad_(False)
    return model.to(memory_format=torch.channels_last)  # type: ignore[call-overload]  # torch leaves this form untyped


def embedded(images: Any, network: "nn.Module") -> np.ndarray:
    """uint8 N x 3 x H x W, read a few at a time, to uint8 N x 1280 x 1 x 1. Other sides than 224 are scaled to it."""
    import torch
    import torch.nn.functional as F

    result = np.empty((len(images), FEATURES, 1, 1), dtype=np.uint8)
    with torch.inference_mode():
        for start in range(0, len(images), AT_ONCE):
            some = slice(start, start + AT_ONCE)
            x = torch.from_numpy(np.array(images[some])).float()
            if x.shape[-2:] != (SIDE, SIDE):
                x = F.interpolate(x, size=(SIDE, SIDE), mode="bilinear", antialias=True)
            x = x.sub_(127).div_(128).contiguous(memory_format=torch.channels_last)
            features = network.forward_head(network.forward_features(x), pre_logits=True)  # type: ignore[operator]
            result[some] = as_bytes(features.numpy())[:, :, None, None]
    return result


def as_bytes(features: np.ndarray) -> np.ndarray:
    """[0, 4] in 256 even steps; what is larger becomes 4."""
    return np.rint(features.clip(0, LARGEST) * (255 / LARGEST)).astype(np.uint8)
