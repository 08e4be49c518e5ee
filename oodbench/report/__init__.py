"""Results in, something to look at out: tables, comparisons, figures, pages."""

import sys
from types import ModuleType
from typing import Any


class _Room(ModuleType):
    """`oodbench.report(...)` makes a page, as `oodbench.table(...)` makes a table, also where this room is imported."""

    def __call__(self, *given: Any, **named: Any) -> Any:
        import oodbench

        return oodbench.__getattr__("report")(*given, **named)  # the function, which this room hides


sys.modules[__name__].__class__ = _Room
