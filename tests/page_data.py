"""What a page holds, read back from its files, and small folders of results to make pages of."""

import base64
import gzip
import json
import re
from functools import partial

from result_files import REFERENCE as REFERENCE
from result_files import reference

from oodbench.running.repeat import Files, command

COMMAND = partial(command, files=Files())


def unpacked(text):
    return json.loads(gzip.decompress(base64.b64decode(text)))


def chunks_of(page):
    """Of a page in one file, by name."""
    found = re.findall(r'<script type="application/gzip" id="chunk-([^"]+)">([^<]*)</script>', page.read_text("utf-8"))
    return {name: unpacked(text) for name, text in found}


def chunks_beside(page):
    """Of the files beside a page, by name."""
    files = sorted((page.parent / "data").iterdir())
    found = [re.fullmatch(r'oodbenchChunk\("([^"]+)","([^"]+)"\);\n', file.read_text()) for file in files]
    return {match[1]: unpacked(match[2]) for match in found}


def some_of(suite, folder, methods, seeds=(0, 1, 2)):
    """Committed results of a few methods and seeds, copied."""
    reference(folder, suite, lambda result: result.method in methods and result.seed in seeds)
    return folder
