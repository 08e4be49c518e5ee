"""What a scorer has learned survives being stored, to the bit, for every scorer that is shipped."""

import json
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from torch import Tensor

from oodbench.config.cards import load_class
from oodbench.config.registry import Registry
from oodbench.errors import UserError
from oodbench.learning.fitted_state import restore, state_of
from oodbench.learning.method import Outputs, Scorer
from oodbench.learning.scoring import fit, forward_for, scores_of
from oodbench.testing.toy_problem import CLASSES, toy_images

SCORERS = sorted(name for name, card in Registry().cards.items() if card.kind == "Scorer" and card.is_ours)


@dataclass
class Holder(Scorer):
    """Holds whatever it is given."""

    k: int = 3

    def score(self, out: Outputs) -> Tensor:
        return out.logits[:, 0]


def stored_and_read(scorer: Any, into: Any) -> Any:
    """Through JSON and fresh tensors, as a file would have them."""
    tensors, plain = state_of(scorer)
    restore(into, {name: each.clone() for name, each in tensors.items()}, json.loads(json.dumps(plain)))
    return into


@pytest.mark.parametrize("name", SCORERS)
def test_a_restored_scorer_gives_the_same_scores_to_the_bit(name, toy_model, toy_data):
    kind = load_class(Registry().card(name))
    scorer, fresh = kind(), kind()
    toy_model.ood_head = torch.nn.Linear(toy_model.head.in_features, 1)  # for scorers that need one
    train = forward_for(scorer, toy_model, toy_data.labelled.images, toy_data.labelled.y)
    validation = None
    if "validation" in scorer.needs:
        validation = forward_for(scorer, toy_model, toy_data.id_validation, torch.arange(100) % CLASSES)
    fit(scorer, train, validation)
    images = toy_images(torch.arange(40) % (CLASSES + 2), seed=10)
    before = scores_of(scorer, forward_for(scorer, toy_model, images))
    stored_and_read(scorer, fresh)
    after = scores_of(fresh, forward_for(fresh, toy_model, images))
    assert torch.equal(before, after)
    assert before.dtype == after.dtype


def test_knn_has_its_bank_and_msp_nothing(toy_model, toy_data):
    knn, msp = (load_class(Registry().card(name))() for name in ("knn", "msp"))
    for scorer in (knn, msp):
        fit(scorer, forward_for(scorer, toy_model, toy_data.labelled.images, toy_data.labelled.y), None)
    assert {name: tuple(each.shape) for name, each in state_of(knn)[0].items()} == {"bank": (200, 16)}
    assert state_of(msp) == ({}, {})


def test_every_plain_value_comes_back_as_it_was():
    holder = Holder()
    holder.value = {  # type: ignore[attr-defined]
        "none": None, "yes": True, "one": 1, "half": 0.5, "third": 1 / 3, "text": "é\n", "large": 10**30,
        3: (1, 2.0, (None,)), 2.5: [1, [2, {}]], (1, 2): {4, 5}, None: frozenset({"a"}), "infinite": float("-inf"),
        True: [], "like a tensor": {"tensor": "bank"},
    }  # fmt: skip
    fresh = stored_and_read(holder, Holder())
    assert repr(fresh.value) == repr(holder.value)  # type: ignore[attr-defined]


def test_what_is_not_a_number_comes_back():
    holder = Holder()
    holder.value = float("nan")  # type: ignore[attr-defined]
    assert repr(stored_and_read(holder, Holder()).value) == "nan"


def test_hyperparameters_are_no_state():
    assert state_of(Holder(k=7)) == ({}, {})


@pytest.mark.parametrize(
    "dtype", [torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.int64, torch.bool, torch.complex128]
)
def test_the_type_of_a_tensor_is_kept(dtype):
    holder = Holder()
    holder.value = torch.tensor([0.0, 1.0, 1.0]).to(dtype)  # type: ignore[attr-defined]
    fresh = stored_and_read(holder, Holder())
    assert fresh.value.dtype == dtype and torch.equal(fresh.value, holder.value)  # type: ignore[attr-defined]


def test_a_tensor_that_is_held_twice_is_one_tensor_afterwards():
    holder, bank = Holder(), torch.arange(6.0)
    holder.bank, holder.again, holder.some = bank, {"it": bank}, [bank, bank.clone(), bank[:2]]  # type: ignore[attr-defined]
    tensors, _ = state_of(holder)
    assert list(tensors) == ["bank", "some", "some-1"]
    fresh = stored_and_read(holder, Holder())
    assert fresh.again["it"] is fresh.bank and fresh.some[0] is fresh.bank
    assert fresh.some[1] is not fresh.bank and torch.equal(fresh.some[1], fresh.bank)
    assert fresh.some[2].tolist() == [0.0, 1.0]


def test_tensors_are_not_copied():
    holder = Holder()
    holder.bank = torch.arange(6.0)  # type: ignore[attr-defined]
    assert state_of(holder)[0]["bank"] is holder.bank  # type: ignore[attr-defined]


class Odd:
    def __repr__(self):
        return "<odd>"


@pytest.mark.parametrize(
    ("value", "what"),
    [
        (Odd(), "<odd>, a Odd"),
        ([1, {"a": Odd()}], "<odd>, a Odd"),
        (torch.nn.ReLU(), r"ReLU\(\), a ReLU"),
        (torch.eye(2).to_sparse(), "a tensor of a rare kind"),
    ],
)
def test_anything_else_is_refused_with_class_and_attribute(value, what):
    holder = Holder()
    holder.thing = value  # type: ignore[attr-defined]
    with pytest.raises(UserError, match=f"^class Holder has learned what cannot be stored: 'thing' is {what}; let"):
        state_of(holder)


def test_a_list_that_holds_itself_is_refused():
    holder = Holder()
    holder.thing = []  # type: ignore[attr-defined]
    holder.thing.append(holder.thing)  # type: ignore[attr-defined]
    with pytest.raises(UserError, match="'thing' is lists in lists, more than 32 deep"):
        state_of(holder)


@pytest.mark.parametrize(
    "plain",
    [
        {"bank": {"tensor": "missing"}},
        {"bank": {"tensor": ["bank"]}},
        {"bank": {"pickle": "gASV"}},
        {"bank": [1, 2]},
        {"bank": {"list": 3}},
        {"bank": {"float": "1e9"}},
        {"bank": {"dict": [[{"list": []}, 1]]}},
        {"bank": {"dict": [[1, 2, 3]]}},
        {"bank": {"set": [{"list": []}]}},
        {"bank": {"list": [], "tuple": []}},
        {"k": 5},
    ],
)
def test_values_of_another_hand_are_refused(plain):
    with pytest.raises(ValueError):
        restore(Holder(), {"bank": torch.zeros(1)}, plain)
