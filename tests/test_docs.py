"""What the documents say is run."""

import re
import shlex
from pathlib import Path

import pytest

from oodbench.cli import _parser as parser
from oodbench.cli import main
from oodbench.config.cards import READS, read_cards
from oodbench.config.registry import Registry
from oodbench.results.folder import read_folder

ROOT = Path(__file__).parent.parent
DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


def code_blocks(path):
    """Fenced blocks with the file name that the line above them gives."""
    return re.findall(r"`([\w.]+)`:\n\n```python\n(.*?)```", path.read_text(encoding="utf-8"), flags=re.S)


def commands(path):
    found = re.findall(r"^ {4}(?:\$ )?(oodbench [^#\n]*)", path.read_text(encoding="utf-8"), flags=re.M)
    return [command.strip() for command in found]


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_every_command_of_the_documents_is_understood(document, tmp_path, monkeypatch, capsys):
    """Runs become dry runs; everything else is run as it stands, on results made for it."""
    monkeypatch.chdir(tmp_path)
    for name, text in code_blocks(ROOT / "docs" / "add-a-method.md"):
        Path(name).write_text(text)
    assert (
        main(
            [
                "run",
                "--suite",
                "digits-c",
                "--preset",
                "smoke",
                "--methods",
                "erm,msp,scone,bn-adapt",
                "--results",
                "results",
            ]
        )
        == 0
    )
    for command in commands(document):
        words = shlex.split(command)[1:]
        if words[0] == "run":
            words.append("--dry-run")
        if words[:2] in (["data", "get"], ["data", "add"]) or (words[0] == "run" and "digits-c" not in words):
            parser().parse_args(words)  # on data of their own: test_cli_data.py, test_real_suites.py
            continue
        assert main(words) == 0, f"{command}: {capsys.readouterr().err}"


def test_the_walkthrough_s_methods_run_and_are_as_short_as_it_says(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    blocks = dict(code_blocks(ROOT / "docs" / "add-a-method.md"))
    assert len(blocks) == 2
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
    assert rows == {card.display for card in cards}
    assert f"all {len(cards)} [scorers]" in (ROOT / "README.md").read_text(encoding="utf-8")
