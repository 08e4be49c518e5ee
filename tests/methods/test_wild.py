"""WOODS, SCONE and the other trainers on wild data: their mathematics by hand, and what they must never do."""

import math
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from planned import plan_of

from oodbench.config import suite
from oodbench.config.cards import load_class
from oodbench.config.recipe import Recipe
from oodbench.config.registry import Registry
from oodbench.data.parts import build_parts
from oodbench.errors import UserError
from oodbench.learning.batches import Batch, Data, Split, WildMixture
from oodbench.learning.constraints import (
    Checked,
    Constraint,
    Limits,
    PaperTerms,
    ReferenceTerms,
    least_start,
    times_median,
)  # fmt: skip
from oodbench.learning.functional import energy, forward_both, frozen_batch_norm, gradient_norm
from oodbench.learning.loop import Failed, Loop
from oodbench.learning.outputs import forward
from oodbench.learning.tuning import after_largest_drop, flagged_share, out_share
from oodbench.results.metrics import auroc
from oodbench.running.trained import build_model, training_data
from oodbench.seeds import derive

CPU = torch.device("cpu")
REGISTRY = Registry()


def method(name):
    return load_class(REGISTRY.card(name))


def scone_module():
    import sys

    return sys.modules[method("scone").__module__]


def constraint(multiplier=0.0, weight=1.0, **options):
    made = Constraint(**{"growth": 1.5, "tolerance": 0.0, "bound": 1e9, **options}).double()
    made.multiplier.fill_(multiplier)
    made.weight.fill_(weight)
    return made


# --- the augmented Lagrangian ---------------------------------------------------------------------------------------


def test_an_active_constraint_costs_lambda_g_plus_half_beta_g_squared():
    # lambda 0.5, beta 2, g 0.3: 0.5 * 0.3 + 2 / 2 * 0.09 = 0.24
    assert constraint(0.5, 2.0).penalty(torch.tensor(0.3).double()).item() == pytest.approx(0.24)


def test_an_inactive_constraint_costs_a_constant():
    # lambda 0.5, beta 2: inactive below g = -0.25; then -0.25 / 4 = -0.0625 and no gradient
    g = torch.tensor(-0.4, dtype=torch.double, requires_grad=True)
    penalty = constraint(0.5, 2.0).penalty(g)
    penalty.backward()
    assert penalty.item() == pytest.approx(-0.0625)
    assert g.grad.item() == 0.0


@pytest.mark.parametrize(
    ("multiplier", "weight", "g", "new_multiplier", "new_weight"),
    [
        (0.5, 2.0, 0.3, 0.8, 3.0),  # violated: lambda + g, beta * 1.5
        (0.5, 2.0, -0.1, 0.4, 2.0),  # met, but lambda + beta g = 0.3 > 0: lambda + g
        (0.5, 2.0, -0.4, 0.25, 2.0),  # lambda + beta g < 0: lambda - lambda / beta
        (0.0, 1.0, -0.4, 0.0, 1.0),  # met from the start: nothing happens
    ],
)
def test_the_multiplier_moves_as_the_released_code_moves_it(multiplier, weight, g, new_multiplier, new_weight):
    made = constraint(multiplier, weight)
    made.update(g)
    assert made.multiplier.item() == pytest.approx(new_multiplier)
    assert made.weight.item() == pytest.approx(new_weight)


def test_the_penalty_weight_stops_at_its_bound_and_within_its_tolerance():
    made = constraint(bound=10.0, tolerance=0.1)
    made.update(0.05)
    assert made.weight.item() == 1.0
    for _ in range(100):
        made.update(1.0)
    assert made.weight.item() == 10.0


@given(
    st.floats(0, 5), st.floats(1, 50), st.floats(-3, 3), st.floats(-3, 3)
)  # fmt: skip
def test_the_penalty_is_continuous_convex_and_rises_with_the_violation(multiplier, weight, a, b):
    penalty = constraint(multiplier, weight).penalty
    low, high = sorted((torch.tensor(a).double(), torch.tensor(b).double()))
    assert penalty(low) <= penalty(high) + 1e-12
    assert penalty((low + high) / 2) <= (penalty(low) + penalty(high)) / 2 + 1e-9
    assert penalty(torch.zeros(()).double()).item() == 0.0


def test_one_multiplier_is_shared_in_the_released_form_as_its_storage_is():
    first, second = constraint(0.5, 2.0), constraint(0.0, 1.0)
    second.multiplier = first.multiplier
    first.update(0.3)  # 0.8
    second.update(-0.5)  # sees 0.8: 0.8 - 0.5 = 0.3
    assert first.multiplier.item() == second.multiplier.item() == pytest.approx(0.3)


# --- terms and their gradients --------------------------------------------------------------------------------------


def terms(form, margin=-2.0):
    made = PaperTerms(margin, start=0.974) if form == "paper" else ReferenceTerms(margin)
    return made.double()


def test_the_paper_s_terms_by_hand():
    # w starts at 0.974 = softplus(u); E = -3, eta = -2
    t, e = terms("paper"), torch.tensor([-3.0]).double()
    w = 0.974
    assert t.w.item() == pytest.approx(w, rel=1e-6)
    assert t.taken_for_id(e).item() == pytest.approx(1 / (1 + math.exp(w * -3)), rel=1e-5)
    assert t.taken_for_ood(e).item() == pytest.approx(1 / (1 + math.exp(-w * (-3 + 2))), rel=1e-5)


def test_the_released_terms_by_hand():
    # L = -E = 11, w = -0.3465, b = -0.9668, eta = -10: in = sigma(w L + b) = sigma(-4.7783) = .0083
    t, e = terms("reference", -10.0), torch.tensor([-11.0]).double()
    assert t.taken_for_ood(e).item() == pytest.approx(1 / (1 + math.exp(0.3465 * 11 + 0.9668)), rel=1e-6)
    assert t.taken_for_id(e).item() == pytest.approx(1 / (1 + math.exp(-0.3465 * (11 + 10) - 0.9668)), rel=1e-6)


@pytest.mark.parametrize(
    ("level", "eta", "slope"), [(11, 0, 2.9e-3), (7, 0, 1.1e-2), (11, -10, 9.1e-5), (7, -2, 5.6e-3)]
)
def test_the_released_wild_term_saturates_as_computed_for_its_first_seed(level, eta, slope):
    e = torch.tensor([-float(level)], dtype=torch.double, requires_grad=True)
    terms("reference", eta).taken_for_id(e).sum().backward()
    assert abs(e.grad.item()) == pytest.approx(slope, rel=0.03)


@pytest.mark.parametrize("form", ["paper", "reference"])
@pytest.mark.parametrize("term", ["taken_for_id", "taken_for_ood"])
def test_term_gradients_equal_finite_differences(form, term):
    t = terms(form)
    logits = torch.randn(5, 3, dtype=torch.double, generator=torch.Generator().manual_seed(0), requires_grad=True)
    assert torch.autograd.gradcheck(lambda x: getattr(t, term)(energy(x)).mean(), (logits,))
    parameter = next(t.parameters())
    value = getattr(t, term)(energy(logits.detach())).mean()
    (slope,) = torch.autograd.grad(value, parameter)
    with torch.no_grad():
        parameter += 1e-6
        above = getattr(t, term)(energy(logits)).mean()
        parameter -= 2e-6
        below = getattr(t, term)(energy(logits)).mean()
    assert slope.item() == pytest.approx(((above - below) / 2e-6).item(), rel=1e-5)


@pytest.mark.parametrize(("multiplier", "g"), [(0.5, 0.3), (0.5, -0.1), (0.5, -0.4)])
def test_penalty_gradients_equal_finite_differences(multiplier, g):
    x = torch.tensor(g, dtype=torch.double, requires_grad=True)
    assert torch.autograd.gradcheck(constraint(multiplier, 2.0).penalty, (x,))


@pytest.mark.parametrize("name", ["oe", "energy-oe"])
def test_outlier_losses_have_the_gradients_of_finite_differences(name, toy_logits):
    """The losses as functions of the logits, through a model that returns its input."""
    id_logits, y, wild = toy_logits

    def loss(a, b):
        return outlier_loss(name, a, y, b)

    assert torch.autograd.gradcheck(loss, (id_logits, wild), eps=1e-6, atol=1e-6)


@pytest.fixture
def toy_logits():
    g = torch.Generator().manual_seed(1)
    make = lambda n: (3 * torch.randn(n, 4, dtype=torch.double, generator=g)).requires_grad_()  # noqa: E731
    return make(6), torch.tensor([0, 1, 2, 3, 0, 1]), make(5)


class Passing(torch.nn.Module):
    """A classifier whose logits are its input."""

    def forward(self, x):
        return x


def outlier_loss(name, logits, y, wild, **values):
    trainer = method(name)(**values)
    batch = Batch(logits, y, None, wild)
    if name == "oe":
        return trainer.loss(Passing(), batch)
    caught = []

    class Once:
        device, recipe = CPU, type("R", (), {"weight_decay": 0.0})

        def epochs(self, model, data, loss, extra, decay):
            caught.append(loss(model, batch))
            return []

    trainer.train(Passing(), None, Once())
    return caught[0]


def test_outlier_exposure_by_hand():
    # logits (2, 0), label 0: CE = ln(1 + e^-2) = .126928; wild (1, 0): L - mean = ln(e + 1) - .5 = .813262
    loss = outlier_loss("oe", torch.tensor([[2.0, 0.0]]), torch.tensor([0]), torch.tensor([[1.0, 0.0]]))
    assert loss.item() == pytest.approx(0.126928 + 0.5 * 0.813262, abs=1e-5)


def test_the_energy_hinge_by_hand():
    # E_in = -L(2, 0) = -2.126928, 22.873072 above m_in -25; E_wild = -L(7, 0) = -7.000911, 2.000911 below m_out -5
    loss = outlier_loss("energy-oe", torch.tensor([[2.0, 0.0]]), torch.tensor([0]), torch.tensor([[7.0, 0.0]]))
    assert loss.item() == pytest.approx(0.126928 + 0.1 * (22.873072**2 + 2.000911**2), rel=1e-5)


# --- where w starts, which images are checked, what the margin is a multiple of -------------------------------------


def test_w_starts_where_the_constraint_on_alarms_is_just_met():
    # Both images have E = -7: sigma(-7 w) = .05 at w = ln(19) / 7 = .42063.
    assert least_start(torch.tensor([-7.0, -7.0]), 0.05) == pytest.approx(math.log(19) / 7, rel=1e-9)


def test_of_several_starts_the_smallest_is_taken():
    # One of 20 images has E = +1: the mean falls from a half through .06 to .05, which that image makes alone.
    energies = torch.tensor([-5.0] * 19 + [1.0])
    w = least_start(energies, 0.06)
    mean = lambda w: torch.sigmoid(w * energies.double()).mean().item()  # noqa: E731
    assert mean(w) == pytest.approx(0.06, abs=1e-9)
    assert all(mean(w * share) > 0.06 for share in (0.2, 0.5, 0.9, 0.99))


def test_without_such_a_w_it_starts_where_it_used_to_and_the_result_says_so(digits, erm_weights):
    assert least_start(torch.tensor([-5.0, 1.0]), 0.05) is None  # half of the images stay above a half
    data, loop = digits[1], Loop(digits[0].contents.recipes.finetune, 0, CPU)
    flat = started(digits, erm_weights)
    flat.head.bias.data -= 100.0  # every energy is positive
    limits = Limits(method("scone")(), -10.0, flat, data, loop)
    assert limits.terms.w.item() == pytest.approx(0.974, rel=1e-5)
    assert loop.notes["start_rule"] == "no w > 0 takes a share of 0.05 of the labeled images for OOD"


def test_the_start_is_told_and_can_be_given(digits, erm_weights):
    _, loop = finetuned(digits, erm_weights, "woods", epochs=1)
    checked = Checked.of(digits[1].labelled, "all", loop.seed)
    energies, _ = checked.measure(started(digits, erm_weights))
    assert loop.notes["start"] == pytest.approx(least_start(energies, 0.05), rel=1e-6)
    _, loop = finetuned(digits, erm_weights, "woods", epochs=1, start=0.5)
    assert loop.notes["start"] == 0.5


def test_nine_tenths_of_a_median_energy_of_minus_seven_are_minus_six_point_three():
    assert times_median("0.9x", torch.tensor([-9.0, -7.0, -1.0])) == pytest.approx(-6.3)
    with pytest.raises(UserError, match="scone.margin=0.9x of a median energy of 2 is not a margin"):
        times_median("0.9x", torch.tensor([2.0]))


def test_a_margin_in_medians_is_that_number(digits, erm_weights):
    energies, _ = Checked.of(digits[1].labelled, "all", 0).measure(started(digits, erm_weights))
    relative, loop = finetuned(digits, erm_weights, "scone", epochs=2, margin="0.9x")
    margin = 0.9 * energies.double().median().item()
    assert loop.log[-1]["margin"] == pytest.approx(margin)
    assert loop.notes["out_share"][0]["margin"] == pytest.approx(margin)
    absolute, _ = finetuned(digits, erm_weights, "scone", epochs=2, margin=margin)
    assert all(
        torch.equal(a, b) for a, b in zip(relative.state_dict().values(), absolute.state_dict().values(), strict=True)
    )


def test_checked_images_are_so_many_labelled_ones_and_the_same_for_a_seed(digits):
    labelled = digits[1].labelled
    first, again, other = (Checked.of(labelled, 50, seed).split for seed in (3, 3, 4))
    assert len(first) == 50 and torch.equal(first.images, again.images) and not torch.equal(first.images, other.images)
    pairs = {(image.numpy().tobytes(), int(y)) for image, y in zip(labelled.images, labelled.y, strict=True)}
    assert all((image.numpy().tobytes(), int(y)) in pairs for image, y in zip(first.images, first.y, strict=True))
    assert Checked.of(labelled, 10**6, 3).split is Checked.of(labelled, "all", 3).split is labelled


def test_multipliers_move_every_so_many_steps_of_all_iterations(digits, erm_weights):
    loaded, data, _ = digits
    recipe = loaded.contents.recipes.finetune.changed(iterations=25)
    model, loop = started(digits, erm_weights), Loop(recipe, derive(0, "train"), CPU)
    method("scone")(every=10, checked=100).train(model, data, loop)
    assert len(loop.log) == 3 and loop.step == 24 and loop.steps_in_all == 25


def test_w_and_b_of_the_released_form_have_their_own_rate(digits, erm_weights):
    _, loop = finetuned(digits, erm_weights, "scone", epochs=1, form="reference", head_lr=3e-5)
    network, head = loop._optimizer.param_groups
    share = network["lr"] / loop.recipe.lr  # where the schedule is
    assert head["lr"] == pytest.approx(3e-5 * share) and len(head["params"]) == 2
    _, loop = finetuned(digits, erm_weights, "scone", epochs=1)
    assert loop._optimizer.param_groups[1]["lr"] == loop._optimizer.param_groups[0]["lr"]


# --- whether it converged -------------------------------------------------------------------------------------------


def records(wild, alarms=0.0, risk=0.0):
    return [{"wild_term": value, "alarms_constraint": alarms, "risk_constraint": risk} for value in wild]


@pytest.mark.parametrize(
    ("log", "message"),
    [
        (records([0.9, 0.5, 0.2, 0.2]), None),
        (records([0.9, 0.5, 0.2, 0.2], alarms=0.004), None),  # a tenth of .05 is .005
        (
            records([0.9, 0.5, 0.2, 0.2], alarms=0.03),
            "the alarms constraint is violated, 0.08 where 0.05 is allowed",
        ),
        (records([0.9, 0.5, 0.2, 0.2], risk=0.1), "the risk constraint is violated, 0.3 where 0.2 is allowed"),
        (records([0.9, 0.8, 0.7, 0.6]), "the wild term still falls, by 0.1 in the last quarter"),
        (records([0.9, 0.9, 0.9, 0.897]), None),  # noise
        (records([0.9]), None),  # one epoch tells nothing
    ],
)
def test_a_run_that_did_not_converge_says_why(digits, erm_weights, log, message):
    loop = Loop(digits[0].contents.recipes.finetune, 0, CPU)
    limits = Limits(method("woods")(), 0.0, started(digits, erm_weights), digits[1], loop)
    limits.tau = 0.2
    assert limits.unfinished(log) == message


def test_the_note_is_with_the_result(digits, erm_weights):
    _, loop = finetuned(digits, erm_weights, "scone", epochs=2, margin=-50.0)  # far beyond what two epochs can give
    assert loop.notes["not_converged"].startswith("the alarms constraint is violated, 1 where 0.05 is allowed")
    _, loop = finetuned(digits, erm_weights, "woods", epochs=3, start=0.974, alarms=0.3)
    assert "not_converged" not in loop.notes


# --- the proposition of section 3.3 ---------------------------------------------------------------------------------


@settings(max_examples=200)
@given(
    st.floats(0.1, 10),  # L
    st.floats(0.01, 5),  # delta
    st.floats(1e-3, 10),  # how far eta lies below its bound
    st.floats(-0.999, 0.999),  # where within delta the covariate point lies
    st.booleans(),
)
def test_below_the_margin_s_bound_every_near_point_is_classified_right_and_kept_in(L, delta, below, shift, positive):
    """f = L x, logits (f/2, -f/2): eta < -log 2 - L delta / 2 keeps ID points so far out that delta does not matter."""
    eta = -math.log(2) - L * delta / 2 - below
    # The ID point nearest the boundary that satisfies E(x) < eta: solve log(2 cosh(L x / 2)) = -eta.
    x = 2 / L * math.acosh(math.exp(-eta) / 2) * (1 + 1e-9) * (1 if positive else -1)
    logits = lambda x: torch.tensor([[L * x / 2, -L * x / 2]], dtype=torch.double)  # noqa: E731
    assert energy(logits(x)).item() <= eta + 1e-6
    covariate = x + shift * delta
    assert logits(covariate).argmax().item() == (0 if positive else 1)
    assert energy(logits(covariate)).item() < 0


def test_above_the_bound_a_near_point_may_be_lost():
    # L = 1, delta = 4: the bound is -log 2 - 2. With eta = -1 the ID point x = 1.5 has E = -1.1, yet 1.5 - 3.9 < 0.
    logits = lambda x: torch.tensor([[x / 2, -x / 2]])  # noqa: E731
    assert energy(logits(1.5)).item() < -0.9
    assert logits(1.5 - 3.9).argmax().item() == 1


# --- batch normalization --------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def digits():
    loaded = suite.load("digits-c")
    parts = build_parts(loaded, loaded.settings[0], seed=0)
    return loaded, training_data(loaded, parts, loaded.settings[0]), parts


@pytest.fixture(scope="module")
def erm_weights(digits):
    loaded, data, _ = digits
    model = build_model(loaded, seed=0)
    recipe = loaded.contents.recipes.scratch
    method("erm")().train(model, replace(data, wild=None), Loop(replace(recipe, epochs=25), derive(0, "train"), CPU))
    return model.state_dict()


def started(digits, erm_weights):
    model = build_model(digits[0], seed=0)
    model.load_state_dict(erm_weights)
    return model


def statistics(model):
    return torch.cat([b.flatten() for name, b in model.named_buffers() if "running" in name])


def first_batch(digits):
    return next(digits[1].batches(digits[0].contents.recipes.scratch, 0, CPU))


def test_joint_batch_norm_sees_the_union_in_one_pass(digits, erm_weights):
    model, batch = started(digits, erm_weights).train(), first_batch(digits)
    id_logits, wild_logits = forward_both(model, batch, "joint")
    again = started(digits, erm_weights).train()(torch.cat([batch.x, batch.wild]))
    assert torch.equal(torch.cat([id_logits, wild_logits]), again)


def test_id_only_batch_norm_never_learns_of_the_wild_images(digits, erm_weights):
    model, alone = started(digits, erm_weights).train(), started(digits, erm_weights).train()
    batch = first_batch(digits)
    forward_both(model, batch, "id_only")
    alone(batch.x)
    assert torch.equal(statistics(model), statistics(alone))
    assert all(module.training for module in model.modules())


def test_frozen_batch_norm_keeps_its_statistics_and_still_learns(digits, erm_weights):
    model, batch = started(digits, erm_weights).train(), first_batch(digits)
    before = statistics(model)
    forward_both(model, batch, "frozen")[0].sum().backward()
    assert torch.equal(statistics(model), before)
    assert all(p.grad is not None for p in model.parameters())
    with frozen_batch_norm(model):
        assert not any(m.training for m in model.modules() if isinstance(m, torch.nn.BatchNorm2d))


def finetuned(digits, erm_weights, name, epochs=4, **values):
    loaded, data, _ = digits
    model = started(digits, erm_weights)
    loop = Loop(replace(loaded.contents.recipes.finetune, epochs=epochs), derive(0, "train"), CPU)
    method(name)(**values).train(model, data, loop)
    return model, loop


def test_bn_adapt_changes_statistics_and_nothing_else(digits, erm_weights):
    model, _ = finetuned(digits, erm_weights, "bn-adapt", epochs=1)
    changed = {name for name, value in model.state_dict().items() if not torch.equal(value, erm_weights[name])}
    assert changed and all("running" in name or "num_batches" in name for name in changed)


# --- what training must never do ------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", ["paper", "reference"])
@pytest.mark.parametrize("margin", [0.0, -1.0, -10.0, -50.0])
def test_every_margin_of_the_grid_stays_finite_under_the_suite_s_recipe_and_the_default_form_never_turns_over(
    digits, erm_weights, margin, form
):
    """However hard that is driven, w stays positive and semantic images do not end up below the labeled ones."""
    epochs = digits[0].contents.recipes.finetune.epochs
    model, loop = finetuned(digits, erm_weights, "scone", epochs=epochs, form=form, margin=margin)
    assert all(math.isfinite(value) for record in loop.log for value in record.values())
    assert all(value.isfinite().all() for value in model.state_dict().values())
    if form == "paper":
        assert all(record["w"] > 0 for record in loop.log)
        parts = digits[2]
        id_energy = energy(forward(model, torch.from_numpy(parts.id.images)).logits)
        semantic = energy(forward(model, torch.from_numpy(parts.semantic.images)).logits)
        assert auroc(id_energy.numpy(), semantic.numpy()) > 0.8


def test_w_stays_positive_even_when_everything_pulls_it_down():
    t = terms("paper", 0.0).float()
    optimizer = torch.optim.SGD(t.parameters(), lr=10.0)
    for _ in range(200):  # wild images below, labeled images above: the worst w can be asked
        loss = t.taken_for_id(torch.tensor([5.0])).mean() * -1 + t.taken_for_ood(torch.tensor([-5.0])).mean() * -1
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    assert t.w.item() >= 0


def test_the_released_form_may_turn_over_and_its_weight_changes_sign():
    t = terms("reference", -10.0).float()
    optimizer = torch.optim.SGD(t.parameters(), lr=0.5)
    for _ in range(200):
        loss = t.taken_for_ood(torch.tensor([5.0])).mean() + t.taken_for_id(torch.tensor([-30.0])).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    assert t.w.item() > 0


def test_woods_is_scone_without_a_margin(digits, erm_weights):
    woods, _ = finetuned(digits, erm_weights, "woods", epochs=2)
    scone, _ = finetuned(digits, erm_weights, "scone", epochs=2, margin=0.0)
    assert all(torch.equal(a, b) for a, b in zip(woods.state_dict().values(), scone.state_dict().values(), strict=True))


def test_the_log_tells_why_a_run_went_as_it_did(digits, erm_weights):
    _, loop = finetuned(digits, erm_weights, "scone", epochs=2)
    pieces = ("term", "gradient", "constraint", "multiplier", "weight")
    expected = {f"{name}_{piece}" for name in ("alarms", "risk") for piece in pieces}
    expected |= {"wild_term", "wild_gradient", "w", "tau", "margin", "epoch", "lr", "loss"}
    assert all(set(record) == expected for record in loop.log)
    # The means of the three terms make up the mean loss.
    record = loop.log[-1]
    parts = record["wild_term"] + record["alarms_term"] + record["risk_term"]
    assert parts == pytest.approx(record["loss"], abs=1e-5)


def test_a_gradient_norm_is_the_norm_of_the_gradient():
    a, b = torch.tensor([3.0], requires_grad=True), torch.tensor([4.0], requires_grad=True)
    assert gradient_norm((3 * a + 4 * b).sum(), a, b).item() == pytest.approx(5.0)
    assert gradient_norm((3 * a).sum(), a, b).item() == pytest.approx(3.0)


def test_tau_is_twice_the_starting_cross_entropy(digits, erm_weights):
    _, data, _ = digits
    model = started(digits, erm_weights)
    start = F.cross_entropy(forward(model, data.labelled.images).logits, data.labelled.y).item()
    _, loop = finetuned(digits, erm_weights, "scone", epochs=1)
    assert loop.log[0]["tau"] == pytest.approx(2 * start, rel=1e-5)


# --- the selection of the margin ------------------------------------------------------------------------------------


def test_the_paper_s_own_curve_selects_its_own_margin():
    shares = [0.5849, 0.5832, 0.5816, 0.5753, 0.5554, 0.1730, 0.1623, 0.1620]
    grid = scone_module().GRID
    assert grid[after_largest_drop(shares, 7424)] == -10.0


def test_without_a_drop_that_stands_out_the_smallest_margin_is_kept():
    assert after_largest_drop([0.30, 0.29, 0.31, 0.30], images=200) == 0
    assert after_largest_drop([0.1, 0.2, 0.3], images=10_000) == 0


class Fixed(torch.nn.Module):
    """Of an image that is one number, the one logit is that number: E = -logit."""

    device = CPU

    def features(self, x):
        return x.flatten(1)

    def head(self, x):
        return x * 255


def images_of(*values):
    return torch.tensor(values, dtype=torch.uint8).view(-1, 1, 1, 1)


def test_the_flagged_share_by_hand():
    """20 ID energies -20 ... -1: position floor(.95 * 20) = 19 holds -1; of the mixed ones, 3 of 4 are at or above."""
    assert flagged_share(Fixed(), images_of(*range(1, 21)), images_of(0, 1, 1, 7)) == 0.75


def test_the_threshold_of_out_share_is_that_of_the_images_it_names():
    """Where all are there, too: validation images flag what lies above -5, test images what lies above -2."""
    labelled = Split(images_of(0), torch.tensor([0]))
    validation, test, mixed = images_of(5, 5, 5), images_of(2, 2, 2), images_of(1, 3, 4, 9)
    data = Data(labelled, 2, id_validation=validation, id_test=test, mixed_validation=mixed)
    assert out_share(Fixed(), data) == out_share(Fixed(), data, "validation") == 0.75
    assert out_share(Fixed(), data, "test") == 0.25


@pytest.mark.parametrize("threshold", ["validation", "test"])
def test_margin_auto_tells_its_choice_curve_and_rule_and_reads_no_other_test_image(digits, erm_weights, threshold):
    loaded, data, parts = digits
    if threshold == "validation":
        data = replace(data, id_test=None)
    else:
        data = replace(data, id_validation=None)
    model = started(digits, erm_weights)
    loop = Loop(replace(loaded.contents.recipes.finetune, epochs=2), derive(0, "train"), CPU)
    method("scone")(margin="auto", threshold=threshold).train(model, data, loop)
    grid = scone_module().GRID
    assert [point["margin"] for point in loop.notes["out_share"]] == list(grid)
    assert all(0 <= point["share"] <= 1 for point in loop.notes["out_share"])
    assert f"ID {threshold} images" in loop.notes["rule"]
    chosen = loop.notes["margin"]
    alone, _ = finetuned(digits, erm_weights, "scone", epochs=2, margin=chosen)
    assert all(torch.equal(a, b) for a, b in zip(model.state_dict().values(), alone.state_dict().values(), strict=True))


# --- who may read what ----------------------------------------------------------------------------------------------


class Forbidden:
    """A mixture that nobody may touch."""

    def __getattr__(self, name):
        raise AssertionError(f"the wild mixture was read: {name}")


@pytest.mark.parametrize("name", sorted(n for n, c in REGISTRY.cards.items() if c.kind == "Trainer"))
def test_only_trainers_that_say_so_are_given_the_wild_images(name, digits):
    """A trainer's setting is None unless it needs wild data, and then nothing of the mixture reaches it."""
    needs = REGISTRY.method(name).needs
    made = [f"{name}.environments=random:2"] if "environments" in needs else []  # the digits have none of their own
    plan = plan_of(digits[0], [name], set=made)
    needs_wild = bool(needs & {"wild", "outliers"})  # which takes the place of outliers
    assert all((cell.training.setting is not None) == needs_wild for cell in plan.cells)
    given = training_data(digits[0], digits[2], plan.cells[0].training.setting)
    assert (given.wild is not None) == needs_wild
    if not needs_wild:
        assert given.id_validation is None and given.mixed_validation is None and given.id_test is None


def test_a_mixture_that_is_read_says_so():
    data = Data(Split(torch.zeros(4, 1, 8, 8, dtype=torch.uint8), torch.zeros(4, dtype=torch.int64)), 2, Forbidden())
    with pytest.raises(AssertionError, match="was read: "):
        next(data.batches(Recipe(epochs=1, batch_size=2, lr=0.1), 0, CPU))


# --- mixtures and environments --------------------------------------------------------------------------------------


def mixture(**options):
    kinds = [torch.full((500, 1, 1, 1), kind, dtype=torch.uint8) for kind in range(3)]
    return WildMixture(*kinds, **{"pi_c": 0.5, "pi_s": 0.1, **options})


@pytest.mark.parametrize("draw", ["categorical", "three_masks"])
def test_both_draws_follow_the_shares(draw):
    stream = mixture(draw=draw).stream(100, torch.Generator().manual_seed(0))
    batches = [next(stream) for _ in range(200)]
    counts = torch.cat(batches).flatten().bincount(minlength=3) / sum(map(len, batches))
    assert torch.allclose(counts, torch.tensor([0.4, 0.5, 0.1]), atol=0.015)
    sizes = {len(batch) for batch in batches}
    assert sizes == {100} if draw == "categorical" else len(sizes) > 10


@pytest.mark.parametrize("spec, count", [("random:2", 2), ("random:5", 5), ("augment", 3)])
def test_made_environments_are_equal_parts_and_equally_in_every_batch(digits, spec, count):
    data = digits[1].with_environments(spec, seed=3)
    sizes = data.labelled.env.bincount()
    assert len(sizes) == count and sizes.max() - sizes.min() <= 1
    for batch in data.batches(Recipe(epochs=1, batch_size=60, lr=0.1), 0, CPU):
        assert set(batch.env.bincount().tolist()) == {60 // count}
    again = digits[1].with_environments(spec, seed=3)
    assert torch.equal(data.labelled.env, again.labelled.env)
    assert torch.equal(data.labelled.images, again.labelled.images)


def test_augmented_environments_differ_and_the_first_is_untouched(digits):
    before, after = digits[1].labelled, digits[1].with_environments("augment", seed=3).labelled
    same = (before.images == after.images).flatten(1).all(dim=1)
    assert same[after.env == 0].all()
    assert (~same[after.env == 1]).float().mean() > 0.9
    assert (~same[after.env == 2]).float().mean() > 0.9


@pytest.mark.parametrize("name", ["irm", "vrex"])
def test_methods_that_compare_environments_refuse_one(name):
    with pytest.raises(UserError, match="needs two or more"):
        method(name)(environments="random:1")
    with pytest.raises(UserError, match="is unknown; choose auto, native, augment or random:2"):
        method(name)(environments="nonsense")


def test_mixup_mixes_the_labels_as_it_mixes_the_images():
    """Of images that are unit vectors, the mixtures themselves say whom they are of, and how much of each."""
    y, seen = torch.tensor([0, 1, 2, 2, 1, 0]), []
    logits = torch.randn(6, 3, generator=torch.Generator().manual_seed(0))

    def model(x):
        seen.append(x)
        return x @ logits

    torch.manual_seed(1)
    loss = method("mixup")().loss(model, Batch(torch.eye(6), y, None, None))
    (mixed,) = seen
    assert ((mixed > 0.01) & (mixed < 0.99)).any() and torch.allclose(mixed.sum(dim=1), torch.ones(6))
    torch.testing.assert_close(loss, F.cross_entropy(mixed @ logits, mixed @ F.one_hot(y).float()))


def test_irm_s_closed_form_equals_the_gradient_of_a_scale():
    irm = __import__("sys").modules[method("irm").__module__]
    logits = torch.randn(7, 4, dtype=torch.double, generator=torch.Generator().manual_seed(0))
    y = torch.tensor([0, 1, 2, 3, 0, 1, 2])
    scale = torch.ones((), dtype=torch.double, requires_grad=True)
    (expected,) = torch.autograd.grad(F.cross_entropy(scale * logits, y), scale)
    assert irm.scale_gradient(logits, y).item() == pytest.approx(expected.item())


def test_irm_s_penalty_is_what_even_rows_say_times_what_odd_rows_say():
    """Two independent estimates of a derivative in each environment, whose product may be below 0."""
    irm = __import__("sys").modules[method("irm").__module__]
    logits = torch.randn(10, 4, dtype=torch.double, generator=torch.Generator().manual_seed(2))
    y = torch.arange(10) % 4

    def slope(rows):
        scale = torch.ones((), dtype=torch.double, requires_grad=True)
        return torch.autograd.grad(F.cross_entropy(scale * logits[rows], y[rows]), scale)[0].item()

    risk, penalty = irm.risk_and_penalty(logits, y, 2)
    own = [slope([0, 2, 4]) * slope([1, 3]), slope([5, 7, 9]) * slope([6, 8])]
    assert penalty.item() == pytest.approx(sum(own) / 2) and min(own) < 0
    assert risk.item() == pytest.approx(F.cross_entropy(logits, y).item())


@pytest.mark.parametrize("count", [2, 4])
def test_vrex_adds_the_variance_over_the_environments_at_hand(count):
    logits, y = torch.randn(12, 3, generator=torch.Generator().manual_seed(0)), torch.arange(12) % 3
    loop = SimpleNamespace(step=60, steps_in_all=100, record=lambda **_: None)
    loss = method("vrex")(penalty=7.0, warmup=10).loss_across(lambda x: x, Batch(logits, y, None, None), count, loop)
    probabilities = np.exp(logits.double().numpy())
    costs = -np.log(probabilities[range(12), y] / probabilities.sum(axis=1)).reshape(count, -1).mean(axis=1)
    assert loss.item() == pytest.approx(costs.mean() + 7 * ((costs - costs.mean()) ** 2).sum() / count, rel=1e-5)


@pytest.mark.parametrize(
    ("step", "expected"), [(0, (1.0, False)), (9, (1.0, False)), (10, (7.0, True)), (11, (7.0, False))]
)
def test_the_penalty_is_one_while_warming_up_and_the_optimiser_restarts_once(step, expected):
    from oodbench.learning.functional import penalty_weight

    assert penalty_weight(step, 1000, 10, 7.0) == expected
    assert penalty_weight(step, 20, 500, 7.0) == expected  # half of a short training


@pytest.mark.parametrize(
    ("name", "optimizer", "penalty", "share"),
    [("irm", "adam", 50.0, 1 / 50), ("irm", "adam", 0.5, 1.0), ("irm", "sgd", 50.0, 1.0), ("vrex", "adam", 50.0, 1.0)],
)
def test_irm_divides_by_a_large_penalty_only_where_steps_do_not_change_by_it(
    name, optimizer, penalty, share, digits, erm_weights
):
    loaded, data, _ = digits
    recipe = loaded.contents.recipes.finetune.changed(epochs=2, optimizer=optimizer, lr=1e-4)
    model, loop = started(digits, erm_weights), Loop(recipe, derive(0, "train"), CPU)
    method(name)(penalty=penalty, warmup=1).train(model, data, loop)
    decay = loop._optimizer.param_groups[0]["weight_decay"]
    assert decay == pytest.approx(share * loop.recipe.weight_decay) and decay > 0
    if (name, optimizer) == ("irm", "adam"):  # the loss that is logged is divided as the decay is
        record = loop.log[-1]
        assert record["loss"] == pytest.approx(share * (record["risk"] + penalty * record["penalty"]), rel=1e-3)


def test_irm_under_sgd_never_pulls_against_the_risk():
    irm = __import__("sys").modules[method("irm").__module__]
    generator = torch.Generator().manual_seed(0)
    for _ in range(20):
        logits = (5 * torch.randn(12, 4, dtype=torch.double, generator=generator)).requires_grad_()
        y = torch.randint(4, (12,), generator=generator)
        risk, penalty = irm.risk_and_penalty(logits, y, 2)
        weight = irm.bounded_weight(100.0, risk, penalty, logits)
        of_risk, of_penalty = (torch.autograd.grad(each, logits, retain_graph=True)[0] for each in (risk, penalty))
        assert 0 < weight <= 100.0 and (weight * of_penalty).norm() <= of_risk.norm() * (1 + 1e-9)
        assert (of_risk * (of_risk + weight * of_penalty)).sum() >= -1e-12
    assert irm.bounded_weight(1e-9, risk, penalty, logits).item() == pytest.approx(1e-9)  # lambda, where that is small


# --- wrong values ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "values", "message"),
    [
        ("scone", {"margin": 1.0}, "scone.margin=1 is positive; the margin is 0 or negative, for example -10"),
        ("scone", {"threshold": "test"}, "serves only scone.margin=auto"),
        ("scone", {"alarms": 0.0}, "alarms must lie in"),
        (
            "scone",
            {"margin": "much"},
            "scone.margin=much is not a margin; give a number like -10, a multiple like 0.9x, or",
        ),
        ("scone", {"every": 0}, "scone.every=0 is out of range; choose 1 or more"),
        ("woods", {"checked": 0}, "woods.checked=0 is out of range; choose 1 or more"),
        ("woods", {"start": 0.0}, "woods.start=0 must be above 0 and needs form=paper; change it or leave it out"),
        ("scone", {"start": 0.5, "form": "reference"}, "scone.start=0.5 must be above 0 and needs form=paper"),
        ("scone", {"head_lr": 0.01}, "scone.head_lr=0.01: it is above 0 and serves only form=reference"),
        ("oe", {"weight": -1.0}, "choose 0 or more"),
        ("energy-oe", {"form": "logistic", "m_in": -20.0}, "has no m_in and m_out"),
        ("mixup", {"alpha": 0.0}, "choose more than 0"),
    ],
)
def test_values_that_make_no_sense_are_refused_in_one_line(name, values, message):
    with pytest.raises(UserError, match=message.replace("(", r"\(")):
        method(name)(**values)


@pytest.mark.slow
def test_a_penalty_weight_without_its_bound_diverges_and_with_it_does_not(digits, erm_weights):
    with pytest.raises(Failed, match="the loss became (nan|inf) at step"):
        finetuned(digits, erm_weights, "scone", epochs=60, margin=-50.0, start=0.974, bound=1e12)
    _, loop = finetuned(digits, erm_weights, "scone", epochs=60, margin=-50.0, start=0.974)
    assert all(math.isfinite(value) for record in loop.log for value in record.values())


@pytest.mark.slow
def test_on_real_digits_wild_data_buy_detection_and_scone_pays_no_accuracy_for_it(tmp_path):
    """The paper's Table 1 on a fifth of its images: MNIST, dotted lines, FashionMNIST."""
    import oodbench
    from oodbench.data import store

    if store.entry("mnist") is None or store.entry("fashion-mnist") is None:
        pytest.skip("the data is not here; get it with: oodbench data get mnist-c")
    found = oodbench.run("mnist-c", methods="erm,woods,scone", preset="smoke", results=tmp_path)
    erm, woods, scone = ({r.method: r.metrics for r in found}[name] for name in ("erm", "woods", "scone"))
    assert scone["covariate_acc"] > max(erm["covariate_acc"] - 0.01, woods["covariate_acc"] - 0.005)
    assert min(woods["id_acc"], scone["id_acc"]) > erm["id_acc"] - 0.015
    assert scone["fpr95"] < 0.01 and woods["fpr95"] < 0.04 < 0.4 < erm["fpr95"]
