"""`oodbench fit` and then `oodbench predict`: a network of the user's, from folders of images to verdicts."""

import json
import re

import numpy as np
import pytest
import torch
from command_line import assert_done, assert_refused, oodbench
from PIL import Image
from sklearn.datasets import load_digits
from torch import nn

CODE = """
from torch import nn


def build():
    return nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1), nn.ReLU(), nn.AdaptiveAvgPool2d(4), nn.Flatten(), nn.Linear(128, 5)
    )
"""
KNOWN = 5  # digits; the others are semantic
NETWORK = ("--model", "net.py:build", "--weights", "net.pt", "--mean", "0.3", "--std", "0.35", "--size", "8")
IMAGES = ("--id", "folder:digits", "--semantic", "folder:others", "--covariate", "folder:noisy")


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A folder with a network that has learned five digits, and images of these, of noisy ones and of the others."""
    place = tmp_path_factory.mktemp("fit")
    digits = load_digits()
    pixels, y = (digits.images * 15.9).astype(np.uint8)[:900], digits.target[:900]
    noise = np.random.default_rng(0).normal(0, 60, pixels.shape)
    noisy = (pixels + noise).clip(0, 255).astype(np.uint8)
    for i, label in enumerate(y):
        known = label < KNOWN
        folder = place / ("digits" if known else "others") / (("train" if i < 500 else "test") if known else "")
        save(folder / (str(label) if known else "") / f"{i}.png", pixels[i])
        if known and i >= 500:
            save(place / "noisy" / str(label) / f"{i}.png", noisy[i])
    (place / "net.py").write_text(CODE)
    rows = np.flatnonzero(y[:500] < KNOWN)
    x = (torch.from_numpy(pixels[rows])[:, None].expand(-1, 3, -1, -1) / 255 - 0.3) / 0.35
    torch.manual_seed(0)
    space: dict[str, object] = {}
    exec(CODE, space)
    network = space["build"]()  # type: ignore[operator]
    optimizer = torch.optim.Adam(network.parameters(), 5e-3)
    for _ in range(120):
        optimizer.zero_grad()
        nn.functional.cross_entropy(network(x), torch.from_numpy(y[rows])).backward()
        optimizer.step()
    torch.save(network.state_dict(), place / "net.pt")
    return place


def save(path, pixels):
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(pixels).save(path)


@pytest.fixture
def place(made, monkeypatch, tmp_path):
    monkeypatch.setenv("OODBENCH_DATA", str(tmp_path / "data"))
    monkeypatch.chdir(made)
    return made


def test_predict_flags_of_each_set_what_fit_has_said(place, tmp_path):
    out = assert_done(oodbench("fit", *NETWORK, *IMAGES, "--scorer", "knn", "--out", tmp_path / "det"))
    said = dict(re.findall(r"^(id|noisy|others) .*?([\d.]+) %  ", out, re.MULTILINE))
    assert set(said) == {"id", "noisy", "others"} and float(said["id"]) <= 5.0 < float(said["others"])
    assert out.endswith(f"  oodbench predict {tmp_path}/det IMAGES --model net.py:build\n")
    for name, folder in (("id", "digits/test"), ("noisy", "noisy"), ("others", "others")):
        found = oodbench("predict", tmp_path / "det", folder, "--model", "net.py:build", "--format", "jsonl")
        rows = [json.loads(line) for line in found.out.splitlines()]
        flagged = sum(row["verdict"] == "OOD" for row in rows)
        assert found.status == 0 and f"{100 * flagged / len(rows):.1f}" == said[name]
        assert f"{flagged:,} of {len(rows):,} flagged as OOD ({said[name]} %)" in found.err
        if name == "id":
            right = [row["label"] == row["image"].split("/")[2] for row in rows]
            assert sum(right) > 0.9 * len(right)


def test_what_cannot_end_well_is_refused_before_anything_is_read(place, tmp_path):
    assert_refused(oodbench("fit", *NETWORK, *IMAGES, "--keep", "95", "--out", tmp_path / "det"), "--keep 95 is out of")
    (tmp_path / "mine").write_text("mine")
    assert_refused(
        oodbench("fit", *NETWORK, *IMAGES, "--out", tmp_path / "mine"), "exists and is not a detector's folder"
    )
    assert (tmp_path / "mine").read_text() == "mine"
