"""`oodbench predict`: what a detector says of image files, printed as it is found."""

import argparse
import csv
import io
import json
import math
import os
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from oodbench.cli.defaults import help_of
from oodbench.cli.output import data
from oodbench.cli.parser import add_plugins, one_of
from oodbench.errors import UserError, visible
from oodbench.files import check_writable, write_atomically

if TYPE_CHECKING:
    from oodbench.running.given.predicting import Prediction

COLUMNS = ("image", "label", "score", "verdict", "id_quantile", "error")
WIDEST_LABEL = 24  # letters of a class's name in a table


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("detector", type=Path, metavar="DETECTOR", help="a folder that `oodbench fit` has written")
    parser.add_argument("images", nargs="+", metavar="IMAGES", help="folders, files, or - for a list on standard input")
    parser.add_argument(
        "--format",
        type=one_of("format", FORMATS),
        default="table",
        metavar="FORMAT",
        help=f"{', '.join(FORMATS)} (default: table)",
    )
    parser.add_argument("--sheet", type=Path, metavar="FILE.png", help="draw the most and the least OOD images")
    parser.add_argument("--model", metavar="FILE.py:FUNCTION", help="code to run for a network the detector lacks")
    parser.add_argument("--device", metavar="DEVICE", help=f"auto, cpu, cuda or cuda:1 {help_of('device')}")
    parser.add_argument("--batch", type=int, metavar="N", help="images that are scored at a time (default: 64)")
    add_plugins(parser)


def main(given: argparse.Namespace) -> int:
    if given.sheet is not None:
        if given.sheet.suffix != ".png":
            raise UserError(f"--sheet '{given.sheet}' is not the name of a PNG file; end it in .png")
        check_writable(given.sheet.parent)
    from oodbench.cli import score_sheet  # not before the arguments are known to be right: it waits for torch
    from oodbench.running.given.detector import Detector
    from oodbench.running.given.predicting import BATCH, Extremes, image_paths, predict

    detector = Detector.load(given.detector, given.model, given.device or "auto", given.plugin or ())
    listed: Iterable[bytes] = getattr(sys.stdin, "buffer", ())
    write = FORMATS[given.format](detector.classes)
    read = flagged = bad = 0
    extremes = Extremes(score_sheet.COUNT)
    for some in predict(detector, image_paths(given.images, listed), BATCH if given.batch is None else given.batch):
        for each in some:
            if each.error is not None:
                print(f"oodbench: {_shown(each.error)}", file=sys.stderr)
            write(each)
        sys.stdout.flush()
        bad += sum(each.error is not None for each in some)
        flagged += sum(bool(each.is_ood) for each in some)
        read += len(some)
        if given.sheet is not None:
            extremes.add(some)
    good = read - bad
    if not good:
        raise UserError(f"none of {read:,} images could be read; give folders or files of images" if read else NOTHING)
    if given.sheet is not None:
        title = f"{flagged:,} of {good:,} images are OOD: {detector.card.scorer.display} above {detector.threshold:.6g}"
        sheet = score_sheet.image(title, extremes.highest, extremes.lowest)
        write_atomically(given.sheet, lambda file: sheet.save(file, "PNG", optimize=True))
    unread = f"; {bad:,} could not be read" if bad else ""
    print(f"{flagged:,} of {good:,} flagged as OOD ({100 * flagged / good:.1f} %){unread}", file=sys.stderr)
    return 1 if bad else 0


NOTHING = "no images were given; give folders or files of images, or their paths on standard input"


def _table(classes: tuple[str, ...]) -> "Callable[[Prediction], None]":
    """The path comes last: columns stay in line, and nobody waits for the longest."""
    wide = min(WIDEST_LABEL, max(map(len, classes), default=5))
    wide = max(wide, len("label"))
    print(f"{'verdict':7}  {'score':>12}  {'ID quantile':>11}  {'label':{wide}}  image")

    def write(each: "Prediction") -> None:
        if each.error is None:
            assert each.quantile is not None
            label = _shown(str(each.label))[:wide]
            share = f"{100 * each.quantile:.1f} %"
            print(f"{each.verdict:7}  {each.score:12.6g}  {share:>11}  {label:{wide}}  {_shown(each.image)}")

    return write


def _csv(classes: tuple[str, ...]) -> "Callable[[Prediction], None]":
    line, out = io.StringIO(), data(sys.stdout)
    writer = csv.writer(line)  # whose own end of a line has Python quote \r

    def write(values: Iterable[Any]) -> None:
        line.seek(0), line.truncate()
        writer.writerow("" if value is None else value for value in values)
        print(line.getvalue().removesuffix("\r\n"), file=out)

    write(COLUMNS)
    return lambda each: write(_text(value) for value in _values(each))


def _jsonl(classes: tuple[str, ...]) -> "Callable[[Prediction], None]":
    """A name that is no text is escaped as Python escapes it, and `os.fsencode` gives its bytes back."""

    def write(each: "Prediction") -> None:
        pairs = zip(COLUMNS, _values(each), strict=True)
        if each.error is not None:
            print(json.dumps({"image": each.image, "error": each.error}))
        else:
            print(json.dumps({name: _finite(value) for name, value in pairs if name != "error"}))

    return write


FORMATS = {"table": _table, "csv": _csv, "jsonl": _jsonl}


def _values(each: "Prediction") -> tuple[Any, ...]:
    return each.image, each.label, each.score, each.verdict, each.quantile, each.error


def _finite(value: Any) -> Any:
    """JSON has no number for what is none."""
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _text(value: Any) -> Any:
    """Bytes of a file name that are no text are written as \\xff."""
    return os.fsencode(value).decode(errors="backslashreplace") if isinstance(value, str) else value


def _shown(text: str) -> str:
    """In one line of a terminal: whatever else a file name holds is escaped."""
    return visible(_text(text))
