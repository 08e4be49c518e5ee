"""Figures: what they show against numbers worked by hand, labels that can be read, files that can be repeated."""

import math
import re
import shutil
from dataclasses import replace
from pathlib import Path

import matplotlib
import numpy as np
import pytest
from command_line import assert_done, assert_refused, oodbench, plot, python, smoke
from made_results import a_result
from PIL import Image
from result_files import change

from oodbench.api import network_of
from oodbench.config import suite as suites
from oodbench.report import figures
from oodbench.report.figures import energies, features, style
from oodbench.report.figures import margin as margin_figure
from oodbench.report.figures.studies import Asked, NotDrawn, Study, beside_each_other, studies
from oodbench.report.figures.tradeoff import crowded, pareto_front
from oodbench.results import metrics
from oodbench.results.folder import read_folder
from oodbench.results.stored import read_scores

DETECTION, WILD = "OOD detection", "Learning with wild data"
PAIR = ("woods", "scone")
CONTENTS = replace(suites.load("cifar10-c").contents, settings=[suites.Column("svhn")])


def result(method="msp", seed=0, setting="svhn", group=DETECTION, pi_c=0.5, margin=None, **fields):
    values = {"covariate_acc": 0.5, "id_acc": 0.5, "fpr95": 0.5, "auroc": 0.5}
    values |= {name: fields.pop(name) for name in list(fields) if name in values}
    made = {
        "setting": {"semantic": setting.partition(",")[0], "pi_c": pi_c}, "group": group, "contents": CONTENTS,
        "values": {} if margin is None else {"margin": margin},
        "changed": {"margin": margin} if ",margin=" in method else {},
    }  # fmt: skip
    return a_result("cifar", method, setting, seed, made=made, **{"metrics": values, **fields})


def drawn(name, found, methods=(), setting=0):
    return figures.draw(name, studies(found, [])[setting], methods, PAIR, networks=network_of)


def curve(axes, label):
    """Positions and heights of the line that a legend calls so."""
    handles, labels = axes.get_legend_handles_labels()
    line = handles[labels.index(label)].lines[0]
    return line.get_xdata().tolist(), pytest.approx(line.get_ydata().tolist())


def markers(drawing):
    """Of a trade-off: the points of every group."""
    axes = drawing.figure.axes[0]
    return {line.get_label(): line.get_xydata().tolist() for line in axes.lines if line.get_label() in style.GROUPS}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Of runs of a second: three methods, margins one by one and chosen among, two ratios, two shifts, two sets."""
    home = tmp_path_factory.mktemp("plots") / "res"
    assert_done(smoke(home, "msp,woods,scone", "--setting", "unseen-digits"))
    assert_done(smoke(home, "msp", "--setting", "photo-patches"))
    for margin in ("0", "-2", "auto"):
        assert_done(smoke(home, "scone", "--set", f"scone.margin={margin}", "--setting", "unseen-digits"))
    assert_done(smoke(home, "woods", "--setting", "unseen-digits,pi_c=0.1"))
    assert_done(smoke(home, "woods", "--setting", "unseen-digits,covariate=blur"))
    return home


@pytest.fixture
def copy(folder, tmp_path):
    """To be spoilt."""
    shutil.copytree(folder, tmp_path / "res")
    return tmp_path / "res"


def runs(folder, method="scone"):
    return sorted((folder / "digits-c-smoke" / "unseen-digits" / method).glob("*.json"))


def test_the_trade_off_shows_means_over_seeds_in_percent():
    found = [result("msp", s, covariate_acc=a, fpr95=f) for s, (a, f) in enumerate([(0.74, 0.42), (0.76, 0.38)])]
    found += [result("scone", 0, group=WILD, covariate_acc=0.9, fpr95=0.1)]
    drawing = drawn("tradeoff", found)
    assert markers(drawing) == {DETECTION: [[pytest.approx(40), pytest.approx(75)]], WILD: [[10, 90]]}
    # Standard error of 0.74 and 0.76: deviations of 1 %, variance 2, 2 / 2 = 1. Of 0.42 and 0.38: 2 %. t(1) = 12.7062.
    bars = [bar.get_segments() for bar in drawing.figure.axes[0].collections]
    wide, high = 2 * 12.7062, 12.7062
    assert np.allclose(bars[0][0], [[40 - wide, 75], [40 + wide, 75]])
    assert np.allclose(bars[1][0], [[40, 75 - high], [40, 75 + high]])
    axes = drawing.figure.axes[0]
    assert axes.get_xlabel() == "FPR ↓ (%)" and axes.get_ylabel() == "OOD accuracy ↑ (%)"
    assert drawing.figure.get_suptitle() == ""
    titled = figures.draw("tradeoff", studies(found, [])[0], is_titled=True).figure.get_suptitle()
    assert " ".join(titled.split()) == "cifar, SVHN, Gaussian noise of severity 1: mean over 2 seeds; SCONE: 1"


def test_labels_of_a_crowd_overlap_neither_each_other_nor_any_marker():
    rng = np.random.default_rng(0)
    crowd = [
        result(f"method-{i:02}", covariate_acc=a, fpr95=f) for i, (a, f) in enumerate(rng.normal(0.5, 0.02, (14, 2)))
    ]
    crowd += [result("far-away", covariate_acc=0.1, fpr95=0.9), result("twin", covariate_acc=0.1, fpr95=0.9)]
    for width in (3.25, 6.75):
        figure = figures.draw("tradeoff", studies(crowd, [])[0], width=width).figure
        renderer = figure.canvas.get_renderer()
        panels = [{t.get_text(): t.get_window_extent(renderer) for t in axes.texts} for axes in figure.axes]
        assert set(panels[0]) == {"far-away, twin"} and set(panels[1]) == {f"method-{i:02}" for i in range(14)}
        for axes, texts in zip(figure.axes, panels, strict=True):
            inside = axes.get_window_extent(renderer)
            (points,) = [line.get_xydata() for line in axes.lines if line.get_label() == DETECTION]
            for name, box in texts.items():
                assert [other for other, b in texts.items() if other != name and box.overlaps(b)] == []
                assert inside.x0 <= box.x0 and box.x1 <= inside.x1 and inside.y0 <= box.y0 and box.y1 <= inside.y1
                assert box.count_contains(axes.transData.transform(points)) == 0, name


def test_a_crowd_is_enlarged_and_an_even_spread_is_not():
    crowd = [(float(x), 95 + x / 50) for x in range(0, 50, 5)]
    assert crowded([*crowd, (1.0, 60.0), (2.0, 78.0)]) == ((0.0, 45.0), (95.0, 95.9))
    assert crowded(crowd) is None
    assert crowded([(0.0, 50.0), (1.0, 90.0)]) is None


def test_the_front_is_what_no_other_point_beats_in_both():
    points = [(10.0, 50.0), (20.0, 70.0), (15.0, 40.0), (20.0, 60.0), (30.0, 70.0), (30.0, 80.0)]
    assert pareto_front(points) == [(10.0, 50.0), (20.0, 70.0), (30.0, 80.0)]


def test_scorers_of_one_network_are_no_trade_off():
    found = [result(name, fpr95=fpr95) for name, fpr95 in (("msp", 0.1), ("knn", 0.2), ("vim", 0.3))]
    with pytest.raises(NotDrawn, match="all 3 methods score the same networks and share one accuracy; ranks shows"):
        drawn("tradeoff", found)


def test_scorers_are_one_group_of_the_figure_whatever_they_read():
    found = [result(name, fpr95=fpr95) for name, fpr95 in (("msp", 0.1), ("knn", 0.2), ("vim", 0.3))]
    found.append(result("scone", group=WILD, covariate_acc=0.6))
    assert sorted(markers(drawn("tradeoff", found))[DETECTION]) == [[10, 50], [20, 50], [30, 50]]


def test_methods_of_two_groups_at_one_point_share_a_label():
    found = [result("energy"), result("erm", group="OOD generalization"), result("scone", group=WILD, fpr95=0.1)]
    found[2] = replace(found[2], metrics={**found[2].metrics, "covariate_acc": 0.7})
    assert {t.get_text() for t in drawn("tradeoff", found).figure.axes[0].texts} == {"Energy, ERM", "SCONE"}


def test_the_groups_differ_without_colour():
    assert len({marker for _, marker, _ in style.GROUPS.values()}) == len(style.GROUPS)
    looks = [style[1:] for style in style.SPLITS.values()]
    assert all(len({look[i] for look in looks}) == len(looks) for i in range(3))
    assert all(len({style[i] for style in style.LINES}) == len(style.LINES) for i in (1, 2))


def test_only_the_configuration_run_last_counts_and_failed_runs_do_not():
    old = result("msp", 0, covariate_acc=0.1, fpr95=0.1, variant="old", written="2026-07-01T12:00:00")
    new = result("msp", 0, covariate_acc=0.6, fpr95=0.2, variant="new")
    failed = result("msp", 1, variant="new", status="failed", error="diverged", metrics={})
    drawing = drawn("tradeoff", [old, new, failed, result("scone", group=WILD)])
    assert markers(drawing)[DETECTION] == [[20, 60]]
    assert {(r.method, r.seed, r.variant) for r in drawing.sources} == {("msp", 0, "new"), ("scone", 0, "v")}


def test_variants_of_a_method_that_is_there_are_left_out_and_told():
    found = [result("scone", covariate_acc=0.6), result("scone,margin=-1"), result("knn,k=5"), result("msp")]
    drawing = drawn("tradeoff", found)
    assert {r.method for r in drawing.sources} == {"scone", "knn,k=5", "msp"}
    assert "These variants are left out: scone,margin=-1." in drawing.caption
    assert drawing.remarks == ["leaves out 1 variants, which the caption lists; --methods chooses what to show"]
    chosen = drawn("tradeoff", found, methods=["scone", "scone,margin=-1"])
    assert {r.method for r in chosen.sources} == {"scone", "scone,margin=-1"} and not chosen.remarks


def test_a_name_that_looks_like_mathematics_is_drawn_as_it_stands():
    drawing = drawn("tradeoff", [result(r"$\broken{$", covariate_acc=0.4), result("msp")])
    assert style.encode(drawing, None, ["png"])["png"].startswith(b"\x89PNG")
    assert r"$\broken{$" in [text.get_text() for text in drawing.figure.axes[0].texts]


def test_the_ratio_is_taken_from_the_setting_and_a_sweep_is_one_study():
    found = [result("scone", s, "svhn", pi_c=0.5, covariate_acc=a) for s, a in enumerate([0.7, 0.9])]
    found += [result("scone", 0, "svhn,pi_c=0.1", pi_c=0.1, covariate_acc=0.6), result("msp", 0, "svhn")]
    found += [result("scone", 0, "lsun", pi_c=0.5)]
    assert [study.setting for study in studies(found, [])] == ["svhn", "lsun"]
    assert [study.setting for study in studies(found, ["svhn,pi_c=0.1"])] == ["svhn,pi_c=0.1"]
    drawing = drawn("ratio", found, setting=0)
    assert curve(drawing.figure.axes[0], "SCONE") == ([0.1, 0.5], [60, 80])
    assert {r.method for r in drawing.sources} == {"scone"}
    with pytest.raises(
        NotDrawn, match="needs a method with two values of pi_c; run it with each one: --setting SETTING,pi_c=VALUE"
    ):
        drawn("ratio", found, setting=1)


def test_the_margin_falls_from_left_to_right_with_the_choice_that_was_noted():
    found = [
        result(f"scone,margin={m:g}" if m != -10 else "scone", margin=m, covariate_acc=a, fpr95=f, weights="gone")
        for m, a, f in ((-10.0, 0.9, 0.0), (0.0, 0.5, 0.5), (-2.0, 0.6, 0.2))
    ]
    shares = [{"margin": 0.0, "share": 0.5}, {"margin": -2.0, "share": 0.45}, {"margin": -10.0, "share": 0.2}]
    found.append(result("scone,margin=auto", margin="auto", notes={"margin": -10.0, "out_share": shares}))
    drawing = drawn("margin", found)
    above, fpr, below = drawing.figure.axes
    assert curve(above, "OOD accuracy") == ([0, 1, 2], [50, 60, 90])
    assert curve(fpr, "FPR") == ([0, 1, 2], [50, 20, 0.005]) and fpr.get_yscale() == "log"  # 0 at its floor
    assert "0 is drawn at half an image (0.005 %)" in drawing.caption
    assert curve(below, "out%") == ([0, 1, 2], [50, 45, 20])
    assert [label.get_text() for label in below.get_xticklabels()] == ["0", "−2", "−10"]
    assert [text.get_text() for text in below.texts] == ["chosen"] and below.texts[0].xy[0] == 2
    assert drawing.caption.startswith("SCONE against the margin on cifar, SVHN, Gaussian noise of severity 1.")
    assert "as recorded by the runs that chose" in drawing.caption and "are −10 (dashed" in drawing.caption
    assert "One seed." in drawing.caption
    again = result("scone", margin=-10.0, seed=1, covariate_acc=0.9, weights="gone")
    assert "One seed; η = −10: 2." in drawn("margin", [*found, again]).caption
    with pytest.raises(NotDrawn, match="needs a method with two margins"):
        drawn("margin", found[:1])


def test_a_sweep_of_margins_differs_in_nothing_else():
    found = [result(f"scone,margin={m:g}", margin=m) for m in (0.0, -1.0, -2.0)]
    method = found[0].config.method
    trainer = replace(method.trainer, values={"margin": -3.0, "lr": 0.5}, changed={"margin": -3.0, "lr": 0.5})
    config = replace(found[0].config, method=replace(method, trainer=trainer))
    found.append(replace(found[0], method="scone,lr=0.5,margin=-3", config=config))
    drawing = drawn("margin", found)
    assert [label.get_text() for label in drawing.figure.axes[0].get_xticklabels()] == ["0", "−1", "−2"]
    with pytest.raises(NotDrawn, match="needs a method with two margins"):
        drawn("margin", found, methods=["scone,lr=0.5"])
    assert drawn("margin", found, methods=["scone"]).sources == drawing.sources


def test_out_share_computed_again_is_what_the_selection_noted(folder):
    """The two ways to one curve, for the margins that both trained."""
    found, _ = read_folder(folder)
    study = next(s for s in studies(found, []) if s.setting == "unseen-digits")
    sweep = margin_figure._longest_sweep(study, [])
    assert sweep.method == "scone" and list(sweep.runs) == [0.0, -2.0, -10.0]
    (noted,) = margin_figure._recorded_choices(sweep.automatic)
    (repeated,) = margin_figure._recomputed_choices(sweep.runs, network_of)
    assert repeated.shares == {m: noted.shares[m] for m in (0.0, -2.0, -10.0)}
    drawing = drawn("margin", [r for r in found if r.method != "scone,margin=auto"], setting=0)
    assert "recomputed from the stored weights" in drawing.caption and not drawing.remarks


def test_the_energies_are_those_beside_the_results(folder):
    found, _ = read_folder(folder)
    drawing = drawn("energies", [r for r in found if r.setting == "unseen-digits"])
    assert [axes.get_title() for axes in drawing.figure.axes] == ["WOODS", "SCONE"]
    for axes, of_panel in zip(drawing.figure.axes, drawing.sources, strict=True):
        scores = read_scores(of_panel)
        outlines = [patch.get_data() for patch in axes.patches if not patch.get_fill()]
        for split, outline in zip(("semantic", "covariate", "id"), outlines, strict=True):
            heights = outline.values - outline.baseline
            assert math.isclose(heights.max(), energies.PEAK)  # of every split, however narrow another one is
            middle = (outline.edges[:-1] + outline.edges[1:]) / 2
            width = outline.edges[1] - outline.edges[0]
            mean = np.clip(scores[split].scores, outline.edges[0], outline.edges[-1]).mean()
            assert abs((middle * heights).sum() / heights.sum() - mean) < width
        threshold = axes.lines[0].get_xdata()[0]
        flagged = {split: np.mean(each.scores >= threshold) for split, each in scores.items()}
        assert abs(flagged["id"] - 0.05) < 0.01
        missed = metrics.fpr95(scores["id"].scores, scores["semantic"].scores)
        assert math.isclose(1 - flagged["semantic"], missed)
        said = [f"{100 * flagged[split]:.1f} % flagged" for split in ("semantic", "covariate", "id")]
        assert [text.get_text() for text in axes.texts] == said
        assert axes.get_xlabel() == "Energy (OOD →)"


def test_methods_beside_each_other_share_the_seed():
    found = [result(method, seed) for method in PAIR for seed in ((0, 1, 2) if method == "woods" else (1, 2))]
    study = studies(found, [])[0]
    assert [(r.method, r.seed) for r in beside_each_other(study, Asked((), PAIR))] == [("woods", 1), ("scone", 1)]
    with pytest.raises(NotDrawn, match="have no seed in common; run them with the same --seeds"):
        beside_each_other(studies([found[0], found[-1]], [])[0], Asked((), PAIR))
    with pytest.raises(NotDrawn, match="no run of knn succeeded; run some, or name other methods"):
        beside_each_other(study, Asked(["knn"], PAIR))
    others = [result(name) for name in ("knn", "msp", "vim")]
    assert [r.method for r in beside_each_other(studies(others, [])[0], Asked((), PAIR))] == ["msp", "vim"]


def test_one_command_draws_all_and_repeated_gives_the_same_bytes(folder, tmp_path, monkeypatch):
    monkeypatch.setattr(features, "FEATURE_ROWS", 25)
    out = assert_done(plot(folder, "--out", tmp_path / "a", "--setting", "unseen-digits"))
    home = tmp_path / "a" / "digits-c-smoke" / "unseen-digits"
    drawn = [name for name in figures.FIGURES if name != "paths"]  # of which no run here measured one
    *lines, reason = out.splitlines()
    assert [line.split(";")[0] for line in lines] == [f"{home / n}.png, .pdf, .txt" for n in drawn]
    assert "no paths: needs a method with a path" in reason
    with matplotlib.rc_context({"axes.facecolor": "yellow", "xtick.labelsize": 20}):  # a user's own taste
        assert_done(plot(folder, "--out", tmp_path / "b", "--setting", "unseen-digits"))
    files = sorted(path.relative_to(tmp_path / "a") for path in (tmp_path / "a").rglob("*.*"))
    assert len(files) == 3 * len(drawn)
    assert [f for f in files if (tmp_path / "a" / f).read_bytes() != (tmp_path / "b" / f).read_bytes()] == []
    for name in drawn:
        with Image.open(home / f"{name}.png") as image:
            assert image.width > 700 and len(image.convert("L").getcolors()) > 20
        pdf = (home / f"{name}.pdf").read_bytes()
        assert pdf.startswith(b"%PDF") and b"/FontFile2" in pdf and b"/CreationDate" not in pdf
    caption, sources = (home / "energies.txt").read_text().split("\n\nMade from:\n")
    assert "Digits-C (preset smoke), unseen digits, Gaussian noise of severity 3, seed 0" in " ".join(caption.split())
    named = [line.strip() for line in sources.splitlines()]
    assert named == [path.relative_to(folder).as_posix() for m in ("scone", "woods") for path in runs(folder, m)]


def test_without_weights_the_other_figures_are_written_and_it_says_which_are_missing(copy):
    shutil.rmtree(copy / "weights")
    shutil.rmtree(copy / "digits-c-smoke" / "unseen-digits" / "scone,margin=auto")
    out = assert_done(plot(copy, "--only", "energies,features,margin", "--setting", "unseen-digits"))
    lost = f"the weights of 'woods', seed 0, are not in '{copy / 'weights'}'; train them again with --force"
    again = "oodbench run --suite digits-c --preset smoke --methods woods --setting unseen-digits --seeds 0"
    assert (
        out.splitlines()[-1] == f"digits-c-smoke / unseen-digits: no features: {lost}: {again} --results {copy} --force"
    )
    assert "margin.png, .pdf, .txt; without out%: the weights of 'scone,margin=0', seed 0, are not in" in out
    names = {path.name for path in (copy / "figures").rglob("*.png")}
    assert names == {"energies.png", "margin.png"}


def test_missing_data_is_named(copy, monkeypatch):
    for path in runs(copy) + runs(copy, "woods"):
        change(path, lambda values: values["config"]["suite"]["semantic"]["unseen-digits"].update(dataset="cifar10"))
    monkeypatch.setenv("OODBENCH_DATA", str(copy / "nothing"))
    monkeypatch.setenv("HOME", str(copy / "nobody"))
    outcome = plot(copy, "--only", "features", "--setting", "unseen-digits")
    assert_refused(outcome, "no features: needs the images again: ", "cifar10")


def test_data_that_changed_since_is_noticed(copy):
    for path in runs(copy, "woods"):
        change(path, lambda values: values["data"]["parts"]["semantic"].update(digest="other"))
    outcome = plot(copy, "--only", "features", "--setting", "unseen-digits")
    assert_refused(
        outcome, "the split 'semantic' differs from the one of", runs(copy, "woods")[0], "run again with --force"
    )


def test_damaged_scores_are_named(copy):
    scores = runs(copy, "woods")[0].with_suffix(".safetensors")
    scores.write_bytes(scores.read_bytes()[:100])
    outcome = plot(copy, "--only", "energies", "--setting", "unseen-digits")
    assert_refused(outcome, f"the raw scores '{scores}' cannot be read: damaged: ", "; run again with --force")
    scores.unlink()
    outcome = plot(copy, "--only", "energies", "--setting", "unseen-digits")
    assert_refused(outcome, f"the raw scores '{scores}' are missing; run again with --force")


def test_wrong_words_are_refused_in_one_line(folder, tmp_path):
    assert_refused(plot(folder, "--only", "trade"), "unknown figure 'trade'; did you mean 'tradeoff'?")
    assert_refused(plot(folder, "--only", ","), "--only names no figure; choose from: tradeoff, ranks, roc, energies")
    assert_refused(plot(folder, "--methods", "scoen"), "unknown method of these results 'scoen'", "'scone'")
    assert_refused(plot(folder, "--setting", "unseen"), "unknown setting of these results 'unseen'")
    assert_refused(plot(tmp_path / "none"), "there is no results folder")
    assert_refused(plot(tmp_path), "no results in", "oodbench run --suite digits-c")
    assert_refused(plot(folder, "--only", "ratio", "--setting", "photo-patches"), "nothing to draw in")
    (tmp_path / "file").write_text("")
    given = (folder, "--only", "tradeoff", "--out", tmp_path / "file")
    assert_refused(plot(*given), "cannot write", "choose another folder")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file"]


def test_a_method_with_values_is_one_name(folder, tmp_path):
    given = ("--only", "energies", "--methods", "scone,margin=-2,msp", "--setting", "unseen-digits")
    assert_done(plot(folder, "--out", tmp_path, *given))
    sources = (tmp_path / "digits-c-smoke" / "unseen-digits" / "energies.txt").read_text().split("Made from:\n")[1]
    assert re.findall(r"unseen-digits/(.+)/seed", sources) == ["msp", "scone,margin=-2"]


def test_a_setting_that_reads_like_a_path_stays_below_the_folder():
    study = Study("..", "../../etc/x", [], [])
    assert study.folder.parts == ("_.", "_._.._etc_x")


def test_every_figure_is_a_module_and_the_command_line_describes_it():
    modules = {path.stem: path.read_text() for path in Path(figures.__file__).parent.glob("[!_]*.py")}
    assert set(figures.FIGURES) == {name for name, text in modules.items() if "\ndef draw(" in text}
    help = " ".join(assert_done(oodbench("plot", "--help")).split())
    assert all(f"{name}: {what}" in help for name, what in figures.FIGURES.items())


def test_the_command_line_waits_for_matplotlib_and_figures_for_torch():
    code = "import sys; from oodbench.cli import plot; assert not {'torch', 'matplotlib'} & {*sys.modules}"
    assert python("-c", code) == (0, "", "")
    modules = ", ".join(f"oodbench.report.figures.{name}" for name in figures.FIGURES)
    code = f"import sys, {modules}; assert not {{'torch', 'matplotlib.pyplot'}} & {{*sys.modules}}"
    assert python("-c", code) == (0, "", "")


def test_a_margin_that_is_a_multiple_is_no_point_of_a_sweep():
    found = [result(f"scone,margin={m}", margin=m) for m in (0.0, -1.0)] + [result("scone,margin=0.9x", margin="0.9x")]
    assert [label.get_text() for label in drawn("margin", found).figure.axes[0].get_xticklabels()] == ["0", "−1"]
    with pytest.raises(NotDrawn, match="needs a method with two margins"):
        drawn("margin", found[2:])
