"""Ctrl-C at any moment, once or often: one line and status 130. Imports next to nothing, for it comes before all else.

Python raises KeyboardInterrupt wherever it happens to be. In a module that is half imported it may come out as another
exception, or C++ aborts; in a destructor it is printed and forgotten. So an interrupt within an import ends the process
there, any other is remembered, and one that was lost is raised again. Files need no care: they are written whole, the
system lets go of locks, and workers end with the run.
"""

import _thread
import atexit
import os
import signal
import sys
import time
from contextlib import suppress
from types import FrameType, TracebackType
from typing import Any, NoReturn

STATUS = 130
LINE = "oodbench: interrupted; the same command resumes\n"
AGAIN = 0.2  # seconds after which an interrupt that was lost is raised again
PATIENCE = 2.0  # seconds that a command has to leave things in order, before another Ctrl-C ends it as it is


class Interrupts:
    """Listens to Ctrl-C while inside, unless the program was started with it ignored."""

    def __init__(self, owns_process: bool) -> None:
        self.owns_process = owns_process  # which ends with the command
        self.came: float | None = None  # when the first one did
        self._is_ending = self._is_leaving = self._has_said = self._over = self._is_repeated = False
        self._before: Any = None
        self._hook = sys.unraisablehook

    def __enter__(self) -> "Interrupts":
        if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
            with suppress(ValueError):  # only the main thread may listen
                self._before = signal.signal(signal.SIGINT, self._hear)
                sys.unraisablehook = self._tell_unraisable
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        self._is_ending = True
        if self.came is None or error is None:
            self._stop()

    def end(self) -> int:
        """Say that the command was interrupted, while the exception that did it is handled; the exit status."""
        self._say()
        if self.owns_process:  # Python would go through modules that may be half imported, and tell what it finds
            with suppress(Exception):
                atexit._run_exitfuncs()
            self._leave()
        self._stop()
        return STATUS

    def _hear(self, number: int, frame: FrameType | None) -> None:
        if self._is_leaving:
            return
        repeated, self._is_repeated = self._is_repeated, False
        if self.owns_process and _is_import(frame):
            self._leave()
        if self.came is None:
            self.came = time.monotonic()
            _thread.start_new_thread(self._repeat, ())
        elif self._is_ending or _is_handled():
            if self.owns_process and not repeated and time.monotonic() - self.came > PATIENCE:
                self._leave()
            return
        raise KeyboardInterrupt

    def _repeat(self) -> None:
        while not self._over:
            time.sleep(AGAIN)
            self._is_repeated = True
            _thread.interrupt_main()

    def _tell_unraisable(self, what: Any) -> None:
        if self.came is None:
            self._hook(what)

    def _say(self) -> None:
        if not self._has_said:
            self._has_said = True
            with suppress(Exception):  # standard error may be closed, or not there
                if sys.stderr.isatty():
                    sys.stderr.write("\x1b[?25h\n")  # the cursor that a moving line has hidden, and after the ^C
                sys.stderr.write(LINE)

    def _leave(self) -> NoReturn:
        self._is_leaving = True
        self._say()
        for stream in (sys.stdout, sys.stderr):
            with suppress(Exception):
                stream.flush()
        os._exit(STATUS)

    def _stop(self) -> None:
        if self._before is not None and not self._over:
            self._over = True
            signal.signal(signal.SIGINT, signal.SIG_IGN if self.owns_process else self._before)
            sys.unraisablehook = self._hook


def _is_import(frame: FrameType | None) -> bool:
    while frame is not None and not frame.f_code.co_filename.startswith("<frozen importlib"):
        frame = frame.f_back
    return frame is not None


def _is_handled() -> bool:
    """Whether what runs now, below this call, is on its way out of an interrupt, whatever that has become."""
    error = sys.exc_info()[1]
    while error is not None and not isinstance(error, KeyboardInterrupt):
        error = error.__context__
    return error is not None
