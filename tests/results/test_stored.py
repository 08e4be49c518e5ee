"""What scorers of a network share on the disk: written once, before the result that names it, gone with the last."""

import os
import subprocess
import sys
import textwrap
from dataclasses import replace

import numpy as np
import pytest
from made_results import a_result
from result_files import change_arrays

from oodbench.results import stored
from oodbench.results.folder import read_folder
from oodbench.results.metrics import Scored
from oodbench.results.result import Unreadable, read
from oodbench.results.stored import files_of, network_file, read_scores, remove, write

LABELS = np.int16([0, 1, 0, 1])


def scores(*own, predicted=(0, 1, 1, 1)):
    """Of a scorer on a network with these predictions."""
    confidence = np.full(4, 0.5, np.float32)
    id = Scored(np.float64(own or (0, 1, 2, 3)), np.int16(predicted), LABELS, confidence)
    return {"id": id, "semantic": Scored(np.float64([3, 4]), np.int16([0, 1]), None, confidence[:2])}


@pytest.fixture
def home(tmp_path):
    return tmp_path / "results"


def saved(home, method, seed=0, **options):
    path = stored.file_of(home, "digits-c", "unseen-digits", method, seed, "0123456789abcdef")
    return write(a_result(method=method, seed=seed), path, scores(**options), [])


def networks(home):
    return sorted(path.name for path in home.rglob("network-*"))


def test_scorers_of_one_network_share_one_file_and_keep_their_own_scores(home):
    one, other = saved(home, "msp"), saved(home, "knn")
    assert networks(home) == [network_file(one.path, one.network).name] and one.network == other.network
    alone = os.path.getsize(one.path.with_suffix(".safetensors"))
    assert alone < 400  # six numbers and two names
    elsewhere = saved(home, "scone", predicted=(0, 0, 0, 0))
    assert len(networks(home)) == 2 and elsewhere.network != one.network
    for result in read_folder(home)[0]:
        assert read_scores(result)["id"].labels.tolist() == [0, 1, 0, 1]


def test_it_is_equal_whoever_writes_it(home, tmp_path):
    first, second = saved(home, "msp"), saved(tmp_path / "others", "knn")
    assert (
        network_file(first.path, first.network).read_bytes() == network_file(second.path, second.network).read_bytes()
    )


def test_it_goes_with_the_last_result_that_names_it(home):
    one, other, third = saved(home, "msp"), saved(home, "knn"), saved(home, "scone", predicted=(1, 1, 1, 1))
    remove([one], home)
    assert network_file(one.path, one.network).exists() and read_scores(other)
    remove([other], home)
    assert networks(home) == [network_file(third.path, third.network).name]
    remove([third], home)
    assert [path.name for path in home.iterdir()] == [stored.LOCK]


def test_a_result_that_is_replaced_takes_what_it_alone_named_with_it(home):
    one, other = saved(home, "msp"), saved(home, "knn")
    change_arrays(one.path, id_predictions=np.int16([1, 1, 1, 1]))
    assert len(networks(home)) == 2 and read_scores(other)
    change_arrays(other.path, id_predictions=np.int16([1, 1, 1, 1]))
    assert networks(home) == [network_file(one.path, read(one.path).network).name]
    write(replace(read(other.path), status="failed", error="no", metrics={}), other.path, {}, [])
    assert not other.path.with_suffix(".safetensors").exists() and read_scores(read(one.path))


def test_a_damaged_one_is_named_by_its_scorers_and_mended_by_the_next_that_is_written(home):
    one = saved(home, "msp")
    network_file(one.path, one.network).write_bytes(b"damaged")
    with pytest.raises(Unreadable, match="damaged"):
        read_scores(one)
    saved(home, "knn")
    assert read_scores(one)
    network_file(one.path, one.network).unlink()
    with pytest.raises(FileNotFoundError):
        read_scores(one)


def test_of_a_result_that_another_network_took_the_place_of_nothing_passes_for_it(home):
    """Arrays of the same names and types are not enough: the result names their digests."""
    one, other = saved(home, "msp"), saved(home, "knn", predicted=(0, 0, 0, 0))
    network_file(one.path, one.network).write_bytes(network_file(other.path, other.network).read_bytes())
    with pytest.raises(Unreadable, match="'id_predictions' is not what the result names"):
        read_scores(one)


KILLED = """
import os, sys
from pathlib import Path
sys.path.insert(0, {tests!r})
import test_stored
from oodbench.results import stored

def write_bytes(path, content, followed=False, real=stored.write_bytes):
    if path.suffix == {before!r}:
        os._exit(9)
    real(path, content, followed)

stored.write_bytes = write_bytes
test_stored.saved(Path({home!r}), "msp")
"""


@pytest.mark.parametrize("before", [".safetensors", ".jsonl", ".json"])
def test_killed_between_the_shared_arrays_and_the_result_the_same_write_ends_in_the_same_files(home, tmp_path, before):
    here = os.path.dirname(__file__)
    tests = [here, os.path.dirname(here)]
    code = textwrap.dedent(KILLED).format(tests=here, before=before, home=str(home))
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(tests)}
    killed = subprocess.run([sys.executable, "-c", code], env=environment, check=False)
    assert killed.returncode == (9 if before != ".jsonl" else 0)  # this result has no log
    assert before == ".jsonl" or read_folder(home) == ([], {})  # no half result
    result, whole = saved(home, "msp"), saved(tmp_path / "whole", "msp")
    left = {path.relative_to(home): path.read_bytes() for path in home.rglob("*") if path.is_file()}
    assert left == {
        path.relative_to(tmp_path / "whole"): path.read_bytes()
        for path in (tmp_path / "whole").rglob("*")
        if path.is_file()
    }
    assert read_scores(result).keys() == read_scores(whole).keys()


def test_files_of_a_result_travel_and_arrive_as_they_were(home, tmp_path):
    one = saved(home, "msp")
    files = {name: path.read_bytes() for name, path in files_of(one.path).items()}
    assert {*files} == {".json", ".safetensors", network_file(one.path, one.network).name}
    there = stored.file_of(tmp_path / "there", "digits-c", "unseen-digits", "msp", 0, "0123456789abcdef")
    stored.place(there, files)
    assert read(there) == read(one.path) and read_scores(read(there))["id"].scores.tolist() == [0, 1, 2, 3]


def test_removing_and_writing_at_a_time_never_leaves_a_result_without_its_arrays(home):
    """Two processes: one writes scorers of a network, the other removes them, over and over."""
    here = os.path.dirname(__file__)
    code = (
        "import sys; from pathlib import Path; import test_stored as t\n"
        "home, method = Path(sys.argv[1]), sys.argv[2]\n"
        "for _ in range(60):\n    result = t.saved(home, method)\n    t.read_scores(result)\n"
        "    t.remove([result], home)\nt.saved(home, method)\n"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([here, os.path.dirname(here)])}
    both = [
        subprocess.Popen([sys.executable, "-c", code, str(home), method], env=environment, stderr=subprocess.PIPE)
        for method in ("msp", "knn")
    ]
    for each in both:
        _, errors = each.communicate(timeout=120)
        assert each.returncode == 0, errors.decode()
    results, problems = read_folder(home)
    assert (
        len(results) == 2 and not problems and all(read_scores(each) for each in results) and len(networks(home)) == 1
    )
