"""R. Wightman, PyTorch Image Models, https://github.com/huggingface/pytorch-image-models."""

import logging
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from oodbench.errors import UserError
from oodbench.learning.networks import Network
from oodbench.torchvision_import import import_with_torchvision

HEADS = ("fc.", "classifier.", "head.")


@dataclass
class Timm(Network):
    """Any model of timm by name, its classifier replaced by our linear head."""

    model: str = "resnet18"
    pretrained: bool = False  # start from the weights that timm keeps for it
    weights: str = ""  # or from those in this file (timm's or torchvision's)

    def body(self, channels: int) -> tuple[nn.Module, int]:
        timm = import_with_torchvision("timm")
        if not timm.is_model(self.model):
            near = ", ".join(timm.list_models(f"*{self.model[:6]}*")[:5]) or "see timm.list_models()"
            raise UserError(f"timm has no model '{self.model}'; near ones: {near}")
        fetch = self.pretrained and not self.weights
        logging.getLogger("huggingface_hub").setLevel(logging.ERROR)  # it tells of every attempt
        try:
            body = timm.create_model(self.model, in_chans=channels, num_classes=0, pretrained=fetch)
        except Exception as error:
            if not fetch:
                raise
            reason = " ".join(str(error).split())[:100]
            raise UserError(
                f"cannot get timm's weights of '{self.model}' ({reason}); give a file: --set network.weights=FILE"
            ) from None
        if self.weights:
            self._load(body)
        # Some widen their maps after pooling: those of a MobileNetV3 have 960 channels, its features are 1280.
        return body, getattr(body, "head_hidden_size", None) or body.num_features

    def _load(self, body: nn.Module) -> None:
        """Everything but the classifier, which has other classes."""
        try:
            found = torch.load(self.weights, map_location="cpu", weights_only=True)
            tensors = {k: v for k, v in found.items() if isinstance(v, Tensor) and not k.startswith(HEADS)}
            body.load_state_dict(tensors)
        except OSError as error:
            raise UserError(f"cannot read the weights '{self.weights}': {error.strerror}; check the path") from None
        except Exception as error:
            reason = " ".join(str(error).split())[:100]
            raise UserError(f"'{self.weights}' holds no weights of timm's '{self.model}' ({reason})") from None
