"""OpenOOD's ResNet-18 for 32 x 32 pixels against a forward pass written from what its checkpoints hold."""

import pytest
import torch
import torch.nn.functional as F
from openood_files import random_state, save_checkpoint

from oodbench.data.openood import BENCHMARKS
from oodbench.errors import UserError
from oodbench.learning.adapter import adapt
from oodbench.learning.given_models import load_model, rebuild


def written_out(state, x):
    """Features and logits by functions of torch alone: two blocks in each of four stages, all but the first halved."""

    def normalized(x, name):
        names = ("running_mean", "running_var", "weight", "bias")
        return F.batch_norm(x, *(state[f"{name}.{each}"] for each in names))

    x = F.relu(normalized(F.conv2d(x, state["conv1.weight"], padding=1), "bn1"))
    for stage in (1, 2, 3, 4):
        for number in (0, 1):
            block, stride = f"layer{stage}.{number}", 2 if stage > 1 and number == 0 else 1
            inner = F.conv2d(x, state[f"{block}.conv1.weight"], stride=stride, padding=1)
            inner = F.conv2d(F.relu(normalized(inner, f"{block}.bn1")), state[f"{block}.conv2.weight"], padding=1)
            if stride == 2:
                x = normalized(F.conv2d(x, state[f"{block}.shortcut.0.weight"], stride=2), f"{block}.shortcut.1")
            x = F.relu(normalized(inner, f"{block}.bn2") + x)
    features = x.mean(dim=(2, 3))
    return features, features @ state["fc.weight"].T + state["fc.bias"]


@pytest.mark.parametrize("benchmark", BENCHMARKS, ids=lambda each: each.name)
def test_a_checkpoint_computes_what_its_layers_say_for_images_prepared_as_openood_does(tmp_path, benchmark):
    state = random_state(benchmark.classes)
    given = load_model("openood:resnet18_32x32", save_checkpoint(tmp_path / "best.ckpt", state))
    assert (given.name, given.text, given.weights) == ("resnet18_32x32", "openood:resnet18_32x32", "best.ckpt")
    assert given.preprocessing == benchmark.preprocessing and not given.module.training
    mean, std = given.preprocessing.for_channels(3)
    images = torch.rand((4, 3, 32, 32), generator=torch.Generator().manual_seed(1))
    x = (images - torch.tensor(mean).view(3, 1, 1)) / torch.tensor(std).view(3, 1, 1)
    features, logits = written_out(state, x)
    adapted = adapt(given.module, images, mean, std)
    assert adapted.head_name == "fc" and adapted.form == "W f + b" and adapted.has_maps
    with torch.no_grad():
        torch.testing.assert_close(adapted.features(images), features, rtol=1e-4, atol=1e-5)
        torch.testing.assert_close(adapted(images), logits, rtol=1e-4, atol=1e-5)


def test_the_normalizations_are_those_of_the_two_data_sets():
    cifar10, cifar100 = (each.preprocessing for each in BENCHMARKS)
    assert (cifar10.mean, cifar10.std) == ((0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2616))
    assert (cifar100.mean, cifar100.std) == ((0.5071, 0.4867, 0.4408), (0.2675, 0.2565, 0.2761))
    assert cifar10.size == (32, 32) and cifar10.resize == 32 and cifar10.interpolation == "bilinear"


def test_weights_for_another_number_of_classes_load_and_nobody_states_their_preprocessing(tmp_path):
    given = load_model("openood:resnet18_32x32", save_checkpoint(tmp_path / "seven.ckpt", random_state(7)))
    assert given.module.fc.out_features == 7 and given.preprocessing is None


def test_a_detector_rebuilds_the_architecture_without_code_of_the_users(tmp_path):
    state = random_state(10)
    given = load_model("openood:resnet18_32x32", save_checkpoint(tmp_path / "best.ckpt", state))
    again = rebuild(given.spec)
    again.load_state_dict(state)
    images = torch.rand((1, 3, 32, 32))
    assert torch.equal(again(images), given.module(images))


@pytest.mark.parametrize(
    ("name", "state", "message"),
    [
        ("resnet18", None, "unknown network of OpenOOD 'resnet18'; did you mean 'resnet18_32x32'?"),
        ("resnet18_32x32", None, "comes without weights; give a checkpoint of OpenOOD's with --weights FILE"),
        ("resnet18_32x32", {"fc.weight": torch.ones(10, 512)}, "belongs to another network: it lacks 'conv1.weight'"),
    ],
)
def test_what_cannot_be_loaded_is_told_in_a_line(tmp_path, name, state, message):
    weights = None if state is None else save_checkpoint(tmp_path / "other.ckpt", state)
    with pytest.raises(UserError) as caught:
        load_model(f"openood:{name}", weights)
    assert message in str(caught.value) and "\n" not in str(caught.value)
