"""What a results folder holds, to be compared to the bit with another."""

import numpy as np

from oodbench.results.folder import read_folder


def content(folder):
    """Status, metrics, digest of the weights and raw scores of every result, by its place."""
    results, problems = read_folder(folder)
    assert not problems
    found = {}
    for result in results:
        with np.load(result.path.with_suffix(".npz")) as arrays:
            scores = {name: (array.dtype.str, array.tobytes()) for name, array in arrays.items()}
        found[result.path.relative_to(folder)] = (result.status, result.metrics, result.weights, scores)
    return found
