"""How numbers are computed: float32, TF32 or bfloat16, compiled or not, and whether twice to the same bits."""

import os
import random
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from oodbench.errors import UserError
from oodbench.learning.networks import Classifier

SEED = 0  # of every component's random numbers, unless it seeds them itself; a training is seeded by its loop
AMPERE = (8, 0)  # the first CUDA capability with units for TF32 and bfloat16


class Bfloat16Classifier(Classifier):
    """Its body computes in bfloat16 where torch holds that safe; weights, features, head and logits are float32."""

    def features(self, x: Tensor) -> Tensor:
        with torch.autocast(x.device.type, torch.bfloat16):
            return super().features(x).float()

    def maps(self, x: Tensor) -> Tensor:
        with torch.autocast(x.device.type, torch.bfloat16):
            return super().maps(x)

    def pooled(self, maps: Tensor) -> Tensor:
        with torch.autocast(maps.device.type, torch.bfloat16):
            return super().pooled(maps).float()


def classifier(precision: str) -> type[Classifier]:
    return Bfloat16Classifier if precision == "bf16" else Classifier


def check(precision: str, device: torch.device) -> None:
    """Refuse what the device would not do, or would do more slowly than float32."""
    if precision == "fp32":
        return
    if device.type == "cuda":
        if torch.cuda.get_device_capability(device) < AMPERE:
            name = torch.cuda.get_device_name(device)
            raise UserError(f"{precision} needs a GPU of compute capability 8.0, and {name} has less; choose fp32")
    elif precision == "tf32":
        raise UserError(f"tf32 is arithmetic of CUDA devices, and this is '{device}'; choose --precision fp32")
    elif device.type != "cpu" or not _cpu_has_bfloat16():
        raise UserError(
            f"the device '{device}' has no bfloat16 arithmetic (AVX512-BF16 or AMX of a CPU); choose --precision fp32"
        )


def _cpu_has_bfloat16() -> bool:
    if hasattr(torch.cpu, "_is_avx512_bf16_supported") and hasattr(torch.cpu, "_is_amx_tile_supported"):
        return torch.cpu._is_avx512_bf16_supported() or torch.cpu._is_amx_tile_supported()
    try:  # an older torch, which does not tell
        flags = Path("/proc/cpuinfo").read_text().split()
    except OSError:
        return False
    return not {"avx512_bf16", "amx_bf16"}.isdisjoint(flags)


@contextmanager
def arithmetic(precision: str, deterministic: bool) -> Iterator[None]:
    """Set torch's switches while inside: TF32 or not; deterministic algorithms, or the fastest convolutions."""
    matmul, cudnn = torch.backends.cuda.matmul, torch.backends.cudnn
    before = matmul.allow_tf32, cudnn.allow_tf32, cudnn.benchmark
    on, warn_only = _deterministic()
    matmul.allow_tf32 = cudnn.allow_tf32 = precision == "tf32"
    cudnn.benchmark = not deterministic
    if deterministic:
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # cuBLAS refuses to be deterministic without
        torch.use_deterministic_algorithms(True)
    try:
        yield
    finally:
        matmul.allow_tf32, cudnn.allow_tf32, cudnn.benchmark = before
        if deterministic:  # else torch would import here what an interrupt has left half imported
            torch.use_deterministic_algorithms(on, warn_only=warn_only)


@contextmanager
def threads(count: int, device: torch.device) -> Iterator[None]:
    """As many as the key says, on a CPU; whoever called has as many as before."""
    before = torch.get_num_threads()
    if device.type == "cpu":
        torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@contextmanager
def nondeterminism_warns() -> Iterator[None]:
    """Nondeterminism is a warning while inside, and no error.

    For scorers: torch counts operations that may name any of several equal rows, whose values are the same.
    """
    on, warn_only = _deterministic()
    torch.use_deterministic_algorithms(on, warn_only=True)
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(on, warn_only=warn_only)


def _deterministic() -> tuple[bool, bool]:
    return torch.are_deterministic_algorithms_enabled(), torch.is_deterministic_algorithms_warn_only_enabled()


def compile_body(model: Classifier) -> None:
    """Let torch compile the body, in place: names of weights stay as they are."""
    model.body.compile()


@contextmanager
def fresh_state() -> Iterator[None]:
    """Random numbers begin anew, whatever ran before; afterwards they, threads and gradients are as they were.

    A plugin can change much more of torch and of the process, which therefore does nothing else.
    """
    states = torch.get_rng_state(), np.random.get_state(), random.getstate()
    gpus = torch.cuda.get_rng_state_all() if torch.cuda.is_initialized() else []
    threads, has_gradients = torch.get_num_threads(), torch.is_grad_enabled()
    torch.manual_seed(SEED)
    np.random.seed(SEED)
    random.seed(SEED)
    try:
        yield
    finally:
        torch.set_rng_state(states[0])
        np.random.set_state(states[1])
        random.setstate(states[2])
        if gpus:
            torch.cuda.set_rng_state_all(gpus)
        if torch.get_num_threads() != threads:
            torch.set_num_threads(threads)
        torch.set_grad_enabled(has_gradients)
