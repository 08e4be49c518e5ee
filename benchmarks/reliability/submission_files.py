"""Submissions: an archive of a plugin's results, whole, and how it is verified.

A damaged one held if it was refused in one line, if something of it did not hold, or if nothing that counts changed:
with the digests as they were every file has its bytes, and with digests that fit the damage every metric its value. The
method's file would make the canary if anybody ran it.
"""

import io
import json
import random
import zipfile
from pathlib import Path

from damage import in_bytes, in_json

from oodbench import api, digests
from oodbench.data.untrusted import plain_zip
from oodbench.results.folder import SUBMISSION
from oodbench.running.submitting import submit
from oodbench.running.verifying import verify

PLUGIN = """
from dataclasses import dataclass

from oodbench import Outputs, Scorer


@dataclass
class Mine(Scorer):
    strength: float = 1.0

    def score(self, out: Outputs):
        return -self.strength * out.logits.amax(dim=-1)
"""


def archive(folder: Path, canary: Path) -> bytes:
    """Of two seeds of a plugin in one setting, each a training of a second."""
    folder.mkdir()
    plugin, results, out = folder / "mine.py", folder / "results", folder / "mine.zip"
    plugin.write_text(PLUGIN)
    api.run(preset="smoke", methods="mine", settings="unseen-digits", seeds=2, plugins=plugin, results=results)
    plugin.write_text(f"__import__('os').mkdir({str(canary)!r})\n{PLUGIN}")
    submit(results, "mine", out, plugins=[plugin])
    return out.read_bytes()


def in_a_file(content: bytes, chance: random.Random) -> bytes:
    """One file of it damaged as its kind is, and digests that fit."""
    files = _files(content)
    name = chance.choice([*files, *(each for each in files if each.endswith((".json", ".safetensors")))])
    damages = {".json": (in_json, in_json, in_bytes)}
    files[name] = chance.choice(damages.get(Path(name).suffix, (in_bytes,)))(files[name], chance)
    if chance.random() < 0.1:
        files[name + "x"] = files.pop(name)
    try:
        manifest = json.loads(files[SUBMISSION])
        manifest["files"] = {each: digests.of_bytes(files[each]) for each in files if each != SUBMISSION}
        files[SUBMISSION] = json.dumps(manifest).encode()
    except (KeyError, TypeError, ValueError):  # which was what is damaged
        pass
    return _packed(files)


def same_files(path: Path, whole: bytes) -> str | None:
    """Of an archive whose digests are as they were."""
    if not verify(path).holds:
        return None
    before, after = (
        {name: each for name, each in _files(some).items() if name != SUBMISSION} for some in _both(path, whole)
    )
    return None if before == after else "other files hold"


def same_metrics(path: Path, whole: bytes) -> str | None:
    """Of an archive whose digests fit what is there."""
    if not verify(path).holds:
        return None
    before, after = (_metrics(_files(some)) for some in _both(path, whole))
    return None if after.items() <= before.items() else "other metrics hold"


def _both(path: Path, whole: bytes) -> tuple[bytes, bytes]:
    return whole, path.read_bytes()


def _files(content: bytes) -> dict[str, bytes]:
    with zipfile.ZipFile(io.BytesIO(content)) as packed:
        return {name: packed.read(name) for name in packed.namelist()}


def _packed(files: dict[str, bytes]) -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        for name, content in sorted(files.items()):
            archive.writestr(zipfile.ZipInfo(name, plain_zip.EPOCH), content)
    return packed.getvalue()


def _metrics(files: dict[str, bytes]) -> dict[str, dict[str, float]]:
    """Of every result, rounded to what a check allows."""
    results = {name: json.loads(each) for name, each in files.items() if name.endswith(".json") and name != SUBMISSION}
    return {name: {key: round(value, 8) for key, value in each["metrics"].items()} for name, each in results.items()}
