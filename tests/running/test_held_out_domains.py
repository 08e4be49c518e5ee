"""Plans where domains are held out: pairs for leave-one-domain-out, shared trainings, refusals before any."""

import json
from dataclasses import replace

import numpy as np
import planned
import pytest
from command_line import assert_done, assert_refused, oodbench
from data_files import write
from stand_ins import arrays, data_in, files, keep, picture

from oodbench.config import suite as suites
from oodbench.data import lookup, store
from oodbench.data.parts import build_parts
from oodbench.results.result import read
from oodbench.results.selection import LEAVE_ONE_OUT

MADE = ("colored-mnist", "rotated-mnist")


@pytest.fixture(scope="module", autouse=True)
def data(tmp_path_factory):
    """Stand-ins for PACS and for what is made from MNIST."""
    folder = tmp_path_factory.mktemp("data")
    with data_in(folder / "data"), pytest.MonkeyPatch.context() as patch:
        random = np.random.default_rng(0)
        store.save("mnist", arrays(lookup.dataset("mnist"), random), "a test")
        lookup.dataset("pacs").add(write(folder / "pacs", files(lookup.dataset("pacs"), random)))
        for name in MADE:
            keep(lookup.dataset(name), random, patch)
        yield


def plan_of(suite, methods="erm", settings=(), preset="smoke", **more):
    loaded = suites.load(str(suite), preset) if not isinstance(suite, suites.Suite) else suite
    return planned.plan_of(loaded, methods, settings, **more)


def names(cells):
    return [cell.suite.setting_name(cell.setting) for cell in cells]


def run(suite, results, *more):
    return oodbench("run", "--suite", suite, "--preset", "smoke", "--results", results, *more)


# Pairs

SINGLE = [f"covariate={domain}" for domain in ("art_painting", "cartoon", "photo", "sketch")]
PAIRS = [
    "covariate=art_painting+cartoon",
    "covariate=art_painting+photo",
    "covariate=art_painting+sketch",
    "covariate=cartoon+photo",
    "covariate=cartoon+sketch",
    "covariate=photo+sketch",
]


def test_leave_one_domain_out_adds_every_pair_of_domains_once():
    made = plan_of("pacs", "erm", selection=LEAVE_ONE_OUT)
    assert names(made.cells) == SINGLE + PAIRS
    assert names(made.for_selection) == PAIRS
    domains = [cell.suite.held_out(cell.setting) for cell in made.for_selection]
    assert ["+".join(pair) for pair in domains] == [name.removeprefix("covariate=") for name in PAIRS]
    assert len({cell.training.key for cell in made.cells}) == 10


def test_a_pair_is_tested_on_both_domains_and_trained_on_the_others():
    made = plan_of("pacs", "erm", selection=LEAVE_ONE_OUT)
    parts = build_parts(made.suite, made.for_selection[1].setting, seed=0)
    assert (set(parts.labelled.domains), set(parts.covariate.domains)) == ({1, 3}, {0, 2})


@pytest.mark.parametrize("selection", ["training-domain", "oracle"])
def test_the_other_rules_need_no_further_cells(selection):
    made = plan_of("pacs", selection=selection)
    assert names(made.cells) == SINGLE and made.for_selection == []


def test_pairs_leave_the_ordinary_cells_and_the_order_of_the_settings_alone():
    ordinary, paired = plan_of("pacs", "erm,coral"), plan_of("pacs", "erm,coral", selection=LEAVE_ONE_OUT)
    alone = [cell for cell in paired.cells if cell not in paired.for_selection]
    assert [cell.key for cell in alone] == [cell.key for cell in ordinary.cells]
    assert all(cell.suite.contents == ordinary.suite.contents for cell in alone)
    assert {cell.suite.setting_name(s) for cell in paired.cells for s in cell.suite.settings} == set(SINGLE)


def test_a_domain_that_is_asked_for_alone_is_paired_with_every_other_under_the_same_names():
    suite = suites.load("pacs", "smoke").with_sets([], ["photo"])
    keys = {cell.key for cell in plan_of("pacs", selection=LEAVE_ONE_OUT).cells}
    made = plan_of(suite, selection=LEAVE_ONE_OUT)
    assert names(made.cells) == ["covariate=photo", *(name for name in PAIRS if "photo" in name)]
    assert {cell.key for cell in made.cells} < keys


def test_the_draws_of_a_pair_are_those_of_its_domains():
    made = plan_of("pacs", "coral", draws=3, selection=LEAVE_ONE_OUT)
    assert (len(made.cells), len(made.for_selection)) == (3 * 10, 3 * 6)
    values = {cell.training.draw.number: set() for cell in made.cells if cell.training.draw is not None}
    for cell in made.cells:
        if cell.training.draw is not None:
            values[cell.training.draw.number].add(json.dumps(cell.training.draw.values))
    assert sorted(values) == [1, 2] and all(len(found) == 1 for found in values.values())


def test_a_run_says_how_many_cells_are_for_the_selection_and_its_table_selects_by_it(tmp_path):
    more = ("--methods", "erm", "--covariate", "plus90", "--selection", LEAVE_ONE_OUT)
    printed = assert_done(run("colored-mnist", tmp_path / "results", *more))
    assert "colored-mnist-smoke: 3 cells (2 for the selection alone), 0 done already, 3 to run" in printed
    assert "Model selection: leave-one-domain-out" in printed
    folders = sorted(path.name for path in (tmp_path / "results" / "colored-mnist-smoke").iterdir() if path.is_dir())
    assert folders == ["covariate=plus90", "covariate=plus90+minus90", "covariate=plus90+plus80"]
    assert "3 done already, 0 to run: nothing to do" in assert_done(run("colored-mnist", tmp_path / "results", *more))
    for path in (tmp_path / "results").rglob("erm/*.json"):
        assert read(path).settings_order == ["covariate=plus90"]


@pytest.mark.parametrize(
    ("suite", "more", "message"),
    [
        ("pacs", ("--selection", "orcale"), "unknown selection 'orcale'; did you mean 'oracle'?"),
        (
            "digits-c",
            ("--selection", LEAVE_ONE_OUT),
            "leave-one-domain-out trains without two domains and needs three or more, held out one by one, which "
            "'digits-c' does not have; choose --selection training-domain or oracle",
        ),
        (
            "colored-mnist",
            ("--selection", LEAVE_ONE_OUT, "--methods", "erm,irm"),
            "the method 'irm' compares domains, two or more, and 'covariate=plus90+plus80' leaves 1; leave it out",
        ),
    ],
)
def test_a_selection_that_cannot_be_made_is_refused(suite, more, message, tmp_path):
    assert_refused(run(suite, tmp_path / "results", *more), message)
    assert not (tmp_path / "results").exists()


def test_of_all_methods_those_that_need_more_domains_are_left_out():
    made = plan_of("colored-mnist", "all", selection=LEAVE_ONE_OUT)
    assert "compares domains" in made.left_out["coral"] and "compares domains" in made.left_out["vrex"]
    assert {"erm", "mixup", "sagnet"} <= {cell.method.name for cell in made.cells}
    assert "coral" in {cell.method.name for cell in plan_of("colored-mnist", "all").cells}


def test_random_environments_do_not_need_the_domains():
    made = plan_of("colored-mnist", "irm", set=["irm.environments=random:2"], selection=LEAVE_ONE_OUT)
    assert len(made.cells) == 6


# Before anything trains


def assert_refused_before_training(outcome, results, *parts):
    assert_refused(outcome, *parts)
    assert not list(results.rglob("*.json")) and not list(results.rglob("*.pt"))


@pytest.mark.parametrize(
    ("method", "batch", "message"),
    [
        ("coral", 5, "'coral': a batch of 5 has room for 1 of each of 3 environments, 2 are needed; choose"),
        ("irm", 5, "'irm': a batch of 5 has room for 1 of each of 3 environments, 2 are needed; choose"),
        ("dann", 2, "'dann': a batch of 2 has room for 0 of each of 3 environments, 1 are needed; choose"),
    ],
)
def test_a_batch_below_a_methods_minimum_is_refused(method, batch, message, tmp_path):
    more = ("--methods", f"erm,{method}", "--covariate", "photo", "--set", f"recipe.batch_size={batch}")
    for way in ((), ("--dry-run",)):
        assert_refused_before_training(run("pacs", tmp_path, *more, *way), tmp_path, message, "recipe.batch_size=")


def test_the_smallest_batch_of_a_search_is_looked_at(tmp_path):
    suite = tmp_path / "mine.yaml"
    text = (suites.suite_files()["colored-mnist"]).read_text()
    suite.write_text(text.replace("2 * int 2**U(3,9)", "'{512,3}'"))
    more = ("--methods", "coral", "--covariate", "plus90", "--draws", 6)
    outcome = run(suite, tmp_path / "results", *more)
    assert_refused_before_training(outcome, tmp_path, "'coral': a batch of 3 has room for 1 of each of 2 environments")


def test_a_drawn_value_that_a_trainer_refuses_is_told(tmp_path):
    plugin = tmp_path / "picky.py"
    plugin.write_text(
        "from dataclasses import dataclass\nfrom typing import ClassVar\n"
        "from oodbench.errors import UserError\nfrom oodbench import Trainer\n\n\n@dataclass\n"
        "class Picky(Trainer):\n    search: ClassVar[dict[str, str]] = {'size': 'U(1,2)'}\n    size: float = 0.5\n\n"
        "    def __post_init__(self) -> None:\n        if self.size > 1:\n"
        "            raise UserError('picky.size is above 1; choose less')\n"
    )
    more = ("--methods", "picky", "--plugin", plugin, "--covariate", "plus90")
    outcome = run("colored-mnist", tmp_path / "results", *more, "--draws", 2)
    assert_refused_before_training(outcome, tmp_path, "picky.size is above 1; choose less")


def test_a_domain_that_the_data_lack_is_refused(tmp_path):
    suite = tmp_path / "mine.yaml"
    text = suites.suite_files()["pacs"].read_text()
    suite.write_text(text.replace("domains: [sketch]", "domains: [sketches]"))
    outcome = run(suite, tmp_path / "results", "--methods", "erm")
    assert_refused_before_training(outcome, tmp_path, "unknown domain of 'pacs' 'sketches'; did you mean 'sketch'?")


def test_a_suite_that_leaves_one_domain_is_refused_for_methods_that_compare_them(tmp_path):
    suite = tmp_path / "mine.yaml"
    text = suites.suite_files()["pacs"].read_text()
    suite.write_text(text.replace("id: {dataset: pacs,", "id: {dataset: pacs, domains: [photo, sketch],"))
    more = ("--covariate", "sketch", "--methods")
    for method in ("coral", "irm", "vrex"):
        outcome = run(suite, tmp_path / "results", *more, method)
        parts = (f"the method '{method}' compares domains, two or more, and 'covariate=sketch' leaves 1; leave it out",)
        assert_refused_before_training(outcome, tmp_path, *parts)


def test_class_folders_that_differ_between_domains_are_refused(tmp_path):
    random = np.random.default_rng(0)
    for domain, kinds in (("day", "ab"), ("night", "ac")):
        write(tmp_path / domain, {f"{kind}/{i}.png": picture(random) for kind in kinds for i in range(8)})
    suite = tmp_path / "mine.yaml"
    suite.write_text(
        "title: Two folders.\n"
        f"id: {{dataset: 'folder:{tmp_path / 'day'}', size: 12}}\n"
        f"covariate: {{night: {{dataset: 'folder:{tmp_path / 'night'}'}}}}\n"
        "network: {name: mlp}\nrecipes: {scratch: &one {epochs: 1, batch_size: 4, lr: 0.1}, finetune: *one}\n"
        "defaults: {covariate: night}\nsettings: [{covariate: night}]\n"
    )
    outcome = oodbench("run", "--suite", suite, "--methods", "erm", "--results", tmp_path / "results")
    assert_refused_before_training(
        outcome,
        tmp_path / "results",
        "'folder:night' has the class 'c', which is none of the ID data; name its folders",
    )


def test_class_folders_that_differ_between_the_domains_of_pacs_are_refused_when_it_is_added(tmp_path):
    random = np.random.default_rng(0)
    tree = files(lookup.dataset("pacs"), random)
    write(tmp_path / "pacs", {name: content for name, content in tree.items() if not name.startswith("photo/c/")})
    outcome = oodbench("data", "add", "pacs", tmp_path / "pacs")
    assert_refused(outcome, f"'{tmp_path / 'pacs' / 'photo'}' has no images of the class 'c', other domains do")


# What a training depends on


def with_semantic_sets(*sets):
    """PACS with semantic sets from MNIST."""
    suite = suites.load("pacs", "smoke").with_value("id", "size", "28")
    semantic = {name: suites.Source("mnist", classes=[number]) for number, name in enumerate(sets)}
    columns = [suites.Column(name, domain) for name in sets for domain in ("photo", "sketch")]
    return replace(suite, contents=replace(suite.contents, semantic=semantic, settings=columns))


def test_what_reads_no_mixture_is_trained_once_for_all_semantic_sets_beside_a_held_out_domain():
    made = plan_of(with_semantic_sets("zeros", "ones"), "erm,coral,scone")
    shared = {name: {c.training.key for c in made.cells if c.method.name == name} for name in ("erm", "coral", "scone")}
    assert {name: len(keys) for name, keys in shared.items()} == {"erm": 2, "coral": 2, "scone": 4}
    assert len({cell.key for cell in made.cells}) == 3 * 4


def test_the_shares_of_the_mixture_do_not_count_either_and_the_splits_do():
    suite = with_semantic_sets("zeros")
    others = plan_of(suite, "erm", ["zeros,covariate=photo,pi_s=0.3"]).cells
    cells = plan_of(suite, "erm", ["zeros,covariate=photo"]).cells
    assert [cell.training.key for cell in cells] == [cell.training.key for cell in others]
    assert [cell.key for cell in cells] != [cell.key for cell in others]
    fewer = plan_of(suite.with_value("splits", "labelled", "0.4"), "erm", ["zeros,covariate=photo"]).cells
    assert [cell.training.key for cell in cells] != [cell.training.key for cell in fewer]


def test_settings_share_a_training_just_where_it_gets_the_same_images():
    suite = with_semantic_sets("zeros", "ones")
    settings = [*suite.settings, *suites.load("pacs", "smoke").settings]
    rows = {s: build_parts(suite, s, 0).labelled.digest for s in settings}
    cells = {s: plan_of(suite, "erm", [f"{s.semantic},covariate={s.covariate}"]).cells[0] for s in settings}
    for a in settings:
        for b in settings:
            assert (cells[a].training.key == cells[b].training.key) == (rows[a] == rows[b]), (a, b)
