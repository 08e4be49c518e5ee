"""The presets around the paper: which of them means what, and that the settings fixed in advance are these."""

import pytest

from oodbench.config import suite as suites
from oodbench.errors import UserError

FULL_SIZE = ("cifar10-c", "mnist-c", "imagenet100-c")
EFFECT = ("cpu-effect", "cpu-effect-released")


@pytest.mark.parametrize("name", FULL_SIZE)
def test_paper_is_refused_with_the_two_names_that_it_could_mean(name):
    with pytest.raises(UserError) as refused:
        suites.load(name, "paper")
    assert str(refused.value) == (
        f"'paper' could mean two presets of {name}: without --preset it is what the paper writes, "
        "with --preset released what its code does"
    )


@pytest.mark.parametrize("name", FULL_SIZE)
def test_released_is_the_code_in_form_masks_and_epochs(name):
    contents = suites.load(name, "released").contents
    assert contents.mixture == "three_masks" and contents.recipes.finetune.epoch_length == "shortest"
    assert contents.methods["scone"] == contents.methods["woods"] == {"form": "reference"}
    assert suites.load(name).contents.mixture == "categorical"


def test_the_effect_is_run_by_the_settings_fixed_in_advance():
    for preset in EFFECT:
        contents = suites.load("cifar10-c", preset).contents
        scratch, finetune = contents.recipes.scratch, contents.recipes.finetune
        assert contents.id.jpeg is None and contents.splits.labelled == 0.5  # 25,000 of 50,000
        assert (contents.network.name, contents.network.options) == ("small-resnet", {"width": 16})
        assert (scratch.epochs, scratch.unaugmented, scratch.lr, scratch.momentum) == (18, 0.4, 0.1, 0.85)
        assert (scratch.weight_decay, scratch.warmup, scratch.batch_size) == (0.0008, 0.2, 64)
        assert (finetune.iterations, finetune.epochs, finetune.batch_size, finetune.lr) == (1200, None, 64, 0.004)
        (setting,) = suites.load("cifar10-c", preset).settings
        assert (setting.semantic, setting.covariate, setting.severity) == ("street-digits", "gaussian_noise", 1)
        assert (setting.pi_c, setting.pi_s) == (0.5, 0.1)


def test_the_two_effect_presets_differ_in_woods_and_scone_alone():
    paper, released = (suites.load("cifar10-c", preset).contents.methods for preset in EFFECT)
    assert list(paper) == list(released)
    assert {name for name in paper if paper[name] != released[name]} == {"woods", "scone"}
    assert paper["scone"] == {"margin": "0.9x", "every": 100, "checked": 2000}
    assert released["scone"] == {
        "form": "reference", "margin": -10, "every": 100, "checked": 2000, "recipe": {"lr": 0.01},
    }  # fmt: skip
