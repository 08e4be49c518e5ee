"""What `run` names in place of a run whose data is not here, and asks whether to run."""

import dataclasses
import os
import pty
import shlex
import subprocess
import sys

import pytest
from command_line import assert_done, oodbench

from oodbench.cli import missing_data
from oodbench.config.cards import PACKAGE
from oodbench.data import availability, lookup
from oodbench.data.sources import PATIENCE, Torchvision, Unavailable
from oodbench.running import request as requests
from oodbench.running.plan import plan
from oodbench.running.request import request

README = PACKAGE.parent / "README.md"
BY_HAND = ("svhn", "lsun-c", "places365", "textures", "lsun-r")


@pytest.fixture(autouse=True)
def nothing(tmp_path, monkeypatch):
    """A data folder that holds nothing."""
    monkeypatch.setenv("OODBENCH_DATA", str(tmp_path / "data"))
    lookup.dataset.cache_clear()
    yield
    lookup.dataset.cache_clear()


def named(tried=BY_HAND, **values):
    """The requests that are named in place of one for cifar10-c."""
    return [each.request for each in missing_data.in_its_place(plan(request(suite="cifar10-c", **values)), tried)]


def test_the_preset_that_needs_nothing_by_hand_is_the_one_of_the_readme():
    asked = request(suite="cifar10-c", methods="scone,woods", seeds="1,2", results="my results", device="cpu")
    (found,) = named(methods="scone,woods", seeds="1,2", results="my results", device="cpu")
    assert found == dataclasses.replace(asked, preset="cpu-effect-released")
    assert "oodbench run --suite cifar10-c --preset cpu-effect-released " in README.read_text()


def test_a_preset_without_the_methods_is_not_named():
    assert [each.preset for each in named(methods="sal,woods")] == ["after-scone"]
    assert [each.preset for each in named(methods="gradnorm")] == ["scorers"]


def test_the_command_means_the_request(tmp_path):
    (found,) = named(methods="scone,woods", set=["scone.margin=-5", "recipe.lr=0.01"], seeds="0-2", results="a b")
    file = tmp_path / "asked.yaml"
    assert_done(oodbench(*shlex.split(missing_data.command(found))[1:], "--save-request", file))
    assert requests.read(file) == [found]


def test_settings_of_the_paper_s_are_left_out_with_a_preset_and_a_checkpoint_of_its_network_too(tmp_path):
    checkpoint = tmp_path / "wrn.pt"
    checkpoint.write_bytes(b"weights")
    (found,) = named(methods="scone", settings="svhn", init=str(checkpoint))
    assert (found.preset, found.settings, found.init) == ("cpu-effect-released", (), None)


@pytest.mark.parametrize("values", [{"tried": (*BY_HAND, "cifar10")}, {"offline": True}], ids=["tried", "offline"])
def test_where_not_even_the_preset_has_its_data_the_suite_of_a_package_is_named(values):
    (found,) = named(methods="scone,woods", seeds="3", **values)
    assert found == request(suite="digits-c", methods="scone,woods", seeds="3")


def test_every_method_that_the_suite_of_a_package_does_not_have_is_left_out():
    (found,) = missing_data.in_its_place(plan(request(suite="pacs", methods="coral", seeds="4")), ["pacs"])
    assert found.request == request(suite="digits-c", seeds="4")


def test_the_settings_that_are_here_come_first(tmp_path):
    mine = tmp_path / "mine.yaml"
    text = (PACKAGE.parent / "benchmarks" / "digits-c.yaml").read_text()
    text = text.replace("photo-patches: {dataset: photo-patches}", "svhn: {dataset: svhn}")
    mine.write_text(text.replace("semantic: photo-patches", "semantic: svhn"))
    first, *_ = missing_data.in_its_place(plan(request(suite=mine, methods="msp")), ["svhn"])
    assert first.request == request(suite=mine, methods="msp", available=True)
    assert first.waiting == [] and len(first.cells) == 1


def test_show_names_each_missing_set_once_with_its_address_and_its_command(monkeypatch):
    monkeypatch.setattr("oodbench.cli.show.terminal_width", lambda: 80)
    out = assert_done(oodbench("show", "cifar10-c"))
    assert max(len(line) for line in out.splitlines() if " " in line.strip() and "://" not in line) <= 80
    assert [out.count(f"oodbench data get {name}\n") for name in BY_HAND] == [1] * len(BY_HAND)
    assert [out.count(f"  --preset {preset}: about ") for preset in ("released", "smoke")] == [1, 1]


def answered(answer, folder):
    """A run without its data on a terminal, and this answer to its question."""
    ours, theirs = pty.openpty()
    words = ["run", "--suite", "pacs", "--methods", "msp", "--offline", "--results", str(folder)]
    words += ["--set", "recipe.epochs=1", "--set", "recipe.batch_size=512"]
    child = subprocess.Popen(
        [sys.executable, "-m", "oodbench", *words], stdin=theirs, stdout=theirs, stderr=theirs,
        env={**os.environ, "TERM": "dumb"},
    )  # fmt: skip
    os.close(theirs)
    shown, asked = b"", False
    try:
        while part := os.read(ours, 65536):
            shown += part
            if b"[y/N]" in shown and not asked:
                asked = True
                os.write(ours, answer)
    except OSError:  # how Linux says that the other end is closed
        pass
    os.close(ours)
    return child.wait(), asked


@pytest.mark.parametrize(("answer", "status"), [(b"y\n", 0), (b"\n", 2)])
def test_a_terminal_is_asked_and_only_a_yes_runs_it(tmp_path, answer, status):
    results = tmp_path / "results"
    assert answered(answer, results) == (status, True)
    assert [*results.glob("digits-c/*/msp/*.json")] != [] if status == 0 else not results.exists()


def test_where_there_is_no_terminal_nobody_is_asked(tmp_path, monkeypatch):
    monkeypatch.setattr("oodbench.cli.run.said_yes", lambda question: pytest.fail("asked"))
    assert oodbench("run", "--suite", "pacs", "--offline", "--results", tmp_path / "results").status == 2


def test_a_dry_run_of_what_is_available_says_when_nothing_is_left(tmp_path):
    out = assert_done(oodbench("run", "--suite", "pacs", "--available", "--dry-run", "--results", tmp_path / "none"))
    assert "nothing is left to run" in out and out.splitlines()[-1].startswith("  oodbench run --suite digits-c")


@pytest.mark.parametrize("name", [*BY_HAND, "cifar10", "cifar100", "mnist", "fashion-mnist"])
def test_every_set_that_is_downloaded_has_an_address(name):
    assert "http" in availability.addresses(name)


def test_a_set_of_torchvision_s_that_does_not_answer_is_given_up(tmp_path, monkeypatch):
    import socket

    from oodbench import torchvision_import

    class Datasets:
        @staticmethod
        def DTD(root, download):
            raise TimeoutError(f"waited {socket.getdefaulttimeout():g} s")

    monkeypatch.setattr(torchvision_import, "import_with_torchvision", lambda name: Datasets)
    with pytest.raises(Unavailable, match=f"^no download: waited {PATIENCE:g} s$"):
        Torchvision("DTD", ({},)).fetch(tmp_path, availability.SILENT)
    assert socket.getdefaulttimeout() is None
