"""What follows from reported numbers alone.

Pairs that cannot be, tables of one paper that disagree, and cells that equal another paper's digit for digit.
"""

from collections.abc import Iterable, Sequence

from oodbench.report.numbers import Mark, Number

TINY = 1e-11  # what floating-point arithmetic may add to a rate


def computed_marks(numbers: list[Number]) -> dict[Number, tuple[Mark, ...]]:
    marks: dict[Number, tuple[Mark, ...]] = {}
    pairs = [((fpr, auroc), mark) for fpr, auroc, mark in impossible_pairs(numbers)]
    for concerned, mark in [*pairs, *conflicts(numbers)]:
        for number in concerned:
            marks[number] = (*marks.get(number, ()), mark)
    return marks


def auroc_bounds(fpr: float, rounding: float = 0.0) -> tuple[float, float]:
    """The AUROC that an FPR at 95 % allows.

    The curve of OOD flagged over ID flagged passes through (5 %, 100 % - FPR) and never falls: the area under it is at
    least what lies right of that point below it, and at most all but what lies left of it above it. `rounding` is how
    far the FPR may be from what is printed.
    """
    return 0.95 * (1 - fpr - rounding), 1 - 0.05 * (fpr - rounding)


def impossible_pairs(numbers: Iterable[Number]) -> list[tuple[Number, Number, Mark]]:
    """FPR and AUROC of one row and setting that cannot both be right."""
    pairs: dict[tuple[object, ...], dict[str, Number]] = {}
    for number in numbers:
        if number.metric in ("fpr95", "auroc"):
            place = (number.label, number.table, number.row, number.suite, number.settings, number.methods)
            pairs.setdefault(place, {})[number.metric] = number
    impossible = []
    for pair in pairs.values():
        if len(pair) == 2:
            fpr, auroc = pair["fpr95"], pair["auroc"]
            least, most = auroc_bounds(fpr.value, fpr.rounding)
            if auroc.value + auroc.rounding < least - TINY or auroc.value - auroc.rounding > most + TINY:
                limit = f"at most {100 * most:.2f}" if auroc.value > most else f"at least {100 * least:.2f}"
                reason = f"AUROC {auroc.text} with FPR {fpr.text} cannot be, {limit} can"
                impossible.append((fpr, auroc, Mark("impossible", reason)))
    return impossible


def conflicts(numbers: Iterable[Number]) -> list[tuple[tuple[Number, ...], Mark]]:
    """Numbers of one source for one cell that differ by more than rounding.

    Where no suite has the setting, rows of one method may differ in what makes it another, and nothing is told.
    """
    cells: dict[tuple[object, ...], list[Number]] = {}
    for number in filter(lambda each: each.is_of_suite, numbers):
        for method in number.methods:
            place = (number.label, number.selection, number.suite, number.settings, method, number.metric)
            cells.setdefault(place, []).append(number)
    marks: dict[frozenset[Number], tuple[tuple[Number, ...], Mark]] = {}
    for cell in cells.values():
        if any(abs(a.value - b.value) > max(a.rounding, b.rounding) + TINY for a in cell for b in cell):
            printed: dict[str, list[str]] = {}
            for number in cell:
                printed.setdefault(number.text, []).append(number.printed_in)
            reason = ", ".join(f"{_listed(places)} {text}" for text, places in printed.items())
            marks[frozenset(cell)] = tuple(cell), Mark("conflict", reason)
    largest = [key for key in marks if not any(key < other for other in marks)]  # names of one row make subsets
    return [marks[key] for key in largest]


def equal_cells(numbers: Iterable[Number], others: Iterable[Number]) -> dict[Number, Number]:
    """The numbers that another source has in the same cell, digit for digit, each with that number."""
    cells: dict[tuple[object, ...], Number] = {}
    for other in others:
        for method in other.methods if other.is_of_suite else ():
            cells.setdefault((*_cell(other), method, other.percent), other)
    equal = {}
    for number in numbers:
        found = (cells.get((*_cell(number), method, number.percent)) for method in number.methods)
        match = next(filter(None, found), None)
        if match is not None and number.is_of_suite:
            equal[number] = match
    return equal


def _cell(number: Number) -> tuple[object, ...]:
    return number.selection, number.suite, number.settings, number.metric


def taken_over(numbers: Iterable[Number], others: Iterable[Number]) -> dict[Number, tuple[Mark, ...]]:
    """Marks of what a source took over from another where it was suspect already."""
    return {
        number: tuple(
            Mark("suspect", f"equal to {other.printed_in} of {other.label}, where it is suspect: {mark.reason}")
            for mark in other.marks
            if mark.kind == "suspect"
        )
        for number, other in equal_cells(numbers, others).items()
        if other.is_doubtful
    }


def _listed(places: Sequence[str]) -> str:
    """Table 6; Tables 2, 3 and 10."""
    if len(places) == 1:
        return f"{places[0]} prints"
    numbers = [place.removeprefix("Table ") for place in places]
    return f"Tables {', '.join(numbers[:-1])} and {numbers[-1]} print"
