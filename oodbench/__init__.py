"""Compare out-of-distribution detection and generalisation methods side by side.

import oodbench
results = oodbench.run("digits-c", methods="msp,knn", seeds=[0])
print(oodbench.table("results"))
"""

from pathlib import Path
from typing import Any

# An installed package holds `methods` and `benchmarks` beside this file; in a checkout they stand one folder up.
if not (Path(__file__).parent / "methods").is_dir():
    __path__.append(str(Path(__file__).parent.parent))

_PUBLIC = {
    "run": "oodbench.api",
    "table": "oodbench.api",
    "read_results": "oodbench.api",
    "Trainer": "oodbench.method",
    "DomainTrainer": "oodbench.method",
    "Scorer": "oodbench.method",
    "Outputs": "oodbench.method",
    "Batch": "oodbench.method",
    "Classifier": "oodbench.method",
    "Data": "oodbench.method",
    "Loop": "oodbench.method",
    "UserError": "oodbench.errors",
}
__all__ = ["__version__", *_PUBLIC]


def __getattr__(name: str) -> Any:
    """Import on first use, so that `oodbench --help` does not wait for torch."""
    from importlib import import_module

    if name == "__version__":
        return _version()
    if name in _PUBLIC:
        return getattr(import_module(_PUBLIC[name]), name)
    raise AttributeError(f"module 'oodbench' has no attribute {name!r}")


def _version() -> str:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("oodbench")
    except PackageNotFoundError:  # a plain checkout, never installed
        return "0+checkout"
