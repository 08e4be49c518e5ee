"""A submission as a user makes it, for tests of what reads one: a plugin scorer, two settings, two seeds."""

import io
import json
import shutil
import zipfile
from functools import cache
from pathlib import Path
from tempfile import mkdtemp

from command_line import assert_done, oodbench, smoke

from oodbench import digests
from oodbench.data.untrusted import plain_zip

PLUGIN = '''"""A scorer of somebody's."""

from dataclasses import dataclass

from oodbench import Outputs, Scorer


@dataclass
class Mine(Scorer):
    """Largest logit, negated."""

    strength: float = 1.0

    def score(self, out: Outputs):
        return -self.strength * out.logits.amax(dim=-1)
'''
FIRST = "digits-c-smoke/photo-patches/mine/seed0"  # how the files of its first cell begin


@cache
def _made() -> tuple[Path, bytes]:
    """A results folder and the archive of it, made once."""
    home = Path(mkdtemp(prefix="oodbench-tests-"))
    (home / "mine.py").write_text(PLUGIN)
    assert smoke(home / "results", "mine,knn", "--seeds", "0,1", "--plugin", home / "mine.py").status == 0
    assert_done(oodbench("submit", home / "results", "--methods", "mine", "--out", home / "mine.zip"))
    return home, (home / "mine.zip").read_bytes()


def submitted() -> bytes:
    """The archive."""
    return _made()[1]


def results_in(folder: Path) -> Path:
    """A copy of the results and the plugin, to be changed."""
    shutil.copytree(_made()[0] / "results", folder / "results")
    shutil.copy(_made()[0] / "mine.py", folder)
    return folder / "results"


def members(archive: bytes) -> dict[str, bytes]:
    with zipfile.ZipFile(io.BytesIO(archive)) as packed:
        return {name: packed.read(name) for name in packed.namelist()}


def named(files: dict[str, bytes], suffix: str, start: str = FIRST) -> str:
    """The one file whose name begins and ends so."""
    (name,) = [each for each in files if each.startswith(start) and each.endswith(suffix)]
    return name


def packed_again(path: Path, files: dict[str, bytes], with_digests: bool = True) -> Path:
    """An archive of these files; whoever tampers makes the digests fit too."""
    if with_digests:
        manifest = json.loads(files["submission.json"])
        manifest["files"] = {name: digests.of_bytes(each) for name, each in files.items() if name != "submission.json"}
        files = {**files, "submission.json": json.dumps(manifest).encode()}
    plain_zip.write(path, files)
    return path
