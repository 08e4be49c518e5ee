"""What a cell's key depends on and what not, and which cells share a training: equal keys, equal numbers."""

import json
import shutil
from dataclasses import replace

import numpy as np
import pytest
from command_line import python
from data_files import write
from planned import plan_of
from stand_ins import arrays, data_in, picture

from oodbench.config import suite as suites
from oodbench.config.cards import PACKAGE, folder
from oodbench.config.families import corruption_kinds
from oodbench.config.registry import Registry
from oodbench.data import lookup, store
from oodbench.data.parts import build_parts
from oodbench.data.sets.cifar import CIFAR10
from oodbench.data.sets.idx import MNIST, FashionMNIST
from oodbench.data.sets.svhn import SVHN
from oodbench.running import keys as key_parts
from oodbench.running.choice import _choices

REGISTRY = Registry()


def keys(suite, methods="msp,scone", **more):
    return [cell.key for cell in plan_of(suite, methods, **more).cells]


# Code

PRINT_KEYS = """
import json, os, sys
sys.path.insert(0, sys.argv[1])
from oodbench.running import plan, request

def write(files):
    for file, text in files.items():
        if text is None:
            os.remove(file)
        else:
            open(file, "w").write(text)

for case, files in {"": {}, **json.load(sys.stdin)}.items():
    before = {file: open(file).read() if os.path.exists(file) else None for file in files}
    write(files)
    if os.fork() == 0:
        made = plan.plan(request.request(methods="msp,energy,scone", results="nowhere"))
        print(json.dumps([case, [cell.key for cell in made.cells[::2]]]), flush=True)
        os._exit(0)
    status = os.wait()[1]
    write(before)
    assert status == 0, case
"""


@pytest.fixture(scope="module")
def code(tmp_path_factory):
    """A copy of the code."""
    place = tmp_path_factory.mktemp("code")
    ignore = shutil.ignore_patterns("__pycache__", "reported", "speed", "fidelity")
    shutil.copytree(PACKAGE, place / "oodbench", ignore=ignore)
    for name in ("methods", "benchmarks"):
        shutil.copytree(folder(name), place / name, ignore=ignore)
    return place


def keys_of_code(code, changes):
    """Of msp, energy and scone with the code as it is, under an empty name, and for each case with files changed.

    A case gives files their new text, and None deletes one. Each is planned by a process that has read no code but what
    planning imports; keys follow from what the files say.
    """
    asked = {case: {str(code / file): text for file, text in files.items()} for case, files in changes.items()}
    outcome = python("-c", PRINT_KEYS, code, stdin=json.dumps(asked), PYTHONDONTWRITEBYTECODE="1")
    assert outcome.status == 0, outcome.err
    return dict(map(json.loads, outcome.out.splitlines()))


def stale(code, changes):
    """For each case the methods whose cells are no longer done."""
    found = keys_of_code(code, changes)
    return {
        case: {name for name, a, b in zip(("msp", "energy", "scone"), found[""], found[case], strict=True) if a != b}
        for case in changes
    }


def replaced(code, file, old, new):
    text = (code / file).read_text()
    assert old in text and old != new, f"{old} is not in {file}"
    return {file: text.replace(old, new)}


def test_the_keys_of_a_copy_are_ours(code):
    assert keys_of_code(code, {})[""] == keys(suites.load("digits-c"), "msp,energy,scone")[::2]


CHANGED = [  # a file, a text in it, what takes its place, and the methods that are run again
    ("oodbench/learning/functional.py", "return -temperature *", "return -2 * temperature *", {"energy", "scone"}),
    ("oodbench/learning/networks/small_cnn.py", "nn.ReLU()", "nn.GELU()", {"msp", "energy", "scone"}),
    ("oodbench/data/corruptions/digits_c.py", "np.rint", "np.floor", {"msp", "energy", "scone"}),
    ("oodbench/learning/loop.py", "value.backward()", "(2 * value).backward()", {"msp", "energy", "scone"}),
    ("oodbench/config/recipe.py", "math.cos(math.pi", "math.cos(3", {"msp", "energy", "scone"}),
    ("oodbench/data/parts.py", "np.rint(np.cumsum", "np.floor(np.cumsum", {"msp", "energy", "scone"}),
    ("oodbench/learning/outputs.py", "else largest", "else 2 * largest", {"msp", "energy", "scone"}),
    ("methods/scone.py", "growth: float = 1.5", "growth: float = 2.5", {"scone"}),
    ("oodbench/learning/constraints.py", ".mean() - self.alpha)", ".mean() - 2 * self.alpha)", {"scone"}),
    ("methods/msp.py", "amax", "amin", {"msp"}),
]


def test_code_that_numbers_depend_on_counts_wherever_it_lies(code):
    changes = {f"{file}: {new}": replaced(code, file, old, new) for file, old, new, _ in CHANGED}
    assert stale(code, changes) == {f"{file}: {new}": methods for file, _, new, methods in CHANGED}


FUNCTIONAL, METRICS = "oodbench/learning/functional.py", "oodbench/results/metrics.py"
UNCHANGED = {  # a file, a text in it and what takes its place
    "a comment": ("oodbench/learning/networks/small_cnn.py", "\n\n", "\n\n# A remark.\n"),
    "a docstring": ("methods/scone.py", '"""Wild images pushed out', '"""In other words: wild images pushed out'),
    "the words of an error": ("methods/scone.py", "scone.threshold=test serves only", "oh"),
    "a new function beside one that is used": (FUNCTIONAL, "\n\n\ndef energy", "\n\n\ndef new(): ...\n\n\ndef energy"),
    "an assignment in a file of another family": (
        "oodbench/data/corruptions/_frost.py",
        "\n\nNAMES",
        "\n\nX = 1\nNAMES",
    ),
    "a network that the suite does not use": ("oodbench/learning/networks/wrn.py", "F.relu", "F.gelu"),
    "metrics, which are rescored": (METRICS, "0.05", "0.06"),
    "another way to import": ("methods/erm.py", "from oodbench import", "from oodbench.learning.method import"),
    "another name for an import": ("methods/energy.py", "functional", "functional_"),
    "a name imported instead of its module": (
        "methods/energy.py",
        "UserError, functional",
        "UserError\nfrom oodbench.functional import energy",
    ),
    "a name to display": ("methods/scone.py", "    starts_from:", '    display: ClassVar[str] = "S"\n    starts_from:'),
    "the annotation of a function": (FUNCTIONAL, "temperature: float = 1.0) -> Tensor", "temperature=1.0)"),
}


def test_what_changes_no_number_changes_no_key(code):
    changes = {what: replaced(code, *change) for what, change in UNCHANGED.items()}
    energy = changes["another name for an import"]  # bound under another name, and used so
    energy["methods/energy.py"] = energy["methods/energy.py"].replace(
        "UserError, functional_", "UserError, functional as functional_"
    )
    energy = changes["a name imported instead of its module"]
    energy["methods/energy.py"] = energy["methods/energy.py"].replace("functional.energy(", "energy(")
    assert stale(code, changes) == dict.fromkeys(UNCHANGED, set())


def test_a_module_that_moves_takes_its_results_along(code):
    """`functional` under another name, and everybody imports it from there."""
    text = (code / "oodbench/learning/functional.py").read_text()
    changes = {"oodbench/learning/functional.py": None, "oodbench/mathematics.py": text}
    for file in [*(code / "oodbench").rglob("*.py"), *(code / "methods").glob("*.py")]:
        text = file.read_text()
        moved = text.replace("from oodbench.learning.functional import", "from oodbench.mathematics import")
        moved = moved.replace(
            "from oodbench.learning import functional", "from oodbench import mathematics as functional"
        )
        if moved != text:
            changes[str(file.relative_to(code))] = moved
    assert len(changes) == 7 and stale(code, {"moved": changes}) == {"moved": set()}


def test_the_number_of_threads_counts_for_every_cell():
    suite = suites.load("digits-c")
    assert keys(suite) == keys(suite.with_threads(1)) == keys(suite.with_threads(None))
    assert not set(keys(suite)) & set(keys(suite.with_threads(2)))


# Values


@pytest.mark.parametrize(
    "assignment",
    ["recipe.augment=crop-flip", "id.jpeg=75", "splits.labelled=0.4", "network.width=8", "recipe.freeze_bn=true"],
)
def test_every_value_counts_for_every_cell_and_its_default_changes_nothing(assignment, tmp_path):
    suite = suites.load("digits-c")
    assert not set(keys(suite)) & set(keys(suite, set=[assignment]))
    defaults = ["recipe.augment=none", "splits.labelled=0.5", "network.width=16", "recipe.freeze_bn=false"]
    assert keys(suite) == keys(suite, set=defaults)


def test_the_draw_of_the_mixture_counts_for_what_reads_it():
    suite = suites.load("digits-c")
    other = replace(suite, contents=replace(suite.contents, mixture="three_masks"))
    (msp, *_, scone), (same, *_, different) = keys(suite), keys(other)
    assert msp == same and scone != different


# Data


@pytest.fixture
def home(tmp_path):
    with data_in(tmp_path / "data") as home:
        yield home


def with_folder(place):
    return suites.load("digits-c").with_sets([f"folder:{place}"], ())


def test_a_folder_counts_by_its_content_and_not_by_its_place(home, tmp_path):
    random = np.random.default_rng(0)
    files = {f"{i}.png": picture(random, side=8) for i in range(10)}
    here, there = write(tmp_path / "here" / "odd", files), write(tmp_path / "far" / "away" / "odd", files)
    assert keys(with_folder(here)) == keys(with_folder(there))
    before = keys(with_folder(here))
    write(there, {"3.png": picture(random, side=8)})
    lookup.dataset.cache_clear()
    assert keys(with_folder(here)) == before and not set(keys(with_folder(there))) & set(before)


def test_of_two_folders_with_one_name_both_count(home, tmp_path):
    random = np.random.default_rng(0)
    one, other = (
        write(tmp_path / above / "odd", {f"{i}.png": picture(random, side=8) for i in range(10)}) for above in "ab"
    )

    def both():
        lookup.dataset.cache_clear()
        suite = suites.load("digits-c").with_sets([f"folder:{one}"], [f"folder:{other}"])
        return suite, next(each for each in suite.settings if each.semantic == each.covariate == "odd")

    suite, setting = both()
    marks = lookup.fingerprints(suite, setting)
    second = lookup.dataset(f"folder:{other}").fingerprint
    assert marks["folder:odd"] == lookup.dataset(f"folder:{one}").fingerprint != second
    assert marks[f"folder:odd {second}"] == second and len(marks) == 3
    before = keys(suite)
    for changed in (one, other):
        write(changed, {"3.png": picture(random, side=8)})
        assert not set(keys(both()[0])) & set(before)
        before = keys(suite)


def test_weights_for_the_network_count_by_their_content(tmp_path):
    suite = suites.load("imagenet100-c")
    network = suite.contents.network
    places = [tmp_path / "a.pth", tmp_path / "b.pth", tmp_path / "c.pth"]
    for path, content in zip(places, (b"same", b"same", b"other"), strict=True):
        path.write_bytes(content)
    a, b, c = (key_parts.network(replace(network, options={"weights": str(path)})) for path in places)
    assert a == b != c and str(tmp_path) not in str(a)


# Published corrupted copies, as far as they go


def publish(name, kind, copies, labels, in_test):
    store.save(f"{name}/{kind}", store.Decoded(copies, labels, in_test), "the makers")


@pytest.fixture
def mnist(home, monkeypatch):
    """MNIST and FashionMNIST with eighty images each."""
    monkeypatch.setattr(MNIST, "rows", (60, 20))
    for number, data in enumerate((MNIST, FashionMNIST)):
        store.save(data.name, arrays(data, np.random.default_rng(number), 60, 20), "a test")
    return suites.load("mnist-c").with_value("splits", "labelled", "0.5")


def test_published_copies_are_preferred_and_count(mnist):
    setting = mnist.settings[0]
    made, before = build_parts(mnist, setting, 0), keys(mnist)
    clean = store.load("mnist")
    publish("mnist-c-files", "dotted_line", 255 - clean.images, clean.labels, clean.in_test)
    taken = build_parts(mnist, setting, 0)
    for name in ("wild_covariate", "mixed_covariate", "covariate"):
        ours, theirs = getattr(made, name), getattr(taken, name)
        assert ours.origin == "mnist mnist_c.dotted_line-1" and theirs.origin == "mnist mnist-c-files.dotted_line-1"
        assert np.array_equal(ours.rows, theirs.rows) and np.array_equal(ours.labels, theirs.labels)
        assert np.array_equal(theirs.images, 255 - clean.images[theirs.rows]) and ours.digest != theirs.digest
    assert taken.labelled.digest == made.labelled.digest
    assert not set(before) & set(keys(mnist))
    assert "mnist-c-files" in lookup.fingerprints(mnist, setting)
    other = mnist.setting("covariate=zigzag")
    assert build_parts(mnist, other, 0).covariate.origin == "mnist mnist_c.zigzag-1"
    assert "mnist-c-files" not in lookup.fingerprints(mnist, other)


def test_published_copies_are_of_lossless_images_and_not_taken_for_encoded_ones(mnist):
    clean = store.load("mnist")
    publish("mnist-c-files", "dotted_line", 255 - clean.images, clean.labels, clean.in_test)
    encoded = mnist.with_value("id", "jpeg", "75")
    parts = build_parts(encoded, encoded.settings[0], 0)
    assert parts.covariate.origin == "mnist jpeg-75 mnist_c.dotted_line-1" and parts.id.origin == "mnist jpeg-75"
    assert "mnist-c-files" not in lookup.fingerprints(encoded, encoded.settings[0])


def test_copies_of_the_test_images_alone_serve_the_test_split_and_the_rest_is_made(home, monkeypatch):
    """As CIFAR-10-C has them; each part says which it holds."""
    monkeypatch.setattr(CIFAR10, "rows", (20, 6))
    for number, data in enumerate((CIFAR10, SVHN)):
        store.save(data.name, arrays(data, np.random.default_rng(number), 20, 6), "a test")
    clean = store.load("cifar10")
    severe = [np.full((6, 3, 32, 32), 10 * severity, dtype=np.uint8) for severity in range(1, 6)]
    publish("cifar10-c-files", "fog", np.concatenate(severe), np.tile(clean.labels[20:], 5), np.ones(30, dtype=bool))
    suite = suites.load("cifar10-c")
    parts = build_parts(suite, suite.setting("svhn,covariate=fog,severity=4"), 0)
    assert (parts.covariate.images == 40).all() and parts.covariate.origin == "cifar10 cifar10-c-files.fog-4"
    assert np.array_equal(parts.covariate.rows, parts.id.rows)
    assert parts.wild_covariate.origin == parts.mixed_covariate.origin == "cifar10 cifar_c.fog-4"


# Sweeps and shared trainings

SWEEPS = """
sweeps:
  margin:
    methods: scone
    set: {scone.margin: [0, -1.5]}
  ratio:
    methods: msp,scone
    setting: {pi_c: [0, 0.2, 0.5]}
  both:
    methods: scone,knn
    set: {scone.margin: [0, -1.5], knn.k: [3, 4, 5]}
    setting: {covariate: [blur, contrast]}
"""


@pytest.fixture
def swept(tmp_path):
    path = tmp_path / "mine.yaml"
    path.write_text(suites.suite_files()["digits-c"].read_text() + SWEEPS)
    return suites.load(str(path))


def told(made):
    return [(made.suite.setting_name(cell.setting), cell.method.label) for cell in made.cells]


def test_a_sweep_of_hyperparameters_shares_what_they_start_from(swept):
    made = plan_of(swept, "scone", sweep="margin")
    assert told(made) == [("unseen-digits", "scone,margin=0"), ("unseen-digits", "scone,margin=-1.5")]
    assert len(made.trainings) == 2 and len(made.all_trainings) == 3  # erm once


def test_a_sweep_of_settings_trains_once_what_reads_no_mixture(swept):
    made = plan_of(swept, "msp,scone", sweep="ratio")
    settings = ["unseen-digits,pi_c=0.0", "unseen-digits,pi_c=0.2", "unseen-digits"]
    assert told(made) == [(setting, method) for method in ("msp", "scone") for setting in settings]
    assert len(made.trainings) == 4 and len(made.all_trainings) == 4  # msp's erm, which scone starts from, and three


def test_a_sweep_takes_every_combination_once(swept):
    made = plan_of(swept, "scone,knn", sweep="both")
    methods = ["scone,margin=0", "scone,margin=-1.5", "knn,k=3", "knn,k=4", "knn,k=5"]
    settings = ["unseen-digits,covariate=blur", "unseen-digits,covariate=contrast"]
    assert sorted(told(made)) == sorted((setting, method) for method in methods for setting in settings)
    assert len(made.trainings) == 5  # erm for all of knn, and scone for two margins and two settings


def test_a_sweep_goes_over_the_settings_that_are_asked_for(swept):
    made = plan_of(swept, "msp", ["photo-patches", "unseen-digits,severity=1"], sweep="ratio")
    assert [setting for setting, _ in told(made)][::3] == [
        "photo-patches,pi_c=0.0",
        "unseen-digits,severity=1,pi_c=0.0",
    ]
    assert len(made.cells) == 6


def test_every_sweep_of_ours_plans_the_values_of_its_table():
    suite = suites.load("cifar10-c")
    margins = suite.sweep("margin").set["scone.margin"]
    assert margins == [0, -0.1, -0.5, -1, -2, -10, -20, -50]
    assert suite.sweep("ratio").setting["pi_c"] == [0, 0.1, 0.2, 0.5, 0.9]
    assert sorted(suite.sweep("corruption").setting["covariate"]) == sorted(corruption_kinds("cifar_c"))
    for name in suites.suite_files():
        for sweep in suites.load(name).contents.sweeps.values():
            assert sweep.set or sweep.setting
            for method in sweep.methods.split(","):
                REGISTRY.method(method)
            for choice in _choices(sweep.setting) if sweep.setting else ():
                suites.load(name).setting(",".join(choice))
