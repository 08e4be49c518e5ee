"""What follows from reported numbers alone: pairs that cannot be, and tables of one paper that disagree."""

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
            place = (number.label, number.table, number.suite, number.settings, number.methods)
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
    """Numbers of one source for one cell that differ by more than rounding."""
    cells: dict[tuple[object, ...], list[Number]] = {}
    for number in numbers:
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


def _listed(places: Sequence[str]) -> str:
    """Table 6; Tables 2, 3 and 10."""
    if len(places) == 1:
        return f"{places[0]} prints"
    numbers = [place.removeprefix("Table ") for place in places]
    return f"Tables {', '.join(numbers[:-1])} and {numbers[-1]} print"
