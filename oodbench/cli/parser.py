"""What the commands' parsers share."""

import argparse
import sys
import textwrap
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

from oodbench.errors import UserError, unknown

GENERAL = ("help", "version", "debug")  # options of every command


class Help(argparse.HelpFormatter):
    """An argument a line from 100 columns on. Texts are folded to the terminal, and lines of examples are kept."""

    def __init__(self, prog: str, **more: Any) -> None:
        super().__init__(prog, max_help_position=32, **more)
        self._action_max_length = 18  # which argparse counts too low for the names of commands

    def _format_action_invocation(self, action: argparse.Action) -> str:
        """As Python 3.13 has it: names of one option share one metavar."""
        if len(action.option_strings) < 2 or action.nargs == 0:
            return super()._format_action_invocation(action)
        return f"{', '.join(action.option_strings)} {action.metavar}"

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        lines = text.splitlines()
        folded = self._split_lines(text, width - len(indent)) if len(lines) == 1 else lines
        return "\n".join(indent + line for line in folded)

    def _split_lines(self, text: str, width: int) -> list[str]:
        """Names such as all-scorers stay whole."""
        return textwrap.wrap(" ".join(text.split()), width, break_on_hyphens=False, break_long_words=False)


class Parser(argparse.ArgumentParser):
    """Wrong usage is an error like any other: one line. The help ends in commands to paste."""

    def __init__(self, *, examples: Sequence[str] = (), **more: Any) -> None:
        heading = "examples" if len(examples) > 1 else "example"
        epilog = "\n".join([f"{heading}:", *(f"  {example}" for example in examples)]) if examples else None
        super().__init__(epilog=epilog, formatter_class=Help, **more)
        self.examples = examples
        self._positionals.title = "arguments"

    def format_help(self) -> str:
        """The usage names what must be given and no more. What all commands have, and lists of names, come last."""
        self.usage = self.usage or self._short_usage()
        self._optionals._group_actions.sort(key=lambda action: action.dest in GENERAL)
        self._action_groups.sort(key=lambda group: (not group._group_actions, group is self._optionals))
        return super().format_help()

    def _short_usage(self) -> str:
        words = ["%(prog)s"]
        for action in self._actions:
            if action.required and action.option_strings:
                words.append(f"{action.option_strings[0]} {action.metavar}")
        words.append("[OPTIONS]")
        for action in self._actions:
            if not action.option_strings:
                shown = f"{action.metavar} ..." if action.nargs in ("+", "*", argparse.PARSER) else str(action.metavar)
                words.append(f"[{shown}]" if action.nargs in ("?", "*") else shown)
        return " ".join(words)

    def error(self, message: str) -> NoReturn:
        raise UserError(f"{message}; see '{self.prog} --help'")

    def exit(self, status: int = 0, message: str | None = None) -> NoReturn:
        """After --help and --version, which must have come through."""
        sys.stdout.flush()
        super().exit(status, message)


@dataclass(frozen=True, eq=False)  # argparse wants a hash of it
class OneOf:
    """The type of an argument that must be one of these names."""

    kind: str
    known: Iterable[str]

    def __call__(self, name: str) -> str:
        if name not in self.known:
            raise unknown(self.kind, name, self.known)
        return name


def one_of(kind: str, known: Iterable[str]) -> OneOf:
    """Unlike argparse's `choices`, it answers with the nearest."""
    return OneOf(kind, known)


def add_names_of(parser: argparse.ArgumentParser, title: str, names: Iterable[str]) -> None:
    """A section of the help that lists the names an argument takes."""
    parser.add_argument_group(title, ", ".join(names))


def add_plugins(parser: argparse._ActionsContainer, dest: str = "plugin", what: str = "method") -> None:
    parser.add_argument(
        "--plugin",
        dest=dest,
        action="append",
        metavar="FILE.py",
        help=f"a file with a {what} of yours; repeatable",
    )
