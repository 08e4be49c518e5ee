"""Files of results as tests change them: sealed again where the change is to count, or not, where it is to be found."""

import json
from pathlib import Path

import numpy as np

from oodbench import digests
from oodbench.results.folder import read_folder
from oodbench.results.metrics import Scored
from oodbench.results.result import SINCE_3, read
from oodbench.results.stored import contents_of, read_scores, write, write_arrays

REFERENCE = Path(__file__).parents[1] / "results" / "reference"


def sealed(values):
    """The text of a result with these values and the digest of just them."""
    values = {name: value for name, value in values.items() if name != "digest"}
    text = json.dumps(values, indent=1, sort_keys=True) + "\n"
    return json.dumps({**values, "digest": digests.of_text(text)}, indent=1, sort_keys=True) + "\n"


def change(path, edit):
    """Let `edit` change the values of a result, as a run would have written them."""
    values = json.loads(path.read_text())
    edit(values)
    path.write_text(sealed(values))


def change_arrays(path, **arrays):
    """Write a result with these arrays in place of its own; None leaves one out."""
    result = read(path)
    scores = {split: dict(vars(each)) for split, each in read_scores(result).items()}
    for name, array in arrays.items():
        split, _, kind = name.partition("_")
        scores[split][kind] = array
    return write(result, path, {split: Scored(**each) for split, each in scores.items()}, [])


def arrays_of(result):
    """Type and bytes of every array, by name."""
    return {
        f"{split}_{kind}": (array.dtype.str, array.tobytes())
        for split, scored in read_scores(result).items()
        for kind, array in vars(scored).items()
        if array is not None
    }


def reference(folder, suite, chosen=lambda result: True):
    """Copies of reference results as files of a folder, as a run would leave them; their paths."""
    paths = []
    for result in read_folder(REFERENCE / suite)[0]:
        if chosen(result):
            path = folder.joinpath(*result.path.parts[-4:])
            write_arrays(result, path, *contents_of(result))
            paths.append(path)
    assert paths
    return paths


def flip(path, place=1 / 2):
    """One bit of a file."""
    content = bytearray(path.read_bytes())
    content[int(place * len(content))] ^= 1
    path.write_bytes(bytes(content))


def as_schema_2(path, **values):
    """Write a result again as oodbench 0.2 did, with these values in place of its own."""
    arrays, _ = contents_of(read(path))
    stored = {**json.loads(path.read_text()), "schema": 2, **values}
    text = json.dumps({name: each for name, each in stored.items() if name not in (*SINCE_3, "digest")}, indent=1)
    path.write_text(text)
    np.savez_compressed(path.with_suffix(".npz"), **arrays)
    path.with_suffix(".safetensors").unlink()
