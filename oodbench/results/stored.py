"""What lies on the disk of a result: its JSON, raw scores, what its network shares, its log. Imports no torch.

<results>/<suite>[-<preset>]/<setting>/
    <method>/seed<seed>-<key>.json, .safetensors (raw scores) and .jsonl (log of the training)
    network-<digest>.safetensors (labels, predictions and confidences of a network, for all its scorers)

The JSON is written last: a result that exists is complete. What a network shares is written before the first result
that names it and goes with the last one; a lock keeps whoever writes a result apart from whoever tidies up. A result of
schema 2 has an `.npz` with all arrays instead, and one in a pack has no files of its own.
"""

import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from oodbench.files import CannotWrite, NoLocks, locked, write_bytes
from oodbench.results import pack, schema_2
from oodbench.results.metrics import Scored
from oodbench.results.raw_scores import (
    LARGEST,
    Arrays,
    Unreadable,
    arrays_of,
    by_split,
    checked,
    digests_of,
    is_own,
    network_digest,
    packed,
    unpacked,
)
from oodbench.results.result import RESULT_LIMIT, Result, as_json, read
from oodbench.user_files import read_regular

SCORES, LOG = ".safetensors", ".jsonl"
SUFFIXES = (".json", SCORES, ".npz", LOG)  # of the files that are a cell's alone
NETWORK = re.compile(rb'\n "network": "([0-9a-f]{16})"')  # in the JSON of a result
NETWORK_FILE = re.compile(r"network-[0-9a-f]{16}\.safetensors")
LOCK = ".arrays.lock"  # in a results folder


def file_of(folder: Path, suite: str, setting: str, method: str, seed: int, key: str) -> Path:
    """Where the result of a cell lies in a results folder."""
    method = re.sub(r"[^\w.,=+-]", "_", method)[:200]  # a hyperparameter may be any text
    return folder / suite / setting / method / f"seed{seed}-{key[:8]}.json"


def network_file(path: Path, network: str) -> Path:
    """Of what the scorers of a network share, beside the folders of the methods; `path` is that of a result."""
    return path.parent.parent / f"network-{network}{SCORES}"


def write(result: Result, path: Path, scores: Mapping[str, Scored], log: list[dict[str, Any]]) -> Result:
    """The result as it is in its file."""
    return write_arrays(result, path, arrays_of(scores), _as_lines(log))


def write_arrays(result: Result, path: Path, arrays: Arrays, log: bytes) -> Result:
    named = digests_of(arrays)
    result = replace(result, arrays=named, network=network_digest(named))
    files = {".json": as_json(result).encode()}
    if arrays:
        files[SCORES] = packed({name: array for name, array in arrays.items() if is_own(name)})
    if result.network is not None:
        shared = {name: array for name, array in arrays.items() if not is_own(name)}
        files[network_file(path, result.network).name] = packed(shared)
    if log:
        files[LOG] = log
    place(path, files)
    return replace(result, path=path)


def _as_lines(log: list[dict[str, Any]]) -> bytes:
    return "".join(json.dumps(record) + "\n" for record in log).encode()


def files_of(path: Path) -> dict[str, Path]:
    """The files of a result, by suffix, and the one that it shares, by name."""
    files = {suffix: path.with_suffix(suffix) for suffix in SUFFIXES}
    network = _network_of(path)
    if network is not None:
        files[network_file(path, network).name] = network_file(path, network)
    return {name: file for name, file in files.items() if os.path.lexists(file)}


def place(path: Path, files: Mapping[str, bytes]) -> None:
    """Write the files of a result, named as `files_of` does, in place of those that are there."""
    with _arrays_held(path):
        before = _network_of(path)
        _keep_unreadable(path)
        for name, content in files.items():
            if not name.startswith("."):
                _write_shared(path.parent.parent / name, content)
        for suffix in (SCORES, ".npz", LOG):
            if suffix in files:
                write_bytes(path.with_suffix(suffix), files[suffix], followed=True)
        write_bytes(path, files[".json"])
        for suffix in {*SUFFIXES} - {*files}:  # of what stood here
            with suppress(OSError):
                path.with_suffix(suffix).unlink()
        if before is not None and network_file(path, before).name not in files:
            _drop_unnamed(path.parent.parent, before)


def _write_shared(file: Path, content: bytes) -> None:
    """Equal whoever writes it; what a disk has made of it since is mended."""
    with suppress(OSError):
        if read_regular(file, LARGEST) == content:
            return
    write_bytes(file, content)


def copy(result: Result, path: Path) -> None:
    """Write a result, as it was read, in another place; OSError or `Unreadable` where its files cannot be read."""
    assert result.path is not None
    if result.pack is not None:
        write_arrays(result, path, *contents_of(result))
        return
    place(path, {name: read_regular(file, RESULT_LIMIT) for name, file in files_of(result.path).items()})


def remove(results: Iterable[Result], folder: Path) -> None:
    """Delete results with their files, and the folders that this leaves empty. The JSON goes first: one that exists is
    complete."""
    for result in results:
        assert result.path is not None
        with _arrays_held(result.path):
            network = _network_of(result.path)
            for suffix in SUFFIXES:
                result.path.with_suffix(suffix).unlink(missing_ok=True)
            if network is not None:
                _drop_unnamed(result.path.parent.parent, network)
            for parent in result.path.parents:
                if parent == folder or any(parent.iterdir()):
                    break
                parent.rmdir()


@contextmanager
def _arrays_held(path: Path) -> Iterator[None]:
    """The lock of what networks share in a results folder; `path` is that of a result.

    Where the file system has no locks, which whoever holds a training says, nobody else is expected.
    """
    lock = path.absolute().parents[3] / LOCK
    with ExitStack() as held:
        try:
            held.enter_context(locked(lock, wait=True))
        except NoLocks:
            pass
        except OSError as error:
            raise CannotWrite(
                f"cannot write '{lock}': {error.strerror}; fix permissions or choose another folder"
            ) from None
        yield


def _network_of(path: Path) -> str | None:
    """The network that the file of a result names, whatever else is in it."""
    with suppress(OSError):
        found = NETWORK.search(read_regular(path, RESULT_LIMIT))
        return None if found is None else found[1].decode()
    return None


def _drop_unnamed(setting: Path, network: str) -> None:
    """Delete what a network shares unless a result of the setting still names it."""
    if not any(_network_of(path) == network for path in setting.glob("*/*.json")):
        with suppress(OSError):
            (setting / f"network-{network}{SCORES}").unlink()


def read_scores(result: Result) -> dict[str, Scored]:
    """The raw scores and predictions of a result, by split, for any metric one may think of later.

    `FileNotFoundError` if there are none, `Unreadable` if they are not what the result names.
    """
    if result.pack is not None and result.arrays:
        return by_split(pack.arrays_of(result))
    if result.path is None or not (result.arrays or result.schema == schema_2.SCHEMA):
        raise FileNotFoundError(result.path)
    if result.schema == schema_2.SCHEMA:
        return schema_2.read_scores(result.path)
    return checked(result.arrays, _arrays_in(result))


def contents_of(result: Result) -> tuple[Arrays, bytes]:
    """Its arrays and its log as they are stored, empty where there are none; `Unreadable` for other arrays."""
    assert result.path is not None
    if result.pack is not None:
        return pack.arrays_of(result), pack.log_of(result) or b""
    arrays, log = Arrays(), b""
    with suppress(FileNotFoundError):
        arrays = arrays_of(read_scores(result))
    with suppress(FileNotFoundError):
        log = read_regular(result.path.with_suffix(LOG), RESULT_LIMIT)
    return arrays, log


def _arrays_in(result: Result) -> Arrays:
    """Of a folder, whatever they are."""
    assert result.path is not None
    files = [result.path.with_suffix(SCORES)]
    files += [] if result.network is None else [network_file(result.path, result.network)]
    arrays = Arrays()
    for file in files:
        try:
            arrays |= unpacked(read_regular(file, LARGEST))
        except FileNotFoundError:
            raise FileNotFoundError(file) from None
        except OSError as error:
            raise Unreadable(f"cannot be read: {error.strerror}") from None
    return arrays


def read_log(result: Result) -> list[dict[str, Any]]:
    """A record for every epoch of its training; `FileNotFoundError` without one, `Unreadable` for what is no log."""
    if result.path is None:
        raise FileNotFoundError(result.path)
    if result.pack is None:
        return log_in(result.path.with_suffix(LOG))
    content = pack.log_of(result)
    if content is None:
        raise FileNotFoundError(result.path.with_suffix(LOG))
    return _records(content)


def log_in(file: Path) -> list[dict[str, Any]]:
    try:
        return _records(read_regular(file, RESULT_LIMIT))
    except FileNotFoundError:
        raise
    except OSError as error:
        raise Unreadable(f"cannot be read: {error.strerror}") from None


def _records(content: bytes) -> list[dict[str, Any]]:
    try:
        records = [json.loads(line) for line in content.splitlines() if line.strip()]
    except (ValueError, RecursionError):
        raise Unreadable("not the log of a training") from None
    if not all(isinstance(record, dict) for record in records):
        raise Unreadable("not the log of a training")
    return records


def link_among(path: Path) -> str | None:
    """The name of a file of a result that is a link: in results of others it may lead to any file of the reader's."""
    return next((file.name for file in files_of(path).values() if file.is_symlink()), None)


def _keep_unreadable(path: Path) -> None:
    """A file that stands where the result goes, but is none, is moved aside and not lost."""
    try:
        if path.exists() and not _is_readable(path):
            aside, n = path.with_suffix(".json.unreadable"), 1
            while aside.exists():
                aside, n = path.with_suffix(f".json.unreadable{n}"), n + 1
            os.replace(path, aside)
    except OSError as error:
        raise CannotWrite(
            f"cannot write '{path}': {error.strerror}; fix permissions or choose another folder"
        ) from None


def _is_readable(path: Path) -> bool:
    try:
        read(path)
    except Unreadable:
        return False
    return True
