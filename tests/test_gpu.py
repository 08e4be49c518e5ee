"""Smoke tests on a GPU, `make test-gpu`: the same runs as on the CPU come to nearly the same metrics.

A GPU sums in another order, so weights differ in their last bits and a few of some 400 test images change sides. The
tolerances are shares of images that may do so; they were chosen without a GPU at hand, and are not a measured spread.
"""

import pytest
import torch
from command_line import assert_done, smoke

from oodbench.learning.precision import AMPERE
from oodbench.results.folder import read_folder

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(
        not torch.cuda.is_available(), reason="there is no CUDA device here; run this on a machine that has one"
    ),
]

DEVICE = "cuda"
METHODS = "erm,msp,knn,scone"
METRICS = ("id_acc", "covariate_acc", "auroc")
TOLERANCES = {"fp32": 0.03, "bf16": 0.06}


def metrics(folder, *more):
    """By setting and method."""
    assert_done(smoke(folder, METHODS, *more))
    found, problems = read_folder(folder)
    assert not problems and {each.status for each in found} == {"ok"}
    return {(each.setting, each.method): each for each in found}


@pytest.fixture(scope="module")
def on_cpu(tmp_path_factory):
    return metrics(tmp_path_factory.mktemp("cpu"), "--device", "cpu")


def assert_close(found, expected, tolerance):
    assert found.keys() == expected.keys()
    for place, result in found.items():
        assert result.device.startswith(DEVICE), "it did not run there"
        for name in METRICS:
            measured, wanted = result.metrics[name], expected[place].metrics[name]
            assert abs(measured - wanted) <= tolerance, f"{place}: {name} {measured:.4f}, on the CPU {wanted:.4f}"


@pytest.mark.parametrize("precision", TOLERANCES)
def test_a_gpu_comes_to_the_metrics_of_the_cpu(precision, on_cpu, tmp_path):
    if precision == "bf16" and torch.cuda.get_device_capability() < AMPERE:
        pytest.skip("this GPU has no bf16: its compute capability is below 8.0")
    found = metrics(tmp_path, "--device", DEVICE, "--precision", precision)
    assert_close(found, on_cpu, TOLERANCES[precision])


def test_a_compiled_network_comes_to_the_metrics_of_the_cpu(on_cpu, tmp_path):
    assert_close(metrics(tmp_path, "--device", DEVICE, "--compile"), on_cpu, TOLERANCES["fp32"])


def test_deterministic_runs_repeat_to_the_bit(tmp_path):
    first, second = (metrics(tmp_path / name, "--device", DEVICE, "--deterministic") for name in ("first", "second"))
    assert {place: each.metrics for place, each in first.items()} == {
        place: each.metrics for place, each in second.items()
    }
