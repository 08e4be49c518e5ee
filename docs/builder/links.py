"""Links of the documents, which lead through the repository, as links of the site.

On GitHub a page may link to any file. The site has the pages of docs/, and of other Markdown files and images those
that a page links to. A link to anything else becomes its text, with the path in the repository.
"""

import os
import re
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
ELSEWHERE = "repository"  # the folder of the site for files from outside docs/
COPIED = (".md", ".png", ".svg", ".ipynb")
_LINK = re.compile(r"(!?)\[([^\]]*)\]\(([^)\s]+)\)")
_FENCE = re.compile(r"^```.*?^```", re.M | re.S)


def placed(file: Path) -> Path:
    """Where the site has a file of the repository: the page that opens the site is its index."""
    if not file.is_relative_to(DOCS):
        return Path(ELSEWHERE) / file.relative_to(ROOT)
    inside = file.relative_to(DOCS)
    return Path("index.md") if inside == Path("start.md") else inside.with_suffix(_suffix(file))


def _suffix(file: Path) -> str:
    """A notebook is a page too."""
    return ".md" if file.suffix == ".ipynb" else file.suffix


def rewritten(text: str, source: Path, copy: Callable[[Path], None]) -> str:
    """A document's text with links of the site; `copy` is told of every file that the site must have for them."""

    def link(mark: str, words: str, path: str, anchor: str) -> str:
        target = Path(os.path.normpath(source.parent / path))
        if (target / "README.md").is_file():
            target /= "README.md"
        if not target.is_file() or target.suffix not in COPIED:
            named = target.relative_to(ROOT).as_posix()
            return f"`{named}`" if named.endswith(words.strip("`")) else f"{words} (`{named}`)"
        copy(target)
        there = os.path.relpath(placed(target), placed(source).parent)
        return f"{mark}[{words}]({Path(there).as_posix()}{anchor})"

    return changed(text, link)


def changed(text: str, link: Callable[[str, str, str, str], str]) -> str:
    """A text with the links to files replaced by what `link` makes of them: `!` of an image, words, path, `#anchor`."""

    def replaced(match: re.Match[str]) -> str:
        mark, words, address = match.groups()
        path, hash_, anchor = address.partition("#")
        if not path or "://" in path or path.startswith("mailto:"):
            return match[0]
        return link(mark, words, path, hash_ + anchor)

    pieces, end = [], 0
    for fence in _FENCE.finditer(text):
        pieces += [_LINK.sub(replaced, text[end : fence.start()]), fence[0]]
        end = fence.end()
    return "".join([*pieces, _LINK.sub(replaced, text[end:])])
