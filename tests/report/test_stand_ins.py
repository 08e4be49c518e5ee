"""Presets whose semantic set stands in for the paper's: its numbers beside ours, and how the two settings differ."""

import csv
import io
from dataclasses import replace

import pytest
from command_line import assert_done, oodbench
from reported_results import run, save

from oodbench.config import suite as suites
from oodbench.errors import UserError
from oodbench.report import beside, comparison, layouts, reported
from oodbench.report.render import render
from oodbench.report.tables import build

LINE = (
    "The reported numbers come from another setting, so they can be compared in direction only. Here: street-digits, "
    "small-resnet of width 16 trained on 25,000 images, 1,200 steps of fine-tuning{}. Reported: SVHN, WRN-40-2 trained "
    "on all 50,000 images, 100 epochs of fine-tuning; ERM loses 19.8 points to the shift."
)


def effect(method="scone", percent=(74.4, 84.2, 65, 85), preset="cpu-effect-released", **options):
    options = {"semantic": "street-digits", "first": "street-digits", **options}
    return run(method=method, percent=percent, preset=preset, **options)


def heads(table):
    return [line.heads[0] for row in table.rows for line in row.lines]


def shown(*results):
    (table,) = beside.with_reported(build(list(results)), list(results))
    return table


def test_the_paper_s_numbers_stand_below_ours_without_a_difference():
    table = shown(effect("erm", (72.5, 84.8, 78.7, 78)), effect("bn-adapt"), effect())
    assert heads(table) == ["ERM", "reported (SVHN)", "SCONE", "reported (SVHN)", "BN-adapt"]
    assert [entry.text for entry in table.rows[1].lines[1].entries] == ["84.69", "94.65", "10.86", "97.84"]
    assert all(cell.difference is None for row in table.rows for cell in row.cells)


def test_a_line_says_how_the_two_settings_differ():
    with_erm, without = shown(effect("erm", (72.5, 84.8, 78.7, 78)), effect()), shown(effect())
    assert with_erm.reported_notes == (LINE.format("; ERM loses 12.3 points to the shift"),)
    assert without.reported_notes == (LINE.format(""),)
    assert LINE.format("") in render([without], "markdown") and "SVHN, WRN-40-2" in render([without], "latex")


def test_only_the_setting_that_stands_in_has_numbers_beside_it():
    for other in (effect(preset="smoke"), effect(changed={"severity": 2}), effect(method="scone,margin=-3")):
        assert heads(shown(other))[1:] == [] and "Nothing is reported" in shown(other).reported_notes[0]
    assert heads(shown(effect(changed={"pi_c": 0.9}))) == ["SCONE", "reported (SVHN, π_c = 0.9)"]


def test_numbers_of_the_very_setting_keep_their_difference():
    table = shown(run(percent=(85, 94, 12, 97)))
    assert heads(table) == ["SCONE", "reported", "difference"] and table.reported_notes == ()


def test_records_say_whose_setting_is_reported():
    rows = list(csv.DictReader(io.StringIO(render([shown(effect())], "csv"))))
    assert [(row["setting"], row["reported_setting"], row["difference"]) for row in rows] == [
        ("street-digits", "svhn", "")
    ] * 4
    assert rows[0]["reported"] == "0.8469"


def test_with_reported_shows_them_on_the_command_line(tmp_path):
    folder = save([effect("erm", (72.5, 84.8, 78.7, 78)), effect("woods", (62.9, 84.1, 22, 96))], tmp_path)
    text = assert_done(oodbench("table", folder, "--with", "reported", "--format", "text"))
    assert "    reported (SVHN)" in text and "difference" not in text
    assert LINE.format("; ERM loses 12.3 points to the shift") in text
    assert "reported" not in assert_done(oodbench("table", folder))


def test_stand_ins_are_never_checked():
    with pytest.raises(UserError, match="none of its suites was run at full size"):
        comparison.with_source([effect()])
    with pytest.raises(UserError, match="no results for the layout 'main'"):
        layouts.build([effect()], "main")


def test_what_the_file_says_of_stand_ins_is_true_of_the_suites():
    (stated,) = reported.reference("paper").source.stand_ins
    for preset in stated.presets:
        contents = suites.load(stated.suite, preset).contents
        assert {each.semantic for each in contents.settings} == {*stated.settings} <= {*contents.semantic}
        assert {*stated.settings.values()} <= {*contents.semantic}
        assert contents.network.name in stated.here and f"width {contents.network.options['width']} " in stated.here
        assert f"{contents.recipes.finetune.iterations:,} steps" in stated.here and contents.splits.labelled == 0.5
        assert beside.has_stand_ins(stated.suite, preset)
    assert not beside.has_stand_ins(stated.suite, None) and not beside.has_stand_ins("digits-c", "cpu-effect")


def test_the_table_of_a_run_has_them_too(tmp_path, capsys):
    from oodbench.cli import run as command

    save([effect("erm", (72.5, 84.8, 78.7, 78))], tmp_path)
    plan = type("Plan", (), {})()
    plan.folder, plan.suite = tmp_path, suites.load("cifar10-c", "cpu-effect-released")
    plan.request = replace(command.request(), selection="training-domain")
    command._print_tables(plan, print)
    printed = capsys.readouterr().out
    assert "reported (SVHN)" in printed and "compared in direction only" in printed
    home = tmp_path / "cifar10-c-cpu-effect-released"
    for name in ("table.md", "table.tex"):
        assert "compared in direction only" in (home / name).read_text()
