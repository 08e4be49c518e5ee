"""Files of weights that users bring: safetensors, or torch's own. Nothing in such a file can run code."""

import os
import zipfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import IO, Any

import safetensors.torch
import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy

from oodbench.errors import UserError, said
from oodbench.user_files import open_regular

WRAPPERS = ("state_dict", "model_state_dict", "model", "net")  # keys under which trainers keep a state dictionary
SHOWN = 5  # names of each kind of misfit
BUDGET = 16  # times the size of a file that its tensors may take: some share their values, and others only claim to
FOLDER = 0x10  # a bit by which a member of an archive is none: torch then takes whatever lies in memory for its values
COUNTER = "num_batches_tracked"  # of batch normalization, which older files lack and nothing here depends on
WEIGHTS_ONLY = "Weights only load failed"  # how torch begins when a file is no plain tensors


def read_tensors(path: Path, option: str = "--weights") -> dict[str, Tensor]:
    """The tensors of a state dictionary, by name, wherever in the file it lies; `option` is what the file was given by.

    Of a Lightning checkpoint, say, what is under `state_dict`.
    """
    try:
        with open_regular(path) as file:
            size = os.fstat(file.fileno()).st_size
            contents: Any = _safetensors(file, path) or _torch_file(file)
    except FileNotFoundError:
        raise UserError(f"there is no file '{path}'; {option} takes the weights of a trained network") from None
    except Exception as error:  # damaged bytes raise nearly anything
        raise UserError(f"'{path}' is not a file of weights ({_reason(error)}); {_remedy(error)}") from None
    tensors = _unwrapped(contents)
    if not tensors or not all(
        isinstance(name, str) and isinstance(value, Tensor) and _holds_numbers(value) for name, value in tensors.items()
    ):
        raise UserError(f"'{path}' holds no state dictionary; save model.state_dict()")
    if sum(value.numel() * value.element_size() for value in tensors.values()) > BUDGET * size:
        raise UserError(f"'{path}' claims tensors larger than the file; save model.state_dict() again")
    return dict(tensors)


def _safetensors(file: IO[bytes], path: Path) -> dict[str, Tensor] | None:
    """Of a file that is called so, or begins so: with the length of a header in JSON, and the header."""
    start = file.read(9)
    file.seek(0)
    length, available = int.from_bytes(start[:8], "little"), os.fstat(file.fileno()).st_size
    if path.suffix == ".safetensors" or (start[8:] == b"{" and length <= available - 8):
        return safetensors.torch.load_file(path)
    return None


def _torch_file(file: IO[bytes]) -> Any:
    _check_archive(file)
    return torch.load(file, map_location="cpu", weights_only=True)


def _check_archive(file: IO[bytes]) -> None:
    """Torch writes archives that are not compressed, unpacks any into memory, and compares no checksum of its own.

    Its older format is no archive.
    """
    if zipfile.is_zipfile(file):
        with zipfile.ZipFile(file) as archive:
            if sum(member.file_size for member in archive.infolist()) > os.fstat(file.fileno()).st_size:
                raise ValueError("it unpacks to more than its own size")
            if archive.testzip() is not None or any(member.external_attr & FOLDER for member in archive.infolist()):
                raise zipfile.BadZipFile("its checksums do not fit its contents")
    file.seek(0)


def _reason(error: Exception) -> str:
    if isinstance(error, KeyError | IndexError | EOFError):  # of torch, in the middle of bytes that mean nothing
        return "it cannot be decoded"
    if WEIGHTS_ONLY in str(error):
        return "it holds more than tensors, or is of another format"
    return (error.strerror if isinstance(error, OSError) and error.strerror else said(error))[:80]


def _remedy(error: Exception) -> str:
    """A pickled network would be code to run, so torch refuses to read it."""
    if isinstance(error, safetensors.SafetensorError | zipfile.BadZipFile):
        return "it is damaged or not such a file: copy it again"
    if WEIGHTS_ONLY in str(error):
        return "save the tensors alone: torch.save(model.state_dict(), FILE)"
    return "save one with torch.save"


def _unwrapped(contents: Any) -> dict[Any, Any]:
    """The state dictionary inside what a trainer saved beside it."""
    while isinstance(contents, dict):
        inner = next((contents[name] for name in WRAPPERS if isinstance(contents.get(name), dict)), None)
        if inner is None:
            return contents
        contents = inner
    return {}


def _holds_numbers(value: Tensor) -> bool:
    return value.layout == torch.strided and not value.is_quantized and not value.is_meta


def load_into(module: nn.Module, tensors: Mapping[str, Tensor], path: Path, option: str = "--weights") -> None:
    """Give a network the weights that were read from a file; a misfit is told before anything is changed."""
    own = module.state_dict()
    wanted = {name: value for name, value in own.items() if isinstance(value, Tensor)}
    found = renamed(tensors, wanted)
    _refuse_misfits(wanted, found, path, option)
    try:
        module.load_state_dict({**own, **found})
    except Exception as error:  # of a module that loads in a way of its own
        raise UserError(f"'{path}' does not load into the network ({said(error)}); choose other weights") from None


def renamed(tensors: Mapping[str, Tensor], wanted: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Under the names that a network has for them.

    What wrapped the network in training has put its name before all others. Where the layers have other names
    altogether, the same kinds and shapes in the same order are taken for the same layers.
    """
    found = dict(tensors)
    while (prefix := _shared_prefix(found)) and not any(name.startswith(prefix) for name in wanted):
        found = {name.removeprefix(prefix): value for name, value in found.items()}
    if found.keys() != wanted.keys() and _kinds(found) == _kinds(wanted):
        found = dict(zip(wanted, found.values(), strict=True))
    return found


def rows_of_the_last(tensors: Mapping[str, Tensor], module: nn.Module) -> int | None:
    """How many classes a file has: the rows of what the network's last matrix is called there."""
    own = module.state_dict()
    last = [name for name, value in own.items() if name.endswith("weight") and value.ndim in (2, 4)][-1]
    found = renamed(tensors, own).get(last)
    return None if found is None or found.ndim < 2 else len(found)


def _shared_prefix(names: Iterable[str]) -> str:
    first = {name.partition(".")[0] if "." in name else "" for name in names}
    return f"{first.pop()}." if len(first) == 1 and "" not in first else ""


def _kinds(tensors: Mapping[str, Tensor]) -> list[tuple[str, tuple[int, ...]]]:
    return [(name.rpartition(".")[2], _shape(value)) for name, value in tensors.items()]


def _shape(value: Tensor) -> tuple[int, ...]:
    return () if is_lazy(value) else tuple(value.shape)


def _refuse_misfits(wanted: Mapping[str, Tensor], found: Mapping[str, Tensor], path: Path, option: str) -> None:
    missing = [name for name in wanted if name not in found and not name.endswith(COUNTER)]
    surplus = [name for name in found if name not in wanted]
    others = {
        name: (_shape(found[name]), _shape(value))
        for name, value in wanted.items()
        if name in found and not is_lazy(value) and found[name].shape != value.shape
    }
    if not missing and not surplus and (classes := _classes(others)):
        theirs, ours = classes
        say = f"build it for {theirs} classes, or give other weights with {option}"
        raise UserError(f"'{path}' has {theirs} classes, and the network has {ours}; {say}")
    told = []
    if missing:
        told.append(f"it lacks {_listed(missing)}")
    if surplus:
        told.append(f"it has {_listed(surplus)}, which the network lacks")
    if others:
        shapes = [f"{name} of shape {_times(theirs)} for {_times(ours)}" for name, (theirs, ours) in others.items()]
        told.append(f"it has {_listed(shapes, quote='')}")
    if told:
        say = f"give the weights of this very network with {option}"
        raise UserError(f"'{path}' belongs to another network: {', and '.join(told)}; {say}")


def _classes(others: Mapping[str, tuple[tuple[int, ...], tuple[int, ...]]]) -> tuple[int, int] | None:
    """How many classes the file and the network have, where nothing but that differs: rows of one matrix and vector."""
    counts = {(theirs[:1], ours[:1]) for theirs, ours in others.values()}
    if len(counts) != 1 or len(others) > 2 or any(theirs[1:] != ours[1:] for theirs, ours in others.values()):
        return None
    ((theirs, ours),) = counts
    return (theirs[0], ours[0]) if theirs and ours else None


def _listed(names: list[str], quote: str = "'") -> str:
    shown = ", ".join(f"{quote}{name}{quote}" for name in names[:SHOWN])
    return shown if len(names) <= SHOWN else f"{shown} and {len(names) - SHOWN} more"


def _times(shape: tuple[int, ...]) -> str:
    return " x ".join(map(str, shape)) or "one number"
