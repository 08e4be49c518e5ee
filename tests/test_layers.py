"""What the modules may know of each other, and what none of them may do."""

import ast
import io
import pickle
import re
import subprocess
import sys
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
api functional testing
cli
"""
RANK = {name: rank for rank, line in enumerate(ROOMS.split("\n")) for name in line.split()}
# What a room may use of another: `learning` is told how to train, and `results` knows of no network.
ONLY = {("learning", "config"): {"config.recipe"}, ("results", "learning"): set()}
DEFAULTS = {"erm", "energy", "msp", "knn"}  # what a suite runs that lists no methods

HARNESS = {
    path: ast.parse(path.read_text()) for path in sorted(PACKAGE.rglob("*.py")) if "methods" not in path.parts[-2:]
}
METHODS = {path: ast.parse(path.read_text()) for path in sorted(folder("methods").glob("*.py"))}
EVERYTHING = HARNESS | METHODS
UNTRUSTED = PACKAGE / "data" / "untrusted"
PICKLES = UNTRUSTED / "cifar.py"
NAMES = {path.stem.replace("_", "-") for path in METHODS}


def short(path):
    return path.stem if path in METHODS else str(path.relative_to(PACKAGE))


every_file = pytest.mark.parametrize("path", EVERYTHING, ids=short)


def layer(path):
    """The room, or the module that needs none."""
    return path.relative_to(PACKAGE).with_suffix("").parts[0]


def module(path):
    return ".".join(path.relative_to(PACKAGE).with_suffix("").parts).removesuffix(".__init__")


MODULES = {module(path) for path in HARNESS}


def imported_modules(tree):
    """The modules of oodbench that a file imports or imports from, as `room.module`."""
    for parts in imports(tree) - {("__version__",)}:
        names = [".".join(parts[:count]) for count in range(len(parts), 0, -1)]
        yield next((name for name in names if name in MODULES), names[0])


def out_of_place(path):
    """What a module must not import and does."""
    own = layer(path)
    for name in imported_modules(HARNESS[path]):
        room = name.split(".")[0]
        allowed = RANK[room] <= RANK[own] and (room == own or name in ONLY.get((own, room), {name}))
        if not allowed:
            yield f"{module(path)}: {name}"


def imports(tree):
    """The modules of oodbench that a file imports, wherever in it; `methods.x` for a method."""
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "relative import"
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
    return {tuple(name.split(".")[1:]) for name in found if name.startswith("oodbench.")}


def calls(tree):
    return [node for node in ast.walk(tree) if isinstance(node, ast.Call)]


def called(call):
    return ast.unparse(call.func)


def test_every_module_has_its_place_in_the_chain():
    assert set(RANK) == {layer(path) for path in HARNESS} - {"__init__", "__main__"}


@pytest.mark.parametrize("path", HARNESS, ids=short)
def test_a_room_imports_only_from_rooms_before_it(path):
    if layer(path) == "__main__":
        assert set(imported_modules(HARNESS[path])) == {"cli"}
    elif layer(path) != "__init__":  # which names what is public, of any room
        assert list(out_of_place(path)) == []


@pytest.mark.parametrize("path", METHODS, ids=short)
def test_a_method_imports_only_what_is_public_and_other_methods(path):
    for name, *rest in imports(METHODS[path]):
        assert name in ("methods", "functional") or (name in oodbench.__all__ and not rest), name


OTHER_MEANINGS = {
    "config/cards.py": {"ood-head"},  # what a trainer adds to a network
    "learning/without_images.py": {"ood-head"},
    "config/recipe.py": {"cosine"},  # a schedule of the learning rate
    "data/sets/corrupted.py": {"scale"},  # a corruption of MNIST-C
    "learning/functional.py": {*get_args(LogitScore)},  # how changed logits are scored
    "learning/method.py": {*get_args(LogitScore)},
}


@pytest.mark.parametrize("path", HARNESS, ids=short)
def test_the_harness_names_no_method_but_the_defaults(path):
    tree = HARNESS[path]
    assert not [parts for parts in imports(tree) if parts[0] == "methods"]
    if path.name == "groups.py":  # the paper's rows: names to print, in the paper's order
        return
    constants = {
        node.value for node in ast.walk(tree) if isinstance(node, ast.Constant) and isinstance(node.value, str)
    }
    assert not constants & (NAMES - DEFAULTS - OTHER_MEANINGS.get(short(path), set()))


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


@every_file
def test_only_the_command_line_prints(path):
    if path in METHODS or layer(path) != "cli":
        assert not [call for call in calls(EVERYTHING[path]) if called(call) in ("print", "sys.stdout.write")]


@every_file
def test_nothing_chooses_a_device_of_its_own(path):
    text = path.read_text()
    assert not re.search(r"\.cuda\(", text)
    if path.name != "preflight.py":
        assert not re.search(r"cuda\.is_available|device\(\s*[\"']cuda", text)


@every_file
def test_nothing_loaded_from_disk_can_run_code(path):
    for call in calls(EVERYTHING[path]):
        name, keywords = called(call), {k.arg: ast.unparse(k.value) for k in call.keywords}
        if name == "torch.load":
            assert keywords.get("weights_only") == "True"
        if name == "np.load":
            assert keywords.get("allow_pickle", "False") == "False"
        if name in ("yaml.load", "yaml.load_all", "yaml.compose"):
            assert keywords["Loader"] in ("yaml.SafeLoader", "_Loader")
        assert name not in ("os.system", "yaml.unsafe_load", "yaml.full_load")
        assert name not in ("exec", "compile") or path.name == "cards.py"  # plugins, named by the user
        assert "extractall" not in name or keywords.get("filter") == "'data'"
    loaders = re.findall(r"^\s*(?:import|from) (pickle|marshal|shelve|dill|joblib)\b", path.read_text(), re.MULTILINE)
    assert loaders == (["pickle"] if path == PICKLES else [])  # whose unpickler builds arrays and no more


@pytest.mark.parametrize("path", [path for path in HARNESS if layer(path) == "data"], ids=short)
def test_only_one_package_of_the_data_room_reads_formats_that_others_write(path):
    """So that a reviewer finds every such reader in one place; the digits come with scikit-learn."""
    names = "pickle|tarfile|zipfile|gzip|bz2|lzma|zlib|struct|numpy.lib"
    parsers = re.findall(rf"^\s*(?:import|from) ({names})\b", path.read_text(), re.MULTILINE)
    assert not parsers or path.parent == UNTRUSTED or (path.name, parsers) == ("digits.py", ["gzip"])


def test_the_only_unpickler_refuses_everything_but_arrays():
    assert "pickle.load" not in re.sub(r'""".*?"""', "", PICKLES.read_text(), flags=re.DOTALL)
    with pytest.raises(UserError, match="wants to run 'builtins.eval'; it is damaged or not to be trusted"):
        cifar._ArraysOnly(io.BytesIO(pickle.dumps(eval))).load()


def test_the_loader_of_suite_files_makes_only_plain_values():
    assert issubclass(yaml_values._Loader, yaml.SafeLoader)
    assert yaml_values._Loader.yaml_constructors == yaml.SafeLoader.yaml_constructors
    assert yaml_values._Loader.yaml_multi_constructors == yaml.SafeLoader.yaml_multi_constructors


def test_nothing_is_evaluated():
    found = [path.name for path, tree in EVERYTHING.items() for call in calls(tree) if called(call) == "eval"]
    assert found == []


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
        monkeypatch.setitem(HARNESS, path, ast.parse(code))
        assert list(out_of_place(path)) == [wrong]
