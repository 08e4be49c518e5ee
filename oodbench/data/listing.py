"""Which files a folder or an image list holds, and what the places of images say: class, and train or test."""

import os
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from oodbench.errors import UserError, shortened
from oodbench.user_files import read_regular

ENDINGS = (".jpg", ".jpeg", ".png", ".ppm", ".bmp", ".pgm", ".tif", ".tiff", ".webp")  # torchvision's
TEST_FOLDERS = ("test", "val")  # the first that is there
PICTURES = ("images_classic", "images_largescale")  # where OpenOOD has the pictures of its lists
MOST_CLASSES = 100_000  # in an image list; more is no label
LIST_LIMIT = 2**28  # bytes of one; that of ImageNet has 60 million


@dataclass(frozen=True)
class Listing:
    """Image files with their labels."""

    root: Path
    names: tuple[str, ...]  # below the root, with / between folders
    labels: tuple[int, ...]
    in_test: tuple[bool, ...]
    classes: tuple[str, ...]


def is_whole(where: Path, present: Mapping[str, object], needed: str) -> bool:
    """Whether all files of a layout are there, by what is there of each; UserError if only some are."""
    lacking = [name for name, there in present.items() if not there]
    if 0 < len(lacking) < len(present):
        raise UserError(f"'{where}' lacks '{lacking[0]}'; {needed} are needed")
    return not lacking


def holds(folder: Path, names: Sequence[str], needed: str | None = None) -> bool:
    """`is_whole` for these files in a folder."""
    return is_whole(folder, {name: (folder / name).is_file() for name in names}, needed or f"all of {', '.join(names)}")


def images_below(folder: Path) -> list[str]:
    """Every file with the ending of an image, links followed, hidden ones left out; UserError if there is none."""
    names: list[str] = []

    def walk(inner: Path, prefix: str, above: tuple[tuple[int, int], ...]) -> None:
        try:
            status = inner.stat()
            here = (status.st_dev, status.st_ino)
            if here in above:  # a link to a folder that it lies in
                return
            entries = sorted(os.scandir(inner), key=lambda entry: entry.name)
            for entry in entries:
                if entry.name.startswith(".") or entry.name == "__MACOSX":
                    continue
                if _is_folder(entry):
                    walk(inner / entry.name, f"{prefix}{entry.name}/", (*above, here))
                elif entry.name.lower().endswith(ENDINGS):  # a link to nothing too: it is told when it is read
                    names.append(prefix + entry.name)
        except OSError as error:
            raise UserError(f"cannot read the folder '{inner}': {error.strerror}; check its permissions") from None

    walk(folder, "", ())
    if not names:
        raise UserError(f"'{folder}' holds no images: looked for {' '.join(ENDINGS)} in it and the folders below")
    return names


def _is_folder(entry: "os.DirEntry[str]") -> bool:
    try:
        return entry.is_dir()
    except OSError:  # a link to itself: one image that cannot be read, and no reason to leave out the folder
        return False


def by_class(root: Path, names: Sequence[str]) -> Listing:
    """A folder per class, perhaps inside `train` and `test` or `val`, or images of one class without folders.

    Folders around these do not matter.
    """
    root, names = _unwrapped(root, names)
    tops = {name.partition("/")[0] for name in names if "/" in name}
    test = next((part for part in TEST_FOLDERS if part in tops), None)
    if test and "train" in tops:
        return in_parts(root, names, test)
    if tops and any("/" not in name for name in names):
        stray = next(name for name in names if "/" not in name)
        raise UserError(f"'{root}' holds images both in folders and beside them ('{stray}'); move or remove these")
    return labelled(root, [(name, name.partition("/")[0] if tops else root.name, False) for name in names])


def in_parts(root: Path, names: Iterable[str], test: str, wanted: Iterable[str] = ()) -> Listing:
    """`train/<class>/...` and `<test>/<class>/...`, of all classes or of those wanted."""
    wanted = set(wanted)
    rows, classes = [], {}
    for part in ("train", test):
        inside = [name.removeprefix(f"{part}/") for name in names if name.startswith(f"{part}/")]
        if len({"/" in name for name in inside}) == 2:
            raise UserError(f"'{root / part}' holds images both in folders and beside them; move or remove these")
        kinds = [name.partition("/")[0] if "/" in name else "" for name in inside]
        classes[part] = {kind for kind in kinds if not wanted or kind in wanted}
        lacking = sorted(wanted - classes[part])
        if lacking:
            raise UserError(
                f"'{root / part}' lacks {len(lacking)} of {len(wanted)} class folders, the first '{lacking[0]}'; "
                "each needs one with images in it"
            )
        rows += [
            (f"{part}/{name}", kind, part == test)
            for name, kind in zip(inside, kinds, strict=True)
            if kind in classes[part]
        ]
    strange = sorted(classes[test] - classes["train"])
    if strange:
        where = f"'{strange[0]}'" if strange[0] else "images without class folders"
        raise UserError(f"'{root / test}' holds {where}, 'train' does not; both need the same class folders")
    return labelled(root, rows)


def labelled(root: Path, rows: Iterable[tuple[str, str, bool]]) -> Listing:
    """Rows of name, class and whether of the test part, in the order of torchvision's ImageFolder: train first."""
    ordered = sorted(rows, key=lambda row: (row[2], row[1], *row[0].rpartition("/")))
    classes = sorted({kind for _, kind, _ in ordered})
    numbers = {kind: number for number, kind in enumerate(classes)}
    names, kinds, in_test = zip(*ordered, strict=True)
    return Listing(root, names, tuple(numbers[kind] for kind in kinds), in_test, tuple(classes))


def _unwrapped(root: Path, names: Sequence[str]) -> tuple[Path, Sequence[str]]:
    """Without the folders that everything lies in."""
    while True:
        tops = {name.partition("/")[0] for name in names}
        if len(tops) > 1 or "/" not in names[0]:
            return root, names
        root, names = root / tops.pop(), [name.partition("/")[2] for name in names]


def holder(names: Iterable[str], folders: Sequence[str]) -> tuple[str, list[str]]:
    """The place, nearest to the top, below which most of these folders are, and those that are not."""
    below_place = defaultdict(set)
    for name in names:
        steps = name.split("/")[:-1]
        for depth, step in enumerate(steps):
            if step in folders:
                below_place["".join(f"{each}/" for each in steps[:depth])].add(step)
    if not below_place:
        return "", list(folders)
    place = min(below_place, key=lambda place: (-len(below_place[place]), place.count("/"), place))
    return place, [folder for folder in folders if folder not in below_place[place]]


def below(root: Path, names: Iterable[str], place: str) -> tuple[Path, list[str]]:
    """The files in one of the folders, as seen from there."""
    return root / place, [name.removeprefix(place) for name in names if name.startswith(place)]


def read_list(path: Path) -> Listing:
    """OpenOOD's image lists: lines of a path and a label, -1 for images of no known class."""
    try:
        lines = read_regular(path, LIST_LIMIT).decode().splitlines()
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "not text"
        raise UserError(
            f"'{path}' is neither an archive (tar, zip) that can be read nor an image list ({reason}); "
            "give one of these or a folder"
        ) from None
    names, labels, numbers = [], [], []
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        name, _, label = line.strip().rpartition(" ")
        try:
            value = int(label)
        except ValueError:
            value = None
        if not name or value is None or not name.lower().endswith(ENDINGS):
            raise UserError(
                f"'{path}' is no archive, and no image list either: line {number} is '{line[:60]}', "
                "and should be like 'folder/image.jpg 3'"
            )
        if not -1 <= value < MOST_CLASSES:
            raise UserError(f"{path}:{number}: the label {value} is out of range; use 0 and up, or -1 for all")
        names.append(name.strip())
        labels.append(value)
        numbers.append(number)
    if not names:
        raise UserError(f"'{path}' is an empty image list; write lines such as: folder/image.jpg 3")
    if min(labels) < 0 < max(labels) + 1:
        raise UserError(f"'{path}' has both classes and the label -1; use -1 for all images or for none")
    places = [place for folder in path.absolute().parents for place in (folder, *map(folder.joinpath, PICTURES))]
    root = next((place for place in places if os.path.isfile(place / names[0])), None)
    if root is None:
        raise UserError(
            f"{path}:{numbers[0]} names '{shortened(names[0])}', which is neither beside it nor in the folders above "
            f"nor in their {' and '.join(PICTURES)}; put the list there"
        )
    for number, name in zip(numbers, names, strict=True):
        if not os.path.isfile(root / name):
            raise UserError(
                f"{path}:{number} names '{shortened(name)}', which is not in '{root}'; put it there or take it off the "
                "list"
            )
    classes = tuple(map(str, range(max(labels) + 1))) or (path.stem,)
    return Listing(root, tuple(names), tuple(max(label, 0) for label in labels), (False,) * len(names), classes)
