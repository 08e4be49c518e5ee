"""A network that starts from training images, and a base that has seen more labels than what starts from it."""

import pytest
import torch
from command_line import assert_done, assert_refused, oodbench
from stand_ins import stand_ins

from oodbench.config import suite as suites
from oodbench.config.cards import catalogue, load_class
from oodbench.data.parts import build_parts
from oodbench.errors import UserError
from oodbench.results.folder import read_folder
from oodbench.running.trained import build_model

SUITE = """
title: Stand-ins.
id: {dataset: cifar10}
semantic: {svhn: {dataset: svhn}}
corruptions: cifar_c
network: {name: airbench, options: {width: 4, epsilon: 0.05}}
splits: {covariate_from: all, base: 228}
recipes:
  scratch: {epochs: 3, batch_size: 40, lr: 0.5, bn_momentum: 0.4, bn_bias_lr: 8, first_layer_epochs: 1, lookahead: 5,
            augment: alternating-flip}
  finetune: {epochs: 2, batch_size: 20, lr: 0.01, first_layer_epochs: 0}
defaults: {covariate: gaussian_noise, severity: 1}
settings: [{semantic: svhn}]
methods: {erm: {}, msp: {}, scone: {}}
"""


@pytest.fixture(scope="module")
def suite(tmp_path_factory):
    folder = tmp_path_factory.mktemp("fast")
    (folder / "fast.yaml").write_text(SUITE)
    with stand_ins(folder):
        yield folder / "fast.yaml"


def run(suite, folder, *more):
    return oodbench("run", "--suite", suite, "--results", folder, "--device", "cpu", *more)


def results_of(folder):
    return {result.method: result for result in read_folder(folder)[0]}


@pytest.fixture(scope="module")
def plain(suite):
    assert_done(run(suite, suite.parent / "plain"))
    return results_of(suite.parent / "plain")


def test_the_base_has_the_labeled_images_and_none_that_validates(suite):
    loaded = suites.load(str(suite))
    parts = build_parts(loaded, loaded.settings[0], 0)
    assert len(parts.base) == 228 and len(parts.labelled) == 120 and len(parts.id_validation) == 12
    assert (parts.base.rows[:120] == parts.labelled.rows).all() and len(set(parts.base.rows)) == 228
    assert not set(parts.base.rows) & set(parts.id_validation.rows)


def test_a_base_that_would_hold_validation_images_is_refused(suite):
    (suite.parent / "larger.yaml").write_text(SUITE.replace("base: 228", "base: 229"))
    refused = run(suite.parent / "larger.yaml", suite.parent / "none")
    assert_refused(refused, "splits.base=229", "splits.base=228", "splits.id_validation")


def test_the_base_is_in_keys_only_where_it_is_stated_and_in_results(suite, plain):
    assert plain["erm"].data.parts["base"].rows == 228
    folder = suite.parent / "labelled"
    text = SUITE.replace(", base: 228", "")
    (suite.parent / "labelled.yaml").write_text(text)
    assert_done(run(suite.parent / "labelled.yaml", folder, "--methods", "erm"))
    other = results_of(folder)["erm"]
    assert "base" not in other.data.parts and other.training != plain["erm"].training


def test_weights_of_a_base_serve_as_initial_weights(suite, plain):
    weights = next(
        path for path in (suite.parent / "plain" / "weights").glob("*.pt") if path.stem == plain["erm"].training
    )
    state = torch.load(weights, weights_only=True)["model"]
    torch.save(state, suite.parent / "base.pt")
    folder = suite.parent / "given"
    assert_done(run(suite, folder, "--methods", "erm,scone", "--init", suite.parent / "base.pt"))
    given = results_of(folder)
    assert given["erm"].weights == plain["erm"].weights and given["scone"].weights == plain["scone"].weights


def test_a_head_without_a_bias_keeps_none_and_whitened_patches_stay(suite, plain):
    loaded = suites.load(str(suite))
    start = build_model(loaded, 0)
    assert start.head.bias.abs().sum() == 0 and not start.head.bias.requires_grad
    weights = {}
    for method in ("erm", "scone"):
        path = suite.parent / "plain" / "weights" / f"{plain[method].training}.pt"
        weights[method] = torch.load(path, weights_only=True)["model"]
        assert weights[method]["head.bias"].abs().sum() == 0
    assert torch.equal(weights["erm"]["body.0.weight"], weights["scone"]["body.0.weight"])
    assert torch.equal(weights["erm"]["body.0.bias"], weights["scone"]["body.0.bias"])
    assert not torch.equal(weights["erm"]["body.0.bias"], start.state_dict()["body.0.bias"])
    assert not torch.equal(weights["erm"]["body.0.weight"], start.state_dict()["body.0.weight"])


def test_whitened_patches_have_unit_variance_but_for_epsilon():
    """Of the images that they were made of: E[(a x)^2] = v / (v + epsilon), and no two axes vary together."""
    network = load_class(catalogue("networks")["airbench"])(width=4, epsilon=0.01)
    body, _ = network.body(3)
    images = torch.randn(50, 3, 12, 12, generator=torch.Generator().manual_seed(0)).cumsum(dim=-1) / 3
    network.prepare(body, images)
    patches = torch.nn.functional.unfold(images, 2).movedim(1, 2).flatten(0, 1)
    weight = body[0].weight.flatten(1)
    assert torch.equal(weight[12:], -weight[:12])
    covariance = (patches @ weight[:12].T).T @ (patches @ weight[:12].T) / len(patches)
    values = torch.linalg.eigvalsh(patches.T.double() @ patches.double() / len(patches))
    assert torch.allclose(covariance, torch.diag(values / (values + 0.01)).float(), atol=1e-3)


@pytest.mark.parametrize("options", [{"width": 0}, {"epsilon": 0.0}])
def test_a_network_without_channels_or_epsilon_is_refused(options):
    with pytest.raises(UserError, match="airbench"):
        load_class(catalogue("networks")["airbench"])(**options).body(3)
