"""Model selection: hand-worked records where the rules choose differently, what they lack, and how tables tell."""

from dataclasses import replace

import pytest
from command_line import assert_done, assert_refused, oodbench
from made_results import a_result, config

from oodbench.config import suite as suites
from oodbench.config.suite import Column, Defaults, Source
from oodbench.errors import UserError
from oodbench.report import layouts
from oodbench.report.render import render
from oodbench.report.tables import build
from oodbench.results import selection
from oodbench.results.ledger import Ledger
from oodbench.results.result import EpochAccuracies, Search
from oodbench.results.selection import LEAVE_ONE_OUT, ORACLE, TRAINING_DOMAIN, select
from oodbench.results.stored import write

DOMAINS = ("art", "cartoon", "photo")
SUITE = replace(
    suites.load("pacs").contents,
    id=Source("styles"),
    covariate={
        name: Source("styles", domains=name.split("+"))
        for name in (*DOMAINS, "art+cartoon", "art+photo", "cartoon+photo")
    },
    settings=[Column(covariate=name) for name in DOMAINS],
)


def accuracies(epoch, out, test):
    """`out` by domain in their order, `test` of those held out."""
    return EpochAccuracies(epoch, 10 * (epoch + 1), dict(zip(DOMAINS, out, strict=True)), test)


def run(held="art", epochs=(), seed=0, draw=0, method="erm", of="v", **fields):
    """A run of one epoch after the other: (validation accuracies of the three domains, test ones of those held out)."""
    names = held.split("+")
    recorded = [
        accuracies(i, out, dict(zip(names, test, strict=True))) for i, (out, test) in enumerate(epochs or [DULL(held)])
    ]
    last = recorded[-1].test
    setting = {"semantic": "none", "covariate": held}
    made = config(contents=SUITE, setting=setting, method=method, group="OOD generalization")
    made = replace(made, recipe=replace(made.recipe, lr=0.1 / (draw + 1)), search=Search(draw, of) if draw else None)
    stored = {
        "metrics": {"covariate_acc": sum(last.values()) / len(last), "id_acc": 0.123, "auroc": 0.9},
        "key": f"{held}-{method}-{seed}-{draw}", "variant": of if draw == 0 else f"{of}-{seed}-{draw}", "config": made,
        "domain_accuracies": recorded, "written": f"2026-08-01T12:00:{draw:02}",
    }  # fmt: skip
    return a_result("styles", method, f"covariate={held}", seed, **stored | fields)


def changed(result, **values):
    """With other values of its configuration."""
    return replace(result, config=replace(result.config, **values))


def DULL(held):
    return (0.5, 0.5, 0.5), (0.5,) * len(held.split("+"))


# Held out: art. Draw 0, epoch 0: cartoon and photo 0.90 and 0.80, mean 0.85, the best of all on training domains.
# Draw 1, epoch 1: art's own validation images 0.70, the best of the two last checkpoints.
# Draw 1, epoch 0: pairs say (0.60 + 0.80) / 2 = 0.70 against (0.50 + 0.40) / 2, (0.55 + 0.45) / 2 and (0.9 + 0.3) / 2.
SINGLES = [
    run(epochs=[((0.10, 0.90, 0.80), (0.11,)), ((0.60, 0.90, 0.70), (0.22,))]),
    run(epochs=[((0.90, 0.50, 0.60), (0.33,)), ((0.70, 0.80, 0.84), (0.44,))], draw=1),
]
PAIRS = [
    run("art+cartoon", [((0, 0, 0.5), (0.95, 0.50)), ((0, 0, 0.5), (0.95, 0.55))]),
    run("art+photo", [((0, 0.5, 0), (0.95, 0.40)), ((0, 0.5, 0), (0.95, 0.45))]),
    run("art+cartoon", [((0, 0, 0.5), (0.10, 0.60)), ((0, 0, 0.5), (0.10, 0.90))], draw=1),
    run("art+photo", [((0, 0.5, 0), (0.10, 0.80)), ((0, 0.5, 0), (0.10, 0.30))], draw=1),
]


def chosen(results, rule, **options):
    (measurement,) = measurements(results, rule, **options)
    return measurement


def measurements(results, rule=TRAINING_DOMAIN, **options):
    return [each for runs in select(Ledger(results), rule, **options).values() for each in runs.measurements]


@pytest.mark.parametrize(
    ("rule", "draw", "step", "test", "on_training"),
    [(TRAINING_DOMAIN, 0, 10, 0.11, 0.85), (ORACLE, 1, 20, 0.44, 0.82), (LEAVE_ONE_OUT, 1, 10, 0.33, 0.55)],
)
def test_the_three_rules_choose_as_worked_out_by_hand(rule, draw, step, test, on_training):
    result = chosen(SINGLES + PAIRS, rule)
    assert (result.choice.draw, result.choice.step) == (draw, step)
    assert result.metrics["covariate_acc"] == test
    assert result.metrics["id_acc"] == pytest.approx(on_training, abs=1e-12)


def test_what_is_known_at_the_end_alone_is_kept_only_with_the_last_checkpoint():
    assert "auroc" not in chosen(SINGLES, TRAINING_DOMAIN).metrics
    assert chosen(SINGLES, ORACLE).metrics["auroc"] == 0.9
    late = [run(epochs=[((0, 0.1, 0.1), (0.3,)), ((0, 0.2, 0.2), (0.4,))])]
    assert chosen(late, TRAINING_DOMAIN).metrics == {"covariate_acc": 0.4, "id_acc": 0.2, "auroc": 0.9}


def test_the_last_checkpoint_alone_is_considered_where_asked():
    # At the end draw 0 has (0.90 + 0.70) / 2 = 0.80 on its training domains, draw 1 (0.80 + 0.84) / 2 = 0.82.
    result = chosen(SINGLES, TRAINING_DOMAIN, last_only=True)
    assert (result.metrics["covariate_acc"], result.metrics["auroc"]) == (0.44, 0.9)


def test_every_domain_counts_the_same_whatever_its_size_and_the_held_out_one_never():
    even = run(epochs=[((0.99, 0.5, 0.7), (0.1,)), ((0.0, 0.9, 0.31), (0.2,))])
    assert chosen([even], TRAINING_DOMAIN).metrics["covariate_acc"] == 0.2


def test_of_equals_the_lowest_draw_and_the_earliest_checkpoint_are_chosen():
    same = [((0.5, 0.5, 0.5), (0.1,)), ((0.5, 0.5, 0.5), (0.2,))]
    runs = [run(epochs=same, draw=d) for d in (1, 0)]
    choices = [chosen(runs, rule).choice for rule in (TRAINING_DOMAIN, ORACLE)]
    assert [(each.draw, each.epoch) for each in choices] == [(0, 0), (0, 1)]


def test_each_seed_is_selected_for_itself():
    other = run(seed=1, epochs=[((0, 0.1, 0.1), (0.7,)), ((0, 0.9, 0.9), (0.8,))])
    assert [each.metrics["covariate_acc"] for each in measurements([*SINGLES, other])] == [0.11, 0.8]
    assert [runs.left_out for runs in select(Ledger([*SINGLES, other])).values()] == [0]


def test_a_missing_pair_leaves_the_cell_empty_and_says_which():
    without = [each for each in PAIRS if each.setting != "covariate=art+photo"]
    result = chosen(SINGLES + without, LEAVE_ONE_OUT)
    assert result.choice is None and result.metrics == {}
    assert result.problem == (
        "leave-one-domain-out needs runs that hold out art with photo; oodbench run --selection leave-one-domain-out"
    )
    (table,) = build(SINGLES + without, selection=LEAVE_ONE_OUT)
    assert table.settings == ["covariate=art"] and "needs runs that hold out art with photo" in render([table], "text")


def test_pairs_of_other_draws_or_hyperparameters_do_not_count():
    assert chosen(SINGLES[:1] + PAIRS[2:], LEAVE_ONE_OUT).problem is not None
    other = [changed(each, recipe=replace(each.config.recipe, lr=9.0)) for each in PAIRS]
    assert chosen(SINGLES + other, LEAVE_ONE_OUT).problem is not None
    assert chosen(SINGLES + [replace(each, method="irm") for each in PAIRS], LEAVE_ONE_OUT).problem is not None


def test_a_draw_without_its_pairs_is_passed_over_and_the_table_says_so():
    result = chosen(SINGLES + PAIRS[:2], LEAVE_ONE_OUT)
    assert (result.choice.draw, result.choice.passed_over) == (0, 1) and result.metrics["covariate_acc"] == 0.22
    (table,) = build(SINGLES + PAIRS[:2], selection=LEAVE_ONE_OUT)
    assert table.rows[0].cells[0].note == "model selection skipped draws that failed or lack pairs (seed 0)"


def test_a_failed_draw_is_passed_over_and_the_table_says_so():
    failed = replace(SINGLES[1], status="failed", error="no number", metrics={}, notes={})
    (table,) = build([SINGLES[0], failed])
    assert table.rows[0].cells[0].percent == "11.00"
    assert table.rows[0].cells[0].note == "model selection skipped draws that failed or lack pairs (seed 0)"
    alone = replace(SINGLES[0], status="failed", error="no number", metrics={}, notes={})
    assert chosen([alone, failed], TRAINING_DOMAIN).problem == "no number"


def test_runs_are_compared_at_the_same_epoch_though_a_pair_has_fewer_steps():
    def fewer(result):
        steps = [replace(each, step=each.step // 2) for each in result.domain_accuracies]
        return replace(result, domain_accuracies=steps)

    assert chosen(SINGLES + [fewer(each) for each in PAIRS], LEAVE_ONE_OUT).metrics["covariate_acc"] == 0.33


def test_pairs_have_no_column_unless_they_are_all_there_is():
    assert build(SINGLES + PAIRS)[0].settings == ["covariate=art"]
    failed = [replace(each, status="failed", error="oh", metrics={}, domain_accuracies=[]) for each in PAIRS]
    assert build(SINGLES + failed)[0].settings == ["covariate=art"]
    assert build(PAIRS)[0].settings == ["covariate=art+cartoon", "covariate=art+photo"]
    columns = [Column(covariate=name) for name in ("art", "art+cartoon")]
    listed = [changed(each, suite=replace(SUITE, settings=columns)) for each in PAIRS[:1]]
    assert build(SINGLES + listed)[0].settings == ["covariate=art", "covariate=art+cartoon"]


def test_of_several_families_the_one_run_last_is_selected_from_and_the_rest_counted():
    old = [run(of="old", draw=d, epochs=[((1, 1, 1), (0.99,))], written="2026-07-01") for d in range(3)]
    (table,) = build(old + SINGLES)
    assert table.rows[0].cells[0].percent == "11.00"
    assert table.rows[0].cells[0].note == "3 result files with another configuration left out"


def test_results_without_checkpoints_are_shown_as_they_are_of_a_search_the_first_draw():
    bare = [replace(r, domain_accuracies=[], metrics={"covariate_acc": 0.6 + r.draw / 10}) for r in SINGLES]
    assert chosen(bare, ORACLE).metrics == {"covariate_acc": 0.6}
    assert build(bare)[0].caption == "" and build(bare)[0].rows[0].cells[0].percent == "60.00"


def test_an_unknown_rule_is_answered_with_those_there_are():
    with pytest.raises(UserError, match="unknown selection 'oracel'; did you mean 'oracle'?"):
        select(Ledger(SINGLES), "oracel")


def everywhere(seed=0, base=0.6):
    return [run(name, [((0.5,) * 3, (base + i / 10,))], seed) for i, name in enumerate(DOMAINS)]


def test_a_table_of_held_out_domains_ends_with_their_average():
    # Seed 0: 0.6, 0.7, 0.8, mean 0.70. Seed 1: 0.62, 0.72, 0.82, mean 0.72. Mean 0.71, error 0.01, t(1) = 12.706.
    (table,) = build(everywhere() + everywhere(1, 0.62), ["covariate_acc"])
    assert table.settings == [*(f"covariate={name}" for name in DOMAINS), "Average"]
    assert [cell.percent for cell in table.rows[0].cells] == ["61.00", "71.00", "81.00", "71.00"]
    assert table.rows[0].cells[-1].margin_percent == "12.71"


def test_an_average_needs_every_domain():
    irm = run("art", method="irm")
    (table,) = build([*everywhere(), irm], ["covariate_acc"])
    assert [row.cells[-1].note for row in table.rows] == ["", "not run in every setting"]
    assert build(everywhere()[:1])[0].settings == ["covariate=art"]


def test_runs_with_a_semantic_set_have_a_table_of_their_own_which_shows_the_last_checkpoint():
    # The first of two checkpoints is best on the training domains; FPR is known at the last alone.
    accuracies = [((0.5, 0.9, 0.9), (0.6,)), ((0.5, 0.8, 0.8), (0.7,))]
    plain = run("art", accuracies)
    detecting = changed(plain, setting=replace(plain.config.setting, semantic="svhn"))
    detecting = replace(detecting, setting="svhn,covariate=art")
    detecting = replace(detecting, metrics={**detecting.metrics, "fpr95": 0.25})
    first, second = build([plain, detecting], ["covariate_acc", "fpr95"])
    assert (first.title, second.title) == ("styles", "styles: with a semantic set")
    assert [cell.percent for cell in first.rows[0].cells] == ["60.00", "–"]
    assert first.rows[0].cells[1].note == "FPR needs a semantic set, which this setting lacks"
    assert [cell.percent for cell in second.rows[0].cells] == ["70.00", "25.00"]
    assert second.caption.startswith("Model selection: the last checkpoint.") and "transductive" in second.caption
    assert "transductive" not in first.caption


@pytest.fixture
def folder(tmp_path):
    for i, result in enumerate(SINGLES + PAIRS):
        write(result, tmp_path / "styles" / result.setting / result.method / f"seed0-{i}.json", {}, [])
    return tmp_path


@pytest.mark.parametrize("format", ["text", "markdown", "latex"])
def test_the_caption_names_the_selection_and_the_draws(folder, format):
    told = {
        (): "Model selection: training-domain, the checkpoint that is best on validation images of the training",
        ("--selection", "oracle"): "Model selection: oracle, the last checkpoint; among several draws, the best on",
        (
            "--selection",
            LEAVE_ONE_OUT,
        ): "Model selection: leave-one-domain-out, the checkpoint that is best, on average,",
    }
    for options, sentence in told.items():
        text = assert_done(oodbench("table", folder, "--format", format, *options))
        assert sentence in text.replace("{", "").replace("}", "")
        assert "; among 2 draws of the hyperparameters." in text
    alone = build(SINGLES[:1])[0].caption
    assert alone.endswith("images of the training domains.") and "draws" not in alone


def test_the_command_line_selects_and_refuses(folder):
    shown = {rule: assert_done(oodbench("table", folder, "--selection", rule)) for rule in selection.RULES}
    assert ["11.00" in shown[TRAINING_DOMAIN], "44.00" in shown[ORACLE], "33.00" in shown[LEAVE_ONE_OUT]] == [True] * 3
    assert shown[TRAINING_DOMAIN] == assert_done(oodbench("table", folder))
    refused = oodbench("table", folder, "--selection", "validation")
    assert_refused(refused, "unknown selection 'validation'; known: leave-one-domain-out, oracle, training-domain")


def test_a_selection_from_nothing_is_told(tmp_path):
    write(replace(SINGLES[0], domain_accuracies=[]), tmp_path / "a.json", {}, [])
    outcome = oodbench("table", tmp_path, "--selection", "oracle")
    assert outcome.status == 0 and "22.00" in outcome.out
    assert outcome.err == "oodbench: no result here has epochs to select from; --selection changes nothing\n"


def test_a_metric_of_an_earlier_checkpoint_is_missed_with_the_reason():
    (table,) = build(SINGLES)
    assert "auroc" not in {metric.name for metric in table.metrics}
    late = run("art", [((0, 0.5, 0.5), (0.4,))], seed=1)
    (table,) = build([*SINGLES, late], ["covariate_acc", "auroc"])
    note = "AUROC is known only at the last checkpoint, and an earlier one was selected (seed 0)"
    assert [cell.note for cell in table.rows[0].cells] == ["", note]


def pacs(held, epochs, method="erm", semantic="none", draw=0):
    """A run on PACS; names of settings as a run gives them."""
    made = run("art", epochs, draw=draw, method=method)
    suite = replace(
        SUITE,
        id=Source("pacs"),
        covariate={held: Source("pacs", domains=[held])},
        settings=[Column(semantic)],
        defaults=Defaults("sketch"),
    )
    setting = suites.Setting(semantic, held, 1, 0.5, 0.1)
    name = f"covariate={held}" if semantic == "none" else f"{semantic},covariate={held}"
    metrics = {**made.metrics, "fpr95": 0.2}
    return replace(
        changed(made, suite=suite, setting=setting), suite="pacs", setting=name, method=method, metrics=metrics
    )


EARLY_BEST = [((0.1, 0.9, 0.9), (0.81,)), ((0.1, 0.8, 0.8), (0.72,))]


def test_the_paper_s_layouts_select_too_and_table_9_shows_the_last_checkpoint():
    results = [pacs("photo", EARLY_BEST), pacs("photo", EARLY_BEST, "scone", "textures")]
    eight, nine = layouts.build(results, "pacs")[0], layouts.build(results, "pacs-ood")[0]
    rows = {row.heads: [cell.percent for cell in row.cells] for row in eight.rows}
    assert rows[("ERM",)] == ["–", "–", "81.00", "–", "–"] == rows[("SCONE",)]
    assert eight.caption.endswith(
        "Model selection: training-domain, the checkpoint that is best on validation images of the training domains."
    )
    assert [cell.percent for cell in nine.rows[0].cells] == ["72.00", "80.00", "20.00", "90.00"]
    for sentence in (
        "Rows trained on wild data are transductive: they saw unlabeled images of the held-out domain.",
        "Model selection: the last checkpoint.",
    ):
        assert sentence in nine.caption
    searched = [*results, pacs("photo", EARLY_BEST, "scone", "textures", draw=1)]
    caption = layouts.build(searched, "pacs-ood", selection=ORACLE)[0].caption
    assert "the last checkpoint, oracle among up to 2 draws of the hyperparameters." in caption


def test_reported_rows_of_pacs_stand_beside_selected_ones_and_errors_are_explained():
    (table,) = layouts.build([pacs("photo", EARLY_BEST)], "pacs")
    text = render([table], "text")
    assert "DomainBed's errors divide squared deviations by n, ours by n − 1" in text
    assert [line.heads[-1] for line in table.rows[0].lines] == ["ERM", "reported", "difference", "DomainBed"]
    assert "DomainBed's errors" not in render(layouts.without_reported([table]), "text")
