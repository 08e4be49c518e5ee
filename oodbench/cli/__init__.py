"""A command in, its exit status out: the only room that prints. torch is imported only to train.

Each command is a module, imported when it is called: help and mistakes in usage wait for nothing.
"""

import argparse
import os
import sys
import traceback
import warnings
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple

import oodbench
from oodbench.cli.output import OutputLost, guarded
from oodbench.cli.parser import Parser
from oodbench.errors import UserError, unknown

if TYPE_CHECKING:
    from oodbench.cli.defaults import Used

EXAMPLES = (
    "oodbench run --suite digits-c --methods msp,knn,vim",
    "oodbench run --suite digits-c --methods all --seeds 0,1,2 --dry-run",
    "oodbench table results/ --format latex",
    "oodbench list methods",
    "oodbench show knn",
)


class Command(NamedTuple):
    """The module of a command, what it does in a line, what else its help says, and commands to paste."""

    module: str
    help: str
    details: str
    examples: tuple[str, ...]


COMMANDS = {
    "demo": Command(
        "demo",
        "run the demo: a table and a page, in about two minutes",
        "It needs no download. After an interruption, the same command resumes; once done, it shows the results again.",
        ("oodbench demo",),
    ),
    "run": Command(
        "run",
        "train and evaluate methods on a suite, and print the table",
        "Results that exist are not computed again. After an interruption, the same command resumes.",
        (
            "oodbench run --suite digits-c --methods msp,knn --seeds 0,1,2",
            "oodbench run --suite digits-c --setting unseen-digits,covariate=blur,severity=5",
            "oodbench run --suite digits-c --methods scone --set scone.margin=-1,-2 --set recipe.epochs=5",
        ),
    ),
    "evaluate": Command(
        "evaluate",
        "measure your trained network under every scorer",
        "The images are those of a suite, or your own. Nothing is trained.",
        (
            "oodbench evaluate --model my_net.py:build --weights mine.pt --id folder:photos --semantic folder:others",
            "oodbench evaluate --model timm:resnet18.a1_in1k --id folder:photos --semantic probes",
        ),
    ),
    "fit": Command(
        "fit",
        "choose a scorer and a threshold for your trained network",
        "The detector that comes out is a folder, which `oodbench predict` reads.",
        ("oodbench fit --model my_net.py:build --weights mine.pt --id folder:photos --scorer energy --out detector",),
    ),
    "predict": Command(
        "predict",
        "say which images a detector finds OOD",
        "The exit status is 1 if some images cannot be read.",
        ("oodbench predict detector/ images/ --format csv",),
    ),
    "table": Command(
        "table", "print the results of a folder as tables", "", ("oodbench table results/ --format latex",)
    ),
    "compare": Command(
        "compare",
        "print the difference of every method from a baseline",
        "Each difference has an interval over seeds and test images.",
        ("oodbench compare results/ --baseline erm",),
    ),
    "list": Command("list", "list methods, suites, data sets and networks", "", ("oodbench list methods",)),
    "show": Command(
        "show",
        "describe a method, suite, data set, network or result",
        "",
        ("oodbench show knn", "oodbench show digits-c"),
    ),
    "check": Command(
        "check",
        "compare results with a paper or with other results",
        "The exit status is 1 if a cell differs by more than chance explains.",
        ("oodbench check results/demo --against results/reference", "oodbench check results/ --against scone"),
    ),
    "plot": Command("plot", "draw the figures of a results folder", "", ("oodbench plot results/",)),
    "report": Command(
        "report",
        "make a web page of results, for a browser without a server",
        "The page has leaderboards, trade-offs, single cells, comparisons and tables of papers.",
        ("oodbench report results/ --out site/",),
    ),
    "status": Command(
        "status",
        "say what is done, failed, running and left in a results folder",
        "All processes that share the folder are counted.",
        ("oodbench status results/",),
    ),
    "merge": Command(
        "merge",
        "copy the results of other folders into one",
        "A cell that differs or cannot be read is not copied, and the exit status is 1.",
        ("oodbench merge shard1/ shard2/ --into results/",),
    ),
    "remove": Command(
        "remove",
        "delete cells of a results folder after showing which",
        "Weights are not deleted.",
        ("oodbench remove results/ --failed",),
    ),
    "rescore": Command(
        "rescore",
        "compute the metrics of results again from their raw scores",
        "The exit status is 1 if some results have no raw scores.",
        ("oodbench rescore results/ --dry-run",),
    ),
    "submit": Command(
        "submit",
        "pack the results of a method for others to verify",
        "The results are checked first. The archive holds them, their raw scores and the method's file.",
        ("oodbench submit results/ --methods centered-logit --out centered-logit.zip",),
    ),
    "verify": Command(
        "verify",
        "recompute what others submit, without running their code",
        "The exit status is 1 if something does not hold.",
        ("oodbench verify centered-logit.zip",),
    ),
    "check-method": Command(
        "check_method",
        "test whether a method file of yours keeps the rules",
        "The exit status is 1 if it breaks one.",
        ("oodbench check-method centered_logit.py",),
    ),
    "data": Command(
        "data",
        "see, download, add and remove data sets",
        "",
        ("oodbench data status mnist-c", "oodbench data get mnist-c"),
    ),
}


COMPLETION = "_ARGCOMPLETE"  # the variable by which a shell asks for names
MEASURING = ("demo", "run", "evaluate", "fit", "predict")  # commands that say where their defaults came from


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


def main(arguments: Sequence[str] | None = None) -> int:
    """0 done, 1 a cell failed, 2 wrong usage or no place for output, 130 interrupted."""
    if COMPLETION in os.environ:
        return _complete(os.environ.get("COMP_LINE", ""))
    with guarded():
        return _main(arguments)


def _complete(line: str) -> int:
    """For a shell whose user has pressed the Tab key; it shows nothing if argcomplete is not there."""
    from oodbench.cli import completion

    with suppress(ImportError, UserError):  # a plugin or suite on the line that cannot be read
        completion.complete(_parser([completion.command_in(line)]))
    return 1


def _main(arguments: Sequence[str] | None) -> int:
    given = [*(sys.argv[1:] if arguments is None else arguments)]
    debug = "--debug" in given  # before the command or after it
    given = [word for word in given if word != "--debug"]
    used: Used | None = None
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
        if isinstance(error, OutputLost) and error.is_closed_pipe:  # `oodbench table results | head`
            return 1 if error.ends_run else 0
        if debug:
            traceback.print_exc()
        message = " ".join(str(error).split())
        print(f"oodbench: {message if used is None else used.blamed(message)}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("\noodbench: interrupted; the same command resumes", file=sys.stderr)
        return 130
