"""SAL, Medix, AHA and graph-spectral: their mathematics beside a plain reading in float64."""

from types import SimpleNamespace

import pytest
import torch
import torch.nn.functional as F

from oodbench import Batch, Data, Loop, UserError
from oodbench.config.recipe import Recipe
from oodbench.functional import SEMANTIC, HeadGradients, detector_loss, short_features, with_candidates
from oodbench.learning.batches import Split, WildMixture
from oodbench.learning.label_oracle import LabelOracle
from oodbench.methods.aha import AHA, UNKNOWN
from oodbench.methods.graph_spectral import GraphSpectral
from oodbench.methods.sal import SAL

CPU = torch.device("cpu")
RECIPE = Recipe(epochs=1, batch_size=4, lr=0.1)


def drawn(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def some_gradients(rows=30, classes=4, dim=5, seed=0):
    features, logits = drawn(rows, dim, seed=seed), 3 * drawn(rows, classes, seed=seed + 1)
    return features, logits, torch.arange(rows) % classes


def each_gradient(features, logits, labels):
    """Of the cross-entropy by the weights of the head, one row at a time, by autograd."""
    found = []
    for f, z, y in zip(features, logits, labels, strict=True):
        weight = torch.zeros(len(z), len(f), dtype=torch.float64, requires_grad=True)
        F.cross_entropy((z + weight @ f)[None], y[None]).backward()
        found.append(weight.grad)
    return torch.stack(found)


def test_sums_and_products_of_head_gradients_are_those_of_autograd():
    rows = some_gradients()
    ours, plain = HeadGradients.of(*rows), each_gradient(*rows)
    weights, direction, center = drawn(30, seed=5), drawn(4, 5, seed=6), drawn(4, 5, seed=7)
    torch.testing.assert_close(ours.mean(), plain.mean(dim=0))
    torch.testing.assert_close(ours.median(), plain.median(dim=0).values)
    torch.testing.assert_close(ours.combined(weights), (weights[:, None, None] * plain).sum(dim=0))
    torch.testing.assert_close(ours.products(direction, center), ((plain - center) * direction).sum(dim=(1, 2)))


@pytest.mark.parametrize("seed", range(5))
def test_the_leading_direction_is_the_first_right_singular_vector(seed):
    rows = some_gradients(seed=seed)
    center = drawn(4, 5, seed=9)
    found = HeadGradients.of(*rows).leading_direction(center).flatten()
    first = torch.linalg.svd((each_gradient(*rows) - center).flatten(1)).Vh[0]
    torch.testing.assert_close(found * (found @ first).sign(), first, rtol=0, atol=1e-6)


def test_the_filter_of_sal_is_the_paper_s():
    labelled, wild = some_gradients(40, seed=1), some_gradients(25, seed=11)
    tau, known = SAL().filtered(HeadGradients.of(*labelled), HeadGradients.of(*wild))
    g, g_wild = each_gradient(*labelled).flatten(1), each_gradient(*wild).flatten(1)
    v = torch.linalg.svd(g_wild - g.mean(dim=0)).Vh[0]
    torch.testing.assert_close(tau, ((g_wild - g.mean(dim=0)) @ v).square(), rtol=1e-5, atol=1e-9)
    torch.testing.assert_close(known, ((g - g.mean(dim=0)) @ v).square(), rtol=1e-5, atol=1e-9)


def test_the_filter_of_the_released_code_goes_class_by_class_with_one_row_of_the_gradient():
    (f, z, y), (f_wild, z_wild, _) = some_gradients(40, seed=1), some_gradients(25, seed=11)
    predicted = z_wild.argmax(dim=-1)
    ours = HeadGradients.of(f, z, y), HeadGradients.of(f_wild, z_wild, predicted)
    tau, known = SAL(form="reference").filtered_by_class(*ours, y, predicted)
    for k in range(4):
        own = -(1 - z[y == k].softmax(dim=-1)[:, k, None]) * f[y == k]
        theirs = -(1 - z_wild[predicted == k].softmax(dim=-1)[:, k, None]) * f_wild[predicted == k]
        deviations, center = own - own.mean(dim=0), own.mean(dim=0)
        expected = (deviations @ torch.linalg.svd(deviations).Vh[0]).abs()
        torch.testing.assert_close(known[y == k], expected, rtol=1e-4, atol=1e-8)
        wild_expected = ((theirs - center) @ torch.linalg.svd(theirs - center).Vh[0]).abs()
        torch.testing.assert_close(tau[predicted == k], wild_expected, rtol=1e-4, atol=1e-8)


def wild_data():
    """Images that are one number: 20 of ID (0), 20 covariate-shifted (100), 10 semantic (200)."""
    kinds = [torch.full((n, 1, 1, 1), value, dtype=torch.uint8) for value, n in ((0, 20), (100, 20), (200, 10))]
    labelled = Split(torch.zeros(4, 1, 1, 1, dtype=torch.uint8), torch.zeros(4, dtype=torch.int64))
    return Data(labelled, 2, WildMixture(*kinds, pi_c=0.4, pi_s=0.2))


def test_candidates_take_the_place_of_the_mixture_and_are_counted_by_kind():
    data, loop = wild_data(), Loop(RECIPE, 0, CPU)
    chosen = torch.zeros(50, dtype=torch.bool)
    chosen[[3, 25, 26, 40, 49]] = True
    filtered = with_candidates(data, chosen, loop)
    assert filtered.wild is None and filtered.outliers.flatten().tolist() == [0, 100, 100, 200, 200]
    assert loop.notes["candidates"] == {"ID": "1 of 20", "covariate": "2 of 20", "semantic": "2 of 10"}
    with pytest.raises(UserError, match="no image of the wild set is a candidate outlier"):
        with_candidates(data, torch.zeros(50, dtype=torch.bool), loop)


def test_the_head_learns_labeled_images_as_0_and_outliers_as_1():
    model = SimpleNamespace(
        features=lambda x: x, head=lambda f: 10 * f, ood_head=lambda f: f.sum(dim=1, keepdim=True)
    )  # fmt: skip
    batch = Batch(torch.tensor([[2.0]]), torch.tensor([0]), None, None, outliers=torch.tensor([[-1.0], [3.0]]))
    logits, loss = detector_loss(model, batch)
    sigmoid = torch.tensor([2.0, -1.0, 3.0]).sigmoid()
    expected = -((1 - sigmoid[0]).log() + sigmoid[1].log() + sigmoid[2].log()) / 3
    assert logits.item() == 20
    torch.testing.assert_close(loss, expected)


def asking(is_semantic, budget):
    """A loop whose oracle knows which of the ranked images are semantic; rows are ranks."""
    labels = torch.where(torch.tensor(is_semantic), SEMANTIC, 1)
    return Loop(RECIPE, 0, CPU, oracle=LabelOracle(labels, budget)), torch.arange(len(is_semantic))


@pytest.mark.parametrize("boundary", [1, 30, 57, 99])
def test_aha_finds_the_rank_where_semantic_images_end(boundary):
    torch.manual_seed(0)
    loop, ranked = asking([rank < boundary for rank in range(100)], budget=60)
    found = AHA(budget=60).boundary(ranked, loop)
    assert abs(found - boundary) <= 2 and loop.oracle.spent <= 30


def test_aha_spends_the_rest_of_its_budget_on_both_sides_of_that_rank():
    loop, ranked = asking([rank < 50 for rank in range(100)], budget=6)
    labels = AHA(budget=6).ask_around(50, ranked, loop)
    assert (labels != UNKNOWN).nonzero().flatten().tolist() == [47, 48, 49, 50, 51, 52]
    assert labels[47:53].tolist() == [SEMANTIC] * 3 + [1] * 3 and loop.notes["labels_asked"] == 6


def test_a_budget_beyond_the_wild_set_is_refused_in_words(toy_data, toy_model):
    toy_model.ood_head = torch.nn.Linear(16, 1)
    with pytest.raises(UserError, match=r"aha.budget=9999 exceeds the \d+ images of the wild set; choose fewer labels"):
        AHA(budget=9999).train(toy_model, toy_data, Loop(RECIPE, 0, CPU))


@pytest.mark.parametrize(("form", "directions"), [("reference", 4), ("paper", 2)])
def test_the_spectral_loss_is_a_sum_over_pairs(form, directions):
    x, x2, wild, wild2 = (drawn(n, 3, seed=seed) for n, seed in ((6, 0), (6, 1), (4, 2), (4, 3)))
    y = torch.tensor([0, 0, 1, 1, 3, 3])
    l1 = l3 = l4 = 0.0
    for k in (0, 1, 3):
        own = (y == k).nonzero().flatten().tolist()
        l1 += sum(x[i] @ x2[j] for i in own for j in own) / 4
        l4 += sum((x[i] @ wild2[j]) ** 2 for i in own for j in range(4)) / 8
        for other in (0, 1, 3):
            theirs = (y == other).nonzero().flatten().tolist()
            pairs = [(x[i] @ x2[j]) ** 2 for i in own for j in theirs if i != j]
            l3 += sum(pairs) / len(pairs)
    l2 = (wild * wild2).sum(dim=1) if form == "reference" else torch.cat([(wild * wild2).sum(1), (x * x2).sum(1)])
    l5 = sum((wild[i] @ wild2[j]) ** 2 for i in range(4) for j in range(4) if i != j) / 12
    trainer = GraphSpectral(eta_l=0.3, eta_u=0.7, form=form)
    expected = -0.6 * l1 - 1.4 * l2.mean() + 0.09 * l3 + directions * 0.21 * l4 + 0.49 * l5
    torch.testing.assert_close(trainer.spectral_loss(x, x2, wild, wild2, y, classes=5), expected)


def test_only_features_longer_than_1_are_scaled_back():
    torch.testing.assert_close(
        short_features(torch.tensor([[3.0, 4.0], [0.3, 0.4]])), torch.tensor([[0.6, 0.8], [0.3, 0.4]])
    )
