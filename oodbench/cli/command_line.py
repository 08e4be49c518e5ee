"""The words of a command line in, what the command says and its exit status out."""

import argparse
import errno
import os
import sys
import traceback
import warnings
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from importlib import import_module
from typing import TYPE_CHECKING, Any

import oodbench
from oodbench.cli import COMMANDS, EXAMPLES
from oodbench.cli.interrupts import Interrupts
from oodbench.cli.output import OutputLost, guarded
from oodbench.cli.parser import Parser
from oodbench.errors import UserError, shortened, unknown

if TYPE_CHECKING:
    from oodbench.cli.defaults import Used

COMPLETION = "_ARGCOMPLETE"  # the variable by which a shell asks for names
MEASURING = ("demo", "run", "evaluate", "fit", "predict")  # commands that say where their defaults came from


class _Version(argparse.Action):
    """The version takes a while to find out, and is asked for seldom."""

    def __call__(self, parser: argparse.ArgumentParser, *_: Any) -> None:
        print(f"oodbench {oodbench.__version__}")
        parser.exit()


def parser_of(complete: Iterable[str] = COMMANDS) -> argparse.ArgumentParser:
    """All commands, these with their arguments."""
    main = Parser(
        prog="oodbench",
        description="Compare out-of-distribution detection and generalization methods side by side.",
        examples=EXAMPLES,
    )
    main.add_argument("--version", action=_Version, nargs=0, help="print the version and exit")
    _add_debug(main)
    commands = main.add_subparsers(title="commands", dest="command", metavar="COMMAND", parser_class=Parser)
    for name, (module, help, details, examples) in COMMANDS.items():
        description = f"{help[0].upper()}{help[1:]}. {details}".strip()
        sub = commands.add_parser(name, help=help, description=description, examples=examples)
        _add_debug(sub)
        if name in complete:
            command = import_module(f"oodbench.cli.{module}")
            command.add_arguments(sub)
            sub.set_defaults(act=command.main)
    return main


def _add_debug(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--debug", action="store_true", help="print the traceback of errors and failed cells")


@contextmanager
def _warnings_in_one_line() -> Iterator[None]:
    """What oodbench itself warns of is said as errors are; what libraries warn of, as Python does."""
    usual = warnings.showwarning

    def say(message: Warning | str, category: type[Warning], *where: Any, **more: Any) -> None:
        if category.__module__.startswith("oodbench."):
            print(f"oodbench: {' '.join(str(message).split())}", file=sys.stderr)
        else:
            usual(message, category, *where, **more)

    with warnings.catch_warnings():
        warnings.showwarning = say
        yield


def obey(arguments: Sequence[str] | None, interrupts: Interrupts) -> int:
    """Do what a command line says; its exit status."""
    if COMPLETION in os.environ:
        return _complete(os.environ.get("COMP_LINE", ""))
    with guarded():
        return _obey(arguments, interrupts)


def _complete(line: str) -> int:
    """For a shell whose user has pressed the Tab key; it shows nothing if argcomplete is not there."""
    from oodbench.cli import completion

    with suppress(ImportError, UserError):  # a plugin or suite on the line that cannot be read
        completion.complete(parser_of([completion.command_in(line)]))
    return 1


def _obey(arguments: Sequence[str] | None, interrupts: Interrupts) -> int:
    given = [*(sys.argv[1:] if arguments is None else arguments)]
    debug = "--debug" in given  # before the command or after it
    given = [word for word in given if word != "--debug"]
    used: Used | None = None
    try:
        named = given[0] if given and not given[0].startswith("-") else ""
        if named and named not in COMMANDS:
            raise unknown("command", named, COMMANDS)
        parser = parser_of([named] if named else [])
        parsed = parser.parse_args(given)
        parsed.debug = debug
        status: int = 0
        if parsed.command is None:
            parser.print_help()
        else:
            from oodbench.cli import defaults

            used = defaults.apply(parsed)
            line = used.line()
            if line is not None and named in MEASURING:
                print(line, file=sys.stderr)
            with _warnings_in_one_line():
                status = parsed.act(parsed)
        sys.stdout.flush()
        return status
    except UserError as error:
        if interrupts.came is not None:  # which may have led to it
            raise
        if isinstance(error, OutputLost) and error.is_closed_pipe:  # `oodbench table results | head`
            return 1 if error.ends_run else 0
        if debug:
            traceback.print_exc()
        message = " ".join(str(error).split())
        print(f"oodbench: {message if used is None else used.blamed(message)}", file=sys.stderr)
        return 2
    except OSError as error:
        if error.errno != errno.ENAMETOOLONG:
            raise
        print(f"oodbench: '{shortened(str(error.filename))}': {error.strerror}; choose a shorter one", file=sys.stderr)
        return 2
