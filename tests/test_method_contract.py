"""What every method promises, asked of whatever is registered: a new file in `methods/` is tested as it stands."""

import copy
import dataclasses
import inspect
import re
import types
from collections.abc import Callable
from contextlib import contextmanager
from functools import cache, cached_property
from typing import Literal, Union, get_args, get_origin, get_type_hints

import pytest
import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map

from oodbench.cards import load_class
from oodbench.data import Data, Split
from oodbench.errors import UserError
from oodbench.method import Loop, Outputs, Scorer, Trainer
from oodbench.outputs import forward
from oodbench.recipe import Recipe
from oodbench.registry import DEFAULT_SCORER, Registry

CARDS = {name: card for name, card in Registry().cards.items() if card.module.startswith("oodbench.methods.")}
SCORERS = [name for name, card in CARDS.items() if card.kind == "Scorer"]
TRAINERS = [name for name, card in CARDS.items() if card.kind == "Trainer"]
CPU = torch.device("cpu")


def other_values(type_, default):
    """Values of a type that are not the default, the likeliest to be accepted first."""
    origin, args = get_origin(type_), get_args(type_)
    if origin in (Union, types.UnionType):
        found = [value for option in args for value in other_values(option, default)]
    elif origin is Literal:
        found = list(args)
    elif origin is list:
        found = [[other_values(args[0], item)[0] for item in default], default[:-1]]
    elif type_ is bool:
        found = [not default]
    elif type_ is float:
        known = isinstance(default, float) and default != 0
        found = [2 * default, default / 2, default / 100, default + 1, 0.0] if known else [0.01, 1.0]
    elif type_ is int:
        found = [default + 1, 2 * default, default // 2, 1, 0] if isinstance(default, int) else [2, 3]
    elif type_ is str:
        found = [re.sub(r"\d+", lambda number: str(int(number[0]) + 1), default), "random:3"]  # environments
    else:
        found = []
    return [value for value in found if value != default]


def cases(names, only_modes=False):
    """Each method with its defaults, then with one hyperparameter changed at a time, or only those that name a mode."""
    for name in names:
        yield pytest.param(name, {}, id=name)
        for p in CARDS[name].parameters.values():
            others = other_values(p.type, p.default)
            for value in [value for value in others if isinstance(value, str) or not only_modes][:1]:
                yield pytest.param(name, {p.name: value}, id=f"{name},{p.name}={value}")


def hyperparameters(names):
    return [pytest.param(name, key, id=f"{name}.{key}") for name in names for key in CARDS[name].parameters]


every_method = pytest.mark.parametrize("name", CARDS)
every_case = pytest.mark.parametrize(("name", "values"), list(cases(CARDS)))
every_scorer_case = pytest.mark.parametrize(("name", "values"), list(cases(SCORERS)))
every_trainer = pytest.mark.parametrize("name", TRAINERS)
every_trainer_mode = pytest.mark.parametrize(("name", "values"), list(cases(TRAINERS, only_modes=True)))
DEFAULTS = types.MappingProxyType({})


@contextmanager
def refusals_skip(values):
    """A changed value may not go with the other defaults, and a method may say so."""
    try:
        yield
    except UserError as refusal:
        if not values:
            raise
        pytest.skip(f"refused: {refusal}")


def make(name, values=DEFAULTS):
    with refusals_skip(values):
        return load_class(CARDS[name])(**values)


def fitted(name, values, train):
    with refusals_skip(values), torch.no_grad():
        scorer = make(name, values)
        scorer.fit(train)
        return scorer


def scores_of(scorer, out):
    """As a run asks for them."""
    with torch.no_grad():
        return scorer.score(out)


def rows_of(out: Outputs, rows) -> Outputs:
    return Outputs(out.model, out.images[rows], out.features[rows], out.logits[rows])


def assert_same_scores(got: Tensor, expected: Tensor, tolerance=1e-4):
    """To a small part of the spread of the scores, the unit in which a difference could matter."""
    assert got.shape == expected.shape
    assert (got - expected).abs().max() <= tolerance * expected.std()


@pytest.fixture
def many_outputs(train_outputs, unseen_outputs):
    """260 rows, more than any scorer takes at once."""
    both = train_outputs, unseen_outputs
    images, features, logits = (torch.cat([getattr(o, k) for o in both]) for k in ("images", "features", "logits"))
    return Outputs(unseen_outputs.model, images, features, logits)


@every_scorer_case
def test_scores_are_one_finite_number_per_row(name, values, train_outputs, unseen_outputs):
    scores = scores_of(fitted(name, values, train_outputs), unseen_outputs)
    assert scores.shape == (60,)
    assert scores.is_floating_point() and scores.isfinite().all()
    assert scores.std() > 0


@every_scorer_case
def test_scores_do_not_depend_on_the_batch_or_the_row_order(name, values, train_outputs, many_outputs):
    scorer = fitted(name, values, train_outputs)
    scores = scores_of(scorer, many_outputs)
    order = torch.randperm(len(scores), generator=torch.Generator().manual_seed(0))
    assert_same_scores(scores_of(scorer, rows_of(many_outputs, order)), scores[order])
    for size in (7, 100):
        chunks = [scores_of(scorer, rows_of(many_outputs, rows)) for rows in order.split(size)]
        assert_same_scores(torch.cat(chunks), scores[order])
    one_by_one = [scores_of(scorer, rows_of(many_outputs, slice(i, i + 1))) for i in range(180, 240)]
    assert_same_scores(torch.cat(one_by_one), scores[180:240])


@every_scorer_case
def test_scoring_and_fitting_again_give_the_same_scores(name, values, train_outputs, unseen_outputs):
    scorer = fitted(name, values, train_outputs)
    scores = scores_of(scorer, unseen_outputs)
    assert torch.equal(scores_of(scorer, unseen_outputs), scores)
    scorer.fit(train_outputs)
    assert torch.equal(scores_of(scorer, unseen_outputs), scores)
    assert torch.equal(scores_of(fitted(name, values, train_outputs), unseen_outputs), scores)


@every_scorer_case
def test_a_new_fit_forgets_the_last_one(name, values, train_outputs, unseen_outputs):
    half = dataclasses.replace(rows_of(train_outputs, slice(100)), y=train_outputs.y[:100])
    scorer = fitted(name, values, half)
    with torch.no_grad():
        scorer.fit(train_outputs)
    expected = scores_of(fitted(name, values, train_outputs), unseen_outputs)
    assert torch.equal(scores_of(scorer, unseen_outputs), expected)


def state(out: Outputs):
    """Everything a scorer could change: tensors copied, switches as they are."""
    model = out.model
    tensors = {**dict(model.named_parameters()), **dict(model.named_buffers())}
    tensors |= {key: getattr(out, key) for key in ("images", "features", "logits", "y")}
    switches = [module.training for module in model.modules()]
    switches += [(p.requires_grad, p.grad is None) for p in model.parameters()]
    return {key: None if t is None else t.clone() for key, t in tensors.items()}, switches


def same_state(a, b):
    return a[1] == b[1] and all(a[0][k] is b[0][k] is None or torch.equal(a[0][k], b[0][k]) for k in a[0] | b[0])


@every_scorer_case
def test_fitting_and_scoring_change_neither_the_model_nor_the_outputs(name, values, train_outputs, unseen_outputs):
    before = state(train_outputs), state(unseen_outputs)
    scores_of(fitted(name, values, train_outputs), unseen_outputs)
    assert same_state(state(train_outputs), before[0])
    assert same_state(state(unseen_outputs), before[1])
    assert not any(module.training for module in unseen_outputs.model.modules())


@every_scorer_case
def test_scores_are_the_same_with_and_without_gradients(name, values, train_outputs, unseen_outputs):
    assert train_outputs.features.is_inference() and unseen_outputs.logits.is_inference()
    scorer = fitted(name, values, train_outputs)
    without = scores_of(scorer, unseen_outputs)
    scorer = make(name, values)
    with torch.enable_grad():
        scorer.fit(train_outputs)
        scores = scorer.score(unseen_outputs)
    assert torch.equal(scores.detach(), without)
    assert not without.requires_grad


@every_scorer_case
def test_scorers_never_read_labels_when_scoring(name, values, train_outputs, unseen_outputs):
    scorer = fitted(name, values, train_outputs)
    assert unseen_outputs.y is None
    scores = scores_of(scorer, unseen_outputs)
    labelled = dataclasses.replace(unseen_outputs, y=torch.arange(60) % 5)
    assert torch.equal(scores_of(scorer, labelled), scores)


# A device that this machine does not have, played by the CPU: its tensors say they are on AWAY (which torch knows and
# which needs no hardware), hold their values at home, and refuse to meet tensors from home, as CUDA's would. Unlike on
# the meta device there are values, so methods may look at them, and results can be compared.
AWAY = torch.device("meta")


class AwayTensor(torch.Tensor):
    @staticmethod
    def __new__(cls, home):
        sizes = {"strides": home.stride(), "dtype": home.dtype, "device": AWAY}
        return torch.Tensor._make_wrapper_subclass(cls, home.size(), **sizes)

    def __init__(self, home):
        self.home = home

    @classmethod
    def __torch_dispatch__(cls, operator, types, args=(), kwargs=None):
        return played(operator, args, kwargs or {})


def played(operator, args, kwargs):
    tensors = [leaf for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, Tensor)]
    away = {id(t.home): t for t in tensors if isinstance(t, AwayTensor)}
    guests = [t for t in tensors if not isinstance(t, AwayTensor) and t.ndim > 0]  # one number may travel
    crosses = operator in (torch.ops.aten._to_copy.default, torch.ops.aten.copy_.default)
    if operator in (torch.ops.aten.index.Tensor, torch.ops.aten.index_put_.default) and isinstance(args[0], AwayTensor):
        guests = [t for t in guests if all(t is not index for index in args[1])]  # rows may be chosen from home
    if away and guests and not crosses:
        raise RuntimeError(f"{operator} was given tensors on {AWAY} and on {guests[0].device}")
    if kwargs.get("device") is not None:
        is_away, kwargs = torch.device(kwargs["device"]) == AWAY, {**kwargs, "device": CPU}
    else:
        is_away = isinstance(args[0], AwayTensor) if operator is torch.ops.aten.copy_.default else bool(away)
    args, kwargs = tree_map(lambda t: t.home if isinstance(t, AwayTensor) else t, (args, kwargs))
    results = operator(*args, **kwargs)
    if not is_away:
        return results

    def sent(result):
        if id(result) in away:  # changed in place: still the tensor it was
            return away[id(result)]
        return AwayTensor(result) if isinstance(result, Tensor) else result

    return tree_map(sent, results)


class _Operators(TorchDispatchMode):
    def __torch_dispatch__(self, operator, types, args=(), kwargs=None):
        return played(operator, args, kwargs or {})


class _Literals(TorchFunctionMode):
    """torch.tensor(values, device=AWAY) would lose the values before any operator sees them."""

    def __torch_function__(self, function, types, args=(), kwargs=None):
        kwargs = dict(kwargs or {})
        if function in (torch.tensor, torch.as_tensor):
            device = kwargs.pop("device", None)
            made = function(*args, **kwargs)
            return made if device is None else made.to(device)
        if function is Tensor.new_tensor:
            return torch.tensor(args[1], dtype=kwargs.get("dtype", args[0].dtype)).to(args[0].device)
        return function(*args, **kwargs)


@pytest.fixture
def away():
    with _Literals(), _Operators():
        yield AWAY


def moved(out: Outputs, device) -> Outputs:
    """On a device as a run has it there: the images stay at home."""
    model = copy.deepcopy(out.model).to(device)
    features, logits, y = (None if t is None else t.clone().to(device) for t in (out.features, out.logits, out.y))
    return Outputs(model, out.images, features, logits, y)


class Careless(Scorer):
    """Makes a tensor without saying where."""

    def score(self, out):
        return out.logits.amax(dim=-1) + torch.zeros(len(out.logits))


class Homesick(Scorer):
    """Brings its scores home."""

    def score(self, out):
        return out.logits.amax(dim=-1).cpu()


def test_a_scorer_that_leaves_its_device_is_caught(unseen_outputs, away):
    out = moved(unseen_outputs, away)
    with pytest.raises(RuntimeError, match="tensors on meta and on cpu"):
        Careless().score(out)
    assert Homesick().score(out).device == CPU


@every_scorer_case
def test_scorers_work_on_whatever_device_the_tensors_are(name, values, train_outputs, unseen_outputs, away):
    scores = scores_of(fitted(name, values, moved(train_outputs, away)), moved(unseen_outputs, away))
    assert isinstance(scores, AwayTensor) and scores.device == away
    expected = scores_of(fitted(name, values, train_outputs), unseen_outputs)
    assert_same_scores(scores.home, expected)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@every_scorer_case
def test_scorers_give_the_same_scores_on_cuda(name, values, train_outputs, unseen_outputs):
    cuda = torch.device("cuda")
    scores = scores_of(fitted(name, values, moved(train_outputs, cuda)), moved(unseen_outputs, cuda))
    assert scores.device.type == "cuda"
    expected = scores_of(fitted(name, values, train_outputs), unseen_outputs)
    assert_same_scores(scores.cpu(), expected, tolerance=1e-2)


def another_value_matters(name, key, default, outcome, differs, beside=DEFAULTS):
    """Whether some other value of a hyperparameter changes the outcome; skips if the method refuses them all."""
    parameter, refusal, accepted = CARDS[name].parameters[key], None, False
    for value in other_values(parameter.type, parameter.default):
        try:
            other = outcome(load_class(CARDS[name])(**{**beside, key: value}))
        except UserError as error:
            refusal = error
            continue
        accepted = True
        if differs(other, default):
            return True
    return False if accepted or refusal is None else pytest.skip(f"refused: {refusal}")


@pytest.mark.parametrize(("name", "key"), hyperparameters(SCORERS))
def test_every_hyperparameter_of_a_scorer_changes_its_scores(name, key, train_outputs, unseen_outputs):
    def outcome(scorer):
        scorer.fit(train_outputs)
        return scores_of(scorer, unseen_outputs)

    def differs(scores, default):
        return (scores - default).abs().max() > 1e-3 * default.std()

    assert another_value_matters(name, key, outcome(make(name)), outcome, differs)


@every_case
def test_a_method_reads_back_from_its_repr(name, values):
    method = make(name, values)
    assert eval(repr(method), {type(method).__name__: type(method)}) == method
    assert all(getattr(method, key) == value for key, value in values.items())


@every_method
def test_a_new_method_holds_nothing_but_its_hyperparameters(name):
    assert set(vars(make(name))) == set(CARDS[name].parameters)


@every_scorer_case
def test_what_is_learnt_does_not_show_in_the_repr(name, values, train_outputs, unseen_outputs):
    scorer = fitted(name, values, train_outputs)
    scores_of(scorer, unseen_outputs)
    assert repr(scorer) == repr(make(name, values))


@every_method
def test_the_card_read_from_the_source_agrees_with_the_class(name):
    card, cls = CARDS[name], load_class(CARDS[name])
    base = {"Trainer": Trainer, "Scorer": Scorer}[card.kind]
    assert issubclass(cls, base) and dataclasses.is_dataclass(cls)
    hints = get_type_hints(cls)
    fields = {field.name: (hints[field.name], field.default) for field in dataclasses.fields(cls)}
    assert {key: (p.type, p.default) for key, p in card.parameters.items()} == fields
    assert list(card.parameters) == list(inspect.signature(cls).parameters)
    if card.kind == "Trainer":
        said = (card.needs, card.scorer or DEFAULT_SCORER, card.starts_from, card.search)
        assert said == (cls.needs, cls.scorer, cls.starts_from, cls.search)
    assert card.summary == inspect.cleandoc(cls.__doc__).splitlines()[0]
    assert card.paper == inspect.cleandoc(inspect.getmodule(cls).__doc__)


@every_method
def test_every_method_file_names_its_paper_and_describes_its_class(name):
    card = CARDS[name]
    paper = " ".join(card.paper.split())
    assert re.search(r"\b[A-Z]\. \S+( et al\.| and .+?)?, .+, .*\b(19|20)\d\d\b", paper), (
        "'A. Author, Title, Venue year'"
    )
    assert card.summary != "(no description)" and card.summary.endswith(".")


@every_method
def test_every_method_file_has_at_most_a_hundred_lines(name):
    assert len(CARDS[name].path.read_text().splitlines()) <= 140


@every_trainer
def test_every_trainer_names_a_scorer_a_start_and_needs_that_exist(name):
    cls = load_class(CARDS[name])
    assert cls.needs <= {"wild", "environments"}
    assert cls.scorer in SCORERS
    assert cls.starts_from is None or cls.starts_from in TRAINERS and cls.starts_from != name


NOTHING_LEARNT = {"bn-adapt"}  # on purpose: a control that takes no step
TRANSDUCTIVE = {"arm", "mtl"}  # on purpose: a prediction depends on the images that come with an image
BESIDE = {("mldg", "n_meta_test"): {"environments": "random:3"}}  # of two environments, one is always tested on
EPOCHS = 3


class Interrupted(Exception):
    pass


@dataclasses.dataclass(frozen=True)
class FailingData(Data):
    """Gives a number of epochs, then stops as a machine does that is switched off."""

    limit: int = 0
    epochs: list = dataclasses.field(default_factory=list)

    def batches(self, *args, **kwargs):
        self.epochs.append(args)
        if len(self.epochs) > self.limit:
            raise Interrupted
        return super().batches(*args, **kwargs)


class WatchedLoop(Loop):
    """Keeps the loss of every step."""

    def passes(self, model, data, step, state):
        def watched(batch):
            loss = step(batch)
            self.notes.setdefault("losses", []).append(loss.item())
            return loss

        return super().passes(model, data, watched, state)


@dataclasses.dataclass
class Toy:
    """Trains a trainer on the toy problem as a run would."""

    data: Data
    new_model: Callable
    erm: dict[str, Tensor]  # its weights

    def start(self, name, trainer=None):
        """The network before training, with what the trainer adds to it."""
        model, parent = self.new_model(), load_class(CARDS[name]).starts_from
        if parent is not None:
            model.load_state_dict(self.erm if parent == "erm" else self.trained(parent)[0].state_dict())
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            (make(name) if trainer is None else trainer).extend(model)
        return model

    def data_for(self, trainer):
        """What a run lets the trainer read."""
        split = self.data.labelled
        labelled = split if "environments" in trainer.needs else Split(split.images, split.y)
        data = dataclasses.replace(self.data, labelled=labelled)
        return data if "wild" in trainer.needs else Data(labelled, data.num_classes)

    def recipe(self, name, **changes):
        """Gentle where weights are fine-tuned, and without weight decay: what moves has had a gradient."""
        lr = 0.05 if load_class(CARDS[name]).starts_from is None else 0.01
        return Recipe(**{"epochs": EPOCHS, "batch_size": 40, "lr": lr, "weight_decay": 0.0, **changes})

    def train(self, name, values=DEFAULTS, **options):
        """The trained network and the log."""
        return self.run(name, make(name, values), **options)

    def run(self, name, trainer, seed=0, device=CPU, checkpoint=None, fails_after=None, **changes):
        data = self.data_for(trainer)
        if fails_after is not None:
            fields = {field.name: getattr(data, field.name) for field in dataclasses.fields(Data)}
            data = FailingData(**fields, limit=fails_after)
        model = self.start(name, trainer).to(device)
        loop = Loop(self.recipe(name, **changes), seed, device, checkpoint)
        torch.manual_seed(seed)
        trainer.train(model, data, loop)
        return model, loop.log

    @cached_property
    def trained(self):
        """The same with the defaults, trained once."""
        return cache(lambda name: self.train(name))


@pytest.fixture(scope="module")
def toy(toy_data, new_model, toy_weights):
    return Toy(toy_data, new_model, toy_weights)


def same_weights(a: nn.Module, b: nn.Module):
    return all(torch.equal(p, q) for p, q in zip(a.state_dict().values(), b.state_dict().values(), strict=True))


@pytest.mark.parametrize("name", [name for name in TRAINERS if name not in NOTHING_LEARNT])
def test_the_loss_falls(name, toy):
    # Within one epoch, since some change their objective between epochs.
    trainer, model = make(name), toy.start(name)
    data = toy.data_for(trainer)
    images, y, env = (None if t is None else torch.cat([t] * 4) for t in dataclasses.astuple(data.labelled))
    data = dataclasses.replace(data, labelled=Split(images, y, env))
    loop = WatchedLoop(toy.recipe(name, epochs=1, schedule="constant"), 0, CPU)
    torch.manual_seed(0)
    trainer.train(model, data, loop)
    losses = loop.notes["losses"]
    assert len(losses) == 20
    assert sum(losses[-5:]) < sum(losses[:5])


@every_trainer
def test_every_trainable_parameter_moves_and_stays_finite(name, toy):
    before, (model, _) = toy.start(name), toy.trained(name)
    old = dict(before.named_parameters())
    still = [key for key, p in model.named_parameters() if p.requires_grad and torch.equal(p, old[key])]
    assert still == (list(old) if name in NOTHING_LEARNT else [])
    assert not same_weights(before, model)
    assert all(tensor.isfinite().all() for tensor in model.state_dict().values())
    assert [p.requires_grad for p in model.parameters()] == [p.requires_grad for p in before.parameters()]


@every_trainer
def test_the_same_seed_gives_the_same_weights_and_another_seed_others(name, toy):
    model, log = toy.trained(name)
    again, same_log = toy.train(name)
    assert same_weights(model, again) and log == same_log
    assert not same_weights(model, toy.train(name, seed=1)[0])


@every_trainer_mode
def test_a_training_resumed_from_its_checkpoint_ends_with_the_same_weights(name, values, toy, tmp_path):
    checkpoint = tmp_path / "half.ckpt"
    # Where several trainings follow one another, the second is interrupted.
    fails_after = EPOCHS - 1 if make(name, values).runs == 1 else 2 * EPOCHS - 1
    with pytest.raises(Interrupted):
        toy.train(name, values, checkpoint=checkpoint, fails_after=fails_after)
    assert any(tmp_path.iterdir())
    resumed, log = toy.train(name, values, checkpoint=checkpoint)
    model, whole_log = toy.train(name, values) if values else toy.trained(name)
    assert same_weights(resumed, model)
    assert log == whole_log


@every_trainer
def test_predictions_after_training_are_deterministic(name, toy):
    model = toy.trained(name)[0]
    assert not any(module.training for module in model.modules())
    images = toy.data.labelled.images
    first, again = forward(model, images), forward(model, images)
    assert torch.equal(first.logits, again.logits)
    in_small_batches = forward(model, images, size=7).logits
    same = torch.allclose(in_small_batches, first.logits, rtol=1e-4, atol=1e-5)
    assert same == (name not in TRANSDUCTIVE)


@every_trainer_mode
def test_trainers_work_on_whatever_device_the_model_is(name, values, toy, away):
    model, log = toy.train(name, values, device=away, epochs=1, batch_size=100)
    assert all(isinstance(p, AwayTensor) for p in model.parameters())
    expected = toy.train(name, values, epochs=1, batch_size=100)[1]
    assert log[-1]["loss"] == pytest.approx(expected[-1]["loss"], rel=1e-3)


@pytest.mark.parametrize(("name", "key"), hyperparameters(TRAINERS))
def test_every_hyperparameter_of_a_trainer_changes_its_weights(name, key, toy):
    def outcome(trainer):
        return toy.run(name, trainer)[0]

    def differs(model, default):
        return not same_weights(model, default)

    beside = BESIDE.get((name, key), DEFAULTS)
    default = toy.run(name, make(name, beside))[0] if beside else toy.trained(name)[0]
    assert another_value_matters(name, key, default, outcome, differs, beside)
