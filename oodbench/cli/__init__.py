"""A command in, its exit status out: the only room that prints. torch is imported only to train.

Each command is a module, imported when it is called: help and mistakes in usage wait for nothing.
"""

import argparse
import sys
import traceback
import warnings
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from typing import Any

import oodbench
from oodbench.cli.output import OutputLost, guarded
from oodbench.cli.parser import Parser
from oodbench.errors import UserError, unknown

EXAMPLES = """\
examples:
  oodbench run --suite digits-c --methods msp,knn,vim       train, evaluate, print the table (about 10 s)
  oodbench run --suite digits-c --methods all --seeds 0,1,2 --dry-run
  oodbench table results/ --format latex
  oodbench list methods
  oodbench show knn
"""

COMMANDS = {  # the module of each, what it does, an example
    "run": (
        "run",
        "train and evaluate methods on a suite; what is done already is not done again",
        "oodbench run --suite digits-c --methods msp,knn --seeds 0,1,2",
    ),
    "evaluate": (
        "evaluate",
        "measure your trained network under every scorer, on a suite or on your images",
        "oodbench evaluate --model my_net.py:build --weights mine.pt --id folder:photos --semantic folder:others",
    ),
    "fit": (
        "fit",
        "choose a scorer and a threshold for your trained network: a detector",
        "oodbench fit --model my_net.py:build --weights mine.pt --id folder:photos --scorer energy --out detector",
    ),
    "predict": (
        "predict",
        "say which images a detector finds OOD; status 1 if some cannot be read",
        "oodbench predict detector/ images/ --format csv",
    ),
    "table": ("table", "print the results of a folder as tables", "oodbench table results/ --format latex"),
    "compare": (
        "compare",
        "print every method minus a baseline, with intervals over seeds and test images, and what holds",
        "oodbench compare results/ --baseline erm",
    ),
    "list": ("list", "list methods, suites, data sets and networks", "oodbench list methods"),
    "show": ("show", "describe a method, suite, data set, network or result", "oodbench show knn"),
    "check": (
        "check",
        "compare results with a paper or with other results; status 1 if a cell differs by more than chance explains",
        "oodbench check results/demo --against results/reference",
    ),
    "plot": ("plot", "draw the figures of a results folder", "oodbench plot results/"),
    "report": (
        "report",
        "make a page to look at from results: leaderboards, trade-offs, cells, comparisons, papers",
        "oodbench report results/ --out site/",
    ),
    "status": (
        "status",
        "say what is done in a results folder, what failed and what runs, in all processes that share it",
        "oodbench status results/",
    ),
    "merge": (
        "merge",
        "copy the results of other folders into one; status 1 if a cell differs or cannot be read, which then stays",
        "oodbench merge shard1/ shard2/ --into results/",
    ),
    "remove": (
        "remove",
        "delete cells of a results folder after showing which; weights stay",
        "oodbench remove results/ --failed",
    ),
    "rescore": (
        "rescore",
        "compute the metrics of results again from their raw scores; status 1 if some have none",
        "oodbench rescore results/ --dry-run",
    ),
    "submit": (
        "submit",
        "check the results of a method and pack them, with raw scores and the method's file, for others to verify",
        "oodbench submit results/ --methods centered-logit --out centered-logit.zip",
    ),
    "verify": (
        "verify",
        "recompute what others submit, running none of their code; status 1 if something does not hold",
        "oodbench verify centered-logit.zip",
    ),
    "check-method": (
        "check_method",
        "try the rules that every method keeps on a file of yours; status 1 if it breaks one",
        "oodbench check-method centered_logit.py",
    ),
    "data": ("data", "see, get and add data sets", "oodbench data get mnist-c"),
}


class _Version(argparse.Action):
    """The version takes a while to find out, and is asked for seldom."""

    def __call__(self, parser: argparse.ArgumentParser, *_: Any) -> None:
        print(f"oodbench {oodbench.__version__}")
        parser.exit()


def _parser(complete: Iterable[str] = COMMANDS) -> argparse.ArgumentParser:
    """All commands, these with their arguments."""
    main = Parser(
        prog="oodbench",
        description="Compare out-of-distribution detection and generalization methods side by side.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    main.add_argument("--version", action=_Version, nargs=0, help="show program's version number and exit")
    _add_debug(main)
    commands = main.add_subparsers(dest="command", metavar="COMMAND", parser_class=Parser)
    for name, (module, help, example) in COMMANDS.items():
        sub = commands.add_parser(
            name,
            help=help,
            description=help[0].upper() + help[1:] + ".",
            epilog=f"example:\n  {example}",
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        _add_debug(sub)
        if name in complete:
            command = import_module(f"oodbench.cli.{module}")
            command.add_arguments(sub)
            sub.set_defaults(act=command.main)
    return main


def _add_debug(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--debug", action="store_true", help="print the traceback of an error or a failed cell")


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


def main(arguments: Sequence[str] | None = None) -> int:
    """0 done, 1 a cell failed, 2 wrong usage or no place for output, 130 interrupted."""
    with guarded():
        return _main(arguments)


def _main(arguments: Sequence[str] | None) -> int:
    given = [*(sys.argv[1:] if arguments is None else arguments)]
    debug = "--debug" in given  # before the command or after it
    given = [word for word in given if word != "--debug"]
    try:
        named = given[0] if given and not given[0].startswith("-") else ""
        if named and named not in COMMANDS:
            raise unknown("command", named, COMMANDS)
        parser = _parser([named] if named else [])
        parsed = parser.parse_args(given)
        parsed.debug = debug
        status: int = 0
        if parsed.command is None:
            parser.print_help()
        else:
            with _warnings_in_one_line():
                status = parsed.act(parsed)
        sys.stdout.flush()
        return status
    except UserError as error:
        if isinstance(error, OutputLost) and error.is_closed_pipe:  # `oodbench table results | head`
            return 1 if error.ends_run else 0
        if debug:
            traceback.print_exc()
        print(f"oodbench: {' '.join(str(error).split())}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("\noodbench: interrupted; the same command goes on where it stopped", file=sys.stderr)
        return 130
