"""`oodbench run` on what the user has: folders as sets, JPEGs beside lossless images, splits written down, sweeps."""

import numpy as np
import pytest
from command_line import SUITE_FILE, assert_done, assert_refused, oodbench, smoke
from data_files import write
from stand_ins import arrays, data_in, picture

import oodbench as package
from oodbench.config import suite as suites
from oodbench.data import lookup, store
from oodbench.data.parts import build_parts
from oodbench.errors import UserError
from oodbench.results.folder import read_folder

JPEG = (
    "'odd' holds JPEG files, 'digits' does not: a detector can learn the encoding; "
    "--set id.jpeg=75 encodes 'digits' too"
)


@pytest.fixture(autouse=True)
def home(tmp_path):
    with data_in(tmp_path / "data") as home:
        yield home


def folder_of(place, kind="PNG", side=8, classes=("",), each=40):
    random = np.random.default_rng(len(classes))
    ending = {"PNG": "png", "JPEG": "jpg"}[kind]
    return write(
        place, {f"{c}/{i}.{ending}".lstrip("/"): picture(random, side, kind) for c in classes for i in range(each)}
    )


def results_of(folder):
    found, problems = read_folder(folder)
    assert not problems
    return found


def test_any_folder_serves_as_semantic_and_as_covariate_set(tmp_path):
    odd, shifted = folder_of(tmp_path / "odd", side=20), folder_of(tmp_path / "shifted", classes="01234567", each=12)
    both = ["--semantic", f"folder:{odd}", "--covariate", f"folder:{shifted}"]
    out = assert_done(smoke(tmp_path / "results", "msp,scone", *both))
    assert "digits-c-smoke: 2 cells" in out and "holds JPEG files" not in out
    first, second = results_of(tmp_path / "results")
    for result in (first, second):
        assert (result.setting, result.status) == ("odd,covariate=shifted", "ok")
        assert result.data.sets.keys() == {"digits", "folder:odd", "folder:shifted"}
        assert result.data.sets["folder:odd"].source == "a folder of images"
        assert result.data.parts["semantic"].origin == "folder:odd"
        assert result.data.parts["covariate"].origin == "folder:shifted"
        assert str(tmp_path) not in result.path.read_text()
    assert "nothing to do" in assert_done(smoke(tmp_path / "results", "msp,scone", *both))


def test_python_takes_the_same_sets(tmp_path):
    odd = folder_of(tmp_path / "odd")
    (ours,) = package.run(
        "digits-c", "msp", preset="smoke", results=tmp_path / "a", semantic=[f"folder:{odd}"], covariate=["blur"]
    )
    assert_done(smoke(tmp_path / "b", "msp", "--semantic", f"folder:{odd}", "--covariate", "blur"))
    (theirs,) = results_of(tmp_path / "b")
    assert (ours.key, ours.metrics, ours.setting) == (theirs.key, theirs.metrics, "odd,covariate=blur")


@pytest.mark.parametrize(
    ("kind", "side", "noted"), [("JPEG", 8, True), ("PNG", 8, False), ("JPEG", 24, False)], ids=["jpeg", "png", "large"]
)
def test_jpegs_beside_lossless_images_are_noted_if_their_encoding_reaches_the_network(kind, side, noted, tmp_path):
    odd = folder_of(tmp_path / "odd", kind, side)
    out = assert_done(smoke(tmp_path / "results", "msp", "--dry-run", "--semantic", f"folder:{odd}"))
    assert out.count(f"note: {JPEG}\n") == noted and out.count("note:") == noted


def test_encoding_the_id_images_answers_the_note_and_the_result_says_so(tmp_path):
    odd = folder_of(tmp_path / "odd", "JPEG")
    out = assert_done(smoke(tmp_path / "results", "msp", "--semantic", f"folder:{odd}", "--set", "id.jpeg=75"))
    assert "holds JPEG files" not in out
    (result,) = results_of(tmp_path / "results")
    assert result.config.suite.id.jpeg == 75
    origins = {name: part.origin for name, part in result.data.parts.items()}
    assert origins["labelled"] == origins["id"] == origins["wild_id"] == "digits jpeg-75"
    assert origins["covariate"] == "digits jpeg-75 digits_c.gaussian_noise-3" and origins["semantic"] == "folder:odd"


WRONG = [
    (["--semantic", "folder:{}/nowhere"], "there is no file or folder '{}/nowhere'; give the archive or folder of"),
    (["--semantic", "folder:{}/empty"], "'{}/empty' holds no images"),
    (["--semantic", "unseen-digit"], "unknown semantic set 'unseen-digit'; did you mean 'unseen-digits'?"),
    (["--covariate", "blurr"], "unknown corruption 'blurr'; did you mean 'blur'?"),
    (["--covariate", "folder:{}/odd", "--set", "id.jpeg=0"], "id.jpeg=0: expected a quality from 1 to 100, got 0"),
    (
        ["--setting", "unseen-digits", "--semantic", "x"],
        "--setting names a semantic and a covariate set already; leave o",
    ),
    (["--sweep", "margin"], "unknown sweep of digits-c 'margin'; there are none"),
]


@pytest.mark.parametrize(("arguments", "message"), WRONG)
def test_sets_that_cannot_be_used_are_refused_before_anything_trains(arguments, message, tmp_path):
    folder_of(tmp_path / "odd", each=3)
    (tmp_path / "empty").mkdir()
    given = [argument.format(tmp_path) for argument in arguments]
    for network in ([], ["--offline"]):
        assert_refused(smoke(tmp_path / "results", "msp", *given, *network), message.format(tmp_path))
    assert not (tmp_path / "results").exists()


def test_a_folder_with_other_classes_is_no_covariate_set(tmp_path):
    nine = folder_of(tmp_path / "nine", classes="012345678", each=6)
    outcome = smoke(tmp_path / "results", "msp", "--covariate", f"folder:{nine}")
    assert_refused(outcome, "the covariate set 'nine' has more classes than the 8 of the ID data")


def test_a_folder_below_the_users_home_is_found(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    folder_of(tmp_path / "odd")
    assert "odd / msp" in assert_done(smoke(tmp_path / "results", "msp", "--dry-run", "--semantic", "folder:~/odd"))


def test_splits_are_written_on_demand_and_say_which_row_plays_which_part(tmp_path):
    assert_done(smoke(tmp_path / "results", "msp", "--setting", "unseen-digits", "--seeds", "0,1"))
    assert not list((tmp_path / "results").rglob("splits-*"))
    command = ("msp", "--setting", "unseen-digits", "--seeds", "0,1", "--save-splits", "--force")
    assert_done(smoke(tmp_path / "results", *command))
    suite = suites.load("digits-c", "smoke")
    for seed in (0, 1):
        path = tmp_path / "results" / "digits-c-smoke" / "unseen-digits" / f"splits-seed{seed}.npz"
        parts = build_parts(suite, suite.settings[0], seed).items()
        with np.load(path) as written:
            assert set(written) == {*parts, *(f"{name}.origin" for name in parts)}
            for name, part in parts.items():
                assert np.array_equal(written[name], part.rows) and written[f"{name}.origin"] == part.origin
    assert "msp" in assert_done(oodbench("table", tmp_path / "results")).lower()  # they are no results


def test_splits_are_written_also_where_everything_is_done(tmp_path):
    assert_done(smoke(tmp_path / "results", "msp", "--setting", "unseen-digits"))
    assert_done(smoke(tmp_path / "results", "msp", "--setting", "unseen-digits", "--save-splits"))
    assert len(list((tmp_path / "results").rglob("splits-seed0.npz"))) == 1


def test_a_sweep_runs_every_value_and_its_own_methods(tmp_path):
    path = tmp_path / "mine.yaml"
    sweep = "sweeps:\n  k:\n    methods: knn\n    set: {knn.k: [2, 3]}\n    setting: {severity: [1, 5]}\n"
    path.write_text(SUITE_FILE.read_text() + sweep)
    command = ["run", "--suite", path, "--preset", "smoke", "--sweep", "k", "--results", tmp_path / "results"]
    out = assert_done(oodbench(*command))
    assert "mine-smoke: 4 cells, 0 done already, 4 to run in 1 training;" in out
    found = {(r.setting, r.method) for r in results_of(tmp_path / "results")}
    assert found == {(f"unseen-digits,severity={s}", f"knn,k={k}") for s in (1, 5) for k in (2, 3)}
    assert "sweep k: knn, knn.k 2, 3; severity 1, 5" in assert_done(oodbench("show", path))
    assert "nothing to do" in assert_done(oodbench(*command))
    by_python = package.run(str(path), preset="smoke", sweep="k", results=tmp_path / "results")
    assert {(r.setting, r.method) for r in by_python} == found


def test_classes_of_a_covariate_folder_are_matched_by_name(tmp_path):
    """Whatever is missing or comes in another order; a class that the ID data does not have is refused."""
    for name in ("cifar10", "svhn"):
        store.save(name, arrays(lookup.dataset(name), np.random.default_rng(0)), "a test")
    some = folder_of(tmp_path / "some", classes=("truck", "bird", "horse"), each=12)
    suite = suites.load("cifar10-c").with_sets(["svhn"], [f"folder:{some}"])
    parts = build_parts(suite, suite.settings[0], 0)
    assert {*parts.covariate.labels, *parts.wild_covariate.labels} <= {2, 7, 9}
    strange = folder_of(tmp_path / "strange", classes=("truck", "deer", "unicorn"), each=12)
    suite = suites.load("cifar10-c").with_sets(["svhn"], [f"folder:{strange}"])
    message = "'folder:strange' has the class 'unicorn', which is none of the ID data; name its folders airplane, "
    with pytest.raises(UserError, match=message):
        build_parts(suite, suite.settings[0], 0)


def test_one_folder_cannot_be_both_kinds_of_shift(tmp_path):
    odd = f"folder:{folder_of(tmp_path / 'odd')}"
    refused = smoke(tmp_path / "results", "msp", "--semantic", odd, "--covariate", odd)
    assert_refused(refused, "'odd' cannot be both the semantic and the covariate shift; choose another for one of them")


def test_a_semantic_set_joins_every_held_out_domain(tmp_path):
    suite = suites.load("pacs").with_sets([f"folder:{folder_of(tmp_path / 'odd')}"], [])
    named = [suite.setting_name(setting) for setting in suite.settings]
    assert named == ["odd,covariate=art_painting", "odd,covariate=cartoon", "odd,covariate=photo", "odd"]
    assert suite.provides == {"wild", "outliers", "labels", "views", "environments"}
