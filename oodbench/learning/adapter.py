"""Any classifier as oodbench's own: features under a linear head, whatever module computes them.

The user's module is copied, and stays as it was.
"""

from collections.abc import Sequence
from copy import deepcopy
from typing import Any, Literal, NamedTuple, NoReturn

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.parameter import is_lazy

from oodbench import digests
from oodbench.errors import UserError, said, unknown
from oodbench.learning import precision
from oodbench.learning.first_pass import as_logits, doubt_about, outputs_of, refuse_chance, refuse_nan
from oodbench.learning.head_search import Head, averaged, candidates, head_input, hookable, refuse_head, tried_heads
from oodbench.learning.map_search import Place, alike, find_maps, has_timms_maps, maps_at
from oodbench.learning.networks import Classifier, no_maps
from oodbench.learning.state_digest import bits, state_digest

LOGITS_ALONE = "logits alone"
LOGITS_BESIDE = "logits beside features"
NOTHING = ((0.0,), (1.0,))  # the mean and std that leave images as they are


class Adapted(Classifier):
    """A given network: its body is the whole of it, and its features are what the network's own head is given.

    Hooks are on the network only while it is called, so that copies of it are independent.
    """

    head_name: str | None  # of the layer that is the head; None: the features are the logits, and the head changes none
    form: str  # how logits come from features: "W f + b", "s cos(W, f)", ...
    has_features: bool
    has_head: bool  # whether logits are linear in the features
    has_maps: bool
    doubt: str | None  # what the user should know about it, in one sentence

    def __init__(
        self,
        body: nn.Module,
        head: Head | None,
        outputs: Sequence[int],
        mean: Sequence[float],
        std: Sequence[float],
        channels_last: bool = False,
        doubt: str | None = None,
        layer: "FeatureLayer | None" = None,
    ) -> None:
        dim = len(outputs) if head is None else head.weight.shape[1]
        super().__init__(body, dim if layer is None else layer.dim, len(outputs), mean, std)
        self.head = _linear(head, outputs) if layer is None else _NoHead(layer.dim, len(outputs))
        self.to(_device(body))
        self.head_name, self.form = (None, LOGITS_ALONE) if head is None else (head.name, head.form)
        if layer is not None:
            self.form = LOGITS_BESIDE
        self.layer_name = None if layer is None else layer.name
        self.has_features, self.has_head = head is not None or layer is not None, layer is None
        self.has_maps, self.doubt = False, doubt
        self._outputs, self._channels_last = list(outputs), channels_last
        self._unit = head is not None and head.unit
        self._maps: Place | Literal["timm"] | None = None
        for each in self.head.parameters():
            each.requires_grad_(False)
        self.eval()

    def features(self, x: Tensor) -> Tensor:
        x = self.normalized(x)
        if self.layer_name is not None:
            found, outputs = _listened(self.body, self.layer_name, x)
            setattr(found, BESIDE, as_logits(outputs).float()[:, self._outputs])
            return found
        if self.head_name is None:
            return as_logits(self.body(x)).float()[:, self._outputs]
        return self._effective(self._given_to_the_head(x))

    @property
    def device(self) -> torch.device:
        return self.mean.device

    def maps(self, x: Tensor) -> Tensor:
        x, body = self.normalized(x), self.body
        if self._maps is None:
            raise no_maps()
        if self._maps == "timm":
            maps = body.forward_features(x)  # type: ignore[operator]
            return maps.permute(0, 3, 1, 2) if _has_channels_at_the_end(body) else maps
        found = maps_at(self._maps, body, x)
        if found is None:
            raise no_maps()
        return found

    def pooled(self, maps: Tensor) -> Tensor:
        if self._maps != "timm":
            return self._effective(maps.float().mean(dim=(2, 3)))
        maps = maps.permute(0, 2, 3, 1) if _has_channels_at_the_end(self.body) else maps
        return self._effective(self.body.forward_head(maps, pre_logits=True).float())  # type: ignore[operator]

    def look_for_maps(self, x: Tensor) -> None:
        """Find the feature maps that lead to its features, on a batch."""
        if self.head_name is None:
            return
        x = self.normalized(x)
        features = self._given_to_the_head(x)
        self._maps = "timm" if has_timms_maps(self.body, x, features) else find_maps(self.body, x, features)
        self.has_maps = self._maps is not None

    def normalized(self, x: Tensor) -> Tensor:
        return super().normalized(x) if self._channels_last else (x - self.mean) / self.std

    def _effective(self, features: Tensor) -> Tensor:
        return F.normalize(features, dim=-1) if self._unit else features

    def _given_to_the_head(self, x: Tensor) -> Tensor:
        """The input of the head's last call while the network computes its outputs."""
        assert self.head_name is not None
        seen: list[Tensor | None] = []

        def hear(layer: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
            seen[:] = [head_input(layer, args, kwargs)]

        hook = self.body.get_submodule(self.head_name).register_forward_pre_hook(hear, with_kwargs=True)
        try:
            self.body(x)
        finally:
            hook.remove()
        if not seen or seen[0] is None:
            raise UserError(f"the network computed outputs without its head '{self.head_name}'; choose another: --head")
        return seen[0]


class _Own(Adapted):
    """A network that is oodbench's already computes as it always did, to the bit."""

    body: Classifier

    def features(self, x: Tensor) -> Tensor:
        return self.body.features(x)

    def maps(self, x: Tensor) -> Tensor:
        return self.body.maps(x)

    def pooled(self, maps: Tensor) -> Tensor:
        return self.body.pooled(maps)

    def look_for_maps(self, x: Tensor) -> None:
        try:
            self.has_maps = alike(self.pooled(self.maps(x)), self.features(x))
        except Exception:  # tokens, or none at all: a scorer that asks is told
            self.has_maps = False


class FeatureLayer(NamedTuple):
    """A layer whose output a user wants for features."""

    name: str
    dim: int


class NoHead(UserError):
    """A scorer asked for the head of a network that has none."""


BESIDE = "beside"  # the attribute of features under which the logits of the same pass come along


class _NoHead(nn.Linear):
    """In place of a head where features do not give the logits: it passes on those that came along with them."""

    def __init__(self, dim: int, num_classes: int) -> None:
        nn.Module.__init__(self)
        self.in_features, self.out_features = dim, num_classes

    weight = bias = property(lambda self: _refuse_without_head())

    def forward(self, input: Tensor) -> Tensor:
        found: object = getattr(input, BESIDE, None)
        return found if isinstance(found, Tensor) else _refuse_without_head()

    def extra_repr(self) -> str:
        return f"in_features={self.in_features}, out_features={self.out_features}"


def _refuse_without_head() -> NoReturn:
    raise NoHead("no linear layer gives this network's logits; choose a scorer that reads logits or distances")


class _Asked(NamedTuple):
    """What the user says of a network."""

    mean: tuple[float, ...]
    std: tuple[float, ...]
    head: str | None
    rows: Sequence[int] | None
    features: str | None


@torch.no_grad()
def adapt(
    module: nn.Module,
    batch: Tensor,
    mean: Sequence[float] = (0.0,),
    std: Sequence[float] = (1.0,),
    head: str | None = None,
    rows: Sequence[int] | None = None,
    features: str | None = None,
) -> Adapted:
    """A network of the user's as a `Classifier`, proven to be the same on a batch of images as `forward` takes them.

    `head` names its last layer, which is found otherwise; `rows` are the outputs that count, in their order. `features`
    names the layer whose output is taken for features where no linear layer gives the outputs.
    A network of oodbench's own normalizes images with its own mean and std unless others are given.
    """
    _check(batch, mean, std)
    if head is not None and features is not None:
        raise UserError("--features is for a network without a linear head, which --head names; leave one of them out")
    asked = _Asked(tuple(mean), tuple(std), head, rows, features)
    with torch.random.fork_rng(devices=[]):  # layers are made with random weights before they get theirs
        body = _copied(module)
        batch = batch.to(_device(body))
        if len(batch) == 1:  # where the features have one length only, a factor of it cannot be told from a scale
            batch = torch.cat([batch, batch / 2])
        if isinstance(body, Classifier) and (asked.mean, asked.std) != NOTHING:  # which normalizes images itself
            body.mean, body.std = (_by_channel(values, batch) for values in (asked.mean, asked.std))
            asked = asked._replace(mean=NOTHING[0], std=NOTHING[1])
        adapted = _own(body, batch, asked) or _found(body, batch, asked)
        refuse_nan(adapted.features(batch), "features")
        adapted.look_for_maps(batch)
    return adapted


def behaviour_digest(adapted: Adapted, batch: Tensor) -> str:
    """Of the weights, and of what the network computes: two of the same weights and other code differ.

    On a CPU and in one thread where it can be, since other ways to add numbers up give other bits.
    """
    noise = torch.rand((2, *batch.shape[1:]), generator=torch.Generator().manual_seed(0))
    state = {name: each for name, each in adapted.state_dict().items() if isinstance(each, Tensor)}
    with torch.no_grad(), precision.threads(1, torch.device("cpu")):
        try:
            logits = (adapted if adapted.device.type == "cpu" else deepcopy(adapted).cpu())(noise)
        except RuntimeError:  # of a network that has tensors on a device of its own choice
            logits = adapted(noise.to(adapted.device))
    constants = (bits(each) for each in (adapted.mean, adapted.std, logits))
    return digests.of_pieces([state_digest(state).encode(), *constants])


def _check(batch: Tensor, mean: Sequence[float], std: Sequence[float]) -> None:
    if batch.ndim < 2 or not len(batch) or not batch.is_floating_point():
        raise UserError("a network is adapted on a batch of float images, N x C x H x W; give at least one")
    for name, values in (("mean", mean), ("std", std)):
        if len(values) not in (1, batch.shape[1]):
            raise UserError(
                f"{name} has {len(values)} numbers, and the images have {batch.shape[1]} channels; give one for each"
            )
    if not all(value > 0 for value in std):
        raise UserError(f"std is {', '.join(map(str, std))}; it divides pixels, so give numbers above 0")


def _copied(module: nn.Module) -> nn.Module:
    """Its own modules and weights, without what wraps a network in training, for inference."""
    inner: Any = module
    while isinstance(inner, nn.DataParallel | nn.parallel.DistributedDataParallel) or hasattr(inner, "_orig_mod"):
        inner = inner._orig_mod if hasattr(inner, "_orig_mod") else inner.module
    try:
        body: nn.Module = deepcopy(inner)
    except Exception as error:
        raise UserError(
            f"the network cannot be copied ({type(error).__name__}: {said(error)[:200]}); "
            "give a module that copy.deepcopy copies"
        ) from None
    if any(map(is_lazy, (*body.parameters(), *body.buffers()))):
        raise UserError("the network's weights are not initialized yet; pass images through it, or give its --weights")
    for each in body.parameters():  # one by one, for a scripted module has no other way
        each.requires_grad_(False)
    return body.eval()


def _own(body: nn.Module, batch: Tensor, asked: _Asked) -> Adapted | None:
    """Of a `Classifier` whose logits are those of its head, which a method may have changed."""
    if not isinstance(body, Classifier) or asked.head not in (None, "head") or asked.features is not None:
        return None
    body.to(memory_format=torch.channels_last)  # type: ignore[call-overload]  # torch leaves this form untyped
    outputs = outputs_of(body, batch)
    if not alike(body.head(body.features(batch)), outputs):
        return None
    weight, bias = body.head.weight.detach(), body.head.bias
    form = "W f" if bias is None else "W f + b"
    found = Head("head", form, weight, None if bias is None else bias.detach(), unit=False)
    means, stds = body.mean.flatten().tolist(), body.std.flatten().tolist()
    return _Own(body, found, _wanted(outputs, asked.rows), means, stds, channels_last=True)


def _found(body: nn.Module, batch: Tensor, asked: _Asked) -> Adapted:
    """With the head that is proven to give the outputs, or without one."""
    x = (batch - _by_channel(asked.mean, batch)) / _by_channel(asked.std, batch)
    outputs = outputs_of(body, x)
    wanted = _wanted(outputs, asked.rows)
    channels_last = _takes_channels_last(body, x, outputs)
    x = x.contiguous(memory_format=torch.channels_last) if channels_last else x
    if asked.features is not None:
        layer = FeatureLayer(asked.features, _listened(body, asked.features, x)[0].shape[1])
        return Adapted(body, None, wanted, asked.mean, asked.std, channels_last, layer=layer)
    tried = tried_heads(body, x, outputs)
    held = [each.head for each in tried if each.head is not None and asked.head in (None, each.name)]
    if asked.head is not None and not held:
        raise refuse_head(asked.head, body, tried)
    if not held:
        refuse_chance(body, x, outputs)
    doubt = None if held else doubt_about(outputs, candidates(tried))
    return Adapted(body, held[0] if held else None, wanted, asked.mean, asked.std, channels_last, doubt)


def _listened(body: nn.Module, name: str, x: Tensor) -> tuple[Tensor, Any]:
    """What a layer gives in its last call, as N x d, and what the network does."""
    known = {each: layer for each, layer in hookable(body).items() if each}
    if name not in known:
        raise unknown("layer", name, known)
    seen: list[Any] = []
    hook = known[name].register_forward_hook(lambda layer, args, output: seen.append(output))
    try:
        outputs = body(x)
    finally:
        hook.remove()
    found = seen[-1] if seen else None
    if not isinstance(found, Tensor) or found.ndim < 2 or len(found) != len(x) or not found.is_floating_point():
        raise UserError(f"the layer '{name}' gives no row of numbers for each image; choose another with --features")
    return averaged(found, maps=found.ndim == 4).float(), outputs


def _takes_channels_last(body: nn.Module, x: Tensor, outputs: Tensor) -> bool:
    """Whether it may be given images channels last, which convolutions are fastest with.

    A `view` of its activations would fail, or mean something else.
    """
    if x.ndim != 4:
        return False
    body.to(memory_format=torch.channels_last)  # type: ignore[call-overload]  # torch leaves this form untyped
    try:
        if alike(as_logits(body(x.contiguous(memory_format=torch.channels_last))).float(), outputs):
            return True
    except RuntimeError:
        pass
    body.to(memory_format=torch.contiguous_format)  # type: ignore[call-overload]
    return False


def _by_channel(values: Sequence[float], batch: Tensor) -> Tensor:
    return torch.tensor(values, device=batch.device).view(-1, 1, 1)


def _device(body: nn.Module) -> torch.device:
    """Where a network is; one without weights is anywhere."""
    tensors = (*body.parameters(), *body.buffers())
    return tensors[0].device if tensors else torch.device("cpu")


def _wanted(outputs: Tensor, rows: Sequence[int] | None) -> list[int]:
    """The outputs that count."""
    count = outputs.shape[1]
    if rows is None:
        return list(range(count))
    distinct = len({*rows}) == len(rows)  # or a file that names one output a million times takes as much memory
    if len(rows) < 2 or not distinct or not all(0 <= row < count for row in rows):
        wrong = next((row for row in rows if not 0 <= row < count), None)
        few_or_repeated = "fewer than two of them" if distinct else "one of them twice"
        what = few_or_repeated if wrong is None else f"number {wrong}"
        raise UserError(
            f"the network has {count} outputs, counted from 0, and {what} cannot be taken; check the classes"
        )
    return list(rows)


def _linear(head: Head | None, outputs: Sequence[int]) -> nn.Linear:
    """A plain layer with the effective weights, those of the outputs that count; without a head, the identity."""
    weight, bias = torch.eye(len(outputs)), None
    if head is not None:
        weight, bias = head.weight[list(outputs)], head.bias
    layer = nn.Linear(weight.shape[1], len(outputs), bias=bias is not None)
    layer.weight = nn.Parameter(weight.detach().float().clone())
    if bias is not None:
        layer.bias = nn.Parameter(bias.detach()[list(outputs)].float().clone())
    return layer


def _has_channels_at_the_end(body: nn.Module) -> bool:
    """Whether timm's maps are N x H x W x C."""
    return getattr(body, "output_fmt", None) == "NHWC"
