"""Tables for a terminal."""

from tabulate import tabulate

from oodbench.report.render.titles import title_of
from oodbench.report.sentences import BEST
from oodbench.report.tables import Entry, Table, plain


def to_text(table: Table) -> str:
    """For a terminal: the settings one below the other, a star on the best figures."""
    marks = {note: f" ({letter})" for note, letter in table.marks.items()}
    blocks = [plain(table.title) + (f"\n{plain(table.caption)}" if table.caption else "")]
    titles = [title_of(metric) for metric in table.metrics]
    if len(titles) == 1:  # one figure each: the settings fit beside each other
        blocks.append(_block(table, [plain(s) for s in table.settings], slice(None), marks))
        blocks.append(titles[0])
    else:
        for i, setting in enumerate(table.settings):
            own = slice(i * len(titles), (i + 1) * len(titles))
            blocks.append(f"{plain(setting)}\n{_block(table, titles, own, marks)}")
    notes = "\n".join(f"{mark.strip()} {plain(note)}" for note, mark in marks.items())
    best = f"* {BEST}. " if any(cell.best for row in table.rows for cell in row.cells) else ""
    unit = "In percent. " if table.definitions.startswith("In percent") else ""
    remarks, definitions = "\n".join(map(plain, table.remarks)), " ".join(table.metric_definitions)
    below = [f"{unit}{best}{table.seeds_line}", notes, remarks, definitions]
    return "\n\n".join(filter(None, [*blocks, *below])) + "\n"


def _block(table: Table, titles: list[str], own: slice, marks: dict[str, str]) -> str:
    """The rows under some of the columns."""
    lines = [(i, line) for i, row in enumerate(table.rows) for line in row.lines]
    shown = [line.entries[own] for _, line in lines]
    columns = [_column([figures[c] for figures in shown], marks) for c in range(len(titles))]
    body: list[list[str]] = []
    for (i, line), *numbers in zip(lines, *columns, strict=True):
        if line.is_measured and (heading := table.heading(i)):
            body.append([heading])
        indent = ("  " if table.group_of_row(i) else "") + ("" if line.is_measured else "  ")
        *others, last = map(plain, line.heads)
        body.append([*others, indent + last, *numbers])
    return tabulate(
        body,
        ["" if table.heads == ("Method",) else table.heads[0], *table.heads[1:], *titles],
        tablefmt="simple",
        disable_numparse=True,
        preserve_whitespace=True,
        colalign=(*["left"] * len(table.heads), *["right"] * len(titles)),
    )


def _column(figures: list[Entry], marks: dict[str, str]) -> list[str]:
    """Figures line up, and so do their errors and marks."""
    width = max(len(figure.error) for figure in figures)
    tail = max(len(marks.get(figure.note, "")) for figure in figures)
    shown = []
    for figure in figures:
        error = f" ± {figure.error:>{width}}" if figure.error else " " * (width + 3 if width else 0)
        star = "*" if figure.best else " "
        shown.append(f"{figure.text}{error}{star}{marks.get(figure.note, ''):{tail}}")
    return shown
