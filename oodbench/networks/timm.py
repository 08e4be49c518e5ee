"""R. Wightman, PyTorch Image Models, https://github.com/huggingface/pytorch-image-models."""

from dataclasses import dataclass

from torch import nn

from oodbench.errors import UserError
from oodbench.networks import Network
from oodbench.torchvision_import import import_with_torchvision


@dataclass
class Timm(Network):
    """Any model of timm by name, from scratch, its classifier replaced by our linear head."""

    model: str = "resnet18"

    def body(self, channels: int) -> tuple[nn.Module, int]:
        timm = import_with_torchvision("timm")
        if not timm.is_model(self.model):
            near = ", ".join(timm.list_models(f"*{self.model[:6]}*")[:5]) or "see timm.list_models()"
            raise UserError(f"timm has no model '{self.model}'; near ones: {near}")
        body = timm.create_model(self.model, in_chans=channels, num_classes=0)
        return body, body.num_features
