"""Tables for a terminal, as wide as they are or folded until no line is wider than a given width."""

import textwrap

from oodbench.report.render.panels import panels, shown_width
from oodbench.report.sentences import BEST
from oodbench.report.tables import IN_PERCENT, Table, plain

WITHOUT_ERRORS = "The ± values do not fit here; a wider terminal or another format shows them."


def to_text(table: Table, width: int | None = None) -> str:
    """Settings below each other, beside each other where `width` leaves room; a star on the best figures."""
    whole = _text(table, width, True)
    if width is None or max(map(shown_width, whole.splitlines())) <= width:
        return whole
    return _text(table, width, False)


def _text(table: Table, width: int | None, errors: bool) -> str:
    best = f"* {BEST}. " if any(cell.best for row in table.rows for cell in row.cells) else ""
    unit = f"{IN_PERCENT} " if table.definitions.startswith(IN_PERCENT) else ""
    notes = [f"({letter}) {plain(note)}" for note, letter in table.marks.items()]
    below = [
        [f"{unit}{best}{table.counts_line}"],
        notes,
        [*map(plain, table.remarks), *([] if errors else [WITHOUT_ERRORS])],
        [" ".join(table.metric_definitions)],
    ]
    above = _paragraph([plain(table.title), plain(table.caption)], width)
    blocks = [above, *panels(table, width, errors), *(_paragraph(lines, width) for lines in below)]
    return "\n\n".join(filter(None, blocks)) + "\n"


def _paragraph(lines: list[str], width: int | None) -> str:
    """Each on a line of its own, folded between words where it is too long."""
    folded = [line if width is None else textwrap.fill(line, width, break_on_hyphens=False) for line in lines if line]
    return "\n".join(folded)
