"""Whether a result that others made was verified: for whatever shows results of different origin beside each other."""

import os
from functools import lru_cache
from pathlib import Path
from typing import Literal

from oodbench.results import submission
from oodbench.results.folder import COMMUNITY, SUBMISSION, collection_of
from oodbench.results.result import Unreadable
from oodbench.results.stored import SUFFIXES, files_of

Standing = Literal["verified", "reported"]


def standing(path: Path) -> Standing | None:
    """Of the JSON file of a result: "verified" if it lies in a submission that `oodbench verify` accepted and neither
    it nor its raw scores have changed since, "reported" for any other in a submission or in the community's collection,
    None for results that are not of the community.
    """
    homes = [parent for parent in path.parents if os.path.lexists(parent / SUBMISSION)]
    if not homes:
        return "reported" if any(collection_of(parent) == COMMUNITY for parent in path.parents) else None
    return "verified" if _is_verified(path, homes[0]) else "reported"


def _is_verified(path: Path, home: Path) -> bool:
    try:
        stated = (home / SUBMISSION).stat()
        verified = _verified_files(home, stated.st_mtime_ns, stated.st_size)
        own = {path.with_suffix(suffix) for suffix in SUFFIXES}
        for file in own | {*files_of(path).values()}:
            recorded = verified.get(file.relative_to(home).as_posix())
            if recorded != (submission.digest_of(file) if os.path.lexists(file) else None):
                return False
    except (OSError, Unreadable):
        return False
    return path.relative_to(home).as_posix() in verified


@lru_cache(maxsize=1_000)
def _verified_files(home: Path, changed: int, size: int) -> dict[str, str]:
    """The files of a submission with their digests, none if it was not verified. When and how large the file was is
    part of the call, for it may change.
    """
    found = submission.read(home)
    return {} if found.verified is None else found.files
