"""Sets of image files: decoded once and cached if that is small, otherwise whenever they are read."""

import json
import math
import os
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from oodbench import digests
from oodbench.data import store
from oodbench.data.decoder import Examined, code, decode, decode_whole, examine, in_threads
from oodbench.data.listing import Listing, by_class, images_below, read_list
from oodbench.data.preprocessing import Preprocessing, Sides
from oodbench.data.stored import Fetched, unofficial
from oodbench.data.untrusted.archives import is_archive, unpack
from oodbench.errors import UserError

CACHED_AT_MOST = 10**9  # bytes of pixels that are decoded once and cached; more is read from the files every time
AT_ONCE = 16  # images that a thread decodes before it asks for more

Step = Callable[[np.ndarray, np.ndarray], np.ndarray]  # images and their rows in the data set, to images


@dataclass(frozen=True, eq=False)
class Pictures:
    """Images that are decoded when they are read. Indexing chooses among them and reads nothing."""

    root: Path
    names: Sequence[str]  # of all files of the set
    size: int
    style: str
    rows: np.ndarray  # which of them these are
    steps: tuple[Step, ...] = ()
    channels: int = 3  # after the steps
    preprocessing: Preprocessing | None = (
        None  # of a network that says itself what it wants, in place of size and style
    )
    sides: Sides | None = None  # height and width after the steps, where these change them

    dtype: ClassVar[np.dtype[Any]] = np.dtype(np.uint8)

    def __len__(self) -> int:
        return len(self.rows)

    @classmethod
    def prepared(cls, root: Path, names: Sequence[str], preprocessing: Preprocessing) -> "Pictures":
        """All of these files as a network wants them, which says how large."""
        assert preprocessing.size is not None
        return cls(root, names, max(preprocessing.size), "", np.arange(len(names)), preprocessing=preprocessing)

    @property
    def decoded_sides(self) -> Sides:
        """Height and width before the steps."""
        own = None if self.preprocessing is None else self.preprocessing.size
        return own or (self.size, self.size)

    @property
    def shape(self) -> tuple[int, int, int, int]:
        return (len(self.rows), self.channels, *(self.sides or self.decoded_sides))

    def __getitem__(self, chosen: Any) -> "Pictures":
        """By a slice, row numbers or a mask."""
        rows = self.rows[chosen]
        if rows.ndim != 1:
            raise TypeError("pictures are chosen by a slice, a list of numbers or a mask")
        return replace(self, rows=rows)

    def then(self, step: Step, channels: int | None = None, sides: Sides | None = None) -> "Pictures":
        """The same pictures, with something done to their pixels after decoding, which may leave another shape."""
        steps = (*self.steps, step)
        return replace(self, steps=steps, channels=channels or self.channels, sides=sides or self.sides)

    def read(self) -> np.ndarray:
        """uint8, N x channels x height x width."""
        images = np.empty((len(self), 3, *self.decoded_sides), dtype=np.uint8)

        def fill(start: int) -> None:
            for i, row in enumerate(self.rows[start : start + AT_ONCE].tolist(), start):
                images[i] = self._decoded(row)

        for _ in in_threads(fill, range(0, len(images), AT_ONCE)):
            pass
        for step in self.steps:
            images = step(images, self.rows)
        return images

    def _decoded(self, row: int) -> np.ndarray:
        path = self.root / self.names[row]
        if self.preprocessing is not None:
            return decode_whole(path, self.preprocessing.apply)
        return decode(path, self.size, self.style, row)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        if copy is False:
            raise ValueError("pictures are decoded into a new array")
        return self.read().astype(dtype or self.dtype, copy=False)


@dataclass(frozen=True)
class Index:
    """What is known of a set without opening its images."""

    root: str  # of the user's folder, or inside the set's own
    names: list[str]
    labels: list[int]
    in_test: list[bool]
    classes: list[str]
    lengths: list[int]  # of the files, in bytes
    kind: str  # the commonest format and size
    of_kind: int  # images of that kind
    fingerprint: str  # of names, labels, parts and the content of the files
    stamp: str  # of the files as they were looked at, for a folder that may change
    pixels: list[str] = field(default_factory=list)  # a digest of what each image shows; an older index has none

    def __post_init__(self) -> None:
        if len({len(self.names), len(self.labels), len(self.in_test), len(self.lengths)}) != 1 or not self.names:
            raise ValueError("its lists differ in length")
        if self.pixels and len(self.pixels) != len(self.names):
            raise ValueError("its lists differ in length")


class PictureSet(Fetched):
    """A set of image files, in the user's folder or unpacked into the data folder."""

    has_test_part = False
    mean, std = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)  # ImageNet's, as is usual for photographs
    style: ClassVar[str]  # how an image becomes a square
    size: ClassVar[int]  # of the square, if no other is asked for
    rows: ClassVar[tuple[int | None, int]]  # official, of the train and the test part; None if nobody has noted it
    num_classes: ClassVar[int]  # official
    pixels: ClassVar[str | None] = None  # official size of all images, if they have one

    def arrange(self, root: Path, names: list[str]) -> Listing:
        """Labels and parts from the places of the files."""
        listing = by_class(root, names)
        return listing if self.has_test_part else replace(listing, in_test=(False,) * len(listing.names))

    def read_list(self, path: Path) -> Listing:
        """The same from an image list."""
        listing = read_list(path)
        if max(listing.labels) >= self.num_classes:
            last = self.num_classes - 1
            raise UserError(f"'{path}' holds the label {max(listing.labels)}; '{self.name}' has labels 0 to {last}")
        return listing

    @property
    def key(self) -> str:
        """The name of its folder in the data folder."""
        return self.name

    @property
    def home(self) -> Path:
        return store.data_folder() / self.key

    @cached_property
    def index(self) -> Index:
        if store.entry(self.key) is None:
            raise UserError(f"the data set '{self.name}' is not in '{store.data_folder()}'; {self._remedy()}")
        try:
            return read_index(self.home)
        except NO_INDEX:
            raise UserError(f"'{self.home}' is damaged; {self._remedy()}") from None

    def _remedy(self) -> str:
        if self.sources:
            return f"get it with: oodbench data get {self.name}"
        return f"add what you have: oodbench data add {self.name} PATH"

    @property
    def root(self) -> Path:
        return self.home / self.index.root  # which is absolute if the files are the user's

    @property
    def fingerprint(self) -> str:  # of what the index says, also after another `add`
        return self.index.fingerprint

    @property
    def class_names(self) -> tuple[str, ...]:  # type: ignore[override]
        return tuple(self.index.classes)

    def files(self) -> list[Path]:
        return [self.root / name for name in self.index.names]

    def labels(self) -> np.ndarray:
        return np.array(self.index.labels, dtype=np.int64)

    def in_test(self) -> np.ndarray:
        return np.array(self.index.in_test, dtype=bool)

    def pictures(self, size: int) -> Pictures:
        """All rows, decoded when they are read."""
        return Pictures(self.root, self.index.names, size, self.style, np.arange(len(self.index.names)))

    def arrays(self, size: int | None) -> tuple[Any, np.ndarray, np.ndarray]:
        pictures = self.pictures(size or self.size)
        images: Any = pictures
        if math.prod(pictures.shape) <= CACHED_AT_MOST:
            version = f"{self.fingerprint} {code()}"
            images = store.cached_array(f"{self.key}-{pictures.size}-{self.style}", version, pictures.read)
        return images, self.labels(), self.in_test()

    def load(self) -> tuple[Any, np.ndarray, np.ndarray]:
        return self.arrays(None)

    def jpeg_at(self, size: int) -> bool:
        """Whether most files are JPEGs of just this size: what the encoder did to them then reaches the network."""
        return self.index.kind == f"JPEG {size}x{size}" and 2 * self.index.of_kind > len(self.index.names)

    def is_there(self) -> bool:
        if store.entry(self.key) is None:
            return False
        gone = self.gone(self.index)
        if gone:
            raise UserError(
                f"{len(gone):,} of the {len(self.index.names):,} images of '{self.name}' are gone from '{self.root}' "
                f"or have changed, the first '{gone[0]}'; put them back, or {self._remedy()}"
            )
        return True

    def gone(self, index: Index) -> list[str]:
        """The files that are no longer there, or of another length."""
        root, gone = self.home / index.root, []
        for name, length in zip(index.names, index.lengths, strict=True):
            try:
                intact = os.stat(root / name).st_size == length
            except OSError:
                intact = False
            if not intact:
                gone.append(name)
        return gone

    def state(self) -> tuple[str, str]:
        try:
            if not self.is_there():
                return "missing", f"not in {self.home}; {self._remedy()}"
            entry = store.entry(self.key)
            assert entry is not None
        except UserError as error:
            return "broken", str(error)
        word = "differs" if self.deviation_of(self.index) else "present"
        return word, f"{self.summary(entry)}, {entry.provenance}, in {self.root}"

    def summary(self, entry: store.Entry) -> str:
        deviation = self.deviation_of(self.index)
        verdict = f": NOT the official content ({deviation})" if deviation else ""
        return f"{entry.rows:,} images, {len(self.index.classes):,} classes, {entry.fingerprint}{verdict}"

    def deviation_of(self, index: Index) -> str:
        """How a set differs from the official one; empty if it does not, as far as counts and sizes tell."""
        test = sum(index.in_test)
        counts = (len(index.names) - test, test)
        if counts[1] != self.rows[1] or self.rows[0] not in (None, counts[0]):
            official = " and ".join("any number" if count is None else f"{count:,}" for count in self.rows)
            return f"{counts[0]:,} and {counts[1]:,} images to train and test, officially {official}"
        if len(index.classes) not in (1, self.num_classes):  # one if they lie in one folder
            return f"{len(index.classes):,} classes, officially {self.num_classes:,}"
        size = index.kind.rpartition(" ")[2]
        if self.pixels not in (None, size):
            return f"images of {size}, officially {self.pixels}"
        return ""

    def stored_paths(self) -> list[Path]:
        """With the decoded images, by size and style."""
        decoded = store.data_folder().glob(f"kept/{self.key}-[0-9]*-{self.style}-{'[0-9a-f]' * 12}.npy")
        return [*super().stored_paths(), *sorted(decoded)]

    def take(self, path: Path, work: Path, source: str, official_only: bool = False) -> Callable[[], store.Entry]:
        if self.home.absolute() in (path.absolute(), *path.absolute().parents):
            raise UserError(f"'{path}' is where '{self.name}' is kept; give the folder or archive that it came from")
        return self._take(path, work, source, "", official_only)

    def _take(
        self, path: Path, work: Path, source: str, stamp: str, official_only: bool = False
    ) -> Callable[[], store.Entry]:
        if path.is_dir():
            listing = self.arrange(path, images_below(path))
            examined = examine_all(listing)
        elif is_archive(path):
            work.mkdir()
            try:
                unpack(path, work)
                listing = self.arrange(work, images_below(work))
                examined = examine_all(listing)
            except UserError as error:
                raise UserError(str(error).replace(str(work), str(path))) from None
        else:
            listing = self.read_list(path)
            examined = examine_all(listing)
        ours = work.parent in listing.root.parents  # unpacked or fetched, and not the user's
        ((kind, of_kind),) = Counter(each.kind for each in examined).most_common(1)
        index = Index(
            root="files" if ours else str(listing.root.absolute()),
            names=list(listing.names),
            labels=list(listing.labels),
            in_test=list(listing.in_test),
            classes=list(listing.classes),
            lengths=[each.length for each in examined],
            kind=kind,
            of_kind=of_kind,
            fingerprint=_fingerprint(listing, examined),
            stamp=stamp,
            pixels=[each.pixels.hex() for each in examined],
        )
        if official_only and self.deviation_of(index):
            raise unofficial(path, self.name, self.deviation_of(index))
        return partial(self._save, index, listing.root if ours else None, source)

    def _save(self, index: Index, files: Path | None, source: str) -> store.Entry:
        entry = store.Entry(index.fingerprint, source, len(index.names))
        with store.working_folder() as work:
            try:
                fresh = work / self.key
                fresh.mkdir()
                if files is not None:
                    os.replace(files, fresh / "files")
                (fresh / "index.json").write_text(json.dumps(asdict(index)))
                (fresh / "meta.json").write_text(json.dumps(asdict(entry), indent=1))
                store.put(self.key, work)
            except OSError as error:
                raise UserError(
                    f"cannot write '{self.home}': {error.strerror}; free space or set OODBENCH_DATA"
                ) from None
        for known in ("index", "_loaded"):  # of what was there before
            self.__dict__.pop(known, None)
        return entry


def read_index(home: Path) -> Index:
    """That of a set's folder in the data folder."""
    return Index(**json.loads((home / "index.json").read_bytes()))


NO_INDEX = (OSError, ValueError, TypeError, RecursionError)  # not there, or damaged


def _fingerprint(listing: Listing, examined: Sequence[Examined]) -> str:
    rows = zip(listing.names, listing.labels, listing.in_test, examined, strict=True)
    return digests.of_pieces(
        repr((os.fsencode(name), label, test)).encode() + each.digest for name, label, test, each in rows
    )


def examine_all(listing: Listing) -> list[Examined]:
    """Every file read and decoded once, so that none stops a training; UserError that says how many are broken."""

    def one(name: str) -> Examined | UserError:
        try:
            return examine(listing.root / name)
        except UserError as error:
            return error

    examined, broken = [], []
    for each in in_threads(one, listing.names):
        if isinstance(each, UserError):
            broken.append(each)
        else:
            examined.append(each)
    if len(broken) > 1:
        raise UserError(f"{len(broken):,} of {len(listing.names):,} images are broken, the first: {broken[0]}")
    if broken:
        raise broken[0]
    return examined
