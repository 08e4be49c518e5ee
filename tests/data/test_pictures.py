"""Sets of image files: decoding, the layouts they come in, and what is wrong with those that users have."""

import io
import os
import random
import re
import struct
import tarfile
import zlib

import numpy as np
import pytest
from command_line import assert_done, assert_refused, oodbench
from data_files import damaged, packed, write
from PIL import Image

from oodbench.config.cards import catalogue
from oodbench.data import decoder, lookup, store
from oodbench.data import pictures as _pictures
from oodbench.data.folder import Folder
from oodbench.data.listing import images_below
from oodbench.data.pictures import Pictures
from oodbench.data.sets.folders import LSUNC, PACS, WNIDS, ImageNet100, Places365, Textures, TinyImageNet
from oodbench.data.sources import Delivery
from oodbench.errors import UserError
from oodbench.torchvision_import import import_with_torchvision

NAMES = ["textures", "places365", "lsun-c", "lsun-r", "isun", "tiny-imagenet", "imagenet100", "inaturalist", "pacs"]


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    """A data folder of its own, and no network."""
    monkeypatch.setenv("OODBENCH_DATA", str(tmp_path / "data"))
    lookup.dataset.cache_clear()  # which remembers what it has read
    for name in NAMES:
        monkeypatch.setattr(type(lookup.dataset(name)), "sources", ())
    yield tmp_path / "data"
    lookup.dataset.cache_clear()


def picture(seed=0, wide=8, high=8):
    """Smooth colors, so that JPEG keeps them."""
    corners = np.random.default_rng(seed).integers(0, 256, (2, 2, 3), dtype=np.uint8)
    return Image.fromarray(corners).resize((wide, high), Image.Resampling.BILINEAR)


def encoded(image, kind="PNG", **options):
    file = io.BytesIO()
    image.save(file, kind, **options)
    return file.getvalue()


def files(*names, kind="PNG", **size):
    """A picture of its own for each name."""
    return {name: encoded(picture(zlib.crc32(name.encode()), **size), kind) for name in names}


def pixels(image):
    return np.asarray(image.convert("RGB")).transpose(2, 0, 1)


def pictures(folder, contents, size=8, style="squeezed"):
    write(folder, contents)
    return Pictures(folder, list(contents), size, style, np.arange(len(contents)))


CLASSES = files("cat/b.png", "cat/a.png", "ant/2.png", "ant/10.png", "ant/deep/1.png")


# Pictures


def test_choosing_among_pictures_reads_nothing(tmp_path):
    some = Pictures(tmp_path, [f"not there {i}.png" for i in range(10)], 8, "squeezed", np.arange(10))
    mask = np.arange(10) % 2 == 1
    chosen = some[2:][[3, 1, 4]]
    assert (len(some), some.shape, some.dtype) == (10, (10, 3, 8, 8), np.uint8)
    assert chosen.rows.tolist() == [5, 3, 6] and chosen.shape == (3, 3, 8, 8)
    assert some[mask].rows.tolist() == [1, 3, 5, 7, 9] and some[mask][-1:].rows.tolist() == [9]
    with pytest.raises(TypeError, match="chosen by a slice"):
        some[0]
    with pytest.raises(UserError, match=re.escape("not there 5.png' is not an image that can be read (No such file")):
        chosen.read()


def test_pictures_are_read_in_the_order_they_were_chosen(tmp_path):
    contents = {f"{i}.png": encoded(picture(i)) for i in range(50)}
    order = np.random.default_rng(0).permutation(50)
    read = np.asarray(pictures(tmp_path, contents)[order])
    assert read.dtype == np.uint8 and np.array_equal(read, np.stack([pixels(picture(i)) for i in order]))
    assert pictures(tmp_path, contents)[:0].read().shape == (0, 3, 8, 8)


def test_a_step_sees_the_pixels_and_the_rows_in_the_data_set(tmp_path):
    some = pictures(tmp_path, files(*(f"{i}.png" for i in range(40))))
    marked = some.then(lambda images, rows: images // 2).then(lambda images, rows: images + rows[:, None, None, None])
    chosen = marked[[30, 7]]
    assert np.array_equal(np.asarray(chosen), some.read()[[30, 7]] // 2 + np.array([30, 7])[:, None, None, None])
    assert some.steps == ()


def test_a_step_may_leave_other_channels(tmp_path):
    grey = pictures(tmp_path, files("a.png", "b.png")).then(lambda images, rows: images[:, :1], channels=1)
    assert grey.shape == grey.read().shape == (2, 1, 8, 8) and grey[:1].then(lambda images, rows: images).channels == 1


@pytest.mark.parametrize("wide,high", [(57, 40), (40, 57), (33, 33), (20, 31), (100, 32), (32, 101)])
@pytest.mark.parametrize("style,short", [("centre", 32), ("inner_centre", 37), ("squeezed", (32, 32))])
def test_pixels_are_those_of_torchvision_s_transforms(tmp_path, wide, high, style, short):
    transforms = import_with_torchvision("torchvision.transforms")
    noise = np.random.default_rng(0).integers(0, 256, (high, wide, 3), dtype=np.uint8)
    oracle = transforms.CenterCrop(32)(transforms.Resize(short)(Image.fromarray(noise)))
    found = pictures(tmp_path, {"a.png": encoded(Image.fromarray(noise))}, 32, style).read()[0]
    # Resizing only what is seen rounds its coordinates otherwise, rarely by a gray level.
    assert np.abs(found.astype(int) - pixels(oracle)).max() <= 1


def test_imagenet_s_crop_is_224_of_256(tmp_path):
    image = picture(0, 300, 256)
    found = pictures(tmp_path, {"a.png": encoded(image)}, 224, "inner_centre").read()[0]
    assert np.array_equal(found, pixels(image.crop((38, 16, 262, 240))))


def test_a_large_photograph_is_decoded_at_reduced_size_and_looks_the_same(tmp_path, monkeypatch):
    image = picture(1, 640, 512)
    some = pictures(tmp_path, {"a.jpg": encoded(image, "JPEG", quality=95)}, 64, "centre")
    decoded = []
    convert = decoder._rgb
    monkeypatch.setattr(decoder, "_rgb", lambda picture: decoded.append(picture.size) or convert(picture))
    found = some.read()[0].astype(int)
    assert decoded == [(160, 128)]
    assert np.abs(found - pixels(image.resize((80, 64)).crop((8, 0, 72, 64)))).max() <= 3


def test_lsun_s_crop_is_a_window_of_the_padded_image_whatever_the_subset(tmp_path):
    contents = {f"{i}.png": encoded(picture(i, 36, 36)) for i in range(60)}
    some = pictures(tmp_path, contents, 32, "padded_crop")
    places = set()
    for i, found in enumerate(some.read()):
        padded = np.empty((44, 44, 3), dtype=np.uint8)
        padded[:] = (125, 123, 114)
        padded[4:40, 4:40] = np.asarray(picture(i, 36, 36))
        windows = np.lib.stride_tricks.sliding_window_view(padded, (32, 32), axis=(0, 1))
        (place,) = np.argwhere((windows == found).all(axis=(2, 3, 4)))
        places.add(tuple(place))
    tops, lefts = zip(*places, strict=True)
    assert {min(tops), min(lefts)} == {0} and {max(tops), max(lefts)} == {12} and len(places) > 40
    assert np.array_equal(some[[41, 3]].read(), some.read()[[41, 3]])


@pytest.mark.parametrize(
    ("mode", "kind", "name"),
    [
        ("L", "PNG", "grey.png"),
        ("1", "PNG", "two colours.png"),
        ("P", "PNG", "palette.png"),
        ("LA", "PNG", "grey, transparent.png"),
        ("RGBA", "PNG", "transparent.png"),
        ("CMYK", "TIFF", "ink.tif"),
        ("RGB", "BMP", "ü ñ 写真.BMP"),
        ("RGB", "PPM", "plain.ppm"),
        ("RGB", "GIF", "a gif that says.jpg"),
        ("RGB", "WEBP", "new.webp"),
        ("L", "JPEG", "grey.jpeg"),
    ],
)
def test_every_kind_of_image_becomes_rgb(tmp_path, mode, kind, name):
    content = encoded(picture(3).convert(mode), kind)
    expected = pixels(Image.open(io.BytesIO(content)))
    assert np.array_equal(pictures(tmp_path, {name: content}).read()[0], expected)


def test_transparency_is_dropped_and_not_composited(tmp_path, recwarn):
    clear = picture(2)
    clear.putalpha(0)
    palette = picture(2).quantize(4)
    contents = {"a.png": encoded(clear), "b.png": encoded(palette, transparency=b"\0\1\2\3")}
    read = pictures(tmp_path, contents).read()
    assert np.array_equal(read, [pixels(picture(2)), pixels(palette)])
    assert not recwarn.list


def test_sixteen_bits_are_scaled_and_not_clipped(tmp_path):
    deep = np.arange(64, dtype=np.uint16).reshape(8, 8) * 1000
    read = pictures(tmp_path, {"a.png": encoded(Image.fromarray(deep))}).read()[0]
    assert np.array_equal(read, [deep >> 8] * 3)


def test_the_rotation_in_exif_is_ignored(tmp_path):
    turned = Image.Exif()
    turned[0x0112] = 6
    image = picture(4, 16, 8)
    content = encoded(image, "JPEG", exif=turned)
    read = pictures(tmp_path, {"a.jpg": content}).read()[0]
    assert np.array_equal(read, pixels(Image.open(io.BytesIO(content)).resize((8, 8), Image.Resampling.BILINEAR)))


def bomb():
    """A PNG of a few bytes that says it is 60,000 pixels square."""
    head = struct.pack(">IIBBBBB", 60000, 60000, 8, 2, 0, 0, 0)
    chunks = [(b"IHDR", head), (b"IDAT", zlib.compress(b"")), (b"IEND", b"")]
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body)) for kind, body in chunks
    )


BROKEN = {
    "cut.jpg": (encoded(picture(0, 64, 64), "JPEG")[:-200], "truncated"),
    "cut.png": (encoded(picture(0, 64, 64))[:-60], ""),
    "empty.jpg": (b"", "unknown format"),
    "text.png": (b"I am no image", "unknown format"),
    "program.jpg": (b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 8 8\n%%EndComments\nshowpage\n", "unknown format"),
    "bomb.png": (bomb(), "it says that it has more pixels than any photograph"),
    "fractions.tif": (encoded(Image.new("F", (8, 8)), "TIFF"), "its pixels are fractions"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_image_is_named_from_inside_the_threads_and_when_it_is_added(tmp_path, home, name):
    content, reason = BROKEN[name]
    some = pictures(tmp_path / "some", {**files(*(f"{i}.png" for i in range(40))), name: content})
    expected = f"'{tmp_path / 'some' / name}' is not an image that can be read ("
    with pytest.raises(UserError, match=re.escape(expected) + ".*" + re.escape(reason) + ".*; fix or remove it$"):
        some.read()
    assert some[:40].read().shape == (40, 3, 8, 8)
    assert_refused(oodbench("data", "add", "textures", tmp_path / "some"), expected, reason)
    assert not (home / "textures").exists()


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "WEBP", "GIF"])
def test_a_damaged_image_is_read_or_refused_and_nothing_else(tmp_path, kind):
    content, refused = encoded(picture(0, 40, 40), kind), 0
    for seed in range(60):
        some = pictures(tmp_path, {"a.img": damaged(content, random.Random(seed))})
        try:
            assert some.read().shape == (1, 3, 8, 8)
        except UserError as error:
            refused += 1
            assert str(error).startswith(f"'{tmp_path / 'a.img'}' is not an image that can be read (")
    assert refused > 10


def test_several_broken_images_are_counted(tmp_path):
    write(tmp_path / "some", {**CLASSES, "cat/c.jpg": b"", "cat/d.jpg": b""})
    first = tmp_path / "some" / "cat" / "c.jpg"
    refused = oodbench("data", "add", "textures", tmp_path / "some")
    assert_refused(refused, f"2 of 7 images are broken, the first: '{first}'")


# Layouts


def test_names_and_labels_are_those_of_torchvision_s_imagefolder(tmp_path):
    contents = {**CLASSES, "Zoo/x.JPG": encoded(picture(), "JPEG"), "ant b/1.png": encoded(picture(1)), "read.txt": b""}
    folder = write(tmp_path / "some", contents)
    oracle = import_with_torchvision("torchvision.datasets").ImageFolder(str(folder))
    found = Folder(folder)
    assert list(found.class_names) == oracle.classes == ["Zoo", "ant", "ant b", "cat"]
    assert [(str(path), label) for path, label in zip(found.files(), found.labels(), strict=True)] == oracle.imgs


@pytest.mark.parametrize("packing", ["", "tar", "zip"])
@pytest.mark.parametrize("wrapping", ["", "dtd/", "a/b/c/"])
def test_folders_and_archives_with_any_folders_around_are_the_same_set(tmp_path, home, packing, wrapping):
    contents = {f"{wrapping}{name}": content for name, content in CLASSES.items()}
    contents |= {"__MACOSX/cat/._b.png": b"", ".hidden/x.png": b"", "notes.txt": b"text"}
    plain = Folder(write(tmp_path / "plain", CLASSES))
    if packing:
        path = tmp_path / f"some.{packing}"
        path.write_bytes(packed(contents, packing))
    else:
        path = write(tmp_path / "some", contents)
    entry = Textures().add(path)
    data = Textures()
    assert (entry.rows, entry.fingerprint) == (5, plain.fingerprint) == (5, data.fingerprint)
    assert data.class_names == ("ant", "cat") and data.labels().tolist() == [0, 0, 0, 1, 1]
    assert data.root == (home / "textures" / "files" if packing else path / wrapping)
    assert np.array_equal(data.arrays(8)[0], plain.arrays(8)[0])


def test_a_user_s_folder_stays_where_it_is_and_links_are_followed(tmp_path, home):
    folder = write(tmp_path / "here", files("cat/a.png"))
    write(tmp_path / "elsewhere", files("1.png", "2.png"))
    (folder / "dog").symlink_to(tmp_path / "elsewhere")
    (folder / "dog" / "loop").symlink_to(folder)
    Textures().add(folder)
    assert Textures().index.names == ["cat/a.png", "dog/1.png", "dog/2.png"]
    assert sorted(path.name for path in (home / "textures").iterdir()) == ["index.json", "meta.json"]


def test_an_archive_with_a_link_is_refused(tmp_path, home):
    with tarfile.open(tmp_path / "some.tar", "w") as archive:
        member = tarfile.TarInfo("cat/a.png")
        member.type, member.linkname = tarfile.SYMTYPE, "/etc/passwd"
        archive.addfile(member)
    assert_refused(oodbench("data", "add", "textures", tmp_path / "some.tar"), "holds a link or device ('cat/a.png')")
    assert not (home / "textures").exists()


def test_a_link_to_nothing_is_a_broken_image(tmp_path):
    folder = write(tmp_path / "some", CLASSES)
    (folder / "cat" / "gone.jpg").symlink_to(tmp_path / "nothing")
    for ask in (lambda: Textures().add(folder), lambda: Folder(folder).fingerprint):
        with pytest.raises(
            UserError, match="gone.jpg' is not an image that can be read .No such file or directory.; fix"
        ):
            ask()


def test_a_link_to_itself_is_a_broken_image_and_hides_no_other(tmp_path):
    folder = write(tmp_path / "some", CLASSES)
    whole = images_below(folder)
    link = folder / "cat" / "itself.png"
    link.symlink_to(link)
    assert images_below(folder) == sorted([*whole, "cat/itself.png"])
    with pytest.raises(UserError, match="itself.png' is not an image that can be read"):
        Textures().add(folder)


@pytest.mark.parametrize("test", ["test", "val"])
def test_train_and_test_folders_are_the_parts(tmp_path, test):
    names = ("train/a/1.png", "train/a/2.png", "train/b/1.png", f"{test}/a/1.png")
    found = Folder(write(tmp_path / "some", files(*(f"wrapped/{name}" for name in names))))
    assert found.has_test_part and found.index.names == list(names)
    assert found.part(True).labels.tolist() == [0] and found.part(False).labels.tolist() == [0, 0, 1]
    textures = Textures()
    textures.add(tmp_path / "some")
    assert not textures.has_test_part and textures.part(True).rows.tolist() == []


def test_a_flat_folder_is_one_class_and_has_no_test_part(tmp_path):
    found = Folder(write(tmp_path / "scenes", files("2.png", "1.png")))
    assert (found.class_names, found.labels().tolist(), found.has_test_part) == (("scenes",), [0, 0], False)


@pytest.mark.parametrize(
    ("names", "message"),
    [
        ((), "holds no images: looked for .jpg .jpeg .png .ppm .bmp .pgm .tif .tiff .webp in it and the folders below"),
        (("a/1.txt", "a/.2.png"), "holds no images"),
        (("a/1.png", "b/1.png", "c.png"), "holds images both in folders and beside them ('c.png'); move or remove"),
        (("train/a/1.png", "test/b/1.png"), "test' holds 'b', 'train' does not; both need the same class folders"),
        (("train/a/1.png", "test/1.png"), "test' holds images without class folders, 'train' does not"),
        (("train/a/1.png", "train/2.png", "test/a/1.png"), "train' holds images both in folders and beside them"),
    ],
)
def test_a_folder_without_clear_classes_is_refused(tmp_path, names, message):
    folder = write(tmp_path / "some", files(*names))
    for ask in (lambda: Textures().add(folder), lambda: Folder(folder).labels()):
        with pytest.raises(UserError, match=re.escape(message)):
            ask()


def test_an_unreadable_folder_is_named(tmp_path, monkeypatch):
    folder = write(tmp_path / "some", CLASSES)

    def closed(path):
        if path == folder / "cat":
            raise PermissionError(13, "Permission denied")
        return scandir(path)

    scandir = os.scandir
    monkeypatch.setattr(os, "scandir", closed)  # root may read everything, so modes would not do
    with pytest.raises(UserError, match=re.escape(f"cannot read the folder '{folder / 'cat'}': Permission denied")):
        Textures().add(folder)


# Image lists


def listed(folder, text, name="lists/test.txt"):
    write(folder, {name: text if isinstance(text, bytes) else text.encode()})
    return folder / name


def test_an_image_list_is_read_beside_it_or_in_the_folders_above(tmp_path):
    folder = write(tmp_path / "some", files("images/with space 1.png", "images/b.png", "images/unlisted.png"))
    found = Folder(listed(folder, "images/with space 1.png 2\n\nimages/b.png 0\n", "a/b/lists/test.txt"))
    assert found.root == folder and found.index.names == ["images/with space 1.png", "images/b.png"]
    assert found.labels().tolist() == [2, 0] and found.class_names == ("0", "1", "2")
    entry = Textures().add(listed(folder, "b.png -1", "images/ood.txt"))
    assert entry.rows == 1 and Textures().labels().tolist() == [0] and Textures().class_names == ("ood",)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a.png 0\nmissing.png 1", "test.txt:2 names 'missing.png', which is not in '"),
        ("missing.png 0", "test.txt:1 names 'missing.png', which is neither beside it nor in the folders above"),
        ("a.png cat", "line 1 is 'a.png cat', and should be like 'folder/image.jpg 3'"),
        ("a.png 0\na.png", "line 2 is 'a.png', and should be"),
        ("a.png 1.5", "line 1 is 'a.png 1.5'"),
        ("a.txt 1", "line 1 is 'a.txt 1'"),
        ("a.png 0\n\na.png -2", "test.txt:3: the label -2 is out of range; use 0 and up, or -1 for all"),
        ("a.png 100000", "test.txt:1: the label 100000 is out of range"),
        ("a.png 47", "holds the label 47; 'textures' has labels 0 to 46"),
        ("a.png 0\na.png -1", "has both classes and the label -1; use -1 for all images or for none"),
        ("\n", "is an empty image list; write lines such as: folder/image.jpg 3"),
        (b"\xff\xfe\x00", "is neither an archive (tar, zip) that can be read nor an image list (not text)"),
    ],
)
def test_a_wrong_image_list_is_refused_by_its_line(tmp_path, home, text, message):
    folder = write(tmp_path / "some", files("a.png"))
    assert_refused(oodbench("data", "add", "textures", listed(folder, text)), message, folder)
    assert not (home / "textures").exists()


# What is kept


def test_a_small_set_is_decoded_once_and_mapped_from_the_disk(tmp_path, home):
    folder = write(tmp_path / "some", CLASSES)
    Textures().add(folder)
    first, labels, in_test = Textures().arrays(8)
    for path in folder.rglob("*.png"):
        path.unlink()
    second = Textures().arrays(8)[0]
    assert isinstance(second, np.memmap) and np.array_equal(first, second)
    assert (first.shape, labels.dtype, in_test.tolist()) == ((5, 3, 8, 8), np.int64, [False] * 5)
    with pytest.raises(UserError, match="is not an image that can be read"):
        Textures().arrays(4)


def test_a_large_set_is_read_from_its_files_every_time(tmp_path, home, monkeypatch):
    Textures().add(write(tmp_path / "some", CLASSES))
    kept = np.array(Textures().arrays(8)[0])
    monkeypatch.setattr(_pictures, "CACHED_AT_MOST", 5 * 3 * 8 * 8 - 1)
    streamed = Textures().arrays(8)[0]
    assert isinstance(streamed, Pictures) and np.array_equal(np.asarray(streamed), kept)
    assert np.array_equal(np.asarray(streamed[Textures().part(None, classes=[1]).rows]), kept[3:])


def test_another_decoder_decodes_again(tmp_path, home, monkeypatch):
    Textures().add(write(tmp_path / "some", CLASSES))
    Textures().arrays(8)
    before = set((home / "kept").iterdir())
    monkeypatch.setattr(_pictures, "code", lambda: "another")
    Textures().arrays(8)
    after = set((home / "kept").iterdir())
    assert len(before) == len(after) == 1 and before != after


def test_the_fingerprint_is_of_names_labels_parts_and_content(tmp_path):
    a = files("train/a/1.png", "train/b/1.png", "test/a/1.png")
    marks = [
        Folder(write(tmp_path / str(i), contents)).fingerprint
        for i, contents in enumerate(
            [
                a,
                {**a, "train/a/1.png": a["train/b/1.png"]},
                {name.replace("1", "2"): content for name, content in a.items()},
                {name.replace("test/", "train/t"): content for name, content in a.items()},
                {name.replace("train/", "train/x/"): content for name, content in a.items() if "train" in name},
            ]
        )
    ]
    assert len({*marks}) == 5 and Folder(write(tmp_path / "copy", a)).fingerprint == marks[0]


def test_status_notices_files_that_vanished_or_changed(tmp_path, home):
    folder = write(tmp_path / "some", CLASSES)
    oodbench("data", "add", "--force", "textures", folder)
    assert "5 images, 2 classes" in assert_done(oodbench("data", "status", "textures"))
    (folder / "cat" / "b.png").write_bytes(b"")
    (folder / "ant" / "2.png").unlink()
    shown = assert_done(oodbench("data", "status", "textures"))
    assert shown.split()[1] == "broken" and f"2 of the 5 images of 'textures' are gone from '{folder}' or have" in shown
    assert "the first 'ant/2.png'; put them back, or add what you have: oodbench data add textures PATH" in shown


@pytest.mark.parametrize("harm", ["{", "[]", '{"root": "x"}', '{"names": 3}', None])
def test_a_damaged_index_is_broken_and_can_be_added_again(tmp_path, home, harm):
    folder = write(tmp_path / "some", CLASSES)
    oodbench("data", "add", "--force", "textures", folder)
    index = home / "textures" / "index.json"
    index.unlink() if harm is None else index.write_text(harm)
    lookup.dataset.cache_clear()
    shown = assert_done(oodbench("data", "status", "textures"))
    assert f"broken    '{home / 'textures'}' is damaged; add what you have: oodbench data add textures PATH" in shown
    assert_done(oodbench("data", "add", "--force", "textures", folder))
    assert "differs" in assert_done(oodbench("data", "status", "textures"))


def test_what_was_there_before_stays_if_the_new_files_are_broken(tmp_path, home):
    archive = tmp_path / "some.tar"
    archive.write_bytes(packed(CLASSES, "tar"))
    oodbench("data", "add", "--force", "textures", archive)
    before = lookup.dataset("textures").fingerprint
    archive.write_bytes(packed({**CLASSES, "cat/c.jpg": b"?"}, "tar"))
    expected = f"'{archive / 'cat' / 'c.jpg'}' is not an image"
    assert_refused(oodbench("data", "add", "textures", archive), expected)
    assert Textures().fingerprint == before and Textures().is_there()
    assert [path.name for path in home.iterdir()] == ["textures"]


def test_the_folder_a_set_is_kept_in_cannot_be_added_to_itself(tmp_path, home):
    archive = tmp_path / "some.tar"
    archive.write_bytes(packed(CLASSES, "tar"))
    oodbench("data", "add", "--force", "textures", archive)
    inside = home / "textures" / "files"
    assert_refused(oodbench("data", "add", "textures", inside), f"'{inside}' is where 'textures' is kept; give the")
    assert Textures().is_there()


def test_a_data_folder_that_cannot_be_written_is_named(tmp_path, monkeypatch):
    folder = write(tmp_path / "some", CLASSES)
    closed = write(tmp_path, {"closed": b""}) / "closed"
    monkeypatch.setenv("OODBENCH_DATA", str(closed))
    assert_refused(oodbench("data", "add", "textures", folder), f"cannot write the data folder '{closed}'")
    with pytest.raises(UserError, match="set OODBENCH_DATA to another"):
        Folder(folder).labels()


def test_a_missing_set_names_the_command_that_brings_it(home):
    with pytest.raises(UserError, match=f"'imagenet100' is not in '{home}'; add what you have: oodbench data add"):
        ImageNet100().arrays(None)
    assert_refused(oodbench("data", "get", "pacs"), "cannot get 'pacs' (oodbench knows no address of it); add what")


def test_get_says_first_what_the_user_can_put_right(tmp_path):
    folder = write(tmp_path / "some", CLASSES)
    oodbench("data", "add", "--force", "textures", folder)
    (folder / "cat" / "a.png").unlink()
    assert_refused(oodbench("data", "get", "textures"), "1 of the 5 images of 'textures' are gone")


def test_a_fetched_folder_is_kept_and_its_other_files_are_not(tmp_path, home, monkeypatch):
    class Site:
        def describe(self):
            return "a site"

        def fetch(self, folder, listener):
            write(folder, {"dtd/dtd/labels.txt": b"", "dtd/archive.tar": b"x"})
            write(folder / "dtd" / "dtd" / "images", CLASSES)
            return Delivery(folder, self.describe())

    monkeypatch.setattr(Textures, "sources", (Site(),))
    assert_done(oodbench("data", "get", "textures"))
    kept = sorted(str(path.relative_to(home)) for path in home.rglob("*") if path.is_file())
    inside = sorted(f"textures/files/{name}" for name in CLASSES)
    assert kept == [*inside, "textures/index.json", "textures/meta.json"]
    assert Textures().arrays(8)[0].shape == (5, 3, 8, 8)


# The sets


def test_every_set_is_in_the_catalogue_and_a_folder_is_not():
    known = catalogue("datasets")
    assert [name for name in known if name in NAMES] == NAMES and "folders" not in known
    assert {lookup.dataset(name).style for name in NAMES} == {*decoder.STYLES}


PACS_FILES = files(*(f"{domain}/{kind}/1.png" for domain in PACS.domains for kind in ("dog", "house")))


@pytest.mark.parametrize("wrapping", ["", "PACS/", "PACS/kfold/"])
def test_pacs_knows_the_domain_of_each_row(tmp_path, wrapping):
    contents = {f"{wrapping}{name}": content for name, content in PACS_FILES.items()}
    shown = assert_done(
        oodbench("data", "add", "--force", "pacs", write(tmp_path / "some", {**contents, "sample.png": b""}))
    )
    assert "8 images, 2 classes" in shown
    assert "NOT the official content (2 images of 'art_painting', officially 2,048)" in shown
    data = PACS()
    assert data.class_names == ("dog", "house")
    expected = [PACS.domains.index(name.split("/")[0]) for name in data.index.names]
    assert data.domain_of.tolist() == expected == [0, 1, 2, 3, 0, 1, 2, 3]
    found = data.part(None, domains=["photo", "sketch"])
    assert found.rows.tolist() == [2, 3, 6, 7] and found.labels.tolist() == [0, 0, 1, 1]
    assert found.domains is not None and found.domains.tolist() == [2, 3, 2, 3]


def test_pacs_of_another_size_is_refused_unless_forced_and_told(tmp_path, monkeypatch, home):
    monkeypatch.setattr(PACS, "per_domain", (2, 2, 2, 2))
    monkeypatch.setattr(PACS, "rows", (8, 0))
    monkeypatch.setattr(PACS, "num_classes", 2)
    folder = write(tmp_path / "some", PACS_FILES)
    deviation = "images of 8x8, officially 227x227"
    message = (
        f"'{folder}' is not the official content of 'pacs' ({deviation}); nothing is stored. Get the official files"
    )
    assert_refused(oodbench("data", "add", "pacs", folder), message, "or add --force to use these\n")
    assert not (home / "pacs").exists()
    shown = assert_done(oodbench("data", "add", "--force", "pacs", folder))
    assert shown.endswith(": NOT the official content (images of 8x8, officially 227x227)\n")
    assert assert_done(oodbench("data", "status", "pacs")).split()[1] == "differs"
    monkeypatch.setattr(PACS, "pixels", "8x8")
    assert "NOT" not in assert_done(oodbench("data", "add", "pacs", folder))
    assert assert_done(oodbench("data", "status", "pacs")).split()[1] == "present"


def test_what_was_added_is_forgotten_and_its_images_stay(tmp_path, home):
    folder = write(tmp_path / "some", PACS_FILES)
    assert_done(oodbench("data", "add", "--force", "pacs", folder))
    PACS().arrays(8)
    (decoded,) = (home / "kept").iterdir()
    out = assert_done(oodbench("data", "remove", "pacs", "--yes"))
    assert f"  {home / 'pacs'}  " in out and f"  {decoded}  " in out
    assert f"  the images in '{folder}' are yours and stay\n" in out and out.endswith("pacs: forgotten\n")
    assert not (home / "pacs").exists() and not decoded.exists()
    assert sorted(path.name for path in folder.rglob("*.png")) == ["1.png"] * 8
    assert assert_done(oodbench("data", "status", "pacs")).split()[1] == "missing"


def test_files_that_were_unpacked_are_removed_with_the_set(tmp_path, home):
    archive = tmp_path / "pacs.tar"
    archive.write_bytes(packed(PACS_FILES))
    assert_done(oodbench("data", "add", "--force", "pacs", archive))
    out = assert_done(oodbench("data", "remove", "pacs", "--yes"))
    assert "stay" not in out and out.endswith("pacs: removed\n")
    assert not (home / "pacs").exists() and archive.exists()


@pytest.mark.parametrize(
    ("left_out", "added", "message"),
    [
        ("sketch/", None, "found no sketch"),
        ("", "art_painting/1.png", "art_painting/1.png' is in no class folder; move or remove it"),
        ("photo/house", None, "photo' has no images of the class 'house', other domains do; add them"),
        ("art_painting", "photo/cat/1.png", "found no art_painting"),
        ("/", None, "holds no images"),
        ("/", "x/y/1.png", "looked for art_painting, cartoon, photo, sketch, each with a folder per class, found no"),
    ],
)
def test_pacs_with_something_missing_is_refused(tmp_path, left_out, added, message):
    contents = {name: content for name, content in PACS_FILES.items() if not left_out or left_out not in name}
    folder = write(tmp_path / "some", {**contents, **(files(added) if added else {})})
    assert_refused(oodbench("data", "add", "pacs", folder), message, folder)


def tiny(annotations="val_0.JPEG\tn2\t0\t0\t9\t9\nval_1.JPEG\tn1\t0\t0\t9\t9\n"):
    names = ("train/n1/images/n1_0.JPEG", "train/n2/images/n2_0.JPEG", "val/images/val_0.JPEG", "val/images/val_1.JPEG")
    images = files(*names, "test/images/test_0.JPEG", kind="JPEG")
    contents = {**images, "val/val_annotations.txt": annotations.encode(), "wnids.txt": b"n2\nn1\n"}
    return {f"tiny-imagenet-200/{name}": content for name, content in contents.items()}


def test_tiny_imagenet_takes_the_classes_of_val_from_its_annotations(tmp_path):
    archive = tmp_path / "tiny-imagenet-200.zip"
    archive.write_bytes(packed(tiny(), "zip"))
    shown = assert_done(oodbench("data", "add", "--force", "tiny-imagenet", archive))
    assert "NOT the official content (2 and 2 images to train and test, officially 100,000 and 10,000)" in shown
    data = TinyImageNet()
    assert data.index.names[2:] == ["val/images/val_1.JPEG", "val/images/val_0.JPEG"] and len(data.index.names) == 4
    assert data.labels().tolist() == [0, 1, 0, 1] and data.index.in_test == [False, False, True, True]


def test_tiny_imagenet_with_val_sorted_into_classes_is_the_same_rows(tmp_path):
    sorted_ = files("train/n1/images/a.JPEG", "train/n2/images/b.JPEG", "val/n2/c.JPEG", "val/n1/d.JPEG", kind="JPEG")
    TinyImageNet().add(write(tmp_path / "some", sorted_))
    assert TinyImageNet().labels().tolist() == [0, 1, 0, 1] and TinyImageNet().part(True).rows.tolist() == [
        2,
        3,
    ]


@pytest.mark.parametrize(
    ("annotations", "message"),
    [
        ("val_0.JPEG\tn2\n", "says nothing of 'val_1.JPEG'; get the set again"),
        ("val_0.JPEG\tn2\nval_1.JPEG\tn9\n", "names the class 'n9', which 'train' lacks; get the set again"),
        ("val_0.JPEG\n", "val_annotations.txt' is damaged; get the set again"),
    ],
)
def test_tiny_imagenet_with_wrong_annotations_is_refused(tmp_path, annotations, message):
    folder = write(tmp_path / "some", tiny(annotations))
    assert_refused(oodbench("data", "add", "tiny-imagenet", folder), message)


def imagenet(wnids):
    content = encoded(picture(0), "JPEG")
    parts = {"train": ("0.JPEG", "1.JPEG"), "val": ("v.JPEG",)}
    return {f"{part}/{wnid}/{name}": content for part, names in parts.items() for wnid in wnids for name in names}


def test_imagenet100_picks_the_paper_s_classes(tmp_path):
    wnids = WNIDS.split()
    assert len(wnids) == len({*wnids}) == 100 and all(re.fullmatch(r"n\d{8}", wnid) for wnid in wnids)
    folder = write(tmp_path / "some" / "ILSVRC", imagenet([*wnids, "n00000001", "n99999999"]))
    shown = assert_done(oodbench("data", "add", "--force", "imagenet100", folder.parent))
    assert (
        "300 images, 100 classes" in shown and "(200 and 100 images to train and test, officially any number" in shown
    )
    data = ImageNet100()
    assert list(data.class_names) == sorted(wnids) and sum(data.index.in_test) == 100
    assert data.arrays(None)[0].shape == (300, 3, 224, 224)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda name: "n01498041" not in name, "train' lacks 1 of 100 class folders, the first 'n01498041'"),
        (lambda name: "val/n07" not in name, "val' lacks 2 of 100 class folders, the first 'n07714990'"),
        (lambda name: "val/" not in name, "looked for train/<class>/ and val/<class>/, found no val/"),
    ],
)
def test_imagenet100_without_some_classes_is_refused(tmp_path, change, message):
    contents = {name: content for name, content in imagenet(WNIDS.split()).items() if change(name)}
    assert_refused(oodbench("data", "add", "imagenet100", write(tmp_path / "some", contents)), message)


def test_imagenet100_with_unsorted_validation_images_says_what_to_do(tmp_path):
    contents = files(*(f"train/{wnid}/0.JPEG" for wnid in WNIDS.split()), "val/ILSVRC2012_val_1.JPEG", kind="JPEG")
    folder = write(tmp_path / "some", contents)
    assert_refused(oodbench("data", "add", "imagenet100", folder), "without class folders; sort them into val/<wnid>/")


def test_places_may_lie_in_one_folder_or_in_classes(tmp_path, monkeypatch):
    monkeypatch.setattr(Places365, "rows", (3, 0))
    monkeypatch.setattr(Places365, "num_classes", 2)
    for name in ("val_256/{}.jpg", "{}/x.jpg"):
        contents = files(*(name.format(i) for i in range(3)), kind="JPEG")
        shown = assert_done(oodbench("data", "add", "--force", "places365", write(tmp_path / name[:3], contents)))
        assert ("3 classes, officially 2" in shown) == (name == "{}/x.jpg")


def test_lsun_c_is_cropped_at_random_and_the_same_for_a_subset(tmp_path, monkeypatch):
    archive = tmp_path / "LSUN.tar.gz"
    archive.write_bytes(packed(files(*(f"LSUN/test/{i}.jpg" for i in range(6)), kind="JPEG", wide=36, high=36)))
    monkeypatch.setattr(LSUNC, "rows", (6, 0))
    assert "NOT" not in assert_done(oodbench("data", "add", "--force", "lsun-c", archive))
    whole = np.array(LSUNC().arrays(32)[0])
    monkeypatch.setattr(_pictures, "CACHED_AT_MOST", 0)
    assert np.array_equal(np.asarray(LSUNC().arrays(32)[0][[5, 2]]), whole[[5, 2]])


# Folders that are not registered


def test_a_folder_is_indexed_again_only_when_it_has_changed(tmp_path, monkeypatch):
    folder = write(tmp_path / "some", CLASSES)
    first = Folder(folder).fingerprint
    examined = []
    examine = _pictures.examine
    monkeypatch.setattr(_pictures, "examine", lambda path: examined.append(path.name) or examine(path))
    assert Folder(folder).fingerprint == first and examined == []
    write(folder, files("cat/new.png"))
    assert Folder(folder).fingerprint != first and len(examined) == 6
    (folder / "cat" / "new.png").unlink()
    assert Folder(folder).fingerprint == first


def test_a_changed_folder_is_decoded_again(tmp_path):
    folder = write(tmp_path / "some", files("a.png", "b.png"))
    before = np.array(Folder(folder).arrays(8)[0])
    write(folder, {"a.png": encoded(picture(99))})
    os.utime(folder / "a.png", ns=(1, 1))  # a clock may be too coarse to tell the two apart
    after = Folder(folder).arrays(8)[0]
    assert np.array_equal(after[0], pixels(picture(99))) and np.array_equal(after[1], before[1])


def test_an_archive_is_unpacked_once_and_again_if_what_it_gave_is_gone(tmp_path, home):
    archive = tmp_path / "some.tar"
    archive.write_bytes(packed(CLASSES, "tar"))
    found = Folder(archive)
    assert found.name == f"folder:{archive.name}" and found.root.is_relative_to(home)
    next(found.root.rglob("*.png")).unlink()
    assert Folder(archive).fingerprint == found.fingerprint and all(path.is_file() for path in found.files())


def test_a_folder_that_is_not_there_or_holds_nothing_is_named(tmp_path):
    with pytest.raises(UserError, match=re.escape(f"there is no file or folder '{tmp_path / 'x'}'")):
        Folder(tmp_path / "x").is_there()
    broken = write(tmp_path / "broken", {"a/1.jpg": b""})
    with pytest.raises(UserError, match=r"1.jpg' is not an image that can be read \(unknown format\)"):
        Folder(broken).get()


def test_a_folder_says_whether_it_holds_jpegs_of_the_size_that_is_used(tmp_path):
    jpegs = files("a.jpg", "b.jpg", "c.jpg", kind="JPEG", wide=32, high=32)
    found = Folder(write(tmp_path / "jpeg", {**jpegs, **files("d.png")}))
    assert found.jpeg_at(32) and not found.jpeg_at(64) and found.size == 32
    assert not Folder(write(tmp_path / "png", files("a.png", wide=32, high=32))).jpeg_at(32)
    assert not Folder(write(tmp_path / "wide", files("a.jpg", kind="JPEG", wide=40, high=32))).jpeg_at(32)


def test_what_is_stored_of_a_folder_is_found_again_by_its_entry(tmp_path):
    found = Folder(write(tmp_path / "some", CLASSES))
    assert found.is_there() and store.entry(found.key).fingerprint == found.fingerprint
