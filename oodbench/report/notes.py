"""What a reader must know beside the numbers: every note of a table is written here, where its row is made.

Notes of a row are about its runs, such as a failure; notes of a number about it alone; notes of a table stand below it.
"""

import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from oodbench.config.shipped import needs_outliers
from oodbench.config.suite import NONE
from oodbench.report.labels import AVERAGE, ERM, plain
from oodbench.results.ledger import Place
from oodbench.results.marks import MOST_SEEDS, Tested
from oodbench.results.measurement import Measurement, Runs
from oodbench.results.metrics import Metric
from oodbench.results.resampling import ACCURACIES, splits_of
from oodbench.results.result import WILD_MIXTURE, Result

if TYPE_CHECKING:
    from oodbench.report.model import Row, Table

NEAR = "not shown to be worse than it (paired over seeds and images, 5 % for the column)"
RANKS = (
    "Rank: by the mean, and in brackets the ranks that a method may have (95 %; from three seeds on); equals share one."
)
OF_GIVEN = "Rows of the same given network share its accuracies."
BELOW_CHANCE = "below 50 is worse than chance: ID images tend to score higher than semantic OOD images"
VIOLATION = re.compile(r"violated, (\d+\.?\d*) where (\d*\.?\d*[1-9]) is allowed")  # as a training notes it
LONGEST_NOTE = 200  # characters of an error message under a table; the result file has all of it


def of_row(cells: "Iterable[Sequence[Runs | None]]", twins: Iterable[tuple[str, str]] = ()) -> tuple[str, ...]:
    """What a reader must know about the runs of a row, said once: whatever the metric and the setting.

    `twins` are notes of settings in which the row has the numbers of another.
    """
    runs = list({id(some): some for own in cells if None not in own for some in own if some}.values())
    return (*once(twins, len(runs)), *notes_of(runs))


def of_cell(runs: "Sequence[Runs | None]", twin: str | None = None) -> tuple[str, ...]:
    """The same of one number; nothing where a setting was not run, which its cell says."""
    known = [some for some in runs if some is not None]
    return (*filter(None, [twin]), *notes_of(known)) if len(known) == len(runs) else ()


def not_run(settings: int) -> str:
    return f"not run in {'this' if settings == 1 else 'every'} setting"


def notes_of(runs: Sequence[Runs]) -> tuple[str, ...]:
    """What a reader must know about the runs of a row, one for each setting, whichever metric they are shown by."""
    notes = [(some.newest.setting, note) for some in runs for note in _of_setting(some)]
    return (*once(notes, len(runs)), *_not_converged(runs))


def once(notes: Iterable[tuple[str, str]], settings: int) -> list[str]:
    """Notes of settings, each said once: what does not hold in all of them names those where it does."""
    where: dict[str, list[str]] = {}
    for setting, note in notes:
        where.setdefault(note, []).append(setting)
    return [note if len(own) == settings else f"{', '.join(own)}: {note}" for note, own in where.items()]


def _of_setting(runs: Runs) -> list[str]:
    failed = failures(runs)
    if runs.ok and failed:
        failed.insert(0, f"only {_seeds(runs.ok)}")
    notes = ["; ".join(failed)] if failed else []
    few = [count for each in runs.ok if isinstance(count := each.result.notes.get("few_validation"), int)]
    if few:
        notes.append(f"fitted on as few as {min(few)} ID validation images per class")
    outliers = dict.fromkeys(filter(None, (_outliers(each.result) for each in runs.ok)))
    if outliers:
        notes.append(f"its outliers are {' and '.join(outliers)}")
    incomplete = [each for each in runs.ok if each.choice is not None and each.choice.passed_over]
    if incomplete:
        notes.append(f"model selection skipped draws that failed or lack pairs ({_seeds(incomplete)})")
    if runs.left_out:
        files = "1 result file" if runs.left_out == 1 else f"{runs.left_out} result files"
        notes.append(f"{files} with another configuration left out")
    return notes


def _outliers(result: Result) -> str | None:
    """What a trainer learned from as outliers; results of earlier versions do not say that it was the wild mixture."""
    if "outliers" in result.notes:
        return str(result.notes["outliers"])
    method = result.config.method
    return method.outliers or WILD_MIXTURE if needs_outliers(method.trainer.name) else None


def failures(runs: Runs) -> list[str]:
    """Why runs failed, and under which seeds."""
    reasons: dict[str, list[Measurement]] = {}
    for each in runs.failed:
        reasons.setdefault(_cut(each.problem or ""), []).append(each)
    return [f"failed: {reason} ({_seeds(some)})" for reason, some in reasons.items()]


def _not_converged(runs: Sequence[Runs]) -> list[str]:
    """Of networks shown as they were at the end of a training that says so; of several reasons the worst violation."""
    unfinished: list[tuple[str, list[Measurement]]] = []  # by setting
    for some in runs:
        shown = (each for each in some.ok if each.choice is None or each.choice.is_last)
        if own := [each for each in shown if each.result.notes.get("not_converged")]:
            unfinished.append((some.newest.setting, own))
    if not unfinished:
        return []
    every = [each for _, own in unfinished for each in own]
    reasons = list(dict.fromkeys(_cut(str(each.result.notes["not_converged"])) for each in every))
    by_seeds: dict[str, list[str]] = {}
    for setting, own in unfinished:
        by_seeds.setdefault(_seeds(own), []).append(setting)
    is_everywhere = len(by_seeds) == 1 and len(unfinished) == len(runs)
    where = "; ".join(seeds if is_everywhere else f"{seeds} in {', '.join(own)}" for seeds, own in by_seeds.items())
    if len(reasons) == 1:
        return [f"did not converge: {reasons[0]} ({where})"]
    told = [
        (
            f"seed {each.seed}" if len(runs) == 1 else f"{setting}, seed {each.seed}",
            str(each.result.notes["not_converged"]),
        )
        for setting, own in unfinished
        for each in own
    ]
    whose, reason = max(told, key=lambda one: _violation(one[1]))  # the first, if no constraint is violated
    at_worst = "at worst, " if _violation(reason) else ""
    return [f"did not converge for {where} ({at_worst}{whose}: {_cut(reason)})"]


def _violation(reason: str) -> float:
    """What the worse constraint of a training came to, as a multiple of its limit; 0 if none is violated."""
    return max((float(value) / float(limit) for value, limit in VIOLATION.findall(reason)), default=0.0)


def lacking(runs: Runs, metric: Metric) -> list[str]:
    lacking = [each for each in runs.ok if not math.isfinite(each.metrics.get(metric.name, math.nan))]
    known = [each for each in lacking if metric.name in each.result.metrics]
    earlier = [each for each in known if each.choice is not None and not each.choice.is_last]
    others = [each for each in lacking if each not in earlier]
    notes = []
    if earlier:
        notes.append(
            f"{metric.title} is known only at the last checkpoint, and an earlier one was selected ({_seeds(earlier)})"
        )
    if others:
        absent = _absent_sets(runs, metric)
        notes.append(absent or f"{metric.title} was not recorded ({_seeds(others)})")
    return notes


def _absent_sets(runs: Runs, metric: Metric) -> str:
    """Which sets a metric would need and the setting lacks; empty if that is not the reason."""
    setting = runs.newest.config.setting
    sets = {"covariate": setting.covariate, "semantic": setting.semantic}
    absent = [kind for kind in splits_of(metric.name) if sets.get(kind) == NONE]
    return f"{metric.title} needs a {' and a '.join(absent)} set, which this setting lacks" if absent else ""


def _seeds(some: list[Measurement]) -> str:
    return seeds_in_words(each.seed for each in some)


def seeds_in_words(seeds: Iterable[int]) -> str:
    """`seed 3`, `seeds 0, 1` or, where three or more follow each other, `seeds 0–4, 7`."""
    ordered = sorted(set(seeds))
    runs: list[list[int]] = []
    for seed in ordered:
        if runs and seed == runs[-1][-1] + 1:
            runs[-1].append(seed)
        else:
            runs.append([seed])
    folded = [f"{run[0]}–{run[-1]}" if len(run) > 2 else ", ".join(map(str, run)) for run in runs]
    return ("seed " if len(ordered) == 1 else "seeds ") + ", ".join(folded)


def _cut(text: str) -> str:
    text = plain(text)
    return text if len(text) <= LONGEST_NOTE else text[: LONGEST_NOTE - 1] + "…"


def seeds(rows: "Sequence[Row]") -> str:
    """How many stand behind the numbers, and which methods differ from most; empty if none do."""
    usual = _usual_seeds(rows)
    if usual is None:
        return ""
    differing: dict[str, set[int]] = {}
    for row in rows:
        name = _as_given(rows).lower() if row.network and not are_given(rows) else row.name
        if _counts(row) - {usual}:
            differing[name] = differing.get(name, set()) | _counts(row)
    return "; ".join([_mean_over(rows, usual), *(f"{name}: {_either(own)}" for name, own in differing.items())])


def seeds_beside_rows(rows: "Sequence[Row]") -> str:
    """The same where rows say themselves how they differ; what was given is counted together."""
    usual = _usual_seeds(rows)
    if usual is None:
        return ""
    words = [_mean_over(rows, usual)]
    if any(row.seeds for row in rows):
        words[0] += " unless a row says otherwise"
    given = {n for row in rows if row.network for n in _counts(row)} - {usual}
    return "; ".join([*words, *([f"{_as_given(rows).lower()}: {_either(given)}"] if given else [])])


def with_seeds(rows: "Sequence[Row]") -> "list[Row]":
    """Rows that say how many seeds they have, where that differs from most.

    Rows of given networks are many, and were not trained: beside others they are counted together.
    """
    usual = _usual_seeds(rows)
    marked = []
    for row in rows:
        differs = bool(_counts(row) - {usual}) and (not row.network or are_given(rows))
        one = _counts(row) == {1}
        marked.append(replace(row, seeds=f"{_either(_counts(row))} seed{'' if one else 's'}" if differs else ""))
    return marked


def _usual_seeds(rows: "Sequence[Row]") -> int | None:
    """That of most rows that were trained, or else of all; the larger of equals; None if no run succeeded."""
    trained = [row for row in rows if not row.network and _counts(row)]
    tally = Counter(n for row in trained or rows for n in _counts(row))
    return max(tally, key=lambda n: (tally[n], n)) if tally else None


def _counts(row: "Row") -> set[int]:
    return {cell.seeds for cell in row.cells if cell.seeds}


def _mean_over(rows: "Sequence[Row]", count: int) -> str:
    words = "one seed" if count == 1 else f"mean over {count} seeds"
    return f"{_as_given(rows)}, {words}" if are_given(rows) else words.capitalize()


def _either(counts: set[int]) -> str:
    return " or ".join(map(str, sorted(counts)))


def are_given(rows: "Sequence[Row]") -> bool:
    """Whether every row is of a network that was given, so that no training varies."""
    return bool(rows) and all(row.network for row in rows)


def _as_given(rows: "Sequence[Row]") -> str:
    return "Networks as given" if len({row.network for row in rows if row.network}) > 1 else "The network as given"


def shared_accuracies(table: "Table") -> str:
    """What all rows of a table have in common, where there are several and every setting's accuracies are theirs."""
    words, count = [], len(table.metrics)
    for name in ("id_acc", "covariate_acc"):
        i = next((i for i, metric in enumerate(table.metrics) if metric.name == name), None)
        if i is None:
            continue
        printed: dict[str, list[str]] = {}
        for j, setting in enumerate(table.settings):
            cells = [row.cells[j * count + i] for row in table.rows]
            texts = {f"{c.percent} ± {c.margin_percent}".removesuffix(" ± ") for c in cells if c.mean is not None}
            if len(texts) > 1 or len(cells) < 2:
                return ""
            if texts and (not setting.startswith(AVERAGE) or len(table.settings) == 1):
                printed.setdefault(texts.pop(), []).append(setting)
        title = table.metrics[i].title
        words += [
            f"{title} {text}" + (f" in {', '.join(settings)}" if len(printed) > 1 else "")
            for text, settings in printed.items()
        ]
    return f"Every row: {', '.join(words)}." if words else ""


def given_networks(runs: Mapping[Place, Runs]) -> str:
    """Which networks were given, and where they come from; empty if none were."""
    given = [some.newest.config.given for some in runs.values()]
    words = sorted({each.words for each in given if each is not None})
    return f"Your network{'s' * (len(words) > 1)}: {'; '.join(words)}." if words else ""


def intervals(rows: "Sequence[Row]", metrics: Sequence[Metric]) -> str:
    """What stands after ±; empty if nothing does."""
    by_kind: dict[str, dict[str, None]] = {}  # titles of the metrics that have such an interval
    for row in rows:
        for i, cell in enumerate(row.cells):
            if cell.interval is not None:
                by_kind.setdefault(cell.interval.kind, {})[metrics[i % len(metrics)].title] = None
    phrases = []
    if "seeds and images" in by_kind:
        phrases.append("over seeds and images")
    if "images" in by_kind:
        where = "with one seed, " if phrases else ""
        left_out = "" if are_given(rows) else ", which leaves out the variation between trainings"
        phrases.append(f"{where}over images only{left_out}")
    if "seeds" in by_kind:
        titles = f"for {', '.join(by_kind['seeds'])}, " if len(by_kind["seeds"]) < len(metrics) else ""
        where, why = f"{titles}where a number has no raw scores, ", ", because the numbers have no raw scores"
        phrases.append(f"{where}over seeds only" if phrases else f"over seeds only{why}")
    return f"±: half of the 95 % interval {'; '.join(phrases)}." if phrases else ""


def lost_by_erm(table: "Table") -> dict[str, str]:
    """Points of percent that the covariate shift costs ERM, by setting, where the table shows both accuracies."""
    return _lost(table, sorted((row for row in table.rows if row.trainer == ERM), key=lambda row: row.method != ERM))


def _lost(table: "Table", rows: "Sequence[Row]") -> dict[str, str]:
    """By the first of the rows, which have one network."""
    names = [metric.name for metric in table.metrics]
    if not rows or not {*ACCURACIES} <= {*names}:
        return {}
    lost = {}
    for i, setting in enumerate(table.settings):
        means = [rows[0].cells[i * len(names) + names.index(name)].mean for name in ("id_acc", "covariate_acc")]
        if means[0] is not None and means[1] is not None and not setting.startswith(AVERAGE):
            lost[setting] = f"{100 * (means[0] - means[1]):.1f}".replace("-", "−")
    return lost


def shift_lines(table: "Table") -> list[str]:
    """The size of the covariate shift, without which an OOD accuracy says little: what ERM loses, or given networks."""
    networks = dict.fromkeys(row.network for row in table.rows if row.network) if are_given(table.rows) else {}
    losses = {name: _lost(table, [row for row in table.rows if row.network == name]) for name in networks}
    return [_shift_line(name, lost) for name, lost in (losses or {"ERM": lost_by_erm(table)}).items() if lost]


def _shift_line(name: str, lost: Mapping[str, str]) -> str:
    if len(set(lost.values())) == 1:
        return f"{name} loses {next(iter(lost.values()))} points to the covariate shift (ID Acc. − OOD Acc.)."
    by_setting = ", ".join(f"{points} in {setting}" for setting, points in lost.items())
    return f"Points that {name} loses to the covariate shift (ID Acc. − OOD Acc.): {by_setting}."


def one_network(names: Mapping[str, str], runs: Mapping[Place, Runs]) -> list[str]:
    """Which rows have the same weights under every seed, and so the same accuracies; `names` as printed, in order."""
    groups: dict[frozenset[tuple[str, int, str]], list[str]] = {}
    given = {method: some.newest.config.given for (method, _), some in runs.items()}
    networks = Counter(each.name for each in given.values() if each is not None)
    for label, name in names.items():
        if given.get(label) is not None:
            continue  # their rows are many, and the caption says which networks there are
        own = {setting: some for (method, setting), some in runs.items() if method == label}
        weights = frozenset(
            (setting, each.seed, each.result.weights)
            for setting, some in own.items()
            for each in some.ok
            if each.result.weights is not None
        )
        if weights:
            groups.setdefault(weights, []).append(name)
    shared = [each for each in groups.values() if len(each) > 1]
    lines = [OF_GIVEN] if any(count > 1 for count in networks.values()) else []
    return lines + [
        f"These methods share one network per seed, and so its accuracies: {', '.join(each)}." for each in shared
    ]


def unparted(names: Mapping[str, str], runs: Mapping[Place, Runs]) -> dict[Place, str]:
    """Notes for rows that print another's accuracies, since a selection stops both before the two trainings part.

    IRM trains much like ERM until its penalty sets in, for example.
    """
    first: dict[tuple[str, str], str] = {}
    notes = {}
    order = {label: i for i, label in enumerate(names)}
    for method, setting in sorted(runs, key=lambda place: order[place[0]]):
        some = runs[method, setting]
        path = _path_to_selected(some)
        other = first.setdefault((setting, path), method)
        if path and _trainings(runs[other, setting]).isdisjoint(_trainings(some)):
            notes[method, setting] = (
                f"the same accuracies as {names[other]}: model selection stops both after {_steps(some)} steps, before "
                "the two trainings differ"
            )
    return notes


def _path_to_selected(runs: Runs) -> str:
    """The accuracies by domain up to the selected epoch, under every seed; empty if none is selected before the end."""
    chosen = [(each, each.choice) for each in runs.ok if each.choice is not None and not each.choice.is_last]
    if len(chosen) < len(runs.measurements):
        return ""
    return repr([
        (each.seed, [known for known in each.result.domain_accuracies if known.epoch <= choice.epoch])
        for each, choice in chosen
    ])  # fmt: skip


def _steps(runs: Runs) -> str:
    """`25 of 501`, or `25 to 50 of 501` where seeds differ."""
    taken = sorted({each.choice.step for each in runs.ok if each.choice is not None})
    first, last = taken[0], taken[-1]
    total = max(each.result.domain_accuracies[-1].step for each in runs.ok)
    return f"{first} of {total}" if first == last else f"{first} to {last} of {total}"


def _trainings(runs: Runs) -> set[str]:
    return {each.result.training for each in runs.ok}


def replaced(results: Sequence[Result]) -> tuple[str, ...]:
    """For results of one suite, oldest first: tables show the last of each configuration and seed."""
    newest = {(result.variant, result.seed): result for result in results}
    pairs = Counter(
        (_origin(newest[result.variant, result.seed]), _origin(result))
        for result in results
        if result is not newest[result.variant, result.seed]
    )
    return tuple(
        f"{count} {'cell was' if count == 1 else 'cells were'} run twice: the table shows the result of {shown}, not "
        f"that of {other}."
        for (shown, other), count in pairs.items()
        if shown != other
    )


def _origin(result: Result) -> str:
    host = result.machine.get("host") or "an unnamed machine"
    words = [
        result.device,
        *(f"{name} {result.versions[name]}" for name in ("oodbench", "torch") if name in result.versions),
    ]
    if result.commit is not None:
        words.append(f"commit {result.commit[:8]}{'+' if result.commit.endswith('+') else ''}")
    return f"{host} ({', '.join(words)})"


def seeds_to_tell(tests: Iterable[tuple[str, Tested]], names: Mapping[str, str]) -> str:
    """How many seeds would tell the two best of each column apart; empty where all of them are told apart."""
    words = []
    for title, each in tests:
        if each.next is not None:
            count = f"about {each.seeds}" if each.seeds is not None else f"over {MOST_SEEDS:,}"
            words.append(f"{title} {count} ({names[each.best]}, {names[each.next]})")
    return f"Seeds that would tell the best from the next, with a power of 80 %: {'; '.join(words)}." if words else ""


def sorting(metric: Metric, settings: Sequence[str]) -> str:
    if len(settings) == 1:
        return f"Sorted by {metric.title}, best first."
    return f"Sorted by {metric.title} over all settings, best first; rows that lack a setting come last."


def larger_base(runs: Mapping[Place, Runs]) -> list[str]:
    """That networks from scratch have learned from more labeled images than what starts from them, if so."""
    parts = [each.result.data.parts for some in runs.values() for each in some.ok]
    counts = sorted({(known["base"].rows, known["labelled"].rows) for known in parts if "base" in known})
    return [
        f"Networks from scratch, which others start from, have learned from {base:,} labeled ID images, those of the "
        f"wild mixture among them; what starts from these networks, or reads the mixture, has {labelled:,}."
        for base, labelled in counts
    ]
