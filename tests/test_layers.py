"""What the modules may know of each other, and what none of them may do."""

import ast
import io
import pickle
import re
import subprocess
import sys
from functools import cache
from typing import get_args

import pytest
import yaml

import oodbench
from oodbench.config import yaml_values
from oodbench.config.cards import PACKAGE, folder
from oodbench.data.untrusted import cifar
from oodbench.errors import UserError
from oodbench.learning.functional import LogitScore

# A line is a room, or modules that need none. Modules of a line may import each other, and what stands on lines above.
ROOMS = """
errors files user_files seeds digests torchvision_import
config
data
learning
results
running
report
api functional notebook testing
cli
"""
RANK = {name: rank for rank, line in enumerate(ROOMS.split("\n")) for name in line.split()}
# What a room may use of another: `learning` is told how to train, and `results` knows of no network.
ONLY = {
    ("learning", "config"): {"config.recipe"},
    ("results", "learning"): set(),
    ("report", "running"): set(),  # what it prints stands in results and in the facts of shipped methods
}
DEFAULTS = {"erm", "energy", "msp", "knn"}  # what a suite runs that lists no methods

HARNESS = [path for path in sorted(PACKAGE.rglob("*.py")) if "methods" not in path.parts[-2:]]
METHODS = sorted(folder("methods").glob("*.py"))
EVERYTHING = HARNESS + METHODS
UNTRUSTED = PACKAGE / "data" / "untrusted"
PICKLES = UNTRUSTED / "cifar.py"
NAMES = {path.stem.replace("_", "-") for path in METHODS}


def short(path):
    return path.stem if path in METHODS else str(path.relative_to(PACKAGE))


@cache
def nodes(path):
    """Of the syntax tree of a file, all."""
    return [*ast.walk(ast.parse(path.read_text()))]


def layer(path):
    """The room, or the module that needs none."""
    return path.relative_to(PACKAGE).with_suffix("").parts[0]


def module(path):
    return ".".join(path.relative_to(PACKAGE).with_suffix("").parts).removesuffix(".__init__")


MODULES = {module(path) for path in HARNESS}


def imported_modules(path):
    """The modules of oodbench that a file imports or imports from, as `room.module`."""
    for parts in imports(path) - {("__version__",)}:
        names = [".".join(parts[:count]) for count in range(len(parts), 0, -1)]
        yield next((name for name in names if name in MODULES), names[0])


def out_of_place(path):
    """What a module must not import and does."""
    own = layer(path)
    for name in imported_modules(path):
        room = name.split(".")[0]
        allowed = RANK[room] <= RANK[own] and (room == own or name in ONLY.get((own, room), {name}))
        if not allowed:
            yield f"{module(path)}: {name}"


def imports(path):
    """The modules of oodbench that a file imports, wherever in it; `methods.x` for a method."""
    found = set()
    for node in nodes(path):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "relative import"
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
    return {tuple(name.split(".")[1:]) for name in found if name.startswith("oodbench.")}


def calls(path):
    return [node for node in nodes(path) if isinstance(node, ast.Call)]


def called(call):
    return ast.unparse(call.func)


def test_every_module_has_its_place_in_the_chain():
    assert set(RANK) == {layer(path) for path in HARNESS} - {"__init__", "__main__"}


def test_a_room_imports_only_from_rooms_before_it():
    by_layer = {layer(path): path for path in HARNESS}
    assert set(imported_modules(by_layer["__main__"])) == {"cli"}
    ruled = [path for path in HARNESS if layer(path) not in ("__init__", "__main__")]  # the first names what is public
    assert [wrong for path in ruled for wrong in out_of_place(path)] == []


def test_what_prints_results_reads_no_method_files():
    own = [path for path in HARNESS if layer(path) == "report"]
    assert [module(path) for path in own if "config.registry" in imported_modules(path)] == []


def test_a_method_imports_only_what_is_public_and_other_methods():
    public = {*oodbench.__all__}
    assert [
        (short(path), name)
        for path in METHODS
        for name, *rest in imports(path)
        if name not in ("methods", "functional") and (name not in public or rest)
    ] == []


OTHER_MEANINGS = {
    "config/cards.py": {"ood-head"},  # what a trainer adds to a network
    "learning/without_images.py": {"ood-head"},
    "config/recipe.py": {"cosine"},  # a schedule of the learning rate
    "data/sets/corrupted.py": {"scale"},  # a corruption of MNIST-C
    "learning/functional.py": {*get_args(LogitScore)},  # how changed logits are scored
    "learning/method.py": {*get_args(LogitScore)},
}


def test_the_harness_names_no_method_but_the_defaults():
    assert [short(path) for path in HARNESS for parts in imports(path) if parts[0] == "methods"] == []
    ruled = [path for path in HARNESS if path.name != "labels.py"]  # the paper's rows: names to print, in its order
    assert [
        (short(path), node.value)
        for path in ruled
        for node in nodes(path)
        if isinstance(node, ast.Constant)
        and isinstance(node.value, str)
        and node.value in NAMES - DEFAULTS - OTHER_MEANINGS.get(short(path), set())
    ] == []


def test_the_command_line_and_the_api_wait_for_torch():
    names = """
    oodbench.cli oodbench.api oodbench.running.plan oodbench.config.registry oodbench.config.suite
    oodbench.config.schema oodbench.results.result oodbench.report.tables oodbench.report.layouts
    oodbench.report.comparison oodbench.report.render oodbench.data.parts oodbench.results.metrics
    oodbench.config.recipe
    """
    code = f"import sys, {', '.join(names.split())}; assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_config_reads_every_suite_method_and_network_without_numpy_or_torch():
    """It learns the names of methods, networks and corruption kinds by reading files as text."""
    modules = [name for name in MODULES if name.split(".")[0] == "config"]
    code = f"""
import sys, {", ".join(f"oodbench.{name}" for name in modules)}
from oodbench.config import identity, registry, suite
loaded = [suite.load(name) for name in suite.suite_files()]
assert loaded and registry.Registry().cards and identity.shipped()
assert not {{"numpy", "scipy", "torch"}} & set(sys.modules)
"""
    subprocess.run([sys.executable, "-c", code], check=True)


def test_only_the_command_line_prints():
    ruled = [path for path in EVERYTHING if path in METHODS or layer(path) != "cli"]
    printing = ("print", "sys.stdout.write")
    assert [short(path) for path in ruled for call in calls(path) if called(call) in printing] == []


def test_nothing_chooses_a_device_of_its_own():
    choosing = r"cuda\.is_available|device\(\s*[\"']cuda"
    assert [short(path) for path in EVERYTHING if re.search(r"\.cuda\(", path.read_text())] == []
    assert [path.name for path in EVERYTHING if re.search(choosing, path.read_text())] == ["preflight.py"]


def loaded_unsafely(call, path):
    """Whether a call could run code that a file on disk holds."""
    name, keywords = called(call), {k.arg: ast.unparse(k.value) for k in call.keywords}
    if name == "torch.load":
        return keywords.get("weights_only") != "True"
    if name == "np.load":
        return keywords.get("allow_pickle", "False") != "False"
    if name in ("yaml.load", "yaml.load_all", "yaml.compose"):
        return keywords["Loader"] not in ("yaml.SafeLoader", "_Loader")
    if name in ("exec", "compile"):
        return path.name != "cards.py"  # plugins, named by the user
    if "extractall" in name:
        return keywords.get("filter") != "'data'"
    return name in ("eval", "os.system", "yaml.unsafe_load", "yaml.full_load")


def test_nothing_loaded_from_disk_can_run_code():
    assert [
        f"{short(path)}:{call.lineno}" for path in EVERYTHING for call in calls(path) if loaded_unsafely(call, path)
    ] == []
    loaders = r"^\s*(?:import|from) (pickle|marshal|shelve|dill|joblib)\b"
    found = [(path, name) for path in EVERYTHING for name in re.findall(loaders, path.read_text(), re.MULTILINE)]
    assert found == [(PICKLES, "pickle")]  # whose unpickler builds arrays and no more


@pytest.mark.parametrize(
    "line",
    [
        "torch.load(path)",
        "np.load(path, allow_pickle=True)",
        "yaml.load(text, Loader=yaml.Loader)",
        "exec(text)",
        "archive.extractall(folder)",
        "eval(text)",
    ],
)
def test_a_line_that_could_run_code_is_noticed(line):
    (call,) = [node for node in ast.walk(ast.parse(line)) if isinstance(node, ast.Call)]
    assert loaded_unsafely(call, PACKAGE / "results" / "stored.py")


def test_only_one_package_of_the_data_room_reads_formats_that_others_write():
    """So that a reviewer finds every such reader in one place; the digits come with scikit-learn."""
    parsers = r"^\s*(?:import|from) (pickle|tarfile|zipfile|gzip|bz2|lzma|zlib|struct|numpy.lib)\b"
    ruled = [path for path in HARNESS if layer(path) == "data" and path.parent != UNTRUSTED]
    found = [(path.name, name) for path in ruled for name in re.findall(parsers, path.read_text(), re.MULTILINE)]
    assert found == [("digits.py", "gzip")]


def test_the_only_unpickler_refuses_everything_but_arrays():
    assert "pickle.load" not in re.sub(r'""".*?"""', "", PICKLES.read_text(), flags=re.DOTALL)
    with pytest.raises(UserError, match="wants to run 'builtins.eval'; it is damaged or not to be trusted"):
        cifar._ArraysOnly(io.BytesIO(pickle.dumps(eval))).load()


def test_the_loader_of_suite_files_makes_only_plain_values():
    assert issubclass(yaml_values._Loader, yaml.SafeLoader)
    assert yaml_values._Loader.yaml_constructors == yaml.SafeLoader.yaml_constructors
    assert yaml_values._Loader.yaml_multi_constructors == yaml.SafeLoader.yaml_multi_constructors


def test_there_is_no_drawer_for_odds_and_ends():
    names = {path.stem for path in EVERYTHING} | {path.parent.name for path in EVERYTHING}
    assert not [name for name in names if re.search("utils?$|helpers?$|^common$|^misc$|^base_|_impl$", name)]


def test_a_room_further_on_is_noticed(monkeypatch):
    """The chain's own test: `errors` that imported `cli` would fail, as would a room that took too much of another."""
    for name, code, wrong in (
        ("errors", "def f():\n    from oodbench import cli", "errors: cli"),
        ("results.metrics", "from oodbench.learning.outputs import forward", "results.metrics: learning.outputs"),
        ("learning.loop", "from oodbench.config.suite import Suite", "learning.loop: config.suite"),
    ):
        path = next(path for path in HARNESS if module(path) == name)
        with monkeypatch.context() as changed:
            changed.setitem(globals(), "nodes", lambda path, code=code: [*ast.walk(ast.parse(code))])
            assert list(out_of_place(path)) == [wrong]
