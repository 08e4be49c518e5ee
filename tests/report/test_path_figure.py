"""What the figure of paths shows, against numbers worked by hand."""

from dataclasses import replace

import pytest
from made_results import a_result

from oodbench.report import figures
from oodbench.report.figures.studies import NotDrawn, studies
from oodbench.results.result import ComponentRun, PathPoint


def point(step, fpr, accuracy, flagged):
    return PathPoint(step, {"fpr95": fpr, "covariate_acc": accuracy, "covariate_flagged": flagged})


def a_path(method, seed=0, *points, starts_from=("erm",)):
    made = a_result(method=method, seed=seed, training_path=[point(*each) for each in points])
    parents = [ComponentRun(name, name, f"{name}@1", {}) for name in starts_from]
    method = replace(made.config.method, starts_from=parents)
    return replace(made, config=replace(made.config, method=method))


ERM = a_result(method="erm", metrics={"fpr95": 0.4, "covariate_acc": 0.75, "covariate_flagged": 0.33})
SCONE = [
    a_path("scone", 0, (0, 0.40, 0.75, 0.30), (50, 0.30, 0.80, 0.25), (100, 0.20, 0.70, 0.50)),
    a_path("scone", 1, (0, 0.50, 0.77, 0.40), (50, 0.40, 0.82, 0.35), (100, 0.30, 0.72, 0.60)),
]


def lines(axes):
    return {line.get_label(): [list(map(float, values)) for values in line.get_data()] for line in axes.lines}


def drawn(found, **given):
    return figures.draw("paths", studies(found, [])[0], **given)


def test_a_path_is_the_mean_over_seeds_and_erm_is_a_point():
    drawing = drawn([ERM, *SCONE])
    first, second = drawing.figure.axes
    fpr, accuracy = lines(first)["SCONE"]
    assert fpr == pytest.approx([45, 35, 25]) and accuracy == pytest.approx([76, 81, 71])
    steps, flagged = lines(second)["SCONE"]
    assert steps == [0, 50, 100] and flagged == pytest.approx([35, 30, 55])
    assert lines(first)["ERM"] == [pytest.approx([40]), pytest.approx([75])]
    assert lines(second)["ERM"] == [[0], pytest.approx([33])]
    assert "2 seeds" in drawing.caption and "ID validation images" in drawing.caption
    assert [r.key for r in drawing.sources] == ["scone-0", "scone-1", "erm-0"]


def test_a_training_from_scratch_is_drawn_if_it_is_named():
    mixup = a_path("mixup", 0, (0, 0.95, 0.1, 0.05), (10, 0.4, 0.7, 0.3), starts_from=())
    assert "Mixup" not in lines(drawn([ERM, *SCONE, mixup]).figure.axes[0])
    assert "Mixup" in lines(drawn([ERM, *SCONE, mixup], methods=["mixup"]).figure.axes[0])


def test_without_paths_it_says_how_to_measure_some():
    with pytest.raises(NotDrawn, match="--path"):
        drawn([ERM, a_result(method="scone")])
