"""Random search: what is drawn, which cells that makes, and what is refused before anything is drawn."""

import hashlib
import json
from collections import Counter

import numpy as np
import planned
import pytest
from command_line import SUITE_FILE, assert_done, assert_refused, oodbench, smoke

import oodbench as package
from oodbench.config import search
from oodbench.config import suite as suites
from oodbench.config.registry import Registry, distributions
from oodbench.config.schema import Misfit
from oodbench.errors import UserError

PLUGIN = '''
from dataclasses import dataclass
from typing import ClassVar

import torch.nn.functional as F

from oodbench import Trainer


@dataclass
class Smooth(Trainer):
    """Smoothed labels."""

    search: ClassVar[dict[str, str]] = {"amount": "10**U(-2,-1)"}

    amount: float = 0.05
    other: int = 3

    def loss(self, model, batch):
        return F.cross_entropy(model(batch.x), batch.y, label_smoothing=self.amount)
'''


def drawn(text, type_, count=1000):
    """The value of one hyperparameter in draws 1 to count."""
    distribution = {"recipe.it": search.read(text, type_, ())}
    return [search.draw(distribution, 0, number).values["recipe.it"] for number in range(1, count + 1)]


def assert_uniform(values, low, high):
    """In the range, and a quarter of them in each quarter of it, give or take five standard deviations."""
    assert low - 1e-5 <= min(values) and max(values) <= high + 1e-5
    quarters = np.histogram(values, bins=4, range=(low - 1e-5, high + 1e-5))[0]
    assert np.abs(quarters - len(values) / 4).max() < 5 * np.sqrt(len(values) * 3 / 16), quarters


# Distributions


def test_numbers_are_spread_evenly_and_powers_by_their_exponents():
    assert_uniform(drawn("U(0,0.5)", float), 0, 0.5)
    assert_uniform(np.log10(drawn("10**U(-5,-3.5)", float)), -5, -3.5)
    assert_uniform(np.log2(drawn("2 ** U( -1 , 3e0 )", float)), -1, 3)


def test_whole_numbers_are_rounded_down_and_multiplied_afterwards():
    found = Counter(drawn("3 * int 2**U(0,2)", int))
    assert set(found) == {3, 6, 9}  # 2**U(0,2) is below 2 in half of the draws, and below 3 in log2(3) / 2 of them
    for value, share in ((3, 1 / 2), (6, np.log2(3) / 2 - 1 / 2), (9, 1 - np.log2(3) / 2)):
        assert abs(found[value] - 1000 * share) < 5 * np.sqrt(1000 * share * (1 - share))
    assert all(type(value) is int for value in found)


def test_choices_are_equally_likely_and_of_the_type_of_the_hyperparameter():
    found = Counter(drawn("{0, 0.5,1}", float))
    assert set(found) == {0.0, 0.5, 1.0} and all(type(value) is float for value in found)
    assert all(abs(count - 1000 / 3) < 5 * np.sqrt(1000 * 2 / 9) for count in found.values())
    assert set(drawn("{adam,sgd}", str, count=50)) == {"adam", "sgd"}


def test_a_draw_follows_from_seed_number_and_name_alone():
    distribution = search.read("U(0,1)", float, ())
    digest = hashlib.sha256(b"(7, 'search', 3, 'coral.gamma')").digest()
    expected = int.from_bytes(digest[:8], "big") / 2**64
    alone = search.draw({"coral.gamma": distribution}, 7, 3)
    beside = search.draw({"recipe.lr": distribution, "coral.gamma": distribution}, 7, 3)
    assert alone.values["coral.gamma"] == pytest.approx(expected, rel=1e-5)
    assert beside.values["coral.gamma"] == alone.values["coral.gamma"] != beside.values["recipe.lr"]
    assert search.draw({"coral.gamma": distribution}, 8, 3) != alone


def test_what_is_printed_of_a_draw_is_its_exact_value():
    names = ["recipe.lr", "recipe.weight_decay"]
    suite = suites.load("digits-c")
    for number in range(1, 20):
        found = search.draw({name: search.read("10**U(-6,-2)", float, ()) for name in names}, 0, number)
        for word in str(found).removeprefix(f"draw {number} (").removesuffix(")").split(", "):
            suite = suite.with_value("recipe", *word.removeprefix("recipe.").split("="))
        recipe = suite.contents.recipes.scratch
        assert {"recipe.lr": recipe.lr, "recipe.weight_decay": recipe.weight_decay} == found.values


@pytest.mark.parametrize(
    ("text", "type_", "message"),
    [
        ("uniform", float, "'uniform' is not a distribution; write U(a,b), 10**U(a,b), int 2**U(a,b)"),
        ("3**U(0,1)", float, "is not a distribution"),
        ("U(0,1", float, "is not a distribution"),
        ("{}", float, "is not a distribution"),
        ("U(1,1)", float, "'U(1,1)' has no values between 1 and 1; write the smaller number first"),
        ("10**U(0,400)", float, "holds numbers that are too large; choose smaller bounds"),
        ("int 10**U(0,400)", int, "holds numbers that are too large"),
        ("10**U(0,2)", int, "'10**U(0,2)' does not fit: expected a whole number, got 1.0"),
        ("{1,2.5}", int, "expected a whole number, got '2.5'"),
        ("{1,}", int, "expected a whole number, got ''"),
    ],
)
def test_what_is_no_distribution_of_such_values_is_told(text, type_, message):
    with pytest.raises(Misfit) as caught:
        search.read(text, type_, ("search", "recipe.it"))
    assert message in str(caught.value) and str(caught.value).startswith("search.recipe.it: ")


def test_every_trainer_of_ours_draws_values_that_it_accepts():
    registry = Registry()
    searched = [card for card in registry.cards.values() if card.kind == "Trainer" and distributions(card)]
    assert len(searched) >= 8
    for card in searched:
        spec = registry.method(card.name)
        for number in range(1, 30):
            found = search.draw(distributions(card), 0, number)
            made = spec.at(found).trainer.make()
            assert {f"{card.name}.{key}": getattr(made, key) for key in card.search} == found.values


def test_domainbeds_distributions_are_stated_for_its_suites():
    def at_ends(name):
        return {key: each.extremes for key, each in suites.load(name).distributions.items()}

    assert at_ends("pacs") == {
        "recipe.lr": (1e-5, 0.000316228),
        "recipe.batch_size": (3 * 8, 3 * 45),
        "recipe.weight_decay": (1e-6, 1e-2),
    }
    small = {"recipe.lr": (3.16228e-05, 0.00316228)}
    assert at_ends("rotated-mnist") == {**small, "recipe.batch_size": (5 * 8, 5 * 512)}
    assert at_ends("colored-mnist") == {**small, "recipe.batch_size": (2 * 8, 2 * 512)}


# Suite files and plugins


@pytest.fixture
def suite_file(tmp_path):
    """A function that writes digits-c with distributions of its recipe."""

    def write(*lines):
        path = tmp_path / "mine.yaml"
        text = SUITE_FILE.read_text()
        path.write_text(text + "\nsearch:\n" + "".join(f"  {line}\n" for line in lines))
        return path, len(text.splitlines()) + 2  # and the line of `search:`

    return write


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("recipe.lr: 10^U(-5,-3)", "'search.recipe.lr': '10^U(-5,-3)' is not a distribution; write U(a,b)"),
        ("recipe.rate: U(0,1)", "unknown value to draw 'recipe.rate'"),
        ("recipe.batch_size: 2**U(3,5)", "'2**U(3,5)' does not fit: expected a whole number, got 8.0"),
        ("recipe.lr: U(-1,1)", "'U(-1,1)' may draw -1.0: expected more than 0, got -1.0"),
        ("recipe.batch_size: '{16,0}'", "'{16,0}' may draw 0: expected more than 0, got 0"),
        ("recipe.lr: 3", "expected text, got 3"),
    ],
)
def test_a_distribution_that_makes_no_sense_is_told_with_its_line(line, message, suite_file, tmp_path):
    path, first = suite_file(line)
    outcome = oodbench("run", "--suite", path, "--methods", "msp", "--results", tmp_path / "results")
    assert_refused(outcome, f"{path}:{first + 1}: ", message)


@pytest.mark.parametrize(
    ("stated", "message"),
    [
        ('{"amount": "10^U(-2,-1)"}', "search.amount: '10^U(-2,-1)' is not a distribution"),
        ('{"amuont": "U(0,1)"}', "search.amuont: unknown hyperparameter of smooth 'amuont'; did you mean 'amount'?"),
        ('{"other": "U(0,1)"}', "search.other: 'U(0,1)' does not fit: expected a whole number, got 0.0"),
        ('{"amount": 3}', "search.amount: expected text, got 3"),
        ('["amount"]', "search: expected a mapping"),
    ],
)
def test_a_distribution_of_a_plugin_that_makes_no_sense_is_told_with_its_file(stated, message, tmp_path):
    path = tmp_path / "smooth.py"
    path.write_text(PLUGIN.replace('{"amount": "10**U(-2,-1)"}', stated).replace("dict[str, str]] =", "object] ="))
    assert_refused(smoke(tmp_path / "results", "smooth", "--plugin", path), path, message)


def test_a_hyperparameter_that_a_derived_trainer_fixes_is_not_drawn(tmp_path):
    path = tmp_path / "tame_sagnet.py"
    path.write_text(
        "from typing import ClassVar\nfrom oodbench.methods.sagnet import SagNet\n\n\n"
        "class Tame(SagNet):\n    w_adv: ClassVar[float] = 0.5\n"
    )
    assert distributions(Registry([path]).card("tame-sagnet")) == {}
    assert list(distributions(Registry().card("sagnet"))) == ["sagnet.w_adv"]


# Plans


def plan_of(suite, methods, folder="nowhere", seeds=(0,), assignments=(), **more):
    loaded = suites.load(str(suite), "smoke")
    return planned.plan_of(loaded, methods, seeds=seeds, set=assignments, results=folder, **more)


def by_draw(made):
    """Cells of the first setting, by the number of their draw."""
    cells = [cell for cell in made.cells if cell.setting == made.suite.settings[0]]
    return {0 if cell.training.draw is None else cell.training.draw.number: cell for cell in cells}


def test_draw_0_is_the_ordinary_cell_and_the_others_stand_beside_it():
    ordinary, searched = (
        plan_of("digits-c", "sagnet", seeds=(0, 1)),
        plan_of("digits-c", "sagnet", seeds=(0, 1), draws=4),
    )
    plain = {cell.path: cell.key for cell in ordinary.cells}
    assert len(searched.cells) == 4 * len(ordinary.cells) == len({cell.key for cell in searched.cells})
    assert {c.path: c.key for c in searched.cells if c.training.draw is None} == plain
    assert {c.path.parent for c in searched.cells} == {path.parent for path in plain}
    assert {c.method.label for c in searched.cells} == {"sagnet"}


def test_more_draws_leave_the_first_as_they_are():
    few, many = (by_draw(plan_of("digits-c", "sagnet", draws=count)) for count in (3, 6))
    assert {n: cell.key for n, cell in few.items()} == {n: many[n].key for n in range(3)}


def test_a_draw_is_the_same_in_all_settings_and_for_all_scorers_and_differs_by_seed(suite_file):
    path, _ = suite_file("recipe.lr: 10**U(-3,-1)")
    made = plan_of(path, "msp,knn,sagnet", seeds=(0, 1), draws=3)
    rates = {}
    for cell in made.cells:
        number = 0 if cell.training.draw is None else cell.training.draw.number
        rates.setdefault((cell.seed, number), set()).add(cell.suite.contents.recipes.scratch.lr)
    assert all(len(found) == 1 for found in rates.values())
    assert rates[0, 0] == rates[1, 0] and rates[0, 1] != rates[1, 1]
    erm = [training for training, _ in made.trainings.values() if training.trainer.card.name == "erm"]
    assert len(erm) == 2 * 3  # shared by both scorers and both settings


def test_what_the_user_sets_is_not_drawn(suite_file):
    path, _ = suite_file("recipe.lr: 10**U(-3,-1)", "recipe.batch_size: int 2**U(4,6)")
    cell = by_draw(plan_of(path, "sagnet", assignments=["recipe.lr=0.5", "sagnet.w_adv=0.1"], draws=2))[1]
    assert list(cell.training.draw.values) == ["recipe.batch_size"]
    assert cell.suite.contents.recipes.scratch.lr == 0.5 and cell.method.trainer.values["w_adv"] == 0.1


def test_what_a_method_starts_from_keeps_its_values(suite_file, tmp_path):
    path, _ = suite_file("recipe.lr: 10**U(-3,-1)")
    plugin = tmp_path / "smooth.py"
    plugin.write_text(PLUGIN.replace("    amount:", '    starts_from: ClassVar[str] = "erm"\n    amount:'))
    cells = by_draw(plan_of(path, "smooth", plugins=[plugin], draws=3))
    assert len({cell.training.key for cell in cells.values()}) == 3
    assert len({cell.training.parent.key for cell in cells.values()}) == 1
    assert cells[1].suite.contents.recipes.scratch == cells[0].suite.contents.recipes.scratch
    assert cells[1].suite.contents.recipes.finetune.lr == cells[1].training.draw.values["recipe.lr"]
    assert cells[1].method.trainer.values["amount"] == cells[1].training.draw.values["smooth.amount"]


def test_the_same_values_drawn_again_are_one_cell(tmp_path):
    plugin = tmp_path / "smooth.py"
    plugin.write_text(PLUGIN.replace("10**U(-2,-1)", "{0.05,0.1}"))
    cells = by_draw(plan_of("digits-c", "smooth", plugins=[plugin], draws=30))
    assert len(cells) == 2 and cells.pop(0).method.trainer.values["amount"] == 0.05
    assert [cell.method.trainer.values["amount"] for cell in cells.values()] == [0.1]


def test_where_all_methods_are_searched_those_without_distributions_run_once():
    counts = Counter(cell.method.name for cell in plan_of("digits-c", "all", draws=3).cells)
    assert counts["sagnet"] == counts["rsc"] == 3 * counts["msp"] == 3 * counts["scone"]


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (("--draws", 0), "--draws 0 is out of range; choose 1, which is what the suite says, or more"),
        (("--draws", -2), "--draws -2 is out of range"),
        (("--draws", "many"), "argument --draws: invalid int value: 'many'"),
        (("--draws", 2, "--methods", "msp"), "the method 'msp' has nothing to draw on 'digits-c'"),
        (("--draws", 2, "--methods", "sagnet,msp"), "the method 'msp' has nothing to draw on 'digits-c'"),
        (("--draws", 2, "--set", "sagnet.w_adv=0.1"), "the method 'sagnet' has nothing to draw on 'digits-c'"),
    ],
)
def test_a_search_that_draws_nothing_is_refused(more, message, tmp_path):
    assert_refused(smoke(tmp_path / "results", "sagnet", *more), message)
    assert not (tmp_path / "results").exists()


def test_given_weights_leave_nothing_to_draw(suite_file, tmp_path):
    path, _ = suite_file("recipe.lr: 10**U(-3,-1)")
    (tmp_path / "weights.pt").write_bytes(b"weights")
    with pytest.raises(UserError, match="the method 'msp' has nothing to draw"):
        plan_of(path, "msp", draws=2, init=tmp_path / "weights.pt")


# Runs


@pytest.fixture(scope="module")
def searched(tmp_path_factory):
    """A search of two draws with a plugin, then of three: the folder, and what each printed."""
    folder = tmp_path_factory.mktemp("search")
    plugin = folder / "smooth.py"
    plugin.write_text(PLUGIN)
    results = folder / "results"
    more = ("--plugin", plugin, "--setting", "unseen-digits")
    planned = assert_done(smoke(results, "smooth", *more, "--draws", 2, "--dry-run"))
    printed = [assert_done(smoke(results, "smooth", *more, "--draws", count)) for count in (2, 3)]
    return results, plugin, planned, printed


def read(results):
    return {
        (found.get("config", {}).get("search") or {}).get("draw", 0): found
        for found in (json.loads(path.read_text()) for path in sorted(results.rglob("smooth/*.json")))
    }


def values_of(stored):
    return stored["config"]["method"]["trainer"]["values"]


def test_a_plan_lists_the_draws_with_their_values(searched):
    results, _, planned, _ = searched
    value = values_of(read(results)[1])["amount"]
    assert f"unseen-digits / smooth / seed 0 / draw 1 (smooth.amount={value})" in planned


def test_a_search_that_goes_on_runs_what_is_missing(searched):
    _, _, _, (first, second) = searched
    assert "2 cells, 0 done already, 2 to run" in first and "3 cells, 2 done already, 1 to run" in second
    assert "draw 1" in first and "draw 1" not in second
    assert "[1/1] smooth, seed 0, draw 2 (smooth.amount=" in second
    assert "unseen-digits / smooth / seed 0 / draw 2: OOD Acc." in second


def test_a_drawn_result_tells_its_values_its_draw_and_what_it_was_drawn_from(searched):
    found = read(searched[0])
    assert sorted(found) == [0, 1, 2] and found[0]["config"]["search"] is None
    assert values_of(found[0])["amount"] == 0.05
    for number in (1, 2):
        config = found[number]["config"]
        assert config["search"] == {"draw": number, "of": found[0]["variant"]}
        assert 0.01 <= values_of(found[number])["amount"] <= 0.1 and values_of(found[number])["other"] == 3
        assert config["method"]["trainer"]["changed"] == {}
    assert len({found[number]["weights"] for number in found}) == 3


def test_a_drawn_value_given_by_hand_trains_the_same_weights(searched, tmp_path):
    results, plugin, _, _ = searched
    drawn = read(results)[1]
    value = values_of(drawn)["amount"]
    more = ("--plugin", plugin, "--setting", "unseen-digits", "--set", f"smooth.amount={value}")
    assert_done(smoke(tmp_path, "smooth", *more))
    (path,) = tmp_path.rglob("seed0-*.json")
    again = json.loads(path.read_text())
    assert (again["weights"], again["key"]) == (drawn["weights"], drawn["key"])


def test_the_same_search_from_python_finds_everything_done(searched):
    results, plugin, _, _ = searched
    found = package.run(
        "digits-c", "smooth", ["unseen-digits"], preset="smoke", plugins=[plugin], results=results, draws=3
    )
    assert [result.draw for result in found] == [0, 1, 2]
