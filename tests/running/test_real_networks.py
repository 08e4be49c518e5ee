"""A published network, fitted to photographs as users do it, through `evaluate`, `fit` and `predict`.

EfficientNet-Lite0 with its weights for ImageNet gets a head for the seven classes of PACS, and scenes are semantic OOD.
"""

import csv
import io
import subprocess
import tarfile
from pathlib import Path

import numpy as np
import pytest
import safetensors.torch
import torch
from command_line import assert_done, oodbench
from data_files import write
from PIL import Image
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from stand_ins import data_in, picture

from oodbench.data import store
from oodbench.data.weights import WEIGHTS
from oodbench.learning import evaluation
from oodbench.learning.weight_files import load_into, read_tensors
from oodbench.results.folder import read_folder
from oodbench.results.stored import read_scores
from oodbench.torchvision_import import import_with_torchvision

timm = import_with_torchvision("timm")
detector = pytest.importorskip("pytorch_ood.detector", reason="needs pytorch-ood, which the dev extra installs")

NAME, MODEL = "efficientnet-lite0", "tf_efficientnet_lite0"
KINDS = ("dog", "elephant", "giraffe", "guitar", "horse", "house", "person")
PHOTOS, SCENES = "pacs96.tar.xz", "tin-scenes32.tar.xz"
K, DIM = 5, 64  # of KNN and ViM, which have few training images here


def archive(name):
    """In shared/data beside this checkout, the one that it is a worktree of, or the one that it was cloned from."""
    here = Path(__file__).parents[2]
    homes = [here.parent]
    for command in ("rev-parse --path-format=absolute --git-common-dir", "config --get remote.origin.url"):
        found = subprocess.run(["git", *command.split()], cwd=here, capture_output=True, text=True).stdout.strip()
        homes += [Path(found).parent, Path(found).parent.parent] if found else []
    paths = [home / "shared" / "data" / name for home in homes]
    return next((path for path in paths if path.is_file()), None)


def first_of_each(path, count, within=""):
    """The first images of each class in an archive, by class."""
    found = {}
    with tarfile.open(path) as packed:
        for member in packed:
            kind = found.setdefault(Path(member.name).parent.name, {}) if member.name.startswith(within) else None
            if kind is not None and member.isfile() and len(kind) < count:
                kind[Path(member.name).name] = packed.extractfile(member).read()
    return {kind: images for kind, images in found.items() if images}


def network(classes):
    model = timm.create_model(MODEL, num_classes=classes).eval().requires_grad_(False)
    return model.to(memory_format=torch.channels_last)


def save(model, path):
    safetensors.torch.save_file({name: each.contiguous() for name, each in model.state_dict().items()}, path)


@torch.inference_mode()
def features_by_timm(model, files):
    """By timm alone, its preprocessing included."""
    ready = timm.data.create_transform(**timm.data.resolve_model_data_config(model), is_training=False)
    found = []
    for start in range(0, len(files), 32):
        x = torch.stack([ready(Image.open(file).convert("RGB")) for file in files[start : start + 32]])
        x = x.contiguous(memory_format=torch.channels_last)
        found.append(model.forward_head(model.forward_features(x), pre_logits=True))
    return torch.cat(found)


def pictures(folder):
    return sorted(path for path in folder.rglob("*") if path.is_file())


def fine_tuned(published, files):
    """The published network with a head of its own, fitted on its features of these files."""
    model = network(1000)
    load_into(model, read_tensors(published), published)
    features = features_by_timm(model, files)
    probe = LogisticRegression(C=0.01, max_iter=500).fit(features, [KINDS.index(file.parent.name) for file in files])
    model.reset_classifier(len(KINDS))
    model.classifier.weight.data = torch.from_numpy(probe.coef_).float().contiguous()
    model.classifier.bias.data = torch.from_numpy(probe.intercept_).float()
    return model.eval()


class Users:
    """A user's folders, and the network that the user fine-tuned on the training photographs."""

    def __init__(self, home, photos, scenes, published):
        for kind, images in photos.items():
            for number, (name, content) in enumerate(images.items()):
                write(home / "photos" / ("test" if number % 3 == 0 else "train") / kind, {name: content})
        for kind, images in scenes.items():
            write(home / "scenes", {f"{kind}-{name}": content for name, content in images.items()})
        self.home, self.photos, self.scenes = home, home / "photos", home / "scenes"
        self.weights = home / "mine.safetensors"
        self.model = fine_tuned(published, pictures(self.photos / "train"))
        save(self.model, self.weights)
        self.network = ["--model", f"timm:{MODEL}", "--weights", self.weights, "--cpu-threads", "1"]
        self.images = ["--id", f"folder:{self.photos}", "--semantic", f"folder:{self.scenes}"]


def users(home, per_class, per_scene):
    """So many images of each class, if the data are there."""
    found = {name: archive(name) for name in (PHOTOS, SCENES)}
    for name, path in found.items():
        if path is None:
            pytest.skip(f"'{name}' is not in shared/data beside this checkout")
    if store.entry(NAME) is None:
        pytest.skip(f"'{NAME}' is not in '{store.data_folder()}'; get it with: oodbench data get {NAME}")
    photos, scenes = first_of_each(found[PHOTOS], per_class, "photo/"), first_of_each(found[SCENES], per_scene)
    assert tuple(sorted(photos)) == KINDS and len(scenes) == 25
    return Users(home, photos, scenes, WEIGHTS[NAME].path())


def by_singular_values(train, rows):
    """The Mahalanobis distance within the span of the training rows about their class means.

    With fewer rows than features pytorch-ood inverts a matrix that has no inverse, and its scores are rounding errors.
    """
    x, y = train.features.double().numpy(), train.y.numpy()
    means = np.stack([x[y == kind].mean(axis=0) for kind in range(len(KINDS))])
    _, sizes, axes = np.linalg.svd((x - means[y]) / np.sqrt(len(x)), full_matrices=False)
    kept = sizes > 1e-6 * sizes[0]
    away = (rows.features.double().numpy()[:, None] - means) @ axes[kept].T / sizes[kept]
    return torch.from_numpy((away**2).sum(axis=-1).min(axis=1))


def by_others(name, train, weight, bias, rows):
    """Scores of rows by pytorch-ood, where it has the numbers, from the features that oodbench's scorers had."""
    if name == "mahalanobis":
        return by_singular_values(train, rows)
    logits = rows.logits.clone()
    if name in ("msp", "energy"):
        return {"msp": detector.MaxSoftmax, "energy": detector.EnergyBased}[name](None).predict_logits(logits)
    fitted = {
        "knn": lambda: detector.KNN(None, k=K),
        "vim": lambda: detector.ViM(None, d=DIM, w=weight, b=bias),
    }[name]()
    return fitted.fit_features(train.features.clone(), train.y.clone()).predict_features(rows.features.clone())


def evaluated(mine, results, monkeypatch):
    """What `evaluate` measures, and the outputs that its scorers were given: training, ID, semantic."""
    seen = []

    def forward_reading(*given, **more):
        found = original(*given, **more)
        seen.append(found[0])
        return found

    original = evaluation.forward_reading
    monkeypatch.setattr(evaluation, "forward_reading", forward_reading)
    command = ["evaluate", *mine.network, *mine.images, "--scorers", "msp,energy,knn,mahalanobis,vim"]
    out = assert_done(oodbench(*command, "--set", f"vim.dim={DIM}", "--set", f"knn.k={K}", "--results", results))
    assert len(seen) == 3  # each part passes once, for all scorers
    found, problems = read_folder(results)
    assert not problems and [each.status for each in found] == ["ok"] * 5
    return out, {each.method.partition(",")[0]: each for each in found}, seen


def goes_the_users_way(mine, tmp_path, monkeypatch):
    results = tmp_path / "results"
    out, found, (train, id, semantic) = evaluated(mine, results, monkeypatch)
    assert "timm" in out

    # The features are those of timm's own preprocessing and network.
    tests = pictures(mine.photos / "test")
    expected = features_by_timm(mine.model, tests[::10])
    torch.testing.assert_close(id.features[::10].clone(), expected, atol=1e-3, rtol=1e-3)
    assert found["msp"].config.given.head == "classifier" and found["msp"].config.given.classes is None

    # Accuracy is that of the user's network; that of a head fitted to photographs on such features is high.
    scores = read_scores(found["msp"])["id"]
    labels = [KINDS.index(path.parent.name) for path in tests]
    assert scores.labels.tolist() == labels and found["msp"].metrics["id_acc"] > 0.9

    weight, bias = mine.model.classifier.weight, mine.model.classifier.bias
    for name, result in found.items():
        theirs = [by_others(name, train, weight, bias, rows).double().numpy() for rows in (id, semantic)]
        auroc = roc_auc_score(np.repeat([0, 1], [len(each) for each in theirs]), np.concatenate(theirs))
        assert result.metrics["auroc"] == pytest.approx(auroc, abs=1e-6), name
        assert 0.8 < auroc < 1, name
    return found


def fits_and_predicts(mine, tmp_path, found):
    kept, photos, some = tmp_path / "detector", pictures(mine.photos / "test"), pictures(mine.scenes)[::5]
    fit = [
        "fit",
        *mine.network,
        "--id",
        f"folder:{mine.photos}",
        "--scorer",
        "knn",
        "--set",
        f"knn.k={K}",
        "--keep",
        "0.9",
    ]
    out = assert_done(oodbench(*fit, "--out", kept))
    assert f"oodbench predict {kept} IMAGES" in out and "may be too tight" not in out
    outcome = oodbench("predict", kept, *photos[::5], *some, "--format", "csv")
    assert outcome.status == 0, outcome.err
    rows = list(csv.DictReader(io.StringIO(outcome.out)))
    assert [Path(row["image"]) for row in rows] == [*photos[::5], *some]
    measured = read_scores(found["knn"])
    expected = [*measured["id"].scores[::5], *measured["semantic"].scores[::5]]
    np.testing.assert_allclose([float(row["score"]) for row in rows], expected, rtol=1e-3)
    is_ood = np.array([row["verdict"] == "OOD" for row in rows])
    assert is_ood[len(photos[::5]) :].mean() > 0.3 > is_ood[: len(photos[::5])].mean()
    right = [row["label"] == path.parent.name for row, path in zip(rows, photos[::5], strict=False)]
    assert np.mean(right) > 0.85


def test_500_photographs_and_scenes_go_the_user_s_way(tmp_path, monkeypatch):
    mine = users(tmp_path, per_class=50, per_scene=6)
    with data_in(tmp_path / "data"):
        found = goes_the_users_way(mine, tmp_path, monkeypatch)
        fits_and_predicts(mine, tmp_path, found)


@pytest.mark.slow
def test_all_real_photographs_and_scenes_go_the_user_s_way(tmp_path, monkeypatch):
    mine = users(tmp_path, per_class=10_000, per_scene=10_000)
    with data_in(tmp_path / "data"):
        found = goes_the_users_way(mine, tmp_path, monkeypatch)
        fits_and_predicts(mine, tmp_path, found)


def test_of_the_thousand_outputs_for_imagenet_those_of_the_folders_are_taken_by_name(tmp_path):
    """WordNet's numbers, as ImageNet's folders are called; the weights may be any."""
    outputs = {"n02504458": 386, "n02123045": 281, "n02099601": 207}  # an elephant, a cat, a dog
    random = np.random.default_rng(0)
    write(tmp_path / "photos", {f"{kind}/{i}.png": picture(random) for kind in outputs for i in range(6)})
    write(tmp_path / "others", {f"{i}.png": picture(random) for i in range(4)})
    torch.manual_seed(0)
    model = network(1000)
    save(model, tmp_path / "imagenet.safetensors")
    command = ["evaluate", "--model", f"timm:{MODEL}", "--weights", tmp_path / "imagenet.safetensors"]
    command += ["--id", f"folder:{tmp_path}/photos", "--semantic", f"folder:{tmp_path}/others", "--scorers", "msp"]
    with data_in(tmp_path / "data"):
        outcome = oodbench(*command, "--results", tmp_path / "results")
    assert outcome.status == 0, outcome.err
    ((result,), problems) = read_folder(tmp_path / "results")
    assert not problems and result.config.given.classes == [outputs[kind] for kind in sorted(outputs)]
    features = features_by_timm(model, pictures(tmp_path / "others"))
    logits = model.classifier(features)[:, [outputs[kind] for kind in sorted(outputs)]]
    scores = read_scores(result)["semantic"]
    assert scores.predictions.tolist() == logits.argmax(dim=1).tolist()
    np.testing.assert_allclose(scores.scores, -logits.softmax(dim=1).amax(dim=1), rtol=1e-4)
