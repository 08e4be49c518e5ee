"""Import torchvision, and what depends on it, beside any build of torch."""

import importlib
import sys
from types import ModuleType


def import_with_torchvision(name: str) -> ModuleType:
    """`import name`, also where a CUDA build of torchvision meets a CPU build of torch.

    Its compiled operators are then missing, and the import fails over two of them that nobody here calls; declared
    without an implementation, they let the rest work. Where nothing is missing, nothing is declared: torchvision would
    not load over it.
    """
    import torch

    before = set(sys.modules)
    try:
        return importlib.import_module(name)
    except RuntimeError as error:
        if "operator torchvision::" not in str(error):
            raise
    for module in set(sys.modules) - before:
        if module.split(".")[0] in ("torchvision", name.split(".")[0]):
            del sys.modules[module]
    for operator in ("torchvision::nms", "torchvision::qnms"):
        torch.library.define(operator, "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
    return importlib.import_module(name)
