"""`oodbench plot`: the figures of a results folder, each in the formats asked for, with its caption beside it."""

import argparse
import sys
from pathlib import Path

from oodbench.cli.reading import add_results, check_known, names_in, read_ledger
from oodbench.errors import UserError
from oodbench.files import write_atomically
from oodbench.report import figures
from oodbench.report.figures import COMPARED, FIGURES, FORMATS, WIDTHS

DEFAULT_FORMATS = "png,pdf"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_results(parser)
    parser.add_argument("--out", metavar="DIR", help="where figures go (default: figures/ in the results folder)")
    parser.add_argument(
        "--only", default=",".join(FIGURES), metavar="FIGURES", help="some of the figures below (default: all)"
    )
    parser.add_argument(
        "--methods",
        default="",
        metavar="METHODS",
        help=f"as results name them (default: all; {COMPARED} in figures of two)",
    )
    for name in ("suite", "setting"):
        parser.add_argument(
            f"--{name}",
            action="append",
            default=[],
            metavar=name.upper(),
            help=f"only this {name}, as tables name it; repeatable (default: all)",
        )
    parser.add_argument(
        "--format",
        default=DEFAULT_FORMATS,
        metavar="FORMATS",
        help=f"some of {', '.join(FORMATS)} (default: {DEFAULT_FORMATS})",
    )
    parser.add_argument(
        "--width", default="text", metavar="WIDTH", help=f"{', '.join(WIDTHS)}, or inches (default: text)"
    )
    parser.add_argument("--title", action="store_true", help="write suite and setting above each figure")
    parser.add_argument_group("figures", "\n".join(f"{name}: {what}" for name, what in FIGURES.items()))
    parser.add_argument_group("widths", ", ".join(f"{name} is {inches:g} inches" for name, inches in WIDTHS.items()))


def main(given: argparse.Namespace) -> int:
    folder = Path(given.folder)
    names = names_in("figure", given.only, FIGURES)
    if not names:
        raise UserError(f"--only names no figure; choose from: {', '.join(FIGURES)}")
    formats = names_in("format", given.format, FORMATS)
    if not formats:
        raise UserError(f"--format names no format; choose from: {', '.join(FORMATS)}")
    width = figures.width_in_inches(given.width)
    ledger = read_ledger(folder, given.beside)
    check_known("suite of these results", given.suite, ledger.suites)
    results = [r for r in ledger.results if not given.suite or r.suite_label in given.suite]
    methods = names_in("method of these results", given.methods, {r.method for r in results})
    check_known("setting of these results", given.setting, {r.setting for r in results})
    from oodbench.api import network_of
    from oodbench.report.figures import studies, style

    out = Path(given.out) if given.out else folder / "figures"
    written, reasons = 0, dict[tuple[str, str], list[str]]()
    for study in studies.studies(results, given.setting):
        place = f"{study.suite} / {study.setting}"
        for name in names:
            print(f"drawing {name} of {place}", file=sys.stderr, flush=True)
            try:
                drawing = figures.draw(name, study, methods, width=width, is_titled=given.title, networks=network_of)
            except studies.NotDrawn as reason:
                reasons.setdefault((name, str(reason)), []).append(place)
                continue
            path = out / study.folder / name
            encoded = style.encode(drawing, folder, formats)
            for suffix, content in encoded.items():
                write_atomically(path.with_name(f"{name}.{suffix}"), lambda file: file.write(content))  # noqa: B023
            print(f"{path}{', '.join(f'.{suffix}' for suffix in encoded)}", *drawing.remarks, sep="; ", flush=True)
            written += 1
    lines = [_line(name, reason, places) for (name, reason), places in reasons.items()]
    if not written:
        raise UserError(f"nothing to draw in '{folder}'; {lines[0]}")
    for line in lines:
        print(line)
    return 0


def _line(name: str, reason: str, places: list[str]) -> str:
    """Why a figure is missing; of many settings that lack it for one reason, the first is named."""
    more = f" and {len(places) - 1} more" if len(places) > 1 else ""
    return f"{places[0]}{more}: no {name}: {reason}"
