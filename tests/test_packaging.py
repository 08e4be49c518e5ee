"""A wheel, a source distribution and a plain checkout all give a working oodbench."""

import importlib.util
import os
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


@pytest.fixture(scope="module")
def checkout(tmp_path_factory):
    """What a clone of the working tree would hold, and some litter."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        check=False,
    )
    if listed.returncode or not (ROOT / ".git").exists():
        pytest.skip("not a git checkout")
    copy = tmp_path_factory.mktemp("clone")
    for name in filter(None, listed.stdout.decode().split("\0")):
        if (ROOT / name).is_file():
            (copy / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, copy / name)
    (copy / "results" / "digits-c").mkdir(parents=True, exist_ok=True)
    (copy / "results" / "digits-c" / "seed0-1.json").write_text("{}")
    return copy


@pytest.fixture(scope="module")
def distributions(checkout, tmp_path_factory):
    """The source distribution of the checkout, and the wheel made from that."""
    if importlib.util.find_spec("setuptools") is None:
        pytest.skip("setuptools is not installed")
    made = tmp_path_factory.mktemp("dist")
    build = "import sys, setuptools.build_meta as b; getattr(b, 'build_' + sys.argv[1])(sys.argv[2])"
    shutil.copytree(checkout, made / "clone")
    call(["-c", build, "sdist", str(made)], made / "clone")
    (source,) = made.glob("oodbench-*.tar.gz")
    with tarfile.open(source) as archive:
        archive.extractall(made, filter="data")
    call(["-c", build, "wheel", str(made)], made / source.name.removesuffix(".tar.gz"))
    (wheel,) = made.glob("oodbench-*.whl")
    return source, wheel


@pytest.fixture(scope="module")
def other_packages(tmp_path_factory):
    """Everything that is installed here except oodbench."""
    links = tmp_path_factory.mktemp("packages")
    for place in {sysconfig.get_path("purelib"), sysconfig.get_path("platlib")}:
        for path in Path(place).iterdir():
            if "oodbench" not in path.name and not (links / path.name).exists():
                (links / path.name).symlink_to(path)
    return links


def command(place, other_packages, cwd, *arguments):
    """`python -m oodbench` where only that place and the other packages can be imported."""
    path = os.pathsep.join([str(place), str(other_packages)])
    return call(["-S", "-m", "oodbench", *arguments], cwd, PYTHONPATH=path)


def names(listing):
    return {line.split()[0] for line in listing.splitlines() if line}


def works(place, other_packages, cwd):
    """Every command a newcomer tries finds the methods and suites of that place."""
    for kind, expected in (
        ("methods", {name.removesuffix(".py").replace("_", "-") for name in METHODS}),
        ("suites", set(suite_files())),
        ("datasets", {"digits", "photo-patches"}),
        ("networks", {"small-cnn", "timm"}),
    ):
        assert names(command(place, other_packages, cwd, "list", kind)) >= expected, kind
    shown = command(place, other_packages, cwd, "show", "knn")
    assert str(place) in shown.splitlines()[-1]
    return command(place, other_packages, cwd, "--version").split()


def run_in(place, other_packages, cwd):
    arguments = ("--suite", "digits-c", "--preset", "smoke", "--methods", "msp", "--results", str(cwd / "results"))
    output = command(place, other_packages, cwd, "run", *arguments)
    assert "OOD Acc." in output and len(list((cwd / "results").rglob("seed0-*.json"))) == 2


@pytest.fixture(scope="module")
def installed(distributions, tmp_path_factory):
    place = tmp_path_factory.mktemp("installed")
    pip = ["-m", "pip", "--disable-pip-version-check", "install", "--quiet", "--no-deps", "--no-index"]
    call([*pip, "--target", str(place), str(distributions[1])], place)
    return place


def test_a_wheel_works_away_from_the_checkout(distributions, installed, other_packages, tmp_path):
    assert works(installed, other_packages, tmp_path) == ["oodbench", distributions[1].name.split("-")[1]]


@pytest.mark.slow
def test_a_wheel_trains_away_from_the_checkout(installed, other_packages, tmp_path):
    run_in(installed, other_packages, tmp_path)


def test_a_wheel_holds_the_package_the_methods_and_the_suites_and_nothing_else(distributions):
    _, wheel = distributions
    with zipfile.ZipFile(wheel) as archive:
        files = {name for name in archive.namelist() if ".dist-info/" not in name}
        (entry_points,) = (archive.read(n).decode() for n in archive.namelist() if n.endswith("entry_points.txt"))
        (licence,) = (n for n in archive.namelist() if ".dist-info/" in n and n.endswith("LICENSE"))
    package = ROOT / "oodbench"
    expected = {f"oodbench/{path.relative_to(package).as_posix()}" for path in package.rglob("*.py")}
    expected |= {"oodbench/identity.lock", "oodbench/py.typed", *(f"oodbench/methods/{name}" for name in METHODS)}
    expected |= {f"oodbench/benchmarks/{path.name}" for path in suite_files().values()}
    data = [path for folder in ("reported", "check") for path in (ROOT / "benchmarks" / folder).glob("*.yaml")]
    expected |= {f"oodbench/{path.relative_to(ROOT).as_posix()}" for path in data}
    page = package / "report" / "page"
    shown = [path for path in page.rglob("*") if path.is_file() and path.suffix not in (".py", ".pyc")]
    assert {"page.html", "page.css", "uPlot.iife.min.js", "LICENSE", "VERSION"} <= {path.name for path in shown}
    expected |= {f"oodbench/{path.relative_to(package).as_posix()}" for path in shown}
    assert files == expected
    assert "oodbench = oodbench.cli:main" in entry_points and licence


def test_a_source_distribution_holds_what_a_wheel_is_made_of(distributions):
    source, _ = distributions
    with tarfile.open(source) as archive:
        files = {name.partition("/")[2] for name in archive.getnames()}
    wanted = {"pyproject.toml", "README.md", "LICENSE", *(f"methods/{name}" for name in METHODS)}
    wanted |= {f"benchmarks/{path.name}" for path in suite_files().values()}
    assert wanted <= files
    assert not [name for name in files if name.startswith("results/") or name.endswith((".pyc", ".pt"))]


def test_a_plain_checkout_works_without_installation(checkout, other_packages, tmp_path):
    assert works(checkout, other_packages, tmp_path) == ["oodbench", "0+checkout"]


@pytest.mark.slow
def test_a_plain_checkout_trains_without_installation(checkout, other_packages, tmp_path):
    run_in(checkout, other_packages, tmp_path)


def test_this_installation_knows_its_version():
    version = oodbench.__version__
    declared = (ROOT / "pyproject.toml").read_text().partition('\nversion = "')[2].partition('"')[0]
    assert version in (declared, "0+checkout")
    assert subprocess.run(
        [sys.executable, "-m", "oodbench", "--version"], capture_output=True, text=True, check=True
    ).stdout.split() == ["oodbench", version]
