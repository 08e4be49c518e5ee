"""What a results folder holds, to be compared to the bit with another."""

from result_files import arrays_of

from oodbench.results.folder import read_folder


def content(folder):
    """Status, metrics, digest of the weights and raw scores of every result, by its place."""
    results, problems = read_folder(folder)
    assert not problems
    found = {}
    for result in results:
        place = result.path.relative_to(folder)
        found[place] = (result.status, result.metrics, result.weights, arrays_of(result))
    return found
