"""Images that are decoded while a network trains: the same batches, no thread left behind, errors told."""

import itertools
import json
import threading
import time
from dataclasses import replace

import numpy as np
import pytest
import torch
from command_line import assert_done, complaints, oodbench
from data_files import write
from stand_ins import data_in, picture

from oodbench.config.recipe import Recipe
from oodbench.data import pictures as _pictures
from oodbench.data.pictures import Pictures
from oodbench.errors import UserError
from oodbench.learning.batches import Data, Split, WildMixture
from oodbench.learning.outputs import forward
from oodbench.learning.rows import Streamed, ahead, as_rows
from oodbench.results.folder import read_folder

CPU = torch.device("cpu")
RECIPE = Recipe(epochs=1, batch_size=8, lr=0.1)


def threads():
    return set(threading.enumerate())


def ended_since(before):
    """Whether no thread is left that was not there before, now or soon."""
    deadline = time.monotonic() + 60
    while threads() - before and time.monotonic() < deadline:
        time.sleep(0.01)
    return not threads() - before


def test_items_made_ahead_come_in_their_order_and_once():
    before = threads()
    assert list(ahead(iter(range(100)))) == list(range(100))
    assert list(ahead(iter([None, (), None]))) == [None, (), None]
    assert list(ahead(iter([]))) == []
    assert ended_since(before)


def test_items_are_made_while_the_ones_before_are_used_and_no_more_than_two_wait():
    made = []
    items = ahead(made.append(i) or i for i in itertools.count())
    assert not made  # nothing is begun before it is asked for
    assert next(items) == 0
    deadline = time.monotonic() + 60
    while len(made) < 4 and time.monotonic() < deadline:
        time.sleep(0.01)
    time.sleep(0.15)
    assert made == [0, 1, 2, 3]  # one used, two ready, one that finds no room
    items.close()


@pytest.mark.parametrize("error", [UserError("a broken image; get it again"), KeyboardInterrupt(), MemoryError("full")])
def test_an_error_of_the_thread_reaches_the_caller_after_what_came_before_it(error):
    def items():
        yield 1
        yield 2
        raise error

    before, seen = threads(), []
    with pytest.raises(type(error)) as caught:
        for item in ahead(items()):
            seen.append(item)
    assert caught.value is error and seen == [1, 2]
    assert ended_since(before)


@pytest.mark.parametrize("how", ["closed", "forgotten", "raised"])
def test_the_thread_ends_when_the_consumer_stops(how):
    before = threads()
    items = ahead(itertools.count())
    assert [next(items) for _ in range(3)] == [0, 1, 2] and len(threads() - before) == 1
    if how == "closed":
        items.close()
    elif how == "forgotten":
        del items
    else:
        with pytest.raises(RuntimeError):
            items.throw(RuntimeError("a loss that is not finite"))
    assert ended_since(before)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """60 pictures."""
    random = np.random.default_rng(0)
    return write(tmp_path_factory.mktemp("pictures"), {f"{i}.png": picture(random, side=8) for i in range(60)})


def pictures(folder, rows):
    return Pictures(folder, [f"{i}.png" for i in range(60)], 8, "squeezed", np.asarray(rows))


def test_streamed_rows_are_those_of_the_array_in_any_order(folder):
    streamed = as_rows(pictures(folder, range(60)))
    array = as_rows(pictures(folder, range(60)).read())
    assert isinstance(streamed, Streamed) and isinstance(array, torch.Tensor) and len(streamed) == 60
    rows = torch.tensor([5, 5, 0, 59])
    assert torch.equal(streamed.index_select(0, rows), array.index_select(0, rows))
    for ours, theirs in zip(streamed.split(25), array.split(25), strict=True):
        assert torch.equal(ours, theirs)


def both_ways(folder):
    """The same data streamed and in memory."""
    parts = [pictures(folder, rows) for rows in (range(30), range(30, 40), range(40, 50), range(50, 60))]
    y, env = torch.arange(30) % 3, torch.arange(30) % 2
    for labelled, *wild in (parts, [part.read() for part in parts]):
        mixture = WildMixture(*map(as_rows, wild), pi_c=0.3, pi_s=0.3)
        yield Data(Split(as_rows(labelled), y, env), 3, mixture)


@pytest.mark.parametrize("augment", ["none", "crop-flip", "resized-crop-flip"])
@pytest.mark.parametrize("environments", [True, False])
def test_streamed_batches_are_those_of_images_in_memory(folder, augment, environments):
    streamed, in_memory = both_ways(folder)
    if not environments:
        streamed, in_memory = (
            replace(each, labelled=replace(each.labelled, env=None)) for each in (streamed, in_memory)
        )
    recipe, before = replace(RECIPE, augment=augment), threads()
    for ours, theirs in zip(streamed.batches(recipe, 5, CPU), in_memory.batches(recipe, 5, CPU), strict=True):
        assert torch.equal(ours.x, theirs.x) and torch.equal(ours.y, theirs.y) and torch.equal(ours.wild, theirs.wild)
        assert (ours.env is None) == (not environments) and (ours.env is None or torch.equal(ours.env, theirs.env))
    assert ended_since(before)


def test_images_in_memory_need_no_thread(folder):
    _, in_memory = both_ways(folder)
    before, batches = threads(), in_memory.batches(RECIPE, 0, CPU)
    next(batches)
    assert not threads() - before


def test_a_network_sees_streamed_images_as_those_in_memory(folder, new_model):
    model = new_model()
    streamed = as_rows(pictures(folder, range(60)).then(lambda pixels, rows: pixels[:, :1], channels=1))
    array = torch.from_numpy(pictures(folder, range(60)).read()[:, :1])
    ours, theirs = forward(model, streamed, size=25), forward(model, array, size=25)
    assert torch.equal(ours.features, theirs.features) and torch.equal(ours.logits, theirs.logits)
    assert torch.equal(torch.cat(list(ours.inputs())), torch.cat(list(theirs.inputs())))


def test_a_picture_that_is_gone_is_told_by_the_next_batch(folder, tmp_path):
    write(tmp_path, {path.name: path.read_bytes() for path in folder.iterdir()})
    streamed, _ = both_ways(tmp_path)
    (tmp_path / "7.png").unlink()
    before = threads()
    with pytest.raises(UserError, match="7.png' is not an image that can be read"):
        list(streamed.batches(RECIPE, 0, CPU))
    assert ended_since(before)


def test_environments_that_change_pixels_need_them_in_memory(folder):
    streamed, in_memory = both_ways(folder)
    with pytest.raises(UserError, match="environments=augment needs images in memory, and these are streamed; choose"):
        streamed.with_environments("augment", seed=0)
    ours, theirs = (each.with_environments("random:3", seed=0).labelled.env for each in (streamed, in_memory))
    assert torch.equal(ours, theirs)


SUITE = """
title: Folders of pictures.
id: {{dataset: "folder:{folder}/known", size: 8}}
semantic:
  odd: {{dataset: "folder:{folder}/odd"}}
corruptions: digits_c
cpu_threads: 1
network: {{name: small-cnn, options: {{width: 4}}}}
recipes:
  scratch: {{epochs: 2, batch_size: 16, lr: 0.05, augment: crop-flip}}
  finetune: {{epochs: 1, batch_size: 16, lr: 0.01}}
defaults: {{covariate: contrast, severity: 3, pi_c: 0.3, pi_s: 0.3}}
settings: [{{semantic: odd}}]
"""


def test_a_run_that_streams_ends_with_the_same_bits_as_one_in_memory(tmp_path, monkeypatch):
    """On folders of the user's, with a mixture, augmentation and a trainer that starts from another."""
    random = np.random.default_rng(0)
    known = {f"known/{kind}/{i}.png": picture(random) for kind in "abc" for i in range(40)}
    write(tmp_path, known | {f"odd/{i}.png": picture(random) for i in range(40)})
    suite = tmp_path / "mine.yaml"
    suite.write_text(SUITE.format(folder=tmp_path))
    found = {}
    with data_in(tmp_path / "data"):
        for way, limit in (("memory", _pictures.CACHED_AT_MOST), ("streamed", 0)):
            monkeypatch.setattr(_pictures, "CACHED_AT_MOST", limit)
            before = threads()
            command = ["run", "--suite", suite, "--methods", "msp,odin,scone", "--results", tmp_path / way]
            assert_done(oodbench(*command))
            found[way] = {r.method: (r.key, r.weights, r.metrics, r.data) for r in read_folder(tmp_path / way)[0]}
            assert ended_since(before)
        kept = [path.name for path in (tmp_path / "data" / "kept").iterdir()]
    assert found["memory"] == found["streamed"] and len(found["memory"]) == 3
    assert any(name.startswith("folder-") for name in kept)
    text = next((tmp_path / "streamed").rglob("seed0-*.json")).read_text()
    assert str(tmp_path) not in text  # results tell what a folder was, not where
    assert json.loads(text)["data"]["parts"]["id"]["origin"] == "folder:known"


def test_a_run_whose_pictures_vanish_fails_its_cells_in_one_line(tmp_path, monkeypatch):
    random = np.random.default_rng(0)
    known = {f"known/{kind}/{i}.png": picture(random) for kind in "abc" for i in range(40)}
    write(tmp_path, known | {f"odd/{i}.png": picture(random) for i in range(40)})
    suite = tmp_path / "mine.yaml"
    suite.write_text(SUITE.format(folder=tmp_path))
    monkeypatch.setattr(_pictures, "CACHED_AT_MOST", 0)
    command = ["run", "--suite", suite, "--methods", "msp", "--results", tmp_path / "results"]
    with data_in(tmp_path / "data"):
        assert_done(oodbench(*command, "--dry-run"))  # it is indexed, and nothing looks at it again in this process
        for path in (tmp_path / "known" / "a").iterdir():
            path.unlink()
        outcome = oodbench(*command)
    (line,) = complaints(outcome)
    assert outcome.status == 1 and "is not an image that can be read" in line
    assert [r.status for r in read_folder(tmp_path / "results")[0]] == ["failed"]
