"""`oodbench merge`: results that were made apart, in one folder."""

import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from command_line import assert_done, assert_refused, complaints, oodbench, smoke
from made_results import a_result, with_scores

import oodbench as package
from oodbench.config.identity import version_of
from oodbench.results.folder import read_folder
from oodbench.results.rescore import rescore
from oodbench.results.result import as_json, read
from oodbench.results.stored import LOCK, read_scores, write

HERE = {"host": "h1", "cpu": "Xeon"}
THERE = {"host": "h2", "cpu": "EPYC"}


def made(folder, method="msp", seed=0, scores=(0.1, 0.2, 0.3), machine=HERE, **fields):
    """A result that is done, where a run would write it."""
    fields = {"metrics_version": version_of("metrics"), **fields}
    result = a_result(method=method, seed=seed, key=f"{seed:08d}aa", variant=f"{seed:08d}", machine=machine, **fields)
    done = with_scores(result, folder, [1, 1, 0], id_scores=scores)
    done.path.with_suffix(".jsonl").write_text('{"epoch": 0}\n')
    return read(done.path)


def failed(folder, method="msp", seed=0):
    result = a_result(method=method, seed=seed, key=f"{seed:08d}aa", status="failed", error="no memory")
    path = folder / "digits-c" / "unseen-digits" / method / f"seed{seed}-{seed:08d}.json"
    write(result, path, {}, [{"epoch": 0, "loss": "of the failure"}])
    return path


def files_below(folder):
    """Every file but the lock and what it holds."""
    files = sorted(path for path in folder.rglob("*") if path.is_file() and path.name != LOCK)
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


@pytest.fixture
def folders(tmp_path):
    return tmp_path / "other", tmp_path / "results"


def test_results_come_with_their_raw_scores_and_logs_and_byte_by_byte(folders):
    other, into = folders
    made(other, seed=0)
    made(other, "scone", seed=1)
    assert assert_done(oodbench("merge", other, "--into", into)) == f"{into}: 2 merged, 0 there already\n"
    assert files_below(into) == files_below(other) and len(files_below(into)) == 2 * 3 + 1  # of one network
    assert assert_done(oodbench("merge", other, "--into", into)) == f"{into}: 0 merged, 2 there already\n"
    assert files_below(into) == files_below(other)


def test_any_number_of_folders_are_merged_at_once_and_a_part_of_one_goes_where_it_belongs(folders, tmp_path):
    other, into = folders
    made(other), made(tmp_path / "second", seed=1), made(into, seed=2)
    out = assert_done(oodbench("merge", other / "digits-c", tmp_path / "second", "--into", into))
    assert out == f"{into}: 2 merged, 0 there already\n"
    assert {result.path.relative_to(into) for result in read_folder(into)[0]} == {
        Path(f"digits-c/unseen-digits/msp/seed{seed}-{seed:08d}.json") for seed in range(3)
    }


def test_a_trial_writes_nothing_and_says_the_same(folders, tmp_path):
    other, into = folders
    made(other), made(other, seed=1), made(tmp_path / "second")
    out = assert_done(oodbench("merge", other, tmp_path / "second", "--into", into, "--dry-run"))
    assert out == f"{into}: 2 would be merged, 1 there already\n" and not into.exists()


def test_the_same_scores_are_the_same_result_whoever_made_them_and_when(folders):
    other, into = folders
    ours = made(into)
    made(other, machine=THERE, written="2027-01-01T00:00:00", commit="abc", seconds={"train": 5.0}, device="cuda:0")
    assert assert_done(oodbench("merge", other, "--into", into)) == f"{into}: 0 merged, 1 there already\n"
    assert read(ours.path) == ours


def test_other_scores_under_one_key_stay_and_both_machines_are_named(folders):
    other, into = folders
    ours, theirs = made(into), made(other, scores=(0.1, 0.2, 0.4), machine=THERE)
    made(other, seed=1, machine=THERE)
    outcome = oodbench("merge", other, "--into", into)
    assert outcome.status == 1
    assert outcome.out == f"{into}: 1 merged, 0 there already, 1 with other content left\n"
    assert outcome.err == (
        f"oodbench: not merged '{theirs.path}': digits-c / unseen-digits / msp / seed 0 has other content: "
        "1 of 3 id scores differ, by at most 0.1\n"
        f"oodbench:   '{ours.path}' was made on h1, Xeon, cpu; 2026-08-01T12:00\n"
        f"oodbench:   '{theirs.path}' was made on h2, EPYC, cpu; 2026-08-01T12:00\n"
    )
    assert read(ours.path) == ours and read(theirs.path) == theirs


def test_other_metrics_of_equal_scores_are_other_content(folders):
    other, into = folders
    ours = made(into)
    ours.path.write_text(as_json(replace(ours, metrics={**ours.metrics, "auroc": 0.5})))
    made(other)
    outcome = oodbench("merge", other, "--into", into)
    assert outcome.status == 1 and "equal raw scores, but auroc is 0.5 and 1.0\n" in outcome.err


@pytest.mark.parametrize(
    "change",
    [{"auroc": 0.5}, {"auroc": 1.0 - 1e-8}, {"\x1b[2J": 0.5}, None],
    ids=["other", "nearly", "strange", "none"],
)
def test_metrics_that_do_not_follow_from_the_raw_scores_are_left_and_the_others_merged(folders, change):
    other, into = folders
    theirs = made(other)
    made(other, seed=1)
    theirs.path.write_text(as_json(replace(theirs, metrics={**theirs.metrics, **change} if change else {})))
    for more in (["--dry-run"], []):
        outcome = oodbench("merge", other, "--into", into, *more)
        assert outcome.status == 1 and "1 refused\n" in outcome.out and "\x1b" not in outcome.err
        assert len(complaints(outcome)) == 1 and f"not merged '{theirs.path}': " in outcome.err
    assert [result.seed for result in read_folder(into)[0]] == [1]


def test_metrics_may_differ_by_how_machines_round(folders):
    other, into = folders
    theirs = made(other)
    theirs.path.write_text(as_json(replace(theirs, metrics={**theirs.metrics, "auroc": 1.0 - 1e-10})))
    assert_done(oodbench("merge", other, "--into", into))


def test_metrics_that_nobody_can_compute_anew_are_merged_and_named(folders):
    other, into = folders
    bare, old = made(other), made(other, seed=1, metrics_version=0)
    bare.path.with_suffix(".safetensors").unlink()
    outcome = oodbench("merge", other, "--into", into)
    assert outcome.status == 0 and outcome.out == f"{into}: 2 merged, 0 there already, 2 of them without a check\n"
    first, second = complaints(outcome)
    assert str(bare.path) in first and str(old.path) in second
    assert files_below(into) == files_below(other)
    assert assert_done(oodbench("merge", other, "--into", into)) == f"{into}: 0 merged, 2 there already\n"
    bare.path.write_text(as_json(replace(bare, metrics={**bare.metrics, "auroc": 0.5})))
    outcome = oodbench("merge", other, "--into", into)
    assert outcome.status == 1 and "no raw scores to compare, but auroc is 1.0 and 0.5\n" in outcome.err


def test_metrics_of_another_version_are_compared_as_they_would_be_rescored(folders):
    other, into = folders
    ours, theirs = made(into), made(other)
    for each, version in ((ours, 0), (theirs, 99)):
        each.path.write_text(as_json(replace(each, metrics={"auroc": 0.7 + version}, metrics_version=version)))
    assert assert_done(oodbench("merge", other, "--into", into)) == f"{into}: 0 merged, 1 there already\n"
    assert rescore(ours.path) and read(ours.path).metrics == ours.metrics


def test_a_result_replaces_a_failure_and_a_failure_never_replaces_a_result(folders):
    other, into = folders
    made(other, seed=0), failed(into, seed=0)
    failed(other, seed=1)
    ours = made(into, seed=1)
    failed(other, seed=2)
    out = assert_done(oodbench("merge", other, "--into", into))
    assert out == f"{into}: 2 merged (1 in place of failed ones), 1 there already\n"
    by_seed = {result.seed: result for result in read_folder(into)[0]}
    assert {seed: result.status for seed, result in by_seed.items()} == {0: "ok", 1: "ok", 2: "failed"}
    assert by_seed[1] == ours
    assert by_seed[0].path.with_suffix(".jsonl").read_text() == '{"epoch": 0}\n'


def test_damaged_files_are_named_and_left_and_the_others_merged(folders):
    other, into = folders
    good, bad_scores, bad_json, bad_log = (made(other, seed=seed) for seed in range(4))
    bad_scores.path.with_suffix(".safetensors").write_bytes(b"PK" + bytes(50))
    bad_json.path.write_bytes(bad_json.path.read_bytes()[:100])
    bad_log.path.with_suffix(".jsonl").write_text("root:x:0:0\n")
    before = files_below(other)
    outcome = oodbench("merge", other, "--into", into)
    assert outcome.status == 1 and outcome.out == f"{into}: 1 merged, 0 there already, 3 refused\n"
    assert f"oodbench: not merged '{bad_scores.path}': its raw scores cannot be read: damaged: " in outcome.err
    assert f"oodbench: not merged '{bad_json.path}': truncated, or not JSON\n" in outcome.err
    assert f"oodbench: not merged '{bad_log.path}': its '.jsonl' is damaged: " in outcome.err
    assert [result.seed for result in read_folder(into)[0]] == [0] and files_below(other) == before


@pytest.mark.parametrize("suffix", [".json", ".safetensors", ".jsonl"])
def test_no_link_is_followed(folders, tmp_path, suffix):
    other, into = folders
    theirs = made(other)
    made(other, seed=1)
    linked = theirs.path.with_suffix(suffix)
    linked.rename(tmp_path / "elsewhere")
    linked.symlink_to(tmp_path / "elsewhere")
    outcome = oodbench("merge", other, "--into", into)
    assert outcome.status == 1 and outcome.out == f"{into}: 1 merged, 0 there already, 1 refused\n"
    assert f"not merged '{theirs.path}': '{linked.name}' is a link, which is not followed" in outcome.err
    assert [result.seed for result in read_folder(into)[0]] == [1]


def test_no_linked_request_and_no_linked_folder_of_them_is_followed(folders, tmp_path):
    other, into = folders
    made(other)
    (other / "requests").mkdir()
    (tmp_path / "private.yaml").write_text("password: x")
    (other / "requests" / "linked.yaml").symlink_to(tmp_path / "private.yaml")
    (other / "requests" / "own.yaml").write_text("suite: digits-c")
    outcome = oodbench("merge", other, "--into", into)
    assert outcome.status == 1 and "linked.yaml': it is a link, which is not followed" in outcome.err
    assert [path.name for path in (into / "requests").iterdir()] == ["own.yaml"]
    shutil.move(other / "requests", tmp_path / "moved")
    (other / "requests").symlink_to(tmp_path / "moved")
    assert f"not merged '{other / 'requests'}': it is a link" in oodbench("merge", other, "--into", into).err


@pytest.mark.parametrize(
    "fields",
    [
        {"suite": "s" * 300},
        {"setting": "é" * 200},
        {"preset": "p" * 300},
        {"method": "ü" * 200},
        {"setting": "\x1b[2J"},
        {"suite": "nul\0"},
        {"key": "0000\x0000aa"},
        {"key": "../../../../x"},
        {"key": ""},
        {"key": "zzzzzzzzzz"},
    ],
    ids=str,
)
def test_names_and_keys_that_are_none_are_left_and_the_others_merged(folders, fields):
    other, into = folders
    theirs = made(other)
    made(other, seed=1)
    theirs.path.write_text(as_json(replace(theirs, **fields)))
    outcome = oodbench("merge", other, "--into", into)
    assert outcome.status == 1 and outcome.out == f"{into}: 1 merged, 0 there already, 1 refused\n"
    assert len(complaints(outcome)) == 1 and f"not merged '{theirs.path}': its " in outcome.err
    assert {path.name.partition("-")[0] for path in into.rglob("*.*") if path.name != LOCK} == {"seed1", "network"}


def test_folders_whose_names_are_too_long_are_refused_in_one_line(folders):
    other, into = folders
    made(other)
    assert_refused(oodbench("merge", other, "--into", "x" * 300), "File name too long")
    assert_refused(oodbench("merge", "x" * 300, "--into", into), "File name too long")


def test_scores_of_other_images_do_not_pass_for_those_of_a_result(folders):
    from oodbench.results.result import DataRead, PartRead

    other, into = folders
    theirs = made(other, data=DataRead(parts={"id": PartRead(4, "d", "o")}))
    outcome = oodbench("merge", other, "--into", into)
    reason = "its raw scores are for 3 id images, and it was made with 4"
    assert (outcome.status, outcome.err) == (1, f"oodbench: not merged '{theirs.path}': {reason}\n")


def test_what_stands_damaged_in_the_place_of_a_result_is_kept_aside(folders):
    other, into = folders
    place = into / made(other).path.relative_to(other)
    place.parent.mkdir(parents=True)
    place.write_text("{")
    assert_done(oodbench("merge", other, "--into", into))
    assert read(place).status == "ok" and place.with_suffix(".json.unreadable").read_text() == "{"


def test_a_result_that_would_lead_out_of_the_folder_is_left(folders):
    other, into = folders
    result = made(other)
    result.path.write_text(as_json(replace(result, setting="../../..")))
    outcome = oodbench("merge", other, "--into", into)
    assert outcome.status == 1 and "its suite or setting cannot name a folder" in outcome.err
    assert not files_below(into)


KILLED = """
import os, sys
from pathlib import Path
from oodbench import files
from oodbench.running.merging import merge

left, replace = int(sys.argv[3]), os.replace
def replaced(*names):
    global left
    if left == 0:
        os.kill(os.getpid(), 9)  # before the file has its name
    left -= 1
    replace(*names)
os.replace = replaced
merge([Path(sys.argv[1])], Path(sys.argv[2]))
"""


@pytest.mark.parametrize("files_written", range(8))
def test_a_merge_that_is_killed_anywhere_and_repeated_ends_the_same(folders, files_written):
    other, into = folders
    made(other), made(other, seed=1)
    failed(into, seed=1)
    process = subprocess.run([sys.executable, "-c", KILLED, other, into, str(files_written)], check=False)
    assert process.returncode == (-9 if files_written < 7 else 0)
    for result in read_folder(into)[0]:  # a result that exists is complete
        assert result.status == "failed" or read_scores(result)
    assert_done(oodbench("merge", other, "--into", into))
    assert files_below(into) == files_below(other)


def test_collections_below_a_folder_are_left_and_a_collection_may_be_named(folders):
    other, into = folders
    made(other / "reference", seed=1), made(other)
    (other / "reference" / "COLLECTION").write_text("reference")
    assert assert_done(oodbench("merge", other, "--into", into)) == f"{into}: 1 merged, 0 there already\n"
    assert assert_done(oodbench("merge", other / "reference", "--into", into)).startswith(f"{into}: 1 merged")
    assert not list(into.rglob("COLLECTION"))


def test_weights_come_only_when_asked_for_and_only_whole_ones(folders):
    other, into = folders
    assert_done(smoke(other, "msp,scone", "--setting", "unseen-digits"))
    assert_done(oodbench("merge", other, "--into", into))
    assert not (into / "weights").exists()
    whole, damaged = sorted((other / "weights").glob("*.pt"))
    damaged.write_bytes(damaged.read_bytes()[:-500])
    shutil.copy(whole, renamed := whole.with_name("0123456789abcdef.pt"))
    outcome = oodbench("merge", other, "--into", into, "--weights")
    assert outcome.status == 1
    assert outcome.out == f"{into}: 0 merged, 2 there already, 2 refused, 1 file of weights\n"
    for path in (damaged, renamed):
        assert f"not merged '{path}': damaged, or not weights of the training that its name says\n" in outcome.err
    assert [path.name for path in (into / "weights").iterdir()] == [whole.name]
    # What the other was asked for is known here now.
    assert ", 0 left;" in assert_done(oodbench("status", into))
    assert list((into / "requests").glob("*.yaml"))


def test_what_makes_no_sense_is_refused_in_one_line(folders):
    other, into = folders
    made(other), made(into / "inner")
    assert_refused(oodbench("merge", other, "--into", other), "is the folder to merge into; name another")
    assert_refused(oodbench("merge", into / "inner", "--into", into), "contains the other; move one of them out")
    assert_refused(oodbench("merge", into, "--into", into / "inner"), "contains the other")
    assert_refused(oodbench("merge", other, other.parent / "no", "--into", into), "there is no results folder")
    assert_refused(oodbench("merge", other), "--into")
    assert_refused(oodbench("merge", "--into", into), "OTHER")
    file = other.parent / "file"
    file.write_text("")
    assert_refused(oodbench("merge", other, "--into", file), f"the results folder '{file}' is a file")
    assert len(read_folder(into)[0]) == 1


def test_python_does_the_same(folders):
    other, into = folders
    made(other), made(other, seed=1), made(into, scores=(0.1, 0.2, 0.4))
    merged = package.merge(other, into)
    assert (len(merged.new), merged.same, len(merged.conflicts), merged.is_complete) == (1, 0, 1, False)
    assert package.merge([str(other)], str(into), dry_run=True).same == 1
