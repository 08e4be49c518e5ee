"""A wheel, a source distribution and a plain checkout all give a working oodbench."""

import importlib.metadata
import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import zipfile
from pathlib import Path

import pytest

import oodbench
from oodbench.config.cards import folder
from oodbench.config.suite import suite_files

ROOT = Path(__file__).parent.parent
METHODS = sorted(path.name for path in folder("methods").glob("*.py"))
TAG = "v9.8.7"
BUILDERS = ("setuptools", "setuptools_scm")


def call(arguments, cwd, **environment):
    done = subprocess.run(
        [sys.executable, *arguments],
        cwd=cwd,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def git(folder, *arguments):
    own = ["-c", "user.name=someone", "-c", "user.email=someone@example.org", "-c", "commit.gpgsign=false"]
    subprocess.run(["git", *own, *arguments], cwd=folder, check=True, capture_output=True)


@pytest.fixture(scope="session")
def checkout(made_once):
    """What a download of the working tree would hold but for the reference results, and some litter."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        check=False,
    )
    if listed.returncode or not (ROOT / ".git").exists():
        pytest.skip("not a git checkout")

    def make(copy):
        for name in filter(None, listed.stdout.decode().split("\0")):
            if (ROOT / name).is_file() and Path(name).suffix not in (".npz", ".jsonl", ".zip"):  # of results
                (copy / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(ROOT / name, copy / name)
        (copy / "results" / "digits-c").mkdir(parents=True, exist_ok=True)
        (copy / "results" / "digits-c" / "seed0-1.json").write_text("{}")

    return made_once("checkout", make)


@pytest.fixture(scope="session")
def clone(checkout, made_once):
    """A clone of a repository with that tree."""

    def make(clone):
        shutil.copytree(checkout, clone, dirs_exist_ok=True)
        git(clone, "init", "--quiet")
        git(clone, "add", ".")
        git(clone, "commit", "--quiet", "--message", "all")

    return made_once("clone", make)


@pytest.fixture(scope="session")
def distributions(clone, made_once):
    """The source distribution of a tagged clone, and the wheel made from that."""
    if not all(map(importlib.util.find_spec, BUILDERS)):
        pytest.skip(f"{' or '.join(BUILDERS)} is not installed")

    def make(made):
        build = "import sys, setuptools.build_meta as b; getattr(b, 'build_' + sys.argv[1])(sys.argv[2])"
        shutil.copytree(clone, made / "clone")
        git(made / "clone", "tag", TAG)
        call(["-c", build, "sdist", str(made)], made / "clone")
        (source,) = made.glob("oodbench-*.tar.gz")
        with tarfile.open(source) as archive:
            archive.extractall(made, filter="data")
        call(["-c", build, "wheel", str(made)], made / source.name.removesuffix(".tar.gz"))

    made = made_once("distributions", make)
    (source,), (wheel,) = made.glob("oodbench-*.tar.gz"), made.glob("oodbench-*.whl")
    return source, wheel


@pytest.fixture(scope="session")
def other_packages(made_once):
    """Everything that is installed here except oodbench."""

    def make(links):
        for place in {sysconfig.get_path("purelib"), sysconfig.get_path("platlib")}:
            for path in Path(place).iterdir():
                if "oodbench" not in path.name and not (links / path.name).exists():
                    (links / path.name).symlink_to(path)

    return made_once("packages", make)


def command(place, other_packages, cwd, *arguments):
    """`python -m oodbench` where only that place and the other packages can be imported."""
    path = os.pathsep.join([str(place), str(other_packages)])
    shared = {"PYTHONDONTWRITEBYTECODE": "1"}  # another worker may be copying the place
    return call(["-S", "-m", "oodbench", *arguments], cwd, PYTHONPATH=path, **shared)


def works(place, other_packages, cwd):
    """Every command a newcomer tries finds the methods and suites of that place."""
    listed = json.loads(command(place, other_packages, cwd, "list", "--json"))
    for kind, expected in (
        ("methods", {name.removesuffix(".py").replace("_", "-") for name in METHODS}),
        ("suites", set(suite_files())),
        ("datasets", {"digits", "photo-patches"}),
        ("networks", {"small-cnn", "timm"}),
    ):
        assert {each["name"] for each in listed[kind]} >= expected, kind
    shown = command(place, other_packages, cwd, "show", "knn")
    assert str(place) in shown.splitlines()[-1]
    return command(place, other_packages, cwd, "--version").split()


def run_in(place, other_packages, cwd):
    arguments = ("--suite", "digits-c", "--preset", "smoke", "--methods", "msp", "--results", str(cwd / "results"))
    output = command(place, other_packages, cwd, "run", *arguments)
    assert "OOD Acc." in output and len(list((cwd / "results").rglob("seed0-*.json"))) == 2


@pytest.fixture(scope="session")
def installed(distributions, made_once):
    pip = ["-m", "pip", "--disable-pip-version-check", "install", "--quiet", "--no-deps", "--no-index"]
    return made_once("installed", lambda place: call([*pip, "--target", place, distributions[1]], place))


def test_a_wheel_works_away_from_the_checkout_and_knows_the_version_of_its_tag(installed, other_packages, tmp_path):
    assert works(installed, other_packages, tmp_path) == ["oodbench", TAG.removeprefix("v")]


def test_without_a_tag_the_version_is_a_development_version_of_the_next(checkout, clone):
    """In a clone, which counts its commits, and in the download of a tree."""
    if not all(map(importlib.util.find_spec, BUILDERS)):
        pytest.skip(f"{' or '.join(BUILDERS)} is not installed")
    fallback = re.search(r'^fallback_version = "(.*)"$', (ROOT / "pyproject.toml").read_text(), re.M)[1]
    assert fallback.endswith(".dev0")
    assert call(["-m", "setuptools_scm"], checkout).strip() == fallback
    reading = {"GIT_OPTIONAL_LOCKS": "0"}  # another worker may be copying the clone
    assert call(["-m", "setuptools_scm"], clone, **reading).strip() == fallback.replace(".dev0", ".dev1")


def test_building_leaves_nothing_in_a_clone_that_git_sees(clone, distributions):
    seen = ["git", "status", "--porcelain"]
    built = distributions[0].parent / "clone"
    assert subprocess.run(seen, cwd=built, check=True, capture_output=True, text=True).stdout == ""


@pytest.mark.slow
def test_a_wheel_trains_away_from_the_checkout(installed, other_packages, tmp_path):
    run_in(installed, other_packages, tmp_path)


def test_a_wheel_holds_the_package_the_methods_and_the_suites_and_nothing_else(distributions):
    _, wheel = distributions
    with zipfile.ZipFile(wheel) as archive:
        files = {name for name in archive.namelist() if ".dist-info/" not in name}
        (entry_points,) = (archive.read(n).decode() for n in archive.namelist() if n.endswith("entry_points.txt"))
        licenses = {name.partition("/licenses/")[2] for name in archive.namelist() if "/licenses/" in name}
    package = ROOT / "oodbench"
    expected = {f"oodbench/{path.relative_to(package).as_posix()}" for path in package.rglob("*.py")}
    expected |= {"oodbench/cards.json", "oodbench/identity.lock", "oodbench/py.typed"}
    expected |= {*(f"oodbench/methods/{name}" for name in METHODS)}
    expected.add("oodbench/running/flops.json")
    expected |= {f"oodbench/benchmarks/{path.name}" for path in suite_files().values()}
    data = [path for folder in ("reported", "check") for path in (ROOT / "benchmarks" / folder).glob("*.yaml")]
    expected |= {f"oodbench/{path.relative_to(ROOT).as_posix()}" for path in data}
    expected.add("oodbench/benchmarks/check/history.json")
    page = package / "report" / "page"
    shown = [path for path in page.rglob("*") if path.is_file() and path.suffix not in (".py", ".pyc")]
    assert {"page.html", "page.css", "uPlot.iife.min.js", "LICENSE", "VERSION"} <= {path.name for path in shown}
    expected |= {f"oodbench/{path.relative_to(package).as_posix()}" for path in shown}
    assert files == expected
    assert "oodbench = oodbench.cli:main" in entry_points
    assert licenses == {"LICENSE", "oodbench/report/page/uplot/LICENSE"}


def test_a_source_distribution_holds_what_a_wheel_is_made_of(distributions):
    source, _ = distributions
    with tarfile.open(source) as archive:
        files = {name.partition("/")[2] for name in archive.getnames()}
    wanted = {"pyproject.toml", "README.md", "LICENSE", *(f"methods/{name}" for name in METHODS)}
    wanted |= {f"benchmarks/{path.name}" for path in suite_files().values()}
    wanted |= {f"benchmarks/{path.parent.name}/{path.name}" for path in (ROOT / "benchmarks").glob("*/*.yaml")}
    protocols = {f"benchmarks/protocol/cifar10-c-{name}.yaml" for name in ("control", "fast")}
    wanted -= {*protocols, "benchmarks/mutations/faults.yaml"}  # which no wheel has
    assert wanted <= files
    metadata = {"LICENSE", "README.md", "CHANGELOG.md", "CITATION.cff", "MANIFEST.in", "PKG-INFO", "pyproject.toml"}
    beside = {name for name in files if "/" not in name}
    assert beside <= {"", "oodbench", "methods", "benchmarks", "oodbench.egg-info", "setup.cfg"} | metadata
    assert {name.split("/")[0] for name in files - beside} == {"oodbench", "methods", "benchmarks", "oodbench.egg-info"}
    assert not [name for name in files if name.endswith((".pyc", ".pt", ".md")) and "/" in name]


def test_a_plain_checkout_works_without_installation(checkout, other_packages, tmp_path):
    assert works(checkout, other_packages, tmp_path) == ["oodbench", "0+checkout"]


@pytest.mark.slow
def test_a_plain_checkout_trains_without_installation(checkout, other_packages, tmp_path):
    run_in(checkout, other_packages, tmp_path)


def test_this_installation_knows_its_version():
    version = oodbench.__version__
    assert version == "0+checkout" or version == importlib.metadata.version("oodbench")
    assert subprocess.run(
        [sys.executable, "-m", "oodbench", "--version"], capture_output=True, text=True, check=True
    ).stdout.split() == ["oodbench", version]
