"""The commands of docs/openood.md on made-up image lists and random weights, from lists to verdicts."""

import json
import re
import shlex
from pathlib import Path

import numpy as np
import pytest
import torch
from command_line import assert_done, assert_refused, oodbench
from openood_files import random_state, save_checkpoint, write_lists
from PIL import Image

from oodbench.learning.given_models import load_model
from oodbench.results.folder import read_folder
from oodbench.results.stored import read_scores

PAGE = Path(__file__).parents[2] / "docs" / "openood.md"


def commands():
    """The words of each command, without `oodbench`; two for each benchmark."""
    blocks = re.findall(r"```sh\n(.*?)```", PAGE.read_text(encoding="utf-8"), flags=re.S)
    lines = [line for block in blocks for line in block.replace("\\\n", " ").splitlines()]
    return [shlex.split(line)[1:] for line in lines]


@pytest.fixture
def downloaded(tmp_path, monkeypatch):
    """What a reader of the page has."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OODBENCH_DATA", str(tmp_path / "cache"))
    for name, classes in (("cifar10", 10), ("cifar100", 100)):
        write_lists(tmp_path / "data", name, classes)
        checkpoint = tmp_path / f"{name}_resnet18_32x32_base_e100_lr0.1_default" / "s0" / "best.ckpt"
        checkpoint.parent.mkdir(parents=True)
        save_checkpoint(checkpoint, random_state(classes))
    return tmp_path


def test_the_page_s_commands_for_cifar10_run_and_its_check_judges_what_they_leave(downloaded):
    evaluate, check = commands()[:2]
    assert_done(oodbench(*evaluate))
    results = read_folder(Path("openood-cifar10"))[0]
    assert len(results) == 10 * 6 and {each.status for each in results} == {"ok"}
    groups = results[0].config.suite.groups
    assert groups["near"] == ["test_cifar100", "test_tin"] and len(groups["far"]) == 4
    table = assert_done(oodbench("table", "openood-cifar10", "--format", "text"))
    assert "Average (near)" in table and "Average (far)" in table
    found = json.loads(oodbench(*check, "--json").out)
    places = {(cell["setting"], cell["row"]) for cell in found["cells"] if cell["measured"] is not None}
    assert len(places) == 10 * 2 + 1  # near and far of every scorer, and the accuracy
    assert found["counts"]["missing"] == 0 and "tuned there" not in found["counts"]

    msp = next(each for each in results if each.method == "msp" and each.config.setting.semantic == "test_tin")
    stored = read_scores(msp)["semantic"].scores
    np.testing.assert_allclose(stored, msp_of(downloaded, "test_tin"), rtol=1e-4)


def msp_of(downloaded, name):
    """Negated softmax maxima of a list's images, prepared as facts of OpenOOD say."""
    checkpoint = downloaded / "cifar10_resnet18_32x32_base_e100_lr0.1_default" / "s0" / "best.ckpt"
    module = load_model("openood:resnet18_32x32", checkpoint).module
    mean, std = torch.tensor((0.4914, 0.4822, 0.4465)), torch.tensor((0.2470, 0.2435, 0.2616))
    images = []
    for line in (downloaded / "data" / "benchmark_imglist" / "cifar10" / f"{name}.txt").read_text().splitlines():
        picture = Image.open(downloaded / "data" / "images_classic" / line.split()[0])
        wide = int(32 * picture.width / picture.height)  # the pictures lie down
        picture = picture.resize((wide, 32), Image.Resampling.BILINEAR)
        left = round((wide - 32) / 2)
        pixels = np.asarray(picture.crop((left, 0, left + 32, 32))).copy()
        images.append(((torch.from_numpy(pixels) / 255 - mean) / std).permute(2, 0, 1))
    with torch.no_grad():
        return -module(torch.stack(images)).softmax(dim=1).amax(dim=1).numpy()


def test_the_page_s_commands_for_cifar100_run_too(downloaded):
    evaluate, check = commands()[2:]
    assert_done(oodbench(*evaluate[:-1], "msp"))  # in place of ten scorers
    outcome = oodbench(*check)
    assert outcome.status == 1 and "openood:resnet18_32x32 on cifar100 (1 network)" in outcome.out


def test_a_list_that_names_what_is_not_there_is_refused_by_its_line(downloaded):
    where = downloaded / "data" / "benchmark_imglist" / "cifar10" / "test_tin.txt"
    where.write_text(where.read_text() + "tin/test/gone.png -1\n")
    assert_refused(oodbench(*commands()[0]), f"test_tin.txt:{len(where.read_text().splitlines())} names 'tin/test/gone")
    assert not Path("openood-cifar10").exists()
