"""Run `oodbench demo` in environments that hold nothing but the wheel, and say what came out.

    python benchmarks/from_nothing/environments.py --wheels DIR

It builds the wheel of this repository. Each environment has a folder, a home and a working folder of its own, which are
deleted afterwards. The first three download and install every package, each with an empty cache; the others share the
packages of the first. Every one runs the demo from nothing and then once more. The status is 1 if anything was not as
it should be.

The packages have the versions of constraints.txt. DIR holds wheels that are taken before those of the package index:
with torch's CPU build in it, no CUDA packages are fetched. Settings of pip and uv in the environment (PIP_*, UV_*) hold
for installing. This needs Linux, Python 3.11 or newer, and the packages build, uv and pipx.
"""

import argparse
import os
import resource
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import unquote, urlparse

import tomllib

ROOT = Path(__file__).parents[2]
CONSTRAINTS = ROOT / "constraints.txt"
RESULTS = 102  # of the demo: methods, settings and seeds
PACES = Path(".cache", "oodbench", "paces.json")  # for estimates of time: all that the demo leaves at home
PLATFORM = "x86_64-manylinux_2_28"
SETTINGS = ("PIP_", "UV_", "SSL_", "REQUESTS_", "CURL_", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY")
UNPRIVILEGED = ["setpriv", "--bounding-set=-all", "--inh-caps=-all", "--"]  # root then minds permissions as others do


@dataclass(frozen=True)
class Place:
    """The folders of one environment, what it is installed from, and the packages that it may share."""

    root: Path
    wheel: Path
    wheels: Path | None
    packages: Path | None

    @property
    def home(self) -> Path:
        return self.root / "home"

    @property
    def here(self) -> Path:
        return self.root / "here"

    @property
    def temporary(self) -> Path:
        return self.root / "tmp"

    @property
    def python(self) -> Path:
        return self.root / "venv" / "bin" / "python"

    @property
    def command(self) -> Path:
        return self.root / "venv" / "bin" / "oodbench"

    @property
    def found(self) -> list[str]:
        return [] if self.wheels is None else ["--find-links", str(self.wheels)]


def with_pip(place: Place) -> list[str]:
    run([sys.executable, "-m", "venv", place.root / "venv"])
    options = {"PIP_CACHE_DIR": str(place.root / "cache"), "TMPDIR": str(place.temporary)}
    pip = [place.python, "-m", "pip", "install", "--quiet"]
    run([*pip, "--constraint", CONSTRAINTS, *place.found, place.wheel], **options)
    return [str(place.command), "demo"]


def with_uvx(place: Place) -> list[str]:
    chosen = ["--python", sys.executable, "--constraints", str(CONSTRAINTS), *place.found]
    return [tool("uv"), "tool", "run", *chosen, "--from", str(place.wheel), *DEMO]


def with_pipx(place: Place) -> list[str]:
    chosen = ["--python", sys.executable, "--pip-args", shlex.join(["--constraint", str(CONSTRAINTS), *place.found])]
    return [tool("pipx"), "run", *chosen, "--spec", str(place.wheel), *DEMO]


def shared(place: Place) -> list[str]:
    """A virtual environment with the wheel, and the other packages of the first environment."""
    assert place.packages is not None
    run([sys.executable, "-m", "venv", "--without-pip", place.root / "venv"])
    (site,) = (place.root / "venv" / "lib").glob("python*/site-packages")
    (site / "shared.pth").write_text(str(place.packages), encoding="utf-8")
    pip = [sys.executable, "-m", "pip", "--python", place.python, "install", "--quiet"]
    run([*pip, "--no-deps", "--no-index", "--ignore-installed", place.wheel])
    return [str(place.command), "demo"]


def as_module(place: Place) -> list[str]:
    shared(place)
    return [str(place.python), "-m", *DEMO]


DEMO = ["oodbench", "demo"]


@dataclass(frozen=True)
class Environment:
    name: str
    install: Callable[[Place], list[str]] = shared  # gives the command of the demo
    variables: Mapping[str, str | None] = field(default_factory=dict)  # None: not set
    umask: int = 0o022
    folder: str = "place"
    closed: tuple[str, ...] = ()  # folders that nobody may write to
    is_interrupted: bool = False
    is_refused: bool = False  # it cannot work, and must say so in one line
    installs_itself: bool = False  # the command fetches packages when it runs


ENVIRONMENTS = (
    Environment("pip, from nothing", with_pip),
    Environment("uvx, from nothing", with_uvx, installs_itself=True),
    Environment("pipx run, from nothing", with_pipx, installs_itself=True),
    Environment("python -m oodbench", as_module),
    Environment("a path with spaces and letters of all kinds", folder="Über den Wolken 雲 it's"),
    Environment("a home that is read-only", closed=("home",)),
    Environment("no HOME", variables={"HOME": None}),
    Environment("LANG=C", variables={"LANG": "C", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"}),
    Environment("umask 077", umask=0o077),
    Environment("interrupted, then resumed", is_interrupted=True),
    Environment("a folder that is read-only", closed=("here",), is_refused=True),
)


def tool(name: str) -> str:
    """A program that is installed with this Python, or elsewhere."""
    beside = Path(sys.executable).with_name(name)
    found = str(beside) if beside.exists() else shutil.which(name)
    if found is None:
        sys.exit(f"there is no {name} here; install it with: pip install {name}")
    return found


def settings() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name.upper().startswith(SETTINGS)}


def run(command: list[str | Path], **more: str) -> str:
    """What it prints; this script ends with its error if it fails."""
    done = subprocess.run(
        [str(word) for word in command], capture_output=True, text=True, env={**os.environ, **more}, check=False
    )
    if done.returncode:
        sys.exit(f"{' '.join(map(str, command))}: {done.stderr}")
    return done.stdout


def built(folder: Path) -> Path:
    run([sys.executable, "-m", "build", "--outdir", folder, ROOT])
    (wheel,) = folder.glob("*.whl")
    return wheel


def download(wheel: Path, wheels: Path | None) -> dict[str, int]:
    """The packages that installing the wheel fetches, and their bytes."""
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    with tempfile.TemporaryDirectory() as name:
        needed, lock = Path(name, "needed.txt"), Path(name, "pylock.toml")
        needed.write_text(f"oodbench @ {wheel.as_uri()}\n", encoding="utf-8")
        links = [] if wheels is None else ["--find-links", wheels]
        command = [
            tool("uv"),
            "pip",
            "compile",
            "--quiet",
            needed,
            "--python-version",
            version,
            "--constraints",
            CONSTRAINTS,
        ]
        run([*command, "--python-platform", PLATFORM, *links, "--format", "pylock.toml", "-o", lock])
        packages = tomllib.loads(lock.read_text(encoding="utf-8"))["packages"]
        return {each["name"]: size_of(each, lock.parent) for each in packages}


def size_of(package: dict, base: Path) -> int:
    """Of the wheel that the lock file names, or of the source where there is no wheel."""
    chosen = (package.get("wheels") or [package.get("archive") or package.get("sdist")])[0]
    if "path" in chosen:
        return (base / chosen["path"]).stat().st_size
    if chosen["url"].startswith("file:"):
        return Path(unquote(urlparse(chosen["url"]).path)).stat().st_size
    with urllib.request.urlopen(urllib.request.Request(chosen["url"], method="HEAD"), timeout=60) as answer:
        return int(answer.headers["Content-Length"])


@dataclass
class Trial:
    """One environment while it is tried."""

    environment: Environment
    place: Place
    command: list[str]
    problems: list[str] = field(default_factory=list)
    table: str = ""

    def demo(self) -> "subprocess.CompletedProcess[bytes]":
        with self.started() as process:
            out, err = process.communicate()
        return subprocess.CompletedProcess(process.args, process.returncode, out, err)

    def started(self) -> "subprocess.Popen[bytes]":
        closes = bool(self.environment.closed) and os.geteuid() == 0
        return subprocess.Popen(
            [*(UNPRIVILEGED if closes else []), *self.command],
            cwd=self.place.here,
            env=self.variables(),
            umask=self.environment.umask,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )

    def variables(self) -> dict[str, str]:
        place = self.place
        given: dict[str, str | None] = {"PATH": os.defpath, "HOME": str(place.home), "TMPDIR": str(place.temporary)}
        given |= {"LANG": "C.UTF-8"}
        if self.environment.installs_itself:
            cache = str(place.root / "cache")
            given |= settings() | {"UV_CACHE_DIR": cache, "PIP_CACHE_DIR": cache, "PIPX_HOME": str(place.root / "pipx")}
        given |= self.environment.variables
        return {name: value for name, value in given.items() if value is not None}

    def expect(self, holds: bool, problem: str) -> None:
        if not holds:
            self.problems.append(problem)

    def works(self) -> None:
        """The first call computes; the second shows the same."""
        place, results = self.place, self.place.here / "results" / "demo"
        if self.environment.is_interrupted:
            self.interrupt()
        first = self.demo()
        if first.returncode:
            self.problems.append(f"status {first.returncode}: {first.stderr.decode(errors='replace').strip()[-500:]}")
            return
        shown = first.stdout.decode(errors="replace")
        page = results / "report" / "index.html"
        self.expect("OOD Acc." in shown and "SCONE" in shown, "no table is printed")
        self.expect(shown.rstrip().endswith(str(page.relative_to(place.here))), "the last line does not name the page")
        self.expect(page.is_file() and b"</html>" in page.read_bytes(), "there is no page")
        self.expect((results / "COLLECTION").read_text() == "demo\n", "the results are not marked as the demo's")
        found = len([*results.rglob("seed*.json")])
        self.expect(found == RESULTS, f"there are {found} results, not {RESULTS}")
        self.expect({*place.here.iterdir()} == {place.here / "results"}, "something else lies in the folder")
        left = {path.relative_to(place.home) for path in place.home.rglob("*") if path.is_file()} - {PACES}
        self.expect(self.environment.installs_itself or not left, f"left in the home: {', '.join(map(str, left))}")
        modes = {path.stat().st_mode & self.environment.umask for path in results.rglob("*")}
        self.expect(modes == {0}, "the umask is not kept")
        second = self.demo()
        self.expect(second.returncode == 0 and second.stdout == first.stdout, "a second call shows something else")
        self.expect(b"nothing to do" in second.stderr, "a second call computes something")
        self.table = (results / "digits-c" / "table.md").read_text(encoding="utf-8")

    def interrupt(self) -> None:
        """As soon as there are some results."""
        with self.started() as process:
            while process.poll() is None and len([*self.place.here.rglob("seed*.json")]) < RESULTS // 3:
                time.sleep(0.1)
            process.send_signal(signal.SIGINT)
            _, err = process.communicate()
        said = err.decode(errors="replace")
        self.expect(process.returncode == 130, f"interrupted with status {process.returncode}: {said[-300:]}")
        self.expect("the same command resumes" in said, "an interrupted demo does not say that it resumes")

    def refuses(self) -> None:
        done = self.demo()
        said = done.stderr.decode(errors="replace").strip()
        self.expect(done.returncode == 2, f"status {done.returncode}, not 2")
        self.expect(said.startswith("oodbench: cannot write") and "\n" not in said, f"this is no line of ours: {said}")
        self.expect(not [*self.place.here.iterdir()], "something is left in the folder")


def tried(environment: Environment, place: Place) -> Trial:
    for folder in (place.home, place.here, place.temporary):
        folder.mkdir(parents=True)
    trial = Trial(environment, place, environment.install(place))
    for name in environment.closed:
        (place.root / name).chmod(0o555)
    if environment.is_refused:
        trial.refuses()
    else:
        trial.works()
    for name in environment.closed:
        (place.root / name).chmod(0o755)
    return trial


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--wheels", type=Path, metavar="DIR", help="wheels that are taken before those of the index")
    parser.add_argument("--only", action="append", metavar="NAME", help="of the others, only these; repeatable")
    given = parser.parse_args()
    wheels = None if given.wheels is None else given.wheels.resolve()
    if find_spec("build") is None:
        parser.error("there is no build here; install it with: pip install build")
    chosen = [each for each in ENVIRONMENTS if given.only is None or each.name in [ENVIRONMENTS[0].name, *given.only]]
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a demo ignores interruptions if this script does
    failed, tables = 0, set()
    with tempfile.TemporaryDirectory(prefix="from-nothing-") as name:
        wheel = built(Path(name, "dist"))
        print(f"{wheel.name}: {wheel.stat().st_size / 1e6:.1f} MB")
        for build, found in {"of the index": None, "found": wheels}.items():
            sizes = download(wheel, found)
            print(
                f"download with the torch {build}: {sum(sizes.values()) / 1e6:,.0f} MB in {len(sizes)} packages, "
                f"torch {sizes['torch'] / 1e6:,.0f} MB of it",
                flush=True,
            )
        packages: Path | None = None
        for number, environment in enumerate(chosen, 1):
            place = Place(Path(name, str(number), environment.folder), wheel, wheels, packages)
            began, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
            trial = tried(environment, place)
            seconds, after = time.perf_counter() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
            cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
            print(f"{environment.name}: {seconds:.0f} s, {cpu:.0f} s of CPU time", flush=True)
            tables |= {trial.table} - {""}
            for problem in trial.problems:
                print(f"  PROBLEM: {problem}", flush=True)
            failed += bool(trial.problems)
            if packages is None:
                (packages,) = (place.root / "venv" / "lib").glob("python*/site-packages")
            else:
                shutil.rmtree(Path(name, str(number)))
    if len(tables) != 1:
        print(f"PROBLEM: the environments show {len(tables)} tables, not one and the same")
    print(f"{failed} of {len(chosen)} environments have problems")
    return 1 if failed or len(tables) != 1 else 0


if __name__ == "__main__":
    sys.exit(main())
