"""Nothing is made, moved or waited for on the wrong device: shown on a machine that has only a CPU.

Fake CUDA tensors would not do: in a torch without CUDA the process ends as soon as one of them has a gradient. The
device of the contract tests plays the part instead. It refuses tensors from elsewhere as CUDA does, and has values to
compare. Here it also tells what would make the CPU wait for a GPU.
"""

import ast
import dataclasses
from typing import get_args, get_type_hints

import pytest
import torch
from test_method_contract import CARDS, SCORERS, TRAINERS, subject_of
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

from oodbench.config.cards import PACKAGE, folder
from oodbench.config.recipe import Recipe
from oodbench.errors import UserError
from oodbench.learning.batches import Data, Split
from oodbench.learning.method import Loop, Trainer
from oodbench.learning.rows import Streamed
from oodbench.testing.contract import subjects
from oodbench.testing.scorer_rules import moved, scores_of
from oodbench.testing.simulated_device import AWAY as DEVICE
from oodbench.testing.simulated_device import AwayTensor, Literals, Operators
from oodbench.testing.toy_problem import toy

CPU = torch.device("cpu")
ROOM = 2**30  # bytes
aten = torch.ops.aten
READS = {  # operations whose size or value the CPU must know before it can go on
    aten._local_scalar_dense.default, aten.nonzero.default, aten._unique2.default, aten.unique_dim.default,
    aten.masked_select.default, aten.bincount.default, aten.equal.default, aten.repeat_interleave.Tensor,
}  # fmt: skip


class Watch(TorchDispatchMode):
    """While it is on, notes what would make the CPU wait until the device has done all it was given."""

    def __init__(self):
        super().__init__()
        self.on, self.waits = False, set()

    def __torch_dispatch__(self, operator, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        if self.on and (kind := self.wait(operator, args, kwargs)):
            self.waits.add(f"{kind} by {operator.overloadpacket.__name__}")
        return operator(*args, **kwargs)

    def wait(self, operator, args, kwargs):
        away = bool(args) and isinstance(args[0], AwayTensor)
        if operator in READS and away:
            return "reads"
        if operator in (aten.index.Tensor, aten.index_put_.default, aten.index_put.default) and away:
            indices = [index for index in args[1] if index is not None]
            if any(index.dtype == torch.bool for index in indices):
                return "reads"
            return "sends" if any(not isinstance(index, AwayTensor) for index in indices) else None
        if operator is aten._to_copy.default and kwargs.get("device") is not None:
            there = torch.device(kwargs["device"]) == DEVICE
            if away and not there:
                return "reads"
            return "sends" if there and not away and not kwargs.get("non_blocking") else None
        if operator is aten.copy_.default and away != isinstance(args[1], AwayTensor):
            return "sends" if away else "reads"
        return None


class _NoInferenceMode(TorchFunctionMode):
    """In which torch can make no views of tensors that wrap others; without gradients it computes the same."""

    def __torch_function__(self, function, types, args=(), kwargs=None):
        if not torch.is_inference_mode_enabled():
            return function(*args, **(kwargs or {}))
        with torch.inference_mode(False), torch.no_grad():
            return function(*args, **(kwargs or {}))


@pytest.fixture
def watch():
    toy()  # made before, as it is
    with _NoInferenceMode(), Literals(), Operators(), Watch() as watching:
        yield watching


@dataclasses.dataclass(frozen=True)
class WatchedData(Data):
    """Watches from the first batch of an epoch to its last: all that is done at every step, by whomever."""

    watch: Watch | None = None

    def batches(self, *args, **kwargs):
        batches = super().batches(*args, **kwargs)
        first = next(batches)  # what an epoch begins with may wait
        self.watch.on = True
        try:
            yield first
            yield from batches
        finally:
            self.watch.on = False


def train(trainer, watch):
    """Two steps with network and data on the watched device."""
    data = WatchedData(**vars(toy().data_for(trainer).on(DEVICE, ROOM)), watch=watch)
    model = toy().start(trainer).to(DEVICE)
    recipe = toy().recipe(trainer, epochs=1, batch_size=100, augment="crop-flip")
    trainer.train(model, data, Loop(recipe, 0, DEVICE, oracle=toy().oracle_for(trainer)))
    return model


# Methods that wait at every step, and for what; each costs a GPU a little idle time and nothing else.
DRAWN = "sends a few random numbers that the CPU has drawn"
TURNS = "counts the rows of the largest class of a batch"
WAITS = {
    "coral": ("torch.cov looks at its divisor", {"reads by equal"}),
    "mixup": (DRAWN, {"sends by _to_copy"}),
    "i-mixup": (DRAWN, {"sends by _to_copy", "sends by index"}),
    "sagnet": (DRAWN, {"sends by _to_copy"}),
    "mtl,embedding=published_noise": (DRAWN, {"sends by _to_copy"}),
    "cider": (TURNS, {"reads by _local_scalar_dense"}),
    "hypo": (TURNS, {"reads by _local_scalar_dense"}),
    "vos": (DRAWN, {"sends by _to_copy"}),
    "divoe": (DRAWN, {"sends by _to_copy"}),
    "diversemix": ("draws, on the CPU, from what energies say", {"reads by _to_copy", "sends by _to_copy"}),
}


@pytest.mark.parametrize(
    ("name", "values"),
    [
        pytest.param(name, each.values, id=each.label)
        for name in TRAINERS
        for each in subjects(CARDS[name], object, "modes")
    ],
)
def test_a_training_step_stays_on_its_device_and_waits_for_nothing(name, values, watch, request):
    try:
        trainer = subject_of(name, **values).make()
    except UserError as refusal:
        pytest.skip(f"refused with the other defaults: {refusal}")
    if trainer.runs > 1:
        pytest.skip("the same steps several times")
    model = train(trainer, watch)
    assert all(isinstance(p, AwayTensor) for p in model.parameters())
    case = request.node.callspec.id
    assert watch.waits == (WAITS.get(case) or WAITS.get(name) or ("", set()))[1]


class Careless(Trainer):
    """Makes a tensor without saying where."""

    def loss(self, model, batch):
        return super().loss(model, batch) + torch.zeros(3).sum() + (batch.y + torch.zeros(len(batch))).sum()


class Curious(Trainer):
    """Looks at its loss at every step, and at the rows of one class."""

    def loss(self, model, batch):
        value = super().loss(model, batch)
        return value / value.item() + batch.x[batch.y == 1].mean()


class Homesick(Trainer):
    """Computes its loss at home."""

    def loss(self, model, batch):
        return model(batch.x).cpu().square().mean()


def test_a_trainer_that_forgets_the_device_is_caught(watch):
    with pytest.raises(RuntimeError, match="tensors on meta and on cpu"):
        train(Careless(), watch)


@pytest.mark.parametrize(
    ("trainer", "waits"),
    [(Curious(), {"reads by _local_scalar_dense", "reads by index"}), (Homesick(), {"reads by _to_copy"})],
)
def test_a_trainer_that_waits_for_the_device_is_caught(trainer, waits, watch):
    train(trainer, watch)
    assert waits <= watch.waits


@pytest.mark.parametrize("name", SCORERS)
def test_a_scorer_stays_on_the_device_of_the_outputs(name, train_outputs, unseen_outputs, watch):
    subject = subject_of(name)
    train, unseen = (subject.reading(moved(out, DEVICE)) for out in (train_outputs, unseen_outputs))
    scores = scores_of(subject.fitted(train, train), unseen)
    assert isinstance(scores, AwayTensor) and scores.shape == (60,)


def batches(data, device, augment):
    recipe = Recipe(epochs=1, batch_size=50, lr=0.1, augment=augment)
    return list(data.batches(recipe, 3, device))


@pytest.mark.parametrize(
    ("augment", "environments"),
    [(kind, None) for kind in get_args(get_type_hints(Recipe)["augment"])]
    + [("crop-flip", spec) for spec in ("native", "random:3", "augment")],
)
def test_batches_made_on_the_device_are_those_made_on_the_cpu_to_the_bit(augment, environments, toy_data, watch):
    split = toy_data.labelled
    env = None if environments is None else split.env
    images = split.images.repeat(1, 3, 1, 1)  # in color, for what changes colors
    plain = dataclasses.replace(toy_data, labelled=Split(images, split.y, env))
    there = WatchedData(**vars(plain.on(DEVICE, ROOM)), watch=watch)
    if environments:
        plain, there = (data.with_environments(environments, seed=5) for data in (plain, there))
    pairs = list(zip(batches(plain, CPU, augment), batches(there, DEVICE, augment), strict=True))
    assert len(pairs) == 4
    for here, sent in pairs:
        for key, value in vars(sent).items():
            absent = key in ("views", "wild_views") or (key == "env" and environments is None)
            assert (value is None) == (getattr(here, key) is None) == absent
            assert value is None or isinstance(value, AwayTensor)
            assert value is None or torch.equal(value.home, getattr(here, key))
    assert watch.waits == set()


class Pictures:
    """Images that are decoded when they are read."""

    def __init__(self, images):
        self.images = images.numpy()

    def __len__(self):
        return len(self.images)

    def __getitem__(self, rows):
        return self.images[rows]


def assert_same_batches(there, here):
    """Without the thread that decodes ahead, in which the device of the tests is not known."""
    recipe = Recipe(epochs=1, batch_size=30, lr=0.1)
    pairs = zip(
        there._batches(recipe, there.steps(recipe), torch.Generator().manual_seed(3), DEVICE, epoch=0),
        here.batches(recipe, 3, CPU),
        strict=True,
    )
    for sent, expected in pairs:
        assert torch.equal(sent.x.home, expected.x) and torch.equal(sent.wild.home, expected.wild)


def test_streamed_images_stay_and_the_others_are_sent_beside_them(toy_data, watch):
    wild = dataclasses.replace(toy_data.wild, semantic=Streamed(Pictures(toy_data.wild.semantic)))
    streamed = dataclasses.replace(toy_data, wild=wild)
    there = streamed.on(DEVICE, ROOM)
    assert there.labelled.images.device == there.labelled.y.device == DEVICE
    assert there.wild is wild
    assert_same_batches(there, toy_data)
    labelled = dataclasses.replace(toy_data.labelled, images=Streamed(Pictures(toy_data.labelled.images)))
    there = dataclasses.replace(toy_data, labelled=labelled).on(DEVICE, ROOM)
    assert there.labelled is labelled and there.wild.id.device == DEVICE
    assert_same_batches(there, toy_data)


def test_images_are_moved_only_if_all_of_them_fit(toy_data, watch):
    images = 200 + 100 + 100 + 60  # labeled, and three kinds of wild ones
    size = images * 8 * 8 + 2 * 8 * 200  # bytes, with labels and environments
    assert toy_data.on(DEVICE, size) is toy_data
    assert toy_data.on(DEVICE, size + 1).wild.covariate.device == DEVICE
    assert toy_data.on(DEVICE, size + 1).id_validation.device == CPU
    assert toy_data.on(CPU, 0) is toy_data


# Where a tensor is made without a device, although steps run there, and why that is right.
ON_THE_CPU = {
    "rows.Streamed.split": "rows to decode",
    "augmentation._jittered": "made with the draws beside it, then sent",
    "batches.WildMixture._counts": "how many images of each kind: numbers that the CPU needs",
    "augmentation._resized_crops": "made with the draws beside it, then sent",
    "environments._erased": "made with the draws beside it, then sent",
    "mixup.Mixup.loss": "drawn on the CPU, then sent",
    "i_mixup.IMixup.loss_across": "drawn on the CPU, then sent",
    "aha.AHA.boundary": "one image to ask for: a number that the CPU needs",
    "aha.AHA.ask_around": "images to ask for: numbers that the CPU needs",
    "aha.AHA.train.loss": "drawn on the CPU, then sent",
    "vos.least_likely": "drawn on the CPU, then sent",
    "mldg.MLDG.draw": "numbers that the CPU needs",
    "mtl.MTL.train_across.loss": "drawn on the CPU, then sent",
    "sagnet.style_randomised": "drawn on the CPU, then sent",
    "sagnet.content_randomised": "drawn on the CPU, then sent",
    "mixoe._cut": "numbers that the CPU needs",
    "divoe.DivOE.loss": "drawn on the CPU, then sent",
    "diversemix.DiverseMix.loss": "drawn on the CPU, then sent",
}
MAKERS = {"tensor", "zeros", "ones", "empty", "arange", "full", "eye", "linspace", "rand", "randn", "randint"}
MAKERS |= {"randperm"}
HOT = [
    *sorted(folder("methods").glob("*.py")),
    *sorted((PACKAGE / "learning" / "networks").glob("*.py")),
    *(
        PACKAGE / "learning" / f"{name}.py"
        for name in (
            "rows",
            "batches",
            "augmentation",
            "environments",
            "functional",
            "outputs",
            "loop",
            "precision",
            "prototypes",
            "tuning",
        )
    ),
]


def made_without_a_device(tree, module):
    """Where tensors are made that name neither a device nor a generator, which is the CPU's.

    The first weights and buffers of a module are moved with it.
    """
    found = []

    def visit(node, place, moves):
        for child in ast.iter_child_nodes(node):
            inside, child_moves = place, moves
            if isinstance(child, ast.ClassDef | ast.FunctionDef):
                inside = [*place, child.name]
                if isinstance(child, ast.ClassDef):
                    child_moves = any(ast.unparse(base) == "nn.Module" for base in child.bases)
            if isinstance(child, ast.Call) and isinstance(child.func, ast.Attribute) and child.func.attr in MAKERS:
                given = {keyword.arg for keyword in child.keywords}
                of_torch = ast.unparse(child.func.value) == "torch"
                if of_torch and not given & {"device", "generator"} and not (moves and place[-1] == "__init__"):
                    found.append(".".join([module, *place]))
            visit(child, inside, child_moves)

    visit(tree, [], False)
    return found


def test_every_tensor_of_a_step_says_where_it_is_made():
    found = {place for path in HOT for place in made_without_a_device(ast.parse(path.read_text()), path.stem)}
    assert found == set(ON_THE_CPU)


def test_a_tensor_that_does_not_say_where_is_noticed():
    code = """
class Layer(nn.Module):
    def __init__(self):
        self.b = torch.zeros(3)
    def forward(self, x):
        return x + torch.ones(3, device=x.device) + torch.arange(3)
class Method:
    def __init__(self):
        self.rows = torch.randperm(3), torch.randperm(3, generator=g)
"""
    assert made_without_a_device(ast.parse(code), "m") == ["m.Layer.forward", "m.Method.__init__"]
