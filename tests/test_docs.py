"""What the documents say is run."""

import glob
import re
import shlex
import shutil
import sys
from dataclasses import MISSING, fields
from functools import partial
from pathlib import Path
from typing import get_type_hints

import numpy as np
import pytest
import safetensors.torch
import torch
from command_line import assert_done, smoke
from own_digits import BUILD, CLASSES, digits, trained, trained_state, write_folder
from result_files import reference
from torch.utils.data import TensorDataset

import oodbench
from oodbench.cli import main
from oodbench.cli.command_line import parser_of as parser
from oodbench.config import yaml_values
from oodbench.config.cards import READS, read_cards
from oodbench.config.contents import Column, Contents, Defaults, NetworkChoice, Source, Splits, Sweep
from oodbench.config.recipe import Recipe
from oodbench.config.registry import DEFAULT_METHODS, Registry
from oodbench.config.schema import conform, describe
from oodbench.learning.given_models import rebuild
from oodbench.results.folder import read_folder

ROOT = Path(__file__).parent.parent
DOCUMENTS = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "SECURITY.md", *sorted((ROOT / "docs").glob("*.md"))]
TUTORIAL = ROOT / "docs" / "your-network.md"
SUITES = ROOT / "docs" / "suites.md"
IN_ORDER = (TUTORIAL, SUITES)  # pages whose commands build on files that only they have
GIVEN = ("evaluate", "fit", "predict")  # commands on a network and images that only the tutorial has


def code_blocks(path):
    """Fenced blocks with the file name that the line above them gives."""
    return re.findall(r"`([\w.]+)`:\n\n```python\n(.*?)```", path.read_text(encoding="utf-8"), flags=re.S)


def snippets(path):
    """Fenced Python that is not a file."""
    return re.findall(r"(?<!`:\n\n)```python\n(.*?)```", path.read_text(encoding="utf-8"), flags=re.S)


def commands(path):
    found = re.findall(r"^ {4}(?:\$ )?(oodbench [^#\n]*)", path.read_text(encoding="utf-8"), flags=re.M)
    return [command.strip() for command in found]


def before(document):
    """The documents that come before one."""
    return [each for each in DOCUMENTS[: DOCUMENTS.index(document)] if each not in IN_ORDER]


def documents_with(pieces):
    some = [each for each in DOCUMENTS if each not in IN_ORDER and pieces(each)]
    return pytest.mark.parametrize("document", some, ids=lambda path: path.name)


@pytest.fixture(scope="session")
def readers_folder(made_once):
    """The files of the walkthrough, results of the methods that commands name, and a few of the reference results."""

    def make(folder):
        with pytest.MonkeyPatch.context() as patch:
            patch.chdir(folder)
            for name, text in code_blocks(ROOT / "docs" / "add-a-method.md"):
                Path(name).write_text(text)
            methods = "erm,msp,scone,bn-adapt,centered-logit"
            assert_done(smoke("results", methods, "--plugin", "centered_logit.py"))
            reference(Path("reference"), "digits-c", lambda result: result.method in ("erm", "msp") and result.seed < 2)
            Path("reference/COLLECTION").write_text("reference\n")

    return made_once("readers-folder", make)


@pytest.fixture(scope="session")
def made_by_python(made_once):
    """Results of the methods that snippets name."""

    def make(folder):
        oodbench.run("digits-c", methods="msp,woods,scone", settings="unseen-digits", preset="smoke", results=folder)

    return made_once("made-by-python", make)


@documents_with(commands)
def test_every_command_of_the_documents_is_understood(document, readers_folder, tmp_path, monkeypatch, capsys):
    """Runs become dry runs; everything else is run as it stands, on results made for it."""
    shutil.copytree(readers_folder, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    for name in ("shard1", "shard2"):  # what two machines without a shared disk would have made
        shutil.copytree("results", name)
    for command in dict.fromkeys(commands(document)):
        if any(command in commands(other) for other in before(document)):  # where it is run
            continue
        words = shlex.split(command)[1:]
        if words[0] in GIVEN:
            assert command in commands(TUTORIAL), f"{document.name} has a command that nothing runs: {command}"
            continue
        if words[0] == "run":
            words.append("--dry-run")
        touches_data = words[0] == "data" and words[1] in ("get", "add", "remove")  # in the folder of whoever runs this
        if touches_data or (words[0] == "run" and "digits-c" not in words):
            parser().parse_args(words)  # on data of their own: test_cli_data.py, test_real_suites.py
            continue
        assert main(words) == 0, f"{command}: {capsys.readouterr().err}"


@documents_with(snippets)
def test_every_snippet_of_the_documents_runs(document, made_by_python, tmp_path, monkeypatch):
    """On results made for it; what it runs itself is run under the preset smoke."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(oodbench, "run", partial(oodbench.run, preset="smoke"), raising=False)
    shutil.copytree(made_by_python, "results")
    scope = {}
    for block in snippets(document):
        exec(compile(block, document.name, "exec"), scope)


def test_the_walkthrough_s_methods_run_and_are_as_short_as_it_says(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    blocks = dict(code_blocks(ROOT / "docs" / "add-a-method.md"))
    assert [*blocks] == ["centered_logit.py", "label_smoothing.py", "small_net.py"]
    Path("small_net.py").write_text(blocks.pop("small_net.py"))
    for name, text in blocks.items():
        assert len([line for line in text.splitlines() if line.strip()]) <= 20
        Path(name).write_text(text)
        assert len(read_cards(tmp_path / name, name)) == 1
    given = ["run", "--suite", "digits-c", "--preset", "smoke", "--results", "out", "--setting", "photo-patches"]
    for name in blocks:
        given += ["--plugin", name]
    assert main([*given, "--methods", "centered-logit,label-smoothing,label-smoothing+centered-logit"]) == 0
    found, problems = read_folder(Path("out"))
    assert not problems
    assert {r.method for r in found} == {"centered-logit", "label-smoothing", "label-smoothing+centered-logit"}
    assert {r.method: r.group for r in found}["centered-logit"] == "OOD detection"
    own = [*given, "--methods", "msp", "--model", "small_net.py:build", "--set", "network.width=4"]
    assert main([*own, "--results", "own"]) == 0
    (result,) = read_folder(Path("own"))[0]
    assert (result.config.suite.network.name, result.config.suite.network.options) == (
        "small_net.py:build",
        {"width": 4},
    )


@pytest.fixture
def users_folder(tmp_path, monkeypatch):
    """What a reader of the tutorial has in the working folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "my_net", raising=False)
    some, net = digits(), trained()
    for name, text in code_blocks(TUTORIAL):
        Path(name).write_text(text)
    torch.save(trained_state(), "mine.pt")
    write_folder(Path("photos/train"), some.train[::4], some.train_labels[::4])
    write_folder(Path("photos/test"), some.test[::4], some.test_labels[::4])
    write_folder(Path("snow"), some.noisy[::4], some.test_labels[::4])
    write_folder(Path("others"), some.unseen[::4])
    Path("classes.txt").write_text("".join(f"digit{number}\n" for number in range(CLASSES)))
    of_timm = rebuild({"library": "timm", "name": "resnet18", "num_classes": CLASSES})
    safetensors.torch.save_file(of_timm.state_dict(), "mine.safetensors")
    of_torchvision = rebuild({"library": "torchvision", "name": "resnet18", "num_classes": CLASSES})
    torch.save(
        {"state_dict": {f"model.{k}": each for k, each in of_torchvision.state_dict().items()}}, "lightning.ckpt"
    )
    with torch.inference_mode():
        rows = {"train": some.train, "id": some.test, "covariate_snow": some.noisy, "semantic_others": some.unseen}
        features = {f"{name}_features": net.stem(torch.from_numpy(each) / 255).numpy() for name, each in rows.items()}
    labels = {
        "train_labels": some.train_labels,
        "id_labels": some.test_labels,
        "covariate_snow_labels": some.test_labels,
    }
    head = {name: each.detach().numpy() for name, each in net.classify.named_parameters()}
    np.savez("outputs.npz", **features, **labels, **head)
    return tmp_path


def needs_the_internet(words):
    """Weights of a library, or the images of a suite that are not embedded."""
    given = dict(zip(words, words[1:], strict=False))
    is_of_a_library = given.get("--model", "").startswith(("timm:", "torchvision:"))
    return (is_of_a_library and "--weights" not in given) or given.get("--suite") == "cifar10-c"


def test_every_command_of_the_tutorial_runs_in_its_order(users_folder, capsys):
    for command in commands(TUTORIAL):
        words = shlex.split(command)[1:]
        if needs_the_internet(words):
            parser().parse_args(words)
            continue
        words = [name for word in words for name in (sorted(glob.glob(word)) if "*" in word else [word])]
        assert main(words) == 0, f"{command}: {capsys.readouterr().err}"
    assert Path("sheet.png").exists()


def test_the_network_of_the_tutorial_is_the_one_it_is_tried_with():
    assert dict(code_blocks(TUTORIAL))["my_net.py"].strip() == BUILD.strip()


def test_the_tutorial_s_python_runs_in_its_order(users_folder, capsys):
    some = digits()
    scope = {
        name: TensorDataset(torch.from_numpy(images) / 255, torch.from_numpy(labels))
        for name, images, labels in (
            ("train_data", some.train[::4], some.train_labels[::4]),
            ("test_data", some.test[::4], some.test_labels[::4]),
            ("other_data", some.unseen[::4], np.zeros(len(some.unseen[::4]), dtype=np.int64)),
        )
    }
    assert len(snippets(TUTORIAL)) == 4
    for block in snippets(TUTORIAL):
        exec(compile(block, TUTORIAL.name, "exec"), scope)
    by_folder, by_loader = (read_folder(Path(name))[0] for name in ("python", "loaders"))
    aurocs = [{each.method: each.metrics["auroc"] for each in some} for some in (by_folder, by_loader)]
    assert aurocs[1] == {name: pytest.approx(aurocs[0][name], abs=1e-6) for name in ("msp", "knn")}


@pytest.fixture
def own_suite(tmp_path, monkeypatch):
    """The suite file of the page on suites, and the folders of images that it names."""
    monkeypatch.chdir(tmp_path)
    (text,) = re.findall(r"`mine.yaml`:\n\n```yaml\n(.*?)```", SUITES.read_text(encoding="utf-8"), flags=re.S)
    Path("mine.yaml").write_text(text)
    some = digits()
    write_folder(Path("photos/train"), some.train[::2], some.train_labels[::2])
    write_folder(Path("photos/test"), some.test[::2], some.test_labels[::2])
    write_folder(Path("snow"), some.noisy, some.test_labels)
    write_folder(Path("others"), some.unseen)
    noise = np.random.default_rng(0).integers(0, 256, (200, 1, 8, 8), dtype=np.uint8)
    write_folder(Path("textures"), noise[:100])
    write_folder(Path("patterns"), noise[100:])
    return tmp_path


def test_every_command_on_a_suite_of_one_s_own_runs_in_its_order(own_suite, capsys):
    """Those that would train for long are planned; the preset is run."""
    for command in commands(SUITES):
        words = shlex.split(command)[1:]
        if words[0] == "run" and "smoke" not in words:
            words.append("--dry-run")
        assert main(words) == 0, f"{command}: {capsys.readouterr().err}"
    results, problems = read_folder(Path("results"))
    assert not problems
    assert {r.method for r in results} == {"erm", "msp", "knn", "scone"}
    assert {r.setting for r in results} == {"others", "textures", "patterns"}
    assert all(r.status == "ok" for r in results)
    assert "average (far)" in capsys.readouterr().out.lower()


KEYS = {  # the tables of the page on suites, in its order, and what they are of
    "The file": [Contents],
    "Data sets": [Source],
    "Network": [NetworkChoice],
    "Recipes": [Recipe],
    "Splits": [Splits],
    "Settings": [Defaults, Column],
    "Sweeps": [Sweep],
}


def test_the_page_on_suites_has_every_key_with_its_type_its_default_and_an_example():
    text = SUITES.read_text(encoding="utf-8").split("## Every key")[1]
    tables = [
        table
        for section in re.findall(r"^### .*?(?=^### |\Z)", text, re.M | re.S)
        for table in re.findall(r"(?:^\|.*\n)+", section, re.M)
    ]
    assert re.findall(r"^### (.*)", text, re.M) == [*KEYS]
    for table, of in zip(tables, [each for some in KEYS.values() for each in some], strict=True):
        rows = [[cell.strip() for cell in line.strip("|").split(" | ")] for line in table.splitlines()[2:]]
        hints = get_type_hints(of)
        assert [row[0] for row in rows] == [f"`{field.name}`" for field in fields(of)], of.__name__
        for field, (_, type_, default, example, meaning) in zip(fields(of), rows, strict=True):
            assert type_ == describe(hints[field.name]), field.name
            assert conform(yaml_values.read(example.strip("`"))[0], hints[field.name]) is not None, field.name
            assert meaning.rstrip("| ").endswith("."), field.name
            if field.default is MISSING and field.default_factory is MISSING:
                assert default == "required", field.name
            else:
                actual = field.default if field.default_factory is MISSING else field.default_factory()
                stated = yaml_values.read(default.strip("`"))[0]
                assert conform(stated, hints[field.name]) == actual, f"{field.name}: {actual}"


def test_a_suite_without_methods_runs_those_that_the_page_says():
    text = " ".join(SUITES.read_text(encoding="utf-8").split())
    assert f"A suite without this key runs {', '.join(f'`{name}`' for name in DEFAULT_METHODS[:-1])} and" in text
    assert f"and `{DEFAULT_METHODS[-1]}`." in text


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_links_between_documents_lead_somewhere(document):
    for target in re.findall(r"\]\((?!http)([^)#]+)", document.read_text(encoding="utf-8")):
        assert (document.parent / target).exists(), target


def test_files_the_documents_name_exist():
    for document in DOCUMENTS:
        text = document.read_text(encoding="utf-8")
        for name in re.findall(r"`((?:methods|benchmarks|docs|tests|oodbench)/[\w./-]+\.\w+)`", text):
            assert (ROOT / name).exists(), f"{document.name} names {name}"


def test_the_page_of_scorers_names_each_of_them_where_it_belongs():
    """Under what it reads, in the table at the top, and in the table of what came out."""
    text = (ROOT / "docs" / "scorers.md").read_text(encoding="utf-8")
    groups = {
        reads: set(re.findall("`([^`]+)`", names))
        for reads, names in re.findall(r"^\| (\w[\w ]*) \| (`.*) \|$", text, re.M)
    }
    cards = [card for card in Registry().cards.values() if card.kind == "Scorer"]
    assert groups == {reads: {card.name for card in cards if card.reads == reads} for reads in READS}
    rows = set(re.findall(r"^\| (\S+) \| [\d–]", text, re.M))
    assert rows == {card.display for card in cards if "ood-head" not in card.needs}  # which is no scorer of ERM
    assert f"all {len(cards)} [scorers]" in (ROOT / "README.md").read_text(encoding="utf-8")
