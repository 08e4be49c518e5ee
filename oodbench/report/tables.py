"""Results in, tables of our own out: a row for each method in the groups of the paper, with means over settings.

Reads raw scores and imports no torch. `layouts` makes the tables of papers, `render` turns all of them into text.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import product
from typing import Literal

from oodbench.config import suite as suites
from oodbench.config.suite import NONE
from oodbench.errors import UserError, unknown
from oodbench.report import notes
from oodbench.report.labels import AVERAGE, by_paper, groups_of, is_given, plain, row_names, suite_in_words
from oodbench.report.model import Cell, Row, Table, mark_best
from oodbench.results import marks, statistics
from oodbench.results import selection as model_selection
from oodbench.results.ledger import Ledger, Place, as_ledger, examples_of, in_order, methods_of
from oodbench.results.measurement import Runs
from oodbench.results.metrics import METRICS, Metric
from oodbench.results.resampling import ACCURACIES
from oodbench.results.result import Result
from oodbench.results.samples import Sample
from oodbench.results.statistics import Column

DEFAULT_METRICS = ("covariate_acc", "id_acc", "fpr95", "auroc", "covariate_flagged")
RANKINGS = ("auroc", "auroc_full")  # metrics whose value by chance is 50 %
TRANSDUCTIVE = (
    "Methods that learn with wild data saw unlabeled images of the held-out domain, so their rows are transductive."
)
# Draws of the images. One seed has the ends of its interval from them; of several seeds they only give a covariance.
DRAWS, FEWER = 1_000, 300

Groups = Mapping[str, Sequence[str]]  # semantic sets by the name of a group


def build(
    results: Ledger | Sequence[Result],
    metrics: Sequence[str] | None = None,
    seeds: int | Literal["all"] = "all",
    selection: str | None = model_selection.TRAINING_DOMAIN,
    images: bool = True,
    sort: str | None = None,
    groups: Groups | None = None,
    average: bool = False,
    tests: bool = False,
    ranks: bool = False,
) -> list[Table]:
    """A table per suite, two where domains are held out with and without a semantic set.

    `metrics` are DEFAULT_METRICS, without those that no result of a table has, unless some are asked for, which are
    shown even then. `seeds` keeps that many of the lowest seeds of each method and setting; `selection` chooses a
    checkpoint of results that have several, None takes them as they were at the end. Without `images` no raw scores are
    read, and intervals are over seeds alone. `sort` is a metric, shown or not, by which all rows stand, best first and
    without groups; a table whose results lack it keeps its order. `groups` are those of the suite, where it is at hand.
    With `average`, means over the settings of a table stand in their place. With `tests`, methods that are not shown to
    be worse than the best of a column are marked, and with `ranks` each has its rank in a column and a set of ranks.
    """
    for name in (*(metrics or ()), *([] if sort is None else [sort])):
        if name not in METRICS:
            raise unknown("metric", name, METRICS)
    if metrics is not None and not metrics:
        raise UserError(f"no metrics to show; choose from: {', '.join(METRICS)}")
    lowest = checked_seeds(seeds)
    shown = None if metrics is None else [METRICS[name] for name in dict.fromkeys(metrics)]
    by = None if sort is None else METRICS[sort]
    tables = []
    for suite, ledger in as_ledger(results).suites.items():
        origins, words = notes.replaced(ledger.results), suite_in_words(ledger.newest)
        if selection is None:
            table = _table(suite, _lowest(ledger.last_runs, lowest), shown, images, by, groups, average, tests, ranks)
            caption = notes.given_networks(ledger.last_runs)
            table = replace(table, caption=caption, suite_in_words=words)
            tables.append(replace(table, notes=(*table.notes, *origins)))
            continue
        kinds = model_selection.by_protocol(ledger)
        for some, last_only in kinds:
            selected = model_selection.select(some, selection, last_only)
            sentence = model_selection.describe(selected.values(), selection, last_only)
            networks = notes.given_networks(selected)
            caption = " ".join(filter(None, [networks, sentence, TRANSDUCTIVE if last_only else ""]))
            table = _table(suite, _lowest(selected, lowest), shown, images, by, groups, average, tests, ranks)
            part = "with a semantic set" if last_only and len(kinds) > 1 else ""
            table = replace(table, part=part, caption=caption, suite_in_words=words)
            tables.append(replace(table, notes=(*table.notes, *origins)))
    if by is not None and all(table.has_groups for table in tables):
        raise UserError(f"no result here has '{by.name}' to sort by; choose another metric")
    return tables


def with_accuracies_above(table: Table) -> Table:
    """Scorers of one network share its accuracies, which one line then says in place of columns of equal numbers."""
    shared = notes.shared_accuracies(table)
    places = [i for i, metric in enumerate(table.metrics) if metric.name not in ACCURACIES]
    if not shared or not places:
        return table
    count = len(table.metrics)
    kept = [j * count + i for j in range(len(table.settings)) for i in places]
    said = (*notes.shift_lines(table), *(note for note in table.notes if note != notes.OF_GIVEN))
    return replace(
        table,
        metrics=[table.metrics[i] for i in places],
        rows=[replace(row, cells=[row.cells[i] for i in kept]) for row in table.rows],
        caption="\n".join(filter(None, [table.caption, shared])),
        notes=said,
    )


def checked_seeds(seeds: int | Literal["all"]) -> int | None:
    if isinstance(seeds, int) and seeds < 1:
        raise UserError(f"a table of {seeds} seeds is empty; give a number from 1, or 'all'")
    return None if seeds == "all" else seeds


def _lowest(runs: Mapping[Place, Runs], seeds: int | None) -> dict[Place, Runs]:
    return {place: some.lowest(seeds) for place, some in runs.items()}


def _table(
    suite: str, runs: Mapping[Place, Runs], asked: list[Metric] | None, images: bool, by: Metric | None,
    groups: Groups | None, average: bool, tests: bool, ranks: bool,
) -> Table:  # fmt: skip
    metrics = _recorded(runs) if asked is None else asked
    methods = by_paper(methods_of(runs))
    row_groups = groups_of(methods)
    names = row_names(methods)
    settings = in_order(runs)
    means = averages(runs, settings, groups)
    columns = {setting: [setting] for setting in settings} | means
    if average and len(settings) > 1:
        columns = means or {AVERAGE: settings}
    samples, twins = Samples(runs, metrics, images), notes.unparted(names, runs)
    own = {(label, title): [runs.get((label, s)) for s in columns[title]] for label, title in product(methods, columns)}
    of_runs = {place: notes.of_cell(some, twins.get(place)) for place, some in own.items()}

    def cell(label: str, title: str, metric: Metric) -> Cell:
        known = [some for some in own[label, title] if some is not None]
        if len(known) < len(columns[title]):
            return Cell(remarks=(notes.not_run(len(columns[title])),), setting=title)
        made = measured(known, metric, samples.of(label, columns[title], metric))
        return replace(made, setting=title, of_runs=of_runs[label, title])

    grid = [[cell(label, title, metric) for title, metric in product(columns, metrics)] for label in methods]
    mark_best(grid, metrics * len(columns))
    said = _mark_near(grid, [*methods], list(product(columns, metrics)), own, names) if tests else ""
    if ranks:
        _add_ranks(grid, [*methods], metrics * len(columns))
        said = " ".join(filter(None, [said, notes.RANKS]))
    rows = [
        Row(
            label,
            row_groups[label],
            cells,
            (names[label],),
            method.trainer.name,
            plain(method.trainer.display) if is_given(method) else "",
            notes.of_row(
                [own[label, title] for title in columns],
                [(title, twins[label, title]) for title in columns if (label, title) in twins],
            ),
        )
        for (label, method), cells in zip(methods.items(), grid, strict=True)
    ]
    shares = notes.one_network(names, runs) if any(metric.name in ACCURACIES for metric in metrics) else []
    below = (*shares, *notes.larger_base(runs), *filter(None, [said]))
    table = Table(suite, list(columns), metrics, notes.with_seeds(rows), notes=below)
    return table if by is None else _sorted(table, by, runs, settings)


def _recorded(runs: Mapping[Place, Runs]) -> list[Metric]:
    """Of DEFAULT_METRICS: without a semantic set there are accuracies alone; all if every run failed."""
    recorded = {name for some in runs.values() for each in some.measurements for name in each.metrics}
    return [METRICS[name] for name in DEFAULT_METRICS if name in recorded or recorded.isdisjoint(DEFAULT_METRICS)]


def _mark_near(
    grid: list[list[Cell]], methods: Sequence[str], columns: Sequence[tuple[str, Metric]],
    runs: Mapping[Place, Sequence[Runs | None]], names: Mapping[str, str],
) -> str:  # fmt: skip
    """Marks what is not shown to be worse than the best, and says how many seeds would show it."""
    found: list[tuple[str, str, marks.Tested]] = []
    for i, (title, metric) in enumerate(columns):
        known = {method: sample for method, row in zip(methods, grid, strict=True) if (sample := row[i].sample)}
        variants = {method: [each.newest.variant for each in runs[method, title] if each] for method in known}
        stored = {method: marks.stored_values(own, metric.name) for method, own in variants.items()}
        column = marks.tested(Column(metric, known), stored)
        if column is None:
            continue
        for method, row in zip(methods, grid, strict=True):
            row[i] = replace(row[i], near=not row[i].best and method in column.not_shown_worse)
        found.append((title, metric.title, column))
    means = [each for each in found if each[0].startswith(AVERAGE)] or found
    several = len({title for title, _, _ in means}) > 1
    return notes.seeds_to_tell(
        [(f"{metric} in {title}" if several else metric, each) for title, metric, each in means], names
    )


def _add_ranks(grid: list[list[Cell]], methods: Sequence[str], metrics: Sequence[Metric]) -> None:
    for i, metric in enumerate(metrics):
        known = {method: sample for method, row in zip(methods, grid, strict=True) if (sample := row[i].sample)}
        found = marks.ranks(Column(metric, known))
        for method, row in zip(methods, grid, strict=True):
            row[i] = replace(row[i], rank=found.get(method))


def measured(runs: Sequence[Runs], metric: Metric, sample: Sample | None) -> Cell:
    """Of one setting, or the mean over several."""
    lacking = dict.fromkeys(note for some in runs for note in notes.lacking(some, metric))
    is_below = metric.name in RANKINGS and sample is not None and round(100 * sample.mean, Cell.decimals) < 50
    return Cell(sample, tuple(lacking), flag=notes.BELOW_CHANCE if is_below else "")


def _sorted(table: Table, by: Metric, runs: Mapping[Place, Runs], settings: Sequence[str]) -> Table:
    """All rows by one metric, best first, those without it last, equals by name; the table itself if none has it."""
    found = standings(runs, [row.method for row in table.rows], settings, by)
    if not found:
        return table
    last = (len(settings), 0.0)
    rows = sorted(table.rows, key=lambda row: (*found.get(row.method, last), row.name))
    return replace(table, rows=rows, has_groups=False, notes=(notes.sorting(by, settings), *table.notes))


def standings(
    runs: Mapping[Place, Runs], methods: Iterable[str], settings: Sequence[str], metric: Metric
) -> dict[str, tuple[int, float]]:
    """How many settings a method lacks, and its mean over the others: less is better. None of methods without a number.

    Means over different settings do not compare: who has more is first.
    """
    samples = Samples(runs, [metric], images=False)
    sign = -1 if metric.higher_is_better else 1
    found = {}
    for method in methods:
        known = [setting for setting in settings if samples.of(method, [setting], metric) is not None]
        sample = samples.of(method, known, metric) if known else None  # as a column of averages would print it
        if sample is not None:
            found[method] = (len(settings) - len(known), sign * sample.mean)
    return found


def averages(runs: Mapping[Place, Runs], settings: Sequence[str], groups: Groups | None = None) -> dict[str, list[str]]:
    """Titles and the settings that a mean is taken over; none where the settings differ in more than one thing.

    `groups` are those of the suite, where it is at hand.
    """
    examples = examples_of(runs)
    if _hold_out_one_domain_each(list(examples.values())):
        return {AVERAGE: list(settings)}
    if _differ_in_semantic_sets(list(examples.values())):
        sets = {setting: examples[setting].config.setting.semantic for setting in settings}
        named = groups if groups is not None else _groups_of(max(examples.values(), key=lambda each: each.written))
        over = {
            f"{AVERAGE} ({name})": [setting for setting in settings if sets[setting] in members]
            for name, members in sorted(named.items())
        }
        several = [(title, some) for title, some in over.items() if len(some) > 1]
        shown = dict(sorted(several, key=lambda each: settings.index(each[1][0])))  # as their settings stand
        return shown if list(settings) in shown.values() else {**shown, AVERAGE: list(settings)}
    return {}


def _hold_out_one_domain_each(examples: Sequence[Result]) -> bool:
    if len(examples) < 2 or any(len(each.held_out) != 1 for each in examples):
        return False
    rest = {replace(each.config.setting, covariate="") for each in examples}
    return len(rest) == 1 and len({each.held_out for each in examples}) == len(examples)


def _differ_in_semantic_sets(examples: Sequence[Result]) -> bool:
    sets = {each.config.setting.semantic for each in examples}
    rest = {replace(each.config.setting, semantic="") for each in examples}
    return len(rest) == 1 and len(sets) == len(examples) > 1 and NONE not in sets


def _groups_of(result: Result) -> Groups:
    """As the file of a suite of ours names them today; of a user's suite, whose file may lie anywhere, as it ran."""
    if result.suite in suites.suite_files():
        try:
            return suites.load(result.suite, result.preset).contents.groups
        except UserError:  # a table is of results, and a file that was broken since must not stand in its way
            pass
    return result.config.suite.groups


class Samples:
    """A sample of each number: its values by seed, and how they vary with images.

    Raw scores are read once for each setting, and when they are first asked for.
    """

    def __init__(self, runs: Mapping[Place, Runs], metrics: Collection[Metric], images: bool = True) -> None:
        """`images=False` reads no raw scores: seeds alone count."""
        self.metrics = [metric.name for metric in metrics if metric.name in METRICS]
        self.images = images
        # One number of draws for all settings, so that a mean over settings has draws too.
        self.draws = DRAWS if any(len(some.ok) == 1 for some in runs.values()) else FEWER
        self.runs: dict[str, dict[str, Runs]] = {}
        for (method, setting), some in runs.items():
            self.runs.setdefault(setting, {})[method] = some
        self.columns: dict[str, dict[str, Column]] = {}

    def of(self, method: str, settings: Sequence[str], metric: Metric) -> Sample | None:
        """Of a setting, or the mean over several; None if there is no number, or none under a seed that all have."""
        own = [self._column(setting, metric).samples.get(method) for setting in settings]
        known = [sample for sample in own if sample is not None]
        if len(known) < len(own):
            return None
        if len({sample.content for sample in known}) == 1:  # or one network on the same images, whatever the setting
            return known[0]
        columns = [Column(metric, {method: sample}) for sample in known]
        return statistics.average(columns).samples.get(method)

    def _column(self, setting: str, metric: Metric) -> Column:
        if setting not in self.columns:
            runs = self.runs[setting]
            self.columns[setting] = statistics.columns(runs, self.metrics, self.draws, images=self.images)
        return self.columns[setting][metric.name]
