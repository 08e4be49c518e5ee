"""Files of weights that users bring: what is read out of them, and what is said of those that do not fit."""

import zipfile

import pytest
import safetensors.torch
import torch
from torch import nn

from oodbench.errors import UserError
from oodbench.learning.initial_weights import read_weights
from oodbench.learning.networks import Classifier
from oodbench.learning.weight_files import load_into, read_tensors


def net(classes=3, hidden=4):
    torch.manual_seed(0)
    return nn.Sequential(nn.Conv2d(1, hidden, 3), nn.BatchNorm2d(hidden), nn.Flatten(), nn.Linear(4 * hidden, classes))


def same(some, others):
    return some.keys() == others.keys() and all(torch.equal(value, others[name]) for name, value in some.items())


def one_line(caught):
    return "\n" not in str(caught.value) and "; " in str(caught.value)


@pytest.mark.parametrize("name", ["mine.safetensors", "mine.bin", "mine.pt"])
def test_a_state_dictionary_is_read_whatever_its_format_and_its_name(tmp_path, name):
    state = net().state_dict()
    if name == "mine.pt":
        torch.save(state, tmp_path / name)
    else:
        safetensors.torch.save_file(state, tmp_path / name)
    assert same(read_tensors(tmp_path / name), dict(state))


WRAPPINGS = {
    "Lightning": lambda s: {"state_dict": {f"model.{k}": v for k, v in s.items()}, "epoch": 3, "loops": {}},
    "a tutorial": lambda s: {"model_state_dict": s, "optimizer_state_dict": {"state": {}}, "loss": 0.1},
    "several GPUs": lambda s: {"net": {f"module.{k}": v for k, v in s.items()}, "acc": 93.0},
    "compiled, on several GPUs": lambda s: {"model": {f"_orig_mod.module.{k}": v for k, v in s.items()}},
    "as a backbone": lambda s: {f"net.backbone.{k}": v for k, v in s.items()},
}


@pytest.mark.parametrize("wrapping", WRAPPINGS)
def test_what_a_trainer_put_around_the_weights_is_taken_off(tmp_path, wrapping):
    state, other = net().state_dict(), net()
    nn.init.zeros_(other[3].weight)
    torch.save(WRAPPINGS[wrapping](state), tmp_path / "mine.ckpt")
    load_into(other, read_tensors(tmp_path / "mine.ckpt"), tmp_path / "mine.ckpt")
    assert same(other.state_dict(), state)


def test_a_prefix_that_the_network_has_too_stays(tmp_path):
    class Wrapped(nn.Module):
        def __init__(self):
            super().__init__()
            self.model = net()

    state, other = {name: value + 1 for name, value in Wrapped().state_dict().items()}, Wrapped()
    load_into(other, state, tmp_path / "mine.pt")
    assert same(other.state_dict(), state)


def test_layers_under_other_names_are_told_by_their_order_kinds_and_shapes(tmp_path):
    state = net().state_dict()
    names = [
        "stem.weight",
        "stem.bias",
        *(f"norm.{name}" for name in list(nn.BatchNorm2d(4).state_dict())),
        "out.weight",
    ]
    theirs = dict(zip([*names, "out.bias"], state.values(), strict=True))
    other = net()
    nn.init.zeros_(other[0].weight)
    load_into(other, theirs, tmp_path / "mine.pt")
    assert same(other.state_dict(), state)


def test_counters_of_batches_may_be_missing(tmp_path):
    state = {name: value for name, value in net().state_dict().items() if not name.endswith("num_batches_tracked")}
    other = net()
    load_into(other, state, tmp_path / "mine.pt")
    assert torch.equal(other[0].weight, state["0.weight"])


def many(count):
    return {f"more.{index}": torch.zeros(1) for index in range(count)}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            lambda s: {k: v for k, v in s.items() if k != "3.bias"},
            "belongs to another network: it lacks '3.bias'; give the",
        ),
        (lambda s: {**s, **many(7)}, "it has 'more.0', 'more.1', 'more.2', 'more.3', 'more.4' and 2 more, which the"),
        (lambda s: {**s, "0.weight": torch.zeros(4, 3, 3, 3)}, "0.weight of shape 4 x 3 x 3 x 3 for 4 x 1 x 3 x 3; "),
        (
            lambda s: {**s, "3.weight": torch.zeros(7, 16), "3.bias": torch.zeros(7)},
            "has 7 classes, and the network has 3; build it for 7 classes, or give other weights with --weights",
        ),
    ],
)
def test_a_misfit_names_what_is_wrong_and_changes_nothing(tmp_path, change, message):
    module = net()
    before = {name: value.clone() for name, value in module.state_dict().items()}
    wrong = change({name: value + 1 for name, value in before.items()})
    with pytest.raises(UserError) as caught:
        load_into(module, wrong, tmp_path / "mine.pt")
    assert message in str(caught.value) and "mine.pt'" in str(caught.value) and one_line(caught)
    assert same(module.state_dict(), before)


def test_a_missing_file_names_the_option_it_was_given_by(tmp_path):
    with pytest.raises(UserError, match=r"there is no file '.*mine.pt'; --weights takes the weights of a trained"):
        read_tensors(tmp_path / "mine.pt")


@pytest.mark.parametrize("content", [b"", b"weights", bytes(range(200)), b"\x08\0\0\0\0\0\0\0{}"])
@pytest.mark.parametrize("name", ["mine.safetensors", "mine.pt"])
def test_a_damaged_file_is_told_in_one_line(tmp_path, name, content):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(UserError, match="is not a file of weights|holds no state dictionary") as caught:
        read_tensors(tmp_path / name)
    assert one_line(caught)


def test_a_cut_off_safetensors_file_is_told_to_be_damaged(tmp_path):
    path = tmp_path / "mine.safetensors"
    safetensors.torch.save_file(net().state_dict(), path)
    path.write_bytes(path.read_bytes()[:-5])
    with pytest.raises(UserError, match="is not a file of weights .*; it is damaged or not such a file: copy it again"):
        read_tensors(path)


def test_a_changed_bit_in_a_file_of_torch_is_found(tmp_path):
    path = tmp_path / "mine.pt"
    torch.save({"head.weight": torch.full((4, 3), 1.5)}, path)
    content = path.read_bytes()
    values = torch.full((4, 3), 1.5).numpy().tobytes()
    assert content.count(values) == 1
    path.write_bytes(content.replace(values, values[:-1] + b"\x40"))
    with pytest.raises(UserError, match=r"\(its checksums do not fit its contents\); it is damaged .*: copy it again"):
        read_tensors(path)


def test_values_that_are_said_to_be_a_folder_are_refused(tmp_path):
    """Which is a bit of the directory of the archive, that no checksum covers."""
    torch.save({"head.weight": torch.full((4, 3), 1.5)}, tmp_path / "mine.pt")
    with zipfile.ZipFile(tmp_path / "mine.pt") as stored, zipfile.ZipFile(tmp_path / "other.pt", "w") as changed:
        for member in stored.infolist():
            member.external_attr |= 0x10 if member.filename.endswith("data/0") else 0
            changed.writestr(member, stored.read(member.filename))
    with pytest.raises(UserError, match="copy it again"):
        read_tensors(tmp_path / "other.pt")


def test_a_folder_is_no_file_of_weights(tmp_path):
    with pytest.raises(UserError, match=r"is not a file of weights \(Is a directory\)"):
        read_tensors(tmp_path)


@pytest.mark.parametrize("contents", [{"epoch": 3}, [torch.zeros(2)], {}, {"a": torch.zeros(2), "b": 1}])
def test_a_file_without_a_state_dictionary_is_told(tmp_path, contents):
    torch.save(contents, tmp_path / "mine.pt")
    with pytest.raises(UserError, match=r"mine.pt' holds no state dictionary; save model.state_dict\(\)"):
        read_tensors(tmp_path / "mine.pt")


def test_a_pickled_network_is_refused_since_it_could_run_code(tmp_path):
    torch.save(net(), tmp_path / "mine.pt")
    with pytest.raises(UserError, match=r"save the tensors alone: torch.save\(model.state_dict\(\), FILE\)") as caught:
        read_tensors(tmp_path / "mine.pt")
    assert one_line(caught)


def test_tensors_that_claim_more_than_the_file_holds_are_refused(tmp_path):
    torch.save({"head.weight": torch.zeros(1).expand(10**6, 10**6)}, tmp_path / "mine.pt")
    with pytest.raises(UserError, match="claims tensors larger than the file"):
        read_tensors(tmp_path / "mine.pt")


NAMES = (("bomb.pt", "w"), ("mine.pt", "r"))


def test_a_file_that_unpacks_to_more_than_itself_is_refused(tmp_path):
    torch.save(net().state_dict(), tmp_path / "mine.pt")
    bomb, stored = (zipfile.ZipFile(tmp_path / name, mode, zipfile.ZIP_DEFLATED) for name, mode in NAMES)
    with bomb, stored:
        for member in stored.infolist():
            bomb.writestr(member.filename, stored.read(member))
        bomb.writestr("zeros", bytes(2**20))
    with pytest.raises(UserError, match="it unpacks to more than its own size"):
        read_tensors(tmp_path / "bomb.pt")


def test_init_takes_safetensors_too(tmp_path):
    model, other = (Classifier(nn.Flatten(), 16, 3, [0.5], [0.2]) for _ in range(2))
    safetensors.torch.save_file(model.state_dict(), tmp_path / "mine.safetensors")
    read_weights(other, tmp_path / "mine.safetensors")
    assert same(other.state_dict(), model.state_dict())
    with pytest.raises(UserError, match="--init takes the weights of a trained network"):
        read_weights(other, tmp_path / "none.pt")
