"""Numbers that papers report, as data: a file in `benchmarks/reported/` for every source. Knows nothing of results.

Files are in percent, as papers are; what comes out is rates. What is wrong with a number comes along as marks: flags of
the files, and what `doubts` computes, alone and with the sources that a file quotes. A layout is a table of a source:
`main` of the paper, `domainbed:pacs` of others.
"""

import re
from dataclasses import dataclass, field, replace
from functools import cache
from itertools import product
from pathlib import Path
from typing import Literal

from oodbench.config.cards import folder
from oodbench.config.schema import Document, Misfit, Place
from oodbench.errors import unknown
from oodbench.report.doubts import computed_marks, equal_cells, taken_over
from oodbench.report.numbers import SHOWN, Mark, Number
from oodbench.results.selection import RULES, TRAINING_DOMAIN

FULL_SIZE = (None, "released")  # presets that are what papers have: as the SCONE paper writes it, and as its code does
PAPER = "paper"  # what the source is also called whose layouts need no prefix


@dataclass(frozen=True)
class Flag:
    """Marks every number of these rows, columns and metrics; none named is all of them."""

    kind: Literal["suspect", "conflict", "note"]
    reason: str
    rows: list[str]
    columns: list[str] = field(default_factory=list)
    metrics: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Columns:
    """A column group: every metric in one setting, or averaged over several."""

    title: str
    settings: list[str] = field(default_factory=list)
    methods: dict[str, str] = field(default_factory=dict)  # which a row's are here, where values differ by column

    def methods_of(self, row: "ReportedRow") -> tuple[str, ...]:
        return tuple(self.methods.get(method, method) for method in row.methods)


@dataclass(frozen=True)
class ReportedRow:
    label: str
    methods: list[str]
    numbers: list[float]
    errors: list[float | None] = field(default_factory=list)
    settings: list[str] = field(default_factory=list)  # go before those of the column
    protocol: str | None = None
    runs: int = 1
    value: float | None = None  # of the hyperparameter that `learning.tuning` chooses


@dataclass(frozen=True)
class Group:
    rows: list[ReportedRow]
    name: str = ""

    def key(self, row: ReportedRow) -> str:
        """What a flag calls the row."""
        return f"{self.name} {row.label}"


@dataclass(frozen=True)
class Ablation:
    """Which method tried every value of a hyperparameter, and so knows out% of each."""

    method: str
    hyperparameter: str


@dataclass(frozen=True)
class ReportedTable:
    suite: str
    caption: str
    metrics: list[str]
    columns: list[Columns]
    groups: list[Group]
    run: str = ""  # the command that makes such results; empty if none does
    protocol: str = ""  # of numbers that are checked
    other_setting: str = ""  # how the table's setting differs from all that a suite has: then nothing is checked
    number: int | str | None = None
    heads: list[str] = field(default_factory=lambda: ["Method"])  # two: the name of the group is the first
    best: bool = False  # whether the best of a column is worth marking
    decimals: int = 2
    selection: str = TRAINING_DOMAIN  # the rule that chose the models, where that makes two tables of the same cells
    notes: list[str] = field(default_factory=list)
    reported_notes: list[str] = field(default_factory=list)  # shown with the reported numbers alone
    flags: list[Flag] = field(default_factory=list)
    ablation: Ablation | None = None
    trainer: dict[str, str] = field(default_factory=dict)  # values that a trainer with such hyperparameters must have

    @property
    def rows(self) -> list[tuple[Group, ReportedRow]]:
        return [(group, row) for group in self.groups for row in group.rows]


@dataclass(frozen=True)
class StandIn:
    """Presets of ours whose semantic sets stand in for sets of the source, and how the two differ otherwise."""

    suite: str
    presets: list[str]
    settings: dict[str, str]  # ours: theirs
    here: str
    there: str


@dataclass(frozen=True)
class Source:
    """The keys of a file."""

    label: str
    source: str
    provenance: str
    tables: dict[str, ReportedTable]
    also: str = ""  # another word for it
    secondary: str = ""  # where the numbers are from, if not from the source itself
    errata: list[str] = field(default_factory=list)  # what is wrong beside the numbers, which have flags
    own_errors: bool = False  # whether its errors, where it prints some, stand for its runs in place of our spread
    quotes: list[str] = field(default_factory=list)  # other sources whose numbers it repeats
    stand_ins: list[StandIn] = field(default_factory=list)  # shown beside each other, never checked


@dataclass(frozen=True)
class Reference:
    """A validated file: its tables, and its numbers by table, row and column."""

    name: str
    source: Source
    numbers: dict[str, list[list[Number]]]

    @property
    def all(self) -> list[Number]:
        return [number for rows in self.numbers.values() for row in rows for number in row]

    @property
    def layouts(self) -> list[str]:
        """What its tables are called on the command line."""
        return [_layout_name(self.name, self.source.also, table) for table in self.source.tables]

    @property
    def quoted(self) -> "list[Reference]":
        return [reference(name) for name in self.source.quotes]

    @property
    def is_checked(self) -> bool:
        """Whether any of its numbers is of a setting that a suite has."""
        return any(not table.other_setting for table in self.source.tables.values())


@dataclass(frozen=True)
class Layout:
    """A table of a source."""

    name: str
    reference: Reference
    table: ReportedTable
    numbers: list[list[Number]]

    @property
    def printed_in(self) -> str:
        number = f"Table {self.table.number}" if self.table.number else "a table"
        return f"{number} of {self.reference.source.label}"

    @property
    def other_setting(self) -> str:
        """A sentence for every reader of such a table; empty if a suite has its setting."""
        if not self.table.other_setting:
            return ""
        return (
            f"Numbers of {self.reference.source.label} are of a setting that oodbench cannot run as published, and do "
            f"not compare with ours: {self.table.other_setting}."
        )

    @property
    def reported_notes(self) -> list[str]:
        """What to know of the reported numbers as a whole."""
        source = self.reference.source
        secondary = [f"The reported numbers are secondary: {source.secondary}."] if source.secondary else []
        copied = [
            f"{count} cells of this table equal {other.source.label}'s digit for digit."
            for other in self.reference.quoted
            if (count := len(equal_cells([n for row in self.numbers for n in row], other.all)))
        ]
        errata = [f"Erratum: {each}." for each in source.errata]
        return [*secondary, *self.table.reported_notes, *copied, *errata]


@cache
def source_files() -> dict[str, Path]:
    """The spread of our own results lies beside them, and OpenOOD's leaderboard, which no suite has."""
    files = sorted((folder("benchmarks") / "reported").glob("*.yaml"))
    return {path.stem: path for path in files if path.stem not in ("spread", "openood")}


def source_names() -> list[str]:
    """What `--against` calls them."""
    return [*_aliases(), *source_files()]


@cache
def _aliases() -> dict[str, str]:
    """Other words for sources; read as text, since a command's help waits for them."""
    words = {name: re.search(r"^also: (\S+)", path.read_text("utf-8"), re.M) for name, path in source_files().items()}
    return {word[1]: name for name, word in words.items() if word is not None}


def reference(name: str) -> Reference:
    """A source by its name or another word for it."""
    if name not in source_names():
        raise unknown("source of reported numbers", name, source_names())
    return load(source_files()[_aliases().get(name, name)])


@cache
def layout_names() -> list[str]:
    """Of all sources, the paper's first; read as text too."""
    paper = _aliases()[PAPER]
    return [
        _layout_name(name, PAPER if name == paper else "", table)
        for name, path in sorted(source_files().items(), key=lambda file: file[0] != paper)
        for table in re.findall(r"^  ([\w-]+):$", path.read_text(encoding="utf-8").partition("\ntables:\n")[2], re.M)
    ]


def _layout_name(source: str, also: str, table: str) -> str:
    return table if also == PAPER else f"{source}:{table}"


def layout(name: str) -> Layout:
    if name not in layout_names():
        raise unknown("layout", name, layout_names())
    source, _, table = name.rpartition(":")
    owner = reference(source or PAPER)
    return Layout(name, owner, owner.source.tables[table], owner.numbers[table])


@cache
def load(path: Path) -> Reference:
    document = Document(path)
    source = document.conform(Source)
    for name, table in source.tables.items():
        try:
            _check(table)
        except Misfit as error:
            raise document.error(("tables", name, *error.place), error.message) from None
    for i, name in enumerate(source.quotes):
        if name not in source_files() or name == path.stem:
            others = [each for each in source_files() if each != path.stem]
            raise document.error(("quotes", i), str(unknown("source of reported numbers", name, others)))
    numbers = {name: _numbers(source, name, table) for name, table in source.tables.items()}
    every = [number for rows in numbers.values() for row in rows for number in row]
    computed = computed_marks(every)
    copied = taken_over(every, [number for name in source.quotes for number in reference(name).all])
    marked = {
        name: [[replace(n, marks=n.marks + computed.get(n, ()) + copied.get(n, ())) for n in row] for row in rows]
        for name, rows in numbers.items()
    }
    return Reference(path.stem, source, marked)


def _check(table: ReportedTable) -> None:
    """What types cannot say."""
    for i, metric in enumerate(table.metrics):
        if metric not in SHOWN:
            raise Misfit(("metrics", i), f"unknown metric '{metric}'; known: {', '.join(SHOWN)}")
    if not table.other_setting and not table.protocol:
        raise Misfit((), "expected the key 'protocol' or the key 'other_setting'")
    if table.selection not in RULES:
        raise Misfit(("selection",), str(unknown("selection", table.selection, RULES)))
    width = len(table.columns) * len(table.metrics)
    keys: dict[str, int] = {}
    for i, group in enumerate(table.groups):
        for j, row in enumerate(group.rows):
            place: Place = ("groups", i, "rows", j)
            for key, count in (("numbers", len(row.numbers)), ("errors", len(row.errors or row.numbers))):
                if count != width:
                    raise Misfit((*place, key), f"expected {width}, one per column and metric, got {count}")
            if not all(0 <= number <= 100 for number in row.numbers):
                raise Misfit((*place, "numbers"), "expected percentages from 0 to 100")
            if any(error is not None and not 0 <= error <= 100 for error in row.errors):
                raise Misfit((*place, "errors"), "expected points of percent from 0 to 100")
            if not row.methods or not all(row.settings or column.settings for column in table.columns):
                raise Misfit(place, "expected a method, and settings here or in every column")
            for key in (row.label, group.key(row)):
                keys[key] = keys.get(key, 0) + 1
    titles = [column.title for column in table.columns]
    for i, flag in enumerate(table.flags):
        if not flag.reason.strip():
            raise Misfit(("flags", i, "reason"), "expected the reason in words")
        for name, given, known in (
            ("rows", flag.rows, [key for key, count in keys.items() if count == 1]),
            ("columns", flag.columns, titles),
            ("metrics", flag.metrics, table.metrics),
        ):
            for each in given:
                if each not in known:
                    raise Misfit(("flags", i, name), f"'{each}' names none, or more than one")
    named = {method for _, row in table.rows for method in row.methods}
    for i, column in enumerate(table.columns):
        for method in column.methods:
            if method not in named:
                raise Misfit(("columns", i, "methods"), f"'{method}' is the method of no row")


def _numbers(source: Source, name: str, table: ReportedTable) -> list[list[Number]]:
    numbers = []
    for group, row in table.rows:
        line = []
        errors = row.errors or [None] * len(row.numbers)
        places = product(table.columns, table.metrics)
        for (column, metric), value, error in zip(places, row.numbers, errors, strict=True):
            marks = [
                Mark(flag.kind, flag.reason)
                for flag in table.flags
                if (row.label in flag.rows or group.key(row) in flag.rows)
                and (not flag.columns or column.title in flag.columns)
                and (not flag.metrics or metric in flag.metrics)
            ]
            decimals = max(table.decimals, len(repr(value).partition(".")[2]))
            number = Number(
                label=source.label,
                table=name,
                printed_in=f"Table {table.number}" if table.number else f"{source.label}'s table",
                suite=table.suite,
                settings=tuple(row.settings or column.settings),
                methods=column.methods_of(row),
                metric=metric,
                value=round(value / 100, decimals + 2),
                error=None if error is None else round(error / 100, decimals + 2),
                decimals=decimals,
                protocol=row.protocol or table.protocol,
                runs=row.runs,
                selection=table.selection,
                marks=tuple(marks),
                row=group.key(row),
                is_comparable=not table.other_setting,
                is_of_suite=not table.other_setting,
                own_error=_at_most(error) if source.own_errors and error is not None else None,
            )
            line.append(number)
        numbers.append(line)
    return numbers


def _at_most(error: float) -> float:
    """Of a printed error as a rate: a printed 0.0 may have been 0.05."""
    decimals = len(repr(error).partition(".")[2])
    return (error + 0.5 * 10**-decimals) / 100
