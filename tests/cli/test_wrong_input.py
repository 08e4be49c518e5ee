"""What nobody should type, as commands: one line, status 2, and neither memory nor time is eaten."""

import os

import numpy as np
import pytest
from command_line import SUITE_FILE, assert_refused, oodbench
from PIL import Image

from oodbench import run
from oodbench.config.suite import load
from oodbench.data.folder import Folder
from oodbench.errors import UserError
from oodbench.running import network_size
from oodbench.running.plan import plan
from oodbench.running.preflight import choose_device
from oodbench.running.request import MOST_CELLS, request, seeds

RUN = ("run", "--suite", "digits-c", "--preset", "smoke", "--methods", "msp", "--offline", "--dry-run")


@pytest.fixture(autouse=True)
def folders(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OODBENCH_DATA", str(tmp_path / "data"))


@pytest.mark.parametrize("suffix", [".yaml", ".py", ".pt", ".png"])
def test_a_pipe_and_an_endless_device_are_never_read(suffix, tmp_path):
    os.mkfifo(f"fifo{suffix}")
    os.symlink("/dev/zero", f"zero{suffix}")
    for name in (f"fifo{suffix}", f"zero{suffix}"):
        option = {".yaml": "--request", ".py": "--plugin", ".pt": "--init", ".png": "--semantic"}[suffix]
        value = f"folder:{name}" if suffix == ".png" else name
        command = ("run", "--request", name) if suffix == ".yaml" else (*RUN[:-1], option, value)
        assert_refused(oodbench(*command), name)


@pytest.mark.parametrize("name", ["fifo.png", "zero.png"])
def test_a_picture_that_is_no_file_is_told_of(name, tmp_path):
    folder = pictures(tmp_path / "images")
    if name == "fifo.png":
        os.mkfifo(folder / name)
    else:
        (folder / name).symlink_to("/dev/zero")
    message = f"'{folder / name}' is not an image that can be read (Not a regular file)"
    assert_refused(oodbench(*RUN[:-1], "--semantic", f"folder:{folder}"), message)


def pictures(folder, names=("a", "b", "c")):
    os.makedirs(folder)
    for i, name in enumerate(names):
        pixels = np.full((8, 8, 3), 20 * i, dtype=np.uint8)
        with open(os.path.join(folder, f"{name}.png"), "wb") as file:
            Image.fromarray(pixels).save(file, "PNG")
    return folder


def test_pictures_and_folders_whose_names_are_not_utf8_are_read(tmp_path):
    folder = pictures(tmp_path / "b\udcffd", ("a", "\udcfe"))
    data = Folder(folder)
    images, labels, _ = data.load()
    assert data.name == "folder:b\\xffd" and images.shape == (2, 3, 8, 8) and labels.tolist() == [0, 0]


@pytest.mark.parametrize("line", [b"x" * 300 + b".png 0", b"a\0b.png 0", b"fifo.png 0", b"a.png " + b"9" * 5_000])
def test_an_image_list_of_absurd_names_is_refused(line):
    os.mkfifo("fifo.png")
    with open("list.txt", "wb") as file:
        file.write(line + b"\n")
    assert_refused(oodbench(*RUN[:-1], "--semantic", "folder:list.txt"), "list.txt")


@pytest.mark.parametrize("kind", ["--semantic", "--covariate"])
def test_the_home_of_nobody_is_no_folder(kind):
    message = "nobody knows the home folder in '~nosuchuser/x'; write the path out, from / on"
    assert_refused(oodbench(*RUN, kind, "folder:~nosuchuser/x"), message)


def test_a_user_without_a_home_is_told_to_name_a_data_folder(monkeypatch):
    for name in ("HOME", "OODBENCH_DATA", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("pwd.getpwuid", {}.__getitem__)  # of a number that the system has no name for
    message = "this user has no home folder; set OODBENCH_DATA to a folder"
    assert_refused(oodbench("data", "status", "svhn"), message)
    assert_refused(oodbench(*RUN, "--semantic", "folder:~/x"), "nobody knows the home folder in '~/x'")


@pytest.mark.parametrize(
    "name", ["hpu", "cuda:99", "meta", "xla", "privateuseone", "", "mkldnn", "cuda:-1", "\udcff", "x" * 10_000]
)
def test_a_device_that_is_not_there_is_refused(name):
    with pytest.raises(UserError, match=r"cannot be used \(.+\); choose --device auto or cpu$") as caught:
        choose_device(name)
    assert len(str(caught.value)) < 500


def test_there_is_one_cpu():
    assert str(choose_device("cpu:0")) == "cpu"
    with pytest.raises(UserError, match="there is only one CPU device, regardless of its cores, and no 'cpu:5'"):
        choose_device("cpu:5")


@pytest.mark.parametrize(
    ("network", "size"),
    [
        ("name: small-cnn, options: {width: 1000000}", "90,000,"),
        ("name: small-cnn, options: {width: 100000000000000000}", "layers that torch cannot make: "),
        ("name: mlp, options: {hidden: 1000000000}", "1,000,000,"),
        ("name: one-hidden, options: {hidden: 1000000000000}", "0,000,"),
        ("name: lenet-bn, options: {features: 1000000000000}", "794,000,000,001,408 parameters, "),
    ],
)
def test_a_network_that_no_machine_can_hold_is_refused_before_it_is_built(network, size, tmp_path):
    text = SUITE_FILE.read_text().replace("name: small-cnn, options: {width: 16}", network)
    (tmp_path / "mine.yaml").write_text(text)
    with pytest.raises(UserError, match="^the network '.*would need .*; choose a smaller one$") as caught:
        network_size.check(load("mine.yaml"))
    assert size in str(caught.value)


def test_a_network_of_too_many_layers_is_not_built_to_the_end(tmp_path, monkeypatch):
    monkeypatch.setattr(network_size, "TENSORS", 60)
    text = SUITE_FILE.read_text()
    network = "name: small-cnn, options: {width: 16}"
    (tmp_path / "mine.yaml").write_text(text.replace(network, "name: wrn, options: {depth: 6000000000004}"))
    with pytest.raises(UserError, match="would need more than 60 layers"):
        network_size.check(load("mine.yaml"))
    (tmp_path / "mine.yaml").write_text(text.replace(network, "name: wrn, options: {depth: 10}"))
    network_size.check(load("mine.yaml"))


def test_counting_a_network_leaves_no_trace(monkeypatch):
    network_size.check(load("digits-c"))
    monkeypatch.setattr(network_size, "_memory", lambda: 12 * 23_927)
    convolutions, normalizations, head = 9 * (16 + 16 * 32 + 32 * 64), 2 * (16 + 32 + 64), 64 * 8 + 8
    assert convolutions + normalizations + head == 23_928
    with pytest.raises(UserError, match="would need 23,928 parameters, 0 GiB in training"):
        network_size.check(load("digits-c"))
    from torch import nn

    assert nn.Linear(2, 2).weight.device.type == "cpu"


@pytest.mark.parametrize(
    "word", ["0-1000000000", "9" * 5_000, "0-" + "9" * 5_000, "9" * 4_000, ",".join(["0-99999"] * 3)]
)
def test_seeds_beyond_sense_are_refused(word):
    with pytest.raises(UserError) as caught:
        request(seeds=word)
    assert len(str(caught.value)) < 400


def test_numbers_of_seeds_and_draws_and_grids_are_counted_before_they_are_planned(tmp_path):
    with pytest.raises(UserError, match="1000000000000 seeds are too many; give 100,000 or fewer"):
        seeds(10**12)
    most = f"{MOST_CELLS:,} is the maximum; ask for fewer"
    assert_refused(oodbench(*RUN, "--seeds", "0-99999"), f"this asks for 200,000 cells, and {most}")
    (tmp_path / "mine.yaml").write_text(SUITE_FILE.read_text() + "search: {recipe.lr: 'U(0.01,0.1)'}\n")
    searched = ("run", "--suite", "mine.yaml", "--methods", "erm", "--offline", "--dry-run", "--draws", "1000000000")
    assert_refused(oodbench(*searched), f"this asks for 2,000,000,000 cells, and {most}")
    grid = ",".join(map(str, range(1_000)))
    grids = [option for key in ("margin", "temperature") for option in ("--set", f"scone.{key}={grid}")]
    assert_refused(oodbench(*RUN, "--methods", "scone", *grids), f"this asks for 1,000,000 cells, and {most}")


@pytest.mark.parametrize("key", ["suite", "results", "init", "plugins", "semantic", "covariate"])
@pytest.mark.parametrize("name", ["a\0b.yaml", "\ud800.yaml"])
def test_what_can_name_no_file_is_refused_from_python_too(key, name):
    with pytest.raises(UserError, match="cannot name a file or folder; write it without special characters"):
        request(**{key: name})


def test_a_value_that_python_cannot_print_is_refused_from_python_too():
    with pytest.raises(UserError, match="is a whole number of thousands of digits"):
        run(suite="digits-c", methods="knn", set={"knn.k": 16**5_000})


def test_a_request_is_not_written_in_place_of_a_pipe():
    os.mkfifo("pipe.yaml")
    save = ("run", "--suite", "digits-c", "--methods", "msp", "--save-request", "pipe.yaml")
    assert_refused(oodbench(*save), "cannot write 'pipe.yaml': it is not a regular file; ")


def test_a_request_for_no_suite_is_refused(tmp_path):
    (tmp_path / "mine.yaml").write_text("suite: []\n")
    assert_refused(oodbench("run", "--request", "mine.yaml"), "mine.yaml:1: expected at least one suite")


@pytest.mark.parametrize("name", ["x" * 300, "z/" * 3_000, "loop", "fifo", ""])
@pytest.mark.parametrize("command", ["table", "status", "plot", "rescore"])
def test_what_is_no_results_folder_is_told(command, name):
    os.mkfifo("fifo")
    os.symlink("loop", "loop")
    if name:
        assert_refused(oodbench(command, name), "cannot read" if len(name) > 255 else "there is no results folder")


def test_results_that_are_no_files_are_skipped_and_named(tmp_path):
    home = tmp_path / "results" / "digits-c"
    home.mkdir(parents=True)
    os.mkfifo(home / "a.json")
    (home / "b.json").symlink_to("/dev/zero")
    outcome = oodbench("status", tmp_path / "results")
    assert outcome.status == 0
    for name in ("a.json", "b.json"):
        assert f"skipped {home / name}: cannot be read: Not a regular file\n" in outcome.err


def test_a_collection_that_is_a_pipe_is_told(tmp_path):
    (tmp_path / "results" / "theirs").mkdir(parents=True)
    os.mkfifo(tmp_path / "results" / "theirs" / "COLLECTION")
    assert "theirs/COLLECTION: cannot be read: Not a regular file" in oodbench("table", tmp_path / "results").err


def test_results_are_compared_with_no_link_to_itself(tmp_path):
    os.symlink("loop", "loop")
    assert_refused(oodbench("check", SUITE_FILE.parents[1] / "results" / "reference", "--against", "loop"))


def test_names_that_go_on_and_on_are_quoted_in_part():
    for command in (("show", "x" * 10**5), (*RUN, "--methods", "m" * 10**5), (*RUN, "--set", f"{'x' * 10**5}.k=1")):
        assert len(oodbench(*command).err) < 2_100


def test_a_plan_of_a_suite_for_a_larger_machine_can_be_made():
    planned = plan(request(suite="digits-c", preset="smoke", methods="msp", cpu_threads=64))
    assert planned.suite.threads == 64 and len(planned.todo) == 2
