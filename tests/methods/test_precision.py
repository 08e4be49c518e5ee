"""What `--precision`, `--compile`, `--deterministic` and `--keep-outputs` do, and where they are refused."""

import json
from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F
from command_line import SUITE_FILE, assert_done, assert_refused, oodbench, smoke
from planned import plan_of
from test_method_contract import SCORERS, subject_of

from oodbench import load, read_results
from oodbench.config import suite as suites
from oodbench.config.registry import Registry
from oodbench.data.parts import build_parts
from oodbench.errors import UserError
from oodbench.learning import exchange, precision
from oodbench.learning.evaluation import Evaluation
from oodbench.learning.method import Loop
from oodbench.learning.networks import Classifier
from oodbench.learning.outputs import forward
from oodbench.learning.precision import Bfloat16Classifier
from oodbench.learning.without_images import as_evaluation
from oodbench.results.stored import read_scores
from oodbench.running.execution import keyed
from oodbench.testing.scorer_rules import scores_of
from oodbench.testing.toy_problem import Toy

CPU, CUDA = torch.device("cpu"), torch.device("cuda")


def in_bfloat16(model: Classifier) -> Classifier:
    """The same weights under the other arithmetic."""
    model.__class__ = Bfloat16Classifier
    return model


@pytest.fixture(scope="module")
def toy(toy_data, new_model, toy_weights):
    return Toy(toy_data, lambda: in_bfloat16(new_model()), toy_weights)


def test_in_bfloat16_features_and_logits_are_float32_and_near_those_of_float32(toy_model, toy_data):
    images = toy_data.labelled.images
    exact = forward(toy_model, images)
    rough = forward(in_bfloat16(toy_model), images)
    assert rough.features.dtype == rough.logits.dtype == torch.float32
    error = (rough.logits - exact.logits).abs().max() / exact.logits.abs().max()
    assert 1e-5 < error < 0.02  # 8 bits of mantissa: not the same, and near
    assert (rough.logits.argmax(1) == exact.logits.argmax(1)).float().mean() > 0.98


def test_the_head_of_a_bfloat16_network_computes_in_float32(toy_model, toy_data):
    out = forward(in_bfloat16(toy_model), toy_data.labelled.images)
    assert torch.equal(out.logits, F.linear(out.features, toy_model.head.weight, toy_model.head.bias))


def test_gradients_of_bfloat16_arrive_in_float32_and_point_the_same_way(new_model, toy_data):
    found = []
    for model in (new_model(), in_bfloat16(new_model())):
        x = (toy_data.labelled.images / 255).requires_grad_()
        F.cross_entropy(model.train()(x), toy_data.labelled.y).backward()
        found.append([x.grad, *(p.grad for p in model.parameters())])
    for exact, rough in zip(*found, strict=True):
        assert rough.dtype == torch.float32
        assert F.cosine_similarity(exact.flatten(), rough.flatten(), dim=0) > 0.95


# With one loss, with weights put in place of others, with a gradient of gradients, with outputs of whole splits.
@pytest.mark.parametrize(
    ("name", "values"), [("erm", {}), ("mldg", {}), ("dann", {"grad_penalty": 1.0}), ("scone", {})]
)
def test_a_bfloat16_network_learns_in_float32_weights(name, values, toy):
    trainer = subject_of(name, **values).make()
    model = toy.start(trainer)
    before = [p.clone() for p in model.state_dict().values()]
    loop = Loop(toy.recipe(trainer, epochs=1, batch_size=100), 0, CPU)
    torch.manual_seed(0)
    trainer.train(model, toy.data_for(trainer), loop)
    after = model.state_dict().values()
    assert any(not torch.equal(old, new) for old, new in zip(before, after, strict=True))
    assert all(tensor.isfinite().all() and tensor.dtype != torch.bfloat16 for tensor in after)


@pytest.mark.parametrize("name", SCORERS)
def test_every_scorer_scores_a_bfloat16_network(name, toy_model, toy_data):
    model = in_bfloat16(toy_model)
    model.ood_head = torch.nn.Linear(model.head.in_features, 1)  # for scorers that need one
    subject = subject_of(name)
    out = subject.reading(forward(model, toy_data.labelled.images, toy_data.labelled.y))
    scores = scores_of(subject.fitted(out, out), out)
    assert scores.isfinite().all() and scores.dtype in (torch.float32, torch.float64)


def test_precisions_that_the_cpu_does_not_have_are_refused_in_one_line(tmp_path, monkeypatch):
    for name in ("_is_avx512_bf16_supported", "_is_amx_tile_supported"):
        monkeypatch.setattr(torch.cpu, name, lambda: False)
    for more in ((), ("--dry-run",)):
        refused = smoke(tmp_path, "msp", "--device", "cpu", "--precision", "bf16", *more)
        assert_refused(refused, "the device 'cpu' has no bfloat16 arithmetic", "choose --precision fp32")
        refused = smoke(tmp_path, "msp", "--device", "cpu", "--precision", "tf32", *more)
        assert_refused(refused, "tf32 is arithmetic of CUDA devices, and this is 'cpu'; choose --precision fp32")
    assert_refused(smoke(tmp_path, "msp", "--precision", "bf61"), "unknown precision 'bf61'; did you mean 'bf16'?")
    assert list(tmp_path.rglob("*.json")) == []


@pytest.mark.parametrize("name", ["_is_avx512_bf16_supported", "_is_amx_tile_supported"])
def test_a_cpu_with_either_unit_may_compute_in_bfloat16(name, monkeypatch):
    monkeypatch.setattr(torch.cpu, name, lambda: True)
    precision.check("bf16", CPU)


@pytest.mark.parametrize("name", ["tf32", "bf16"])
def test_a_gpu_needs_the_units_for_tf32_and_bfloat16(name, monkeypatch):
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: "an old GPU")
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: (8, 0))
    precision.check(name, CUDA)
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: (7, 5))
    precision.check("fp32", CUDA)
    with pytest.raises(
        UserError, match=f"{name} needs a GPU of compute capability 8.0, and an old GPU has less; choose"
    ):
        precision.check(name, CUDA)


def keys(suite):
    plan = plan_of(suite, "scone,knn")
    return [cell.key for cell in plan.cells]


def test_the_precision_is_in_the_key():
    suite = suites.load("digits-c", "smoke")
    assert keys(suite.with_precision(None)) == keys(suite.with_precision("fp32")) == keys(suite)
    found = [key for name in ("fp32", "tf32", "bf16") for key in keys(suite.with_precision(name))]
    assert len(set(found)) == len(found)


def test_a_suite_or_a_preset_states_the_precision_and_the_flag_overrides_it(tmp_path):
    text = SUITE_FILE.read_text()
    path = tmp_path / "mine.yaml"
    path.write_text(f"precision: tf32\n{text}")
    assert suites.load(str(path)).contents.precision == "tf32"
    arguments = ["run", "--suite", path, "--methods", "msp", "--device", "cpu", "--results", tmp_path, "--dry-run"]
    assert_refused(oodbench(*arguments), "tf32 is arithmetic of CUDA devices")
    assert_done(oodbench(*arguments, "--precision", "fp32"))
    path.write_text(text.replace("\n  smoke:\n", "\n  smoke:\n    precision: bf16\n"))
    assert suites.load(str(path), "smoke").contents.precision == "bf16"
    path.write_text(f"precision: half\n{text}")
    with pytest.raises(UserError, match="mine.yaml:1: 'precision': "):
        suites.load(str(path))


def switches():
    cuda, cudnn = torch.backends.cuda, torch.backends.cudnn
    return (
        *(cuda.matmul.allow_tf32, cudnn.allow_tf32, cudnn.benchmark),
        *(torch.are_deterministic_algorithms_enabled(), torch.is_deterministic_algorithms_warn_only_enabled()),
    )


def test_the_switches_of_torch_are_set_for_a_run_and_put_back(monkeypatch):
    monkeypatch.delenv("CUBLAS_WORKSPACE_CONFIG", raising=False)
    before = switches()
    with precision.arithmetic("fp32", deterministic=False):
        assert switches() == (False, False, True, False, False)
    with precision.arithmetic("tf32", deterministic=True):
        assert switches() == (True, True, False, True, False)
        assert precision.os.environ["CUBLAS_WORKSPACE_CONFIG"] == ":4096:8"
        with precision.nondeterminism_warns():
            assert switches() == (True, True, False, True, True)
        assert switches() == (True, True, False, True, False)
    assert switches() == before


def test_a_compiled_body_keeps_the_names_of_its_weights(new_model):
    model = new_model()
    precision.compile_body(model)
    assert model.body._compiled_call_impl is not None  # what torch calls; made when first called
    assert list(model.state_dict()) == list(new_model().state_dict())


def result(folder, method="msp"):
    (path,) = folder.glob(f"*/unseen-digits/{method}/seed0-*.json")
    return json.loads(path.read_text())


def test_on_a_cpu_nothing_is_compiled_and_a_note_says_so(tmp_path):
    done = assert_done(smoke(tmp_path, "msp", "--device", "cpu", "--setting", "unseen-digits", "--compile"))
    assert done.count("note: --compile is for a GPU; nothing is compiled on a CPU\n") == 1
    assert "compiled" not in result(tmp_path)["device"]


def test_a_deterministic_run_says_so_and_gives_the_same_numbers(tmp_path):
    one = ("--device", "cpu", "--setting", "unseen-digits")
    assert_done(smoke(tmp_path / "plain", "msp", *one))
    assert_done(smoke(tmp_path / "same", "msp", *one, "--deterministic"))
    plain, same = result(tmp_path / "plain"), result(tmp_path / "same")
    assert same["device"] == f"{plain['device']}, deterministic"
    assert same["key"] == plain["key"] and same["metrics"] == plain["metrics"]


PUT = '''"""A. Author, Title, 2026."""
import torch
from dataclasses import dataclass
from oodbench import Trainer

@dataclass
class Put(Trainer):
    """Writes where torch does not promise an order."""

    def loss(self, model, batch):
        torch.zeros(3).put_(torch.tensor([0, 0]), torch.ones(2))
        return super().loss(model, batch)
'''


def test_what_cannot_be_repeated_fails_its_cell_under_deterministic_alone(tmp_path):
    plugin = tmp_path / "put.py"
    plugin.write_text(PUT)
    one = ("--device", "cpu", "--setting", "unseen-digits", "--plugin", plugin)
    assert_done(smoke(tmp_path / "plain", "put", *one))
    failed = smoke(tmp_path / "same", "put", *one, "--deterministic")
    assert failed.status == 1
    assert "the first: put_ is not deterministic here; leave out --deterministic" in failed.err


@pytest.fixture
def kept(tmp_path):
    """A results folder with the outputs of one network in one setting."""
    assert_done(smoke(tmp_path, "msp", "--setting", "unseen-digits", "--keep-outputs"))
    return tmp_path


def file_of(folder):
    (path,) = [path for path in (folder / "outputs").rglob("*") if path.is_file()]
    return path


def score(folder, method):
    assert_done(smoke(folder, method, "--setting", "unseen-digits", "--keep-outputs"))
    return result(folder, method)


def changed(path, **values):
    """A file written as ours are, with other contents."""
    arrays = exchange.read(path)
    exchange.write(path, replace(arrays, **{name: change(getattr(arrays, name)) for name, change in values.items()}))


def in_part(name, **values):
    """Other contents of one part."""

    def change(parts):
        found = {what: None if each is None else each(getattr(parts[name], what)) for what, each in values.items()}
        return {**parts, name: replace(parts[name], **found)}

    return change


def test_outputs_are_kept_only_if_asked(tmp_path):
    assert_done(smoke(tmp_path, "msp", "--setting", "unseen-digits"))
    assert not (tmp_path / "outputs").exists()


def test_kept_outputs_are_a_file_of_arrays_for_each_training_and_setting(kept):
    path = file_of(kept)
    assert path.relative_to(kept).parts == ("outputs", result(kept)["training"], "unseen-digits.safetensors")
    arrays = exchange.read(path)
    suite = suites.load("digits-c", "smoke")
    parts = build_parts(suite, suite.setting("unseen-digits"), 0)
    by_name = {"train": parts.labelled, "validation": parts.id_validation, "id": parts.id}
    by_name |= {f"covariate_{suite.setting('unseen-digits').covariate}": parts.covariate}
    assert arrays.parts.keys() == {*by_name, "semantic_unseen-digits"}
    for name, part in by_name.items():
        assert arrays.parts[name].labels.tolist() == part.labels.tolist()
    assert arrays.parts["semantic_unseen-digits"].labels is None
    model = load(next(iter(read_results(kept)))).model
    assert torch.equal(arrays.weight, model.head.weight) and torch.equal(arrays.bias, model.head.bias)
    assert torch.equal(arrays.parts["id"].features, forward(model, torch.from_numpy(parts.id.images)).features)


def test_every_setting_has_a_file_of_its_own(tmp_path):
    assert_done(smoke(tmp_path, "msp", "--keep-outputs"))
    names = {path.stem for path in (tmp_path / "outputs").glob("*/*.safetensors")}
    assert names == {each.setting for each in read_results(tmp_path)} and len(names) == 2


def test_scorers_on_a_file_that_was_kept_give_the_numbers_of_the_run_that_wrote_it(tmp_path):
    methods = ["energy", "gen", "kl-matching", "knn", "mahalanobis", "msp", "vim"]
    assert_done(smoke(tmp_path, ",".join(methods), "--setting", "unseen-digits", "--keep-outputs"))
    given = as_evaluation(exchange.read(file_of(tmp_path)), CPU)
    assert not given.remarks
    evaluation = Evaluation(given.model, given.images["train"], known=given.known)
    (covariate,) = (name for name in given.images if name.startswith("covariate"))
    for method in methods:
        scored, _ = evaluation.score(
            keyed(Registry().method(method).scorer), given.parts(covariate, "semantic_unseen-digits")
        )
        (result,) = [each for each in read_results(tmp_path) if each.method == method]
        for split, stored in read_scores(result).items():
            assert (scored[split].scores == stored.scores).all(), (method, split)
            assert (scored[split].predictions == stored.predictions).all()


def test_another_scorer_reads_the_kept_outputs_and_scores_as_without_them(kept, tmp_path_factory):
    path = file_of(kept)
    stamp = path.stat().st_mtime_ns
    read = score(kept, "knn")
    assert path.stat().st_mtime_ns == stamp
    assert read["seconds"]["forward"] == result(kept)["seconds"]["forward"]  # what the pass took when it was made
    other = tmp_path_factory.mktemp("other")
    assert_done(smoke(other, "knn", "--setting", "unseen-digits"))
    assert read["metrics"] == result(other, "knn")["metrics"]
    # They are read indeed: with other contents, other numbers.
    changed(path, weight=lambda own: own.flip(0), bias=lambda own: own.flip(0), parts=flipped)
    assert score(kept, "energy")["metrics"]["id_acc"] < 0.5


def flipped(parts):
    return {name: replace(part, logits=part.logits.flip(1)) for name, part in parts.items()}


@pytest.mark.parametrize(
    "damage",
    [
        lambda path: path.write_bytes(path.read_bytes()[:-300]),
        lambda path: path.write_bytes(b""),
        lambda path: path.write_bytes(path.read_bytes()[:-300] + bytes(300)),
        lambda path: torch.save([1, 2], path),
        lambda path: changed(path, notes=lambda own: {**own, "passes": own["passes"].replace("seconds", "minutes")}),
        lambda path: changed(path, notes=lambda own: {**own, "passes": "[" * 100_000}),
        lambda path: changed(path, notes=lambda own: {"network": own["network"]}),
        lambda path: changed(path, notes=lambda own: {**own, "network": "another"}, parts=flipped),
        lambda path: changed(path, notes=lambda own: {**own, "passes": other_images(own["passes"])}),
        lambda path: changed(path, parts=lambda own: {name: own[name] for name in ("train", "id")}),
        lambda path: changed(path, parts=in_part("id", logits=torch.Tensor.double)),
        lambda path: changed(path, parts=in_part("id", features=lambda own: own[:9], logits=lambda own: own[:9],
                                                 labels=lambda own: own[:9])),
        lambda path: changed(path, parts=in_part("id", logits=None)),
        lambda path: changed(path, parts=in_part("train", features=lambda own: own * torch.nan)),
    ],
)  # fmt: skip
def test_what_is_damaged_or_of_another_network_or_other_images_is_made_again(kept, damage):
    path = file_of(kept)
    whole = exchange.read(path).digest
    damage(path)
    score(kept, "energy")
    assert exchange.read(path).digest == whole


def other_images(passes):
    """The notes of a file whose ID images were others."""
    own = json.loads(passes)
    return json.dumps(own | {"id": own["id"] | {"images": "0123456789abcdef"}})


def test_a_scorer_of_feature_maps_passes_the_images_again_and_the_file_stays_true(kept, tmp_path_factory):
    whole = exchange.read(file_of(kept)).digest
    read = score(kept, "rankfeat")
    other = tmp_path_factory.mktemp("other")
    assert_done(smoke(other, "rankfeat", "--setting", "unseen-digits"))
    assert read["metrics"] == result(other, "rankfeat")["metrics"]
    assert exchange.read(file_of(kept)).digest == whole


def test_tables_pass_over_the_kept_outputs(kept):
    shown = assert_done(oodbench("table", kept))
    assert "MSP" in shown and "outputs" not in shown
