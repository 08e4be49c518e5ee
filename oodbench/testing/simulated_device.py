"""A device that this machine does not have, simulated on the CPU, to show that a method stays where its tensors are.

Its tensors say they are on AWAY (which torch knows and which needs no hardware), hold their values at home, and refuse
to meet tensors from home, as CUDA's would. Unlike on the meta device there are values, so methods may look at them, and
results can be compared.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map

AWAY = torch.device("meta")
HOME = torch.device("cpu")


class AwayTensor(Tensor):
    """A tensor on the simulated device."""

    home: Tensor

    @staticmethod
    def __new__(cls: Any, home: Tensor) -> Any:
        sizes: dict[str, Any] = {"strides": home.stride(), "dtype": home.dtype, "device": AWAY}
        return Tensor._make_wrapper_subclass(cls, home.size(), **sizes)

    def __init__(self, home: Tensor) -> None:
        self.home = home

    @classmethod
    def __torch_dispatch__(  # type: ignore[override]  # torch's own stub leaves out the operator
        cls, operator: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        return played(operator, args, kwargs or {})


def played(operator: Callable[..., Any], args: Any, kwargs: Mapping[str, Any]) -> Any:
    """What an operator gives, computed at home."""
    tensors = [leaf for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, Tensor)]
    away = {id(t.home): t for t in tensors if isinstance(t, AwayTensor)}
    guests = [t for t in tensors if not isinstance(t, AwayTensor) and t.ndim > 0]  # one number may travel
    crosses = operator in (torch.ops.aten._to_copy.default, torch.ops.aten.copy_.default)
    if operator in (torch.ops.aten.index.Tensor, torch.ops.aten.index_put_.default) and isinstance(args[0], AwayTensor):
        guests = [t for t in guests if all(t is not index for index in args[1])]  # rows may be chosen from home
    if away and guests and not crosses:
        raise RuntimeError(f"{operator} was given tensors on {AWAY} and on {guests[0].device}")
    if kwargs.get("device") is not None:
        is_away, kwargs = torch.device(kwargs["device"]) == AWAY, {**kwargs, "device": HOME}
    else:
        is_away = isinstance(args[0], AwayTensor) if operator is torch.ops.aten.copy_.default else bool(away)
    args, kwargs = tree_map(lambda t: t.home if isinstance(t, AwayTensor) else t, (args, kwargs))
    results = operator(*args, **kwargs)
    if not is_away:
        return results

    def sent(result: Any) -> Any:
        if id(result) in away:  # changed in place: still the tensor it was
            return away[id(result)]
        return AwayTensor(result) if isinstance(result, Tensor) else result

    return tree_map(sent, results)


class Operators(TorchDispatchMode):
    """Also operators that make tensors."""

    def __torch_dispatch__(self, operator: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return played(operator, args, kwargs or {})


class Literals(TorchFunctionMode):
    """torch.tensor(values, device=AWAY) would lose the values before any operator sees them."""

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = dict(kwargs or {})
        if function in (torch.tensor, torch.as_tensor):
            device = kwargs.pop("device", None)
            made = function(*args, **kwargs)
            return made if device is None else made.to(device)
        if function is Tensor.new_tensor:
            return torch.tensor(args[1], dtype=kwargs.get("dtype", args[0].dtype)).to(args[0].device)
        return function(*args, **kwargs)


@contextmanager
def simulated() -> Iterator[torch.device]:
    """While it lasts, AWAY is a device like any other."""
    with Literals(), Operators():
        yield AWAY
