"""`run --model`: a network of the user's in place of the suite's, from a function, a class or an installed package."""

import contextlib
import shutil
import sys
import textwrap
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
import yaml
from command_line import SUITE_FILE, assert_done, assert_refused, complaints, oodbench, python, smoke

import oodbench as package
from oodbench.config import networks
from oodbench.config import suite as suites
from oodbench.config.contents import NetworkChoice
from oodbench.errors import UserError
from oodbench.results.folder import read_folder
from oodbench.results.stored import read_scores
from oodbench.running import own_networks, provenance, repeat, trained
from oodbench.running.plan import plan
from oodbench.running.request import request

NET = '''
"""A network of mine."""

import torch.nn.functional as F
from torch import nn

KERNEL = 3


class Net(nn.Module):
    """As tutorials write it: with view, and dropout before the last layer."""

    def __init__(self, channels, num_classes, width=4, act=F.relu):
        super().__init__()
        self.conv = nn.Conv2d(channels, width, KERNEL, padding=1)
        self.bn = nn.BatchNorm2d(width)
        self.fc1 = nn.Linear(width * 16, 12)
        self.dropout = nn.Dropout(0.1)
        self.fc2 = nn.Linear(12, num_classes)
        self.act = act

    def forward(self, x):
        x = F.max_pool2d(self.act(self.bn(self.conv(x))), 2)
        x = x.view(-1, self.num_flat_features(x))
        return self.fc2(self.dropout(self.act(self.fc1(x))))

    def num_flat_features(self, x):
        return x[0].numel()


def build(
    channels,
    num_classes: int,
    width: int = 4,  # of the convolution
    *,
    norm=nn.BatchNorm2d,
):
    """A convolution and two linear layers."""
    return Net(channels, num_classes, width)


def unused():
    return 0
'''
SETTING = ("--setting", "unseen-digits")


@pytest.fixture
def write(tmp_path, monkeypatch):
    """A function that writes a file of networks into the working folder."""
    monkeypatch.chdir(tmp_path)

    def written(text=NET, name="my_net.py", **replaced):
        for old, new in replaced.values():
            assert text.count(old) == 1
            text = text.replace(old, new)
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True, parents=True)
        path.write_text(textwrap.dedent(text))
        return path

    return written


@pytest.fixture(scope="module")
def ran(tmp_path_factory):
    """The file, and the results of three methods that trained its network."""
    home = tmp_path_factory.mktemp("own")
    (home / "my_net.py").write_text(NET)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(home)
        assert_done(smoke(home / "out", "erm,msp,scone", "--model", "my_net.py:build", *SETTING))
    return home


def results_of(folder):
    results, problems = read_folder(folder)
    assert not problems
    return {result.method: result for result in results}


def model_of(name, suite="digits-c", **options):
    suite = suites.load(suite).with_network(name)
    for key, value in options.items():
        suite = suite.with_value("network", key, str(value))
    return trained.build_model(suite, seed=0)


def keys(name, **more):
    return [cell.key for cell in plan(request(methods="msp,scone", model=name, results="nowhere", **more)).cells]


def refusal(function, *arguments, **more):
    with pytest.raises(UserError) as caught:
        function(*arguments, **more)
    assert "\n" not in str(caught.value)
    return str(caught.value)


# A run


def test_methods_train_the_user_s_network_and_results_name_it_without_its_folder(ran):
    results = results_of(ran / "out")
    assert set(results) == {"erm", "msp", "scone"}
    for result in results.values():
        assert result.status == "ok"
        assert result.config.suite.network == NetworkChoice("my_net.py:build")
        assert result.config.code["network"].startswith("my_net@") and result.config.code["factory"] == "factory@1"
        assert str(ran) not in str(result.config)
    weights = trained.weights_file(results["erm"].training, ran / "out")
    names = set(torch.load(weights, weights_only=True)["model"])
    assert {"body.conv.weight", "body.fc1.bias", "head.weight"} < names and "body.fc2.weight" not in names


def test_the_same_seed_gives_the_same_numbers_wherever_the_file_lies(ran, tmp_path):
    elsewhere = tmp_path / "far" / "my_net.py"
    elsewhere.parent.mkdir()
    shutil.copy(ran / "my_net.py", elsewhere)
    made = package.run("digits-c", "msp,scone", "unseen-digits", preset="smoke", model=f"{elsewhere}:build",
                       results=tmp_path / "out")  # fmt: skip
    before = results_of(ran / "out")
    for result in made:
        other = before[result.method]
        assert (result.key, result.weights, result.metrics) == (other.key, other.weights, other.metrics)
        ours, theirs = read_scores(result), read_scores(other)
        assert all(
            np.array_equal(vars(ours[split])[name], each)
            for split in ours
            for name, each in vars(theirs[split]).items()
        )


def test_the_same_command_again_finds_everything_done(ran, monkeypatch):
    monkeypatch.chdir(ran)
    assert "nothing to do" in assert_done(smoke(ran / "out", "erm,msp,scone", "--model", "my_net.py:build", *SETTING))


def test_a_suite_file_names_a_network_beside_it_and_gives_options(write, tmp_path, monkeypatch):
    write(name="suites/my_net.py")
    contents = yaml.safe_load(SUITE_FILE.read_text())
    contents["network"] = {"name": "my_net.py:build", "options": {"width": 3}}
    suite = tmp_path / "suites" / "mine.yaml"
    suite.write_text(yaml.safe_dump(contents))
    model = trained.build_model(suites.load(str(suite)), seed=0)
    assert model.body.conv.out_channels == 3
    here = write()  # the file beside the suite comes first
    assert suites.load(str(suite)).contents.network.name == f"{suite.parent}/my_net.py:build"
    (suite.parent / "my_net.py").unlink()
    assert suites.load(str(suite)).contents.network.name == "my_net.py:build"
    here.unlink()
    assert refusal(suites.load, str(suite)) == (
        f"{suite}:{_line(suite, 'name: my_net')}: 'network.name': there is no file 'my_net.py' with a network; "
        "write FILE.py:function, with the path of a file of yours"
    )


def _line(path, text):
    return next(i for i, line in enumerate(path.read_text().splitlines(), 1) if text in line)


def test_a_request_file_names_a_network_too(write):
    write()
    assert_done(oodbench("run", "--model", "my_net.py:build", "--methods", "msp", "--save-request", "it.yaml"))
    assert yaml.safe_load(Path("it.yaml").read_text())["model"] == "my_net.py:build"
    assert "msp" in assert_done(oodbench("run", "--request", "it.yaml", "--dry-run"))


# What the function is told, and what becomes of the module


def test_the_last_linear_layer_makes_room_for_our_head(write):
    write()
    model = model_of("my_net.py:build").eval()
    torch.manual_seed(0)
    x = torch.rand(5, 1, 8, 8)
    assert isinstance(model.body.fc2, torch.nn.Identity)
    assert (model.head.in_features, model.head.out_features) == (12, 8)
    assert torch.equal(model(x), model.head(model.body((x - model.mean) / model.std)))
    assert not any(module._forward_hooks for module in model.modules())


def test_first_weights_follow_from_the_seed_alone(write):
    write()
    suite = suites.load("digits-c").with_network("my_net.py:build")
    torch.manual_seed(5)
    one = trained.build_model(suite, seed=1)
    torch.rand(3)
    same, other = trained.build_model(suite, seed=1), trained.build_model(suite, seed=2)
    assert provenance.weights_digest(one) == provenance.weights_digest(same) != provenance.weights_digest(other)


def test_a_class_serves_as_a_function(write):
    write()
    assert model_of("my_net.py:Net", width=6).body.conv.out_channels == 6


def test_options_are_the_parameters_with_plain_values(write):
    path = write()
    card = networks.card("my_net.py:build")
    assert [(p.name, p.type, p.default, p.comment) for p in card.parameters.values()] == [
        ("width", int, 4, "of the convolution")
    ]
    assert card.path == path and card.needs == {"channels", "num_classes"}
    assert model_of("my_net.py:build", width=7).body.conv.out_channels == 7


def test_a_module_without_such_a_layer_is_a_body(write):
    write(
        """
        from torch import nn
        def body():
            return nn.Sequential(nn.Conv2d(1, 6, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(6, 5))
        """
    )
    model = model_of("my_net.py:body")
    assert (model.head.in_features, len(model.body)) == (5, 5)


def test_layers_that_learn_their_size_from_the_first_images_do(write):
    write(
        """
        from torch import nn
        def lazy(num_classes):
            return nn.Sequential(nn.Flatten(), nn.LazyLinear(9), nn.ReLU(), nn.LazyLinear(num_classes))
        """
    )
    model = model_of("my_net.py:lazy")
    assert (model.body[1].in_features, model.head.in_features) == (64, 9)


def test_feature_maps_are_those_of_the_module_s_own_methods(write):
    write(
        """
        from torch import nn
        class Mapped(nn.Module):
            def __init__(self, channels, num_classes):
                super().__init__()
                self.conv, self.fc = nn.Conv2d(channels, 6, 3), nn.Linear(6, num_classes)
            def maps(self, x):
                return self.conv(x).relu()
            def pool(self, maps):
                return maps.mean(dim=(2, 3))
            def forward(self, x):
                return self.fc(self.pool(self.maps(x)))
        """
    )
    model, x = model_of("my_net.py:Mapped").eval(), torch.rand(3, 1, 8, 8)
    assert model.maps(x).shape == (3, 6, 6, 6)
    assert torch.equal(model.pooled(model.maps(x)), model.features(x))


def test_a_class_derived_from_network_is_one_as_ours_are(write, tmp_path):
    write(
        """
        from dataclasses import dataclass
        from torch import nn
        import oodbench

        @dataclass
        class Mine(oodbench.Network):
            "Pixels, mixed."
            nonnegative_features = False
            width: int = 5  # of the features
            def body(self, channels):
                return nn.Sequential(nn.Flatten(), nn.Linear(64 * channels, self.width)), self.width
        """
    )
    card = networks.card("my_net.py:Mine")
    assert (card.summary, card.nonnegative_features, [*card.parameters]) == ("Pixels, mixed.", False, ["width"])
    assert model_of("my_net.py:Mine", width=6).head.in_features == 6
    out = assert_done(smoke(tmp_path / "out", "msp", "--model", "my_net.py:Mine", *SETTING))
    assert "unseen-digits / msp / seed 0: OOD Acc." in out
    (result,) = results_of(tmp_path / "out").values()
    assert "factory" not in result.config.code
    message = "the method 'ash' needs nonnegative features, which the network 'my_net.py:Mine' does not give"
    assert_refused(smoke(tmp_path / "out", "ash", "--model", "my_net.py:Mine", *SETTING), message)


def test_names_of_our_networks_and_of_timm_s_models_will_do():
    suite = suites.load("digits-c")
    assert suite.with_network("wrn").contents.network == NetworkChoice("wrn")
    assert suite.with_network("timm:resnet18").contents.network == NetworkChoice("timm", {"model": "resnet18"})
    assert suite.with_network("small-cnn") == suite  # the suite's own, with the options it has there
    assert suite.with_network(None) == suite


def test_our_own_networks_are_given_channels_last_and_a_function_s_as_torch_orders_them(write):
    write()
    for name, order in (("small-cnn", torch.channels_last), ("my_net.py:build", torch.contiguous_format)):
        model, seen = model_of(name), []
        model.body.register_forward_pre_hook(lambda _, given, seen=seen: seen.append(given[0]))
        model.mean, model.std = torch.zeros(3, 1, 1), torch.ones(3, 1, 1)  # of one channel all orders are the same
        with contextlib.suppress(RuntimeError):  # the body has one channel
            model(torch.rand(2, 3, 8, 8))
        assert seen[0].is_contiguous(memory_format=order)
        assert all(each.is_contiguous(memory_format=order) for each in model.parameters() if each.ndim == 4)


# Keys


def test_the_code_that_a_function_reaches_counts_and_nothing_else(write):
    write()
    before = keys("my_net.py:build")
    write(comment=("KERNEL = 3", "KERNEL = 3  # pixels"), other=("return 0", "return 1"))
    assert keys("my_net.py:build") == before
    write(name="folder/my_net.py")
    assert keys("folder/my_net.py:build") == before
    write(reached=("KERNEL = 3", "KERNEL = 5"))
    changed = keys("my_net.py:build")
    write(inside=("padding=1", "padding=(1, 1)"))
    inside = keys("my_net.py:build")
    assert not set(before) & set(changed) and not set(before) & set(inside)


def test_options_and_the_network_count(write):
    write()
    some = [
        *keys("my_net.py:build"),
        *keys("my_net.py:build", set="network.width=5"),
        *keys("my_net.py:Net"),
        *keys(None),
    ]
    assert len(set(some)) == len(some)


# Refused before anything trains

WRONG = {
    "def f(): return 3": "'my_net.py:f' returns int, which is not a torch.nn.Module; return a classifier",
    "def f(): return nn.Conv2d(1, 2, 3)": "'my_net.py:f' gives 2 x 2 x 6 x 6 (torch.float32) for 2 images; return",
    "def f(): return nn.Flatten(0)": "'my_net.py:f' gives 128 (torch.float32) for 2 images; return a classifier",
    "def f(): return nn.LSTM(8, 3)": "'my_net.py:f' cannot read images of 1 x 8 x 8: ",
    "def f():\n    return nn.Conv2d(1, 2, 3, groups=4)": (
        "the network 'my_net.py:f' cannot be used: ValueError at {path}:5: in_channels must be divisible by groups"
    ),
    "def f():\n    raise SystemExit(3)": "the network 'my_net.py:f' cannot be used: SystemExit at {path}:5: 3",
    "def f(): return nn.Conv2d(3, 2, 3)": (
        "'my_net.py:f' cannot read images of 1 x 8 x 8: RuntimeError at {path}: Given groups=1, weight of size "
        "[2, 3, 3, 3], expected input[2, 1, 8, 8] to have 3 channels, but got 1 channels instead; "
        "a function may take their number of channels as `channels`"
    ),
    "def f(num_classes): return nn.Sequential(nn.Flatten(), nn.Linear(64, num_classes), nn.Softmax(1))": (
        "'my_net.py:f' does more after its last linear layer; return a classifier that gives N x classes logits, "
    ),
    "class f(nn.Module):\n"
    "    def __init__(self):\n"
    "        super().__init__()\n"
    "        self.fc = nn.Linear(64, 8)\n"
    "    def forward(self, x):\n"
    "        return self.fc(x.flatten(1) / self.fc.weight.norm())": (
        "'my_net.py:f' uses its last linear layer for more than its output; return a classifier"
    ),
    "SAME = nn.Sequential(nn.Flatten(), nn.Linear(64, 8), nn.ReLU(), nn.Linear(8, 5))\ndef f(): return SAME": (
        "'my_net.py:f' returns the same layers each time; make them inside the function"
    ),
    "import numpy as np\n"
    "class f(nn.Sequential):\n"
    "    def __init__(self):\n"
    "        super().__init__(nn.Flatten(), nn.Linear(64, 5))\n"
    "        self[1].bias.data.fill_(np.random.rand())": (
        "'my_net.py:f' has other weights each time under one seed; draw them with torch's own functions"
    ),
    "class f(nn.Flatten):\n"
    "    def forward(self, x):\n"
    "        return (super().forward(x), 1) if self.training else super().forward(x)": (
        "'my_net.py:f' gives tuple while it learns, expected (8, 64): N x d features of 8 images"
    ),
    "class f(nn.Flatten):\n"
    "    def forward(self, x):\n"
    "        if self.training:\n"
    "            raise ValueError('not today')\n"
    "        return super().forward(x)": (
        "the network 'my_net.py:f' cannot be used: ValueError at {path}:7: not today"
    ),
    "def f(width: int): return nn.Flatten()": (
        "--model my_net.py:f: {path}:4: the parameter 'width' of 'f' has no default; give it one"
    ),
    "def f(:": "--model my_net.py:f: {path}:4: not valid Python: invalid syntax",
    "import nowhere\ndef f(): return nn.Flatten()": (
        "'{path}' does not import: ModuleNotFoundError: No module named 'nowhere'"
    ),
    "import oodbench\nclass f(oodbench.Network):\n    def __init__(self): pass": (
        "--model my_net.py:f: {path}:6: class f has its own __init__; write @dataclass above it"
    ),
}


@pytest.mark.parametrize("code", WRONG, ids=[f"{i}" for i in range(len(WRONG))])
def test_a_network_that_cannot_work_is_refused_in_one_line_before_anything_trains(code, write, tmp_path):
    path = tmp_path / "my_net.py"
    path.write_text(f'"""Mine."""\nimport torch\nfrom torch import nn\n{code}\n')
    write(path.read_text())
    outcome = smoke(tmp_path / "out", "msp", "--model", "my_net.py:f", *SETTING)
    assert_refused(outcome, WRONG[code].format(path=path))
    assert not list(tmp_path.glob("out/**/*.pt")) and not list(tmp_path.glob("out/**/*.json"))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["nowhere.py:build"],
            "--model nowhere.py:build: there is no file 'nowhere.py' with a network; write FILE.py:fu",
        ),
        (
            ["my_net.py:buld"],
            "--model my_net.py:buld: unknown function of '{here}/my_net.py' 'buld'; did you mean 'build'?",
        ),
        (
            ["my_net.py"],
            "--model my_net.py: '{here}/my_net.py' alone names no network; name a function of it too, as in ",
        ),
        (["wrm"], "--model wrm: unknown network 'wrm'; did you mean 'wrn'?"),
        (["my_net.py:build", "--set", "network.widht=3"], "unknown key of 'network' 'widht'; did you mean 'width'?"),
        (["my_net.py:build", "--set", "network.width=a"], "network.width: expected a whole number, got 'a'"),
        (["my_net.py:build", "--set", "network.norm=1"], "unknown key of 'network' 'norm'; known: width"),
        (
            ["my_net.py:listed", "--set", "network.widths=[1]"],
            "expected true or false or a whole number or a number or",
        ),
        (
            ["my_net.py:build", "--set", "network.width=1000000000000"],
            "'my_net.py:build' (width 1000000000000) would need ",
        ),
    ],
)
def test_names_and_options_that_do_not_exist_are_refused_with_near_misses(arguments, message, write, tmp_path):
    write(NET + "\n\ndef listed(widths: list[int] | None = None):\n    return Net(1, 8)\n")
    outcome = smoke(tmp_path / "out", "msp", *SETTING, "--model", *arguments)
    assert_refused(outcome, message.format(here=tmp_path))


def test_a_module_is_no_name_of_a_network():
    message = "a run takes no Linear as its model; name a function that makes it, FILE.py:build"
    assert refusal(request, model=torch.nn.Linear(1, 1)) == message


def test_a_mistake_that_shows_up_only_in_a_training_fails_its_cells_in_one_line(write, tmp_path):
    path = write(
        """
        from torch import nn
        class Late(nn.Sequential):
            steps = 0
            def __init__(self):
                super().__init__(nn.Flatten(), nn.Linear(64, 5))
            def forward(self, x):
                self.steps += self.training
                if self.steps > 3:
                    raise ValueError("enough")
                return super().forward(x)
        """
    )
    outcome = smoke(tmp_path / "out", "msp", "--model", "my_net.py:Late", *SETTING)
    message = f"oodbench: 1 of 1 cells failed; the first: ValueError at {path}:10: enough"
    assert (outcome.status, complaints(outcome)) == (1, [message])


# Afterwards


def test_a_network_is_loaded_with_its_file_which_must_be_as_it_was(ran, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    result = results_of(ran / "out")["msp"]
    for load in (package.load, trained.of):
        message = refusal(load, result)
        assert message.startswith(
            "the network 'my_net.py:build' of this result is not here (there is no file 'my_net.py'"
        )
        assert message.endswith('or bring it: oodbench.load(result, plugins=["FOLDER/FILE.py"])')
    loaded = package.load(result, plugins=[ran / "my_net.py"])
    assert loaded.result == result
    assert provenance.weights_digest(loaded.model) == result.weights
    changed = tmp_path / "my_net.py"
    changed.write_text(NET.replace("F.max_pool2d", "F.avg_pool2d"))  # whose weights have the same shapes
    code = result.config.code["network"]
    assert f" here and was {code}; restore its file" in refusal(package.load, result)
    changed.write_text(NET)
    assert provenance.weights_digest(trained.of(result).model) == result.weights


def test_the_command_that_repeats_a_result_names_the_network(ran):
    result = results_of(ran / "out")["scone"]
    command, remarks = repeat.command(result)
    assert " --model my_net.py:build " in command
    code = result.config.code["network"]
    assert remarks == [f"'my_net.py' is the file of its network, which was {code}; give its path"]
    network = replace(result.config.suite.network, name="wrn", options={"depth": 10})
    other = replace(result, config=replace(result.config, suite=replace(result.config.suite, network=network)))
    command, remarks = repeat.command(other)
    assert " --set network.depth=10 --model wrn " in command and remarks == []


def test_show_prints_options_and_size_of_a_function(write):
    path = write()
    out = assert_done(oodbench("show", "my_net.py:build"))
    assert out.startswith("my_net: A convolution and two linear layers.\n\nA network of mine.\n")
    assert "  width = 4  (a whole number)  of the convolution\n" in out and f"file: {path}\n" in out
    count = (3 * 9 + 1) * 4 + 2 * 4 + (4 * 16 + 1) * 12 + (12 + 1) * 10
    assert out.endswith(f"parameters: {count:,}, for 3 channels and 10 classes\n")
    assert_refused(oodbench("show", "my_net.py:buld"), "did you mean 'build'?")
    assert own_networks.count("my_net.py:build", 1, 2) == count - 2 * 9 * 4 - 8 * 13


@pytest.fixture
def installed(tmp_path, monkeypatch):
    """A function that installs a distribution with networks, as pip would lay it out."""
    site = tmp_path / "site"

    def install(entries, files):
        info = site / "foo-1.0.dist-info"
        info.mkdir(parents=True)
        (info / "METADATA").write_text("Metadata-Version: 2.1\nName: foo\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text("[oodbench.networks]\n" + entries)
        for name, text in files.items():
            (site / name).write_text(text)
        monkeypatch.syspath_prepend(str(site))
        return site

    before = set(sys.modules)
    yield install
    for name in set(sys.modules) - before:
        if name.startswith("foo"):
            del sys.modules[name]


def test_an_installed_package_brings_networks_and_broken_ones_harm_nobody(installed, tmp_path):
    entries = (
        "foo_net = foo_nets:build\nfoo_gone = foo_nowhere:build\nfoo_none = foo_nets:nothing\nwrn = foo_nets:build\n"
    )
    site = installed(entries, {"foo_nets.py": NET})
    listed = assert_done(oodbench("list", "networks")).splitlines()
    rows = {line.split()[0]: line for line in listed if line}
    assert "A convolution and two linear layers." in rows["foo-net"] and "WRN-40-2" in assert_done(
        oodbench("show", "wrn")
    )
    assert "cannot be used: the module 'foo_nowhere' is not installed" in rows["foo-gone"]
    assert "cannot be used: unknown function of " in rows["foo-none"]
    assert f"file: {site / 'foo_nets.py'}\n" in assert_done(oodbench("show", "foo_net"))
    assert_done(smoke(tmp_path / "out", "msp", "--model", "foo-net", "--set", "network.width=3", *SETTING))
    (result,) = results_of(tmp_path / "out").values()
    assert result.config.suite.network == NetworkChoice("foo-net", {"width": 3})
    assert result.config.code["network"].startswith("foo-net@")
    message = "--model foo-gone: the installed network 'foo-gone' cannot be used: the module 'foo_nowhere' is not"
    assert_refused(smoke(tmp_path / "out", "msp", "--model", "foo-gone"), message)


def test_names_of_networks_are_read_without_torch(write):
    write()
    code = """
import sys
from oodbench.config import suite
loaded = suite.load("digits-c").with_network("my_net.py:build").with_value("network", "width", "5")
assert loaded.contents.network.options == {"width": 5} and "torch" not in sys.modules
"""
    assert python("-c", code, PYTHONPATH=str(SUITE_FILE.parents[1])).err == ""
