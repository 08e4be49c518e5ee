"""The file of arrays: what it may hold, what is refused, and what scorers make of it."""

import io
import os
import struct
import zipfile
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest
import safetensors.torch
import torch
import torch.nn.functional as F
from hypothesis import example, given, settings
from hypothesis import strategies as st
from sklearn.metrics import roc_auc_score

from oodbench.config.registry import Registry
from oodbench.errors import UserError
from oodbench.learning import exchange
from oodbench.learning.evaluation import Evaluation, KeyedScorer
from oodbench.learning.exchange import Arrays, PartArrays
from oodbench.learning.loop import Failed
from oodbench.learning.method import Scorer
from oodbench.learning.without_images import Lacking, as_evaluation, lacking
from oodbench.results import metrics
from oodbench.running.execution import keyed
from oodbench.torchvision_import import import_with_torchvision

import_with_torchvision("torchvision")  # pytorch-ood imports it
detector = pytest.importorskip("pytorch_ood.detector", reason="needs pytorch-ood, which the dev extra installs")

CLASSES, DIM = 6, 16
CPU = torch.device("cpu")
SUFFIXES = ("npz", "safetensors")
IMAGES = "the file has no images; leave out scorers that need them, or evaluate the network itself"


def made(seed=0):
    """Arrays of every kind, of rows around class means; those of the semantic set are around the origin."""
    generator = torch.Generator().manual_seed(seed)

    def draw(*shape):
        return torch.randn(*shape, generator=generator)

    means, weight, bias = 2 * draw(CLASSES, DIM), draw(CLASSES, DIM), draw(CLASSES)
    labels = torch.arange(300) % CLASSES

    def rows(count, spread=1.0):
        y = labels[:count]
        features = (means[y] + spread * draw(count, DIM)).relu()
        return PartArrays(features, F.linear(features, weight, bias), y)

    far = (2 * draw(90, DIM)).relu()
    return Arrays(
        {
            "train": rows(300),
            "validation": rows(60),
            "id": rows(120),
            "covariate_snow": rows(100, 2.0),
            "covariate_fog": rows(80, 1.5),
            "semantic_noise": PartArrays(far, F.linear(far, weight, bias)),
        },
        weight,
        bias,
    )


ARRAYS = made()


def without(arrays, *names):
    """The same without arrays of these names, or names that end so."""
    kept = {name: each for name, each in arrays.arrays.items() if not name.endswith(names)}
    return from_names(kept)


def from_names(tensors):
    parts = {}
    for name, each in tensors.items():
        if name not in ("weight", "bias"):
            part, _, what = name.rpartition("_")
            parts.setdefault(part, {})[what] = each
    return Arrays(
        {name: PartArrays(**each) for name, each in parts.items()}, tensors.get("weight"), tensors.get("bias")
    )


def saved(path, **arrays):
    """As a user would write it, with numpy or with the package of the format."""
    if path.suffix == ".npz":
        np.savez(path, **{name: np.asarray(each) for name, each in arrays.items()})
    else:
        tensors = {name: torch.as_tensor(each).clone().contiguous() for name, each in arrays.items()}
        safetensors.torch.save_file(tensors, path)
    return path


def assert_same(one, other):
    assert one.arrays.keys() == other.arrays.keys()
    for name, each in one.arrays.items():
        theirs = other.arrays[name]
        assert each.dtype == theirs.dtype and torch.equal(each, theirs), name


def message(read, *arguments):
    with pytest.raises(UserError) as error:
        read(*arguments)
    text = str(error.value)
    assert "\n" not in text
    return text


# Reading and writing


@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.parametrize("dtype", [torch.float16, torch.float32, torch.float64])
def test_what_is_written_is_read_back_to_the_bit(tmp_path, suffix, dtype):
    parts = {
        name: PartArrays(part.features.to(dtype), part.logits.to(dtype), part.labels)
        for name, part in ARRAYS.parts.items()
    }
    arrays = Arrays(parts, ARRAYS.weight.to(dtype), ARRAYS.bias.to(dtype))
    exchange.write(tmp_path / f"outputs.{suffix}", arrays)
    read = exchange.read(tmp_path / f"outputs.{suffix}")
    assert_same(read, arrays)
    assert read.digest == arrays.digest


def test_bfloat16_is_for_safetensors_alone(tmp_path):
    arrays = replace(ARRAYS, weight=ARRAYS.weight.bfloat16())
    exchange.write(tmp_path / "a.safetensors", arrays)
    assert_same(exchange.read(tmp_path / "a.safetensors"), arrays)
    told = message(exchange.write, tmp_path / "a.npz", arrays)
    assert told == "'weight' is bfloat16, which .npz does not support; write a .safetensors file"
    assert not (tmp_path / "a.npz").exists()


def test_notes_are_kept_where_the_format_has_any(tmp_path):
    for suffix, expected in (("npz", {}), ("safetensors", {"made by": "me"})):
        exchange.write(tmp_path / f"a.{suffix}", replace(ARRAYS, notes={"made by": "me"}))
        assert exchange.read(tmp_path / f"a.{suffix}").notes == expected


def test_the_package_of_the_format_reads_what_we_write(tmp_path):
    exchange.write(tmp_path / "a.safetensors", ARRAYS)
    theirs = safetensors.torch.load_file(tmp_path / "a.safetensors")
    assert theirs.keys() == ARRAYS.arrays.keys()
    assert all(torch.equal(each, ARRAYS.arrays[name]) for name, each in theirs.items())
    exchange.write(tmp_path / "a.npz", ARRAYS)
    with np.load(tmp_path / "a.npz") as theirs:
        assert all((theirs[name] == each.numpy()).all() for name, each in ARRAYS.arrays.items())


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_a_file_of_others_is_read_whatever_its_types_and_order(tmp_path, suffix):
    given = {name: each.numpy() for name, each in ARRAYS.arrays.items()}
    labels = {name: each.astype(np.uint8) for name, each in given.items() if name.endswith("_labels")}
    if suffix == "npz":
        given["train_features"] = np.asfortranarray(given["train_features"])
        given["id_features"] = given["id_features"].astype(">f4")
        labels["id_labels"] = labels["id_labels"].astype("<u4")
    assert_same(exchange.read(saved(tmp_path / f"a.{suffix}", **{**given, **labels})), ARRAYS)


def test_a_compressed_npz_is_read_too(tmp_path):
    np.savez_compressed(tmp_path / "a.npz", **{name: each.numpy() for name, each in ARRAYS.arrays.items()})
    assert_same(exchange.read(tmp_path / "a.npz"), ARRAYS)


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_values_stay_on_the_disk_until_they_are_used(tmp_path, suffix):
    def resident():
        return int(Path("/proc/self/smaps_rollup").read_text().split("Private_Dirty:")[1].split()[0])  # in kB

    rows = torch.ones(200_000, 64)  # 51 MB
    exchange.write(tmp_path / f"a.{suffix}", without(from_names({"id_logits": rows, "id_labels": rows[:, 0].long()})))
    exchange.read(tmp_path / f"a.{suffix}")  # what reading itself keeps, once and for all
    before = resident()
    read = exchange.read(tmp_path / f"a.{suffix}")
    assert resident() - before < 10_000 and read.parts["id"].logits.sum() == rows.sum()


def test_a_file_of_ours_that_has_lost_its_seal_is_damaged(tmp_path):
    path = tmp_path / "a.safetensors"
    exchange.write(path, SMALL)
    path.write_bytes(path.read_bytes().replace(b'"digest"', b'"digesv"'))
    assert message(exchange.read, path) == (f"'{path}' is damaged (its content is not what was written); get it again")


def test_sets_are_told_by_their_names():
    assert ARRAYS.sets("covariate") == {"snow": "covariate_snow", "fog": "covariate_fog"}
    assert ARRAYS.sets("semantic") == {"noise": "semantic_noise"}
    alone = from_names({"id_logits": 0, "covariate_logits": 0, "semantic_a_b_logits": 0})
    assert alone.sets("covariate") == {"covariate": "covariate"} and alone.sets("semantic") == {"a_b": "semantic_a_b"}


# What is refused


def changed(**arrays):
    return {**ARRAYS.arrays, **arrays}


def dropped(*names):
    return {name: each for name, each in ARRAYS.arrays.items() if not name.endswith(names)}


def with_one(values, value):
    values = values.clone()
    values.view(-1)[5] = value
    return values


A = ARRAYS.arrays
MISFITS = {
    "a feature that is 3-d": (
        changed(id_features=A["id_features"][:, :, None]),
        "'id_features' has shape 120 x 16 x 1; a row of numbers for each is needed",
    ),
    "labels that are 2-d": (
        changed(id_labels=A["id_labels"][:, None]),
        "'id_labels' has shape 120 x 1; one number for each row is needed",
    ),
    "a single number": (changed(bias=torch.tensor(1.0)), "'bias' has shape of one number; one number for each row is "),
    "other rows": (
        changed(id_labels=A["id_labels"][:99]),
        "'id_labels' has 99 rows and 'id_features' 120; give one row for each image",
    ),
    "another width": (
        changed(id_features=A["id_features"][:, :9]),
        "'id_features' has 9 columns and 'weight' 16; features are the input of the head",
    ),
    "other classes": (
        changed(semantic_noise_logits=A["semantic_noise_logits"][:, :4]),
        "'semantic_noise_logits' has 4 columns where there are 6 classes; give one for each class",
    ),
    "a bias of others": (changed(bias=A["bias"][:3]), "'bias' has 3 numbers and 'weight' 6 rows; give one for each"),
    "NaN": (
        changed(train_features=with_one(A["train_features"], torch.nan)),
        "1 of the numbers in 'train_features' are NaN or infinite in float32; ",
    ),
    "infinity": (changed(id_logits=with_one(A["id_logits"], torch.inf)), "1 of the numbers in 'id_logits' are NaN or "),
    "too large for float32": (
        changed(id_features=with_one(A["id_features"].double(), 1e300)),
        "1 of the numbers in 'id_features' are NaN or infinite in float32; ",
    ),
    "no ID labels": (dropped("id_labels"), "'id' has no labels; give id_labels"),
    "no training labels": (dropped("train_labels"), "'train' has no labels; give train_labels"),
    "labels from one": (
        changed(id_labels=A["id_labels"] + 1),
        "'id_labels' are from 1 to 6; with 6 classes they are from 0 to 5",
    ),
    "labels below zero": (changed(id_labels=A["id_labels"] - 1), "'id_labels' are from -1 to 4; "),
    "labels that are no whole numbers": (
        changed(id_labels=A["id_labels"].float()),
        "'id_labels' holds float32 values; labels are whole numbers: save them as int64",
    ),
    "whole features": (changed(id_features=A["id_features"].int()), "'id_features' holds int32 values; save them as f"),
    "labels of a semantic set": (
        changed(semantic_noise_labels=torch.zeros(90).long()),
        "'semantic_noise_labels' are labels of images that belong to no ID class; leave them out",
    ),
    "0 ID rows": (
        changed(**{name: A[name][:0] for name in ("id_features", "id_logits", "id_labels")}),
        "'id' has 0 rows; give some, or leave it out",
    ),
    "no ID rows": (
        dropped("id_features", "id_logits", "id_labels"),
        "there are no ID test rows; give id_features or id_logits, and id_labels",
    ),
    "nothing of the rows": (
        dropped("id_features", "id_logits"),
        "'id' has only labels; give id_features or id_logits",
    ),
    "features here and there": (
        dropped("semantic_noise_features"),
        "'semantic_noise' has no features, but another set has; give features for all sets or for none",
    ),
    "neither logits nor a head": (
        dropped("semantic_noise_logits", "weight", "bias"),
        "'semantic_noise' has no logits and there is no head to compute them with; give weight and bias",
    ),
    "a bias alone": (dropped("weight"), "there is a bias but no weight; give both or neither"),
    "a near miss": (
        {**dropped("id_features"), "id_feature": A["id_features"]},
        "unknown array 'id_feature'; did you mean 'id_features'",
    ),
    "a near miss of a set": (
        changed(semantic_sky_logit=A["semantic_noise_logits"]),
        "unknown array 'semantic_sky_logit'; did you mean 'semantic_sky_logits'",
    ),
    "something else": (changed(x=A["bias"]), "unknown array 'x'; known: bias, covariate_features, "),
    "a name that no folder can have": (
        {**A, "semantic_../x_logits": A["semantic_noise_logits"]},
        "the set name in 'semantic_../x_logits' has other characters; use letters, digits and . + - _",
    ),
    "two sets of one name": (
        {
            name.replace("snow", "covariate").replace("covariate_fog", "covariate"): each
            for name, each in A.items()
        },
        "there are two covariate sets called 'covariate'; give them names that differ",
    ),
    "one class": (
        {"id_logits": A["id_logits"][:, :1], "id_labels": 0 * A["id_labels"]},
        "there are 1 classes by the logits or the head; give 2 to 32,767",
    ),
    "another head": (
        changed(weight=A["weight"].flip(0)),
        "'covariate_fog_logits' are not weight times 'covariate_fog_features' plus bias, but up to ",
    ),
}  # fmt: skip


@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.parametrize("misfit", MISFITS)
def test_what_does_not_fit_is_refused_in_one_line(tmp_path, suffix, misfit):
    tensors, expected = MISFITS[misfit]
    path = saved(tmp_path / f"a.{suffix}", **tensors)
    assert message(exchange.read, path).startswith(f"'{path}': {expected}")


def test_what_is_no_such_file_is_refused_in_one_line(tmp_path):
    text = tmp_path / "a.npz"
    text.write_text("no arrays")
    assert message(exchange.read, text) == f"'{text}' is damaged (BadZipFile: File is not a zip file); get it again"
    other = tmp_path / "a.safetensors"
    other.write_text("no arrays at all")
    assert message(exchange.read, other).startswith(f"'{other}' has a header of ")
    other.write_bytes(struct.pack("<Q", 9) + b"no arrays")
    assert message(exchange.read, other).startswith(f"'{other}' is damaged (SafetensorError: ")
    table = tmp_path / "a.csv"
    assert message(exchange.read, table) == f"'{table}' is not a file of arrays by its name; give .npz or .safetensors"
    absent = tmp_path / "b.npz"
    told = message(exchange.read, absent)
    assert told == f"cannot read '{absent}': No such file or directory; give a file of arrays"
    (tmp_path / "c.npz").mkdir()
    assert message(exchange.read, tmp_path / "c.npz").endswith("c.npz': Is a directory; give a file of arrays")
    os.mkfifo(tmp_path / "d.npz")
    assert message(exchange.read, tmp_path / "d.npz").endswith("d.npz': Not a regular file; give a file of arrays")


class Canary:
    """Writes a file where it is unpickled."""

    def __reduce__(self):
        return Path.touch, (Path("canary"),)


def test_no_pickle_is_opened(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    np.savez("a.npz", id_features=np.array([Canary()], dtype=object), allow_pickle=True)
    assert "holds Python objects, which could run code; save plain numbers" in message(exchange.read, Path("a.npz"))
    assert not Path("canary").exists()


def packed(members, compression=zipfile.ZIP_STORED):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", compression) as archive:
        for name, content in members:
            archive.writestr(name, content)
    return file.getvalue()


def npy(array):
    file = io.BytesIO()
    np.save(file, array)
    return file.getvalue()


def test_a_file_that_asks_for_far_more_than_its_size_is_refused(tmp_path):
    path = tmp_path / "a.npz"
    path.write_bytes(packed([("id_features.npy", npy(np.zeros((2000, 2000))))], zipfile.ZIP_DEFLATED))
    assert "unpacks to far more than its size; it is not to be trusted" in message(exchange.read, path)
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(header, {"descr": "<f4", "fortran_order": False, "shape": (10**6, 10**6)})
    path.write_bytes(packed([("id_features.npy", b"\x93NUMPY\x01\0" + header.getvalue()[8:])]))
    assert "is truncated or damaged: 0 bytes for 4,000,000,000,000; get it again" in message(exchange.read, path)
    path.write_bytes(packed([("id_features.npy", b"x"), ("id_features", b"x")]))
    assert message(exchange.read, path) == f"'{path}' holds two arrays of one name; save each once"
    other = tmp_path / "a.safetensors"
    other.write_bytes(struct.pack("<Q", 2**40) + b"{}")
    assert f"'{other}' has a header of {2**40:,} bytes" in message(exchange.read, other)


def test_a_type_that_nobody_computes_in_is_refused(tmp_path):
    path = tmp_path / "a.safetensors"
    safetensors.torch.save_file({"id_features": torch.zeros(3, 2, dtype=torch.float8_e5m2)}, path)
    assert message(exchange.read, path).startswith(f"'{path}/id_features': unknown type of values 'F8_E5M2'; ")
    np.savez(tmp_path / "a.npz", id_features=np.zeros((3, 2), np.longdouble))
    assert "save them as float32, labels as int64" in message(exchange.read, tmp_path / "a.npz")


SMALL = Arrays(
    {
        "train": PartArrays(torch.arange(12.0).view(6, 2), None, torch.arange(6) % 3),
        "id": PartArrays(torch.ones(3, 2), None, torch.arange(3)),
        "semantic_x": PartArrays(-torch.ones(3, 2), None),
    },
    torch.arange(6.0).view(3, 2),
    torch.zeros(3),
)
WOUNDS = st.one_of(
    st.tuples(st.just("flip"), st.floats(0, 1), st.integers(0, 7)),
    st.tuples(st.just("write"), st.floats(0, 1), st.binary(min_size=1, max_size=8)),
    st.tuples(st.just("insert"), st.floats(0, 1), st.binary(min_size=1, max_size=8)),
    st.tuples(st.just("cut out"), st.floats(0, 1), st.integers(1, 300)),
    st.tuples(st.just("cut off"), st.floats(0, 1), st.just(0)),
)


def wounded(content, kind, where, what):
    place = int(where * (len(content) - 1))
    if kind == "flip":
        return content[:place] + bytes([content[place] ^ 1 << what]) + content[place + 1 :]
    if kind == "write":
        return content[:place] + what + content[place + len(what) :]
    if kind == "insert":
        return content[:place] + what + content[place:]
    return content[:place] + (content[place + what :] if kind == "cut out" else b"")


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    folder = tmp_path_factory.mktemp("damaged")
    for suffix in SUFFIXES:
        exchange.write(folder / f"whole.{suffix}", SMALL)
    return folder


@pytest.mark.parametrize("suffix", SUFFIXES)
@settings(max_examples=300, deadline=None)
@given(wound=WOUNDS)
@example(wound=("cut off", 0.0, 0))
@example(wound=("flip", 0.951171875, 0))  # of an .npz: a length in its directory that hides the last member
def test_a_damaged_file_is_refused_in_one_line_or_gives_the_same_arrays(place, suffix, wound):
    path = place / f"a.{suffix}"
    path.write_bytes(wounded((place / f"whole.{suffix}").read_bytes(), *wound))
    try:
        read = exchange.read(path)
    except UserError as refusal:
        assert len(str(refusal).splitlines()) == 1
    else:
        assert_same(read, SMALL)


@settings(max_examples=200, deadline=None)
@given(
    names=st.lists(st.sampled_from([*SMALL.arrays, "id_logits", "covariate_labels", "semantic_features", "", "x"])),
    shapes=st.lists(st.lists(st.integers(0, 4), max_size=3), min_size=9, max_size=9),
    dtypes=st.lists(
        st.sampled_from([torch.float32, torch.float16, torch.bfloat16, torch.int64, torch.bool]), min_size=9
    ),
)
def test_arrays_of_any_shape_and_type_are_read_or_refused_in_one_line(place, names, shapes, dtypes):
    made = {name: torch.ones(shape).to(dtype) for name, shape, dtype in zip(names, shapes, dtypes, strict=False)}
    path = place / "b.safetensors"
    safetensors.torch.save_file(made, path)
    try:
        assert exchange.read(path).arrays.keys() == made.keys()
    except UserError as refusal:
        assert len(str(refusal).splitlines()) == 1


# What scorers make of it


REGISTRY = Registry()
SCORERS = [name for name, card in REGISTRY.cards.items() if card.kind == "Scorer"]


@cache
def of(text):
    """A scorer, and perhaps a value: knn, or knn,k=3."""
    name, _, value = text.partition(",")
    spec = REGISTRY.method(name)
    return keyed((spec.with_value(name, *value.split("=")) if value else spec).scorer)


BACK_TO_IMAGES = {"adascale", "gram", "odin", "rankfeat"}


@cache
def scored(arrays, name, covariate="covariate_snow", semantic="semantic_noise"):
    given = as_evaluation(arrays, CPU)
    evaluation = Evaluation(given.model, given.images["train"], known=given.known)
    return evaluation.score(of(name), given.parts(covariate, semantic))[0]


def theirs(name, train, rows):
    """Scores by pytorch-ood of the rows of a part."""
    logits, y = F.linear(train.features, ARRAYS.weight, ARRAYS.bias), train.labels
    if name == "msp":
        return detector.MaxSoftmax(None).predict_logits(rows.logits)
    if name == "energy":
        return detector.EnergyBased(None).predict_logits(rows.logits)
    fitted = {
        "knn": lambda: detector.KNN(None, k=50).fit_features(train.features, y),
        "mahalanobis": lambda: detector.Mahalanobis(None).fit_features(train.features, y),
        "vim": lambda: detector.ViM(None, d=12, w=ARRAYS.weight, b=ARRAYS.bias).fit_features(train.features, y),
    }[name]()
    assert len(logits) == len(train)
    return fitted.predict_features(rows.features)


@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.parametrize("name", ["msp", "energy", "knn", "mahalanobis", "vim"])
def test_a_file_gives_the_auroc_that_pytorch_ood_gives_on_its_features(tmp_path, suffix, name):
    path = tmp_path / f"a.{suffix}"
    exchange.write(path, without(ARRAYS, "_logits"))
    ours = scored(exchange.read(path), "vim,dim=12" if name == "vim" else name)
    auroc = metrics.auroc(ours["id"].scores, ours["semantic"].scores)
    train, id_rows, far = (ARRAYS.parts[each] for each in ("train", "id", "semantic_noise"))
    values = torch.cat([theirs(name, train, rows) for rows in (id_rows, far)]).numpy()
    expected = roc_auc_score([0] * len(id_rows) + [1] * len(far), values)
    assert 0.55 < auroc < 1 and abs(auroc - expected) < 1e-6
    accuracy = (id_rows.logits.argmax(dim=1) == id_rows.labels).float().mean().item()
    assert (ours["id"].predictions == ours["id"].labels).mean() == pytest.approx(accuracy, abs=1e-6)


def test_every_scorer_that_goes_not_back_to_images_takes_a_whole_file():
    given = as_evaluation(ARRAYS, CPU)
    assert given.remarks == []
    able = [each for each in map(of, SCORERS) if lacking(ARRAYS, each.scorer) is None]
    assert {*SCORERS} - {each.name for each in able} == BACK_TO_IMAGES | {"ood-head"}  # which no file holds
    evaluation = Evaluation(given.model, given.images["train"], able, given.known)
    for each in able:
        found, seconds = evaluation.score(each, given.parts("covariate_fog", "semantic_noise"))
        assert [len(found[split].scores) for split in ("id", "covariate", "semantic")] == [120, 80, 90]
        assert np.isfinite(found["semantic"].scores).all() and seconds["forward"] == 0
        assert found["semantic"].labels is None and found["covariate"].labels.tolist() == list(np.arange(80) % CLASSES)


def test_logits_are_computed_where_they_are_missing():
    for name in ("msp", "vim", "relation"):
        whole, computed = scored(ARRAYS, name), scored(without(ARRAYS, "_logits"), name)
        for split in whole:
            np.testing.assert_allclose(computed[split].scores, whole[split].scores, rtol=1e-5)


def test_half_precision_is_computed_with_in_float32():
    small = from_names({name: each if "labels" in name else each.half() for name, each in ARRAYS.arrays.items()})
    known = as_evaluation(small, CPU).known.values()
    assert {each.features.dtype for each in known} == {each.logits.dtype for each in known} == {torch.float32}
    np.testing.assert_allclose(scored(small, "knn")["id"].scores, scored(ARRAYS, "knn")["id"].scores, rtol=0.01)


def test_test_rows_show_no_labels():
    given = as_evaluation(ARRAYS, CPU)
    shown = {name for name, images in given.images.items() if given.known[images.digest].y is not None}
    assert shown == {"train", "validation"}


def test_sets_that_are_not_there_are_left_out_of_the_scores():
    assert scored(ARRAYS, "msp", covariate=None).keys() == {"id", "semantic"}
    assert scored(ARRAYS, "msp", semantic=None).keys() == {"id", "covariate"}
    assert scored(ARRAYS, "msp", None, None).keys() == {"id"}


def test_without_validation_rows_a_tenth_of_the_training_rows_is_held_out_and_said():
    given = as_evaluation(without(ARRAYS, "validation_features", "validation_logits", "validation_labels"), CPU)
    told = "the file holds no validation rows, so 30 of its 300 training rows, drawn at random, take their place"
    assert given.remarks == [told]
    kept, held_out = given.images["train"], given.images["validation"]
    assert sorted([*kept.rows, *held_out.rows]) == list(range(300)) and len(held_out) == 30
    assert held_out.rows.tolist() != list(range(270, 300))
    for part in (kept, held_out):
        out = given.known[part.digest]
        assert torch.equal(out.features, ARRAYS.parts["train"].features[part.rows])
        assert out.y.tolist() == part.labels.tolist() == ARRAYS.parts["train"].labels[part.rows].tolist()
    again = as_evaluation(without(ARRAYS, "validation_features", "validation_logits", "validation_labels"), CPU)
    assert again.images["validation"].digest == held_out.digest


def test_without_features_scorers_of_logits_are_left():
    alone = without(ARRAYS, "_features", "weight", "bias")
    able = {name for name in SCORERS if lacking(alone, of(name).scorer) is None}
    assert able == {name for name in SCORERS if REGISTRY.cards[name].reads == "logits"}
    assert lacking(alone, of("knn").scorer) == "reads distances, and the file holds only logits"
    for name in able:
        np.testing.assert_array_equal(scored(alone, name)["id"].scores, scored(ARRAYS, name)["id"].scores)


def test_without_a_head_what_reads_it_is_left_out_or_told_when_it_asks():
    headless = without(ARRAYS, "weight", "bias")
    assert lacking(headless, of("vim").scorer) == "reads the head, whose weight the file does not hold"
    asking = set()
    for name in SCORERS:
        if lacking(headless, of(name).scorer) is None:
            try:
                np.testing.assert_array_equal(scored(headless, name)["id"].scores, scored(ARRAYS, name)["id"].scores)
            except Lacking as told:
                assert (
                    str(told) == "the file has no head; give its weight and bias, or leave out scorers that read them"
                )
                asking.add(name)
    assert asking == {"residual"}


def test_without_training_rows_scorers_with_nothing_to_fit_are_left():
    fitless = without(ARRAYS, "train_features", "train_logits", "train_labels")
    able = {name for name in SCORERS if lacking(fitless, of(name).scorer) is None}
    assert able > {"msp", "energy", "gen", "ash", "scale", "temp-scale"} and "knn" not in able
    assert lacking(fitless, of("knn").scorer) == "needs training rows, and the file holds none"
    for name in able:
        np.testing.assert_array_equal(scored(fitless, name)["id"].scores, scored(ARRAYS, name)["id"].scores)
    with pytest.raises(Lacking, match="the file has no training rows; give train_features and train_labels, or leave"):
        scored(fitless, "knn")
    bare = without(fitless, "validation_features", "validation_logits", "validation_labels")
    told = lacking(bare, of("temp-scale").scorer)
    assert told == "needs validation rows, and the file holds none"


def test_without_training_rows_negative_features_are_refused_all_the_same():
    signed = without(ARRAYS, "train_features", "train_logits", "train_labels", "_logits")
    parts = {name: replace(part, features=part.features - 1) for name, part in signed.parts.items()}
    with pytest.raises(Failed, match="'scale' needs features that are not negative"):
        scored(replace(signed, parts=parts), "scale")


@pytest.mark.parametrize("name", sorted(BACK_TO_IMAGES | {"mahalanobis,magnitude=0.01"}))
def test_what_asks_for_images_is_told_that_there_are_none(name):
    with pytest.raises(Lacking) as error:
        scored(ARRAYS, name)
    assert str(error.value) == IMAGES


class Looking(Scorer):
    """Looks at the images in a way of its own."""

    def __init__(self, look):
        self.look = look

    def score(self, out):
        self.look(out)
        return out.logits.amax(dim=-1)


@pytest.mark.parametrize(
    "look",
    [
        lambda out: next(out.inputs()),
        lambda out: out.images.shape,
        lambda out: next(out.images.split(3)),
        lambda out: out.images.index_select(0, torch.arange(2)),
        lambda out: np.asarray(out.images.pictures),
        lambda out: out.model(torch.zeros(2, 3, 8, 8)),
        lambda out: out.model.features(torch.zeros(2, 3, 8, 8)),
        lambda out: out.model.maps(torch.zeros(2, 3, 8, 8)),
    ],
)
@pytest.mark.parametrize("shipped", [True, False])
def test_every_way_to_an_image_ends_in_the_same_words(look, shipped):
    given = as_evaluation(ARRAYS, CPU)
    evaluation = Evaluation(given.model, given.images["train"], known=given.known)
    with pytest.raises(Lacking) as error:
        evaluation.score(KeyedScorer(Looking(look), "looking", "looking", shipped), given.parts(None, "semantic_noise"))
    assert str(error.value) == IMAGES


def test_an_expected_scorer_that_asks_for_images_leaves_the_others_alone():
    given = as_evaluation(ARRAYS, CPU)
    expected = [of("odin"), of("rankfeat"), of("gram"), of("msp")]
    evaluation = Evaluation(given.model, given.images["train"], expected, given.known)
    found, _ = evaluation.score(of("msp"), given.parts(None, "semantic_noise"))
    np.testing.assert_array_equal(found["id"].scores, scored(ARRAYS, "msp")["id"].scores)


def test_parts_count_by_content():
    one, other = as_evaluation(ARRAYS, CPU), as_evaluation(made(), CPU)
    assert {name: part.digest for name, part in one.images.items()} == {
        name: part.digest for name, part in other.images.items()
    }
    more = as_evaluation(replace(ARRAYS, parts={**ARRAYS.parts, "id": made(1).parts["id"]}), CPU)
    differ = {name for name, part in more.images.items() if part.digest != one.images[name].digest}
    assert differ == {"id"} and ARRAYS.digest == made().digest != made(1).digest
