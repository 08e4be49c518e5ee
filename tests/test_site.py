"""The documentation site: its pages hold what the code says, a strict build passes, and nothing comes from outside."""

import json
import os
import re
import subprocess
import sys
import time
from html.parser import HTMLParser
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

import pytest
import yaml

import oodbench
from oodbench import functional
from oodbench.config.registry import Registry
from oodbench.config.schema import describe

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
NOTEBOOKS = sorted((DOCS / "notebooks").glob("*.ipynb"))
needs_mkdocs = pytest.mark.skipif(
    not (find_spec("mkdocs") and find_spec("material")), reason="mkdocs-material is not installed; see the extra `docs`"
)
needs_nbclient = pytest.mark.skipif(
    not (find_spec("nbclient") and find_spec("ipykernel")), reason="nbclient is not installed; see the extra `docs`"
)


@pytest.fixture(scope="module")
def script():
    """A function that imports a module of the builder by name, as its scripts do, and forgets it afterwards."""
    folder = DOCS / "builder"
    before = set(sys.modules)
    sys.path.insert(0, str(folder))
    yield import_module
    sys.path.remove(str(folder))
    for name in {path.stem for path in folder.glob("*.py")} & (set(sys.modules) - before):
        del sys.modules[name]


@pytest.fixture(scope="module")
def project(script, tmp_path_factory):
    """A folder with mkdocs.yml and all pages."""
    folder = tmp_path_factory.mktemp("project")
    script("pages").write(folder)
    return folder


@pytest.fixture(scope="module")
def site(project):
    """The site, built as `make docs` builds it."""
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--config-file", project / "mkdocs.yml"]
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "NO_MKDOCS_2_WARNING": "1"})
    assert done.returncode == 0, done.stderr
    return project / "site"


class Loaded(HTMLParser):
    """What a browser loads for a page, and the text of its paragraphs."""

    def __init__(self, text):
        super().__init__()
        self.addresses, self.paragraphs, self._in_code = [], [], 0
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        given = dict(attributes)
        if tag in ("script", "img", "iframe", "source") and given.get("src"):
            self.addresses.append(given["src"])
        if tag == "link" and given.get("rel") not in ("canonical", "next", "prev"):
            self.addresses.append(given["href"])
        if tag == "p":
            self.paragraphs.append("")
        self._in_code += tag == "code"

    def handle_endtag(self, tag):
        self._in_code -= tag == "code"

    def handle_data(self, data):
        if self.paragraphs and not self._in_code:
            self.paragraphs[-1] += data


@needs_mkdocs
def test_a_strict_build_passes_and_no_page_loads_anything_from_outside(site):
    pages = sorted(site.rglob("*.html"))
    assert {"index.html", "suites.html", "trainers.html", "digits.html"} <= {page.name for page in pages}
    for page in pages:
        text = page.read_text(encoding="utf-8")
        outside = [each for each in Loaded(text).addresses if "//" in each]
        assert not outside, f"{page.name} loads {outside}"
        assert "mermaid" not in text, f"{page.name}: the theme would load what draws a diagram from outside"
    for sheet in site.rglob("*.css"):
        outside = re.findall(r"(?:@import|url\()\s*['\"]?(?:https?:)?//[^)'\"]*", sheet.read_text(encoding="utf-8"))
        assert not outside, f"{sheet.name} loads {outside}"


@needs_mkdocs
def test_lists_and_tables_of_the_documents_are_lists_and_tables_of_the_site(site):
    """Unlike GitHub, Python-Markdown wants an empty line before them."""
    for page in sorted(site.rglob("*.html")):
        for paragraph in Loaded(page.read_text(encoding="utf-8")).paragraphs:
            assert not re.search(r"^(?:[-*] |\d\. |\| )", paragraph, re.M), f"{page.name}: {paragraph[:200]}"


def test_the_navigation_has_every_page_once(project):
    def files(entry):
        for each in entry if isinstance(entry, list) else entry.values() if isinstance(entry, dict) else ():
            yield from [each] if isinstance(each, str) else files(each)

    listed = list(files(yaml.safe_load((DOCS / "mkdocs.yml").read_text(encoding="utf-8"))["nav"]))
    pages = {path.relative_to(project / "docs").as_posix() for path in (project / "docs").rglob("*.md")}
    missing = {page for page in pages if not page.startswith("repository/")} - {*listed}
    assert not missing, f"give {', '.join(sorted(missing))} a place under nav in docs/mkdocs.yml"
    assert len(listed) == len({*listed}) and not {*listed} - pages


def test_the_pages_of_methods_hold_what_every_method_file_says(project):
    pages = {kind: project / "docs" / "methods" / f"{kind.lower()}s.md" for kind in ("Trainer", "Scorer")}
    texts = {kind: page.read_text(encoding="utf-8") for kind, page in pages.items()}
    index = (project / "docs" / "methods" / "index.md").read_text(encoding="utf-8")
    for card in Registry().cards.values():
        assert f"{card.kind.lower()}s.md#{card.name})" in index
        (section,) = re.findall(rf"^### .* {{: #{card.name} }}$(.*?)(?=^##|\Z)", texts[card.kind], re.M | re.S)
        plain = section.replace("\\", "")
        assert card.summary in plain
        assert card.paper.splitlines()[0] in plain
        for equation in re.findall(r"^ {4}.*$", card.paper, re.M):
            assert equation in section.splitlines(), f"{card.name}: {equation}"
        for each in card.parameters.values():
            assert f"| `{each.name}` | {describe(each.type)} | `{each.default}` |" in plain
        for need in card.needs:
            assert re.search(rf"^- Needs: .*`{need}`", section, re.M)
        if card.starts_from is not None:
            assert f"- Starts from: the weights of `{card.starts_from}`" in section


def test_the_python_reference_has_every_public_name(project):
    pages = sorted((project / "docs" / "python").glob("*.md"))
    headings = re.findall(r"^#+ (\w+)$", "\n".join(page.read_text(encoding="utf-8") for page in pages), re.M)
    assert not {*oodbench.__all__, *functional.__all__} - {*headings, "__version__"}


def test_a_signature_of_the_reference_has_values_and_types_as_users_write_them(script):
    text = script("python_pages").pages()["python/index.md"]
    assert 'suite: str | Path = "digits-c",' in text.replace("'", '"')
    assert "-> list[Result]" in text and "-> Detector" in text
    assert "@classmethod\ndef load(" in text


def test_generated_pages_have_no_commands_that_nothing_runs(project):
    for page in [*(project / "docs" / "methods").glob("*.md"), *(project / "docs" / "python").glob("*.md")]:
        assert not re.findall(r"^ {4}(?:\$ )?oodbench ", page.read_text(encoding="utf-8"), re.M)


@pytest.mark.parametrize(
    ("link", "expected"),
    [
        ("[a](results.md#raw-scores)", "[a](results.md#raw-scores)"),
        ("[a](start.md)", "[a](index.md)"),
        ("[a](https://example.org/x.md)", "[a](https://example.org/x.md)"),
        ("[a](#below)", "[a](#below)"),
        ("[a](notebooks/digits.ipynb)", "[a](notebooks/digits.md)"),
        ("![a](report.png)", "![a](report.png)"),
        ("[a](../results/reference/README.md)", "[a](repository/results/reference/README.md)"),
        ("[a](../results/reference)", "[a](repository/results/reference/README.md)"),
        ("[a](../methods)", "a (`methods`)"),
        ("[`methods/knn.py`](../methods/knn.py)", "`methods/knn.py`"),
        ("[mnist-c](../results/reference/mnist-c)", "`results/reference/mnist-c`"),
        ("```\n[a](../methods)\n```", "```\n[a](../methods)\n```"),
    ],
)
def test_links_through_the_repository_become_links_of_the_site(script, link, expected):
    assert script("links").rewritten(link, DOCS / "design.md", lambda _: None) == expected


def test_a_link_from_a_notebook_leads_up_to_the_page_it_means(script):
    given = "[a](../results.md) and [b](../start.md)"
    assert (
        script("links").rewritten(given, DOCS / "notebooks" / "digits.ipynb", lambda _: None)
        == "[a](../results.md) and [b](../index.md)"
    )


def test_a_notebook_becomes_a_page_with_its_code_its_outputs_and_itself(script, tmp_path):
    cells = [
        {"cell_type": "markdown", "source": ["# Title\n", "text"]},
        {
            "cell_type": "code",
            "source": "print(1)",
            "outputs": [
                {"output_type": "stream", "text": ["1\n"]},
                {"output_type": "execute_result", "data": {"text/html": "<b>2</b>", "text/plain": "2"}},
                {"output_type": "display_data", "data": {"image/png": "UE5H\n", "text/plain": "<Figure>"}},
            ],
        },
    ]
    (tmp_path / "some.ipynb").write_text(json.dumps({"cells": cells}))
    page = script("notebook_pages").page(tmp_path / "some.ipynb")
    assert page.text == (
        "# Title\ntext\n\n```python\nprint(1)\n```\n\n```text\n1\n```\n\n```text\n2\n```\n\n"
        '![what the cell draws](some-1.png)\n\n<a href="some.ipynb" download>Download this notebook</a>\n'
    )
    assert page.files["some-1.png"] == b"PNG"
    assert json.loads(page.files["some.ipynb"]) == {"cells": cells}


def test_stored_notebooks_were_run_from_the_first_cell_to_the_last():
    assert [path.stem for path in NOTEBOOKS] == ["digits", "your_network"]
    for path in NOTEBOOKS:
        cells = [cell for cell in json.loads(path.read_text(encoding="utf-8"))["cells"] if cell["cell_type"] == "code"]
        assert [cell["execution_count"] for cell in cells] == list(range(1, len(cells) + 1))
        assert not [each for cell in cells for each in cell["outputs"] if each["output_type"] == "error"]


@needs_nbclient
@pytest.mark.slow
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs_in_under_two_minutes(path, script):
    began = time.monotonic()
    notebook = script("run_notebooks").ran(path)
    assert time.monotonic() - began < 120
    assert all(cell.execution_count for cell in notebook.cells if cell.cell_type == "code")
