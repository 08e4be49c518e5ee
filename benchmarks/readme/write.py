"""Write the table of README.md and the pictures in docs/ from the results of the demo, or check that they still agree.

    python benchmarks/readme/write.py            or: make readme
    python benchmarks/readme/write.py --check    after make demo: status 1 if README.md does not show what it printed

Only the text between the two marks is replaced. Another processor gives slightly different numbers, so the check
allows what `benchmarks/reported/spread.yaml` has measured between machines.
"""

import argparse
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from PIL import Image, ImageChops
from scipy import stats

import oodbench
from oodbench.errors import UserError
from oodbench.report import spread
from oodbench.report.labels import method_name
from oodbench.report.tables import DEFAULT_METRICS
from oodbench.results.result import Result

ROOT = Path(__file__).parents[2]
README = ROOT / "README.md"
DEMO = ROOT / "results" / "demo"
BEGIN, END = "<!-- demo: written by make readme -->", "<!-- /demo -->"
SETTING = "unseen-digits"
METHODS = ("msp", "knn", "erm", "mixup", "oe", "woods", "scone", "bn-adapt")
COMMAND = f"oodbench table results/demo --setting {SETTING} --methods {','.join(METHODS)}"
WIDTH = 100  # columns, which code blocks show without scrolling
ERROR = 0.001  # chance that the check fails although nothing but the processor differs

BROWSERS = ("chromium", "chromium-browser", "google-chrome")
SCALE = 1.25  # pixels of a picture for each of the page, so that letters stay sharp
COLORS = 256  # a page has few, and a palette keeps the files small
MARGIN = 24  # pixels of the page below what is shown


@dataclass(frozen=True)
class Picture:
    """A view of the report page."""

    name: str
    address: str
    height: int  # of the page that is shown, at most; `WIDE` pixels are its width


WIDE = 1200
PICTURES = (
    Picture("trade-off.png", f"#tradeoff?board=digits-c&setting={SETTING}", 980),
    Picture("report.png", f"#leaderboard?board=digits-c&setting={SETTING}", 1300),
)


def table(folder: Path, seeds: Sequence[int] | None = None) -> str:
    """What `COMMAND` prints on a terminal of `WIDTH` columns."""
    return oodbench.table(
        folder, "text", seeds="all" if seeds is None else seeds, methods=METHODS, setting=SETTING, width=WIDTH
    )


def block(shown: str) -> str:
    return f"{BEGIN}\n```\n$ {COMMAND}\n{shown.rstrip()}\n```\n{END}"


def between_marks(readme: str, shown: str) -> str:
    before, rest = readme.split(BEGIN)
    _, after = rest.split(END)
    return before + block(shown) + after


def means(shown: str) -> dict[str, list[float]]:
    """By the name of a row, without the letter of its footnote."""
    rows = re.findall(r"^  (\S.*?)(?: \([a-z,]+\))? {2,}(\d.*±.*)$", shown, flags=re.M)
    return {name: [float(mean) for mean in re.findall(r"([\d.]+) ±", numbers)] for name, numbers in rows}


def words(shown: str) -> list[str]:
    """Every paragraph without numbers, marks and footnotes, which depend on the processor: what must be the same."""
    paragraphs = [paragraph for paragraph in shown.strip().split("\n\n") if not paragraph.startswith("(a)")]
    without_footnotes = re.sub(r"(?m)^(  \S.*?) \([a-z,]+\)(?=  )", r"\1", "\n\n".join(paragraphs))
    plain = re.sub(r"-{3,}", "", re.sub(r"[\d.]*\d•?", "#", without_footnotes))
    return [" ".join(paragraph.split()) for paragraph in plain.split("\n\n")]


def problems(readme: str, folder: Path, seeds: Sequence[int] | None = None) -> list[str]:
    """What README.md shows otherwise than the results of a folder, beyond what another processor explains."""
    shown = readme.partition(f"{BEGIN}\n```\n")[2].partition(f"```\n{END}")[0]
    command, _, shown = shown.partition("\n")
    if command != f"$ {COMMAND}":
        return [f"README.md shows no table of `{COMMAND}`; run make readme"]
    now = table(folder, seeds)
    found = [f"README.md does not say: {each}" for each in words(now) if each not in words(shown)]
    ours = means(shown)
    if found or ours.keys() != means(now).keys():
        return found or ["README.md has other rows; run make readme"]
    ran = [each for each in oodbench.read_results(folder) if each.setting == SETTING and each.method in METHODS]
    cells = len(METHODS) * len(DEFAULT_METRICS)
    for method in METHODS:
        runs = [each for each in ran if each.method == method and (seeds is None or each.seed in seeds)]
        name = method_name(runs[0].config.method)
        for metric, there, here in zip(DEFAULT_METRICS, ours[name], means(now)[name], strict=True):
            allowed = _allowed(runs, metric, cells)
            if abs(there - here) > allowed:
                found.append(
                    f"{name}, {metric}: {there:.2f} in README.md, {here:.2f} here; processors explain {allowed:.2f}"
                )
    return found


def _allowed(runs: Sequence[Result], metric: str, cells: int) -> float:
    """Points of percent between the means of two machines over these seeds, with Bonferroni's correction."""
    # The spread of the share flagged is not measured: it is read off at the same threshold as FPR.
    measured = "fpr95" if metric == "covariate_flagged" else metric
    variance = spread.measured().of(spread.where(runs[0]), measured, "machines")
    quantile = float(stats.t.ppf(1 - ERROR / (2 * cells), variance.freedom))
    error = float(2 * variance.value / len(runs)) ** 0.5
    return 100 * quantile * error + 0.01  # both means are printed to 0.01


def browsers() -> list[str]:
    """The paths of those that are installed."""
    return [path for name in BROWSERS if (path := shutil.which(name))]


def photograph(page: Path, picture: Picture, out: Path) -> None:
    """A view as headless Chromium draws it, in light colors, without the empty space below."""
    if not browsers():
        sys.exit(f"no browser here to take the pictures with; install one of {', '.join(BROWSERS)}")
    with tempfile.TemporaryDirectory() as folder:
        raw = Path(folder) / "raw.png"
        command = [
            *(browsers()[0], "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"),
            *("--hide-scrollbars", f"--force-device-scale-factor={SCALE}", f"--user-data-dir={folder}/profile"),
            *(f"--window-size={WIDE},{picture.height}", "--virtual-time-budget=10000", f"--screenshot={raw}"),
            page.resolve().as_uri() + picture.address,
        ]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120)
        if done.returncode or not raw.is_file():
            sys.exit(f"the browser took no picture of {picture.address}: {done.stderr.strip()[-300:]}")
        with Image.open(raw) as image:
            shown = image.convert("RGB")
    background = Image.new("RGB", shown.size, shown.getpixel((0, 0)))
    _, _, _, bottom = ImageChops.difference(shown, background).getbbox() or (0, 0, *shown.size)
    shown = shown.crop((0, 0, shown.width, min(shown.height, bottom + round(MARGIN * SCALE))))
    shown.quantize(COLORS, Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE).save(out, optimize=True)


def write(folder: Path) -> None:
    README.write_text(between_marks(README.read_text(encoding="utf-8"), table(folder)), encoding="utf-8")
    with tempfile.TemporaryDirectory() as site:
        page = oodbench.report(folder, out=site)
        for picture in PICTURES:
            photograph(page, picture, README.parent / "docs" / picture.name)
            print(f"docs/{picture.name}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="write nothing; say what README.md shows otherwise")
    parser.add_argument("--results", type=Path, default=DEMO, metavar="DIR", help="the demo's (default: results/demo)")
    given = parser.parse_args()
    try:
        if not given.check:
            write(given.results)
            return 0
        found = problems(README.read_text(encoding="utf-8"), given.results)
    except UserError as error:
        parser.error(f"{error}; make demo makes what is needed here")
    print(*(found or ["README.md shows what the demo printed"]), sep="\n")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
