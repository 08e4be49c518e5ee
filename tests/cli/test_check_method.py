"""The contract for methods of others: `oodbench check-method FILE` and `oodbench.testing.check_method`."""

import sys
import textwrap
from pathlib import Path

import pytest
from command_line import assert_done, assert_refused, oodbench, python

from oodbench.config.cards import READS as WORDS
from oodbench.config.cards import folder, load_class
from oodbench.config.registry import Registry
from oodbench.errors import UserError
from oodbench.learning.method import Scorer
from oodbench.testing import Violation, check_method, checks, hints
from oodbench.testing.contract import RULES

HEAD = '''\
"""A. Author, A method, 2026."""

import random
from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
import torch.nn.functional as F

from oodbench import Scorer, Trainer, UserError


@dataclass
class Mine(BASE):
    """A method of mine."""

'''


@pytest.fixture
def method(tmp_path):
    """A function that writes a file with one class of these lines."""

    def write(base, *lines, name="mine.py"):
        path = tmp_path / name
        path.write_text(HEAD.replace("BASE", base) + textwrap.indent("\n".join(lines), "    ") + "\n")
        return path

    return write


READS = 'reads: ClassVar[str] = "logits"'
SCORE = "def score(self, out):\n    return -out.logits.amax(dim=-1)"
LOSS = "def loss(self, model, batch):\n    return F.cross_entropy(model(batch.x), batch.y)"
SCORER_SENTENCES = [rule.sentence for rule in RULES if rule.kind in ("", "Scorer")]
TRAINER_SENTENCES = [rule.sentence for rule in RULES if rule.kind in ("", "Trainer")]


def test_a_good_scorer_is_told_rule_by_rule(method):
    path = method("Scorer", READS, SCORE)
    assert assert_done(oodbench("check-method", path)).splitlines() == [f"ok: {each}" for each in SCORER_SENTENCES]
    assert check_method(path) == check_method(str(path)) == SCORER_SENTENCES


def test_a_scorer_that_does_not_say_what_it_reads_is_told_the_values(method):
    path = method("Scorer", SCORE)
    *rules, note = assert_done(oodbench("check-method", path)).splitlines()
    assert rules == [f"ok: {each}" for each in SCORER_SENTENCES]
    assert note.startswith("note: class Mine does not say what it reads, ") and all(f'"{r}"' in note for r in WORDS)
    assert hints(path) == [note.removeprefix("note: ")]


@pytest.mark.parametrize(
    ("base", "lines"),
    [
        ("Scorer", ['group: ClassVar[str] = "Ours"', SCORE]),
        ("Trainer", ["def loss(self, model, batch):\n    return F.cross_entropy(model(batch.x), batch.y)"]),
    ],
)
def test_a_scorer_with_a_group_of_its_own_and_a_trainer_need_not_say_what_they_read(base, lines, method):
    assert hints(method(base, *lines)) == []


def test_a_good_trainer_is_told_rule_by_rule(method):
    path = method("Trainer", "weight: float = 0.1", LOSS.replace("batch.y)", "batch.y, label_smoothing=self.weight)"))
    assert check_method(path) == TRAINER_SENTENCES


def test_a_class_may_be_given_in_place_of_its_file(method):
    path = method("Scorer", SCORE, name="another_one.py")
    sys.path.insert(0, str(path.parent))
    try:
        from another_one import Mine

        assert check_method(Mine) == SCORER_SENTENCES
    finally:
        sys.path.remove(str(path.parent))
        del sys.modules["another_one"]
    assert check_method(load_class(Registry().card("msp"))) == SCORER_SENTENCES


def test_a_scorer_that_needs_validation_images_gets_them(method):
    needs = 'needs: ClassVar[frozenset[str]] = frozenset({"validation"})'
    fit = "def fit(self, train, validation):\n    self.mean = validation.logits[validation.y == 0].mean(dim=0)"
    path = method("Scorer", needs, fit, "def score(self, out):\n    return (out.logits - self.mean).norm(dim=-1)")
    assert check_method(path) == SCORER_SENTENCES


def score(expression, *before):
    return "\n".join(["def score(self, out):", *(f"    {line}" for line in before), f"    return {expression}"])


def loss(expression, *before):
    return "\n".join(["def loss(self, model, batch):", *(f"    {line}" for line in before), f"    return {expression}"])


CE = "F.cross_entropy(model(batch.x), batch.y)"
COUNTS = f"""\
def train(self, model, data, loop):
    self.n = 0
    def loss(model, batch):
        self.n += 1
        return {CE} / self.n
    for _ in loop.epochs(model, data, loss):
        pass"""
BROKEN = [
    (
        "Scorer",
        [score("out.logits")],
        "'mine' breaks the rule that it fits the training rows and scores two rows: ",
        "mine.py:17: score gave shape (2, 5) for 2 rows; return a tensor of one number per row",
    ),
    ("Scorer", [score("out.logits[:, 7]")], "two rows: IndexError at ", "mine.py:18: index 7 is out of bounds"),
    ("Scorer", ["k: int = 3", SCORE], "'mine.k' breaks the rule that every hyperparameter changes the scores: 'k' has"),
    ("Scorer", [score("out.logits[:, 0] * 0")], "all rows have the same score"),
    ("Scorer", [score("out.logits[:, 0] / 0")], "some are not finite"),
    ("Scorer", [score("out.logits.argmax(dim=-1)")], "scores are torch.int64; return floating-point numbers"),
    ("Scorer", [score("out.logits[:, 0] - out.logits[:, 0].mean()")], "rows in batches of 7 score otherwise"),
    (
        "Scorer",
        ["def fit(self, train):\n    self.x = random.random()", score("out.logits[:, 0] + self.x")],
        "scoring and fitting again give the same scores: fitting again gives others",
    ),
    (
        "Scorer",
        [
            "def fit(self, train):\n    self.n = getattr(self, 'n', 0) + len(train.y)",
            score("out.logits[:, 0] * self.n"),
        ],
        "fitting again gives others",
    ),
    (
        "Scorer",
        ["def fit(self, train):\n    train.model.head.bias.zero_()", score("out.logits[:, 0]")],
        "change neither the model nor the outputs: weights, buffers, outputs or switches are others than before",
    ),
    (
        "Scorer",
        [score("x if out.y is None else x + out.y", "x = out.logits.amax(dim=-1)")],
        "labels are not read when scoring: with labels the scores are others",
    ),
    (
        "Scorer",
        [score("out.logits.amax(dim=-1) + torch.cat([x.mean(dim=(1, 2, 3)) for x in out.inputs()])")],
        "it needs images if, and only if, it goes back to them: it looks at images; ",
        'add "images" to needs of class Mine',
    ),
    (
        "Scorer",
        [score("out.logits.amax(dim=-1) + out.images.double().mean(dim=(1, 2, 3))")],
        "it looks at images; ",
    ),
    (
        "Scorer",
        ["needs: ClassVar[frozenset[str]] = frozenset({'images'})", score("out.rows(slice(None)).logits.amax(dim=-1)")],
        'it looks at no image; take "images" out of needs of class Mine',
    ),
    (
        "Scorer",
        [score("out.logits.amax(dim=-1) + torch.zeros(len(out.logits))")],
        "scores stay on the device of the tensors: RuntimeError at ",
        "mine.py:18: ",
        "make tensors on the device of those you are given",
    ),
    ("Scorer", [score("out.logits.amax(dim=-1).cpu()")], "they come back on the CPU; leave out .cpu()"),
    (
        "Scorer",
        [score("out.logits.softmax(dim=-1).amax(dim=-1)")],  # without its minus sign
        "images far from every class score higher than ID images: it scores ID higher than images that lie far from",
        ": higher must mean more OOD",
    ),
    (
        "Scorer",
        ["k: int = 3", "def fit(self, train):\n    self.k = min(self.k, 2)", score("out.logits[:, self.k]")],
        "",
    ),
    ("Scorer", ["def __post_init__(self):\n    self.n = 1", SCORE], "it also holds n; set that in fit or train"),
    ("Scorer", ["def __post_init__(self):\n    raise UserError('no; never')", SCORE], "no; never"),
    (
        "Scorer",
        ["needs = frozenset()", "needs |= {'validation'}", SCORE],
        "the class frozenset({'validation'}); ",
    ),
    ("Trainer", ['scorer: ClassVar[str] = "nosuch"'], "says scorer = 'nosuch': unknown method 'nosuch'"),
    ("Trainer", [loss("2 * value.detach() - value", f"value = {CE}")], "the loss falls: in twenty steps it does not"),
    (
        "Trainer",
        [loss("F.cross_entropy(model.head(model.features(batch.x).detach()), batch.y)")],
        "every trainable weight moves and stays finite: body.0.weight, ",
    ),
    ("Trainer", [loss(f"(1 + random.random()) * {CE}")], "the same seed gives others; draw from torch's global gen"),
    ("Trainer", [COUNTS], "ends with the same weights: it ends with others; hand all that it keeps between steps to"),
    (
        "Trainer",
        ["def train(self, model, data, loop):\n    super().train(model, data, loop)\n    model.train()"],
        "the network is left in training mode",
    ),
    (
        "Trainer",
        [loss(f"{CE} + 0 * (batch.y + torch.zeros(len(batch))).sum()")],
        "training stays on the device of the model: RuntimeError at ",
        "mine.py:18: ",
    ),
    ("Trainer", ["weight: float = 0.5", LOSS], "'weight' has no effect, whatever its value"),
    ("Trainer", [loss(f"{CE}.item()")], "mine.py:17: the loss is a float, not a tensor"),
]


@pytest.mark.parametrize(("base", "lines", "parts"), [(base, lines, parts) for base, lines, *parts in BROKEN])
def test_a_broken_rule_is_told_in_one_line_and_ends_with_status_1(base, lines, parts, method):
    path = method(base, *lines)
    outcome = oodbench("check-method", path)
    assert outcome.status == 1 and outcome.err.count("\n") == 1 and outcome.err.startswith("oodbench: 'mine"), outcome
    assert [part for part in parts if part not in outcome.err] == [], outcome.err
    assert all(line.startswith("ok: ") for line in outcome.out.splitlines())


def test_a_broken_rule_raises_from_python(method):
    with pytest.raises(Violation, match="^'mine.k' breaks the rule that every hyperparameter changes the sc"):
        check_method(method("Scorer", "k: int = 3", SCORE))
    assert issubclass(Violation, AssertionError)


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (["def score(self, out)"], "not valid Python"),
        (["k: list = None", SCORE], "mine.py:17: hyperparameter 'k' has the type list; say of what"),
        (["import nosuch_module", SCORE], "does not import: ModuleNotFoundError: No module named 'nosuch_module'"),
    ],
)
def test_a_file_that_cannot_be_used_ends_with_status_2(lines, message, method):
    assert_refused(oodbench("check-method", method("Scorer", *lines)), message)


def test_what_is_no_method_is_refused(tmp_path):
    (tmp_path / "empty.py").write_text("x = 1\n")
    assert_refused(oodbench("check-method", tmp_path / "empty.py"), "defines no class derived from Trainer or Scorer")
    assert_refused(oodbench("check-method", tmp_path / "missing.py"), "there is no file '", "give the path of")
    for cls in (int, type("Made", (Scorer,), {})):
        with pytest.raises(UserError, match=f"'{cls.__name__}' is no class derived from Trainer or Scorer in a file"):
            check_method(cls)


def test_a_file_of_ours_may_be_checked_as_anybody_s():
    assert next(checks(folder("methods") / "knn.py"))


def test_no_test_framework_is_needed(method):
    code = f"""
import sys
sys.modules["pytest"] = None
from oodbench.testing import check_method
print(len(check_method({str(method("Scorer", SCORE))!r})))
"""
    assert assert_done(python("-c", code, PYTHONPATH=str(Path(__file__).parents[2]))) == f"{len(SCORER_SENTENCES)}\n"
