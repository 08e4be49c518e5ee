"""Who hears how a run goes. Imports no torch."""

from typing import TYPE_CHECKING, Protocol

from oodbench.data import availability
from oodbench.results.result import Result

if TYPE_CHECKING:
    from oodbench.learning.loop import Progress
    from oodbench.running.cells import Training


class Reporter(Protocol):
    """Who hears how a run goes."""

    download: availability.Listener

    def note(self, text: str) -> None: ...
    def training(self, training: "Training", number: int, count: int) -> None: ...
    def progress(self, progress: "Progress") -> None: ...
    def result(self, result: Result) -> None: ...


class Silent:
    """Hears and says nothing."""

    download = availability.SILENT

    def note(self, text: str) -> None: ...
    def training(self, training: "Training", number: int, count: int) -> None: ...
    def progress(self, progress: "Progress") -> None: ...
    def result(self, result: Result) -> None: ...
