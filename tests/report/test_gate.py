"""A check as a gate: its exit status, what programs read of it, and the page about it."""

import itertools
import json
import re
import shlex
import shutil
from pathlib import Path
from xml.etree import ElementTree

import pytest
import yaml
from command_line import assert_done, assert_refused, oodbench
from reported_results import run, save
from spreads import even

from oodbench.report import comparison, spread
from oodbench.report.gate import Gate, badge, github, junit
from oodbench.report.verdicts import STATUSES, Verdict
from oodbench.results.folder import COLLECTION, read_folder

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "ci.md").read_text(encoding="utf-8")
REFERENCE = ROOT / "results" / "reference"
NASTY = '50 %, a:b\n::error::x\x1b[31m<&">'


def cell(status, row="msp", metric="auroc", **fields):
    return Verdict("digits-c", "", "unseen-digits", row, metric, status, **fields)


def gate(*statuses, **options):
    return Gate("paper", [cell(status, row=f"m{i}") for i, status in enumerate(statuses)], **options)


@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize("complete", [False, True])
@pytest.mark.parametrize("statuses", [c for n in range(4) for c in itertools.combinations(STATUSES, n)])
def test_the_exit_status_is_that_of_the_page(statuses, complete, strict):
    if "differs" in statuses or (complete and "missing" in statuses):
        expected = 1
    elif "agrees" not in statuses or (strict and "cannot tell" in statuses):
        expected = 3
    else:
        expected = 0
    assert gate(*statuses, complete=complete, strict=strict).status == expected


def digits(value, seeds=(0, 1), **fields):
    """OOD accuracy in percent; the other three are the same everywhere."""
    return [run("digits-c", "msp", seed, (value, 50, 50, 50), **fields) for seed in seeds]


@pytest.fixture
def folders(tmp_path, monkeypatch):
    """A function that saves two sides; trainings vary by one point, the same one between machines by half of it."""
    monkeypatch.setattr(spread, "measured", lambda: even(1.0, 0.5))

    def saved(ours, theirs):
        shutil.rmtree(tmp_path / "here", ignore_errors=True)
        shutil.rmtree(tmp_path / "there", ignore_errors=True)
        return save(ours, tmp_path / "here"), "--against", save(theirs, tmp_path / "there")

    return saved


def test_a_command_that_decides_nothing_says_so_and_ends_with_status_3(folders):
    undecided = folders([run("digits-c", "msp", 0, (58, 46, 44, 58))], [run("digits-c", "msp", 1, (60, 48, 50, 60))])
    outcome = oodbench("check", *undecided)
    assert outcome.status == 3 and outcome.err == "oodbench: no cell could be decided\n"
    assert outcome.out.endswith("\n0 agree, 0 differ, 4 cannot tell\n")


def test_strictly_one_cell_that_cannot_tell_is_too_many(folders):
    one = folders(digits(60, [0]), digits(61, [0]))
    assert assert_done(oodbench("check", *one)).endswith("\n3 agree, 0 differ, 1 cannot tell\n")
    outcome = oodbench("check", *one, "--strict")
    assert outcome.status == 3 and "1 cannot tell, which --strict does not allow" in outcome.err
    assert oodbench("check", *folders(digits(60), digits(60)), "--strict").status == 0


def test_only_what_is_worse_counts_if_that_is_asked_for(folders):
    for ours, two_sided, no_worse in ((60, 0, 0), (90, 1, 0), (30, 1, 1)):
        given = folders(digits(ours), digits(60))
        assert oodbench("check", *given).status == two_sided
        outcome = oodbench("check", *given, "--no-worse")
        assert outcome.status == no_worse and outcome.out.endswith(f"\n{4 - no_worse} no worse, {no_worse} worse, "
                                                                    "0 cannot tell\n")  # fmt: skip
    assert "\nworse:\n  digits-c / unseen-digits / msp / OOD Acc.: 30.00, expected 60.00" in outcome.out
    flagged = [run("digits-c", "msp", 0, (60, 50, fpr, 50)) for fpr in (10, 90)]  # of FPR, less is better
    for (ours, theirs), status in zip(itertools.permutations(flagged), (0, 1), strict=True):
        assert oodbench("check", *folders([ours], [theirs]), "--no-worse").status == status


def test_a_training_that_changed_varies_as_over_seeds(folders):
    found = [
        comparison.with_results(digits(60), digits(61, training=training), measured=even(1.0, 0.5), no_worse=True)[0]
        for training in ("t", "another")
    ]
    # One point or half a point, two seeds on both sides.
    assert [each.uncertainty.standard_error for each in found] == [pytest.approx(0.005), pytest.approx(0.01)]
    assert found[1].note == "another training under the same seeds"


def test_of_a_network_that_was_given_the_band_decides_alone():
    verdict = cell("agrees", measured=0.5, expected=0.6, band=0.02)
    assert verdict.off(no_worse=True) == pytest.approx(0.1) == verdict.off(no_worse=False)
    better = cell("agrees", measured=0.6, expected=0.5, band=0.02)
    assert better.off(no_worse=True) == pytest.approx(-0.1) and better.off(no_worse=False) == pytest.approx(0.1)


def test_the_word_reference_is_the_folder_of_the_reference_results(tmp_path, monkeypatch):
    home = tmp_path / "results"
    for name, word in (("reference", "reference"), ("demo", "demo")):
        save(digits(60), home / name)
        (home / name / COLLECTION).write_text(word)
    by_path = oodbench("check", home / "demo", "--against", home / "reference")
    assert oodbench("check", home / "demo", "--against", "reference") == by_path and by_path.status == 0
    assert_refused(oodbench("check", home / "demo", "--against", "demo"), "is among the demo results itself; name")
    monkeypatch.setattr("oodbench.results.folder.PACKAGE", tmp_path / "site-packages" / "oodbench")  # as installed
    alone = save(digits(60), tmp_path / "elsewhere" / "mine")
    refused = oodbench("check", alone, "--against", "reference")
    assert_refused(
        refused, "not in the installed package; clone the repository, or give a folder in place of reference"
    )
    refused = oodbench("check", alone, "--against", "paper")
    assert_refused(refused, "run what it reports: oodbench run --suite mnist-c")
    assert "--against reference" not in refused.err


def test_options_that_do_not_go_together_are_refused(folders, tmp_path):
    given = folders(digits(60), digits(60))
    assert_refused(oodbench("check", *given, "--no-worse", "--same-machine"), "leave one of them out")
    assert_refused(oodbench("check", *given, "--out", tmp_path / "x.xml"), "needs --format; choose one of json, junit,")
    assert_refused(
        oodbench("check", *given, "--json", "--format", "junit"), "--json and --format junit are two formats"
    )
    assert_refused(oodbench("check", *given, "--format", "junti"), "unknown format 'junti'; did you mean 'junit'?")
    assert not (tmp_path / "x.xml").exists()


ATTRIBUTES = {"testsuites": {"name"}, "testsuite": {"name"}, "testcase": {"name", "classname", "time"}}
COUNTS = {"tests", "failures", "errors", "skipped", "time"}


def assert_is_junit(text):
    """Elements, attributes and counts are what readers of JUnit's XML expect."""
    root = ElementTree.fromstring(text)
    assert root.tag == "testsuites" and [each.tag for each in root] == ["testsuite"] * len(root)
    for element in (root, *root):
        assert {*element.keys()} == ATTRIBUTES[element.tag] | COUNTS
        found = {"tests": "testcase", "failures": "failure", "errors": "error", "skipped": "skipped"}
        for name, tag in found.items():
            assert int(element.get(name)) == len(element.findall(f".//{tag}")), (element.tag, name)
    for suite in root:
        for case in suite:
            assert case.tag == "testcase" and {*case.keys()} == ATTRIBUTES["testcase"]
            assert [each.tag for each in case] in ([], ["failure"], ["skipped"])
            assert all(each.get("message") for each in case)
        places = [(case.get("classname"), case.get("name")) for case in suite]
        assert len({*places}) == len(places)
    return root


def test_junit_has_a_suite_for_each_suite_and_a_case_for_each_cell():
    root = assert_is_junit(junit(gate(*STATUSES)))
    assert [[each.tag for each in case] for case in root.iter("testcase")] == [
        [], ["failure"], ["skipped"], ["skipped"], ["skipped"]
    ]  # fmt: skip
    assert root.find(".//failure").get("type") == "differs"
    complete = assert_is_junit(junit(gate(*STATUSES, complete=True)))
    assert complete.get("failures") == "2" and complete.get("skipped") == "2"
    assert_is_junit(junit(gate()))
    assert_is_junit(junit(Gate(NASTY, [cell("differs", row=NASTY, metric=NASTY, note=NASTY)])))


def test_annotations_are_lines_that_github_reads():
    lines = github(gate("agrees", "differs", "cannot tell", "missing")).splitlines()
    assert lines[0] == "::error title=oodbench check against paper::1 agrees, 1 differs, 1 cannot tell, 1 missing"
    assert [line.split(" ")[0] for line in lines[1:]] == ["::error", "::warning"]
    assert github(gate("agrees")) == "::notice title=oodbench check against paper::1 agrees, 0 differ, 0 cannot tell"
    assert "::no cell could be decided" not in github(gate("missing")) and "no cell could be" in github(gate("missing"))
    nasty = github(Gate(NASTY, [cell("differs", row=NASTY, note=NASTY)])).split("\n")
    assert len(nasty) == 2  # no message breaks its line, so none begins a command of its own
    for line in nasty:
        title, _, message = line.removeprefix("::error title=").partition("::")
        assert "50 %25%2C a%3Ab" in title and not re.search(r"%(?!25|2C|3A)|[:,\x1b]", title)
        assert not re.search(r"%(?!25)|\x1b", message)


def test_a_badge_is_what_shields_reads():
    colors = {("agrees",): "brightgreen", ("agrees", "differs"): "red", ("cannot tell",): "lightgrey"}
    for statuses, color in colors.items():
        found = json.loads(badge(gate(*statuses)))
        assert {*found} == {"schemaVersion", "label", "message", "color"} and found["schemaVersion"] == 1
        assert found["color"] == color and found["label"] == "against paper"
    assert found["message"] == "0 agree, 0 differ, 1 cannot tell"


def test_every_format_goes_to_standard_output_or_to_a_file_beside_the_table(folders, tmp_path):
    given = folders(digits(60), digits(60))
    table = oodbench("check", *given).out
    for name in ("json", "junit", "github", "badge"):
        printed = oodbench("check", *given, "--format", name)
        written = oodbench("check", *given, "--format", name, "--out", tmp_path / name)
        assert written == (0, table, "") and printed.status == 0
        text = (tmp_path / name).read_text(encoding="utf-8")
        assert printed.out == (table + text if name == "github" else text)
    assert json.loads((tmp_path / "json").read_text())["exit_status"] == 0
    assert_is_junit((tmp_path / "junit").read_text())
    assert oodbench("check", *given, "--json").out == (tmp_path / "json").read_text()


def workflows():
    return re.findall(r"```yaml\n(.*?)```", PAGE, flags=re.S)


def commands(workflow):
    """Of oodbench, without the program's name."""
    steps = [step for job in yaml.safe_load(workflow)["jobs"].values() for step in job["steps"]]
    return [shlex.split(step["run"])[1:] for step in steps if step.get("run", "").startswith("oodbench ")]


def test_workflows_are_short_and_of_the_form_that_github_reads():
    assert len(workflows()) == 2
    for text in workflows():
        assert len(text.splitlines()) <= 15
        contents = yaml.safe_load(text)
        assert {"name", "jobs"} < {*contents} and True in contents  # YAML 1.1 reads the key `on` as a yes
        for step in contents["jobs"]["check"]["steps"]:
            assert ("run" in step) != ("uses" in step)


@pytest.fixture
def released(tmp_path, monkeypatch):
    """The working folder of somebody whose last release is committed; the method, and the commands of the workflow."""
    monkeypatch.chdir(tmp_path)
    walkthrough = (ROOT / "docs" / "add-a-method.md").read_text(encoding="utf-8")
    (code,) = re.findall(r"`centered_logit.py`:\n\n```python\n(.*?)```", walkthrough, flags=re.S)
    Path("centered_logit.py").write_text(code)
    making, checking = commands(workflows()[0])
    making += ["--preset", "smoke", "--seeds", "0,1"]  # so that it takes seconds
    assert_done(oodbench(*["released" if word == "new" else word for word in making]))
    return code, making, checking


def test_the_workflow_against_the_last_release_fails_for_a_worse_method_and_passes_as_it_was(released):
    code, making, checking = released
    line = "return -(out.logits - self.strength * self.mean).amax(dim=-1)"
    assert line in code
    for changed, status in ((line, 0), (line.replace("-(", "(", 1), 1)):
        Path("centered_logit.py").write_text(code.replace(line, changed))
        assert_done(oodbench(*making))
        outcome = oodbench(*checking)
        assert outcome.status == status, outcome
        assert outcome.out.splitlines().count("::error") == 0 and ("::error title=" in outcome.out) == bool(status)


def test_the_workflow_against_the_paper_tells_methods_that_agree_from_those_that_do_not(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    ((command),) = commands(workflows()[1])
    for method, status in (("scone", 0), ("woods", 1)):
        for folder in (REFERENCE / "mnist-c").glob(f"*/{method}"):
            shutil.copytree(folder, Path("results", "mnist-c", folder.parent.name, method))
        assert oodbench(*command).status == status
        assert int(assert_is_junit(Path("check.xml").read_text()).get("failures") != "0") == status


def test_the_other_commands_of_the_page_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    demo = [each for each in read_folder(REFERENCE / "digits-c")[0] if each.seed == 0 and each.method == "msp"]
    save(demo, Path("results/demo"))
    shutil.copytree(REFERENCE / "mnist-c", Path("results/reference/mnist-c"))
    found = [shlex.split(line)[1:] for line in re.findall(r"^oodbench .*$", PAGE, flags=re.M)]
    assert [oodbench(*words).status for words in found] == [0, 1]
