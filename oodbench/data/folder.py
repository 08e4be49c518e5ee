"""Any folder of images, archive or image list as a data set, without registering it."""

import os
from functools import cached_property
from glob import escape
from pathlib import Path

from oodbench import digests
from oodbench.data import store
from oodbench.data.listing import Listing, by_class, images_below, read_list
from oodbench.data.pictures import NO_INDEX, Index, PictureSet, read_index
from oodbench.data.sources import SILENT, Listener
from oodbench.data.stored import existing
from oodbench.data.untrusted.archives import is_archive
from oodbench.errors import UserError


class Folder(PictureSet):
    """Images that the user has. They are indexed when first used, and again when they have changed."""

    style = "centre"

    def __init__(self, path: Path) -> None:
        self.path = path
        # Results tell what it was, not where, and they are UTF-8, which a name need not be.
        name = os.fsencode(path.absolute().name).decode(errors="backslashreplace")
        self.name = f"folder:{name}"  # type: ignore[misc]
        self.source = "a folder of images"  # type: ignore[misc]

    @property
    def key(self) -> str:
        return f"folder-{digests.of_bytes(os.fsencode(self.path.absolute()))[:12]}"

    @property
    def has_test_part(self) -> bool:  # type: ignore[override]
        return any(self.index.in_test)

    @property
    def size(self) -> int:  # type: ignore[override]
        """The short side of most of its images."""
        return min(map(int, self.index.kind.rpartition(" ")[2].split("x")))

    def arrange(self, root: Path, names: list[str]) -> Listing:
        return by_class(root, names)

    def read_list(self, path: Path) -> Listing:
        return read_list(path)

    def deviation_of(self, index: Index) -> str:
        return ""

    @cached_property
    def index(self) -> Index:
        stamp = self._stamp()
        try:
            index = read_index(self.home)
            if index.stamp == stamp and index.pixels and store.entry(self.key) is not None and not self.gone(index):
                return index
        except (*NO_INDEX, UserError):
            pass
        with store.working_folder() as work:
            self._take(self.path, work / "unpacked", str(self.path.absolute()), stamp)()
        return read_index(self.home)

    def _stamp(self) -> str:
        """Changes when a file comes, goes or is written to."""
        path = existing(self.path, self.name)
        if path.is_dir():
            files = [path / name for name in images_below(path)]
        elif is_archive(path):
            files = [path]
        else:
            listing = read_list(path)
            files = [path, *(listing.root / name for name in listing.names)]
        return digests.of_pieces(map(_state, files))

    def is_there(self) -> bool:
        return bool(self.index.names)

    def get(self, listener: Listener = SILENT, expected: str | None = None) -> store.Entry:
        """There is nowhere to get it from; what is wrong with it is said."""
        return store.Entry(self.fingerprint, self.source, len(self.index.names))


def gone() -> dict[Path, list[Path]]:
    """Folders of users that are no longer there, and what the data folder holds of each."""
    stored: dict[Path, list[Path]] = {}  # by where the images were, all that is stored of them
    for place in sorted(store.data_folder().glob("folder-*")):
        source = _source(place)
        if source is not None:
            stored.setdefault(source, []).append(place)
    missing = {source for source in stored if _is_gone(source)}
    names = {source: Folder(source).name for source in stored}
    for source in missing:
        known_by = [place.name for place in stored[source]]
        # What was computed of ID images bears the name of their folder, which may be that of another one too.
        if not any(names[other].startswith(names[source]) for other in stored.keys() - missing):
            known_by.append(names[source])
        kept = {path for name in known_by for path in (store.data_folder() / "kept").glob(f"{escape(name)}-*.npy")}
        stored[source] = [*sorted(kept), *stored[source]]  # the index goes last: it says whose the others are
    return {source: stored[source] for source in sorted(missing)}


def _source(place: Path) -> Path | None:
    """The folder, archive or list that a set was read from; None if that cannot be told."""
    try:
        entry = store.entry(place.name)
        # Earlier versions noted the path as it was typed; where the images are is then in the index.
        paths = [Path(entry.source), Path(read_index(place).root)] if entry is not None else []
    except (*NO_INDEX, UserError):
        return None
    return next((path for path in paths if path.is_absolute()), None)


def _is_gone(path: Path) -> bool:
    """And not merely closed to us."""
    try:
        path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return True
    except OSError:
        pass
    return False


def _state(file: Path) -> bytes:
    status = file.stat() if os.path.exists(file) else None  # of a link to nothing, which is reported when it is read
    return repr((os.fsencode(file), status and (status.st_size, status.st_mtime_ns))).encode()
