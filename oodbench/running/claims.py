"""Who does a training among processes that share a results folder. Imports no torch."""

import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from oodbench.files import Holder, claim, holder, note_epoch
from oodbench.running.cells import Training, weights_file
from oodbench.running.reporting import Reporter, training_name, waiting_for

EVERY = 5.0  # seconds between notes of how far a training is


@dataclass
class Claims:
    """The trainings of a folder that this process holds."""

    folder: Path
    reporter: Reporter
    take_over: bool = False  # instead of waiting for another process, do what it holds here too

    _held: set[str] = field(default_factory=set, init=False)
    _noted: dict[str, float] = field(default_factory=dict, init=False)  # when it was last said how far each is

    def grant(self, trainings: Iterable[Training]) -> None:
        """Whoever gave the work to this process holds these for it."""
        self._held |= {each.key for each in trainings}

    def note(self, training: str, epoch: int, epochs: int) -> None:
        """Say now and then, for whoever asks `oodbench status`, how far a training that is held here is."""
        now = time.monotonic()
        if training in self._held and now - self._noted.setdefault(training, now) > EVERY:
            self._noted[training] = now
            note_epoch(weights_file(training, self.folder, "lock"), epoch, epochs)

    @contextmanager
    def hold(self, training: Training, wait: bool = True) -> Iterator[bool]:
        """Hold a training while inside; False if another process has it. In this process it may be held twice.

        Two processes that do the same only waste time: files appear whole, and both write the same into them.
        """
        if training.key in self._held:
            yield True
            return
        lock = weights_file(training.key, self.folder, "lock")

        def waiting(other: Holder | None) -> None:
            self.reporter.note(waiting_for(other, training))

        with claim(lock, wait and not self.take_over, waiting) as mine:
            if wait and not mine:
                self.reporter.note(f"taking over {training_name(training)} from {holder(lock) or 'another process'}")
                mine = True
            if mine:
                self._held.add(training.key)
            try:
                yield mine
            finally:
                self._held.discard(training.key)
