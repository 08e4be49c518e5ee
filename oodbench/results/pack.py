"""A collection of results in one file, which is only read: `oodbench pack` writes it. Imports no torch.

    pack.json              the path of every result in the folder that it comes from, and the digest of its log
    results.json-seq       their JSON, each behind a record separator (RFC 7464), in the same order
    arrays/<digest>.npy    every array that they name, once
    logs/<digest>.jsonl    every log, once

A pack made with `--ranks` has joint ranks in place of scores, and so say its results: order and ties are there, and
every metric follows from them, but no value does.
"""

import io
import json
import os
import zipfile
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import numpy as np

import oodbench
from oodbench import digests
from oodbench.errors import UserError
from oodbench.files import write_atomically
from oodbench.results.raw_scores import LARGEST, Arrays, Unreadable, digest_of, digests_of, network_digest, ranked
from oodbench.results.result import RESULT_LIMIT, Result, as_json, from_json

ENDING = ".pack.zip"
SCHEMA = 1
INDEX, TEXTS = "pack.json", "results.json-seq"
SEPARATOR = b"\x1e"
EPOCH = (1980, 1, 1, 0, 0, 0)  # the first moment that zip knows: the same results give the same bytes
TEXTS_LIMIT = 2**31  # bytes of the JSON of all results
DAMAGE = (zipfile.BadZipFile, zlib.error, EOFError, ValueError, NotImplementedError, RuntimeError, MemoryError)


class _Entry(msgspec.Struct, frozen=True):
    path: str
    log: str | None


class _Index(msgspec.Struct, frozen=True):
    schema: int
    oodbench: str  # the version that packed it
    results: list[_Entry]


def is_pack(path: Path) -> bool:
    return path.name.endswith(ENDING) and path.is_file()


def refuse(path: Path, what: str) -> None:
    """Packs are only read."""
    if is_pack(path):
        raise UserError(f"'{path}' is a pack, which is only read; {what}")


class Member(NamedTuple):
    """A result with its path in the folder, its arrays and its log."""

    result: Result
    path: str
    arrays: Arrays
    log: bytes


def write(path: Path, members: Iterable[Member], ranks: bool = False) -> None:
    """Results in one file, with `ranks` in place of scores."""
    contents: dict[str, bytes] = {}
    entries, texts = list[_Entry](), list[bytes]()
    for result, place, arrays, log in members:
        if ranks and arrays:
            arrays, result = ranked(arrays), replace(result, ranks=True)
        named = digests_of(arrays)
        for name, digest in named.items():
            contents.setdefault(f"arrays/{digest}.npy", _as_npy(arrays[name]))
        if log:
            contents[f"logs/{digests.of_bytes(log)}.jsonl"] = log
        entries.append(_Entry(place, digests.of_bytes(log) if log else None))
        texts.append(SEPARATOR + as_json(replace(result, arrays=named, network=network_digest(named))).encode())
    index = _Index(SCHEMA, oodbench.__version__, entries)
    files = {INDEX: msgspec.json.encode(index), TEXTS: b"".join(texts), **dict(sorted(contents.items()))}

    def fill(file: Any) -> None:
        with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as packed:
            for name, content in files.items():
                member = zipfile.ZipInfo(name, EPOCH)
                member.external_attr = 0o100644 << 16
                packed.writestr(member, content, zipfile.ZIP_DEFLATED, 9)

    write_atomically(path, fill)


def _as_npy(array: np.ndarray) -> bytes:
    file = io.BytesIO()
    np.lib.format.write_array(file, np.ascontiguousarray(array), version=(1, 0), allow_pickle=False)
    return file.getvalue()


def read(path: Path) -> tuple[list[Result], dict[Path, str]]:
    """Its results, and what of it could not be read and why."""
    results, problems = list[Result](), dict[Path, str]()
    try:
        index = _index(path)
        with _opened(path) as packed:
            texts = _member(packed, TEXTS, TEXTS_LIMIT).split(SEPARATOR)[1:]
    except Unreadable as reason:
        return [], {path: str(reason)}
    if len(texts) != len(index.results):
        return [], {path: f"damaged: {len(texts)} results, and its index names {len(index.results)}"}
    for entry, text in zip(index.results, texts, strict=True):
        place = path / entry.path
        try:
            results.append(replace(from_json(text, place), pack=path))
        except Unreadable as reason:
            problems[place] = str(reason)
    return results, problems


def arrays_of(result: Result) -> Arrays:
    """The arrays that a result of a pack names; `Unreadable` if one is missing, or another."""
    assert result.pack is not None
    arrays = Arrays()
    with _opened(result.pack) as packed:
        for name, digest in result.arrays.items():
            content = io.BytesIO(_member(packed, f"arrays/{digest}.npy", LARGEST))
            try:
                array = np.lib.format.read_array(content, allow_pickle=False)
            except DAMAGE as error:
                raise Unreadable(f"damaged: '{name}': {str(error)[:100]}") from None
            if digest_of(array) != digest:
                raise Unreadable(f"damaged: '{name}' is not what the result names")
            arrays[name] = array
    return arrays


def log_of(result: Result) -> bytes | None:
    """The log of the training of a result of a pack; None if it has none."""
    assert result.pack is not None and result.path is not None
    digest = _logs(result.pack, *_stamp(result.pack)).get(result.path.relative_to(result.pack).as_posix())
    if digest is None:
        return None
    with _opened(result.pack) as packed:
        content = _member(packed, f"logs/{digest}.jsonl", RESULT_LIMIT)
    if digests.of_bytes(content) != digest:
        raise Unreadable("damaged: its log is not what the pack names")
    return content


@lru_cache(maxsize=64)
def _logs(path: Path, changed: int, size: int) -> dict[str, str | None]:
    return {entry.path: entry.log for entry in _index(path).results}


def _index(path: Path) -> _Index:
    with _opened(path) as packed:
        content = _member(packed, INDEX, TEXTS_LIMIT)
    try:
        schema = json.loads(content)["schema"]
        if schema != SCHEMA:
            raise Unreadable(f"a pack of schema {schema}, and this oodbench reads {SCHEMA}; upgrade oodbench")
        return msgspec.json.decode(content, type=_Index)
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise Unreadable(f"damaged: '{INDEX}': {str(error)[:100]}") from None


def _member(packed: zipfile.ZipFile, name: str, most: int) -> bytes:
    try:
        if packed.getinfo(name).file_size > most:
            raise Unreadable(f"damaged: '{name}' has more than {most:,} bytes")
        return packed.read(name)
    except KeyError:
        raise Unreadable(f"damaged: '{name}' is missing") from None
    except DAMAGE as error:
        raise Unreadable(f"damaged: '{name}': {str(error)[:100]}") from None


@contextmanager
def _opened(path: Path) -> Iterator[zipfile.ZipFile]:
    """The pack, whose table of contents is read once."""
    try:
        yield _open(path, *_stamp(path), os.getpid())
    except OSError as error:
        raise Unreadable(f"cannot be read: {error.strerror}") from None


def _stamp(path: Path) -> tuple[int, int]:
    stated = os.stat(path)
    return stated.st_mtime_ns, stated.st_size


@lru_cache(maxsize=16)
def _open(path: Path, changed: int, size: int, process: int) -> zipfile.ZipFile:
    """Of a process, for a fork would share its place in the file."""
    try:
        return zipfile.ZipFile(path)
    except DAMAGE as error:
        raise Unreadable(f"damaged: {str(error)[:100]}") from None
