"""Networks that users bring by name, as code or from Python: what is built, what is known of it, what is refused."""

from urllib.error import URLError

import pytest
import safetensors.torch
import torch
from torch import nn

from oodbench.data.preprocessing import Preprocessing
from oodbench.errors import UserError
from oodbench.learning.adapter import adapt
from oodbench.learning.given_models import from_module, load_model, output_names, rebuild
from oodbench.learning.networks import Classifier
from oodbench.learning.own_models import made
from oodbench.torchvision_import import import_with_torchvision


def of_timm(name="resnet10t", **options):
    torch.manual_seed(1)
    return import_with_torchvision("timm").create_model(name, **options)


def of_torchvision(name="squeezenet1_1", **options):
    torch.manual_seed(1)
    return import_with_torchvision("torchvision").models.get_model(name, **options)


def stored(module, path):
    if path.suffix == ".safetensors":
        safetensors.torch.save_file(module.state_dict(), path)
    else:
        torch.save(module.state_dict(), path)
    return path


def same(one, other):
    some, others = one.state_dict(), other.state_dict()
    return some.keys() == others.keys() and all(torch.equal(value, others[name]) for name, value in some.items())


def refused(text, *arguments, **options):
    with pytest.raises(UserError) as caught:
        load_model(text, *arguments, **options)
    assert "\n" not in str(caught.value) and "; " in str(caught.value)
    return str(caught.value)


# timm


@pytest.mark.parametrize("suffix", ["pth", "safetensors"])
def test_a_network_of_timm_has_the_classes_and_channels_of_the_weights(tmp_path, suffix):
    module = of_timm(num_classes=7, in_chans=1)
    given = load_model("timm:resnet10t", stored(module, tmp_path / f"mine.{suffix}"), num_classes=3)
    assert same(given.module, module) and not given.module.training
    assert (given.name, given.text, given.weights) == ("resnet10t", "timm:resnet10t", f"mine.{suffix}")
    assert given.spec == {"library": "timm", "name": "resnet10t", "num_classes": 7, "in_chans": 1}
    assert given.classes == () and given.preprocessing is None  # timm speaks of three channels
    assert rebuild(given.spec).state_dict().keys() == module.state_dict().keys()
    assert rebuild(given.spec).fc.out_features == 7


def test_timm_says_what_images_its_networks_take_and_what_their_classes_are(tmp_path):
    given = load_model("timm:resnet10t", stored(of_timm(), tmp_path / "mine.pth"))
    mean, std = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
    # This network was trained on images of side 176, and 176 / 0.875 is 201.1.
    assert given.preprocessing == Preprocessing(mean, std, (176, 176), 201, "bicubic", "timm")
    assert len(given.classes) == 1000 and given.classes[0] == "n01440764"
    assert output_names(given)[0] == ("n01440764", "tench", "Tinca tinca")


def test_a_lightning_checkpoint_of_a_network_of_timm_is_read(tmp_path):
    module = of_timm(num_classes=4)
    lightning = {"state_dict": {f"net.{name}": value for name, value in module.state_dict().items()}, "epoch": 1}
    torch.save(lightning, tmp_path / "last.ckpt")
    assert same(load_model("timm:resnet10t", tmp_path / "last.ckpt").module, module)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("timm:resnet81", "unknown model of timm 'resnet81'; did you mean 'resnet18'"),
        ("timm:../x", "unknown model of timm '../x'; see timm.list_models()"),
        ("timm:local-dir:/tmp", "unknown model of timm 'local-dir:/tmp'; see timm.list_models()"),
        ("timm:", "unknown model of timm ''; see timm.list_models()"),
        ("timm:resnet10t.c3_in1l", "unknown weights of timm 'resnet10t.c3_in1l'; did you mean 'resnet10t.c3_in1k'?"),
        ("timm:convnext_femto_ols", "cannot get timm's weights of 'convnext_femto_ols' ("),
        ("timm:hf-hub:nobody/nothing", "cannot get timm's weights of 'hf-hub:nobody/nothing' ("),
        ("timm:vit_tiny_r_s16_p8_224", "cannot get timm's weights of 'vit_tiny_r_s16_p8_224' ("),
        ("timm:resnet18d_", "unknown model of timm 'resnet18d_'; did you mean 'resnet18d'"),
        ("timm:efficientnet_b8", "timm has no weights for 'efficientnet_b8'; give a file of them: --weights FILE"),
    ],
)
def test_what_timm_does_not_have_is_told(text, message, tmp_path, monkeypatch):
    import_with_torchvision("timm")
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    told = refused(text)
    assert told.startswith(message)
    assert not message.startswith("cannot") or told.endswith("); give a file of them: --weights FILE")


def test_weights_of_another_network_are_told(tmp_path):
    path = stored(of_timm("resnet18"), tmp_path / "mine.pth")
    assert "mine.pth' belongs to another network: it lacks " in refused("timm:resnet10t", path)
    assert "there is no file '" in refused("timm:resnet10t", tmp_path / "none.pth")


# torchvision


def test_torchvisions_own_weights_say_what_images_and_classes_are(tmp_path, monkeypatch):
    monkeypatch.setenv("TORCH_HOME", str(tmp_path))
    home = tmp_path / "hub" / "checkpoints"
    home.mkdir(parents=True)
    module = of_torchvision()
    weights = import_with_torchvision("torchvision").models.get_model_weights("squeezenet1_1").IMAGENET1K_V1
    stored(module, home / weights.url.rpartition("/")[2])
    for text in ("torchvision:squeezenet1_1", "torchvision:squeezenet1_1/IMAGENET1K_V1"):
        given = load_model(text)
        assert same(given.module, module) and given.text == "torchvision:squeezenet1_1/IMAGENET1K_V1"
        assert (given.name, given.weights) == ("squeezenet1_1", None)
        assert given.spec == {"library": "torchvision", "name": "squeezenet1_1", "num_classes": 1000}
        mean, std = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
        assert given.preprocessing == Preprocessing(mean, std, (224, 224), 256, "bilinear", "torchvision")
        assert given.classes[:2] == ("tench", "goldfish")
        assert output_names(given)[0] == ("tench", "n01440764", "Tinca tinca")


def test_a_file_takes_the_place_of_torchvisions_weights(tmp_path):
    module = of_torchvision("mobilenet_v3_small", num_classes=6)
    given = load_model("torchvision:mobilenet_v3_small", stored(module, tmp_path / "mine.pth"), num_classes=3)
    assert same(given.module, module) and given.spec["num_classes"] == 6 and given.classes == ()
    assert (given.text, given.weights) == ("torchvision:mobilenet_v3_small", "mine.pth")
    assert given.preprocessing is not None and rebuild(given.spec).classifier[3].out_features == 6


def test_a_file_of_torchvisions_is_known_by_its_name(tmp_path):
    """The two kinds of weights of this network want images of other sizes."""
    module = of_torchvision("mobilenet_v2")
    for name, resized in (("mobilenet_v2-b0353104.pth", 256), ("mobilenet_v2-7ebf99e0.pth", 232), ("mine.pth", 232)):
        given = load_model("torchvision:mobilenet_v2", stored(module, tmp_path / name))
        assert given.preprocessing.resize == resized and len(given.classes) == 1000


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("torchvision:resnt18", "unknown model of torchvision 'resnt18'; did you mean 'resnet18'"),
        ("torchvision:fasterrcnn_resnet50_fpn", "unknown model of torchvision 'fasterrcnn_resnet50_fpn'; see "),
        (
            "torchvision:resnet50/IMAGENET1K_V3",
            "unknown weights of torchvision's resnet50 'IMAGENET1K_V3'; did you mean",
        ),
        (
            "torchvision:squeezenet1_1",
            "cannot get torchvision's weights IMAGENET1K_V1 of 'squeezenet1_1' (<urlopen error no network>); give ",
        ),
    ],
)
def test_what_torchvision_does_not_have_is_told(text, message, tmp_path, monkeypatch, capfd):
    def fails(*_, **__):
        raise URLError("no network")

    monkeypatch.setenv("TORCH_HOME", str(tmp_path))
    monkeypatch.setattr("torch.hub.download_url_to_file", fails)
    assert refused(text).startswith(message)
    assert capfd.readouterr().err == ""


# oodbench


def own(classes=6, channels=3):
    torch.manual_seed(1)
    return made({"name": "wrn", "options": {"depth": 10, "width": 1}, "num_classes": classes, "channels": channels})


def test_a_network_of_oodbench_is_built_around_the_weights_that_a_run_left(tmp_path):
    model = own(channels=1)
    torch.save({"model": model.state_dict(), "log": [], "notes": {}, "seconds": 1.0}, tmp_path / "a.pt")
    given = load_model("oodbench:wrn,depth=10,width=1", tmp_path / "a.pt")
    assert same(given.module, model) and isinstance(given.module, Classifier)
    assert (given.name, given.text, given.weights) == ("wrn", "oodbench:wrn,depth=10,width=1", "a.pt")
    options = {"depth": 10, "width": 1}
    assert given.spec == {"library": "oodbench", "name": "wrn", "options": options, "num_classes": 6, "channels": 1}
    assert given.preprocessing is None and rebuild(given.spec).state_dict().keys() == model.state_dict().keys()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("oodbench:wnr", "unknown network of oodbench 'wnr'; did you mean 'wrn'?"),
        ("oodbench:wrn,dept=10", "unknown option of oodbench:wrn 'dept'; did you mean 'depth'"),
        ("oodbench:wrn,depth=ten", "depth='ten' is not of type int; correct the option of oodbench:wrn"),
        ("oodbench:wrn,depth", "'depth' is not an option of oodbench:wrn; write option=value, after a comma"),
        ("oodbench:wrn", "oodbench's networks come without weights; give those of 'wrn' with --weights FILE"),
    ],
)
def test_what_oodbench_does_not_have_is_told(text, message):
    assert refused(text).startswith(message)


# Code of the user's


CODE = """
from torch import nn
from beside import hidden

def build(num_classes=5):
    return nn.Sequential(nn.Flatten(), nn.Linear(12, hidden), nn.ReLU(), nn.Linear(hidden, num_classes))

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(12, 4)

def fails():
    return 1 / 0

def needs(width):
    return nn.Linear(width, 2)

def asks(num_classes):
    return nn.Linear(12, num_classes)

def leaves():
    raise SystemExit(3)

def number():
    return 3

model = Net()
limit = 7
"""


@pytest.fixture
def code(tmp_path):
    (tmp_path / "my_net.py").write_text(CODE)
    (tmp_path / "beside.py").write_text("hidden = 8\n")
    return f"{tmp_path / 'my_net.py'}"


def test_a_function_of_a_file_makes_the_network_and_is_told_the_classes(code, tmp_path):
    given = load_model(f"{code}:build", num_classes=3)
    assert given.module[3].out_features == 3 and not given.module.training
    assert (given.name, given.text, given.spec) == ("my_net", f"{code}:build", None)
    assert (given.preprocessing, given.classes, given.weights) == (None, (), None)
    assert load_model(f"{code}:build").module[3].out_features == 5
    assert load_model(f"{code}:Net", num_classes=3).module.fc.out_features == 4
    assert load_model(f"{code}:model").module.fc.out_features == 4
    assert not (tmp_path / "__pycache__" / "my_net.cpython-311.pyc").exists()


def test_weights_are_loaded_into_what_a_function_makes(code, tmp_path):
    module = load_model(f"{code}:build", num_classes=3).module
    nn.init.ones_(module[3].weight)
    path = stored(module, tmp_path / "mine.pt")
    given = load_model(f"{code}:build", path, num_classes=3)
    assert same(given.module, module) and given.weights == "mine.pt"
    assert load_model(f"{code}:build", path, num_classes=10).module[3].out_features == 3  # as the weights have
    told = refused(f"{code}:Net", path)
    assert "mine.pt' belongs to another network: it lacks 'fc.weight', 'fc.bias', and it has '1.weight', " in told


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("biuld", "{}: unknown function 'biuld'; did you mean 'build'?"),
        ("fails", "ZeroDivisionError at {}:14: division by zero; correct the code"),
        ("needs", "'{}:needs' needs width, which oodbench does not give it; give the arguments defaults"),
        ("asks", "'{}:asks' needs num_classes, which nothing here says; give the argument a default"),
        ("leaves", "{}:23 ends the process; raise an exception instead"),
        ("number", "'{}:number' returns 'int'; let it return a torch.nn.Module"),
        ("limit", "'{}:limit' is 7; name a function or class that makes a torch.nn.Module"),
    ],
)
def test_what_is_wrong_with_the_users_code_is_told_with_its_line(code, name, message):
    assert refused(f"{code}:{name}") == message.format(code)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("def build(:\n", "{}:1: not valid Python: "),
        (
            "\nimport nothing_of_the_kind\n",
            "ModuleNotFoundError at {}:2: No module named 'nothing_of_the_kind'; correct",
        ),
        ("x = 1\n\nraise ValueError('no')\n", "ValueError at {}:3: no; correct the code"),
    ],
)
def test_a_file_that_does_not_run_is_told_with_its_line(tmp_path, text, message):
    path = tmp_path / "my_net.py"
    path.write_text(text)
    with pytest.raises(UserError) as caught:
        load_model(f"{path}:build")
    assert str(caught.value).startswith(message.format(path)) and "\n" not in str(caught.value)


def test_a_file_that_changed_is_run_anew(tmp_path):
    path = tmp_path / "my_net.py"
    for rows in (2, 3):
        path.write_text(f"from torch import nn\ndef build():\n    return nn.Linear(4, {rows})\n")
        assert load_model(f"{path}:build").module.out_features == rows


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("none.py:build", "cannot read 'none.py': No such file or directory; check the name and its permissions"),
        ("none.py", "'none.py' may define many things; name the function that makes the network: none.py:function"),
        (
            "mine.pt",
            "--model 'mine.pt' is not a network; give timm:NAME, torchvision:NAME, openood:NAME, oodbench:NAME or FILE",
        ),
        (
            "keras:vgg",
            "--model 'keras:vgg' is not a network; give timm:NAME, torchvision:NAME, openood:NAME, oodbench:NAME or",
        ),
        (
            "mynet",
            "unknown network 'mynet'; give --model timm:NAME, torchvision:NAME, openood:NAME, oodbench:NAME or FILE",
        ),
    ],
)
def test_what_names_no_network_is_told(text, message):
    assert refused(text).startswith(message)


def test_an_installed_package_offers_networks_by_name(tmp_path, monkeypatch):
    (tmp_path / "offering.py").write_text(
        "from torch import nn\n"
        "from oodbench.learning.networks import Network\n"
        "def build(num_classes=4):\n    return nn.Sequential(nn.Flatten(), nn.Linear(12, num_classes))\n"
        "class Flat(Network):\n    def body(self, channels):\n        return nn.Flatten(), 4 * channels\n"
    )
    home = tmp_path / "offering-1.0.dist-info"
    home.mkdir()
    (home / "METADATA").write_text("Metadata-Version: 2.1\nName: offering\nVersion: 1.0\n")
    (home / "entry_points.txt").write_text("[oodbench.networks]\nmynet = offering:build\nflat = offering:Flat\n")
    monkeypatch.syspath_prepend(tmp_path)
    given = load_model("mynet", num_classes=3)
    assert given.module[1].out_features == 3 and (given.name, given.text, given.spec) == ("mynet", "mynet", None)
    flat = load_model("flat", num_classes=3).module
    assert isinstance(flat, Classifier) and flat.head.weight.shape == (3, 12)
    path = stored(flat, tmp_path / "flat.pt")
    assert same(load_model("flat", path).module, flat)
    assert refused("mynte") == "unknown network 'mynte'; did you mean 'mynet'?"


# From Python


def test_a_module_from_python_is_called_as_its_class_and_nothing_is_known_of_it():
    module = nn.Sequential(nn.Flatten(), nn.Linear(12, 3))
    given = from_module(module)
    assert given.module is module and (given.name, given.text, given.spec) == ("Sequential", "Sequential", None)
    assert (given.preprocessing, given.classes, given.weights) == (None, (), None)
    assert from_module(module, "my net/2").name == "my-net-2"
    with pytest.raises(UserError, match="a network is a torch.nn.Module, not 'resnet18'; give the module itself"):
        from_module("resnet18")


def test_what_oodbench_and_timm_note_at_their_modules_is_believed():
    model = Classifier(nn.Flatten(), 12, 3, (0.1, 0.2, 0.3), (0.5, 0.5, 0.25))
    known = from_module(model).preprocessing
    assert known.stated_by == "oodbench" and torch.allclose(torch.tensor(known.mean), torch.tensor([0.1, 0.2, 0.3]))
    x = torch.rand(2, 3, 2, 2)
    assert torch.equal(adapt(model, x, known.mean, known.std)(x), model(x))
    assert from_module(of_timm()).preprocessing.stated_by == "timm" and len(from_module(of_timm()).classes) == 1000
    assert from_module(of_timm(num_classes=10)).preprocessing is None  # it was trained anew, who knows how


@pytest.mark.parametrize(
    "spec",
    [
        {},
        {"library": "timm"},
        {"library": "pickle", "name": "x"},
        {"library": "timm", "name": "resnet10t", "num_classes": 10**9},
        {"library": "timm", "name": "resnet10t", "checkpoint_path": "/etc/passwd"},
        {"library": "torchvision", "name": "squeezenet1_1", "num_classes": "7"},
        {"library": "torchvision", "name": "vit_b_16", "input_size": [2, "x"]},
        {"library": "oodbench", "name": "wrn", "options": [1]},
    ],
)
def test_a_file_cannot_ask_for_what_is_no_network(spec):
    with pytest.raises(UserError, match="nothing makes a network of .*; give it with --model"):
        rebuild(spec)


def test_a_file_cannot_ask_for_other_weights_or_files():
    with pytest.raises(UserError, match="unknown model of timm 'hf-hub:x/y'; see"):
        rebuild({"library": "timm", "name": "hf-hub:x/y"})
    spec = {"library": "oodbench", "name": "timm", "num_classes": 3}
    assert rebuild({**spec, "options": {"model": "resnet10t", "weights": "/none"}}).head.out_features == 3
