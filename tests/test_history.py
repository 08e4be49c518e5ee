"""How large the repository is: what its last commit holds, and the recipe that makes its history light."""

import subprocess
import sys
from pathlib import Path

import pytest
from made_results import a_result

from oodbench.results.folder import read_folder
from oodbench.results.stored import write

ROOT = Path(__file__).parent.parent
MEGABYTES, FILES = 158, 2_100  # what the tree may hold, lowered with every collection that is packed
RECIPE = ROOT / "benchmarks" / "history" / "rewrite.py"


def git(folder, *arguments):
    return subprocess.run(["git", "-C", folder, *arguments], check=True, text=True, stdout=subprocess.PIPE).stdout


def test_the_tree_is_no_larger_than_allowed():
    if not (ROOT / ".git").exists():
        pytest.skip("not a clone")
    files = [ROOT / name for name in git(ROOT, "ls-files", "-z").split("\0") if name]
    sizes = [file.stat().st_size for file in files if file.is_file()]
    assert sum(sizes) <= MEGABYTES * 1e6 and len(sizes) <= FILES


@pytest.fixture
def repository(tmp_path):
    """Raw scores in the first commit, gone in the second; results that name the first."""
    home = tmp_path / "home"
    home.mkdir()
    git(home, "init", "--quiet", "--initial-branch", "main")
    git(home, "config", "user.name", "A. Name")
    git(home, "config", "user.email", "name@example.org")
    raw = home / "results" / "reference" / "digits-c" / "old.npz"
    raw.parent.mkdir(parents=True)
    raw.write_bytes(bytes(range(256)) * 400)
    (home / "code.py").write_text("print(1)\n")
    git(home, "add", ".")
    git(home, "commit", "--quiet", "--message", "Compute")
    raw.unlink()
    made = a_result(commit=git(home, "rev-parse", "HEAD").strip())
    write(made, home / "results/reference/digits-c/unseen-digits/erm/seed0-00000000.json", {}, [])
    (home / "code.py").write_text("print(2)\n")
    git(home, "add", ".")
    git(home, "commit", "--quiet", "--message", "Pack")
    return home


def test_the_recipe_takes_old_results_out_of_history_and_nothing_else(repository, tmp_path, monkeypatch):
    pytest.importorskip("git_filter_repo")
    monkeypatch.setenv("PATH", str(Path(sys.executable).parent), prepend=":")
    light = tmp_path / "light"
    for variable, value in (("NAME", "A. Name"), ("EMAIL", "name@example.org")):
        monkeypatch.setenv(f"GIT_AUTHOR_{variable}", value)
        monkeypatch.setenv(f"GIT_COMMITTER_{variable}", value)
    subprocess.run([sys.executable, RECIPE, repository, light], check=True)

    assert git(light, "log", "--format=%s").split("\n")[:3] == [
        "Name the commits of results after the rewrite",
        "Pack",
        "Compute",
    ]
    assert git(light, "log", "--all", "--oneline", "--", "*.npz") == ""
    assert git(light, "rev-parse", "HEAD~:") == git(repository, "rev-parse", "HEAD:")  # the same files, to the bit
    (result,), _ = read_folder(light / "results" / "reference")
    old, new = (light / "results/reference/commits.txt").read_text().split()
    assert old == result.commit and git(light, "show", f"{new}:code.py") == "print(1)\n"
    assert git(repository, "rev-list", "--count", "HEAD").strip() == "2"
