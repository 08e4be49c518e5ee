"""A pack: one file that whatever shows results reads as the folder it was made of, and that nobody writes to."""

import json
import zipfile

import numpy as np
import pytest
from command_line import assert_done, assert_refused, oodbench, smoke
from result_files import arrays_of, flip, reference

import oodbench as package
from oodbench.results import pack
from oodbench.results.folder import read_folder
from oodbench.results.metrics import evaluate
from oodbench.results.result import Unreadable
from oodbench.results.stored import read_log, read_scores


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Two methods and three seeds of the committed results in one setting."""
    home = tmp_path_factory.mktemp("packs") / "folder"
    reference(home, "digits-c", lambda r: r.method in ("erm", "knn") and r.setting == "unseen-digits" and r.seed < 3)
    return home


@pytest.fixture(scope="module")
def packed(folder):
    assert_done(oodbench("pack", folder, "--out", folder.parent / "p.pack.zip"))
    return folder.parent / "p.pack.zip"


@pytest.fixture(scope="module")
def ranks(folder):
    assert_done(oodbench("pack", folder, "--out", folder.parent / "r.pack.zip", "--ranks"))
    return folder.parent / "r.pack.zip"


def test_results_arrays_and_logs_are_those_of_the_folder(folder, packed):
    ours, problems = read_folder(packed)
    theirs = {each.path.relative_to(folder): each for each in read_folder(folder)[0]}
    assert not problems and len(ours) == len(theirs) == 6
    for each in ours:
        other = theirs[each.path.relative_to(packed)]
        assert each == other and each.pack == packed
        assert arrays_of(each) == arrays_of(other) and read_log(each) == read_log(other)


def test_of_ranks_order_and_ties_are_there_and_every_metric_follows(folder, ranks):
    theirs = {each.path.relative_to(folder): each for each in read_folder(folder)[0]}
    for each in read_folder(ranks)[0]:
        other = theirs[each.path.relative_to(ranks)]
        assert each.ranks and not other.ranks and (each.key, each.metrics) == (other.key, other.metrics)
        assert evaluate(**read_scores(each)) == each.metrics
        own, values = (np.concatenate([s.scores for s in read_scores(r).values()]) for r in (each, other))
        assert np.array_equal(own, np.unique(values, return_inverse=True)[1])
        assert arrays_of(each)["id_confidence"] == arrays_of(other)["id_confidence"]


def test_what_belongs_to_a_network_is_in_it_once(folder, packed):
    with zipfile.ZipFile(packed) as file:
        names = [name for name in file.namelist() if name.startswith("arrays/")]
    arrays = [digest for each in read_folder(folder)[0] for digest in each.arrays.values()]
    assert len(names) == len({*names}) == len({*arrays}) < len(arrays)


@pytest.mark.parametrize(
    "command",
    [
        ["table"],
        ["table", "--format", "latex"],
        ["table", "--format", "csv"],
        ["compare", "--baseline", "erm"],
        ["status"],
        ["check", "--against", "reference"],
    ],
)
def test_commands_print_of_it_what_they_print_of_the_folder(command, folder, packed, ranks):
    name, *options = command
    wanted = oodbench(name, folder, *options)
    for path in (packed, ranks):
        found = oodbench(name, path, *options)
        assert (found.status, found.out.replace(str(path), str(folder))) == (wanted.status, wanted.out)


def test_it_lies_in_a_folder_like_results(folder, packed, tmp_path):
    (tmp_path / "here" / "deep").mkdir(parents=True)
    for i, seeds in enumerate(([0], [1, 2])):
        options = [word for seed in seeds for word in ("--seed", seed)]
        assert_done(oodbench("pack", folder, "--out", tmp_path / "here" / "deep" / f"{i}.pack.zip", *options))
    assert len(read_folder(tmp_path / "here")[0]) == 6
    assert oodbench("table", tmp_path / "here").out == oodbench("table", folder).out


def test_the_functions_of_python_read_it(folder, packed):
    assert package.table(packed) == package.table(folder)
    assert len(package.read_results(packed)) == 6
    assert package.frame(packed).drop(columns="path").equals(package.frame(folder).drop(columns="path"))


def test_figures_are_drawn_of_it_and_those_of_values_say_why_ranks_have_none(packed, ranks, tmp_path):
    for path in (packed, ranks):
        assert_done(oodbench("plot", path, "--only", "roc", "--out", tmp_path / path.name))
    outcome = oodbench("plot", ranks, "--only", "energies", "--out", tmp_path / "energies")
    assert outcome.status == 2 and "ranks" in outcome.err


def test_the_page_is_made_of_it(packed, ranks, tmp_path):
    for path in (packed, ranks):
        made = package.report(path, tmp_path / path.name)
        assert made


def test_nothing_is_written_into_it(packed, folder):
    before = packed.read_bytes()
    assert_refused(smoke(packed, "msp"), "is a file; choose another with --results")
    assert_refused(oodbench("remove", packed, "--seed", "0", "--yes"), "is a pack, which is only read")
    assert_refused(oodbench("merge", folder, "--into", packed), "is a pack, which is only read; merge into a folder")
    assert_refused(oodbench("rescore", packed), "is a pack, which is only read")
    assert packed.read_bytes() == before


def test_one_result_of_it_is_shown_by_its_path(folder, packed):
    (result,) = [each for each in read_folder(packed)[0] if each.method == "knn" and each.seed == 1]
    wanted = assert_done(oodbench("show", folder / result.path.relative_to(packed)))
    assert assert_done(oodbench("show", result.path)).replace(str(packed), str(folder)) == wanted
    assert_refused(oodbench("show", packed / "no.json"), "the pack has no such result")


def test_a_pack_in_a_folder_stays_when_cells_are_removed(folder, packed, tmp_path):
    (tmp_path / "p.pack.zip").write_bytes(packed.read_bytes())
    outcome = oodbench("remove", tmp_path, "--seed", "0", "--yes")
    assert outcome.status == 0 and outcome.out.startswith("nothing to remove")
    assert len(read_folder(tmp_path)[0]) == 6


def test_it_can_be_merged_into_a_folder_as_the_folder_it_came_from(folder, packed, tmp_path):
    assert_done(oodbench("merge", packed, "--into", tmp_path / "into"))
    assert files(tmp_path / "into") == files(folder)


def files(home):
    return {path.relative_to(home): path.read_bytes() for path in home.rglob("*") if path.is_file()}


def test_the_same_results_give_the_same_bytes(folder, packed, tmp_path):
    assert_done(oodbench("pack", folder, "--out", tmp_path / "again.pack.zip"))
    assert (tmp_path / "again.pack.zip").read_bytes() == packed.read_bytes()


def test_it_is_written_once_and_under_its_ending(folder, packed, tmp_path):
    assert_refused(oodbench("pack", folder, "--out", packed), "exists already, and a pack is written once")
    assert_refused(
        oodbench("pack", folder, "--out", tmp_path / "p.zip"), "is not the name of a pack; end it in .pack.zip"
    )
    (tmp_path / "empty").mkdir()
    assert_refused(oodbench("pack", tmp_path / "empty", "--out", tmp_path / "e.pack.zip"), "has no such results")
    assert_refused(oodbench("pack", folder, "--seed", "7", "--out", tmp_path / "e.pack.zip"), "has no such results")
    assert not (tmp_path / "e.pack.zip").exists()


def test_scores_that_are_damaged_are_not_packed(folder, tmp_path):
    home = tmp_path / "copy"
    reference(home, "digits-c", lambda r: r.method == "erm" and r.setting == "unseen-digits" and r.seed == 0)
    (scores,) = home.rglob("seed0-*.safetensors")
    flip(scores)
    assert_refused(oodbench("pack", home, "--out", tmp_path / "d.pack.zip"), "cannot be packed: damaged: ")
    assert not (tmp_path / "d.pack.zip").exists()


def rewritten(packed, target, change):
    """With other members, as another program might write them."""
    with zipfile.ZipFile(packed) as file:
        members = {name: file.read(name) for name in file.namelist()}
    change(members)
    with zipfile.ZipFile(target, "w") as file:
        for name, content in members.items():
            file.writestr(name, content)
    return target


def edited(members):
    members[pack.TEXTS] = members[pack.TEXTS].replace(b'"auroc": 0.', b'"auroc": 0.1', 1)


def index(**values):
    def change(members):
        members[pack.INDEX] = json.dumps({**json.loads(members[pack.INDEX]), **values}).encode()

    return change


DAMAGES = {
    "edited after it was written": edited,
    "'results.json-seq' is missing": lambda members: members.pop(pack.TEXTS),
    "'pack.json'": lambda members: members.update({pack.INDEX: b"{}"}),
    "a pack of schema 99": index(schema=99),
    "6 results, and its index names 0": index(results=[]),
}


@pytest.mark.parametrize("reason", DAMAGES)
def test_damage_is_named_and_what_is_whole_is_read(packed, tmp_path, reason):
    path = rewritten(packed, tmp_path / "d.pack.zip", DAMAGES[reason])
    results, problems = read_folder(path)
    assert len(results) == (5 if DAMAGES[reason] is edited else 0)
    ((_, told),) = problems.items()
    assert reason in told and "\n" not in told
    outcome = oodbench("table", path)
    assert outcome.err.startswith("oodbench: skipped ") and reason in outcome.err


def test_what_is_no_archive_is_named(tmp_path):
    (tmp_path / "x.pack.zip").write_bytes(b"no archive")
    assert "damaged: File is not a zip file" in str(read_folder(tmp_path)[1])


def test_an_array_that_is_missing_or_another_is_named_when_it_is_read(packed, tmp_path):
    result = read_folder(packed)[0][0]
    name, other = (f"arrays/{result.arrays[kind]}.npy" for kind in ("id_scores", "id_labels"))
    lost = rewritten(packed, tmp_path / "lost.pack.zip", lambda members: members.pop(name))
    swapped = rewritten(packed, tmp_path / "s.pack.zip", lambda members: members.update({name: members[other]}))
    objects = np.array([print], dtype=object)
    np.save(tmp_path / "o.npy", objects, allow_pickle=True)
    content = (tmp_path / "o.npy").read_bytes()
    hostile = rewritten(packed, tmp_path / "h.pack.zip", lambda members: members.update({name: content}))
    for path, reason in (
        (lost, "is missing"),
        (swapped, "is not what the result names"),
        (hostile, "damaged: 'id_scores'"),
    ):
        with pytest.raises(Unreadable, match=reason):
            read_scores(read_folder(path)[0][0])
