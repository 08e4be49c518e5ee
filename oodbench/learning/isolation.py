"""The state of torch, NumPy and the process, which no component leaves otherwise than it was.

Whoever comes after a component computes as if it had never run. What components share is not dealt with here: each gets
copies of data and outputs (`lending`, `trained.training_data`), and functions that it replaces are in `definitions`.
"""

import gc
import locale
import os
import random
import signal
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from typing import Any

import numpy as np
import threadpoolctl
import torch
import torch.nn.modules.module as torch_module
from torch import overrides
from torch.utils import _python_dispatch as dispatch

from oodbench.files import umask

Setting = tuple[Callable[[], Any], Callable[[Any], object]]  # how it is read, and how it is set
# Attributes below `torch.backends`. The older names of a switch come before the newer ones, which they set too.
SWITCHES = (
    *("cudnn.enabled", "cudnn.benchmark", "cudnn.deterministic"),
    *("cudnn.allow_tf32", "cuda.matmul.allow_tf32", "mkldnn.enabled", "mkldnn.deterministic", "mkldnn.allow_tf32"),
    *("cuda.matmul.allow_fp16_reduced_precision_reduction", "cuda.matmul.allow_bf16_reduced_precision_reduction"),
    *("fp32_precision", "cuda.matmul.fp32_precision", "cudnn.conv.fp32_precision", "cudnn.rnn.fp32_precision"),
    *("mkldnn.matmul.fp32_precision", "mkldnn.conv.fp32_precision", "mkldnn.rnn.fp32_precision"),
    *("opt_einsum.enabled", "opt_einsum.strategy"),
)
SIGNALS = ("SIGINT", "SIGTERM", "SIGHUP", "SIGPIPE", "SIGALRM")
SEED = 0  # of every component's random numbers, unless it seeds them itself; a training is seeded by its loop

_entered: list[Any] = []  # inference modes that answer one left behind, which end if nobody refers to them


class State:
    """Torch, NumPy and the process as they are now."""

    def __init__(self) -> None:
        self._values = [(setting, setting[0]()) for setting in _settings()]

    def restore(self) -> None:
        for (read, restore), value in self._values:
            if not _is(read, value):
                restore(value)


@contextmanager
def state_restored() -> Iterator[None]:
    """Global state is afterwards what it was before; random numbers begin anew, whatever ran before."""
    before = State()
    torch.manual_seed(SEED)
    np.random.seed(SEED)
    random.seed(SEED)
    try:
        yield
    finally:
        before.restore()


def _is(read: Callable[[], Any], value: Any) -> bool:
    try:
        return bool(read() == value)
    except RuntimeError:  # torch reads no switch that was set by its older and its newer name
        return False


@cache
def _settings() -> tuple[Setting, ...]:
    """All that is restored; modes come last, since a default device is one of them."""
    return (
        (torch.backends.flags_frozen, _freeze_switches),  # first, since it forbids the others
        *(_switch(path) for path in SWITCHES if _has_switch(path)),
        *_torch_settings(),
        *_process_settings(),
        *((lambda lib=lib: lib.num_threads, lib.set_num_threads) for lib in _thread_pools()),
        *_random_states(),
        *_torch_modes(),
    )


def _freeze_switches(frozen: bool) -> None:
    """What torch offers only the one way."""
    torch.backends.flags_frozen.__globals__["__allow_nonbracketed_mutation_flag"] = not frozen


def _owner(path: str) -> Any:
    owner: Any = torch.backends
    for name in path.split(".")[:-1]:
        owner = getattr(owner, name)
    return owner


def _has_switch(path: str) -> bool:
    try:
        return hasattr(_owner(path), path.rpartition(".")[2])
    except (AttributeError, RuntimeError):  # an older torch
        return False


def _switch(path: str) -> Setting:
    owner, name = _owner(path), path.rpartition(".")[2]
    return lambda: getattr(owner, name), lambda value: setattr(owner, name, value)


def _torch_settings() -> tuple[Setting, ...]:
    def autocast(device: str) -> Setting:
        def restore(value: tuple[bool, torch.dtype]) -> None:
            torch.set_autocast_enabled(device, value[0])
            torch.set_autocast_dtype(device, value[1])

        return lambda: (torch.is_autocast_enabled(device), torch.get_autocast_dtype(device)), restore

    return (
        (torch.get_float32_matmul_precision, torch.set_float32_matmul_precision),
        (torch.get_num_threads, torch.set_num_threads),
        (torch.get_default_dtype, torch.set_default_dtype),
        (torch.get_deterministic_debug_mode, torch.set_deterministic_debug_mode),
        (torch.is_grad_enabled, torch.set_grad_enabled),
        (torch.is_anomaly_enabled, torch.set_anomaly_enabled),
        (_flushes_denormals, torch.set_flush_denormal),
        autocast("cpu"),
        autocast("cuda"),
        (_global_hooks, _set_global_hooks),
    )


def _flushes_denormals() -> bool:
    """Torch sets this, in the processor, and cannot tell it."""
    tiny = torch.tensor([5e-324], dtype=torch.float64)
    return bool((tiny + tiny).item() == 0.0)


def _global_hooks() -> dict[str, dict[Any, Any]]:
    """Of every module there is, by the names of torch's dictionaries."""
    every = vars(torch_module).items()
    return {name: dict(hooks) for name, hooks in every if name.startswith("_global_") and isinstance(hooks, dict)}


def _set_global_hooks(before: dict[str, dict[Any, Any]]) -> None:
    for name, hooks in before.items():
        current = getattr(torch_module, name)
        current.clear()
        current.update(hooks)


def _torch_modes() -> tuple[Setting, ...]:
    def leave_inference(value: bool) -> None:
        _entered.append(torch.inference_mode(value))
        _entered[-1].__enter__()

    def set_device(value: torch.device) -> None:
        torch.set_default_device(None if value.type == "cpu" else value)

    def pop(length: Callable[[], int], pop_mode: Callable[[], object]) -> Setting:
        def restore(before: int) -> None:
            while length() > before:
                pop_mode()

        return length, restore

    return (
        (torch.is_inference_mode_enabled, leave_inference),
        (_hooks_saved_tensors, _unhook_saved_tensors),
        (torch.get_default_device, set_device),
        pop(overrides._len_torch_function_stack, overrides._pop_mode),  # type: ignore[attr-defined]
        pop(dispatch._len_torch_dispatch_stack, dispatch._pop_mode),  # type: ignore[attr-defined]
    )


def _hooks_saved_tensors() -> bool:
    return torch._C._autograd._top_saved_tensors_default_hooks(False) is not None


def _unhook_saved_tensors(before: bool) -> None:
    while not before and _hooks_saved_tensors():
        torch._C._autograd._pop_saved_tensors_default_hooks()


def _random_states() -> tuple[Setting, ...]:
    """As bytes and tuples, which can be compared."""

    def set_torch(value: bytes) -> None:
        torch.set_rng_state(torch.frombuffer(bytearray(value), dtype=torch.uint8))

    def numpy_state() -> tuple[Any, ...]:
        state: Any = np.random.get_state()
        kind, keys, *rest = state
        return (kind, keys.tobytes(), *rest)

    def set_numpy(value: tuple[Any, ...]) -> None:
        np.random.set_state((value[0], np.frombuffer(value[1], dtype=np.uint32), *value[2:]))

    def cuda_states() -> list[bytes]:
        return (
            [each.numpy().tobytes() for each in torch.cuda.get_rng_state_all()] if torch.cuda.is_initialized() else []
        )

    def set_cuda(values: list[bytes]) -> None:
        if values:
            torch.cuda.set_rng_state_all([torch.frombuffer(bytearray(each), dtype=torch.uint8) for each in values])

    return (
        (lambda: torch.get_rng_state().numpy().tobytes(), set_torch),
        (numpy_state, set_numpy),
        (random.getstate, random.setstate),
        (cuda_states, set_cuda),
    )


def _thread_pools() -> list[Any]:
    """Of BLAS and OpenMP, whose numbers of threads NumPy and SciPy compute with."""
    return list(threadpoolctl.ThreadpoolController().lib_controllers)


def _process_settings() -> tuple[Setting, ...]:
    def set_environment(value: dict[str, str]) -> None:
        os.environ.clear()
        os.environ.update(value)

    def set_filters(value: list[Any]) -> None:
        warnings.resetwarnings()  # which also forgets what follows from the filters
        warnings.filters[:] = value  # type: ignore[index]  # a list, which typeshed calls a sequence

    def set_path(value: list[str]) -> None:
        sys.path[:] = value

    def set_streams(value: tuple[Any, ...]) -> None:
        sys.stdin, sys.stdout, sys.stderr = value

    return (
        (_folder, lambda value: os.chdir(value) if value is not None else None),
        (lambda: dict(os.environ), set_environment),
        (umask, os.umask),
        (lambda: list(warnings.filters), set_filters),
        (lambda: list(sys.path), set_path),
        (lambda: (sys.stdin, sys.stdout, sys.stderr), set_streams),
        (sys.getrecursionlimit, sys.setrecursionlimit),
        (gc.isenabled, lambda value: gc.enable() if value else gc.disable()),
        (lambda: locale.setlocale(locale.LC_ALL), lambda value: locale.setlocale(locale.LC_ALL, value)),
        (np.geterr, lambda value: np.seterr(**value)),
        (np.geterrcall, np.seterrcall),
        (np.get_printoptions, lambda value: np.set_printoptions(**value)),
        (lambda: list(gc.callbacks), _set_gc_callbacks),
        (_signal_handlers, _set_signal_handlers),
        (_has_timer, _stop_timer),
    )


def _set_gc_callbacks(before: list[Any]) -> None:
    gc.callbacks[:] = before


def _has_timer() -> bool:
    return hasattr(signal, "getitimer") and signal.getitimer(signal.ITIMER_REAL) != (0.0, 0.0)


def _stop_timer(before: bool) -> None:
    if not before:
        signal.setitimer(signal.ITIMER_REAL, 0)


def _folder() -> str | None:
    with suppress(FileNotFoundError):  # deleted under our feet
        return os.getcwd()
    return None


def _signal_handlers() -> dict[int, Any]:
    known = [getattr(signal, name) for name in SIGNALS if hasattr(signal, name)]
    return {each: signal.getsignal(each) for each in known}


def _set_signal_handlers(before: dict[int, Any]) -> None:
    if threading.current_thread() is threading.main_thread():  # nobody else may
        for each, handler in before.items():
            if handler is not None:  # set by other means than Python's
                signal.signal(each, handler)
