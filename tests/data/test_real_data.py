"""Suites on their real data, where it is there."""

from pathlib import Path

import numpy as np
import pytest
from command_line import assert_done, oodbench
from data_files import scratch, write
from stand_ins import data_in, picture
from test_real_suites import assert_kept_apart_and_in_proportion, every_setting

from oodbench.config import suite as suites
from oodbench.data import lookup, store
from oodbench.data.stored import Fetched
from oodbench.results.folder import read_folder


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 1])
@every_setting
def test_the_same_holds_for_the_real_data(name, setting, seed):
    suite = suites.load(name)
    for source in lookup.sources(suite, setting).values():
        data = lookup.dataset(source.dataset)
        if isinstance(data, Fetched) and not data.is_there():
            pytest.skip(f"'{data.name}' is not in '{store.data_folder()}'")
    assert_kept_apart_and_in_proportion(suite, setting, seed, batch_size=256, epochs=2)


@pytest.mark.slow
def test_cifar10_c_runs_beside_a_folder_of_jpegs_and_the_result_names_the_encoding(tmp_path):
    if store.entry("cifar10") is None:
        pytest.skip(f"'cifar10' is not in '{store.data_folder()}'; get it with: oodbench data get cifar10")
    real, random = store.data_folder().absolute() / "cifar10", np.random.default_rng(0)
    scenes = write(tmp_path / "scenes", {f"{i}.jpg": picture(random, side=32, kind="JPEG") for i in range(300)})
    command = ["run", "--suite", "cifar10-c", "--preset", "smoke", "--methods", "msp,scone", "--offline"]
    command += ["--semantic", f"folder:{scenes}", "--results", tmp_path / "results"]
    with scratch() as kept, data_in(kept):
        Path(kept, "cifar10").symlink_to(real)
        assert "note: 'scenes' holds JPEG files, 'cifar10' does not" in assert_done(oodbench(*command, "--dry-run"))
        out = assert_done(oodbench(*command, "--set", "id.jpeg=75"))
    assert "holds JPEG files" not in out
    found, problems = read_folder(tmp_path / "results")
    assert not problems and sorted(result.method for result in found) == ["msp", "scone"]
    for result in found:
        assert result.status == "ok" and result.setting == "scenes" and result.config.suite.id.jpeg == 75
        assert result.data.parts["id"].origin == "cifar10 jpeg-75"
        assert result.data.parts["covariate"].origin == "cifar10 jpeg-75 cifar_c.gaussian_noise-1"
        assert result.metrics["id_acc"] > 0.12  # chance is 0.1, and a smoke run learns little
