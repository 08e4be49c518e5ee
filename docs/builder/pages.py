"""Write what mkdocs makes the documentation site from: its configuration, the documents, and pages read off the code.

    python docs/builder/pages.py build

or, with mkdocs after it: make docs
"""

import argparse
import shutil
from pathlib import Path

import links
import method_pages
import notebook_pages
import python_pages


class Tree:
    """The folder of pages while it is written."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._known: set[Path] = set()

    def write(self, name: str | Path, text: str) -> None:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")

    def add(self, file: Path) -> None:
        """A file of the repository and, if it is a document, every file that it links to."""
        if file in self._known:
            return
        self._known.add(file)
        if file.suffix == ".ipynb":
            page = notebook_pages.page(file)
            self.write(links.placed(file), links.rewritten(page.text, file, self.add))
            for name, content in page.files.items():
                (self.folder / links.placed(file)).with_name(name).write_bytes(content)
        elif file.suffix == ".md":
            text = file.read_text(encoding="utf-8")
            self.write(links.placed(file), links.rewritten(text, file, self.add))
        else:
            there = self.folder / links.placed(file)
            there.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(file, there)


def write(folder: Path) -> None:
    """All pages, into `docs` of a folder, which holds nothing else afterwards, and the configuration beside it."""
    pages = folder / "docs"
    shutil.rmtree(pages, ignore_errors=True)
    tree = Tree(pages)
    for file in sorted([*links.DOCS.glob("*.md"), *links.DOCS.glob("notebooks/*.ipynb")]):
        tree.add(file)
    for name, text in {**method_pages.pages(), **python_pages.pages()}.items():
        tree.write(name, text)
    shutil.copyfile(Path(__file__).with_name("site.css"), pages / "site.css")
    shutil.copyfile(links.DOCS / "mkdocs.yml", folder / "mkdocs.yml")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="where mkdocs.yml and docs/ go; docs/ is written anew")
    write(parser.parse_args().folder)
