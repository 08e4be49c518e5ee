"""How large a network would be, counted without memory for it: absurd widths are refused before they are built."""

import os

import torch
from torch import nn
from torch.nn.modules.module import register_module_parameter_registration_hook
from torch.utils.flop_counter import FlopCounterMode

from oodbench.config import networks
from oodbench.config.cards import load_class
from oodbench.config.contents import NetworkChoice
from oodbench.config.suite import Suite
from oodbench.data import lookup
from oodbench.errors import UserError, shortened
from oodbench.learning.factories import Factory
from oodbench.learning.networks import Network
from oodbench.running.trained import network_of

TENSORS = 5_000  # of weights: a ResNet-1202 has 3,600, and even counting takes a millisecond for each
BYTES = 12  # of a parameter in training: weight, gradient and momentum


class _TooDeep(Exception):
    pass


def check(suite: Suite) -> None:
    """Refuse a network whose training this machine has no memory for."""
    name = suite.contents.network.name
    card = networks.card(name)
    if not any(parameter.type is int for parameter in card.parameters.values()):
        return  # its authors said how large it is
    with networks.mistakes(name):
        network = network_of(suite)
    sizes: list[int] = []

    def add(module: nn.Module, name: str, parameter: nn.Parameter | None) -> None:
        sizes.append(0 if parameter is None else parameter.numel())
        if len(sizes) > TENSORS:
            raise _TooDeep

    counting = register_module_parameter_registration_hook(add)
    try:
        with torch.device("meta"):  # tensors of a size, and no content
            _make(network, suite)
    except _TooDeep:
        raise _refusal(suite, f"more than {TENSORS:,} layers") from None
    except (RuntimeError, TypeError, OverflowError, MemoryError) as error:  # torch counts to 2**63
        if card.is_ours:
            reason = shortened(str(error).partition("\n")[0])
            raise _refusal(suite, f"layers that torch cannot make: {reason}") from None
    except (UserError, KeyboardInterrupt):
        raise
    except BaseException:  # code of a user's may want content; it is built next, and what was counted is weighed first
        if card.is_ours:
            raise
    finally:
        counting.remove()
    needed, memory = BYTES * sum(sizes), _memory()
    if needed > memory:
        raise _refusal(
            suite, f"{sum(sizes):,} parameters, {_gibibytes(needed)} in training; this machine has {_gibibytes(memory)}"
        )


def flops(choice: NetworkChoice, channels: int, side: int) -> int:
    """What a body of a shipped network computes of one image forward, counted without computing it."""
    options = {name: value for name, value in choice.options.items() if name not in ("pretrained", "weights")}
    network: Network = load_class(networks.card(choice.name))(**options)
    with torch.device("meta"):
        body = network.body(channels)[0].eval()
        with FlopCounterMode(display=False) as counter:
            body(torch.empty(1, channels, side, side))
    return int(counter.get_total_flops())


def _make(network: Network, suite: Suite) -> None:
    """All layers of a suite's network; a module of the user's is not tried out, for its tensors have no content."""
    channels = len(lookup.normalization(suite)[0])
    if isinstance(network, Factory):
        network.made(channels)
    else:
        nn.Linear(network.body(channels)[1], lookup.num_classes(suite))


def _refusal(suite: Suite, size: str) -> UserError:
    network = suite.contents.network
    options = ", ".join(f"{name} {value}" for name, value in network.options.items())
    return UserError(f"the network '{network.name}' ({options}) would need {size}; choose a smaller one")


def _memory() -> int:
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):  # a system that does not tell
        return 2**42


def _gibibytes(count: int) -> str:
    return f"{count / 2**30:,.0f} GiB"
