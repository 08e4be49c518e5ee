"""Any classifier as oodbench's own: its head is found and proven, and what it computes stays what it was."""

from collections import namedtuple
from copy import deepcopy

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from oodbench.config.cards import catalogue, load_class
from oodbench.errors import UserError
from oodbench.learning.adapter import adapt, behaviour_digest
from oodbench.learning.networks import Classifier
from oodbench.learning.outputs import forward, forward_reading
from oodbench.learning.precision import Bfloat16Classifier
from oodbench.torchvision_import import import_with_torchvision

MEAN, STD = (0.4, 0.5, 0.6), (0.2, 0.25, 0.3)


def images(count=3, channels=3, side=16):
    return torch.rand(count, channels, side, side, generator=torch.Generator().manual_seed(0))


def seeded(build):
    torch.manual_seed(1)
    return build().eval()


class Small(nn.Module):
    """A convolution, a pooling and whatever comes then."""

    def __init__(self, top=None, classes=5, channels=3):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(channels, 8, 3, 2), nn.BatchNorm2d(8), nn.ReLU())
        self.pool = nn.AdaptiveAvgPool2d(1)
        self.top = top or nn.Linear(8, classes)

    def forward(self, x):
        return self.top(self.pool(self.stem(x)).flatten(1))


class Cosine(nn.Module):
    def __init__(self, scale=16.0, bias=False, unit_rows=True, unit_features=True):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(5, 8))
        self.bias = nn.Parameter(torch.randn(5)) if bias else None
        self.scale, self.unit_rows, self.unit_features = scale, unit_rows, unit_features

    def forward(self, f):
        f = F.normalize(f, dim=-1) if self.unit_features else f
        weight = F.normalize(self.weight, dim=-1) if self.unit_rows else self.weight
        return self.scale * f @ weight.T + (0.0 if self.bias is None else self.bias)


class Then(nn.Module):
    """What a function does to the outputs of another module."""

    def __init__(self, inner, function):
        super().__init__()
        self.inner, self.function = inner, function

    def forward(self, x):
        return self.function(self.inner(x))


def close(some, others):
    return float((some - others).detach().abs().max()) <= 1e-4 * float(others.detach().abs().max())


# Heads


HEADS = {
    "plain": (Small, "top", "W f + b"),
    "without bias": (lambda: Small(nn.Linear(8, 5, bias=False)), "top", "W f"),
    "with a temperature": (lambda: Then(Small(), lambda y: y / 1.5), "inner.top", "s (W f + b)"),
    "scaled, without bias": (lambda: Then(Small(nn.Linear(8, 5, bias=False)), lambda y: 7 * y), "inner.top", "s W f"),
    "cosine": (lambda: Small(Cosine()), "top", "s cos(W, f)"),
    "cosine with bias": (lambda: Small(Cosine(bias=True)), "top", "s cos(W, f) + b"),
    "features of length 1": (lambda: Small(Cosine(unit_rows=False)), "top", "s W f/|f|"),
    "weights of length 1": (lambda: Small(Cosine(unit_features=False)), "top", "s (W/|W|) f"),
    "convolution": (
        lambda: nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Conv2d(8, 5, 1), nn.Flatten()),
        "3",
        "W f + b",
    ),
    "convolution before pooling": (
        lambda: nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.Conv2d(8, 5, 1), nn.AdaptiveAvgPool2d(1), nn.Flatten()),
        "2",
        "W f + b",
    ),
}


@pytest.mark.parametrize("kind", HEADS)
@pytest.mark.parametrize("count", [1, 4])
def test_the_head_is_found_and_gives_the_networks_outputs(kind, count):
    build, name, form = HEADS[kind]
    module, x = seeded(build), images(count)
    adapted = adapt(module, x)
    assert (adapted.head_name, adapted.form, adapted.has_features, adapted.doubt) == (name, form, True, None)
    other = images(6, side=20)
    assert isinstance(adapted.head, nn.Linear) and adapted.head.in_features == 8
    assert close(adapted(other), module(other)) and close(adapted.head(adapted.features(other)), module(other))


def test_a_cosine_head_has_effective_features_of_length_1_and_effective_weights():
    module = seeded(lambda: Small(Cosine(scale=16.0)))
    adapted = adapt(module, images())
    assert torch.allclose(adapted.features(images()).norm(dim=-1), torch.ones(3))
    assert torch.allclose(adapted.head.weight.norm(dim=-1), torch.full((5,), 16.0), rtol=1e-4)
    assert adapted.head.bias is None


def test_a_plain_head_has_the_very_weights_of_the_network():
    module = seeded(Small)
    adapted = adapt(module, images())
    assert torch.equal(adapted.head.weight, module.top.weight) and torch.equal(adapted.head.bias, module.top.bias)
    assert torch.allclose(adapted.features(images()), module.stem(images()).mean(dim=(2, 3)), atol=1e-6)


def test_rows_choose_and_order_the_outputs():
    module, x = seeded(Small), images()
    adapted = adapt(module, x, rows=[4, 0, 2])
    assert torch.allclose(adapted(x), module(x)[:, [4, 0, 2]], atol=1e-6)
    assert adapted.head.out_features == 3 and adapted.features(x).shape == (3, 8)
    alone = adapt(seeded(lambda: Then(Small(), torch.tanh)), x, rows=[1, 3])
    assert torch.allclose(alone(x), module(x)[:, [1, 3]].tanh(), atol=1e-6)


def test_of_two_layers_with_as_many_rows_the_one_that_gives_the_outputs_is_the_head():
    def build():
        return nn.Sequential(nn.Flatten(), nn.Linear(3 * 16 * 16, 5), nn.ReLU(), nn.Linear(5, 5))

    assert adapt(seeded(build), images()).head_name == "3"
    with pytest.raises(
        UserError, match=r"outputs are not linear in the input of '1' \('3' is off by .*, '1' is off by"
    ):
        adapt(seeded(build), images(), head="1")


class Twice(nn.Module):
    """One layer for two views, of which the last counts."""

    def __init__(self):
        super().__init__()
        self.flat, self.fc = nn.Flatten(), nn.Linear(3 * 16 * 16, 5)

    def forward(self, x):
        self.fc(self.flat(x.flip(-1)))
        return self.fc(self.flat(x))


def test_of_a_layer_that_is_called_twice_the_last_call_counts():
    module, x = seeded(Twice), images()
    adapted = adapt(module, x)
    assert torch.allclose(adapted.features(x), x.flatten(1)) and close(adapted(x), module(x))


@pytest.mark.parametrize(
    ("head", "message"),
    [
        ("tpo", "unknown layer 'tpo'; did you mean 'top'?"),
        (
            "stem.0",
            "the layer 'stem.0' has no row of weights for every output of the network, or is not called; choose",
        ),
    ],
)
def test_a_head_that_cannot_be_is_refused_with_those_that_can(head, message):
    with pytest.raises(UserError) as caught:
        adapt(seeded(Small), images(), head=head)
    assert str(caught.value).startswith(message) and "'top'" in str(caught.value)


def test_a_head_can_be_named():
    assert adapt(seeded(Small), images(), head="top").head_name == "top"


# Logits alone


class Functional(nn.Module):
    """Its head is no module."""

    def __init__(self):
        super().__init__()
        self.stem, self.prototypes = nn.Conv2d(3, 8, 3), nn.Parameter(torch.randn(5, 8))

    def forward(self, x):
        return self.stem(x).relu().mean(dim=(2, 3)) @ self.prototypes.T


def test_a_network_without_a_linear_layer_at_its_end_is_its_logits_alone():
    module, x = seeded(Functional), images()
    adapted = adapt(module, x)
    assert (adapted.head_name, adapted.form, adapted.doubt) == (None, "logits alone", None)
    assert not adapted.has_features and not adapted.has_maps
    assert torch.allclose(adapted(x), module(x), atol=1e-6) and torch.equal(adapted.features(x), adapted(x))
    assert torch.equal(adapted.head.weight, torch.eye(5)) and adapted.head.bias is None
    with pytest.raises(UserError, match="this network has no feature maps before pooling; choose another scorer"):
        adapted.maps(x)


def test_layers_that_are_nearly_the_head_are_named_in_a_sentence():
    adapted = adapt(seeded(lambda: Then(Small(), torch.relu)), images())
    assert adapted.form == "logits alone" and "\n" not in adapted.doubt
    assert adapted.doubt.startswith("no linear layer gives this network's outputs ('inner.top' is off by ")
    assert adapted.doubt.endswith(" %), so scorers see only its logits")


@pytest.mark.parametrize(
    ("function", "name"), [(lambda y: y.softmax(dim=-1), "softmax"), (lambda y: y.log_softmax(dim=-1), "log-softmax")]
)
def test_a_network_that_ends_in_probabilities_is_asked_for_without(function, name):
    adapted = adapt(seeded(lambda: Then(Small(), function)), images())
    assert adapted.form == "logits alone"
    assert adapted.doubt == (
        f"the network ends in a {name}, so its outputs are not logits; give the network without its {name}"
    )


# What networks return, and what is around them


OUTPUTS = {
    "object": lambda y: namedtuple("Output", "loss logits")(None, y),
    "mapping": lambda y: {"logits": y, "hidden": None},
    "tuple": lambda y: (y, None),
    "list": lambda y: [y],
}


@pytest.mark.parametrize("kind", OUTPUTS)
def test_logits_are_found_in_what_a_network_returns(kind):
    module, x = seeded(Small), images()
    adapted = adapt(Then(module, OUTPUTS[kind]).eval(), x)
    assert adapted.head_name == "inner.top" and close(adapted(x), module(x))


@pytest.mark.parametrize(
    "wrapped", [nn.DataParallel, pytest.param(torch.compile, marks=pytest.mark.slow)], ids=["parallel", "compiled"]
)
def test_what_wraps_a_network_in_training_is_taken_off(wrapped):
    module, x = seeded(Small), images()
    adapted = adapt(wrapped(module), x)
    assert adapted.head_name == "top" and close(adapted(x), module(x))


def test_the_callers_module_stays_as_it_was():
    module = seeded(Small).train()
    before = deepcopy(module.state_dict())
    adapted = adapt(module, images())
    assert module.training and module.stem[1].training and all(each.requires_grad for each in module.parameters())
    assert all(torch.equal(value, before[name]) for name, value in module.state_dict().items())
    assert not any(each._forward_hooks or each._forward_pre_hooks for each in module.modules())
    logits = adapted(images())
    module.top.weight.data.zero_()
    assert torch.equal(adapted(images()), logits)


def test_an_adapted_network_is_frozen_in_eval_mode_and_has_no_hooks():
    adapted = adapt(seeded(Small).train(), images())
    assert not adapted.training and not any(each.training for each in adapted.modules())
    assert not any(each.requires_grad for each in adapted.parameters())
    adapted(images())
    assert not any(each._forward_hooks or each._forward_pre_hooks for each in adapted.modules())


def test_adapting_draws_no_random_numbers():
    module = seeded(Small)
    torch.manual_seed(3)
    adapt(module, images())
    after = torch.rand(1)
    torch.manual_seed(3)
    assert torch.equal(after, torch.rand(1))


def test_a_network_that_cannot_be_copied_is_told_in_one_line():
    module = seeded(Small)
    module.kept = (module.top.weight * 2).sum()  # part of a graph, which torch does not copy
    with pytest.raises(
        UserError, match=r"the network cannot be copied \(RuntimeError: .*; give a module that"
    ) as caught:
        adapt(module, images())
    assert "\n" not in str(caught.value)


class Viewed(nn.Module):
    """As many tutorials write it: a view, which fails for images channels last."""

    def __init__(self):
        super().__init__()
        self.conv, self.fc = nn.Conv2d(3, 4, 3), nn.Linear(4 * 14 * 14, 5)

    def forward(self, x):
        return self.fc(self.conv(x).relu().view(-1, 4 * 14 * 14))


def test_a_network_that_views_its_activations_is_given_them_in_its_order():
    module, x = seeded(Viewed), images()
    adapted = adapt(module, x)
    assert adapted.head_name == "fc" and torch.allclose(adapted(x), module(x), atol=1e-6)


def test_images_are_normalized_inside():
    module, x = seeded(Small), images()
    adapted = adapt(module, x, MEAN, STD)
    mean, std = (torch.tensor(values).view(-1, 1, 1) for values in (MEAN, STD))
    assert close(adapted(x), module((x - mean) / std)) and torch.equal(adapted.std, std)
    one = adapt(module, x, (0.5,), (0.25,))
    assert close(one(x), module((x - 0.5) / 0.25))


# oodbench's own


@pytest.mark.parametrize("kind", [Classifier, Bfloat16Classifier])
@pytest.mark.parametrize("stated", [False, True])
def test_a_network_of_oodbenchs_own_gives_the_very_bits_that_it_gives_in_a_run(kind, stated):
    torch.manual_seed(0)
    body, dim = load_class(catalogue("networks")["wrn"])(depth=10, width=1).body(3)
    model = kind(body, dim, 10, MEAN, STD).to(memory_format=torch.channels_last).eval()
    rows = (255 * images(8, side=32)).to(torch.uint8)
    adapted = adapt(model, images(side=32), *((MEAN, STD) if stated else ()))
    assert (adapted.head_name, adapted.form, adapted.has_maps) == ("head", "W f + b", True)
    readers = {"sums": lambda maps, model: maps.sum(dim=(2, 3))}
    (inside, read), (given, other) = (forward_reading(each, rows, readers) for each in (model, adapted))
    assert torch.equal(inside.features, given.features) and torch.equal(inside.logits, given.logits)
    assert torch.equal(read["sums"], other["sums"])
    assert torch.equal(forward(model, rows).logits, forward(adapted, rows).logits)


def test_other_images_for_a_network_of_oodbenchs_own_are_normalized_as_is_said():
    model, x = Classifier(nn.Sequential(nn.Flatten()), 768, 4, MEAN, STD).eval(), images()
    adapted = adapt(model, x, (0.0,), (0.5,))
    assert torch.allclose(adapted.features(x), 2 * x.flatten(1)) and not adapted.has_maps
    assert torch.equal(model.std.flatten(), torch.tensor(STD))


def test_a_network_of_oodbenchs_own_that_was_changed_is_adapted_as_any_other():
    class Doubled(Classifier):
        def forward(self, x):
            return 2 * super().forward(x)

    model, x = Doubled(nn.Flatten(), 768, 4, MEAN, STD).eval(), images()
    assert close(adapt(model, x)(x), model(x))
    stated = adapt(model, x, (0.0,), (0.5,))
    assert stated.form == "s (W f + b)" and close(stated(x), 2 * model.head(2 * x.flatten(1)))


def test_an_adapted_network_can_be_adapted():
    once = adapt(seeded(Small), images(), MEAN, STD)
    twice = adapt(once, images(), rows=[1, 0])
    assert twice.head_name == "head" and torch.equal(twice(images()), once(images())[:, [1, 0]])
    assert twice.has_maps


# What scorers do with it


@pytest.mark.parametrize("kind", ["plain", "cosine", "convolution"])
def test_the_gradient_of_a_logit_reaches_the_image(kind):
    module, x = seeded(HEADS[kind][0]), images().requires_grad_()
    adapted = adapt(module, images(), MEAN, STD)
    mean, std = (torch.tensor(values).view(-1, 1, 1) for values in (MEAN, STD))
    (given,) = torch.autograd.grad(adapted(x)[:, 0].sum(), x)
    (expected,) = torch.autograd.grad(module((x - mean) / std)[:, 0].sum(), x)
    assert close(given, expected) and float(expected.abs().max()) > 0


# Feature maps


class Pooling(nn.Module):
    """As CIFAR's networks are often written: the pooling is a function."""

    def __init__(self, relu):
        super().__init__()
        self.layer, self.relu, self.fc = nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU()), relu, nn.Linear(8, 5)

    def forward(self, x):
        x = self.layer(x)
        x = F.relu(x - 0.1) if self.relu else x
        return self.fc(F.avg_pool2d(x, x.shape[-1]).flatten(1))


def test_maps_are_what_the_last_pooling_is_given():
    module, x = seeded(Small), images()
    adapted = adapt(module, x)
    assert adapted.has_maps and torch.allclose(adapted.maps(x), module.stem(x), atol=1e-6)
    assert torch.allclose(adapted.pooled(adapted.maps(x)), adapted.features(x), atol=1e-6)


def test_maps_before_a_function_that_pools_are_what_the_last_layer_gave():
    module, x = seeded(lambda: Pooling(relu=False)), images()
    adapted = adapt(module, x)
    assert adapted.has_maps and torch.allclose(adapted.maps(x), module.layer(x), atol=1e-6)


def test_maps_that_no_layer_gives_are_not_there():
    adapted = adapt(seeded(lambda: Pooling(relu=True)), images())
    assert adapted.has_features and not adapted.has_maps
    with pytest.raises(UserError, match="this network has no feature maps before pooling; choose another scorer"):
        adapted.maps(images())


def test_the_features_of_a_cosine_heads_maps_are_of_length_1():
    adapted, x = adapt(seeded(lambda: Small(Cosine())), images()), images()
    assert adapted.has_maps and torch.allclose(adapted.pooled(adapted.maps(x)), adapted.features(x), atol=1e-6)


# timm and torchvision


def of_timm(name, **options):
    return lambda: import_with_torchvision("timm").create_model(name, num_classes=7, **options)


def of_torchvision(name, **options):
    return lambda: import_with_torchvision("torchvision").models.get_model(name, num_classes=7, **options)


def vit_of_torchvision():
    transformer = import_with_torchvision("torchvision").models.VisionTransformer
    return transformer(64, 16, num_layers=1, num_heads=2, hidden_dim=32, mlp_dim=64, num_classes=7)


TINY = {"depths": (1, 1, 2, 1), "embed_dim": 24, "num_heads": (1, 2, 4, 8)}
LIBRARIES = {
    "timm resnet18": (of_timm("resnet18"), "fc", True),
    "timm vit": (of_timm("vit_tiny_patch16_224", img_size=64, depth=2), "head", False),
    "timm convnext": (of_timm("convnext_atto"), "head.fc", True),
    "timm swin": (of_timm("swin_tiny_patch4_window7_224", img_size=64, window_size=2, **TINY), "head.fc", True),
    "timm mobilenetv3": (of_timm("mobilenetv3_small_050"), "classifier", True),
    "timm efficientnet": (of_timm("efficientnet_lite0"), "classifier", True),
    "torchvision resnet18": (of_torchvision("resnet18"), "fc", True),
    "torchvision vit": (vit_of_torchvision, "heads.head", False),
    "torchvision mobilenet": (of_torchvision("mobilenet_v3_small"), "classifier.3", False),
    "torchvision mobilenet v2": (of_torchvision("mobilenet_v2"), "classifier.1", True),
    "torchvision densenet": (of_torchvision("densenet121"), "classifier", False),
    "torchvision squeezenet": (of_torchvision("squeezenet1_1"), None, False),
}


@pytest.mark.parametrize("name", LIBRARIES)
def test_networks_of_timm_and_torchvision_are_adapted(name):
    build, head, maps = LIBRARIES[name]
    module, x = seeded(build), images(2, side=64)
    for each in module.modules():  # some begin with a head of zeros, which would prove nothing
        if isinstance(each, nn.Linear) and each.out_features == 7:
            nn.init.normal_(each.weight)
    adapted = adapt(module, x)
    assert (adapted.head_name, adapted.has_maps) == (head, maps)
    with torch.no_grad():
        logits, features = module(x), adapted.features(x)
        assert close(adapted(x), logits) and close(features @ adapted.head.weight.T + _bias(adapted), logits)
        if maps:
            assert adapted.maps(x).ndim == 4 and close(adapted.pooled(adapted.maps(x)), features)
    if head is None:
        assert "'classifier.1' is off by" in adapted.doubt


def _bias(adapted):
    return 0.0 if adapted.head.bias is None else adapted.head.bias


def test_a_scripted_network_which_takes_no_hooks_is_its_logits_alone():
    scripted, x = torch.jit.trace(seeded(Small), images()), images()
    adapted = adapt(scripted, x)
    assert adapted.form == "logits alone" and close(adapted(x), scripted(x))


# What is wrong with it


def numbers(value):
    def function(y):
        y = y.clone()
        y[:2, 0] = value
        return y

    return function


WRONG = {
    "grey images": (
        Small,
        images(channels=1),
        "the images have 1 channel, and the network takes 3; give images with as many channels, or a network that",
    ),
    "colour images": (lambda: Small(channels=1), images(), "the images have 3 channels, and the network takes 1; "),
    "another size": (
        lambda: nn.Sequential(nn.Flatten(), nn.Linear(100, 5)),
        images(),
        "the network does not take images of shape 3 x 16 x 16 (RuntimeError: mat1 and mat2 shapes cannot be",
    ),
    "a mistake in it": (
        lambda: Then(Small(), lambda y: y.none),
        images(),
        "the network does not take images of shape 3 x 16 x 16 (AttributeError: ",
    ),
    "half precision": (
        lambda: Small().half(),
        images(),
        "the network's weights are float16, images are float32; give it in float32: model.float()",
    ),
    "maps": (
        lambda: nn.Conv2d(3, 5, 3),
        images(),
        "the network gives 3 x 5 x 14 x 14 numbers for 3 x 3 x 16 x 16 images; it should give 3 x the number",
    ),
    "one number": (
        lambda: Small(classes=1),
        images(),
        "the network gives one number for an image; give one with an output for every class",
    ),
    "no tensor": (
        lambda: Then(Small(), lambda y: {"scores": y}),
        images(),
        "the network gives 'dict', which holds no logits; let its forward return a tensor of them",
    ),
    "classes": (
        lambda: Then(Small(), lambda y: y.argsort(dim=-1)),
        images(),
        "the network gives whole numbers, perhaps classes; give one that ends in its logits",
    ),
    "NaN": (
        lambda: Then(Small(), numbers(float("nan"))),
        images(),
        "the network gives NaN for 2 of 3 images (outputs); check its weights, and the mean and std of its images",
    ),
    "infinity": (
        lambda: Then(Small(), numbers(float("inf"))),
        images(),
        "the network gives infinite numbers for 2 of 3 images (outputs); check its weights",
    ),
    "chance": (
        lambda: Then(Small(), F.dropout),
        images(),
        "the network gives different outputs for the same images each time; leave out what is random in eval mode",
    ),
    "yet to be made": (
        lambda: nn.Sequential(nn.Flatten(), nn.LazyLinear(5)),
        images(),
        "the network's weights are not initialized yet; pass images through it, or give its --weights",
    ),
    "no images": (
        Small,
        images(0),
        "a network is adapted on a batch of float images, N x C x H x W; give at least one",
    ),
    "uint8": (Small, images().to(torch.uint8), "a network is adapted on a batch of float images, N x C x H x W; give"),
}


@pytest.mark.parametrize("kind", WRONG)
def test_what_is_wrong_with_a_network_or_its_images_is_told_in_one_line(kind):
    build, x, message = WRONG[kind]
    with pytest.raises(UserError) as caught:
        adapt(seeded(build), x)
    assert str(caught.value).startswith(message) and "\n" not in str(caught.value) and ";" in str(caught.value)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"rows": [0, 5]},
            "the network has 5 outputs, counted from 0, and number 5 cannot be taken; check the classes",
        ),
        ({"rows": [1]}, "the network has 5 outputs, counted from 0, and fewer than two of them cannot be taken; check"),
        (
            {"rows": [0, 1, 1]},
            "the network has 5 outputs, counted from 0, and one of them twice cannot be taken; check",
        ),
        ({"mean": (0.5, 0.5)}, "mean has 2 numbers, and the images have 3 channels; give one for each"),
        ({"std": (0.5, 0.5, 0.0)}, "std is 0.5, 0.5, 0.0; it divides pixels, so give numbers above 0"),
    ],
)
def test_what_cannot_be_said_of_a_network_is_refused(options, message):
    with pytest.raises(UserError) as caught:
        adapt(seeded(Small), images(), **options)
    assert str(caught.value).startswith(message)


# Its digest


def test_the_digest_tells_other_weights_code_preprocessing_and_heads_apart():
    def digest(build, **options):
        return behaviour_digest(adapt(seeded(build), images(), **options), images())

    first = digest(Small)
    assert len(first) == 16 and int(first, 16) >= 0 and first == digest(Small)
    assert first == behaviour_digest(adapt(seeded(Small), images(5)), images(7))
    changed = seeded(Small)
    changed.top.bias.data[0] += 1e-3
    others = {
        behaviour_digest(adapt(changed, images()), images()),
        digest(lambda: Then(Small(), lambda y: y)),
        digest(lambda: Then(Small(), lambda y: 2 * y)),
        digest(Small, rows=[1, 0, 2, 3, 4]),
        digest(Small, mean=MEAN, std=STD),
    }
    assert len(others) == 5 and first not in others


def test_equal_weights_under_other_code_have_another_digest():
    class Leaky(Small):
        def forward(self, x):
            return self.top(self.pool(F.leaky_relu(self.stem[1](self.stem[0](x)))).flatten(1))

    plain, other = seeded(Small), seeded(Leaky)
    assert all(torch.equal(value, other.state_dict()[name]) for name, value in plain.state_dict().items())
    x = images()
    assert behaviour_digest(adapt(plain, x), x) != behaviour_digest(adapt(other, x), x)
