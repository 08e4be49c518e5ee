"""Compare out-of-distribution detection and generalization methods side by side.

import oodbench
results = oodbench.run("digits-c", methods="msp,knn", seeds=[0])
print(oodbench.table("results"))
"""

import os
from typing import TYPE_CHECKING, Any

# An installed package holds `methods` and `benchmarks` beside this file; in a checkout they stand one folder up.
_HERE = os.path.dirname(__file__)  # without pathlib, whose import an early Ctrl-C would meet
if not os.path.isdir(os.path.join(_HERE, "methods")):
    __path__.append(os.path.dirname(_HERE))

_PUBLIC = {
    "run": "oodbench.api",
    "evaluate": "oodbench.api",
    "fit": "oodbench.api",
    "Detector": "oodbench.running.given.detector",
    "table": "oodbench.api",
    "compare": "oodbench.api",
    "figure": "oodbench.api",
    "report": "oodbench.api",  # a room has this name too, and can be called: see its __init__
    "frame": "oodbench.results.frame",
    "merge": "oodbench.api",
    "read_results": "oodbench.api",
    "load": "oodbench.running.loading",
    "submit": "oodbench.running.submitting",
    "verify": "oodbench.running.verifying",
    "Trainer": "oodbench.learning.method",
    "DomainTrainer": "oodbench.learning.method",
    "Scorer": "oodbench.learning.method",
    "BankScorer": "oodbench.learning.method",
    "Block": "oodbench.learning.method",
    "ReshapingScorer": "oodbench.learning.method",
    "Outputs": "oodbench.learning.method",
    "Batch": "oodbench.learning.method",
    "Classifier": "oodbench.learning.method",
    "Data": "oodbench.learning.method",
    "Network": "oodbench.learning.networks",
    "Loop": "oodbench.learning.method",
    "UserError": "oodbench.errors",
    "forward": "oodbench.learning.outputs",
    "out_share": "oodbench.learning.tuning",
    "select_at_drop": "oodbench.learning.tuning",
}

if TYPE_CHECKING:
    from oodbench.api import compare as compare
    from oodbench.api import evaluate as evaluate
    from oodbench.api import figure as figure
    from oodbench.api import fit as fit
    from oodbench.api import merge as merge
    from oodbench.api import read_results as read_results
    from oodbench.api import report as report
    from oodbench.api import run as run
    from oodbench.api import table as table
    from oodbench.errors import UserError as UserError
    from oodbench.learning.method import BankScorer as BankScorer
    from oodbench.learning.method import Batch as Batch
    from oodbench.learning.method import Block as Block
    from oodbench.learning.method import Classifier as Classifier
    from oodbench.learning.method import Data as Data
    from oodbench.learning.method import DomainTrainer as DomainTrainer
    from oodbench.learning.method import Loop as Loop
    from oodbench.learning.method import Outputs as Outputs
    from oodbench.learning.method import ReshapingScorer as ReshapingScorer
    from oodbench.learning.method import Scorer as Scorer
    from oodbench.learning.method import Trainer as Trainer
    from oodbench.learning.networks import Network as Network
    from oodbench.learning.outputs import forward as forward
    from oodbench.learning.tuning import out_share as out_share
    from oodbench.learning.tuning import select_at_drop as select_at_drop
    from oodbench.results.frame import frame as frame
    from oodbench.running.given.detector import Detector as Detector
    from oodbench.running.loading import load as load
    from oodbench.running.submitting import submit as submit
    from oodbench.running.verifying import verify as verify

__all__ = ["__version__", *_PUBLIC]


def __getattr__(name: str) -> Any:
    """Import on first use, so that `oodbench --help` does not wait for torch."""
    from importlib import import_module

    if name == "__version__":
        return _version()
    if name in _PUBLIC:
        return getattr(import_module(_PUBLIC[name]), name)
    raise AttributeError(f"module 'oodbench' has no attribute {name!r}")


def __dir__() -> list[str]:
    """What is public, imported or not, for completion."""
    return __all__


def _version() -> str:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("oodbench")
    except PackageNotFoundError:  # a plain checkout, never installed
        return "0+checkout"
