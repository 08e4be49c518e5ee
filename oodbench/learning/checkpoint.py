"""The file that a killed training resumes from, and the files of tensors that we write and read back.

All of these can be made again, so whatever is wrong with one is a reason to do so, and never an error. A file carries
the digest of what it holds: the checksums of an archive are of its bytes as they were written, and so is this.
"""

import time
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import deepcopy
from pathlib import Path
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from oodbench import digests
from oodbench.files import write_atomically

BUDGET = 16  # times the size of a file that its tensors may take in all: some share their values with others
FIELDS = {"training", "seed", "epochs", "epoch", "state", "log", "digest"}  # of a checkpoint
RESUMES = "resumes at epoch"  # what a training says that goes on from one


class Stateful(Protocol):
    """A module or an optimizer."""

    def state_dict(self) -> dict[str, Any]: ...
    def load_state_dict(self, state_dict: Any, /) -> Any: ...


class Unfit(Exception):
    """A checkpoint that this training cannot go on from, and why."""


class Saver:
    """Writes the checkpoints of one training and reads them back."""

    def __init__(
        self, path: Path | None, state: Sequence[Stateful], log: list[dict[str, Any]], seed: int, epochs: int
    ) -> None:
        self.path, self.state, self.log, self.epochs = path, state, log, epochs
        # The name of a file says whose checkpoint it is; it is compared with what the file itself says.
        self.training = {"training": None if path is None else path.name, "seed": seed, "epochs": epochs}
        self.saved_at, self.cost = time.perf_counter(), 0.0

    def save(self, epoch: int, always: bool = False) -> None:
        """Save, unless that would take more than 2 % of the time."""
        now = time.perf_counter()
        if self.path is None or (now - self.saved_at < 50 * self.cost and not always):
            return
        state = [each.state_dict() for each in self.state]
        save_tensors(self.path, {**self.training, "epoch": epoch, "state": state, "log": self.log})
        self.saved_at = time.perf_counter()
        self.cost = self.saved_at - now

    def restore(self, device: torch.device, say: Callable[[str], None]) -> int:
        """Load the checkpoint if there is one, all of it or nothing; the epoch to go on with."""
        if self.path is None or not self.path.exists():
            return 0
        try:
            contents = load_tensors(self.path, device)
            self._check(contents)
            self._load(contents["state"])
        except Unfit as reason:
            say(f"the checkpoint '{self.path}' {reason}; the training starts over")
            return 0
        self.log[:] = contents["log"]
        epoch = int(contents["epoch"])
        if epoch < self.epochs:
            say(f"{RESUMES} {epoch + 1} of {self.epochs}")
        return epoch

    def _check(self, contents: Any) -> None:
        if not isinstance(contents, dict) or contents.keys() != FIELDS:
            raise Unfit("is damaged, or from another version")
        if {name: contents[name] for name in self.training} != self.training:
            raise Unfit("belongs to another training")
        epoch, state, log = contents["epoch"], contents["state"], contents["log"]
        if type(epoch) is not int or not 0 <= epoch <= self.epochs:
            raise Unfit(f"continues with epoch {epoch!r:.20} of {self.epochs}")
        if not isinstance(log, list) or not all(isinstance(record, dict) for record in log):
            raise Unfit("has no log")
        if not isinstance(state, list) or len(state) != len(self.state):
            raise Unfit("is of another network")
        if not all(_fits(values, each) for each, values in zip(self.state, state, strict=True)):
            raise Unfit("is of another network")

    def _load(self, state: list[Any]) -> None:
        before = [deepcopy(each.state_dict()) for each in self.state]
        try:
            for each, values in zip(self.state, state, strict=True):
                load_state(each, values)
        except Exception as error:  # of a module of the trainer's, which may be of any kind
            for each, values in zip(self.state, before, strict=True):
                each.load_state_dict(values)
            raise Unfit(f"cannot be loaded ({type(error).__name__})") from None


def epoch_of(path: Path) -> tuple[int, int] | None:
    """The epoch that a checkpoint goes on with and how many there are, without reading its tensors; None if unknown."""
    try:
        contents = torch.load(path, map_location="cpu", weights_only=True, mmap=True)
        epoch, epochs = contents["epoch"], contents["epochs"]
    except Exception:  # damaged bytes raise nearly anything
        return None
    return (epoch, epochs) if type(epoch) is type(epochs) is int else None


def load_state(into: Stateful, values: Mapping[str, Any]) -> None:
    """Load values that fit. What torch notes beside a module's own state is believed, and not what a file has there."""
    state = into.state_dict()
    state.update(values)
    into.load_state_dict(state)


def _fits(values: Any, into: Stateful) -> bool:
    """Whether a state is one that a module or an optimizer can have; of other objects only they know."""
    if isinstance(into, nn.Module):
        return fits_module(values, into)
    if isinstance(into, torch.optim.Optimizer):
        return _fits_optimizer(values, into)
    return isinstance(values, dict)


def fits_module(values: Any, module: nn.Module) -> bool:
    """Whether it has the same names, shapes and types; torch itself would cast other types without a word."""
    own = module.state_dict()
    return (
        isinstance(values, dict)
        and values.keys() == own.keys()
        and all(_is_like(values[name], each) for name, each in own.items() if isinstance(each, Tensor))
    )


def _is_like(value: Any, own: Tensor) -> bool:
    return isinstance(value, Tensor) and value.shape == own.shape and value.dtype == own.dtype


def _fits_optimizer(values: Any, optimizer: torch.optim.Optimizer) -> bool:
    """With the same groups of parameters, and for each parameter numbers and tensors of its shape."""
    if not isinstance(values, dict) or values.keys() != {"state", "param_groups"}:
        return False
    groups, own_groups = values["param_groups"], optimizer.state_dict()["param_groups"]
    if not isinstance(groups, list) or len(groups) != len(own_groups) or not isinstance(values["state"], dict):
        return False
    for group, own in zip(groups, own_groups, strict=True):
        if not isinstance(group, dict) or group.keys() != own.keys() or group["params"] != own["params"]:
            return False
        if not all(_is_kind_of(group[name], own[name]) for name in own):
            return False
    parameters = [each for group in optimizer.param_groups for each in group["params"]]
    for index, own_state in values["state"].items():
        if type(index) is not int or not 0 <= index < len(parameters) or not isinstance(own_state, dict):
            return False
        for value in own_state.values():
            is_number = isinstance(value, Tensor) and value.ndim == 0
            if not (is_number or _is_like(value, parameters[index]) or value is None):
                return False
    return True


def _is_kind_of(value: Any, own: Any) -> bool:
    """Whether one hyperparameter of an optimizer may take the place of another: a rate is a number, whatever it is."""
    if isinstance(own, int | float) and not isinstance(own, bool):
        return isinstance(value, int | float) and not isinstance(value, bool)
    return type(value) is type(own)


def save_tensors(path: Path, contents: dict[str, Any]) -> None:
    """Plain values and tensors, with the digest of all of them, whole or not at all."""
    sealed = {**contents, "digest": digests.of_pieces(_pieces(contents))}
    write_atomically(path, lambda file: torch.save(sealed, file))


def load_tensors(path: Path, device: torch.device) -> Any:
    """What `save_tensors` wrote; None if it is missing or damaged. Older files, which have no digest, are read too.

    Nothing in a file can run code, or ask for more memory than a small multiple of the file's size.
    """
    try:
        _check_archive(path)
        contents = torch.load(path, map_location=device, weights_only=True)
        _check_tensors(contents, path.stat().st_size)
        if isinstance(contents, dict) and "digest" in contents:
            rest = {name: value for name, value in contents.items() if name != "digest"}
            if contents["digest"] != digests.of_pieces(_pieces(rest)):
                return None
        return contents
    except Exception:  # damaged bytes raise nearly anything
        return None


def _check_archive(path: Path) -> None:
    """An archive as torch writes it, uncompressed and with the right checksums, which torch does not compare."""
    if not path.is_file():
        raise ValueError("not a file")
    with open(path, "rb") as file:
        if file.read(4) != b"PK\3\4":  # by which torch tells its older format, where a number asks for memory
            raise ValueError("not an archive")
    with zipfile.ZipFile(path) as archive:
        members = archive.infolist()
        if any(member.compress_type != zipfile.ZIP_STORED for member in members):
            raise ValueError("compressed")
        if sum(member.file_size for member in members) > path.stat().st_size:
            raise ValueError("members that overlap")
        if archive.testzip() is not None:
            raise ValueError("a wrong checksum")


def _check_tensors(contents: Any, size: int) -> None:
    """Tensors may claim any shape over few bytes, and be of kinds that hold no numbers."""
    taken = 0
    for value in _leaves(contents):
        if isinstance(value, Tensor):
            if not _holds_numbers(value):
                raise ValueError("a tensor of a rare kind")
            taken += value.numel() * value.element_size()
            if taken > BUDGET * size:
                raise ValueError("tensors larger than the file")


def _holds_numbers(tensor: Tensor) -> bool:
    return tensor.layout == torch.strided and not tensor.is_quantized and not tensor.is_meta


def _leaves(value: Any) -> Iterator[Any]:
    if isinstance(value, Mapping):
        for pair in value.items():
            yield from _leaves(pair)
    elif isinstance(value, list | tuple):
        for each in value:
            yield from _leaves(each)
    else:
        yield value


def _pieces(value: Any) -> Iterator[bytes | memoryview]:
    """All that a value holds, as bytes; of what is neither tensor nor plain value, only its type."""
    if isinstance(value, Mapping | list | tuple):
        kind = "mapping" if isinstance(value, Mapping) else "list" if isinstance(value, list) else "tuple"
        yield f"{kind} {len(value)};".encode()
        for each in value.items() if isinstance(value, Mapping) else value:
            yield from _pieces(each)
    elif isinstance(value, Tensor) and _holds_numbers(value):
        yield f"{value.dtype} {tuple(value.shape)};".encode()
        yield value.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().data
    elif value is None or isinstance(value, bool | int | float | str):
        yield f"{type(value).__name__} {value!r};".encode(errors="surrogatepass")
    else:
        yield f"{type(value).__name__};".encode()
