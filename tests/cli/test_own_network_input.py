"""What nobody should give `evaluate`, `fit` and `predict`: one line, the status that is documented, nothing written."""

import io
import json
import shutil
import sys
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
import torch
from command_line import assert_done, assert_refused, oodbench
from own_digits import BUILD, CLASSES, digits, write_folder, write_network
from PIL import Image

import oodbench as api
from oodbench.errors import UserError

NETWORK = ("--model", "my_net.py:build", "--weights", "mine.pt")
SETS = ("--id", "folder:id", "--semantic", "folder:unseen")
EVALUATE = ("evaluate", *NETWORK, *SETS, "--scorers", "msp", "--offline")
FIT = ("fit", *NETWORK, *SETS, "--scorer", "msp", "--offline")
PREDICT = ("predict", "det", "--model", "my_net.py:build")


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A network, its images and a detector of it."""
    folder = tmp_path_factory.mktemp("made")
    write_network(folder)
    data = digits()
    write_folder(folder / "id", data.test[:160], data.test_labels[:160])
    write_folder(folder / "unseen", data.unseen[:12])
    words = (
        "fit",
        "--model",
        folder / "my_net.py:build",
        "--weights",
        folder / "mine.pt",
        "--id",
        f"folder:{folder}/id",
    )
    assert oodbench(*words, "--scorer", "msp", "--keep", "0.9", "--out", folder / "det").status == 0
    return folder


@pytest.fixture(autouse=True)
def place(made, tmp_path, monkeypatch):
    shutil.copytree(made, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def contents():
    return {str(path): path.stat().st_mtime_ns for path in Path().rglob("*") if path.is_file()}


def refused(arguments, *parts):
    """In one line, with nothing written."""
    before = contents()
    assert_refused(oodbench(*arguments), *parts)
    assert contents() == before


def without(words, *options):
    """A command without these options and their values."""
    at = [i for i, word in enumerate(words) if word in options]
    return [word for i, word in enumerate(words) if i not in at and i - 1 not in at]


# The network


@pytest.mark.parametrize(
    ("model", "says"),
    [
        ("timm:resnet81", "unknown model of timm 'resnet81'; did you mean 'resnet18'"),
        ("torchvision:resnet5O", "unknown model of torchvision 'resnet5O'; did you mean 'resnet50'"),
        ("my_net.py:buid", "my_net.py: unknown function 'buid'; did you mean 'build'?"),
        ("oodbench:wnr", "unknown network of oodbench 'wnr'; did you mean 'wrn'?"),
        ("my_net.py", "name the function that makes the network: my_net.py:function"),
        ("missing.py:build", "cannot read 'missing.py': No such file or directory"),
        ("mine.pt", "--model 'mine.pt' is not a network; give timm:NAME"),
        ("resnet18", "unknown network 'resnet18'; give --model timm:NAME"),
    ],
)
def test_an_unknown_network_is_answered_with_near_misses(model, says):
    library = model.partition(":")[0]
    if library in ("timm", "torchvision") and find_spec(library) is None:
        pytest.skip(f"{library} is not installed")
    refused([*without(EVALUATE, "--model", "--weights"), "--model", model], says)


def test_weights_that_do_not_fit_are_told_by_the_first_five_names():
    torch.save({f"layer{i}.weight": torch.zeros(3) for i in range(9)}, "other.pt")
    lacks = "it lacks 'stem.0.weight', 'stem.0.bias', 'stem.3.weight', 'stem.3.bias', 'classify.weight' and 1 more"
    has = ", ".join(f"'layer{i}.weight'" for i in range(5)) + " and 4 more, which the network lacks"
    refused([*without(EVALUATE, "--weights"), "--weights", "other.pt"], "belongs to another network", lacks, has)


@pytest.mark.parametrize(
    ("content", "says"),
    [(b"junk" * 100, "is not a file of weights"), (b"", "is not a file of weights"), (None, "there is no file 'w.pt'")],
)
def test_weights_that_cannot_be_read_are_told(content, says):
    if content is not None:
        Path("w.pt").write_bytes(content)
    refused([*without(EVALUATE, "--weights"), "--weights", "w.pt"], "'w.pt'", says)


def test_weights_that_are_cut_off_or_changed_are_told():
    content = Path("mine.pt").read_bytes()
    Path("mine.pt").write_bytes(content[:-100])
    refused(EVALUATE, "'mine.pt' is not a file of weights")
    middle = len(content) // 2
    Path("mine.pt").write_bytes(content[:middle] + bytes([content[middle] ^ 1]) + content[middle + 1 :])
    refused(EVALUATE, "'mine.pt' is not a file of weights", "copy it again")


def test_another_number_of_classes_is_told():
    Path("five.py").write_text(BUILD.replace("num_classes=8", "ignored=None").replace("Net(num_classes)\n", "Net(5)\n"))
    network = ("--model", "five.py:build")
    refused([*without(EVALUATE, "--model"), *network], "'mine.pt' has 8 classes, and the network has 5; build it for 8")
    refused(
        [*without(EVALUATE, "--model", "--weights"), *network],
        "the network has 5 classes, the ID images 8", "give --classes FILE",
    )  # fmt: skip


def test_a_network_that_gives_nan_is_told():
    Path("nan.py").write_text(
        BUILD.replace("self.classify(self.stem(x))", "self.classify(self.stem(x) * float('nan'))")
    )
    refused([*without(EVALUATE, "--model"), "--model", "nan.py:build"], "the network gives NaN for 16 of 16 images")


def test_code_that_fails_is_told_with_its_line():
    Path("bad.py").write_text("def build():\n    return 1 / 0\n")
    words = [*without(EVALUATE, "--model", "--weights"), "--model", "bad.py:build"]
    refused(words, "ZeroDivisionError at bad.py:2: division by zero; correct the code")


@pytest.mark.parametrize(
    ("option", "value", "says"),
    [
        ("--head", "clasify", "unknown layer 'clasify'; did you mean 'classify'?"),
        ("--head", "stem", "the layer 'stem' has no row of weights for every output"),
        ("--classes", "seven.txt", "'seven.txt' names 7 outputs, and the network has 8"),
        ("--classes", "missing.txt", "cannot read 'missing.txt'"),
        ("--mean", "0.5,0.5", "the mean has 2 numbers, and the images have 1 channel; give --mean 1 number"),
        ("--mean", "x", "--mean is 'x'; give a number"),
        ("--mean", "127", "--mean holds 127, and it is of pixels in [0, 1]; divide it by 255"),
        ("--std", "0", "--std holds 0, which nothing can be divided by"),
        ("--size", "0", "--size is '0'; give a number of pixels"),
        ("--size", "8x", "--size is '8x'; give a number of pixels"),
        ("--set", "recipe.epochs=3", "'recipe.epochs=3' is for training, and nothing is trained here"),
        ("--set", "msp.k=3", "unknown hyperparameter of msp 'k'; there are none"),
        ("--scorers", "mps", "unknown scorer 'mps'; did you mean 'msp'?"),
        ("--scorers", "", "no scorer given; name at least one"),
        ("--scorers", "scone", "'scone' is not a scorer, and nothing is trained here"),
        ("--results", "mine.pt", "the results folder 'mine.pt' is a file; choose another with --results"),
        ("--results", "mine.pt/x", "cannot write 'mine.pt/x"),
        ("--cpu-threads", "0", "--cpu-threads 0 is out of range; choose 1 or more"),
        ("--device", "abacus", "the device 'abacus' cannot be used"),
    ],
)
def test_an_option_that_cannot_be_is_told(option, value, says):
    Path("seven.txt").write_text("".join(f"digit{i}\n" for i in range(7)))
    refused([*without(EVALUATE, option), option, value], says)


def test_half_of_a_request_is_told():
    refused(("evaluate", *NETWORK), "there are no ID images; give --suite, --id folder:PATH")
    refused(("evaluate",), "give either a network, --model, or a file of its outputs, --arrays")
    refused(("evaluate", "--arrays", "a.npz", *NETWORK), "give either a network, --model, or")
    refused(("fit", "--out", "detector"), "there is no network; give it with --model")
    refused(
        ("evaluate", "--arrays", "a.npz", "--suite", "digits-c"), "a file of outputs has everything; leave out --suite"
    )
    refused((*EVALUATE, "--suite", "digits-c"), "a suite has its own ID data; leave out --id")
    refused((*EVALUATE, "--preset", "smoke"), "--setting, --preset and --available choose in a suite")


# The images


@pytest.mark.parametrize("option", ["--id", "--train", "--semantic", "--covariate"])
def test_a_folder_that_is_empty_or_missing_is_told(option):
    Path("empty").mkdir()
    refused([*without(EVALUATE, option), option, "folder:empty"], "'empty' holds no images: looked for .jpg")
    refused([*without(EVALUATE, option), option, "folder:missing"], "there is no file or folder 'missing'")


def test_a_data_set_that_is_unknown_is_answered_with_near_misses():
    refused(
        [*without(EVALUATE, "--id"), "--id", "cifra10"], "unknown data set or folder 'cifra10'; did you mean 'cifar10'"
    )


def test_a_class_of_one_image_is_told():
    for path in sorted(Path("id/digit3").iterdir())[1:]:
        path.unlink()
    refused(
        EVALUATE, "the class 'digit3' of 'folder:id' has one image, which cannot be both for fitting and for testing"
    )


def test_a_folder_without_classes_is_told():
    refused([*without(EVALUATE, "--id", "--semantic"), "--id", "folder:unseen"], "'folder:unseen' has no class folders")


def test_id_images_given_as_semantic_are_refused_under_the_name_that_was_typed():
    refused([*without(EVALUATE, "--semantic"), "--semantic", "folder:id"], "'folder:id' holds the ID images themselves")
    Path("copies").mkdir()
    for number, file in enumerate(sorted(Path("id").rglob("*.png"))[:20]):
        kind = ("L", "RGB")[number % 2]
        Image.open(file).convert(kind).save(f"copies/{number}.bmp")  # other files, other names, the same pixels
    words = [*without(EVALUATE, "--semantic"), "--semantic", "folder:copies"]
    refused(words, "20 of the 20 images of 'folder:copies' are ID images, pixel by pixel; give images of no class")


def test_a_few_id_images_among_semantic_ones_are_counted_in_a_note():
    shutil.copy(sorted(Path("id").rglob("*.png"))[0], "unseen/again.png")
    outcome = oodbench(*EVALUATE, "--results", "r")
    assert outcome.status == 0
    assert "note: 1 of the 13 images of 'folder:unseen' are ID images, pixel by pixel\n" in outcome.err


def test_a_list_of_images_of_one_class_is_told():
    Path("one.txt").write_text("".join(f"{file} 0\n" for file in sorted(Path("unseen").iterdir())))
    words = [*without(EVALUATE, "--id"), "--id", "folder:one.txt"]
    refused(words, "'folder:one.txt' has images of one class alone; give some for each class that the network knows")


def test_a_bad_image_among_id_images_is_named():
    path = sorted(Path("id/digit2").iterdir())[0]
    path.write_bytes(b"no image")
    refused(EVALUATE, f"{path}' is not an image that can be read (unknown format); fix or remove it")


def test_grey_arrays_for_a_color_network_are_told():
    scope = {}
    exec(BUILD.replace("Conv2d(1,", "Conv2d(3,"), scope)
    data = digits()
    with pytest.raises(UserError, match="channel") as caught:
        api.evaluate(scope["build"](), id=(data.test, data.test_labels), semantic={"unseen": data.unseen})
    assert "\n" not in str(caught.value) and not Path("results").exists()


# Files of outputs


def outputs(**changes):
    """An arrays file of three classes with something else in it, or without something (None)."""
    chance = np.random.default_rng(0)

    def features(rows):
        return np.abs(chance.normal(size=(rows, 4))).astype(np.float32)

    whole = {
        "train_features": features(30),
        "train_labels": np.arange(30) % 3,
        "id_features": features(9),
        "id_labels": np.arange(9) % 3,
        "semantic_far_features": features(9),
        "weight": chance.normal(size=(3, 4)).astype(np.float32),
        "bias": np.zeros(3, np.float32),
    }
    np.savez("outputs.npz", **{name: each for name, each in {**whole, **changes}.items() if each is not None})


ZEROS = np.zeros((9, 4), np.float32)


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"id_features": ZEROS + np.float32("nan")}, "36 of the numbers in 'id_features' are NaN or infinite"),
        ({"id_features": ZEROS[:0], "id_labels": np.zeros(0, int)}, "'id' has 0 rows"),
        ({"id_features": None, "id_labels": None}, "there are no ID test rows"),
        ({"id_labels": None}, "'id' has no labels; give id_labels"),
        ({"train_labels": None}, "'train' has no labels; give train_labels"),
        ({"id_labels": np.zeros(9)}, "'id_labels' holds float64 values; labels are whole numbers"),
        ({"id_labels": np.arange(9)}, "'id_labels' are from 0 to 8; with 3 classes they are from 0 to 2"),
        ({"id_labels": np.arange(8) % 3}, "'id_labels' has 8 rows and 'id_features' 9"),
        ({"id_features": ZEROS[:, :2]}, "'id_features' has 2 columns and 'weight' 4"),
        ({"id_features": ZEROS[..., None]}, "'id_features' has shape 9 x 4 x 1"),
        ({"bias": np.zeros(5, np.float32)}, "'bias' has 5 numbers and 'weight' 3 rows"),
        ({"weight": None}, "there is a bias but no weight"),
        ({"id_feature": ZEROS}, "unknown array 'id_feature'; did you mean 'id_features'"),
        ({"semantic_far_labels": np.arange(9) % 3}, "are labels of images that belong to no ID class"),
        ({"id_features": np.full((9, 4), "a")}, "holds values of type <U1"),
        ({"id_features": np.full((9, 4), None)}, "outputs.npz"),
    ],
)
def test_outputs_that_do_not_fit_are_told(changes, says):
    outputs(**changes)
    refused(("evaluate", "--arrays", "outputs.npz", "--scorers", "msp"), "outputs.npz", says)


def test_what_is_no_file_of_outputs_is_told():
    refused(("evaluate", "--arrays", "missing.npz"), "cannot read 'missing.npz': No such file or directory")
    refused(
        ("evaluate", "--arrays", "mine.pt"), "'mine.pt' is not a file of arrays by its name; give .npz or .safetensors"
    )
    for name in ("cut.npz", "cut.safetensors"):
        Path(name).write_bytes(b"PK\3\4 and so on")
        refused(("evaluate", "--arrays", name), name)


# Detectors


@pytest.mark.parametrize("keep", ["0", "1", "1.5", "nan", "-1", "inf"])
def test_a_share_that_is_none_is_told(keep):
    refused((*FIT, "--out", "new", "--keep", keep), f"--keep {keep} is out of range; choose a share between 0 and 1")


def test_a_share_that_so_few_images_cannot_show_is_told():
    refused((*FIT, "--out", "new", "--keep", ".999"), "held-out ID images cannot show what keeps 0.999 of them")


@pytest.mark.parametrize(
    ("out", "says"),
    [
        ("mine.pt", "'mine.pt' exists and is not a detector's folder; choose another name"),
        ("id", "'id' holds 'digit0', which belongs to no detector; choose another folder"),
        ("mine.pt/new", "cannot write"),
    ],
)
def test_a_detector_replaces_nothing_else(out, says):
    refused((*FIT, "--out", out), says)


@pytest.mark.parametrize(
    ("scorer", "says"),
    [
        ("bst", "unknown scorer 'bst'; did you mean 'best'"),
        ("mps", "unknown scorer 'mps'; did you mean 'msp'"),
        ("scone", "'scone' is not a scorer, and nothing is trained here"),
        ("best", "the best scorer is chosen on semantic images; give --semantic"),
    ],
)
def test_a_scorer_that_nobody_can_choose_is_told(scorer, says):
    refused([*without(FIT, "--scorer", "--semantic"), "--scorer", scorer, "--out", "new"], says)


def edited(change):
    values = json.loads(Path("det/detector.json").read_text())
    change(values)
    Path("det/detector.json").write_text(json.dumps(values))


def flipped(path):
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)


@pytest.mark.parametrize(
    ("harm", "says"),
    [
        (
            lambda: flipped(Path("det/detector.safetensors")),
            "is damaged or belongs to another detector (its digest differs)",
        ),
        (lambda: Path("det/detector.safetensors").unlink(), "cannot be read (No such file or directory); fit it again"),
        (lambda: Path("det/detector.json").unlink(), "'det' is not a detector: it has no detector.json"),
        (lambda: Path("det/detector.json").write_text("{"), "detector.json' is damaged"),
        (lambda: edited(lambda v: v["card"]["threshold"].update(value=0.0)), "is damaged (it is not what was written)"),
        (lambda: edited(lambda v: v.update(format=99)), "(format 99, this one reads up to"),
        (lambda: shutil.rmtree("det"), "'det' is not a detector"),
    ],
)
def test_a_detector_that_is_damaged_incomplete_or_of_another_version_is_told(harm, says):
    harm()
    refused((*PREDICT, "unseen"), says)


def test_the_network_of_a_detector_is_asked_for_and_another_one_refused():
    refused(("predict", "det", "unseen"), "is not stored as code; give it again: predict --model")
    Path("other.py").write_text(BUILD.replace("48", "40"))
    refused((*PREDICT[:-1], "other.py:build", "unseen"), "this is not the network", "the stored weights do not fit")


def test_predict_without_images_is_wrong_usage(monkeypatch):
    refused(PREDICT, "the following arguments are required: IMAGES")
    Path("empty").mkdir()
    outcome = oodbench(*PREDICT, "empty")
    assert outcome.status == 2 and outcome.err.splitlines()[0].startswith("oodbench: 'empty' holds no images")
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"")))
    refused((*PREDICT, "-"), "no images were given")


def test_one_bad_image_is_named_and_the_rest_goes_on():
    names = sorted(str(path) for path in Path("unseen").iterdir())
    Path(names[3]).write_bytes(b"no image")
    outcome = oodbench(*PREDICT, "unseen", "--format", "jsonl")
    rows = [json.loads(line) for line in outcome.out.splitlines()]
    assert outcome.status == 1 and [row["image"] for row in rows] == names
    assert [row["image"] for row in rows if "error" in row] == names[3:4]
    first, last = outcome.err.splitlines()
    assert names[3] in first and last.endswith("1 could not be read")


def test_a_list_on_standard_input_is_taken(monkeypatch):
    names = sorted(str(path) for path in Path("unseen").iterdir())[:3]
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO("\n".join(names).encode())))
    outcome = oodbench(*PREDICT, "-", "--format", "jsonl")
    assert outcome.status == 0 and [json.loads(line)["image"] for line in outcome.out.splitlines()] == names


# What is not refused and looks wrong


def notes(outcome):
    return [line for line in assert_done(outcome).splitlines() if line.startswith("note: ") and "classes on ID" in line]


def test_classes_in_another_order_are_doubted():
    for i in range(CLASSES):
        Path(f"id/digit{i}").rename(f"id/was{i}")
    for i in range(CLASSES):
        Path(f"id/was{i}").rename(f"id/digit{(i + 1) % CLASSES}")
    (note,) = notes(oodbench(*EVALUATE))
    assert f"% of {CLASSES} classes on ID, and " in note
    assert note.endswith("if the classes were in another order: is the class order right? see --classes")


def test_a_wrong_normalization_is_doubted_and_a_right_one_is_not():
    """Of a network that wants 0.5 subtracted and 0.01 divided by, as its first layers show."""
    Path("my_net.py").write_text(BUILD.replace("self.stem(x)", "self.stem(x * 0.01 + 0.5)"))
    assert notes(oodbench(*EVALUATE, "--mean", "0.5", "--std", "0.01")) == []
    (note,) = notes(oodbench(*EVALUATE))
    assert f"% of {CLASSES} classes on ID: is the class order or the normalization right? see --classes, --mean" in note


def test_evaluate_prints_the_table_on_standard_output_and_a_line_for_each_result_only_if_asked():
    out, err = oodbench(*EVALUATE)[1:]
    assert "MSP" in out and "Next: " not in out and "AUROC" in out
    assert "Next: oodbench fit " in err and "/ msp / seed 0: " not in err
    verbose = oodbench(*EVALUATE, "--verbose", "--force")
    assert verbose.out == out and "unseen / msp / seed 0: " in verbose.err
