"""Where trainings and cells are carried out: a folder, a device, options, who is told, and what is in memory."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import torch

from oodbench.config.suite import Setting, Suite
from oodbench.data.parts import Parts, build_parts
from oodbench.learning import precision
from oodbench.learning.evaluation import Evaluation, KeyedScorer
from oodbench.learning.isolation import State
from oodbench.learning.loop import Failed
from oodbench.running.cells import Training
from oodbench.running.claims import Claims
from oodbench.running.kept_outputs import KeptOutputs
from oodbench.running.reporting import Reporter, Silent
from oodbench.running.trained import Trained


@dataclass(frozen=True)
class Options:
    """How to run, where it does not change what is computed."""

    compile: bool = False  # the network's body, on a GPU; on a CPU it would only cost
    deterministic: bool = False
    keep_outputs: bool = False  # features and logits on disk, and read from there
    take_over: bool = False  # instead of waiting for another process, do what it holds here too
    path: int = 0  # points at which a network is measured while it trains


@dataclass
class Workplace:
    """A results folder and a device, and what is in memory there and need not be made again.

    All that is done at one workplace belongs to one request, whose suites differ in nothing but their recipes.
    """

    folder: Path
    device: torch.device
    reporter: Reporter = field(default_factory=Silent)
    options: Options = Options()
    force: bool = False  # train anew what is stored, each training once
    numbers: dict[str, int] = field(default_factory=dict)  # of the trainings to announce, by key
    claims: Claims = field(default=None)  # type: ignore[assignment]  # by default, of this folder

    anew: set[str] = field(default_factory=set, init=False)  # keys of the trainings that were trained here
    failures: dict[str, Failed] = field(default_factory=dict, init=False)  # of trainings, by key
    last: "Last | None" = field(default=None, init=False)  # the training that was asked for last
    before: State = field(default_factory=State, init=False)  # of torch and the process, without any component's doing

    _announced: set[str] = field(default_factory=set, init=False)
    _parts: dict[tuple[Setting, int], Parts] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        self.claims = self.claims or Claims(self.folder, self.reporter, self.options.take_over)

    @property
    def compiles(self) -> bool:
        return self.options.compile and self.device.type != "cpu"

    @property
    def run_flags(self) -> list[str]:
        """What a result says of how it ran."""
        asked = {"deterministic": self.options.deterministic, "compiled": self.compiles}
        return [flag for flag, so in asked.items() if so]

    def parts(self, suite: Suite, setting: Setting, seed: int) -> Parts:
        if (setting, seed) not in self._parts:
            self._parts[setting, seed] = build_parts(suite, setting, seed)
        return self._parts[setting, seed]

    def announce(self, training: Training) -> None:
        """Say, once, that a training and its cells are what is running now."""
        if training.key not in self._announced:
            self._announced.add(training.key)
            number = self.numbers.setdefault(training.key, len(self.numbers) + 1)
            self.reporter.training(training, number, len(self.numbers))


@dataclass
class Last:
    """A trained network and, once a cell was scored with it, what its cells share."""

    key: str
    network: Trained
    expected: list[KeyedScorer] = field(default_factory=list)  # of the cells that will be scored with it
    evaluation: Evaluation | None = None
    kept: KeptOutputs | None = None  # with --keep-outputs


@contextmanager
def arithmetic(suite: Suite, device: torch.device, deterministic: bool = False) -> Iterator[None]:
    """Threads and precision as the suite says, while inside."""
    with precision.threads(suite.threads, device), precision.arithmetic(suite.contents.precision, deterministic):
        yield
