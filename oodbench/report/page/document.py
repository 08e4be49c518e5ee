"""Chunks in, one HTML document out: the template with its styles and scripts, and what may run in it.

The document names its script and its style by their digests in its own policy: nothing else runs, whatever a result
says, and nothing is fetched from anywhere but the folder it lies in.
"""

import base64
import hashlib
from collections.abc import Sequence
from html import escape
from pathlib import Path

from oodbench.report.page.chunks import Chunk

HERE = Path(__file__).parent
STYLES = ("uplot/uPlot.min.css", "page.css")
SCRIPTS = (
    "uplot/uPlot.iife.min.js", "js/elements.js", "js/chunks.js", "js/address.js", "js/figures.js", "js/plots.js",
    "js/leaderboard.js", "js/tradeoff.js", "js/cell.js", "js/compare.js", "js/sweeps.js", "js/papers.js", "js/main.js",
)  # fmt: skip
GENERATOR = '<meta name="generator" content="oodbench">'  # by which a page of ours is known again


def document(title: str, chunks: Sequence[Chunk], index: Chunk) -> str:
    """With these chunks inside; others are files beside it."""
    style = _text(*STYLES)
    script = _text(*SCRIPTS)
    data = "\n".join(
        f'<script type="application/gzip" id="chunk-{each.name}">{each.text}</script>' for each in (index, *chunks)
    )
    values = {
        "title": escape(title),
        "generator": GENERATOR,
        "policy": escape(_policy(style, script), quote=True),
        "style": style,
        "data": data,
        "script": script,
    }
    text = (HERE / "page.html").read_text(encoding="utf-8")
    before, *parts = text.split("{{")
    return before + "".join(values[part.partition("}}")[0]] + part.partition("}}")[2] for part in parts)


def _policy(style: str, script: str) -> str:
    """From a disk, `'self'` means nothing and `file:` stands for it."""
    return (
        f"default-src 'none'; style-src {_hash(style)}; script-src {_hash(script)} 'self' file:; "
        "img-src 'self' data:; base-uri 'none'; form-action 'none'"
    )


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def _text(*names: str) -> str:
    """Files after each other. None may end the element it is put in."""
    return "\n" + "\n".join((HERE / name).read_text(encoding="utf-8").strip() for name in names) + "\n"
