"""`oodbench submit` and `oodbench verify`: what is packed, and what a verifier finds when somebody tampered with it."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from command_line import assert_done, assert_refused, oodbench
from result_files import change as change_result
from result_files import sealed
from safetensors.numpy import load
from submissions import FIRST, PLUGIN, members, named, packed_again, results_in, submitted

import oodbench as package
from oodbench.config.registry import Registry
from oodbench.results import known_images, raw_scores
from oodbench.results.folder import read_folder
from oodbench.results.known_images import KnownImages
from oodbench.results.metrics import evaluate
from oodbench.results.standing import standing
from oodbench.running.cell_checks import Context, check_cell

WORKFLOW = Path(__file__).parents[2] / ".github" / "workflows" / "community.yml"
CELLS = 4
HOLD = "files, metrics, network, suite, data, splits, code, key hold"


@pytest.fixture
def files():
    return members(submitted())


def verified(tmp_path, files, with_digests=True):
    return oodbench("verify", packed_again(tmp_path / "mine.zip", files, with_digests))


def line_of(outcome, start="digits-c-smoke / photo-patches / mine / seed 0"):
    assert outcome.err == ""
    (line,) = [line for line in outcome.out.splitlines() if line.startswith(f"{start}: ")]
    return line.removeprefix(f"{start}: ")


def changed(files, change, suffix=".json"):
    """With the JSON of the first cell changed."""
    name = named(files, suffix)
    values = json.loads(files[name])
    change(values)
    return {**files, name: sealed(values).encode()}


def arrays_in(files):
    """The arrays of the first cell, and the names of their two files."""
    name = named(files, ".json")
    network = f"{name.rpartition('/')[0].rpartition('/')[0]}/network-{json.loads(files[name])['network']}.safetensors"
    own = name.replace(".json", ".safetensors")
    return {**load(files[own]), **load(files[network])}, own, network


def with_scores(files, change):
    """With the raw scores of the first cell changed, and named by it as they are then."""
    arrays, own, network = arrays_in(files)
    change(arrays)
    digests = raw_scores.digests_of(arrays)
    digest = raw_scores.network_digest(digests)
    scores = {name: array for name, array in arrays.items() if raw_scores.is_own(name)}
    shared = {name: array for name, array in arrays.items() if name not in scores}
    renamed = f"{network.rpartition('-')[0]}-{digest}.safetensors"
    rest = {name: content for name, content in files.items() if name != network}
    files = {**rest, own: raw_scores.packed(scores), renamed: raw_scores.packed(shared)}
    return changed(files, lambda values: values.update(arrays=digests, network=digest))


def as_measured(files):
    """With the metrics that the raw scores of the first cell give."""
    splits = raw_scores.by_split(arrays_in(files)[0])
    return changed(files, lambda values: values.update(metrics=evaluate(**splits)))


def test_a_submission_holds_line_by_line(tmp_path, files):
    outcome = oodbench("verify", packed_again(tmp_path / "a.zip", files))
    *cells, last = assert_done(outcome).splitlines()
    assert len(cells) == CELLS and all(line.endswith(f": {HOLD}") for line in cells)
    assert last == "mine: 4 of 4 cells hold; no code of it was run"


def test_it_packs_scores_logs_and_the_method_s_file_and_the_same_bytes_again(tmp_path, files):
    results = results_in(tmp_path)
    for out in ("mine.zip", "again/mine.zip"):
        (tmp_path / out).parent.mkdir(exist_ok=True)
        said = assert_done(oodbench("submit", results, "--methods", "mine", "--out", tmp_path / out))
        assert "settings unseen-digits, photo-patches; seeds 0, 1" in said and "4 cells in" in said
    assert (tmp_path / "mine.zip").read_bytes() == (tmp_path / "again/mine.zip").read_bytes() == submitted()
    assert files["methods/mine.py"].decode() == PLUGIN
    assert {Path(name).suffix for name in files if name.startswith(FIRST)} == {".json", ".safetensors", ".jsonl"}
    assert len(files) == 4 * CELLS + 2  # each cell has a network of its own


def test_verifying_runs_no_code_of_the_archive_and_imports_no_torch(tmp_path, files):
    canary = tmp_path / "canary"
    text = f"open({str(canary)!r}, 'w')\n{PLUGIN}".encode()
    archive = packed_again(tmp_path / "a.zip", {**files, "methods/mine.py": text})
    code = f"import sys, oodbench; print(oodbench.verify({str(archive)!r}).holds); assert 'torch' not in sys.modules"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "True\n"), done.stderr
    assert not canary.exists()


def test_a_metric_that_its_raw_scores_do_not_give_is_named(tmp_path, files):
    outcome = verified(tmp_path, changed(files, lambda values: values["metrics"].update(auroc=0.999)))
    line = line_of(outcome)
    assert outcome.status == 1 and line.startswith("METRICS: auroc is 0.999, and its raw scores give 0.")
    assert line.endswith("files, network, suite, data, code, key hold; splits not checked, since metrics does not hold")
    assert outcome.out.count(HOLD) == CELLS - 1 and "mine: 3 of 4 cells hold" in outcome.out


@pytest.mark.parametrize("value", [float("nan"), float("inf"), 1e308, "0.5", None])
def test_a_metric_that_is_no_number_does_not_hold(tmp_path, files, value):
    outcome = verified(tmp_path, changed(files, lambda values: values["metrics"].update(auroc=value)))
    assert outcome.status == 1 and outcome.err == "" and "3 of 4 cells hold" in outcome.out


def test_a_metric_that_is_left_out_or_made_up_does_not_hold(tmp_path, files):
    for change in (lambda values: values["metrics"].pop("fpr95"), lambda values: values["metrics"].update(mine=1.0)):
        outcome = verified(tmp_path, changed(files, change))
        assert outcome.status == 1 and "is missing, or cannot be computed from the raw scores" in line_of(outcome)


def test_raw_scores_that_were_changed_give_other_metrics(tmp_path, files):
    def flip(arrays):
        arrays["semantic_scores"] = -arrays["semantic_scores"]

    outcome = verified(tmp_path, with_scores(files, flip))
    assert outcome.status == 1 and "METRICS: " in line_of(outcome)


def test_without_new_digests_the_changed_file_is_named_too(tmp_path, files):
    outcome = verified(tmp_path, changed(files, lambda values: values.update(device="cuda")), with_digests=False)
    name = Path(named(files, ".json")).name
    assert line_of(outcome).startswith(f"FILES: {name} is not the file that was packed; metrics, network")


def test_labels_are_those_of_the_suite(tmp_path, files):
    """Wrong labels with right predictions would make a perfect accuracy, and metrics that follow from them."""

    def perfect(arrays):
        for split in ("id", "covariate"):
            arrays[f"{split}_labels"] = arrays[f"{split}_predictions"]

    outcome = verified(tmp_path, as_measured(with_scores(files, perfect)))
    assert "SPLITS: " in line_of(outcome) and " labels of id images are wrong; files, metrics" in line_of(outcome)


def test_fewer_or_other_images_than_the_suite_has_do_not_hold(tmp_path, files):
    def fewer(arrays):
        for name in list(arrays):
            arrays[name] = arrays[name][:50]

    def stated(values):
        for part in ("id", "covariate", "semantic"):
            values["data"]["parts"][part]["rows"] = 50

    assert "its raw scores are for 50 " in line_of(verified(tmp_path, with_scores(files, fewer)))
    both = as_measured(changed(with_scores(files, fewer), stated))
    assert "SPLITS: there are 50 id images; digits-c-smoke has 433" in line_of(verified(tmp_path, both))
    other = changed(files, lambda values: values["data"]["parts"]["semantic"].update(digest="0123456789abcdef"))
    assert "SPLITS: the semantic images are not those of seed 0" in line_of(verified(tmp_path, other))


def test_a_fingerprint_that_nobody_knows_does_not_hold(tmp_path, files):
    other = changed(files, lambda values: values["data"]["sets"]["digits"].update(fingerprint="0123456789abcdef"))
    line = line_of(verified(tmp_path, other))
    assert line.startswith("DATA: the fingerprint '0123456789abcdef' of 'digits' is not known; KEY: its key is ")
    missing = changed(files, lambda values: values["data"]["sets"].pop("photo-patches"))
    assert "DATA: it names the sets digits; the setting reads " in line_of(verified(tmp_path, missing))


def test_another_seed_than_the_one_that_ran_is_noticed(tmp_path, files):
    outcome = verified(tmp_path, changed(files, lambda values: values.update(seed=7)))
    assert "mine: digits-c-smoke / photo-patches / mine / seed 0 is claimed but missing" in outcome.out
    line = line_of(outcome, "digits-c-smoke / photo-patches / mine / seed 7")
    assert "FILES: it is not among the cells that are claimed" in line
    assert "KEY: its random numbers are not those of seed 7" in line


def test_a_seed_that_is_left_out_is_missing(tmp_path, files):
    outcome = verified(tmp_path, {name: each for name, each in files.items() if not name.startswith(FIRST)})
    assert outcome.status == 1 and "seed 0 is claimed but missing" in outcome.out


def test_other_values_than_those_of_the_key_are_noticed(tmp_path, files):
    def stronger(values):
        values["config"]["method"]["scorer"]["values"]["strength"] = 2.0

    assert "KEY: its key is " in line_of(verified(tmp_path, changed(files, stronger)))


def test_the_file_of_the_method_is_the_one_that_ran(tmp_path, files):
    other = {**files, "methods/mine.py": PLUGIN.replace("-self", "-2 * self").encode()}
    outcome = verified(tmp_path, other)
    assert outcome.status == 1 and "0 of 4 cells hold" in outcome.out
    assert "CODE: the file of 'mine' is mine@" in line_of(outcome)
    gone = {name: each for name, each in files.items() if name != "methods/mine.py"}
    assert "CODE: there is no file of the method 'mine'" in line_of(verified(tmp_path, gone))


def test_another_protocol_is_named_with_what_to_do(tmp_path, files):
    older = changed(files, lambda values: values["config"]["code"].update(loop="loop@0"))
    assert "CODE: it was computed with 'loop@0', and this oodbench has loop@1; run it again" in line_of(
        verified(tmp_path, older)
    )
    trainer = changed(files, lambda values: values["config"]["method"]["trainer"].update(code="erm@7"))
    assert "CODE: it ran 'erm@7', and this oodbench has erm@1; run it again" in line_of(verified(tmp_path, trainer))


def test_a_shipped_method_of_other_code_must_have_a_name_of_its_own(tmp_path, files):
    other = changed(files, lambda values: values["config"]["method"]["trainer"].update(code="erm@0123456789abcdef"))
    line = line_of(verified(tmp_path, other))
    assert "CODE: 'erm' is a method of oodbench, and this code differs; give it another name" in line
    outcome = verified(tmp_path, {**files, "methods/knn.py": PLUGIN.encode()})
    assert "the method name 'knn' is taken by" in outcome.out and outcome.status == 1


def test_a_method_does_not_print_as_one_of_oodbench(tmp_path, files):
    posing = PLUGIN.replace("    strength", '    display = "KNN"\n    strength')
    outcome = verified(tmp_path, {**files, "methods/mine.py": posing.encode()})
    assert "CODE: the name to print or the hyperparameters of 'mine'" in line_of(outcome)

    def poses(values):
        values["config"]["method"]["scorer"]["display"] = "KNN"

    both = changed({**files, "methods/mine.py": posing.encode()}, poses)
    assert "'mine' prints as 'KNN', which is a method of oodbench" in line_of(verified(tmp_path, both))


def test_another_suite_or_division_of_images_does_not_hold(tmp_path, files):
    split = changed(files, lambda values: values["config"]["suite"]["splits"].update(semantic_test=0.9))
    assert "SUITE: 'splits' differs from that of digits-c-smoke" in line_of(verified(tmp_path, split))
    renamed = changed(files, lambda values: values.update(suite="/etc/passwd"))
    outcome = verified(tmp_path, renamed)
    assert "'/etc/passwd' is not a suite of oodbench" in outcome.out and outcome.status == 1


def test_files_of_this_machine_are_not_looked_for(tmp_path, files):
    """What a result says of paths never leads to a file."""

    def weights(values):
        values["config"]["suite"]["network"]["options"]["weights"] = "/etc/passwd"

    def network(values):
        values["config"]["suite"]["network"]["name"] = f"{tmp_path}/net.py:build"

    (tmp_path / "net.py").write_text("raise SystemExit")
    for change in (weights, network):
        line = line_of(verified(tmp_path, changed(files, change)))
        assert line.startswith("NETWORK: ") and "suite not checked, since network does not hold" in line


def test_a_method_that_no_cell_ran_is_no_part_of_it(tmp_path, files):
    outcome = verified(tmp_path, {**files, "methods/other.py": PLUGIN.encode()})
    assert outcome.status == 1 and "no cell has run 'methods/other.py'" in outcome.out


def test_a_method_file_that_is_made_to_confuse_is_a_problem_in_one_line(tmp_path, files):
    for text in (b"-" * 200_000 + b"1", b"\xff", b"\0", b"x" + b".a" * 60_000):
        outcome = verified(tmp_path, {**files, "methods/mine.py": text})
        assert (outcome.status, outcome.err) == (1, "") and len(outcome.out.splitlines()) == CELLS + 2


def test_claims_without_end_are_not_counted_out(tmp_path, files):
    manifest = json.loads(files["submission.json"])
    many = [str(number) for number in range(3000)]
    manifest["claims"][0].update(methods=many, settings=many)
    outcome = verified(tmp_path, {**files, "submission.json": json.dumps(manifest).encode()})
    assert outcome.status == 1 and "mine: it claims more than 60,000 cells\n" in outcome.out


def test_words_of_others_do_not_reach_the_terminal_unescaped(tmp_path, files):
    outcome = verified(tmp_path, changed(files, lambda values: values.update(setting="\x1b[2J")))
    assert "\x1b" not in outcome.out and "\\x1b[2J" in outcome.out


@pytest.mark.parametrize("log", [b"root:x:0:0\n", b"[1]\n", b"\xff"])
def test_a_log_that_is_none_does_not_hold(tmp_path, files, log):
    name = named(files, ".json").replace(".json", ".jsonl")
    assert line_of(verified(tmp_path, {**files, name: log})).startswith("FILES: its '.jsonl' is damaged: not the log")


@pytest.mark.parametrize("suffix", [".json", ".safetensors", ".jsonl"])
def test_no_link_is_packed(tmp_path, suffix):
    results = results_in(tmp_path)
    cell = sorted(results.rglob("mine/*.json"))[0].with_suffix(suffix)
    (tmp_path / "private").write_bytes(cell.read_bytes() if cell.exists() else b'{"password": "x"}')
    cell.unlink(missing_ok=True)
    cell.symlink_to(tmp_path / "private")
    outcome = oodbench("submit", results, "--methods", "mine", "--out", tmp_path / "a.zip")
    assert_refused(outcome, f"{cell.name}' is a link, which is not followed; put the file itself there")
    assert not (tmp_path / "a.zip").exists()


def test_a_link_in_the_folder_of_a_submission_does_not_hold(tmp_path, files):
    for name, content in files.items():
        (tmp_path / "mine" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "mine" / name).write_bytes(content)
    assert oodbench("verify", tmp_path / "mine").status == 0
    linked = tmp_path / "mine" / named(files, ".safetensors")
    linked.rename(tmp_path / "elsewhere")
    linked.symlink_to(tmp_path / "elsewhere")
    outcome = oodbench("verify", tmp_path / "mine")
    assert outcome.status == 1 and "safetensors' is not a file of a submission" in outcome.out


def test_names_that_are_too_long_are_refused_in_one_line(tmp_path, files):
    archive, long = packed_again(tmp_path / "a.zip", files), "x" * 300
    assert_refused(oodbench("verify", archive, "--into", tmp_path / long), "File name too long")
    assert_refused(oodbench("verify", "y" * 5000), "File name too long")
    packing = ("submit", results_in(tmp_path), "--methods", "mine", "--name", "mine")
    assert_refused(oodbench(*packing, "--out", tmp_path / f"{long}.zip"), "File name too long")


def test_json_says_the_same_for_other_programs(tmp_path, files):
    other = changed(files, lambda values: values["metrics"].update(auroc=0.999))
    outcome = oodbench("verify", packed_again(tmp_path / "a.zip", other), "--json")
    found = json.loads(outcome.out)
    assert outcome.status == 1 and found["holds"] is False and len(found["cells"]) == CELLS
    first = found["cells"][0]
    assert first["cell"] == "digits-c-smoke / photo-patches / mine / seed 0" and set(first["problems"]) == {"metrics"}
    assert first["unchecked"] == {"splits": "since metrics does not hold"}


def test_what_cannot_be_read_is_refused_in_one_line(tmp_path, files):
    (tmp_path / "text.zip").write_text("no zip")
    assert_refused(oodbench("verify", tmp_path / "text.zip"), "is damaged (BadZipFile")
    assert_refused(oodbench("verify", tmp_path / "nowhere.zip"), "cannot be read (No such file or directory)")
    assert_refused(oodbench("verify", tmp_path), "holds neither a submission nor results")
    for text in (b"[]", b"{", b'{"x": 1}', b"[" * 100_000, b'{"schema": 99}'):
        archive = packed_again(tmp_path / "a.zip", {**files, "submission.json": text}, with_digests=False)
        assert_refused(oodbench("verify", archive), "'submission.json'")


def test_what_holds_is_taken_into_the_community_s_results(tmp_path, files):
    archive, community = packed_again(tmp_path / "a.zip", files), tmp_path / "results" / "community"
    assert f"taken in as '{community / 'mine'}'" in assert_done(oodbench("verify", archive, "--into", community))
    assert (community / "COLLECTION").read_text() == "community\n"
    results, problems = read_folder(community)
    assert len(results) == CELLS and not problems
    assert {standing(result.path) for result in results} == {"verified"}
    assert assert_done(oodbench("verify", community / "mine")).endswith("no code of it was run\n")
    assert_refused(oodbench("verify", archive, "--into", community), "exists already")
    held = json.loads((community / "mine" / "submission.json").read_text())["verified"]
    assert held["oodbench"] == package.__version__ and ", ".join(held["held"]) + " hold" == HOLD


def test_what_does_not_hold_is_not_taken_in(tmp_path, files):
    other = changed(files, lambda values: values["metrics"].update(auroc=0.999))
    outcome = oodbench("verify", packed_again(tmp_path / "a.zip", other), "--into", tmp_path / "community")
    assert outcome.status == 1 and "not taken into" in outcome.out and not (tmp_path / "community").exists()


def test_a_folder_is_verified_like_an_archive_and_its_links_are_not_followed(tmp_path, files):
    archive, community = packed_again(tmp_path / "a.zip", files), tmp_path / "community"
    assert_done(oodbench("verify", archive, "--into", community))
    (community / "mine" / "link.json").symlink_to("/etc/passwd")
    (community / "mine" / "notes.txt").write_text("mine")
    outcome = oodbench("verify", community / "mine")
    assert outcome.status == 1 and outcome.err == ""
    assert "mine: 'link.json' is not a file of a submission" in outcome.out
    assert "mine: 'notes.txt' is not a file of a submission" in outcome.out


def test_the_standing_of_a_result_is_lost_when_anything_of_it_changes(tmp_path, files):
    community = tmp_path / "community"
    assert_done(oodbench("verify", packed_again(tmp_path / "a.zip", files), "--into", community))
    home = community / "mine"
    paths = sorted(home.rglob("seed*.json"))
    scores = paths[0].with_suffix(".safetensors")
    scores.write_bytes(scores.read_bytes() + b" ")
    paths[1].with_suffix(".jsonl").unlink()
    assert [standing(path) for path in paths] == ["reported", "reported", "verified", "verified"]
    manifest = json.loads((home / "submission.json").read_text())
    (home / "submission.json").write_text(json.dumps({**manifest, "verified": None}))
    assert {standing(path) for path in paths} == {"reported"}
    (home / "submission.json").write_text("damaged")
    assert {standing(path) for path in paths} == {"reported"}
    (home / "submission.json").unlink()
    assert {standing(path) for path in paths} == {"reported"}
    (community / "COLLECTION").unlink()
    assert {standing(path) for path in paths} == {None}


def test_a_submission_that_others_would_refuse_is_not_packed(tmp_path):
    results, out = results_in(tmp_path), tmp_path / "new.zip"

    def refused(*parts, methods="mine", more=()):
        assert_refused(oodbench("submit", results, "--methods", methods, "--out", out, *more), *parts)
        assert not out.exists()

    refused("unknown method in these results 'mien'", methods="mien")
    refused("end it in .zip", more=["--out", tmp_path / "new.tar"])
    refused("cannot name a submission", more=["--name", "../x"])
    refused("the note is not one line", more=["--note", "a\nb"])
    refused("has no such results of mine", more=["--seed", "7"])
    first = next((results / "digits-c-smoke" / "photo-patches" / "mine").glob("seed0*.json"))
    text, scores = first.read_text(), first.with_suffix(".safetensors").read_bytes()
    first.with_suffix(".safetensors").unlink()
    refused("verification would fail", "seed 0: metrics: it has no raw scores")
    first.with_suffix(".safetensors").write_bytes(scores)
    change_result(first, lambda values: values.update(status="failed", error="no"))
    refused("photo-patches / mine / seed 0 failed: no; run it again, or leave out")
    first.unlink()
    refused("digits-c-smoke / photo-patches / mine / seed 0 is claimed but missing")
    first.write_text(text)
    (tmp_path / "mine.py").write_text(PLUGIN.replace("-self", "-2 * self"))
    refused("code: the file of 'mine' is mine@", more=["--plugin", tmp_path / "mine.py"])
    assert_done(oodbench("submit", results, "--methods", "mine", "--out", out, "--seed", "1"))


def test_a_method_s_file_that_is_gone_is_asked_for(tmp_path):
    results = results_in(tmp_path)
    for path in (results / "requests").iterdir():
        path.unlink()
    archive = tmp_path / "a.zip"
    assert_refused(oodbench("submit", results, "--methods", "mine", "--out", archive), "give it with --plugin FILE.py")
    assert_done(oodbench("submit", results, "--methods", "mine", "--out", archive, "--plugin", tmp_path / "mine.py"))


def test_a_shipped_method_needs_no_file(tmp_path):
    results = results_in(tmp_path)
    found = package.submit(results, "knn", tmp_path / "knn.zip", note="another machine")
    assert found.holds and "methods/knn.py" not in members((tmp_path / "knn.zip").read_bytes())
    assert package.verify(tmp_path / "knn.zip").submission.note == "another machine"


def test_the_workflow_verifies_what_a_request_adds_with_the_code_of_the_branch_it_wants_to_join(tmp_path, files):
    """Its last step is run as it stands, on a repository with a good, a bad and an older submission."""
    workflow = yaml.safe_load(WORKFLOW.read_text())
    assert workflow["permissions"] == {"contents": "read"}
    assert [*workflow[True]] == ["pull_request"]  # YAML 1.1 takes `on` for true
    *_, install, last = workflow["jobs"]["verify"]["steps"]
    assert install["working-directory"] == "ours" and "theirs" not in install["run"]
    theirs, command = tmp_path / "theirs", tmp_path / "ours" / ".venv" / "bin" / "oodbench"
    command.parent.mkdir(parents=True)
    command.write_text(f'#!/bin/sh\nexec {sys.executable} -m oodbench "$@"\n')
    command.chmod(0o755)

    def git(*words):
        who = ["-c", "user.name=a", "-c", "user.email=a@example.org"]
        subprocess.run(["git", *who, "-C", theirs, *words], check=True, capture_output=True)

    def take_in(name):
        manifest = {**json.loads(files["submission.json"]), "name": name}
        archive = packed_again(tmp_path / "a.zip", {**files, "submission.json": json.dumps(manifest).encode()})
        assert_done(oodbench("verify", archive, "--into", theirs / "results" / "community"))

    def run():
        return subprocess.run(
            ["bash", "-e", "-c", last["run"]], cwd=tmp_path, env={**os.environ, "BASE": "base"}, capture_output=True
        )

    take_in("older")
    next((theirs / "results").rglob("seed*.safetensors")).write_bytes(b"damaged")
    git("init")
    git("add", "-A")
    git("commit", "-m", "older")
    git("branch", "base")
    take_in("good")
    git("add", "-A")
    git("commit", "-m", "good")
    done = run()
    assert done.returncode == 0 and b"good: 4 of 4 cells hold" in done.stdout and b"older" not in done.stdout
    take_in("bad")
    next((theirs / "results" / "community" / "bad").rglob("seed*.safetensors")).unlink()
    git("add", "-A")
    git("commit", "-m", "bad")
    done = run()
    assert done.returncode == 1 and b"bad: 3 of 4 cells hold" in done.stdout and b"good: 4 of 4" in done.stdout


REFERENCE = Path(__file__).parents[2] / "results" / "reference"


@pytest.fixture(scope="module")
def findings_of():
    """A function: what is found in some reference results of a suite, spread over methods and seeds."""
    results = read_folder(REFERENCE)[0]

    def some(suite_label, images, count=3):
        chosen = [each for each in results if each.suite_label == suite_label]
        for result in chosen[:: max(len(chosen) // count, 1)]:
            packs = [each for each in result.path.parents if each.name.endswith(".pack.zip")]
            yield check_cell(result, Context(Registry(), images, packs[0] if packs else REFERENCE))

    return some


def test_the_reference_results_hold_without_their_data(findings_of, tmp_path, monkeypatch):
    monkeypatch.setenv("OODBENCH_DATA", str(tmp_path))
    images, suites = KnownImages(), ("cifar10-c-scorers", "mnist-c", "pacs-cpu", "pacs-photos", "digits-c")
    found = {suite: list(findings_of(suite, images)) for suite in suites}
    assert all(found.values())
    assert [each for some in found.values() for each in some if not each.holds or each.unchecked] == []


def test_what_nobody_here_knows_is_said_and_does_not_fail(findings_of, tmp_path, monkeypatch):
    monkeypatch.setenv("OODBENCH_DATA", str(tmp_path))
    monkeypatch.setattr(known_images, "reference_results", list)
    for found in findings_of("pacs-cpu", KnownImages()):
        assert found.holds and set(found.unchecked) == {"data", "splits"}
        assert found.unchecked["data"] == "the content of 'pacs' is not known here; get it with: oodbench data get pacs"
        assert found.unchecked["splits"] == "no reference result has these id and covariate images"
    for found in findings_of("mnist-c", KnownImages()):  # whose official content is known
        assert "data" in found.held and set(found.unchecked) == {"splits"}
