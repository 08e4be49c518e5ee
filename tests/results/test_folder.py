"""Whose results a folder shows: one's own, unless a collection is asked for."""

from pathlib import Path

import pytest
from command_line import assert_done, assert_refused, oodbench, smoke
from made_results import a_result

from oodbench.errors import UserError
from oodbench.results import folder as folders
from oodbench.results.folder import read_folder, read_with
from oodbench.results.result import read, write

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
    message = f"there are no reference results below or beside '{folder}': they are in oodbench's repository and not in"
    assert_refused(oodbench("table", folder, "--with", "reference"), message, "or leave out --with reference")
    assert_refused(oodbench("table", folder, "--with", "demo"), "there are no demo results", "make demo")


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
    assert shown.startswith("with nothing to compare to in some setting: vim\n") and " agrees, 0 differs, " in shown
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
        "2 cells were run twice: shown is what new (cpu, torch 2.13, commit 01234567+) gave, not old (cpu, torch 2.12)."
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
    assert "1 cell was run twice: shown is what b (cpu) gave, not a (cpu)." in out


def test_a_run_never_counts_a_result_of_a_collection_as_done(tmp_path):
    assert_done(smoke(tmp_path / "reference", "msp", "--setting", "unseen-digits"))
    (tmp_path / "reference" / "COLLECTION").write_text("reference\n")
    again = ("msp", "--setting", "unseen-digits", "--dry-run")
    assert "1 cell, 0 done already, 1 to run" in assert_done(smoke(tmp_path, *again))
    assert "1 cell, 1 done already, 0 to run" in assert_done(smoke(tmp_path / "reference", *again))


def test_the_repository_s_results_are_a_collection_and_the_demo_will_be_one():
    root = Path(__file__).parents[2]
    assert (root / "results" / "reference" / "COLLECTION").read_text() == "reference\n"
    assert "\tmkdir -p $(DEMO) && echo demo > $(DEMO)/COLLECTION\n" in (root / "Makefile").read_text()
