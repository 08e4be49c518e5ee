"""What README.md shows and claims: its table, its numbers, its counts, and a test behind each row of the comparison."""

import ast
import re
import sys
from importlib import import_module
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

import pytest
from PIL import Image

import oodbench
from oodbench.cli.command_line import parser_of as parser
from oodbench.config.registry import Registry
from oodbench.config.suite import load
from oodbench.report import spread
from oodbench.report.tables import DEFAULT_METRICS

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
COMMANDS = (ROOT / "docs" / "commands.md").read_text(encoding="utf-8")
REFERENCE = ROOT / "results" / "reference" / "digits-c"
DEMO_SEEDS = (0, 1, 2)
LINES = 130  # three screens

# The claims about oodbench in the comparison, word for word, and the tests that each rests on.
TESTED = {
    "accuracy under one and detection of the other, side by side": (
        "tests/results/test_metrics.py::test_evaluate_gives_the_hand_worked_values_in_table_order",
        "tests/running/test_run.py::test_every_number_of_the_table_follows_from_the_raw_scores",
        "tests/test_readme.py::test_the_table_is_what_the_code_prints_of_the_same_runs",
    ),
    "trained and measured": (
        "tests/methods/test_wild.py::test_the_paper_s_terms_by_hand",
        "tests/methods/test_wild.py::test_woods_is_scone_without_a_margin",
        "tests/methods/test_wild.py::test_only_trainers_that_say_so_are_given_the_wild_images",
    ),
    "95 % interval over seeds and test images, paired tests with Holm's correction": (
        "tests/report/test_intervals.py::test_several_seeds_carry_the_interval_over_seeds_and_images_together",
        "tests/report/test_intervals.py::test_methods_on_the_same_images_are_compared_in_pairs",
        "tests/report/test_intervals.py::test_every_further_comparison_makes_it_harder_to_tell_rows_apart",
    ),
    "resumes, with the same bits": (
        "tests/running/test_run.py::test_a_run_killed_at_a_write_resumes_to_the_same_bits",
        "tests/running/test_run.py::test_a_training_killed_again_and_again_ends_with_the_same_bits",
    ),
    "ranked scorers, a threshold with its interval, a verdict for each file": (
        "tests/test_docs.py::test_every_command_of_the_tutorial_runs_in_its_order",
        "tests/learning/test_threshold.py::test_the_interval_covers_the_share_of_future_images_in_95_of_100_draws",
        "tests/cli/test_fit.py::test_predict_flags_of_each_set_what_fit_has_said",
    ),
    "Slurm, Ray and shards, with the same bits": (
        "tests/running/test_slurm.py::test_jobs_of_slurm_give_the_same_bits_also_when_a_task_is_killed_and_requeued",
        "tests/running/test_ray.py::test_two_nodes_without_a_shared_disk_give_the_same_bits_and_stay",
        "tests/running/test_shards.py::test_three_shards_merged_give_the_same_bits_as_one_run",
    ),
    "printed beside yours, with a test of every cell": (
        "tests/report/test_layouts.py::test_reported_numbers_stand_below_the_measured_with_the_difference",
        "tests/report/test_check.py::test_against_a_paper_training_images_and_rounding_vary",
        "tests/report/test_check.py::test_a_difference_is_told_in_words_and_by_the_status",
    ),
}
# Where the cells on OpenOOD and DomainBed were read, by file and commit. Some commits may be of forks, and their dates
# are not known.
# OpenOOD: openood/evaluation_api/evaluator.py 0ad2b93 (`csid_acc` counts ID images too; the ID data set is one of
# DATA_INFO), openood/trainers/utils.py 48c203c (no WOODS, no SCONE), openood/pipelines/train_pipeline.py 183f86e (every
# training begins with epoch 1; several machines), scripts/eval_ood.py 0ad2b93 (mean and standard deviation over the
# folders s0, s1, ...), and shell scripts in scripts/.
# DomainBed: domainbed/scripts/train.py 0076b04 (accuracies; `start_step` is 0), domainbed/scripts/collect_results.py
# 27e115e (`format_mean`), domainbed/command_launchers.py 5fc06e5 (local, dummy, multi_gpu), README.md 05a8cc0 (no
# WOODS, no SCONE; image folders of one's own; data sets; tables).


@pytest.fixture
def script(monkeypatch):
    """benchmarks/readme/write.py"""
    monkeypatch.syspath_prepend(ROOT / "benchmarks" / "readme")
    yield import_module("write")
    del sys.modules["write"]


def comparison():
    """The rows of the comparison: what is compared, then a cell for each column."""
    table = README.partition("## Compared with other benchmarks")[2].partition("\n\nEvery claim")[0].strip()
    head, _, *rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in table.split("\n")]
    assert all(len(row) == len(head) for row in rows)
    return head, rows


def test_it_ends_after_three_screens():
    assert len(README.splitlines()) <= LINES


def test_the_table_is_what_the_code_prints_of_the_same_runs(script):
    """The reference results hold the demo's seeds: words are compared exactly, numbers as between processors."""
    assert script.problems(README, REFERENCE, DEMO_SEEDS) == []


def test_the_rows_of_the_table_are_methods_of_the_demo_and_the_setting_is_its_first(script):
    suite = load("digits-c")
    assert set(script.METHODS) < set(suite.contents.methods)
    assert [setting.semantic for setting in suite.settings] == [script.SETTING, "photo-patches"]
    assert "one of the demo's two settings and some of its methods" in README


@pytest.mark.parametrize(
    ("now", "otherwise", "says"),
    [
        (
            r"(  SCONE +)77\.06",
            r"\g<1>86.37",
            "SCONE, covariate_acc: 86.37 in README.md, 77.06 here;",
        ),
        (r"OOD Acc\. ↑ ", "Accuracy ↑ ", "README.md does not say: unseen-digits OOD Acc. ↑"),
        ("In percent", "In points", "README.md does not say: In percent"),
        (r"\n  KNN .*", "", "README.md does not say: unseen-digits"),
        ("--setting unseen-digits", "--setting photo-patches", "README.md shows no table of"),
    ],
)
def test_a_table_that_says_something_else_is_noticed(script, now, otherwise, says):
    before, mark, shown = README.partition(script.BEGIN)
    changed = re.sub(now, otherwise, shown, count=1)
    assert changed != shown
    found = script.problems(before + mark + changed, REFERENCE, DEMO_SEEDS)
    assert found and all(each.startswith(says) for each in found)


def test_another_processor_is_no_reason_to_fail(script):
    """ERM's accuracy varies by 0.7 points from machine to machine, a mean of three seeds by less."""
    changed = README.replace("75.60 ± 2.85", "75.90 ± 2.85")
    assert changed != README
    assert script.problems(changed, REFERENCE, DEMO_SEEDS) == []


def test_the_check_prints_what_differs_and_what_to_do_without_a_demo(script, tmp_path, monkeypatch, capsys):
    for folder, status in ((REFERENCE, 1), (tmp_path, 2)):  # the reference has ten seeds, the demo three
        monkeypatch.setattr(sys, "argv", ["write.py", "--check", "--results", str(folder)])
        with pytest.raises(SystemExit) as end:
            sys.exit(script.main())
        assert end.value.code == status
    printed = capsys.readouterr()
    assert " here; processors explain " in printed.out
    assert printed.err.strip().endswith("make demo makes what is needed here")


def test_only_what_stands_between_the_marks_is_written_and_twice_is_once(script):
    written = script.between_marks(f"a\n{script.BEGIN}\nold\n{script.END}\nz\n", "new\n")
    assert written == f"a\n{script.BEGIN}\n```\n$ {script.COMMAND}\nnew\n```\n{script.END}\nz\n"
    assert script.between_marks(written, "new\n") == written


def test_the_pictures_are_there_small_and_sharp(script):
    assert f"(docs/{script.PICTURES[0].name})" in README
    for picture in script.PICTURES:
        path = ROOT / "docs" / picture.name
        assert path.stat().st_size < 200_000
        with Image.open(path) as image:
            assert image.width == script.WIDE * script.SCALE
            assert sum(image.convert("RGB").getpixel((0, 0))) > 3 * 240  # the light theme


def test_differences_over_ten_seeds_are_those_of_the_reference_results(script):
    text = " ".join(README.split())
    for words, baseline, metric, sign in (
        ("FPR is {} points below ERM's", "erm", "fpr95", -1),
        ("its OOD Acc. {} from BN-adapt's", "bn-adapt", "covariate_acc", 1),
        ("flags {} points more noisy digits than ERM", "erm", "covariate_flagged", 1),
    ):
        frame = oodbench.compare(REFERENCE, baseline, ["scone"], [metric])
        (row,) = frame[frame.setting == script.SETTING].itertuples()
        assert row.seeds == 10
        difference = f"{100 * sign * row.difference:.1f} ± {50 * (row.high - row.low):.1f}".replace("-", "−")
        assert words.format(difference) in text


def test_the_words_below_the_table_follow_from_it(script):
    shown = README.partition(script.BEGIN)[2].partition(script.END)[0]
    rows = {name: dict(zip(DEFAULT_METRICS, row, strict=True)) for name, row in script.means(shown).items()}
    text = " ".join(README.split())
    for name in ("WOODS", "SCONE"):
        ours, adapted, erm = rows[name], rows["BN-adapt"], rows["ERM"]
        assert ours["auroc"] > erm["auroc"] and ours["fpr95"] < erm["fpr95"]
        assert ours["covariate_acc"] <= adapted["covariate_acc"]
        assert ours["covariate_flagged"] > erm["covariate_flagged"]
    flagged = {name: f"{row['covariate_flagged']:.0f}" for name, row in rows.items()}
    assert f"WOODS {flagged['WOODS']} of 100, SCONE {flagged['SCONE']}, ERM {flagged['ERM']}" in text
    of_demo = [each for each in oodbench.read_results(REFERENCE) if each.seed in DEMO_SEEDS]
    ran = [each for each in of_demo if each.setting == script.SETTING]
    missed = {each.method: "violated" in each.notes.get("not_converged", "") for each in ran}
    assert missed["woods"] and not missed["scone"]
    assert "SCONE meets its constraints; WOODS misses one by a tenth" in text


def test_what_processors_change_is_what_was_measured():
    """Standard deviations of a run, pooled over the methods and settings of the suite."""
    said = re.search(
        r"deviations of ([\d.]+) points in OOD Acc\., ([\d.]+) in ID Acc\., ([\d.]+) in FPR and ([\d.]+) in AUROC",
        " ".join(README.split()),
    ).groups()
    cells = [each for where, each in spread.measured().cells if where.label == "digits-c"]
    for metric, number in zip(("covariate_acc", "id_acc", "fpr95", "auroc"), said, strict=True):
        squares = [each.points[metric][1] ** 2 for each in cells]
        assert f"{(sum(squares) / len(squares)) ** 0.5:.1f}" == number


@pytest.mark.parametrize("text", [README, COMMANDS], ids=["README.md", "commands.md"])
def test_every_count_of_components_is_that_of_the_registry(text):
    cards = Registry().cards.values()
    counts = {kind: sum(card.kind == kind.capitalize() for card in cards) for kind in ("scorer", "trainer")}
    for number, kind in re.findall(r"(\d+) \[?(scorer|trainer|method|suite|data set|network)s?\b", text):
        assert int(number) == counts.get(kind), f"{number} {kind}s"


def test_every_claim_about_oodbench_has_its_tests_and_they_exist():
    _, rows = comparison()
    assert [ours for _, ours, *_ in rows] == [*TESTED]
    for name in (name for names in TESTED.values() for name in names):
        path, _, function = name.partition("::")
        tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
        assert function in {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}, name


def test_what_is_said_of_pytorch_ood_is_so_in_the_version_that_is_named():
    head, rows = comparison()
    assert head[3] == f"pytorch-ood {version('pytorch-ood')}"
    said = {what: cells[2] for what, *cells in rows}
    (folder,) = find_spec("pytorch_ood").submodule_search_locations
    sources = {
        str(path.relative_to(folder)): path.read_text(encoding="utf-8") for path in sorted(Path(folder).rglob("*.py"))
    }
    code = {name: _without_docstrings(text) for name, text in sources.items()}
    measuring = "".join(text for name, text in code.items() if name.startswith(("metrics", "benchmark")))

    assert said["WOODS and SCONE"] == "the loss of SCONE" and "Feed Two Birds with One Scone" in code["loss/scone.py"]
    assert said["A training that was killed"] == "has no training loop"
    assert {name for name, text in code.items() if "optim" in text} == {"detector/tscaling.py"}
    assert said["± of a number"] == "none"
    assert not re.search(r"bootstrap|interval|stderr|standard_error|\.std\(", measuring)
    assert said["Your network and images"] == "scores" and "outlier scores" in sources["api.py"]
    assert "threshold" not in code["api.py"]
    assert said["Clusters"] == "none" and not re.search(r"slurm|\bray\b", "".join(code.values()), re.I)
    assert said["Covariate and semantic shift"] == "detection, ID accuracy"
    assert "class OODMetrics" in measuring and "class Accuracy" in measuring
    assert said["A paper's numbers"] == "none in the package" and not re.search(r"reported|leaderboard", measuring)
    assert {"metrics/segmentation.py", "dataset/txt/__init__.py", "dataset/audio/__init__.py"} <= {*sources}


def _without_docstrings(text):
    """Code without comments and without texts that stand alone."""
    tree = ast.parse(text)
    for node in ast.walk(tree):
        if isinstance(getattr(node, "body", None), list):
            bare = [each for each in node.body if isinstance(each, ast.Expr) and isinstance(each.value, ast.Constant)]
            node.body = [each for each in node.body if each not in bare] or [ast.Pass()]
    return ast.unparse(tree)


def test_every_make_target_that_is_named_exists():
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), flags=re.M))
    named = set(re.findall(r"(?:^|`)make ([a-z-]+)", README + COMMANDS, flags=re.M))
    assert {"demo", "test"} <= named <= targets


def test_commands_within_sentences_and_fences_are_understood(script):
    """Those that are indented are run by tests/test_docs.py."""
    named = re.findall(r"(?:`|^\$ )(?:\.venv/bin/)?(oodbench [^`\n]+)", README + COMMANDS, flags=re.M)
    assert script.COMMAND in named
    for command in named:
        if re.search(r"METHOD\b|COMMAND\b", command):  # to be filled in
            continue
        parser().parse_args(command.split()[1:])


def test_links_within_the_page_lead_to_a_heading():
    headings = {re.sub(r"[^\w -]", "", line).lower().strip() for line in re.findall(r"^#+ (.*)$", README, flags=re.M)}
    for target in re.findall(r"\]\(#([^)]+)\)", README):
        assert target.replace("-", " ") in headings


def test_the_python_of_the_everyday_commands_runs(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (block,) = re.findall(r"```python\n(.*?)```", COMMANDS, flags=re.S)
    scope = {}
    exec(compile(block, "commands.md", "exec"), scope)
    assert {each.method for each in scope["results"]} == {"msp", "knn"}
    assert "MSP" in capsys.readouterr().out
    assert {*scope["differences"].method} == {"knn"}
