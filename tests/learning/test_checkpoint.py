"""What a training goes on from: its own checkpoint, whole; anything else is passed over and said."""

import io
import shutil
import zipfile

import pytest
import torch

from oodbench.config.recipe import Recipe
from oodbench.learning.checkpoint import Saver, load_tensors, save_tensors
from oodbench.learning.loop import Loop, Observer
from oodbench.learning.method import Trainer

CPU = torch.device("cpu")
EPOCHS = 4


class Stopped(Exception):
    pass


def stop_after(epochs):
    """A listener that ends a training once it has so many epochs behind it."""
    seen = []

    def observe(model, loop):
        seen.append(model)
        if len(seen) > epochs:
            raise Stopped
        return {"validation": {}, "test": {}}

    return Observer("domains", observe)


def train(model, data, checkpoint=None, observe=None, seed=0, optimizer="sgd", epochs=EPOCHS):
    """The weights after training, and what was said."""
    said = []
    recipe = Recipe(epochs=epochs, batch_size=50, lr=0.05, optimizer=optimizer)
    loop = Loop(recipe, seed, CPU, checkpoint, observers=[observe or stop_after(100)], say=said.append)
    Trainer().train(model, data, loop)
    return model.state_dict(), loop.log, said


def equal(ours, theirs):
    return ours.keys() == theirs.keys() and all(torch.equal(ours[name], theirs[name]) for name in ours)


@pytest.fixture(params=["sgd", "adam"])
def optimizer(request):
    return request.param


@pytest.fixture
def checkpoint(tmp_path, new_model, toy_data, optimizer):
    """Of a training that was stopped in its third epoch."""
    path = tmp_path / "0123.ckpt"
    with pytest.raises(Stopped):
        train(new_model(), toy_data, path, stop_after(2), optimizer=optimizer)
    assert torch.load(path, weights_only=True)["epoch"] >= 1
    return path


@pytest.fixture
def whole(new_model, toy_data, optimizer):
    return train(new_model(), toy_data, optimizer=optimizer)


def change(path, **values):
    """The checkpoint written anew with other contents, under the right digest."""
    contents = torch.load(path, weights_only=True)
    del contents["digest"]
    made = {name: value(contents[name]) if callable(value) else value for name, value in values.items()}
    save_tensors(path, {**contents, **made})


def model_with(**values):
    """A change of the network's state, the first of the three."""

    def changed(state):
        model = {name: value for name, value in {**state[0], **values}.items() if value is not None}
        return [model, *state[1:]]

    return changed


def optimizer_with(change):
    def changed(state):
        change(state[-1])
        return state

    return changed


def first_buffer(state, value):
    own = next(iter(state["state"].values()))
    own[next(name for name, each in own.items() if isinstance(each, torch.Tensor) and each.ndim)] = value


DAMAGES = {
    "of another training's name": {"training": "4567.ckpt"},
    "of another seed": {"seed": 1},
    "of a longer training": {"epochs": EPOCHS + 1},
    "with text for an epoch": {"epoch": "2"},
    "with an epoch that is true": {"epoch": True},
    "before its beginning": {"epoch": -1},
    "after its end": {"epoch": EPOCHS + 1},
    "without a log": {"log": None},
    "with a log of numbers": {"log": [1, 2]},
    "without the optimizer": {"state": lambda state: state[:-1]},
    "with a state that is none": {"state": 3},
    "with a network that is a number": {"state": lambda state: [1, *state[1:]]},
    "without a bias": {"state": model_with(**{"head.bias": None})},
    "with a surplus weight": {"state": model_with(surplus=torch.ones(3))},
    "with weights of another shape": {"state": model_with(**{"head.bias": torch.ones(99)})},
    "with weights of another type": {"state": lambda s: model_with(**{"head.bias": s[0]["head.bias"].double()})(s)},
    "with momentum of another shape": {"state": optimizer_with(lambda own: first_buffer(own, torch.ones(2, 3)))},
    "with momentum that is text": {"state": optimizer_with(lambda own: first_buffer(own, "fast"))},
    "with momentum for no parameter": {"state": optimizer_with(lambda own: own["state"].update({999: {}}))},
    "with a rate that is text": {"state": optimizer_with(lambda own: own["param_groups"][0].update(lr="0.1"))},
    "with a group too many": {"state": optimizer_with(lambda own: own["param_groups"].append({}))},
}


@pytest.mark.parametrize("optimizer", ["sgd"], indirect=True)
@pytest.mark.parametrize("damage", DAMAGES)
def test_a_checkpoint_that_does_not_fit_is_passed_over_and_said(damage, checkpoint, whole, new_model, toy_data):
    change(checkpoint, **DAMAGES[damage])
    weights, log, said = train(new_model(), toy_data, checkpoint)
    assert equal(weights, whole[0]) and log == whole[1]
    (line,) = said
    assert line.startswith(f"the checkpoint '{checkpoint}' ") and line.endswith("; the training starts over")


def test_a_checkpoint_that_fits_is_gone_on_from_and_says_where(checkpoint, whole, new_model, toy_data, optimizer):
    change(checkpoint, log=lambda log: [{**log[0], "mark": 1.0}, *log[1:]])
    weights, log, said = train(new_model(), toy_data, checkpoint, optimizer=optimizer)
    assert equal(weights, whole[0]) and said == ["resumes at epoch 2 of 4"]
    assert log[0].pop("mark") == 1.0 and log == whole[1]


def test_a_checkpoint_copied_from_another_training_is_refused(checkpoint, whole, new_model, toy_data, optimizer):
    other = checkpoint.with_name("4567.ckpt")
    shutil.copy(checkpoint, other)
    weights, _, said = train(new_model(), toy_data, other, optimizer=optimizer)
    assert equal(weights, whole[0])
    assert said == [f"the checkpoint '{other}' belongs to another training; the training starts over"]


def repacked(path, change):
    """The archive with other members, under checksums that are right."""
    packed = io.BytesIO()
    with zipfile.ZipFile(path) as before, zipfile.ZipFile(packed, "w") as after:
        for member in before.infolist():
            after.writestr(member.filename, change(member.filename, before.read(member)))
    path.write_bytes(packed.getvalue())


def test_a_bit_flipped_under_the_right_checksum_is_noticed(checkpoint, whole, new_model, toy_data, optimizer):
    repacked(checkpoint, lambda name, c: bytes([c[0] ^ 1]) + c[1:] if name.endswith("data/0") else c)
    assert torch.load(checkpoint, weights_only=True)["epoch"] >= 1
    weights, _, said = train(new_model(), toy_data, checkpoint, optimizer=optimizer)
    assert equal(weights, whole[0])
    assert said == [f"the checkpoint '{checkpoint}' is damaged, or from another version; the training starts over"]


class Fragile:
    """A state that refuses what it is given once something else was loaded."""

    def state_dict(self):
        return {"a": 1}

    def load_state_dict(self, values):
        if values != {"a": 1}:
            raise KeyError("no")


def test_nothing_is_left_half_loaded(tmp_path):
    path, first, log = tmp_path / "a.ckpt", torch.nn.Linear(2, 2), []
    Saver(path, [first, Fragile()], log, seed=0, epochs=3).save(1, always=True)
    change(path, state=lambda state: [state[0], {"a": 2}])
    second = torch.nn.Linear(2, 2)
    before, said = second.weight.clone(), []
    assert Saver(path, [second, Fragile()], log, seed=0, epochs=3).restore(CPU, said.append) == 0
    assert torch.equal(second.weight, before) and "cannot be loaded (KeyError)" in said[0] and log == []


# Files of tensors


def stored(tmp_path, contents):
    save_tensors(tmp_path / "a.pt", contents)
    return load_tensors(tmp_path / "a.pt", CPU)


def test_what_is_saved_is_read_back(tmp_path):
    contents = {"a": torch.rand(3, 2).t(), "b": [1, 2.5, None, True, "x", (1, 2)], "c": {0: torch.zeros(0), "d": {}}}
    found = stored(tmp_path, contents)
    assert torch.equal(found["a"], contents["a"]) and found["b"] == contents["b"] and found["c"]["d"] == {}
    assert len(found["digest"]) == 16


@pytest.mark.parametrize(
    "rare",
    [
        torch.ones(1).expand(10**12),
        torch.eye(3).to_sparse(),
        torch.ones(3, device="meta"),
    ],
    ids=["far larger than its storage", "sparse", "meta"],
)
def test_tensors_of_rare_kinds_are_not_read(rare, tmp_path):
    torch.save({"a": rare}, tmp_path / "a.pt")
    assert load_tensors(tmp_path / "a.pt", CPU) is None


def test_compressed_archives_and_the_older_format_are_not_read(tmp_path):
    path = tmp_path / "a.pt"
    torch.save({"a": torch.zeros(1000)}, path)
    with zipfile.ZipFile(path) as before, zipfile.ZipFile(tmp_path / "b.pt", "w", zipfile.ZIP_DEFLATED) as after:
        for member in before.infolist():
            after.writestr(member.filename, before.read(member))
    assert load_tensors(path, CPU) is not None and load_tensors(tmp_path / "b.pt", CPU) is None
    torch.save({"a": torch.zeros(1000)}, tmp_path / "c.pt", _use_new_zipfile_serialization=False)
    with zipfile.ZipFile(tmp_path / "c.pt", "a") as behind:
        behind.writestr("x", b"")
    assert load_tensors(tmp_path / "c.pt", CPU) is None
