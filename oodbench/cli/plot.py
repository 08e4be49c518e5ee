"""`oodbench plot`: the figures of a results folder, each as PNG and PDF with its caption."""

import argparse
from pathlib import Path

from oodbench.cli.reading import add_results, check_known, names_in, read_ledger
from oodbench.errors import UserError
from oodbench.files import write_atomically
from oodbench.report import figures
from oodbench.report.figures import FIGURES

COMPARED = "woods,scone"  # the pair of the paper's figures


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_results(parser)
    parser.add_argument("--out", metavar="FOLDER", help="where figures go (default: DIR/figures)")
    described = "; ".join(f"{name}: {what}" for name, what in FIGURES.items())
    parser.add_argument(
        "--only", default=",".join(FIGURES), metavar="A,B", help=f"of these (default: all). {described}"
    )
    parser.add_argument(
        "--methods",
        default="",
        metavar="A,B",
        help=f"methods as results name them (default: all; where two stand beside each other, {COMPARED})",
    )
    parser.add_argument(
        "--setting", action="append", default=[], metavar="SETTING", help="only this; may be repeated (default: all)"
    )


def main(given: argparse.Namespace) -> int:
    folder = Path(given.folder)
    names = names_in("figure", given.only, FIGURES)
    if not names:
        raise UserError(f"--only names no figure; choose from: {', '.join(FIGURES)}")
    results = read_ledger(folder, given.beside).results
    methods = names_in("method of these results", given.methods, {r.method for r in results})
    check_known("setting of these results", given.setting, {r.setting for r in results})
    from oodbench.report.figures import studies, style

    out = Path(given.out) if given.out else folder / "figures"
    written, reasons = 0, []
    for study in studies.studies(results, given.setting):
        for name in names:
            try:
                drawing = figures.draw(name, study, methods, COMPARED.split(","))
            except studies.NotDrawn as reason:
                reasons.append(f"{study.suite} / {study.setting}: no {name}: {reason}")
                continue
            path = out / study.folder / name
            for suffix, content in style.encode(drawing, folder).items():
                write_atomically(path.with_name(f"{name}.{suffix}"), lambda file: file.write(content))  # noqa: B023
            print(f"{path}.png, .pdf, .txt", *drawing.remarks, sep="; ", flush=True)
            written += 1
    if not written:
        raise UserError(f"nothing to draw in '{folder}'; {reasons[0]}")
    for line in reasons:
        print(line)
    return 0
