"""Run notebooks, each in an empty folder of its own, and store what they print and draw.

    python docs/builder/run_notebooks.py docs/notebooks/*.ipynb

or: make notebooks
"""

import argparse
import tempfile
import time
from pathlib import Path
from typing import Any

import nbformat
from nbclient import NotebookClient

LIMIT = 120  # seconds for a cell


def ran(file: Path) -> Any:
    """The notebook with its outputs; an error in a cell is raised."""
    notebook = nbformat.read(file, as_version=4)
    with tempfile.TemporaryDirectory() as folder:
        NotebookClient(notebook, timeout=LIMIT, resources={"metadata": {"path": folder}}).execute()
    return notebook


def store(notebook: Any, file: Path) -> None:
    """Without what differs from run to run although the outputs do not."""
    for cell in notebook.cells:
        cell.metadata.pop("execution", None)
    notebook.metadata.pop("language_info", None)
    nbformat.write(notebook, file)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("notebooks", nargs="+", type=Path)
    for file in parser.parse_args().notebooks:
        began = time.monotonic()
        store(ran(file), file)
        print(f"{file}: {time.monotonic() - began:.0f} s")
