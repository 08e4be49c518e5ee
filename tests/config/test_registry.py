"""Methods by name: the folder, plugin files and installed packages; what is wrong with one is told in one line."""

import re
import sys
import textwrap

import pytest
from command_line import assert_done, assert_refused, complaints, oodbench, process, smoke

from oodbench import read_results
from oodbench.config import identity
from oodbench.config.cards import catalogue, folder
from oodbench.config.registry import Registry, display_names
from oodbench.errors import UserError
from oodbench.report import labels

SCORER = '''\
"""A. Author, Scores by one logit, 2026."""

from dataclasses import dataclass

from torch import Tensor

from oodbench import Outputs, Scorer


@dataclass
class Mine(Scorer):
    """The logit of one class, negated."""

    column: int = 0  # which class

    def score(self, out: Outputs) -> Tensor:
        return -out.logits[:, self.column]
'''

TRAINER = '''\
"""A. Author, Labels smoothed, 2026."""

from dataclasses import dataclass

import torch.nn.functional as F

from oodbench import Trainer


@dataclass
class Smooth(Trainer):
    """Cross-entropy with smoothed labels."""

    smoothing: float = 0.1

    def loss(self, model, batch):
        return F.cross_entropy(model(batch.x), batch.y, label_smoothing=self.smoothing)
'''


@pytest.fixture
def plugin(tmp_path):
    """A function that writes a plugin, by default the scorer above, with one text in place of another."""

    def write(old="", new="", text=SCORER, name="my_scorer.py"):
        assert not old or text.count(old) == 1
        path = tmp_path / name
        path.write_text(text.replace(old, new) if old else text, encoding="utf-8")
        return path

    return write


@pytest.fixture
def results(tmp_path):
    return tmp_path / "results"


def refusal(function, *arguments) -> str:
    with pytest.raises(UserError) as caught:
        function(*arguments)
    return str(caught.value)


def listed(outcome):
    """The lines of a list, whose columns are as wide as the longest name asks for."""
    return [" ".join(line.split()) for line in assert_done(outcome).splitlines()]


def test_the_folder_is_the_registry():
    files = [path for path in folder("methods").glob("*.py") if not path.stem.startswith("_")]
    ours = {name for name, card in Registry().cards.items() if card.is_ours}
    assert ours == {path.stem.replace("_", "-") for path in files}


@pytest.mark.parametrize("package", ["datasets", "networks"])
def test_every_data_set_and_network_is_described(package):
    cards = catalogue(package)
    assert cards and all(name == card.name and card.summary.endswith(".") for name, card in cards.items())


def test_a_name_is_a_trainer_with_its_scorer_or_a_scorer_on_erm_or_a_pair(plugin):
    registry = Registry([plugin(text=TRAINER, name="smooth.py")])

    def parts(name):
        method = registry.method(name)
        return method.name, method.trainer.card.name, method.scorer.card.name, method.group

    assert parts("erm") == ("erm", "erm", "energy", "OOD generalization")
    assert parts("knn") == ("knn", "erm", "knn", "OOD detection")
    assert parts("erm+knn") == parts("knn")
    assert parts("smooth") == ("smooth", "smooth", "energy", "OOD generalization")
    assert parts(" smooth + knn ") == ("smooth+knn", "smooth", "knn", "OOD generalization")


@pytest.mark.parametrize("name", ["msp+knn", "knn+erm", "erm+erm", "erm+msp+knn", "erm+", "+knn", "+"])
def test_what_is_no_pair_of_trainer_and_scorer_is_refused(name):
    message = f"'{name}' is not a method; a pair is written trainer+scorer, for example 'mixup+knn'"
    assert refusal(Registry().method, name) == message


def test_an_unknown_half_of_a_pair_is_named():
    assert refusal(Registry().method, "erm+knnn") == "unknown method 'knnn'; did you mean 'knn'?"


def test_a_changed_hyperparameter_shows_in_the_label_and_its_default_does_not(plugin):
    registry = Registry([plugin(text=TRAINER, name="smooth.py")])
    knn, pair = registry.method("knn"), registry.method("smooth+knn")
    assert knn.with_value("knn", "k", "5").label == "knn,k=5"
    assert knn.with_value("knn", "k", "5").with_value("knn", "k", "50").label == "knn"
    assert pair.with_value("knn", "k", "5").with_value("smooth", "smoothing", "2e-1").label == (
        "smooth+knn,smooth.smoothing=0.2,knn.k=5"
    )
    assert knn.with_value("vim", "dim", "3") == knn


def test_a_scorer_plugin_runs_end_to_end(plugin, results):
    out = assert_done(smoke(results, "msp,my-scorer", "--plugin", plugin(), "--set", "my_scorer.column=2"))
    assert "unseen-digits / my-scorer,column=2 / seed 0: OOD Acc. " in out
    assert len(list(results.glob("*/*/my-scorer,column=2/seed0-*.json"))) == 2
    assert "my-scorer (column=2)" in assert_done(oodbench("table", results))


def test_a_trainer_plugin_runs_end_to_end_also_under_other_scorers(plugin, results):
    path = plugin(text=TRAINER, name="smooth.py")
    out = assert_done(smoke(results, "smooth,smooth+knn", "--plugin", path, "--set", "smooth.smoothing=0.2"))
    assert "4 cells, 0 done already, 4 to run in 1 training;" in out
    assert "[1/1] smooth,smoothing=0.2, seed 0" in out
    assert "photo-patches / smooth+knn,smooth.smoothing=0.2 / seed 0: OOD Acc. " in out
    table = assert_done(oodbench("table", results))
    assert "Smooth + KNN (smooth.smoothing=0.2)" in table and "*OOD generalization*" in table


def test_a_plugin_prints_as_its_author_spells_it_and_in_a_group_of_its_own(plugin, results):
    line = "    column: int = 0  # which class\n"
    path = plugin(line, f'    display = "My *scorer*"\n    group = "Ours"\n\n{line}')
    assert_done(smoke(results, "my-scorer,mixup+my-scorer,msp", "--plugin", path, "--set", "my_scorer.column=2"))
    rows = [line.split("|")[1].strip() for line in assert_done(oodbench("table", results)).splitlines() if "|" in line]
    assert [row for row in rows if row][2:] == [
        "*OOD detection: logits*", "MSP", "*OOD generalization*", r"Mixup + My \*scorer\* (my-scorer.column=2)",
        "*Ours*", r"My \*scorer\* (column=2)",
    ]  # fmt: skip
    assert {r.config.method.display for r in read_results(results)} == {"My *scorer*", "Mixup + My *scorer*", "MSP"}


def test_a_plugin_is_grouped_by_what_it_says_it_reads_and_else_stands_with_all_detection(plugin, results):
    line = "    column: int = 0  # which class\n"
    path, other = plugin(line, f'    reads = "logits"\n\n{line}'), plugin(name="silent.py")
    assert_done(smoke(results, "silent,knn,my-scorer,msp", "--plugin", path, "--plugin", other))
    rows = [line.split("|")[1].strip() for line in assert_done(oodbench("table", results)).splitlines() if "|" in line]
    assert [row for row in rows if row][2:] == [
        "*OOD detection: logits*", "MSP", "my-scorer", "*OOD detection: distances*", "KNN", "*OOD detection: other*",
        "silent",
    ]  # fmt: skip
    assert "scorer:   my-scorer, which reads logits\n" in assert_done(oodbench("show", "my-scorer", "--plugin", path))
    assert "scorer:   silent\n" in assert_done(oodbench("show", "silent", "--plugin", other))


@pytest.mark.parametrize(
    ("base", "name", "display"),
    [
        ("Scorer", "mine.py", "Mine"),
        ("Scorer", "my_scorer.py", "my-scorer"),
        ("Trainer", "m_ine.py", "Mine"),
        ("KNN", "near.py", "near"),
        ("IMixup", "other_mixup.py", "other-mixup"),
    ],
)
def test_without_a_display_name_the_class_is_spelled_as_it_is_where_it_has_the_name_of_the_file(
    base, name, display, plugin
):
    modules = {"KNN": "oodbench.methods.knn", "IMixup": "oodbench.methods.i_mixup"}
    text = f"from {modules.get(base, 'oodbench')} import {base}\n\n\nclass Mine({base}):\n    pass\n"
    card = Registry([plugin(text=text, name=name)]).card(name.removesuffix(".py"))
    assert card.display == display


def test_the_rows_of_the_paper_are_methods_of_ours_and_print_as_it_spells_them():
    assert set(labels.ORDER) < {name for name, card in Registry().cards.items() if card.is_ours}
    shown = [display_names()[name] for name in ("energy-oe", "i-mixup", "bn-adapt", "vim")]
    assert shown == ["Energy (w. outlier)", "I-Mixup", "BN-adapt", "ViM"]


@pytest.mark.parametrize("name", ["my-scorer", "my_scorer"])
def test_a_name_may_be_typed_with_underscores_or_hyphens(name, plugin, results):
    path = plugin()
    out = assert_done(smoke(results, name, "--plugin", path, "--set", f"{name}.column=1", "--dry-run"))
    assert "unseen-digits / my-scorer,column=1 / seed 0" in out
    assert "my-scorer: The logit of one class, negated." in assert_done(oodbench("show", name, "--plugin", path))


def test_a_plugin_is_listed_and_shown(plugin):
    path = plugin()
    assert "my-scorer The logit of one class, negated." in listed(oodbench("list", "methods", "--plugin", path))
    shown = assert_done(oodbench("show", "my-scorer", "--plugin", path))
    for part in ("A. Author, Scores by one logit, 2026.", "trainer:  erm", "scorer:   my-scorer", f"file:     {path}"):
        assert part in shown
    assert "column = 0  (a whole number)  which class" in shown


def test_a_plugin_given_twice_is_one_plugin(plugin, tmp_path, monkeypatch):
    path = plugin()
    monkeypatch.chdir(tmp_path)
    assert_done(oodbench("list", "--plugin", path, "--plugin", path.name))


@pytest.mark.parametrize(
    "base",
    ["import oodbench\n\n\n@dataclass\nclass Mine(oodbench.Scorer):", "from oodbench import Scorer as Base\n\n\n"
     "@dataclass\nclass Mine(Base):",
     "from oodbench.learning.method import Scorer\n\n\n@dataclass\nclass Mine(Scorer):",
     "from oodbench import Scorer\n\n\nclass _Common(Scorer):\n    pass\n\n\n@dataclass\nclass Mine(_Common):"],
)  # fmt: skip
def test_a_plugin_may_import_its_base_class_as_it_likes(base, plugin):
    old = "from oodbench import Outputs, Scorer\n\n\n@dataclass\nclass Mine(Scorer):"
    text = SCORER.replace("out: Outputs", "out")
    method = Registry([plugin(old, base, text)]).method("my-scorer")
    assert repr(method.scorer.make()) == "Mine(column=0)"


def test_a_plugin_may_derive_from_a_method_of_ours_and_keeps_its_hyperparameters(plugin):
    text = '"""X."""\n\nfrom dataclasses import dataclass\n\nfrom oodbench.methods.knn import KNN\n\n\n'
    text += '@dataclass\nclass Near(KNN):\n    """Nearer."""\n\n    factor: float = 2.0\n'
    card = Registry([plugin(text=text, name="near.py")]).card("near")
    assert (card.kind, list(card.parameters)) == ("Scorer", ["k", "factor"])


DOMAIN_TRAINER = '''\
"""A. Author, The worst environment alone, 2026."""

from dataclasses import dataclass

import torch
import torch.nn.functional as F

from oodbench import DomainTrainer


@dataclass
class Worst(DomainTrainer):
    """Cross-entropy of the environment where it is highest, beside some of the mean."""

    share: float = 0.1  # of the mean

    def loss_across(self, model, batch, count, loop):
        losses = F.cross_entropy(model(batch.x), batch.y, reduction="none")
        risks = torch.stack([of_one.mean() for of_one in losses.chunk(count)])
        loop.record(worst=risks.max())
        return (1 - self.share) * risks.max() + self.share * risks.mean()
'''


@pytest.mark.parametrize("base", ["from oodbench import DomainTrainer", "import oodbench"])
def test_a_plugin_that_compares_environments_says_its_loss_and_no_more(base, plugin, results):
    text = DOMAIN_TRAINER.replace("from oodbench import DomainTrainer", base)
    if base == "import oodbench":
        text = text.replace("(DomainTrainer)", "(oodbench.DomainTrainer)")
    path = plugin(text=text, name="worst_case.py")
    card = Registry([path]).card("worst-case")
    assert (card.kind, list(card.parameters), card.needs) == ("Trainer", ["share", "environments"], {"environments"})
    out = assert_done(smoke(results, "worst-case", "--plugin", path, "--set", "worst-case.environments=random:3"))
    assert "worst-case,environments=random:3 / seed 0: OOD Acc. " in out and "environments random:3" in out
    wrong = smoke(results, "worst-case", "--plugin", path, "--set", "worst-case.environments=random:1")
    assert_refused(wrong, "needs two or more; choose worst-case.environments=random:2")
    assert_refused(smoke(results, "worst-case", "--plugin", path), "needs environments, which the suite")


MISUSES = [
    ("from torch import Tensor", "from torch import Tensor\nimport nosuch_module", "does not import: ModuleNotFound"),
    (
        "from torch import Tensor",
        "from torch import Tensor\nraise ValueError('a\\nb')",
        "does not import: ValueError: a b",
    ),
    ("from torch import Tensor", "from torch import Tensor\nraise SystemExit(3)", "does not import: SystemExit: 3"),
    ("    def score", "    def socre", "Mine cannot be built: TypeError: Can't instantiate abstract class Mine"),
    ("class Mine(Scorer):", "class Mine(:", "my_scorer.py:11: not valid Python: invalid syntax"),
    ("class Mine(Scorer):", "class Mine:", "defines no class derived from Trainer or Scorer; a method file defines ju"),
    ("class Mine(Scorer):", "class Mine(Mine):", "defines no class derived from Trainer or Scorer; a method file"),
    ("class Mine(Scorer):", "class _Mine(Scorer):", "defines no class derived from Trainer or Scorer; a method file"),
    (
        "@dataclass\n",
        "class Other(Scorer):\n    pass\n\n\n@dataclass\n",
        "defines Other and Mine derived from Trainer or ",
    ),
    (
        "column: int = 0",
        "column: dict[str, int] = 0",
        "my_scorer.py:14: hyperparameter 'column' has the type dict[str, i",
    ),
    (
        "column: int = 0",
        "column: int = 'a'",
        "my_scorer.py:14: the default of hyperparameter 'column': expected a whole",
    ),
    ("column: int = 0", "column: int", "my_scorer.py:14: hyperparameter 'column' has no default; give it one"),
    ("@dataclass\n", "", "my_scorer.py:13: hyperparameter 'column' has no effect; write @dataclass above class Mine"),
    ("column: int = 0", "column: 'in' = 0", "my_scorer.py:14: hyperparameter 'column' has the type in; use bool, int"),
    (
        "column: int = 0",
        "ks: list = None",
        "my_scorer.py:14: hyperparameter 'ks' has the type list; say of what; write list[int], list[float] or ",
    ),
    (
        "column: int = 0",
        "ks: list[int] = None",
        "my_scorer.py:14: the default of hyperparameter 'ks' is None; write the type list[int] | None, or another def",
    ),
    (
        "column: int = 0",
        "ks: list[int] = [1, 2]",
        "my_scorer.py:14: the default of hyperparameter 'ks' would be one list for all; "
        "write field(default_factory=lambda: [1, 2])",
    ),
    (
        "column: int = 0",
        "column: int = 2 * 3",
        "my_scorer.py:14: the default of hyperparameter 'column' is computed, 2 * 3; write the value itself",
    ),
    (
        "column: int = 0",
        "column: float = True",
        "my_scorer.py:14: the default of hyperparameter 'column': expected a number, got True; change the default or",
    ),
    (
        "    def score",
        "    def __init__(self):\n        self.x = 1\n\n    def score",
        "my_scorer.py:16: class Mine has its own __init__; write @dataclass above it and make every argument a ",
    ),
]


@pytest.mark.parametrize(("old", "new", "message"), MISUSES)
def test_a_plugin_that_cannot_be_used_is_told_in_one_line_before_anything_trains(old, new, message, plugin, results):
    path = plugin(old, new)
    assert_refused(smoke(results, "msp,my-scorer", "--plugin", path), path, message)
    assert not list(results.rglob("*.pt"))


TRAINER_MISUSES = [
    ("display = 3", 'smooth.py:15: expected display = "...", got 3; write a text'),
    ("group = ['a']", "smooth.py:15: expected group = \"...\", got ['a']; write a text"),
    ('scorer = "kn" + "n"', "smooth.py:15: expected scorer = \"...\", got \"'kn' + 'n'\"; write a text"),
    (
        'needs = "wild"',
        "smooth.py:15: expected needs = frozenset({...}) of wild, environments, views, outliers, labels, got 'wild'",
    ),
    ('needs = frozenset({"wlid"})', "unknown need 'wlid'; did you mean 'wild'?"),
    ('scorer = "knnn"', "says scorer = 'knnn': unknown method 'knnn'; did you mean 'knn'?"),
    ('scorer = "erm"', "says scorer = 'erm', which is a trainer; name a scorer"),
    ('starts_from = "errm"', "says starts_from = 'errm': unknown method 'errm'; did you mean 'erm' or 'eqrm'?"),
    ('starts_from = "knn"', "says starts_from = 'knn', which is a scorer; name a trainer"),
    ('starts_from = "smooth"', "starts from itself; name another trainer in starts_from"),
]


@pytest.mark.parametrize(("line", "message"), TRAINER_MISUSES)
def test_a_trainer_plugin_that_asks_for_what_is_not_there_is_told_in_one_line(line, message, plugin, results):
    path = plugin("    smoothing: float = 0.1\n", f"    smoothing: float = 0.1\n    {line}\n", TRAINER, "smooth.py")
    assert_refused(smoke(results, "smooth", "--plugin", path), path, message)


def test_two_trainers_that_start_from_each_other_are_refused(plugin, results):
    paths = [
        plugin("    smoothing: float = 0.1\n", f'    starts_from = "{other}"\n', TRAINER, f"{name}.py")
        for name, other in (("first", "second"), ("second", "first"))
    ]
    assert_refused(smoke(results, "first", "--plugin", paths[0], "--plugin", paths[1]), paths[0], "starts from itself")


@pytest.mark.parametrize("name", ["all", "all-scorers", "all-trainers", "recipe", "a+b", "a,b", "a b", "a.b"])
def test_a_plugin_whose_name_could_not_be_typed_is_refused(name, plugin):
    path = plugin(name=f"{name}.py")
    assert_refused(oodbench("list", "--plugin", path), f"'{name}' cannot name a method; rename '{path}'")


def test_a_plugin_that_takes_a_name_already_taken_is_refused(plugin, tmp_path):
    path = plugin(name="knn.py")
    message = f"the method name 'knn' is taken by '{folder('methods') / 'knn.py'}'; rename '{path}'"
    assert_refused(oodbench("list", "--plugin", path), message)
    first = plugin()
    (tmp_path / "other").mkdir()
    second = plugin(name="other/my_scorer.py")
    message = f"the method name 'my-scorer' is taken by '{first}'; rename '{second}'"
    assert_refused(oodbench("list", "--plugin", first, "--plugin", second), message)


def test_what_is_no_plugin_file_is_told(plugin, tmp_path):
    binary, nul = tmp_path / "binary.py", tmp_path / "nul.py"
    binary.write_bytes(b"\x80\xff")
    nul.write_bytes(b"x = 1\x00\n")
    for path in (tmp_path / "missing.py", tmp_path, plugin(name="no_suffix")):
        message = f"there is no plugin file '{path}'; give the path of a file that ends in .py"
        assert_refused(oodbench("list", "--plugin", path), message)
    assert_refused(oodbench("list", "--plugin", binary), f"{binary}: not a text file; expected Python in UTF-8")
    assert_refused(oodbench("list", "--plugin", nul), f"{nul}:1: not valid Python: ")


SCORE = "-out.logits[:, self.column]"
UNTRIED = [
    (
        SCORE,
        "-out.logits",
        "my_scorer.py:16: score gave shape (2, 8) for 2 rows; return a tensor of one number per row",
    ),
    (SCORE, "None", "my_scorer.py:16: score gave a NoneType for 2 rows; return a tensor of one number per row"),
    (SCORE, "-out.logits[:, 1 // 0]", "ZeroDivisionError at "),
    (SCORE, "-out.logits[:, 1 // 0]", "my_scorer.py:17: integer division or modulo by zero; correct it, or leave out "),
    (
        "    def score",
        "    def fit(self, train):\n        self.mean = train.nothing\n\n    def score",
        "my_scorer.py:17: 'Outputs' object has no attribute 'nothing'; correct it, or leave out 'my-scorer'",
    ),
    (
        "    def score",
        "    def fit(self, train, validation=None):\n        self.mean = validation.logits\n\n    def score",
        'my_scorer.py:17: validation is None; add needs = frozenset({"validation"}) to class Mine; correct it',
    ),
    (
        "    def score",
        "    def fit(self, train, validation):\n        self.mean = validation.logits\n\n    def score",
        'my_scorer.py: validation is None; add needs = frozenset({"validation"}) to class Mine; correct it',
    ),
    (
        "    def score",
        "    def fit(self, train):\n        raise UserError('column is wrong; choose 0')\n\n    def score",
        "'my-scorer': column is wrong; choose 0",
    ),
]


@pytest.mark.parametrize(("old", "new", "message"), UNTRIED)
def test_a_scorer_plugin_is_tried_on_two_rows_before_anything_trains(old, new, message, plugin, results):
    text = SCORER.replace("import Outputs, Scorer", "import Outputs, Scorer, UserError")
    path = plugin(old, new, text)
    for more in ((), ("--dry-run",)):
        assert_refused(smoke(results, "my-scorer,msp", "--plugin", path, *more), message)
    assert not list(results.rglob("*.pt"))


@pytest.mark.parametrize(
    "line",
    [
        "self.far = train.features.topk(200, dim=0).values",  # more neighbors than a few images are
        "self.l = torch.linalg.cholesky(train.features.T.double().cov())",  # singular on fewer rows than features
        "assert train.y.unique().tolist() == list(range(8))",  # every class
    ],
)
def test_a_scorer_that_needs_many_rows_is_not_refused_on_a_few(line, plugin, results):
    text = SCORER.replace("from torch import Tensor", "import torch\nfrom torch import Tensor")
    path = plugin("    def score", f"    def fit(self, train):\n        {line}\n\n    def score", text)
    out = smoke(results, "my-scorer", "--plugin", path, "--dry-run").out
    assert "unseen-digits / my-scorer / seed 0" in out


def test_a_scorer_of_a_plugin_is_tried_on_the_network_its_trainer_makes(plugin, results):
    trainer = plugin(
        "    def loss",
        "    def extend(self, model):\n        model.other = 7\n\n    def loss",
        TRAINER,
        "smooth.py",
    )
    scorer = plugin(SCORE, SCORE + " * out.model.other")
    plugins = ["--plugin", trainer, "--plugin", scorer]
    assert_done(smoke(results, "smooth+my-scorer", *plugins))
    assert_refused(smoke(results, "my-scorer", *plugins), "has no attribute 'other'; correct it, or leave out 'my-")


def test_scores_that_are_not_finite_fail_the_cell_and_the_others_go_on(plugin, results):
    outcome = smoke(results, "my-scorer,msp", "--plugin", plugin(SCORE, "out.logits[:, 0] / 0 - out.logits[:, 0] / 0"))
    assert outcome.status == 1
    (line,) = complaints(outcome)
    assert line.startswith("oodbench: 2 of 4 cells failed; the first: ") and "scores that are not finite" in line
    assert outcome.err.count("/ my-scorer / seed 0: FAILED: ") == 2 and outcome.err.count("/ msp / seed 0: OOD Ac") == 2
    table = assert_done(oodbench("table", results))
    assert "| my-scorer" in table and ") failed: " in table


LOSS = "        return F.cross_entropy(model(batch.x), batch.y, label_smoothing=self.smoothing)\n"
LOSSES = [
    (
        "batch.x.mean() * 0",
        "smooth.py:16: the loss has no gradient; compute it from model(batch.x), without no_grad or",
    ),
    ("model(batch.x).mean().item()", "smooth.py:16: the loss is a float, not a tensor; return it as torch computes it"),
    ("None", "smooth.py:16: the loss is a NoneType, not a tensor; return it as torch computes it"),
    ("model(batch.x).mean(dim=1)", "smooth.py:16: the loss has the shape (64,), not one number; return its mean()"),
    ("model(batch.wild).mean()", 'smooth.py:17: batch.wild is None; add needs = frozenset({"wild"}) to class Smooth'),
    ("batch.env.sum() * 0", 'smooth.py:17: batch.env is None; add needs = frozenset({"environments"}) to class Smooth'),
    (
        "forward_both(model, batch, 'joint')[0].mean()",
        'batch.wild is None; add needs = frozenset({"wild"}) to the train',
    ),
    ("model(batch.x)[:, 99].mean()", "IndexError at "),
]


def test_a_loss_that_is_none_fails_its_cells_in_one_line(plugin, results):
    text = TRAINER.replace("import Trainer", "import Trainer\nfrom oodbench.learning.functional import forward_both")
    text = text.replace("\nimport torch.nn", "import torch.nn")
    messages = {f"smooth{i}": message.replace("smooth.", f"smooth{i}.") for i, (_, message) in enumerate(LOSSES)}
    paths = [
        plugin(LOSS, f"        return {loss}\n", text, f"{name}.py")
        for name, (loss, _) in zip(messages, LOSSES, strict=True)
    ]
    plugins = [word for path in paths for word in ("--plugin", path)]
    outcome = smoke(results, ",".join([*messages, "msp"]), *plugins, "--setting", "unseen-digits")
    (line,) = complaints(outcome)
    assert outcome.status == 1 and f"{len(messages)} of {len(messages) + 1} cells failed; the first: " in line
    errors = {result.method: result.error for result in read_results(results) if result.status == "failed"}
    assert errors.keys() == messages.keys() and errors["smooth0"] in line
    for name, message in messages.items():
        assert message in errors[name] and len(errors[name].splitlines()) == 1


def test_the_line_of_a_loss_across_environments_is_named(plugin, results):
    text = DOMAIN_TRAINER.replace("return (1 - self.share) * risks.max() + self.share * risks.mean()", "return risks")
    given = ["--plugin", plugin(text=text, name="worst.py"), "--set", "worst.environments=random:2"]
    outcome = smoke(results, "worst", *given, "--setting", "unseen-digits")
    assert "worst.py:17: the loss has the shape (2,), not one number; return its mean()" in outcome.err


# What the author of a method may want to see.


@pytest.mark.parametrize("place", [0, 1])
def test_debug_prints_the_traceback_of_an_error_before_its_line(place, plugin, results):
    words = ["run", "--suite", "digits-c", "--methods", "my-scorer", "--plugin", plugin(SCORE, "-out.nothing")]
    words.insert(place, "--debug")
    outcome = oodbench(*words, "--results", results)
    *traceback, line = outcome.err.splitlines()
    assert outcome.status == 2 and line.startswith("oodbench: AttributeError at ")
    assert "Traceback (most recent call last):" in traceback and "    return -out.nothing" in traceback


def test_a_failed_cell_keeps_its_traceback_and_debug_prints_it(plugin, results):
    path = plugin(LOSS, "        return model(batch.x)[:, 99].mean()\n", TRAINER, "smooth.py")
    given = (results, "smooth", "--plugin", path, "--setting", "unseen-digits")
    outcome = smoke(*given, "--debug")
    (result,) = read_results(results)
    kept = result.traceback
    assert "    return model(batch.x)[:, 99].mean()" in kept and "IndexError: index 99 is out of bounds" in kept
    assert outcome.status == 1 and kept in outcome.err and result.error not in kept.splitlines()[0]
    assert "Traceback" not in smoke(*given).err


def test_a_cell_whose_start_fails_keeps_that_traceback(plugin, results):
    first = plugin(LOSS, "        return 1 // 0\n", TRAINER, "first.py")
    second = plugin("    smoothing: float = 0.1\n", '    starts_from = "first"\n', TRAINER, "second.py")
    smoke(results, "second", "--plugin", first, "--plugin", second, "--setting", "unseen-digits")
    (result,) = read_results(results)
    assert result.error.startswith("'first', which it starts from: ZeroDivisionError at ")
    assert "    return 1 // 0" in result.traceback


def test_a_loss_that_becomes_nan_fails_its_cells_with_the_step_and_the_last_loss(plugin, results):
    old = "        return F.cross_entropy(model(batch.x), batch.y, label_smoothing=self.smoothing)\n"
    new = """\
        return super().loss(model, batch)

    def train(self, model, data, loop):
        def loss(model, batch):
            return self.loss(model, batch) * (float("nan") if loop.step == 6 else 1)

        for _ in loop.epochs(model, data, loss):
            pass
"""
    path = plugin(old, new, TRAINER, "broken.py")
    outcome = smoke(results, "broken,msp", "--plugin", path)
    message = "the loss became nan at step 6; the last finite loss was "
    assert outcome.status == 1
    (line,) = complaints(outcome)
    assert line.startswith(f"oodbench: 2 of 4 cells failed; the first: {message}")
    assert outcome.err.count(f"/ broken / seed 0: FAILED: {message}") == 2
    assert outcome.err.count("/ msp / seed 0: OOD Acc. ") == 2
    table = assert_done(oodbench("table", results))
    assert f") failed: {message}" in table
    assert "–" in next(line for line in table.splitlines() if line.startswith("| broken ("))
    assert "–" not in next(line for line in table.splitlines() if line.startswith("| MSP"))


def test_editing_a_plugin_runs_it_again_and_a_remark_does_not(plugin, results):
    command = (results, "my-scorer", "--plugin")
    assert_done(smoke(*command, plugin()))
    remark = plugin("        return -out", "        # only a remark\n\n        return -out")
    assert "nothing to do" in assert_done(smoke(*command, remark))
    assert "nothing to do" in assert_done(smoke(*command, plugin("The logit of one class", "One logit of many")))
    edited = plugin("-out.logits[:, self.column]", "+out.logits[:, self.column]")  # of the same length, within a second
    out = assert_done(smoke(*command, edited))
    assert "2 cells, 0 done already, 2 to run" in out and "epoch" not in out, "the weights are those of before"
    before, after = (r.metrics["auroc"] for r in read_results(results) if r.setting == "unseen-digits")
    assert before + after == pytest.approx(1) and before != pytest.approx(after)
    assert "nothing to do" in assert_done(smoke(*command, plugin()))


def test_a_changed_default_is_another_method(plugin, results):
    assert_done(smoke(results, "my-scorer", "--plugin", plugin()))
    out = assert_done(
        smoke(results, "my-scorer", "--plugin", plugin("column: int = 0", "column: int = 1"), "--dry-run")
    )
    assert "2 cells, 0 done already, 2 to run" in out


def test_a_plugin_leaves_nothing_beside_its_file(plugin, results, tmp_path):
    path = plugin()
    assert_done(smoke(results, "my-scorer", "--plugin", path))
    assert sorted(each.name for each in tmp_path.iterdir()) == ["my_scorer.py", "results"]


def test_a_method_that_needs_what_the_suite_lacks_is_refused_by_name_and_left_out_of_all(plugin, tmp_path):
    suite = tmp_path / "tame.yaml"
    ours = (folder("benchmarks") / "digits-c.yaml").read_text(encoding="utf-8")
    suite.write_text(ours + "\nwild: false\n", encoding="utf-8")
    line = "    smoothing: float = 0.1\n"
    path = plugin(line, line + '    needs = frozenset({"wild"})\n', TRAINER, "smooth.py")
    command = ["run", "--suite", suite, "--plugin", path, "--dry-run", "--results", tmp_path / "r", "--methods"]
    reason = "needs wild data, which the suite 'tame' does not have"
    for methods in ("smooth", "msp,smooth+knn", "all,smooth"):
        name = "smooth+knn" if "+" in methods else "smooth"
        message = f"oodbench: the method '{name}' {reason}; leave it out or choose another suite\n"
        assert_refused(oodbench(*command, methods), message)
    out = assert_done(oodbench(*command, "all"))
    (line,) = [line for line in out.splitlines() if line.startswith("left out: ")]
    assert f"smooth ({reason})" in line and " / smooth / " not in out and " / msp / " in out


def test_all_may_stand_beside_pairs(plugin, results):
    path = plugin(text=TRAINER, name="smooth.py")
    out = assert_done(smoke(results, "all,smooth+knn,msp", "--plugin", path, "--dry-run"))
    for name in [*Registry().cards, "smooth", "smooth+knn"]:
        planned = re.findall(rf"unseen-digits / {re.escape(name)}(?:,budget=\d+)? / seed 0\n", out)
        assert len(planned) == 1 or re.search(rf"^left out: .*\b{name}\b", out, re.M)


@pytest.fixture
def installed(tmp_path, monkeypatch):
    """A function that installs a distribution with entry points, as pip would lay it out."""
    site = tmp_path / "site"

    def install(entries: str, files: dict[str, str]):
        info = site / "foo-1.0.dist-info"
        info.mkdir(parents=True)
        (info / "METADATA").write_text("Metadata-Version: 2.1\nName: foo\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text(f"[oodbench.methods]\n{textwrap.dedent(entries)}\n")
        for name, text in files.items():
            (site / name).parent.mkdir(exist_ok=True)
            (site / name).write_text(text)
        monkeypatch.syspath_prepend(str(site))
        return site

    before = set(sys.modules)
    yield install
    for name in set(sys.modules) - before:
        if name.startswith("foo"):
            del sys.modules[name]


def test_an_installed_package_adds_a_method_that_is_listed_and_runs(installed, results):
    site = installed("foo_score = foo_methods", {"foo_methods.py": SCORER})
    told = process("list", "methods", PYTHONPATH=str(site))
    assert "foo-score The logit of one class, negated." in listed(told)
    out = assert_done(smoke(results, "foo_score", "--set", "foo-score.column=3"))
    assert "unseen-digits / foo-score,column=3 / seed 0: OOD Acc. " in out
    assert f"file:     {site / 'foo_methods.py'}" in assert_done(oodbench("show", "foo-score"))


def test_entry_points_may_name_classes_of_one_module_in_a_package(installed, results):
    both = SCORER + TRAINER.split("from dataclasses import dataclass\n")[1]
    files = {"foo/methods.py": both, "foo/__init__.py": ""}
    installed("foo-a = foo.methods:Mine\nfoo-b = foo.methods:Smooth", files)
    out = assert_done(smoke(results, "foo-a,foo-b+foo-a"))
    assert "foo-a / seed 0: OOD Acc. " in out and "foo-b+foo-a / seed 0: OOD Acc. " in out


BROKEN = {
    "foo_missing": "the module 'foo_nowhere' is not installed",
    "foo_deep": "the module 'foo_fine.inner' is not installed",
    "foo_syntax": "not valid Python: ",
    "foo_empty": "defines no class derived from Trainer or Scorer",
    "knn": "the method name 'knn' is taken by ",
}


def test_broken_entry_points_are_listed_as_such_and_harm_nobody_else(installed, results):
    entries = """\
        foo_missing = foo_nowhere
        foo_deep = foo_fine.inner:X
        foo_syntax = foo_syntax
        foo_empty = foo_empty
        foo_fine = foo_fine
        knn = foo_fine
    """
    installed(entries, {"foo_syntax.py": "class A(:\n", "foo_empty.py": "x = 1\n", "foo_fine.py": SCORER})
    out = assert_done(oodbench("list"))
    rows = {line.split()[0]: line for line in out.splitlines() if "cannot be used: " in line}
    assert set(rows) == {name.replace("_", "-") for name in BROKEN}
    for name, reason in BROKEN.items():
        assert reason in rows[name.replace("_", "-")]
    assert "foo-fine" in out
    out = assert_done(smoke(results, "all", "--dry-run"))
    assert "foo-missing (cannot be used: the module 'foo_nowhere' is not installed)" in out
    assert "unseen-digits / knn / seed 0" in out and "unseen-digits / foo-fine / seed 0" in out
    for command in (lambda name: smoke(results, name), lambda name: oodbench("show", name)):
        message = "the installed method 'foo-missing' cannot be used: the module 'foo_nowhere' is not installed"
        assert_refused(command("foo-missing"), message)
    assert "Nearest Neighbors" in assert_done(oodbench("show", "knn"))


def test_an_installed_method_that_does_not_import_is_told_when_asked_for(installed, results):
    late = SCORER.replace("from torch import Tensor", "import foo_nowhere")
    site = installed("foo_late = foo_late", {"foo_late.py": late})
    assert "foo-late" in assert_done(oodbench("list", "methods"))
    message = f"'{site / 'foo_late.py'}' does not import: ModuleNotFoundError: No module named 'foo_nowhere'"
    assert_refused(smoke(results, "foo-late"), message)
    assert_done(smoke(results, "msp"))


def test_a_package_is_not_imported_to_list_its_methods(installed, results):
    installed("foo-a = foo.methods", {"foo/__init__.py": "raise RuntimeError('imported')", "foo/methods.py": SCORER})
    assert "foo-a The logit of one class, negated." in listed(oodbench("list", "methods"))
    assert_refused(smoke(results, "foo-a"), "methods.py' does not import: RuntimeError: imported")


def test_a_digest_changes_with_the_code_and_not_with_its_layout(plugin):
    def digest(*replaced):
        return identity.of_card(Registry([plugin(*replaced)]).card("my-scorer"))

    plain = digest()
    assert digest("\n\n@dataclass", "\n@dataclass") == plain
    assert digest("# which class", "# the class") == plain
    assert digest('"""The logit of one class, negated."""', '"""Other words."""') == plain
    assert digest("[:, self.column]", "[:,self.column]") == plain
    assert digest("-out", "- 2 * out") != plain
    assert digest("column: int = 0", "column: int = 1") != plain
    assert digest("from torch import Tensor", "from torch import Tensor\n\nX = 1") == plain  # which nothing reaches
