"""A submission: results that somebody sends, with what they claim. Which files it has, and the one that describes it.

    submission.json                     what it claims, and a digest of every other file
    methods/mine.py                     the text of each method that oodbench does not ship
    <suite>/<setting>/<method>/seed0-1e1b36fe.json, .safetensors, .jsonl; <suite>/<setting>/network-….safetensors
                            as in any results folder

As an archive it is sent; as a folder below `results/community` it stays. Nothing of it is ever imported or run.
"""

import json
import os
import re
from pathlib import Path
from typing import Any

import msgspec

from oodbench import digests
from oodbench.errors import UserError
from oodbench.results.folder import SUBMISSION
from oodbench.results.result import Unreadable
from oodbench.results.stored import NETWORK_FILE
from oodbench.user_files import read_regular

SCHEMA = 1
METHODS = "methods"  # the folder of the methods' files
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.+-]{0,79}")  # of a submission, which names a folder
LONGEST_NOTE = 2_000  # letters
_WORD = r"\w[\w.,=+-]{0,254}"
_FILE = re.compile(rf"{_WORD}/{_WORD}/{_WORD}/seed\d{{1,19}}-[0-9a-f]{{8}}(\.jsonl?|\.npz|\.safetensors)")
_NETWORK = re.compile(rf"{_WORD}/{_WORD}/{NETWORK_FILE.pattern}")
_METHOD = re.compile(rf"{METHODS}/\w[\w-]{{0,99}}\.py")
# Bytes that a file may have. The largest results of ours have 100,000, and their raw scores a million.
LIMITS = {".json": 2**22, ".jsonl": 2**25, ".npz": 2**28, ".safetensors": 2**28}
METHOD_LIMIT = 2**18
MANIFEST_LIMIT = 2**24


class Claim(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Of one suite: every one of these methods in every one of these settings under every one of these seeds."""

    suite: str
    preset: str | None
    methods: list[str]
    settings: list[str]
    seeds: list[int]
    draws: list[int]  # of a random search; [0] where there was none


class Verified(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What `oodbench verify` found when the submission was accepted."""

    oodbench: str  # its version
    held: list[str]  # the checks that held for every cell
    unchecked: list[str]  # what could not be checked for some


class Submission(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a submission says of itself."""

    name: str
    note: str
    oodbench: str  # the version that packed it
    claims: list[Claim]
    files: dict[str, str]  # the digest of every other file, by its path
    verified: Verified | None = None
    schema: int = SCHEMA


def limit_of(name: str) -> int | None:
    """The bytes that a file of a submission may have; None for a name that no such file has."""
    if name == SUBMISSION:
        return MANIFEST_LIMIT
    if _METHOD.fullmatch(name):
        return METHOD_LIMIT
    if _NETWORK.fullmatch(name):
        return LIMITS[".safetensors"]
    match = _FILE.fullmatch(name)
    return LIMITS[match[1]] if match else None


def digest_of(path: Path) -> str:
    """Of a file of a submission."""
    return digests.of_file(path, max(LIMITS.values()))


def as_json(submission: Submission) -> str:
    values: dict[str, Any] = msgspec.to_builtins(submission)
    return json.dumps(values, indent=1, sort_keys=True) + "\n"


def as_verified(submission: Submission, verified: Verified) -> Submission:
    return msgspec.structs.replace(submission, verified=verified)


def read(folder: Path) -> Submission:
    """What the submission in a folder says; `Unreadable` if it says nothing that can be believed."""
    path = folder / SUBMISSION
    try:
        found = msgspec.json.decode(read_regular(path, MANIFEST_LIMIT), type=Submission)
    except OSError as error:
        raise Unreadable(f"'{SUBMISSION}' cannot be read: {error.strerror}") from None
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise Unreadable(f"'{SUBMISSION}' is damaged: {str(error)[:100]}") from None
    if found.schema != SCHEMA:
        raise Unreadable(f"'{SUBMISSION}' has schema {found.schema}, and this oodbench reads schema {SCHEMA}")
    try:
        check_words(found.name, found.note)
    except UserError as error:
        raise Unreadable(f"'{SUBMISSION}': {error}") from None
    return found


def check_words(name: str, note: str) -> None:
    if not NAME.fullmatch(name):
        raise UserError(f"{name[:80]!r} cannot name a submission; letters, digits and any of _ . + - will do")
    if len(note) > LONGEST_NOTE or not note.isprintable():
        raise UserError(f"the note is not one line of at most {LONGEST_NOTE:,} letters; write less")


def files_below(folder: Path) -> tuple[list[str], list[str]]:
    """The files of a submission that lies in a folder, and whatever else is there; no link is followed."""
    names: list[str] = []
    strange: list[str] = []
    for parent, folders, files in os.walk(folder):
        for name in [*folders, *files]:
            path = Path(parent, name)
            inside = path.relative_to(folder).as_posix()
            if path.is_symlink() or (name in files and not path.is_file()):
                strange.append(inside)
            elif name in files:
                known = limit_of(inside)
                (strange if known is None or path.stat().st_size > known else names).append(inside)
    return sorted(names), sorted(strange)
