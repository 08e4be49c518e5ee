"""Feature maps before pooling: what a network gives, what a scorer reads of it in the pass, and who is refused."""

import copy
import re

import numpy as np
import pytest
import torch
from command_line import SUITE_FILE, assert_done, assert_refused, oodbench, smoke
from torch import nn

from oodbench import load, read_results
from oodbench.config.cards import catalogue, load_class
from oodbench.config.registry import Registry
from oodbench.errors import UserError
from oodbench.learning.networks import Classifier, Pooled
from oodbench.learning.outputs import Outputs, forward, forward_reading
from oodbench.learning.precision import Bfloat16Classifier
from oodbench.learning.rehearsal import _enlarged
from oodbench.learning.scoring import forward_for
from oodbench.results.stored import read_scores
from oodbench.testing import Violation, check_method

SMALL = {"wrn": {"depth": 10, "width": 1}, "timm": {"model": "resnet10t"}, "small-resnet": {"width": 4}}
NETWORKS = catalogue("networks")
WITH_MAPS = [name for name, card in NETWORKS.items() if card.feature_maps is not False]
WITHOUT = [name for name in NETWORKS if name not in WITH_MAPS]
NO_MAPS = "this network has no feature maps before pooling; choose another scorer, or another network"


def classifier(name, kind=Classifier, channels=3, **options):
    torch.manual_seed(0)
    body, dim = load_class(NETWORKS[name])(**{**SMALL.get(name, {}), **options}).body(channels)
    model = kind(body, dim, 10, (0.4,) * channels, (0.25,) * channels)
    return model.eval().requires_grad_(False)


def rows(count=5, channels=3, side=28):
    generator = torch.Generator().manual_seed(0)
    return torch.randint(256, (count, channels, side, side), generator=generator, dtype=torch.uint8)


def means(maps, model):
    """What a scorer might keep: a number for each channel."""
    return maps.mean(dim=(2, 3))


# What a network gives


def test_which_networks_have_maps_is_known():
    assert WITHOUT == ["mlp", "one-hidden"] and NETWORKS["timm"].feature_maps is None
    assert all(NETWORKS[name].feature_maps for name in WITH_MAPS if name != "timm")


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("kind", [Classifier, Bfloat16Classifier])
@pytest.mark.parametrize("name", WITH_MAPS)
def test_pooled_maps_are_the_features_to_the_bit(name, kind, channels):
    model, x = classifier(name, kind, channels), rows(channels=channels, side=64 if name == "timm" else 28) / 255
    for memory_format in (torch.contiguous_format, torch.channels_last):
        model = model.to(memory_format=memory_format)
        with torch.inference_mode():
            maps, features = model.maps(x), model.features(x)
            pooled = model.pooled(maps)
        assert maps.ndim == 4 and len(maps) == 5 and maps[0, 0].numel() > 1, "maps before pooling"
        assert pooled.dtype == torch.float32 and torch.equal(pooled, features)


@pytest.mark.parametrize("name", WITHOUT)
def test_a_network_without_maps_says_so(name):
    model = classifier(name)
    for refused in (lambda: model.maps(rows() / 255), lambda: model.pooled(torch.zeros(5, 3, 2, 2))):
        with pytest.raises(UserError, match=NO_MAPS):
            refused()


# Of timm's: maps with their channels at the end; features that are wider than the maps; transformers of tokens.
@pytest.mark.parametrize(
    ("model", "side", "channels", "width"),
    [("mambaout_femto", 64, 288, 1152), ("swin_s3_tiny_224", 224, 768, 768), ("mobilenetv3_small_050", 64, 288, 1024)],
)
def test_maps_of_timm_have_their_channels_first(model, side, channels, width):
    network, x = classifier("timm", model=model), rows(2, side=side) / 255
    with torch.inference_mode():
        maps, features = network.maps(x), network.features(x)
        assert maps.shape[:2] == (2, channels) and maps.shape[2] == maps.shape[3] > 1
        assert features.shape == (2, width) == (2, network.head.in_features)
        assert torch.equal(network.pooled(maps), features)
        # The channels are those of the network: without the first channel's map, other features change than if a
        # corner of all maps is missing.
        assert not torch.equal(network.pooled(maps * (torch.arange(channels) > 0).view(1, -1, 1, 1)), features)


def test_a_transformer_of_tokens_has_no_maps():
    model = classifier("timm", model="vit_tiny_patch16_224")
    with pytest.raises(UserError, match=NO_MAPS):
        model.maps(rows(1, side=224) / 255)


@pytest.mark.parametrize("trainer", ["mtl", "arm"])
def test_a_network_that_a_trainer_has_wrapped_has_no_maps(trainer, new_model):
    model = new_model()
    load_class(Registry().card(trainer))().extend(model)
    with pytest.raises(UserError, match=NO_MAPS):
        forward_reading(model, rows(channels=1, side=8), {"mine": means})


class Shifted(Pooled):
    """Its features are not those of its maps."""

    shift = 1.0

    def forward(self, x):
        return super().forward(x) * (1 + self.shift)


def test_features_that_do_not_come_from_the_maps_are_refused(new_model):
    model = new_model()
    model.body = Shifted(*model.body)
    with pytest.raises(UserError) as refusal:
        forward_reading(model, rows(channels=1, side=8), {"mine": means})
    assert str(refusal.value) == "this network's features do not come from its feature maps alone; use another scorer"


def test_features_that_differ_by_rounding_are_not(new_model):  # as where the whole of a body is compiled
    model = new_model()
    model.body = Shifted(*model.body)
    model.body.shift = 1e-5
    forward_reading(model, rows(channels=1, side=8), {"mine": means})


def test_features_that_are_no_numbers_are_not_blamed_on_the_maps(new_model):
    model = new_model()
    model.body[0].weight.data[0] = torch.nan
    assert forward_reading(model, rows(channels=1, side=8), {"mine": means})[0].features.isnan().any()


def test_a_compiled_body_gives_its_maps(new_model):
    model = new_model()
    plain = forward_reading(model, rows(channels=1, side=8), {"mine": means})[1]["mine"]
    model.body.compile(backend="eager")
    compiled = forward_reading(model, rows(channels=1, side=8), {"mine": means})[1]["mine"]
    assert model.body._compiled_call_impl is not None and torch.allclose(compiled, plain, rtol=1e-5)


# What is read of it in the pass


def counted(model):
    """How many rows the first and the last layer of a body are given, call by call."""
    calls = {0: [], len(model.body) - 1: []}
    for place, sizes in calls.items():
        model.body[place].register_forward_hook(lambda layer, args, out, sizes=sizes: sizes.append(len(out)))
    return list(calls.values())


def test_maps_are_taken_in_the_pass_that_gives_the_features(new_model):
    model = new_model()
    first, last = counted(model)
    given = {"mine": means, "other": lambda maps, model: maps.amax(dim=(2, 3))}
    forward_reading(model, rows(20, channels=1, side=8), given, size=8)
    assert first == last == [8, 8, 8, 4], "the first batch once more, to see that its features come from its maps"


def test_maps_are_not_taken_where_nobody_asks(new_model, monkeypatch):
    monkeypatch.setattr(Pooled, "maps", None)
    model = new_model()
    first, last = counted(model)
    out = forward(model, rows(20, channels=1, side=8), size=8)
    assert first == last == [8, 8, 4] and out.maps is None


@pytest.mark.parametrize("kind", [Classifier, Bfloat16Classifier])
@pytest.mark.parametrize("name", WITH_MAPS)
def test_outputs_are_the_same_whether_maps_are_read_or_not(name, kind):
    model, images = classifier(name, kind), rows(7)
    plain, (read, numbers) = forward(model, images, size=3), forward_reading(model, images, {"mine": means}, size=3)
    assert torch.equal(read.features, plain.features) and torch.equal(read.logits, plain.logits)
    assert numbers["mine"].shape == (7, model.maps(images / 255).shape[1])


@pytest.mark.parametrize("kind", [Classifier, Bfloat16Classifier])
def test_a_reader_is_given_plain_float32_maps_and_may_pool_them(kind, new_model):
    seen = []

    def view(maps, model):
        seen.append(maps)
        return model.pooled(maps.view(len(maps), 16, 16).view_as(maps))

    model = new_model()
    model.__class__ = kind
    out, read = forward_reading(model, rows(channels=1, side=8), {"mine": view})
    assert [(maps.dtype, maps.shape) for maps in seen] == [(torch.float32, (5, 16, 4, 4))]
    assert torch.allclose(read["mine"], out.features, rtol=1e-6 if kind is Classifier else 0.02)


def test_what_was_read_stays_with_its_rows(new_model):
    out, read = forward_reading(new_model(), rows(6, channels=1, side=8), {"mine": means})
    out = Outputs(out.model, out.images, out.features, out.logits, maps=read["mine"])
    assert [len(some.maps) for some in out.split(4)] == [4, 2]
    assert torch.equal(out.rows(slice(4, 6)).maps, read["mine"][4:])
    assert torch.equal(out.copied().maps, read["mine"]) and out.copied().maps is not out.maps
    larger = _enlarged(out, 100)
    assert larger.maps.shape == (100, 16) and (larger.maps[:6] - larger.maps[6:12]).abs().min() > 0
    assert (larger.maps[:6] - read["mine"]).abs().max() <= read["mine"].std()


@pytest.mark.parametrize(
    ("reader", "what"),
    [
        (lambda maps, model: maps, r"shape \(4, 16, 4, 4\)"),
        (lambda maps, model: maps.mean(dim=(1, 2, 3)), r"shape \(4,\)"),
        (lambda maps, model: maps.mean(dim=(2, 3))[:3], r"shape \(3, 16\)"),
        (lambda maps, model: maps.mean(), r"shape \(\)"),
        (lambda maps, model: [0.0] * len(maps), "a list"),
        (lambda maps, model: None, "a NoneType"),
    ],
)
def test_a_reader_that_gives_no_row_for_each_is_told_in_one_line(reader, what, new_model):
    say = f"^{__file__}:[0-9]+: read_maps gave {what} for 4 rows; return a tensor of as many numbers for each row$"
    with pytest.raises(UserError, match=say):
        forward_reading(new_model(), rows(4, channels=1, side=8), {"mine": reader})


def test_a_reader_that_keeps_more_of_one_batch_than_of_another_is_told(new_model):
    def uneven(maps, model):
        return maps.mean(dim=(2, 3))[:, : len(maps)]

    with pytest.raises(UserError, match=r"read_maps gave shape \(2, 2\) for 2 rows; return a tensor of as many"):
        forward_reading(new_model(), rows(6, channels=1, side=8), {"mine": uneven}, size=4)


# Scorers that need maps, in a run and under the contract

SCORER = '''\
"""A. Author, Channels that are loud somewhere, 2026."""

from dataclasses import dataclass
from typing import ClassVar

import torch

from oodbench import Scorer


@dataclass
class Mine(Scorer):
    """The distance of the loudest pixel of each channel from its mean over training rows."""

    needs: ClassVar[frozenset[str]] = frozenset({"feature-maps"})

    def read_maps(self, maps, model):
        return maps.amax(dim=(2, 3))

    def fit(self, train, validation=None):
        assert len(train.maps) == len(train.features)
        self.mean = train.maps.mean(dim=0)

    def score(self, out):
        return torch.linalg.vector_norm(out.maps - self.mean, dim=-1)
'''


@pytest.fixture
def plugin(tmp_path):
    def write(*changes, text=SCORER, name="mine.py"):
        for old, new in changes:
            assert old in text
            text = text.replace(old, new)
        path = tmp_path / name
        path.write_text(text)
        return path

    return write


@pytest.fixture
def results(tmp_path):
    return tmp_path / "results"


def test_a_scorer_that_needs_maps_runs_and_scores_what_it_reads(plugin, results):
    path = plugin()
    assert_done(smoke(results, "mine,msp", "--plugin", path, "--setting", "unseen-digits"))
    (result,) = [each for each in read_results(results) if each.method == "mine"]
    loaded = load(result, plugins=[path])
    images = rows(9, channels=1, side=8).numpy()
    maps = loaded.model.maps(torch.from_numpy(images) / 255).amax(dim=(2, 3))
    expected = (maps - loaded.scorer.mean).norm(dim=-1).numpy()
    np.testing.assert_allclose(loaded.score(images), expected, rtol=1e-5)
    assert np.ptp(read_scores(result)["id"].scores) > 0


def test_a_need_of_validation_and_of_maps_are_both_served(plugin, results):
    both = ('{"feature-maps"}', '{"feature-maps", "validation"}')
    seen = ("self.mean = ", "assert validation.maps.shape[1] == train.maps.shape[1]\n        self.mean = ")
    assert_done(smoke(results, "mine", "--plugin", plugin(both, seen), "--setting", "unseen-digits"))


@pytest.mark.parametrize("network", ["mlp, options: {side: 8}", "one-hidden"])
def test_a_network_without_maps_is_refused_at_planning_and_the_scorer_left_out_of_all(
    network, plugin, results, tmp_path
):
    suite = tmp_path / "other.yaml"
    suite.write_text(SUITE_FILE.read_text().replace("name: small-cnn, options: {width: 16}", f"name: {network}"))
    given = ["run", "--suite", suite, "--preset", "smoke", "--results", results, "--plugin", plugin(), "--dry-run"]
    reason = f"needs feature maps, which the network '{network.split(',')[0]}' does not have"
    assert_refused(oodbench(*given, "--methods", "mine"), f"the method 'mine' {reason}; leave it out or")
    out = assert_done(oodbench(*given, "--methods", "all"))
    (line,) = [line for line in out.splitlines() if line.startswith("left out: ")]
    assert re.search(rf"(: |; )gram, rankfeat, mine \({reason}\)", line)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("amax(dim=(2, 3))", "amax(dim=3)"), "'mine': {path}:17: read_maps gave shape (16, 64, 4) for 16 rows; "),
        (("amax(dim=(2, 3))", "amax(dim=(2, 5))"), "IndexError at {path}:18: Dimension out of range"),
        (
            ("    def read_maps", "    def reads"),
            "'mine': class Mine needs feature-maps and does not read them; give it a method read_maps(self, maps, mo",
        ),
    ],
)
def test_a_reader_that_fails_is_refused_in_one_line_before_anything_trains(change, message, plugin, results):
    path = plugin(change)
    outcome = smoke(results, "mine", "--plugin", path)
    assert_refused(outcome, message.format(path=path))
    assert not list(results.rglob("*.pt"))


def test_a_reader_that_changes_the_network_fails_alone(plugin, results):
    path = plugin(("return maps", "model.head.weight.mul_(2)\n        return maps"))
    outcome = smoke(results, "mine,msp", "--plugin", path, "--setting", "unseen-digits")
    assert outcome.status == 1 and "1 of 2 cells failed; the first: 'mine' changed the network" in outcome.err
    assert_done(smoke(results.parent / "other", "msp", "--setting", "unseen-digits"))
    (beside,) = [each for each in read_results(results) if each.method == "msp"]
    (alone,) = read_results(results.parent / "other")
    np.testing.assert_array_equal(read_scores(beside)["id"].scores, read_scores(alone)["id"].scores)


def test_a_scorer_that_finds_a_few_rows_too_few_is_rehearsed_on_more(plugin, results):
    more = ("self.mean = ", "assert len(train.maps) > 50\n        self.mean = ")
    assert_done(smoke(results, "mine", "--plugin", plugin(more), "--setting", "unseen-digits"))


def test_scores_are_the_same_to_the_bit_beside_scorers_that_read_maps(tmp_path):
    alone, beside = tmp_path / "alone", tmp_path / "beside"
    assert_done(smoke(alone, "msp,odin", "--setting", "unseen-digits"))
    assert_done(smoke(beside, "msp,odin,rankfeat,gram", "--setting", "unseen-digits"))
    stored = {each.method: read_scores(each) for each in read_results(beside)}
    assert stored.keys() == {"msp", "odin", "rankfeat", "gram"}
    for result in read_results(alone):
        for split, each in read_scores(result).items():
            np.testing.assert_array_equal(stored[result.method][split].scores, each.scores)


def test_maps_that_a_wrapped_network_lacks_fail_their_own_cell_in_words(results):
    values = ["--set", "mtl.environments=random:2", "--setting", "unseen-digits"]
    outcome = smoke(results, "mtl+msp,mtl+rankfeat,mtl+energy", *values)
    assert outcome.status == 1 and f"1 of 3 cells failed; the first: {NO_MAPS}" in outcome.err
    status = {each.method.split(",")[0]: each.status for each in read_results(results)}
    assert status == {"mtl+msp": "ok", "mtl+rankfeat": "failed", "mtl+energy": "ok"}


def test_the_contract_reads_maps_for_whoever_needs_them(plugin):
    assert "scores do not depend on the batch or the row order" in check_method(plugin())


CHANGES = "read_maps changes the network, or the maps that other scorers read after it"


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("maps.amax(dim=(2, 3))", "maps.mul_(2).amax(dim=(2, 3))", CHANGES),
        ("return maps", "model.head.requires_grad_()\n        return maps", CHANGES),
        ("return maps", "maps = maps - maps.mean(dim=0)\n        return maps", "maps are read in batches of 7 score"),
        ("dim=(2, 3))", "dim=(2, 3)) + torch.ones(16)", "make tensors on the device of those you are given"),
    ],
)
def test_a_reader_that_breaks_the_contract_is_told_how(old, new, said, plugin):
    with pytest.raises(Violation, match=said):
        check_method(plugin((old, new)))


def test_outputs_for_a_scorer_have_maps_only_if_it_needs_them(new_model):
    model, images = new_model(), rows(3, channels=1, side=8)
    msp, rankfeat = (load_class(Registry().card(name))() for name in ("msp", "rankfeat"))
    assert forward_for(msp, model, images).maps is None
    assert forward_for(rankfeat, copy.deepcopy(model), images).maps.shape == (3, 16)


def test_layers_are_pooled_where_the_last_pooling_is():
    # Of two poolings the last: before it 2 x 2 pixels 1, 2, 3, 4, whose mean is 2.5; doubled, 5.
    body = Pooled(nn.AdaptiveMaxPool2d(2), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Threshold(0, 0))
    x = torch.tensor([[1.0, 2.0], [3.0, 4.0]]).view(1, 1, 2, 2)
    assert torch.equal(body.maps(x), x) and body.pool(2 * body.maps(x)).tolist() == [[5.0]]
