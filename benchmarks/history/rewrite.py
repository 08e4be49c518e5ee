"""Take result files that the last commit no longer has out of all commits. For once, before the first release.

    pip install git-filter-repo
    python benchmarks/history/rewrite.py SOURCE TARGET

Clones SOURCE, whose history keeps every raw score that was ever committed, and rewrites the clone. The last commit
keeps its files, and every commit its author, date and message; those that only moved results go. Commits get other
names. Results say which commit computed them, so `results/reference/commits.txt` is added, with the old and the new
name of each. Whoever has a clone clones again; so the rewrite is published before others have many.
"""

import subprocess
import sys
from pathlib import Path

import oodbench

NAMES = "results/reference/commits.txt"


def rewrite(source: Path, target: Path) -> None:
    subprocess.run(["git", "clone", "--quiet", "--no-local", source, target], check=True)

    def git(*arguments: str) -> str:
        return subprocess.run(["git", "-C", target, *arguments], check=True, text=True, stdout=subprocess.PIPE).stdout

    def paths(*arguments: str) -> set[str]:
        return set(git(*arguments, "-z", "--", "results").replace("\n", "").split("\0")) - {""}

    gone = paths("log", "--all", "--name-only", "--no-renames", "-m", "--format=") - paths("ls-files")
    listed = target / ".git" / "gone"
    listed.write_text("".join(f"literal:{path}\n" for path in sorted(gone)))
    git("filter-repo", "--quiet", "--invert-paths", "--paths-from-file", ".git/gone")

    renamed = dict(line.split() for line in (target / ".git/filter-repo/commit-map").read_text().splitlines()[1:])
    named = sorted({result.commit for result in oodbench.read_results(target / "results/reference")} & renamed.keys())
    (target / NAMES).write_text("".join(f"{name} {renamed[name]}\n" for name in named))
    git("add", NAMES)
    git("commit", "--quiet", "--message", "Name the commits of results after the rewrite")


if __name__ == "__main__":
    rewrite(Path(sys.argv[1]).resolve(), Path(sys.argv[2]).resolve())
