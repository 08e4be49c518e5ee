"""Tables for a terminal, as wide as they are or folded until no line is wider than a given width."""

import textwrap

from oodbench.report.labels import plain
from oodbench.report.model import Table
from oodbench.report.render.panels import panels, shown_width

WITHOUT_ERRORS = "The ± values do not fit here; a wider terminal or another format shows them."


def to_text(table: Table, width: int | None = None, bold: bool = False) -> str:
    """Settings below each other, beside each other where `width` leaves room; the best is marked, or `bold`."""
    whole = _text(table, width, True, bold)
    if width is None or max(map(shown_width, whole.splitlines())) <= width:
        return whole
    return _text(table, width, False, bold)


def _text(table: Table, width: int | None, errors: bool, bold: bool) -> str:
    notes = [f"({letter}) {plain(note)}" for note, letter in table.marks.items()]
    below = [
        [" ".join(filter(None, [table.legend("bold" if bold else table.mark), table.counts_line]))],
        notes,
        [*map(plain, table.remarks), *([] if errors else [WITHOUT_ERRORS])],
        [" ".join(table.metric_definitions)],
    ]
    above = _paragraph([plain(table.title), *map(plain, table.caption.splitlines())], width)
    blocks = [above, *panels(table, width, errors, bold), *(_paragraph(lines, width) for lines in below)]
    return "\n\n".join(filter(None, blocks)) + "\n"


def _paragraph(lines: list[str], width: int | None) -> str:
    """Each on a line of its own, folded between words where it is too long."""
    folded = [line if width is None else textwrap.fill(line, width, break_on_hyphens=False) for line in lines if line]
    return "\n".join(folded)
