"""The help of every command: a line for every argument, readable placeholders, and commands that can be pasted."""

import argparse
import re
import shlex

import pytest
from command_line import assert_done, oodbench

from oodbench.cli import COMMANDS
from oodbench.cli.command_line import parser_of as parser
from oodbench.cli.parser import Help

WIDTH = 100  # columns of a terminal on which every argument is one line


def walked(some):
    yield some
    for action in some._actions:
        if isinstance(action, argparse._SubParsersAction):
            for inner in action.choices.values():
                yield from walked(inner)


PARSERS = {each.prog: each for each in walked(parser())}


def test_the_walk_finds_every_command_and_action():
    assert {*PARSERS} >= {"oodbench", *(f"oodbench {name}" for name in COMMANDS), "oodbench data show"}


@pytest.mark.parametrize("name", PARSERS)
def test_every_argument_has_one_line_of_help_and_a_readable_placeholder(name, monkeypatch):
    monkeypatch.setenv("COLUMNS", str(WIDTH))
    formatter, actions = Help(name), PARSERS[name]._actions
    formatter.add_arguments(actions)
    for action in actions:
        if isinstance(action, argparse._SubParsersAction):
            *lines, _ = formatter._format_action(action).split("\n")
            assert len(lines) == 1 + len(action.choices) and all(choice.help for choice in action._choices_actions)
            continue
        place = f"{name} {action.option_strings or action.dest}"
        assert action.help and "\n" not in action.help and not action.help.endswith("."), place
        assert formatter._format_action(action).count("\n") == 1, f"{place}: the help is longer than a line"
        if action.nargs != 0:
            assert action.metavar and not {*"{|"} & {*action.metavar}, place
            assert re.sub(r"\.(py|yaml|png|jsonl|zip)\b", "", action.metavar).isupper(), place


@pytest.mark.parametrize("name", PARSERS)
def test_every_help_ends_in_commands_that_can_be_pasted_and_parse(name):
    words = name.split()[1:]
    out = assert_done(oodbench(*words, "--help"))
    pasted = re.split(r"^examples?:\n", out, flags=re.M)[-1].splitlines()
    assert pasted and all(line.startswith("  oodbench ") for line in pasted)
    for line in pasted:
        _, *arguments = shlex.split(line)
        assert arguments[: len(words)] == words or not words
        parsed = parser().parse_args(arguments)
        assert parsed.act is not None


def test_the_usage_names_what_must_be_given_and_no_more():
    for command, usage in {
        "run": "run [OPTIONS]",
        "fit": "fit --out DIR [OPTIONS]",
        "predict": "predict [OPTIONS] DETECTOR IMAGES ...",
        "data add": "data add [OPTIONS] NAME PATH",
    }.items():
        assert assert_done(oodbench(*command.split(), "--help")).startswith(f"usage: oodbench {usage}\n")


def test_general_options_come_after_a_command_s_own_and_lists_of_names_after_these(monkeypatch):
    monkeypatch.setenv("COLUMNS", str(WIDTH))
    out = assert_done(oodbench("table", "--help"))
    places = [out.index(text) for text in ("arguments:", "--seeds", "--help  ", "metrics:\n", "example:\n")]
    assert places == sorted(places)
    assert "  --columns, --metrics METRICS  in this order" in out
