"""The Python interface does what the command line does, silently."""

import ast
import sys
from pathlib import Path

import pytest
from command_line import python

import oodbench
from oodbench.cli import main
from oodbench.results.folder import read_folder
from oodbench.results.stored import read_scores


def numbers(folder):
    return {
        str(r.path.relative_to(folder)): (r.metrics, r.weights, r.key, read_scores(r)["id"].scores.tolist())
        for r in read_folder(folder)[0]
    }


def test_the_three_lines_of_the_docstring_do_what_the_command_line_does(results, tmp_path, monkeypatch, capsys):
    lines = [line for line in oodbench.__doc__.splitlines()[1:] if line.strip()]
    assert len(lines) == 3
    monkeypatch.chdir(tmp_path)
    tree = ast.parse("\n".join(lines))
    (call,) = (n for n in ast.walk(tree) if isinstance(n, ast.Call) and ast.unparse(n.func) == "oodbench.run")
    call.keywords.append(ast.keyword("preset", ast.Constant("smoke")))
    variables: dict = {}
    exec(compile(ast.fix_missing_locations(tree), "docstring", "exec"), variables)
    assert numbers(tmp_path / "results") == numbers(results)
    printed = capsys.readouterr()
    assert main(["table", str(results)]) == 0
    assert printed.out.strip() == capsys.readouterr().out.strip() and not printed.err
    assert {(r.method, r.setting) for r in variables["results"]} == {
        (method, setting) for method in ("msp", "knn") for setting in ("unseen-digits", "photo-patches")
    }


def test_a_notebook_shows_results_and_tables_and_they_have_other_forms(copied):
    found = oodbench.run("digits-c", "msp,knn", preset="smoke", results=copied)
    assert len(found) == 4 and found[0].method == "msp" and [r.seed for r in found[:2]] == [0, 0]
    assert (
        "<table>" in found._repr_html_()
        and repr(found) == "<ResultSet digits-c-smoke: 2 methods, 2 settings, 4 results>"
    )
    table = oodbench.table(copied, metrics=["auroc"])
    assert isinstance(table, str) and table.startswith("### digits-c-smoke")
    assert "<table>" in table._repr_html_() and r"\begin{tabular}" in table.latex()
    frame = table.frame()
    assert {"suite", "setting", "method", "name", "metric", "mean", "low", "high", "seeds", "mark", "note"} <= {*frame}
    (best,) = frame[(frame.setting == "unseen-digits") & (frame.mark == "best")].method
    by_mean = {r.method: r.metrics["auroc"] for r in found if r.setting == "unseen-digits"}
    assert best == max(by_mean, key=by_mean.get)


def test_a_figure_takes_the_results_first_and_for_one_version_the_name(copied):
    now = oodbench.figure(copied, "roc", setting="unseen-digits")
    with pytest.warns(DeprecationWarning, match=r"figure\(results, 'roc'\)"):
        before = oodbench.figure("roc", copied, setting="unseen-digits")
    assert len(now.axes) == len(before.axes)
    with pytest.raises(oodbench.UserError, match="give name="):
        oodbench.figure(copied)


def test_seed_0_is_a_seed(copied):
    (result,) = oodbench.run("digits-c", "msp", "unseen-digits", seeds=0, preset="smoke", results=copied)
    assert result.seed == 0
    assert oodbench.table(copied, seeds=0) == oodbench.table(copied, seeds=[0])


def test_errors_name_arguments_of_python_and_leave_commands_as_they_are(tmp_path):
    with pytest.raises(oodbench.UserError, match='seeds="0,1,2"'):
        oodbench.run("digits-c", "msp", seeds=[], results=tmp_path)
    with pytest.raises(oodbench.UserError, match="oodbench run --suite digits-c"):
        oodbench.table(tmp_path)


class Kernel:
    """What IPython offers in a notebook, as far as a bar needs it."""

    kernel = None

    def __init__(self):
        self.shown = []

    def get_ipython(self):
        return self

    def HTML(self, text):
        return text

    def display(self, shown, display_id):
        self.shown.append(shown)
        return self

    def update(self, shown):
        self.shown.append(shown)


def test_a_notebook_draws_how_far_a_run_is(tmp_path, monkeypatch, capsys):
    kernel = Kernel()
    monkeypatch.setitem(sys.modules, "IPython", kernel)
    monkeypatch.setitem(sys.modules, "IPython.display", kernel)
    oodbench.run("digits-c", "msp", preset="smoke", results=tmp_path)
    assert kernel.shown[0] == '<progress value="0" max="2"></progress> 0 of 2 cells'
    assert kernel.shown[-1] == '<progress value="2" max="2"></progress> 2 of 2 cells'
    assert capsys.readouterr() == ("", "")


def test_what_is_done_is_returned_and_not_done_again(copied, capsys):
    before = {path: path.stat().st_mtime_ns for path in copied.rglob("*") if path.is_file()}
    found = oodbench.run("digits-c", ["knn", "msp"], preset="smoke", results=copied)
    assert [(r.method, r.setting) for r in found] == [
        ("knn", "unseen-digits"), ("knn", "photo-patches"), ("msp", "unseen-digits"), ("msp", "photo-patches")
    ]  # fmt: skip
    assert sorted(found, key=lambda r: r.path) == oodbench.read_results(copied)
    assert {path: path.stat().st_mtime_ns for path in copied.rglob("*") if path.is_file()} == before
    assert capsys.readouterr() == ("", "")


def test_force_runs_again_to_the_same_numbers(copied):
    (path,) = copied.glob("*/unseen-digits/msp/seed0-*.json")
    before, stamp = numbers(copied), path.stat().st_mtime_ns
    (again,) = oodbench.run("digits-c", "msp", ["unseen-digits"], preset="smoke", results=str(copied), force=True)
    assert path.stat().st_mtime_ns > stamp and again.path == path
    assert numbers(copied) == before


def test_settings_seeds_hyperparameters_and_weights_are_those_of_the_command_line(results, tmp_path, capsys):
    (weights,) = (results / "weights").glob("*.pt")
    found = oodbench.run(
        "digits-c",
        "knn",
        settings=["photo-patches,covariate=blur,severity=5"],
        seeds=(3, 4),
        set=["knn.k=7", "recipe.epochs=1"],
        device="cpu",
        results=tmp_path / "api",
        init=weights,
    )
    arguments = ["--setting", "photo-patches,covariate=blur,severity=5", "--seeds", "3,4", "--set", "knn.k=7"]
    arguments += ["--set", "recipe.epochs=1", "--device", "cpu", "--init", str(weights)]
    assert main(["run", "--suite", "digits-c", "--methods", "knn", *arguments, "--results", str(tmp_path / "cli")]) == 0
    assert numbers(tmp_path / "api") == numbers(tmp_path / "cli")
    assert [(r.seed, r.method, r.setting) for r in found] == [
        (seed, "knn,k=7", "photo-patches,covariate=blur,severity=5") for seed in (3, 4)
    ]


PLUGIN = '''
"""A scorer of one's own."""
from dataclasses import dataclass
import oodbench


@dataclass
class Largest(oodbench.Scorer):
    """The largest logit, negated."""

    scale: float = 1.0

    def score(self, out: oodbench.Outputs):
        return -self.scale * out.logits.amax(dim=-1)
'''


def test_a_plugin_is_a_method_and_its_code_decides_what_is_done(copied, tmp_path):
    plugin = tmp_path / "largest.py"
    plugin.write_text(PLUGIN)

    def run(**options):
        given = dict(preset="smoke", settings=["unseen-digits"], results=copied, plugins=[plugin], **options)
        (result,) = oodbench.run("digits-c", "largest", **given)
        return result

    first = run()
    assert first.status == "ok" and first.method == "largest" and first.config.method.scorer.values == {"scale": 1.0}
    assert run() == first
    assert run(set=["largest.scale=2"]).method == "largest,scale=2"
    plugin.write_text(PLUGIN.replace("negated.", "negated: a comment does not count."))
    assert run() == first
    plugin.write_text(PLUGIN.replace("-self.scale", "self.scale"))
    turned = run()
    assert turned.key != first.key
    assert turned.metrics["auroc"] == pytest.approx(1 - first.metrics["auroc"])


def test_the_table_is_the_commands_in_every_format(results, capsys):
    for format in ("markdown", "latex", "csv", "json"):
        assert main(["table", str(results), "--format", format, "--metrics", "auroc,id_acc", "--seeds", "1"]) == 0
        assert oodbench.table(results, format, ["auroc", "id_acc"], seeds=1) == capsys.readouterr().out


def test_a_layout_of_the_paper_is_the_commands_with_what_is_reported(capsys):
    committed = Path(__file__).parent.parent / "results" / "reference" / "mnist-c"
    assert main(["table", str(committed), "--layout", "mnist", "--with", "reported"]) == 0
    table = oodbench.table(committed, layout="mnist", reported=True)
    assert table == capsys.readouterr().out
    assert "*reported*" in table and "*reported*" not in oodbench.table(committed, layout="mnist")
    with pytest.raises(oodbench.UserError, match="a layout has its own metrics"):
        oodbench.table(committed, metrics=["auroc"], layout="mnist")


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda folder: oodbench.run("digits", results=folder), "unknown suite 'digits'; did you mean 'digits-c'?"),
        (lambda folder: oodbench.run("digits-c", "mps", results=folder), "unknown method 'mps'; did you mean 'msp'"),
        (lambda folder: oodbench.run("digits-c", "msp", seeds=[], results=folder), "no seed given"),
        (
            lambda folder: oodbench.run("digits-c", "msp", device="gpu", results=folder),
            "the device 'gpu' cannot be used",
        ),
        (lambda folder: oodbench.run("digits-c", "msp", plugins=["no.py"], results=folder), "there is no plugin file"),
        (lambda folder: oodbench.run("digits-c", "msp", init="no.pt", results=folder), "cannot read 'no.pt'"),
        (lambda folder: oodbench.read_results(folder / "no"), "there is no results folder"),
        (lambda folder: oodbench.frame(folder / "no"), "there is no results folder"),
        (lambda folder: oodbench.table(folder), "no results to show"),
        (lambda folder: oodbench.table(folder, "pdf"), "no results to show|unknown format"),
    ],
)
def test_what_the_user_can_put_right_is_a_user_error(call, message, tmp_path):
    with pytest.raises(oodbench.UserError, match=message.replace("?", r"\?")):
        call(tmp_path)
    assert not list(tmp_path.rglob("*.json"))


def test_everything_public_is_there_and_nothing_else():
    for name in oodbench.__all__:
        assert getattr(oodbench, name) is not None
    assert {"run", "table", "read_results", "Trainer", "Scorer", "UserError"} <= set(oodbench.__all__)
    with pytest.raises(AttributeError, match="module 'oodbench' has no attribute 'rum'"):
        oodbench.rum  # noqa: B018


def test_completion_offers_exactly_what_is_public():
    assert dir(oodbench) == sorted(oodbench.__all__)
    code = "import sys, oodbench; dir(oodbench); assert not {'torch', 'numpy', 'pandas'} & {*sys.modules}"
    assert python("-c", code) == (0, "", "")


def test_type_checkers_are_told_that_the_package_is_typed():
    assert (Path(oodbench.__file__).parent / "py.typed").read_text() == ""


def test_what_is_public_is_written_down():
    for name in set(oodbench.__all__) - {"__version__"}:
        assert getattr(oodbench, name).__doc__, name


def test_type_checkers_see_exactly_what_is_public():
    tree = ast.parse(Path(oodbench.__file__).read_text())
    imported = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    seen = {alias.asname: node.module for node in imported for alias in node.names if alias.asname}
    assert seen == oodbench._PUBLIC


def test_functional_is_all_of_functional():
    from oodbench import functional
    from oodbench.learning import (
        bank,
        class_queues,
        constraints,
        gradients,
        label_oracle,
        outputs,
        prototypes,
        rows,
        wild_detection,
    )
    from oodbench.learning import functional as ours

    defined = {name for name, value in vars(ours).items() if getattr(value, "__module__", "") == ours.__name__}
    assert {name for name in defined if not name.startswith("_")} <= set(functional.__all__)
    homes = (ours, constraints, outputs, bank, class_queues, gradients, prototypes, rows, wild_detection, label_oracle)
    for name in functional.__all__:
        home = next(each for each in homes if hasattr(each, name))
        assert getattr(functional, name) is getattr(home, name)
