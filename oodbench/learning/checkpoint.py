"""The file that a killed training resumes from, and the reading of tensors that we wrote."""

import time
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

import torch

from oodbench.files import write_atomically


class Stateful(Protocol):
    """A module or an optimiser."""

    def state_dict(self) -> dict[str, Any]: ...
    def load_state_dict(self, state_dict: Any, /) -> Any: ...


class Saver:
    """Writes checkpoints and reads them back."""

    def __init__(self, path: Path | None, state: Sequence[Stateful], log: list[dict[str, Any]]) -> None:
        self.path, self.state, self.log = path, state, log
        self.saved_at, self.cost = time.perf_counter(), 0.0

    def save(self, epoch: int, always: bool = False) -> None:
        """Save, unless that would take more than 2 % of the time."""
        now = time.perf_counter()
        if self.path is None or (now - self.saved_at < 50 * self.cost and not always):
            return
        contents = {"epoch": epoch, "state": [each.state_dict() for each in self.state], "log": self.log}
        write_atomically(self.path, lambda file: torch.save(contents, file))
        self.saved_at = time.perf_counter()
        self.cost = self.saved_at - now

    def restore(self, device: torch.device) -> int:
        """Load the checkpoint if there is one; the epoch to go on with."""
        contents = None if self.path is None else load_tensors(self.path, device)
        if not isinstance(contents, dict) or contents.keys() != {"epoch", "state", "log"}:
            return 0
        for each, values in zip(self.state, contents["state"], strict=True):
            each.load_state_dict(values)
        self.log[:] = contents["log"]
        return contents["epoch"]


def load_tensors(path: Path, device: torch.device) -> dict[str, Any] | None:
    """Weights or a checkpoint of ours; None if missing or damaged, since both can be made again."""
    try:
        with zipfile.ZipFile(path) as archive:
            if archive.testzip() is not None:  # torch.load does not compare the checksums
                return None
        return torch.load(path, map_location=device, weights_only=True)
    except Exception:
        return None
