"""Whatever a component leaves behind, the next one finds torch, NumPy, the process and all code as they were."""

import gc
import locale
import os
import random
import signal
import sys
import warnings

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

from oodbench.config.cards import load_class
from oodbench.config.registry import Registry
from oodbench.learning import definitions, isolation, outputs
from oodbench.learning.networks import Classifier


class Doubling(torch.overrides.TorchFunctionMode):
    def __torch_function__(self, function, types, args=(), kwargs=None):
        return function(*args, **(kwargs or {}))


def _hook(module, inputs, output):
    return output * 2


DEEDS = {
    "threads": lambda: torch.set_num_threads(torch.get_num_threads() + 1),
    "default dtype": lambda: torch.set_default_dtype(torch.float64),
    "default device": lambda: torch.set_default_device("meta"),
    "matmul precision": lambda: torch.set_float32_matmul_precision("medium"),
    "matmul precision by its newer name": lambda: setattr(torch.backends.mkldnn.matmul, "fp32_precision", "bf16"),
    "mkldnn off": lambda: setattr(torch.backends.mkldnn, "enabled", False),
    "cudnn switches": lambda: setattr(torch.backends.cudnn, "benchmark", not torch.backends.cudnn.benchmark),
    "frozen switches": torch.backends.disable_global_flags,
    "deterministic": lambda: torch.use_deterministic_algorithms(True),
    "gradients off": lambda: torch.set_grad_enabled(False),
    "anomaly mode": lambda: torch.set_anomaly_enabled(True),
    "denormals flushed": lambda: torch.set_flush_denormal(True),
    "autocast": lambda: torch.set_autocast_enabled("cpu", True),
    "inference mode": lambda: isolation._entered.append(torch.inference_mode()) or isolation._entered[-1].__enter__(),
    "function mode": lambda: Doubling().__enter__(),
    "global hook": lambda: nn.modules.module.register_module_forward_hook(_hook),
    "torch's random numbers": lambda: torch.manual_seed(5),
    "NumPy's random numbers": lambda: np.random.seed(5),
    "Python's random numbers": lambda: random.seed(5),
    "NumPy's errors": lambda: np.seterr(all="raise"),
    "NumPy's printing": lambda: np.set_printoptions(precision=1),
    "folder": lambda: os.chdir("/"),
    "environment": os.environ.clear,
    "umask": lambda: os.umask(0o077),
    "warnings": lambda: warnings.simplefilter("error"),
    "import path": sys.path.clear,
    "standard output": lambda: setattr(sys, "stdout", None),
    "recursion limit": lambda: sys.setrecursionlimit(sys.getrecursionlimit() + 7),
    "garbage": gc.disable,
    "locale": lambda: locale.setlocale(locale.LC_ALL, "C" if locale.setlocale(locale.LC_ALL) != "C" else "C.UTF-8"),
    "a timer": lambda: signal.setitimer(signal.ITIMER_REAL, 1000),
    "saved tensors": lambda: torch.autograd.graph.saved_tensors_hooks(lambda x: x, lambda x: x).__enter__(),
    "what collecting garbage calls": lambda: gc.callbacks.append(lambda *_: None),
    "interrupts": lambda: signal.signal(signal.SIGINT, lambda *_: None),
}


def _state():
    def shown(read):
        try:
            return read()
        except RuntimeError as error:  # of switches that torch was given by two names
            return str(error)

    return [shown(read) for read, _ in isolation._settings()]


@pytest.mark.parametrize("deed", DEEDS)
def test_global_state_is_restored_after(deed):
    random_before = torch.get_rng_state(), random.getstate(), np.random.get_state()[1].copy()
    before = _state()
    with isolation.state_restored():
        within = _state()
        DEEDS[deed]()
        assert _state() != within, "the deed does nothing, so restoring it proves nothing"
    assert _state() == before
    torch.backends.cudnn.benchmark = torch.backends.cudnn.benchmark  # which nobody has forbidden
    after = torch.get_rng_state(), random.getstate(), np.random.get_state()[1]
    assert torch.equal(after[0], random_before[0]) and after[1] == random_before[1]
    assert np.array_equal(after[2], random_before[2])


def test_global_state_is_restored_after_an_exception():
    with pytest.raises(ZeroDivisionError), isolation.state_restored():
        torch.set_default_dtype(torch.float64)
        raise ZeroDivisionError
    assert torch.get_default_dtype() is torch.float32


def test_random_numbers_do_not_depend_on_what_ran_before():
    drawn = []
    for seed in (1, 2):
        torch.manual_seed(seed)
        np.random.seed(seed)
        random.seed(seed)
        with isolation.state_restored():
            drawn.append((torch.rand(1).item(), np.random.rand(), random.random()))
    assert drawn[0] == drawn[1]


def _knn():
    return load_class(Registry().card("knn"))


PATCHES = {
    "a function of torch": lambda: (torch, "logsumexp"),
    "a function of torch.nn.functional": lambda: (F, "softmax"),
    "a method of all tensors": lambda: (torch.Tensor, "__rsub__"),
    "a method of a layer": lambda: (nn.Linear, "forward"),
    "a function of NumPy": lambda: (np, "sort"),
    "the pass of the harness": lambda: (outputs, "forward"),
    "a method of another method": lambda: (_knn(), "score"),
    "a method of every network": lambda: (Classifier, "features"),
    "a function that is inherited": lambda: (torch.Tensor, "numpy"),
    "a constant of oodbench": lambda: (__import__("oodbench.results.metrics").results.metrics, "BINS"),
    "a built-in function": lambda: (__import__("builtins"), "sorted"),
    "the clock": lambda: (__import__("time"), "perf_counter"),
}


@pytest.mark.parametrize("what", PATCHES)
def test_a_patched_definition_is_put_back(what):
    owner, name = PATCHES[what]()
    original = getattr(owner, name)
    with definitions.restored():
        setattr(owner, name, lambda *_, **__: None)
        assert getattr(owner, name) is not original
    assert getattr(owner, name) is original


def test_a_default_of_another_method_is_put_back():
    knn = _knn()
    with definitions.restored():
        knn.needs = frozenset({"validation"})
    assert "validation" not in knn.needs


@pytest.mark.parametrize("part", ["__code__", "__defaults__"])
def test_a_function_that_is_changed_in_place_is_put_back(part):
    function = _knn().__init__
    original, other = getattr(function, part), {"__code__": (lambda self, k: None).__code__, "__defaults__": (1,)}
    with definitions.restored():
        setattr(function, part, other[part])
    assert getattr(function, part) is original


def test_a_method_that_hides_an_inherited_one_is_taken_away():
    with definitions.restored():
        Classifier.train = lambda self, mode=True: self
    assert "train" not in vars(Classifier)


@pytest.mark.parametrize("end", ["os._exit(0)", "os.execv('/bin/true', ['true'])", "__import__(os.name)._exit(0)"])
def test_code_that_is_not_ours_cannot_end_the_process_silently(end):
    before = os._exit, os.execv
    with pytest.raises(SystemExit), definitions.restored():
        eval(end)
    assert (os._exit, os.execv) == before


def test_a_child_of_such_code_may_end():
    with definitions.restored():
        child = os.fork()
        if child == 0:
            os._exit(7)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
