"""A command in, its exit status out: the only room that prints. torch is imported only to train.

Each command is a module, imported when it is called: help and mistakes in usage wait for nothing. This module imports
next to nothing, for until it listens to Ctrl-C that is a traceback.
"""

from collections.abc import Sequence
from typing import NamedTuple

from oodbench.cli.interrupts import Interrupts

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
        "run the demo: a table and a page, in about a minute",
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
        "The exit status is 1 if a cell differs by more than chance explains, and 3 if no cell can be decided.",
        ("oodbench check results/demo --against reference", "oodbench check results/ --against scone"),
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
    "pack": Command(
        "pack",
        "put the results of a folder into one file, which is only read",
        "What shows results reads a pack as it reads a folder. Repeated content is stored once.",
        ("oodbench pack results/ --out results.pack.zip",),
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
        "A results folder or a pack is checked for edits and damage. The exit status is 1 if something does not hold.",
        ("oodbench verify centered-logit.zip", "oodbench verify results/"),
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


def main(arguments: Sequence[str] | None = None) -> int:
    """0 done, 1 a cell failed, 2 wrong usage or no place for output, 130 interrupted.

    Without arguments it obeys those of the process, which it owns then.
    """
    interrupts = Interrupts(owns_process=arguments is None)
    try:
        with interrupts:
            from oodbench.cli.command_line import obey

            return obey(arguments, interrupts)
    except BaseException as error:  # whatever an interrupt has become on its way here
        if interrupts.came is None and not isinstance(error, KeyboardInterrupt):
            raise
        return interrupts.end()
