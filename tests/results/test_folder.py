"""Whose results a folder shows: one's own, unless a collection is asked for."""

import errno
import os
import re
import shutil
from pathlib import Path

import pytest
from command_line import assert_done, assert_refused, oodbench, smoke
from made_results import a_result

import oodbench as package
from oodbench.errors import UserError
from oodbench.files import CannotWrite
from oodbench.results import folder as folders
from oodbench.results import result
from oodbench.results.folder import SkippedWarning, read_folder, read_with
from oodbench.results.result import read
from oodbench.results.stored import write

FULL = {"covariate_acc": 0.5, "id_acc": 0.9, "fpr95": 0.25, "auroc": 0.75}


def save(folder, collection=None, **fields):
    """One result, in a folder that is a collection if this says so."""
    result = a_result(**{"metrics": FULL, **fields})
    path = folder / result.suite / result.setting / result.method / f"seed{result.seed}-{result.key[:8]}.json"
    write(result, path, {}, [])
    if collection is not None:
        (folder / "COLLECTION").write_text(f"{collection}\n")
    return path


@pytest.fixture
def home(tmp_path, monkeypatch):
    """A results folder with one's own, the reference and the demo; the repository's own results are far away."""
    monkeypatch.setattr(folders, "PACKAGE", tmp_path / "site-packages" / "oodbench")
    home = tmp_path / "results"
    save(home, method="msp")
    save(home / "reference", "reference", method="knn")
    save(home / "demo", "demo", method="vim")
    return home


def shown(reading):
    return [(result.method, result.collection) for result in reading.results]


def test_a_folder_is_read_without_the_collections_below_it(home):
    results, problems = read_folder(home)
    assert [result.method for result in results] == ["msp"] and not problems


def test_collections_are_added_by_name_and_marked(home):
    assert shown(read_with(home)) == [("msp", None)]
    assert shown(read_with(home, ["reference"])) == [("msp", None), ("knn", "reference")]
    assert shown(read_with(home, ["demo", "reference", "demo"])) == [
        ("msp", None),
        ("vim", "demo"),
        ("knn", "reference"),
    ]


def test_where_a_result_was_added_from_is_not_stored(home, tmp_path):
    added = read_with(home, ["reference"]).results[-1]
    write(added, tmp_path / "copy.json", {}, [])
    assert read(tmp_path / "copy.json").collection is None and "collection" not in (tmp_path / "copy.json").read_text()
    assert added.suite_label == "digits-c (reference)" and read(tmp_path / "copy.json").suite_label == "digits-c"


def test_a_collection_that_is_named_itself_is_read_as_it_is(home):
    assert shown(read_with(home / "reference")) == [("knn", None)]
    assert shown(read_with(home / "reference", ["reference"])) == [("knn", None)]
    assert shown(read_with(home / "reference" / "digits-c", ["reference"])) == [("knn", None)]


def test_a_collection_is_looked_for_beside_the_folder_too(home):
    save(home / "mine", method="odin")
    assert shown(read_with(home / "mine", ["reference"])) == [("odin", None), ("knn", "reference")]
    assert shown(read_with(home / "demo", ["reference"])) == [("vim", None), ("knn", "reference")]


def test_the_repository_has_the_reference_for_a_folder_anywhere(home, tmp_path, monkeypatch):
    save(tmp_path / "elsewhere" / "mine", method="odin")
    monkeypatch.setattr(folders, "PACKAGE", tmp_path / "oodbench")  # beside results/, as in a checkout
    assert shown(read_with(tmp_path / "elsewhere" / "mine", ["reference"])) == [("odin", None), ("knn", "reference")]


def test_without_the_repository_the_reference_is_said_to_be_in_it(home, tmp_path):
    save(tmp_path / "elsewhere" / "mine", method="odin")
    folder = tmp_path / "elsewhere" / "mine"
    message = f"there are no reference results below or beside '{folder}': they are in oodbench's repository, not in"
    assert_refused(oodbench("table", folder, "--with", "reference"), message, "or leave out --with reference")
    assert_refused(oodbench("table", folder, "--with", "demo"), "there are no demo results", "oodbench demo")


def test_a_folder_without_results_of_one_s_own_shows_the_reference_and_says_so(home):
    (own,) = (home / "digits-c").rglob("*.json")
    own.unlink()
    outcome = oodbench("table", home)
    line = f"oodbench: there are no results of yours in '{home}'; these are the reference results, "
    assert outcome.err == f"{line}of '{home / 'reference'}'\n" and outcome.status == 0
    assert outcome.out.startswith("### digits-c (reference)\n") and "KNN" in outcome.out
    assert assert_done(oodbench("table", home, "--with", "reference")) == outcome.out  # asked for, it needs no word
    refused = oodbench("check", home, "--against", home / "reference")
    assert refused.status == 2 and "holds no results but those of" in refused.err


def test_the_demo_does_not_stand_in(home):
    for path in [*(home / "digits-c").rglob("*.json"), *(home / "reference").rglob("*.json")]:
        path.unlink()
    (home / "reference" / "COLLECTION").unlink()
    assert_refused(oodbench("table", home), f"there are no results in '{home}'; run some with: oodbench run")


def test_collections_fill_tables_of_their_own(home):
    save(home / "reference", method="msp", seed=1, metrics={**FULL, "auroc": 0.11})
    out = assert_done(oodbench("table", home, "--with", "reference", "--with", "demo", "--format", "csv"))
    rows = [line.split(",") for line in out.splitlines() if ",auroc," in line]
    assert [(row[0], row[3], row[5]) for row in rows] == [
        ("digits-c", "msp", "0.75"),
        ("digits-c (demo)", "vim", "0.75"),
        ("digits-c (reference)", "msp", "0.11"),
        ("digits-c (reference)", "knn", "0.75"),
    ]


def test_the_paper_s_layouts_keep_collections_apart(home):
    save(home, suite="mnist-c", setting="fashion-mnist", made={"suite": "mnist-c"})
    save(home / "reference", suite="mnist-c", setting="fashion-mnist", made={"suite": "mnist-c"})
    out = assert_done(oodbench("table", home, "--with", "reference", "--with", "reported", "--layout", "mnist"))
    assert "### mnist-c: mnist\n" in out and "### mnist-c (reference): mnist\n" in out


@pytest.mark.parametrize("content", ["", "mine", "reference demo", "x" * 500])
def test_a_collection_of_an_unknown_name_is_refused(home, content):
    (home / "demo" / "COLLECTION").write_text(content)
    with pytest.raises(UserError, match="write one of reference, demo, community into it, or delete the file") as error:
        read_folder(home)
    assert str(error.value).startswith(f"'{home / 'demo' / 'COLLECTION'}' ") and len(str(error.value)) < 300


def test_check_compares_a_collection_with_another_and_each_on_its_own(home):
    save(home / "demo", method="knn")
    shown = assert_done(oodbench("check", home / "demo", "--against", home / "reference", "--complete"))
    assert (
        shown.startswith("not compared in some setting, for lack of a counterpart: vim\n")
        and " agree, 0 differ, " in shown
    )
    save(home, method="knn", metrics={**FULL, "auroc": 0.2})
    both = oodbench("check", home, "--with", "demo", "--against", home / "reference")
    assert both.status == 1 and " 1 differs, " in both.out
    assert (
        "\ndigits-c (demo)\n" in both.out and "  digits-c / unseen-digits / knn / AUROC: 20.00, expected 75" in both.out
    )


def test_a_cell_of_two_machines_is_shown_with_a_note_that_names_both(tmp_path):
    older = {"machine": {"host": "old"}, "versions": {"torch": "2.12"}, "written": "2026-01-01T00:00:00"}
    newer = {"machine": {"host": "new"}, "versions": {"torch": "2.13"}, "commit": "0123456789abcdef+"}
    for seed in (0, 1):
        save(tmp_path / "a", seed=seed, **older)
        save(tmp_path / "b", seed=seed, **newer)
    note = (
        "2 cells were run twice: the table shows the result of new (cpu, torch 2.13, commit 01234567+), not that of "
        "old (cpu, torch 2.12)."
    )
    assert f"\n{note}\n" in assert_done(oodbench("table", tmp_path, "--format", "text"))
    assert "run twice" not in assert_done(oodbench("table", tmp_path / "a", "--format", "text"))


def test_a_copy_needs_no_note(tmp_path):
    for name in ("a", "b"):
        save(tmp_path / name, machine={"host": "one"})
    assert "run twice" not in assert_done(oodbench("table", tmp_path, "--format", "text"))


def test_the_note_stands_under_the_paper_s_layouts_too(tmp_path):
    for name in ("a", "b"):
        made = {"suite": "mnist-c"}
        save(tmp_path / name, suite="mnist-c", setting="fashion-mnist", made=made, machine={"host": name})
    out = assert_done(oodbench("table", tmp_path, "--layout", "mnist"))
    assert "1 cell was run twice: the table shows the result of b (cpu), not that of a (cpu)." in out


def test_a_run_never_counts_a_result_of_a_collection_as_done(tmp_path):
    assert_done(smoke(tmp_path / "reference", "msp", "--setting", "unseen-digits"))
    (tmp_path / "reference" / "COLLECTION").write_text("reference\n")
    again = ("msp", "--setting", "unseen-digits", "--dry-run")
    assert "1 cell, 0 done already, 1 to run" in assert_done(smoke(tmp_path, *again))
    assert "1 cell, 1 done already, 0 to run" in assert_done(smoke(tmp_path / "reference", *again))


def test_the_repository_s_results_are_a_collection_and_what_makes_the_demo_s_knows_to_make_one():
    root = Path(__file__).parents[2]
    assert (root / "results" / "reference" / "COLLECTION").read_text() == "reference\n"
    assert " $(BIN)/oodbench demo --results results\n" in (root / "Makefile").read_text()  # see cli/test_demo.py


def closed(monkeypatch, folder, code=errno.EACCES):
    """Let the system refuse to list a folder, also to the superuser, who may read everything."""
    real = os.scandir

    def scandir(path):
        if Path(path) == folder:
            raise OSError(code, os.strerror(code), str(path))
        return real(path)

    monkeypatch.setattr(os, "scandir", scandir)


@pytest.mark.parametrize("code", [errno.EACCES, errno.EIO, errno.ENOENT])
def test_a_folder_that_cannot_be_listed_is_a_problem_and_others_are_read(home, monkeypatch, code):
    hidden = save(home, method="vim").parent
    closed(monkeypatch, hidden, code)
    results, problems = read_folder(home)
    assert [result.method for result in results] == ["msp"]
    assert problems == {hidden: f"cannot be read: {os.strerror(code)}"}


def test_a_closed_folder_below_a_collection_is_a_problem_of_whoever_asks_for_it(home, monkeypatch):
    closed(monkeypatch, home / "reference" / "digits-c")
    assert not read_with(home).problems
    assert list(read_with(home, ["reference"]).problems) == [home / "reference" / "digits-c"]


VERBS = [
    ["table"], ["compare", "--baseline", "msp"], ["check", "--against", "{}/demo"], ["plot", "--only", "tradeoff"],
    ["status"], ["remove", "--method", "msp", "--yes"], ["rescore"],
]  # fmt: skip


@pytest.mark.parametrize("verb", VERBS, ids=lambda verb: verb[0])
def test_every_command_names_and_counts_a_closed_folder_like_a_skipped_file(home, tmp_path, monkeypatch, verb):
    for method in ("msp", "knn"):
        save(home, method=method)
        save(home / "demo", method=method)
    shutil.copytree(home, tmp_path / "copy")
    (home / "broken.json").write_text("{")
    command, *options = [word.format(home) for word in verb]
    as_today = oodbench(command, home, *options)
    assert f"oodbench: skipped {home / 'broken.json'}: truncated, or not JSON\n" in as_today.err

    shutil.rmtree(home)
    shutil.copytree(tmp_path / "copy", home)
    both = [save(home, method=method).parent for method in ("odin", "vim")]
    for folder in both:
        closed(monkeypatch, folder)
    outcome = oodbench(command, home, *options)
    assert outcome.status == as_today.status
    assert "".join(f"oodbench: skipped {folder}: cannot be read: Permission denied\n" for folder in both) in outcome.err
    assert "oodbench: 2 files or folders skipped; what they hold is left out\n" in outcome.err


def test_status_and_rescore_count_what_they_could_not_read(home):
    (home / "broken.json").write_text("{")
    assert "1 done, 0 failed, 0 left, 1 unreadable; " in oodbench("status", home).out
    assert oodbench("rescore", home).out.endswith(" 1 skipped, 1 unreadable\n")


def test_python_is_warned_of_what_is_missing(home, monkeypatch):
    hidden = save(home, method="vim").parent
    closed(monkeypatch, hidden)
    named = re.escape(f"skipped 1 in '{home}': '{hidden}': cannot be read: Permission denied")
    for reader in (package.read_results, package.frame, package.table):
        with pytest.warns(SkippedWarning, match=f"^{named}$"):
            reader(home)
    for name in "abcd":
        (home / f"{name}.json").write_text("{")
    with pytest.warns(SkippedWarning, match="skipped 5 in .*; and 2 more$"):
        package.read_results(home)


def test_a_results_folder_that_is_closed_itself_is_refused(home, monkeypatch):
    closed(monkeypatch, home)
    message = f"cannot read '{home}': Permission denied; fix permissions or name another folder"
    assert_refused(oodbench("table", home), message)


def test_links_that_lead_nowhere_are_problems(home):
    (home / "loop").symlink_to("loop")
    (home / "gone").symlink_to("nowhere")
    problems = read_folder(home)[1]
    assert {path.name: reason for path, reason in problems.items()} == {
        "gone": "cannot be read: No such file or directory",
        "loop": "cannot be read: Too many levels of symbolic links",
    }


def test_a_link_to_results_elsewhere_is_a_problem_and_one_to_weights_or_within_is_none(home, tmp_path):
    elsewhere = tmp_path / "elsewhere"
    save(elsewhere, method="vim")
    (home / "linked").symlink_to(elsewhere)
    (home / "weights").symlink_to(elsewhere)
    (home / "outputs").symlink_to("nowhere")
    (home / "again").symlink_to(home / "digits-c")
    results, problems = read_folder(home)
    assert [result.method for result in results] == ["msp"]
    assert problems == {
        home / "linked": "it is a link to a folder, which is not followed; name that folder, or move it here"
    }


def test_a_pipe_is_not_waited_for(home):
    os.mkfifo(home / "pipe.json")
    os.mkfifo(save(home / "other").parents[3] / "COLLECTION")
    assert read_folder(home)[1] == {
        home / "other" / "COLLECTION": "cannot be read: Not a regular file",
        home / "pipe.json": "cannot be read: Not a regular file",
    }


def test_a_collection_whose_name_cannot_be_read_is_a_problem_and_its_results_are_nobodys(home):
    word = home / "reference" / "COLLECTION"
    word.unlink()
    word.symlink_to(word)
    results, problems = read_folder(home)
    assert [result.method for result in results] == ["msp"]
    assert problems == {word: "cannot be read: Too many levels of symbolic links"}


def test_a_file_that_vanishes_after_it_was_listed_is_a_problem(home, monkeypatch):
    (path,) = (home / "digits-c").rglob("*.json")
    monkeypatch.setattr(result, "read_regular", lambda path, most: path.unlink() or os.stat(path))
    assert read_folder(home / "digits-c") == ([], {path: "cannot be read: No such file or directory"})


def test_a_result_that_goes_into_a_closed_folder_is_refused_in_one_line(tmp_path, monkeypatch):
    def refused(self, **_):
        raise PermissionError(errno.EACCES, "Permission denied", str(self))

    made = a_result()  # which reads files
    monkeypatch.setattr(Path, "stat", refused)
    with pytest.raises(CannotWrite, match="cannot write '.*': Permission denied; .*choose another folder"):
        write(made, tmp_path / "suite" / "setting" / "msp" / "cell.json", {}, [])
