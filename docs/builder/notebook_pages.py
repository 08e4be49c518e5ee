"""A notebook with its stored outputs as a Markdown page and the images beside it."""

import base64
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


@dataclass
class Page:
    text: str
    files: dict[str, bytes] = field(default_factory=dict)  # by name, in the folder of the page


def page(notebook: Path) -> Page:
    stored = notebook.read_text(encoding="utf-8")
    pieces: list[str] = []
    files = {notebook.name: stored.encode()}
    for cell in json.loads(stored)["cells"]:
        source = _joined(cell["source"])
        if cell["cell_type"] != "code":
            pieces.append(source)
            continue
        pieces.append(_fenced(source, "python"))
        for output in cell["outputs"]:
            image = output.get("data", {}).get("image/png")
            if image is not None:
                name = f"{notebook.stem}-{len(files)}.png"
                files[name] = base64.b64decode(_joined(image))
                pieces.append(f"![what the cell draws]({name})")
            elif text := _text(output):
                pieces.append(_fenced(text, "text"))
    # The link is written as HTML, since a link to a notebook is otherwise one to its page.
    pieces.append(f'<a href="{notebook.name}" download>Download this notebook</a>')
    return Page("\n\n".join(pieces) + "\n", files)


def _joined(lines: str | list[str]) -> str:
    """A text of a notebook, which may be stored line by line."""
    return lines if isinstance(lines, str) else "".join(lines)


def _text(output: dict[str, Any]) -> str:
    if output["output_type"] == "stream":
        return _joined(output["text"])
    return _joined(output.get("data", {}).get("text/plain", ""))


def _fenced(text: str, language: str) -> str:
    return f"```{language}\n{text.strip()}\n```"
