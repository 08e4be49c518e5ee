"""The commands as a user types them: what they print, their exit status, and one line for whatever is typed wrong."""

import csv
import io
import itertools
import json
import re
import resource
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from command_line import assert_done, assert_refused, complaints, on_screen, oodbench, process, python, smoke, terminal

from oodbench import __version__, read_results, run, table
from oodbench.cli import EXAMPLES
from oodbench.config.cards import NEEDS, READS
from oodbench.config.registry import Registry
from oodbench.config.suite import load, suite_files
from oodbench.data import store
from oodbench.data.stored import Obtained
from oodbench.report.tables import DEFAULT_METRICS
from oodbench.results.metrics import METRICS

SUITE = ("run", "--suite", "digits-c")
SMOKE = (*SUITE, "--preset", "smoke")


def files_below(folder):
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_help_names_every_command_and_ends_in_commands_to_paste():
    out = assert_done(oodbench("--help"))
    verbs = (
        "demo run evaluate fit predict table compare list show check plot report status merge remove pack rescore "
        "submit verify check-method data"
    )
    assert re.findall(r"^    ([\w-]+) ", out, re.MULTILINE) == verbs.split()
    assert out.endswith("".join(f"  {example}\n" for example in EXAMPLES))
    assert assert_done(oodbench()) == out


def test_every_example_of_the_help_can_be_pasted(results, tmp_path, monkeypatch):
    shutil.copytree(results, tmp_path / "results")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OODBENCH_DATA", str(tmp_path / "data"))
    asked = []
    monkeypatch.setattr(Obtained, "get", lambda data, *_: asked.append(data.name) or store.Entry("0", "a test", 1))
    helps = [
        assert_done(oodbench(*command, "--help"))
        for command in ([], ["run"], ["table"], ["list"], ["show"], ["status"], ["rescore"], ["data"])
    ]
    examples = [re.split(" {3,}", line.strip())[0] for text in helps for line in text.split("example")[-1].splitlines()]
    commands = [shlex.split(line) for line in examples if line.startswith("oodbench ")]
    assert len(commands) >= 11
    for program, *arguments in commands:
        assert program == "oodbench"
        dry = ["--dry-run"] if arguments[0] == "run" and "--dry-run" not in arguments else []
        assert_done(oodbench(*arguments, *dry))
    assert asked == ["mnist", "fashion-mnist"]


def test_version_is_that_of_the_package():
    assert assert_done(oodbench("--version")) == f"oodbench {__version__}\n"
    assert assert_done(process("--version")) == f"oodbench {__version__}\n"


def test_list_gives_one_line_each_from_the_docstrings():
    cards = Registry().cards
    *lines, words = assert_done(oodbench("list", "methods")).splitlines()
    rows = dict(line.split(maxsplit=1) for line in lines if line.startswith("  "))
    assert rows == {name: card.summary for name, card in cards.items()}
    groups = {name: heading for heading, name in grouped(lines)}
    assert groups == {
        name: f"scorers that read {card.reads}:" if card.kind == "Scorer" else "trainers:"
        for name, card in cards.items()
    }
    assert list(dict.fromkeys(groups.values())) == [*(f"scorers that read {each}:" for each in READS), "trainers:"]
    assert words == (
        "--methods also takes all, all-scorers, all-trainers: every method, scorer or trainer that fits the suite."
    )
    for kind, name in (("suites", "digits-c"), ("datasets", "photo-patches"), ("networks", "small-cnn")):
        lines = assert_done(oodbench("list", kind)).splitlines()
        assert any(re.match(rf"{name}  +\S.*\.$", line) for line in lines)


def grouped(lines):
    """Each name with the heading above it."""
    heading = ""
    for line in lines:
        if line.endswith(":") and not line.startswith(" "):
            heading = line
        elif line.startswith("  "):
            yield heading, line.split()[0]


@pytest.mark.parametrize("width", [60, 200])
def test_a_list_fits_the_terminal_and_folds_summaries_below_themselves(width):
    status, shown = terminal("list", "methods", COLUMNS=str(width))
    lines = shown.replace("\r", "").splitlines()
    assert status == 0 and max(map(len, lines)) <= width
    folded = [line for line in lines if re.match(r" {18,}\S", line)]
    assert bool(folded) == (width == 60)
    entries = " ".join(shown.split())
    assert all(f"{name} {card.summary}" in entries for name, card in Registry().cards.items())


def test_a_list_for_programs_names_everything_and_what_reads_what():
    values = json.loads(oodbench("list", "--json").out)
    assert [*values] == ["schema", "methods", "suites", "datasets", "networks"] and values["schema"] == 1
    methods = {each["name"]: each for each in values["methods"]}
    assert {*methods} == {*Registry().cards}
    assert (methods["msp"]["kind"], methods["msp"]["reads"]) == ("scorer", "logits")
    assert (methods["erm"]["kind"], methods["erm"]["reads"]) == ("trainer", None)
    assert {each["name"] for each in values["suites"]} == {*suite_files()}
    assert [*json.loads(oodbench("list", "networks", "--json").out)] == ["schema", "networks"]


def test_list_alone_lists_everything_under_headings():
    out = assert_done(oodbench("list"))
    assert re.findall(r"^(\w+):$", out, re.MULTILINE) == ["methods", "suites", "datasets", "networks"]
    for kind in ("methods", "suites", "datasets", "networks"):
        assert all(f"  {line}\n" in out for line in assert_done(oodbench("list", kind)).splitlines() if line)


def test_show_describes_a_method_its_paper_hyperparameters_and_needs():
    out = assert_done(oodbench("show", "knn"))
    for part in (
        "knn: Distance to the k-th nearest training row",
        "Y. Sun et al., Out-of-Distribution Detection with Deep Nearest Neighbors, ICML 2022.",
        "group:    OOD detection\ntrainer:  erm\nscorer:   knn, which reads distances\n",
        "needs:    labeled images only\n",
        "hyperparameters of knn:\n  k = 50  (a whole number)",
        "knn.py\n",
    ):
        assert part in out
    assert assert_done(oodbench("show", "erm+knn")) == out
    assert "dim = auto  (a whole number or 'auto')" in assert_done(oodbench("show", "vim"))
    assert "scorer:   energy, which reads logits\n" in assert_done(oodbench("show", "erm"))


@pytest.mark.parametrize("name", Registry().cards)
def test_show_describes_every_method_alone_and_in_a_pair(name):
    card = Registry().card(name)
    pair = f"{name}+knn" if card.kind == "Trainer" else f"erm+{name}"
    for shown in (assert_done(oodbench("show", name)), assert_done(oodbench("show", pair))):
        assert all(f"  {p.name} = {p.default}  (" in shown for p in card.parameters.values())
    assert card.summary in shown or pair == "erm+knn"


@pytest.mark.parametrize("name", suite_files())
def test_show_describes_a_suite_its_settings_sizes_and_sources(name):
    out = assert_done(oodbench("show", name))
    for part in (
        "network:  ",
        "scratch:  epochs ",
        "presets:  ",
        "\nsetting ",
        "\ndata set ",
        "\nfile: ",
    ):
        assert part in out


def test_show_says_what_a_random_search_draws_from_and_what_is_held_out():
    out = assert_done(oodbench("show", "pacs"))
    assert "\n--draws:  recipe.lr from 10**U(-5,-3.5), " in out and "\nsetting covariate=photo: photo held out\n" in out
    assert "\n--draws:  gamma from 10**U(-1,1)\n" in assert_done(oodbench("show", "coral"))
    assert "--draws" not in assert_done(oodbench("show", "erm"))


def test_show_of_the_embedded_suite_counts_images_and_names_where_they_come_from():
    out = assert_done(oodbench("show", "digits-c"))
    assert re.search(r"^setting photo-patches: gaussian_noise at severity 3, pi_c 0\.5, pi_s 0\.1$", out, re.MULTILINE)
    assert re.search(r"^  labelled +\d+ images of digits$", out, re.MULTILINE)
    assert re.search(r"^  covariate +\d+ images of digits digits_c\.gaussian_noise-3$", out, re.MULTILINE)
    assert re.search(r"^data set digits: verified, .*scikit-learn's digits\.csv\.gz", out, re.MULTILINE)
    assert "source: scikit-learn's china.jpg and flower.jpg" in assert_done(oodbench("show", "photo-patches"))
    assert "width = 16  (a whole number)" in assert_done(oodbench("show", "small-cnn"))


def test_torch_is_not_imported_for_what_trains_nothing(copied):
    run_ = [*SMOKE, "--results", str(copied), "--methods"]
    commands = [
        [], ["--help"], ["--version"], ["run", "--help"], ["list"], ["list", "methods"], ["show", "knn"],
        ["show", "erm"], ["show", "erm+knn"], ["show", "digits-c"], ["show", "small-cnn"], ["show", "zzz"], ["zzz"],
        ["run", "--suite", "zzz"], [*run_, "zzz"], [*run_, "knn", "--set", "knn.k=x"],
        [*run_, "knn", "--set", "knn.z=1"], [*run_, "knn", "--set", "recipe.epochs=0"], [*run_, "knn", "--seeds", "a"],
        [*run_, "knn", "--seeds", ""], [*run_, "knn", "--setting", "zzz"], [*run_, "knn", "--preset", "zzz"],
        [*run_, "knn", "--plugin", "zzz.py"], [*run_, "msp,knn"], ["table", str(copied)], ["table", "zzz"],
        ["table", str(copied), "--format", "latex"], ["table", str(copied), "--metrics", "zzz"],
    ]  # fmt: skip
    code = f"""
import sys
from oodbench.cli import main
for command in {commands!r}:
    try:
        main(command)
    except SystemExit:
        pass
    heavy = {{"torch", "timm", "torchvision", "sklearn", "pandas"}} & set(sys.modules)
    assert not heavy, (command, heavy)
"""
    outcome = python("-c", code)
    assert outcome.status == 0, outcome.err
    assert "nothing to do (--force runs them again)" in outcome.err


@pytest.mark.parametrize("arguments", [["--help"], ["list"], [*SUITE, "--methods", "knnn"]])
def test_help_lists_and_usage_errors_take_well_under_a_second(arguments):
    def seconds():
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        process(*arguments)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime

    assert any(seconds() < 1.5 for _ in range(2))  # about 0.4 of a CPU alone; importing torch takes 2 and more


WRONG = [
    (
        ["foo"],
        "unknown command 'foo'; known: check, check-method, compare, data, demo, evaluate, fit, list, merge, pack, "
        "plot, predict, remove, report, rescore, run, show, status, submit, table, verify",
    ),
    (["rn"], "unknown command 'rn'; did you mean 'run'?"),
    (["--nonsense"], "unrecognized arguments: --nonsense; see 'oodbench --help'"),
    (["run", "--suite"], "argument --suite: expected one argument; see 'oodbench run --help'"),
    ([*SUITE, "--bogus"], "unrecognized arguments: --bogus"),
    ([*SUITE, "extra"], "unrecognized arguments: extra"),
    (["run", "--suite", "digits"], "unknown suite 'digits'; did you mean 'digits-c'?"),
    (["run", "--suite", ""], "unknown suite ''; known: "),
    (["run", "--suite", "nowhere.yaml"], "cannot read 'nowhere.yaml': No such file or directory"),
    ([*SUITE, "--methods", "knnn"], "unknown method 'knnn'; did you mean 'knn'?"),
    ([*SUITE, "--methods", "msp,enrgy"], "unknown method 'enrgy'; did you mean 'energy'"),
    ([*SUITE, "--methods", "zzz"], "unknown method 'zzz'; known: "),
    ([*SUITE, "--methods", "erm+knnn"], "unknown method 'knnn'; did you mean 'knn'?"),
    ([*SUITE, "--methods", "knn+erm"], "'knn+erm' is not a method; a pair is written trainer+scorer"),
    ([*SUITE, "--methods", ""], "no method given; name at least one"),
    ([*SUITE, "--methods", " , "], "no method given; name at least one"),
    ([*SUITE, "--setting", "unseen-digit"], "unknown semantic set 'unseen-digit'; did you mean 'unseen-digits'?"),
    ([*SUITE, "--setting", "covariate=blurr"], "unknown corruption 'blurr'; did you mean 'blur'?"),
    ([*SUITE, "--setting", "severity=6"], "severity 6 does not exist; choose 1 to 5"),
    ([*SUITE, "--setting", "severity=x"], "setting.severity: expected a whole number, got 'x'"),
    ([*SUITE, "--setting", "severty=1"], "unknown part of a setting 'severty'; did you mean 'severity'?"),
    ([*SUITE, "--setting", "pi_c=0.6,pi_s=0.6"], "pi_c + pi_s = 1.2 is more than the whole"),
    ([*SUITE, "--setting", "pi_c=-0.1"], "pi_c=-0.1 is not a share; choose a number from 0 to 1"),
    ([*SUITE, "--set", "knn.kk=3"], "unknown hyperparameter of knn 'kk'; did you mean 'k'?"),
    ([*SUITE, "--set", "knn.k=abc"], "knn.k: expected a whole number, got 'abc'"),
    ([*SUITE, "--set", "knn.k=1.5"], "knn.k: expected a whole number, got '1.5'"),
    ([*SUITE, "--set", "knn.k=2026-13-45"], "knn.k: expected a whole number, got '2026-13-45'"),
    ([*SUITE, "--set", "knn.k="], "knn.k: expected a whole number, got ''"),
    ([*SUITE, "--set", "knn.k"], "'knn.k' is not an assignment; write --set method.hyperparameter=value"),
    ([*SUITE, "--set", "knn=3"], "'knn=3' is not an assignment; write --set method.hyperparameter=value"),
    ([*SUITE, "--set", "nothing.k=3"], "'nothing.k=3' sets nothing: no chosen method uses 'nothing'; used are "),
    ([*SUITE, "--set", "vim.dim=outo"], "vim.dim: expected a whole number or 'auto', got 'outo'"),
    ([*SUITE, "--set", "odin.magnitude=.inf"], "odin.magnitude: expected a number, got '.inf'"),
    ([*SUITE, "--set", "odin.temperature=0"], "odin.temperature"),
    ([*SUITE, "--set", "odin.temperature=0", "--dry-run"], "odin.temperature"),
    ([*SUITE, "--set", "recipe.epochs=-1"], "recipe.epochs=-1: expected more than 0, got -1"),
    ([*SUITE, "--set", "recipe.nonsense=1"], "unknown key of 'recipe' 'nonsense'; known: augment, batch_size, "),
    ([*SUITE, "--seeds", ""], "no seed given; name at least one, for example --seeds 0,1,2"),
    ([*SUITE, "--seeds", ","], "no seed given; name at least one, for example --seeds 0,1,2"),
    ([*SUITE, "--seeds", "-1"], "seed -1 is negative; seeds are whole numbers from 0"),
    ([*SUITE, "--seeds", "0,a"], "'0,a' is not a list of seeds; write whole numbers, as in --seeds 0,1,2 or 0-4"),
    ([*SUITE, "--seeds", "1.5"], "'1.5' is not a list of seeds; write whole numbers"),
    ([*SUITE, "--preset", "smok"], "unknown preset of digits-c 'smok'; did you mean 'smoke'?"),
    ([*SUITE, "--preset", ""], "unknown preset of digits-c ''; known: "),
    ([*SMOKE, "--device", "nonsense"], "the device 'nonsense' cannot be used ("),
    ([*SMOKE, "--device", "nonsense", "--dry-run"], "the device 'nonsense' cannot be used ("),
    ([*SMOKE, "--device", ""], "the device '' cannot be used ("),
    ([*SMOKE, "--device", "meta"], "the device 'meta' cannot be used ("),
    ([*SMOKE, "--device", "hpu"], "the device 'hpu' cannot be used ("),
    ([*SUITE, "--init", "nowhere.pt"], "cannot read 'nowhere.pt': No such file or directory"),
    (["list", "metods"], "unknown list 'metods'; did you mean 'methods'?"),
    (["list", "zzz"], "unknown list 'zzz'; known: datasets, methods, networks, suites"),
    (["show"], "the following arguments are required: NAME; see 'oodbench show --help'"),
    (["show", "digitsc"], "unknown name 'digitsc'; did you mean 'digits-c' or 'digits' or 'street-digits'?"),
    (["show", ""], "unknown name ''; known: "),
    (["show", "+"], "'+' is not a method; a pair is written trainer+scorer"),
    (["show", "nowhere.yaml"], "cannot read 'nowhere.yaml': No such file or directory"),
    (["table"], "there is no results folder 'results'; make one with: oodbench run "),
    (["table", "nowhere"], "there is no results folder 'nowhere'; make one with: oodbench run "),
    (["table", "{}", "--format", "latx"], "unknown format 'latx'; did you mean 'latex'?"),
    (["table", "{}", "--format", ""], "unknown format ''; known: csv, html, json, latex, markdown"),
    (["table", "{}", "--metrics", "auroq"], "unknown metric 'auroq'; did you mean 'auroc'"),
    (["table", "{}", "--metrics", "auroc,zzz"], "unknown metric 'zzz'; known: accepted_acc, aupr_in, "),
    (["table", "{}", "--metrics", ""], "no metrics to show; choose from: "),
    (["table", "{}", "--seeds", "0"], "--seeds 0 is neither 'all' nor a number from 1"),
    (["table", "{}", "--seeds", "x"], "--seeds x is neither 'all' nor a number from 1"),
    (["table", "{}", "--seeds", "-1"], "--seeds -1 is neither 'all' nor a number from 1"),
    (["table", "{}", "--seeds", "²"], "--seeds ² is neither 'all' nor a number from 1"),
]


@pytest.mark.parametrize(("arguments", "message"), WRONG)
def test_what_is_typed_wrong_is_answered_in_one_line(arguments, message, results, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    outcome = oodbench(*(results if argument == "{}" else argument for argument in arguments))
    assert_refused(outcome, message)
    assert not list(tmp_path.iterdir()), "nothing is left behind"


@pytest.mark.skipif("__import__('torch').cuda.is_available()", reason="there is a CUDA device")
def test_a_device_that_is_not_there_is_refused(tmp_path):
    assert_refused(smoke(tmp_path / "results", "msp", "--device", "cuda"), "the device 'cuda' cannot be used (")


@pytest.mark.parametrize("arguments", [["foo"], [*SUITE, "--methods", "knnn"]])
def test_a_process_ends_with_status_two_and_no_traceback(arguments):
    assert_refused(process(*arguments))


def test_a_run_says_what_it_does_and_ends_in_the_table_and_the_next_command(finished, monkeypatch):
    out, results = finished
    assert out.startswith(
        "digits-c-smoke: 4 cells, 0 done already, 4 to run in 1 training; results go to my results\n[1/1] erm, seed 0\n"
    )
    assert re.search(r"^  epoch 3/3, loss \d\.\d{4}, [\d,]+ images/s$", out, re.MULTILINE)
    numbers = ", ".join(rf"{re.escape(METRICS[name].title)} \d+\.\d\d" for name in DEFAULT_METRICS)
    cells = rf"^  (.+ / .+ / seed 0): {numbers}$"
    assert re.findall(cells, out, re.MULTILINE) == [
        f"{setting} / {method} / seed 0" for method in ("msp", "knn") for setting in ("unseen-digits", "photo-patches")
    ]
    assert "\x1b" not in out and "\r" not in out
    monkeypatch.chdir(results.parent)
    results = Path(results.name)
    home = results / "digits-c-smoke"
    assert f"The same table: {home / 'table.md'} and {home / 'table.tex'}\n" in out
    assert (home / "table.md").read_text() == assert_done(oodbench("table", results))
    assert (home / "table.tex").read_text() == assert_done(oodbench("table", results, "--format", "latex"))
    (following,) = re.findall(r"^Next: oodbench (.*)$", out, re.MULTILINE)
    assert r"\begin{tabular}" in assert_done(oodbench(*shlex.split(following)))


def test_a_repeated_run_does_nothing_and_says_so(copied):
    before = {path: path.stat().st_mtime_ns for path in copied.rglob("seed*")}
    out = assert_done(smoke(copied, "knn,msp", "--seeds", "0,0"))
    assert out.startswith(
        "digits-c-smoke: 4 cells, 4 done already, 0 to run: nothing to do (--force runs them again).\n"
    )
    assert "  KNN  " in out and "[1/1]" not in out
    assert before and before == {path: path.stat().st_mtime_ns for path in copied.rglob("seed*")}


def test_the_python_interface_does_the_same_in_three_lines(copied):
    found = run("digits-c", methods="msp,knn", seeds=[0], preset="smoke", results=copied)
    assert [(r.method, r.setting, r.status) for r in found] == [
        (method, setting, "ok") for method in ("msp", "knn") for setting in ("unseen-digits", "photo-patches")
    ]
    assert table(copied) == assert_done(oodbench("table", copied))
    assert {r.path for r in read_results(copied)} == {r.path for r in found}


def test_a_terminal_shows_one_line_that_moves(tmp_path, monkeypatch):
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setenv("TERM", "xterm")
    status, text = on_screen(*SMOKE, "--methods", "msp", "--results", tmp_path / "results")
    assert status == 0
    assert re.search(r"\d of 2 cells.*\n  \[1/1\] erm, seed 0", text) and "\x1b[2K" in text
    moving = re.findall(r"\[1/1\] erm, seed 0[^\r\n\x1b]*", text)
    assert moving and all(len(line) <= 98 for line in moving)
    assert "unseen-digits / msp / seed 0: OOD Acc. " in text


def test_a_dry_run_prints_the_plan_and_touches_nothing(copied, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    before = files_below(tmp_path)
    out = assert_done(smoke(copied, "msp,knn,energy", "--seeds", "0,1", "--dry-run"))
    lines = out.splitlines()
    assert lines[0] == "digits-c-smoke: 12 cells, 4 done already, 8 to run"
    cells = itertools.product((0, 1), ("msp", "knn", "energy"), ("unseen-digits", "photo-patches"))
    plan = [
        f"  {'done  ' if seed == 0 and method != 'energy' else 'to run'}  {setting} / {method} / seed {seed}"
        for seed, method, setting in cells
    ]
    assert lines[1:13] == plan
    assert lines[13:16] == ["2 trainings, shared by their cells:", "  erm, seed 0: 2 cells", "  erm, seed 1: 6 cells"]
    assert re.fullmatch(r"estimated time on (cpu|cuda|mps): (under a second|about [\d.]+ (s|min|h))", lines[16])
    assert len(lines) == 17
    assert_done(smoke("results", "msp", "--dry-run"))
    assert files_below(tmp_path) == before and sorted(tmp_path.iterdir()) == [copied]


def test_a_dry_run_under_force_runs_everything_again(results):
    out = assert_done(smoke(results, "msp", "--dry-run", "--force"))
    assert out.startswith("digits-c-smoke: 2 cells, 0 done already, 2 to run\n")


def test_seeds_settings_and_methods_named_twice_are_one(results):
    settings = ["--setting", "unseen-digits", "--setting", "unseen-digits,severity=3"]
    out = assert_done(smoke(results, "msp,erm+msp,msp,", "--seeds", "1,1,01", *settings, "--dry-run"))
    assert out.startswith("digits-c-smoke: 1 cell, 0 done already, 1 to run\n  to run  unseen-digits / msp / seed 1\n")


def test_the_last_of_two_values_counts_and_a_default_is_no_change(results):
    out = assert_done(smoke(results, "knn", "--set", "knn.k=3", "--set", " knn.k = 4 ", "--dry-run"))
    assert "  to run  unseen-digits / knn,k=4 / seed 0\n" in out
    assert "2 done already" in assert_done(smoke(results, "knn", "--set", "knn.k=50", "--dry-run"))


def test_all_leaves_out_what_the_suite_has_no_data_for_and_says_why(tmp_path):
    registry, provided = Registry(), load("digits-c").provides
    lacking = [spec.name for spec in registry.every("all") if (spec.needs & {*NEEDS["Trainer"]}) - provided]
    out = assert_done(oodbench(*SMOKE, "--methods", "all", "--dry-run", "--results", tmp_path / "none"))
    reason = "needs environments, which the suite 'digits-c' does not have"
    of_head = "ood-head (needs an OOD head, which the trainer 'erm' does not add to the network)"
    assert re.findall("^left out: (.*)$", out, re.MULTILINE) == [f"{', '.join(lacking)} ({reason}); {of_head}"]
    planned = set(re.findall(r"to run  unseen-digits / ([^\s,]+)\S* / seed 0", out))
    assert planned == set(registry.cards) - {*lacking, "ood-head"} and {"sagnet", "rsc", "scone", "knn"} <= planned


def test_environments_can_be_made_where_the_suite_has_none(tmp_path):
    assert_refused(smoke(tmp_path, "groupdro", "--set", "groupdro.environments=native"), "needs environments")
    out = assert_done(smoke(tmp_path, "groupdro", "--set", "groupdro.environments=random:2"))
    assert "groupdro" in out and "environments random:2" in out


def test_a_changed_recipe_is_run_anew(results):
    assert "0 done already" in assert_done(smoke(results, "knn", "--set", "recipe.epochs=1", "--dry-run"))


def test_a_setting_of_the_users_runs_and_is_named_by_what_differs(tmp_path):
    setting = "photo-patches,covariate=blur,severity=5"
    out = assert_done(smoke(tmp_path, "msp", "--setting", setting, "--set", "recipe.epochs=1"))
    assert f"  {setting} / msp / seed 0: OOD Acc. " in out
    assert len(list(tmp_path.glob(f"digits-c-smoke/{setting}/msp/seed0-*.json"))) == 1
    assert setting in assert_done(oodbench("table", tmp_path))


def test_text_of_a_hyperparameter_cannot_leave_the_results_folder(tmp_path):
    plugin = tmp_path / "named.py"
    plugin.write_text(
        "from dataclasses import dataclass\n\nfrom oodbench import Scorer\n\n\n@dataclass\nclass Named(Scorer):\n"
        '    """X."""\n\n    text: str = "a"\n\n    def score(self, out):\n        return out.logits[:, 0]\n'
    )
    text = "../../../away"
    out = assert_done(smoke(tmp_path / "results", "named", "--plugin", plugin, "--set", f"named.text={text}"))
    assert f"named,text={text} / seed 0: OOD Acc. " in out
    assert sorted(path.name for path in tmp_path.iterdir()) == ["named.py", "results"]
    assert f"Named (text={text})" in assert_done(oodbench("table", tmp_path / "results"))


def test_a_results_folder_that_cannot_be_written_is_refused_before_anything_trains(tmp_path):
    file = tmp_path / "file"
    file.write_text("mine")
    assert_refused(smoke(file, "msp"), f"the results folder '{file}' is a file; choose another with --results")
    for folder in (file / "below", "/proc/nowhere"):
        outcome = smoke(folder, "msp")
        assert_refused(outcome, f"cannot write '{folder}", "choose another folder")
        assert "[1/1]" not in outcome.out
    assert file.read_text() == "mine"


def spoil(folder):
    """Put files into a results folder that are no results; what each is said to be."""
    whole = next(folder.rglob("msp/seed0-*.json"))
    values = json.loads(whole.read_text())
    spoilt = {
        "truncated.json": (whole.read_text()[:200], "truncated, or not JSON"),
        "empty.json": ("", "truncated, or not JSON"),
        "foreign.json": ('{"name": "somebody else\'s"}', "not an oodbench result"),
        "list.json": ("[1, 2]", "not an oodbench result"),
        "future.json": (json.dumps({**values, "schema": 999, "new": 1}), "written by a newer oodbench (schema 999, "),
        "damaged.json": (json.dumps({**values, "seed": "zero"}), "damaged: "),
        "lacking.json": (json.dumps({k: v for k, v in values.items() if k != "metrics"}), "not a result of schema"),
    }
    for name, (text, _) in spoilt.items():
        (whole.parent / name).write_text(text)
    return {whole.parent / name: reason for name, (_, reason) in spoilt.items()}


@pytest.mark.parametrize("command", ["table", "run"])
def test_files_that_are_no_results_are_named_skipped_and_kept(command, copied):
    plain = assert_done(oodbench("table", copied))
    spoilt = spoil(copied)
    before = files_below(copied)
    outcome = oodbench("table", copied) if command == "table" else smoke(copied, "msp,knn")
    assert outcome.status == 0
    assert outcome.out == plain if command == "table" else "nothing to do" in outcome.err
    *lines, count = complaints(outcome)
    assert len(lines) == len(spoilt)
    assert count == f"oodbench: {len(spoilt)} files or folders skipped; what they hold is left out"
    for path, reason in spoilt.items():
        assert any(line.startswith(f"oodbench: skipped {path}: {reason}") for line in lines)
    assert files_below(copied) == before


def test_an_empty_results_folder_and_a_file_in_its_place_are_told(tmp_path):
    message = f"there are no results in '{tmp_path}'; run some with: oodbench run --suite digits-c --results {tmp_path}"
    for command in (["table", tmp_path], ["plot", tmp_path], ["check", tmp_path, "--against", "paper"]):
        assert_refused(oodbench(*command), message)
    (tmp_path / "foreign.json").write_text("{}")
    outcome = oodbench("table", tmp_path)
    assert outcome.status == 2 and "skipped" in outcome.err.splitlines()[0] and message in outcome.err.splitlines()[1]
    assert_refused(oodbench("table", tmp_path / "foreign.json"), "there is no results folder")


def test_every_format_shows_every_cell(results):
    metrics = [*DEFAULT_METRICS]
    markdown = assert_done(oodbench("table", results))
    assert assert_done(oodbench("table", results, "--format", "markdown")) == markdown
    assert (
        markdown.startswith("### digits-c-smoke\n")
        and "| *OOD detection: distances*" in markdown
        and "| KNN " in markdown
    )
    for title in ("**OOD Acc. ↑**", "**ID Acc. ↑**", "**FPR ↓**", "**AUROC ↑**", "**Cov. flagged ↓**"):
        assert markdown.count(title) == 3  # two settings and their average
    latex = assert_done(oodbench("table", results, "--format", "latex"))
    assert r"\toprule" in latex and r"\textbf{AUROC}$\uparrow$" in latex and latex.isascii()
    rows = list(csv.DictReader(io.StringIO(assert_done(oodbench("table", results, "--format", "csv")))))
    records = json.loads(assert_done(oodbench("table", results, "--format", "json")))
    assert len(rows) == len(records) == 30 and [row["metric"] for row in rows[:5]] == metrics
    stored = {(r.setting, r.method): r.metrics for r in read_results(results)}
    for method in {method for _, method in stored}:
        both = [stored[setting, method] for setting in ("unseen-digits", "photo-patches")]
        stored["Average", method] = {metric: (both[0][metric] + both[1][metric]) / 2 for metric in metrics}
    for row, record in zip(rows, records, strict=True):
        value = stored[row["setting"], row["method"]][row["metric"]]
        assert float(row["mean"]) == record["mean"] == pytest.approx(value, abs=1e-15) and 0 <= value <= 1
        shown = f"{100 * value:.2f}"
        assert shown in markdown and shown in latex


def test_every_metric_can_be_shown_in_the_order_asked_for(results):
    names = list(METRICS)[::-1]
    records = json.loads(assert_done(oodbench("table", results, "--format", "json", "--metrics", ",".join(names))))
    assert [record["metric"] for record in records[: len(names)]] == names
    assert all(0 <= record["mean"] <= 1 for record in records)
    head = assert_done(oodbench("table", results, "--metrics", " auroc , fpr95,auroc")).splitlines()[4]
    assert [cell.strip() for cell in head.split("|")[2:-1]] == ["**AUROC ↑**", "**FPR ↓**"] * 3


def test_a_table_averages_as_many_seeds_as_asked_for(copied):
    assert_done(smoke(copied, "msp", "--seeds", "1"))
    both = assert_done(oodbench("table", copied))
    assert both == assert_done(oodbench("table", copied, "--seeds", "all"))
    assert both == assert_done(oodbench("table", copied, "--seeds", "2"))
    assert re.search(r"\| MSP +\|.* ± ", both)
    one = assert_done(oodbench("table", copied, "--seeds", "1"))
    assert "\nOne seed. ±: half of the 95 % interval over images only, which leaves out" in one


def test_a_table_of_one_suites_folder_is_that_suites_table(results):
    assert assert_done(oodbench("table", results / "digits-c-smoke")) == assert_done(oodbench("table", results))


@pytest.mark.parametrize(("command", "status"), [("table {} --format json", 0), ("list", 0), ("run", 1)])
def test_a_reader_that_goes_away_early_causes_no_traceback(command, status, copied):
    arguments = [*SMOKE, "--methods", "msp,knn", "--results", str(copied)] if command == "run" else command.split()
    arguments = [argument.replace("{}", str(copied)) for argument in arguments]
    child = subprocess.Popen(
        [sys.executable, "-m", "oodbench", *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert child.stdout is not None and child.stderr is not None
    child.stdout.close()
    told = child.stderr.read()
    assert told == b"" if command != "run" else b"nothing to do" in told and b"oodbench: " not in told
    child.stderr.close()
    assert child.wait() == status
