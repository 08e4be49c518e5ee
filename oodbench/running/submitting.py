"""Results of a folder in; an archive that others can verify out. Checked as they will check it. No torch."""

import shutil
import tempfile
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path

import oodbench
from oodbench.config.cards import command_name
from oodbench.config.registry import Registry
from oodbench.data.untrusted import plain_zip
from oodbench.errors import UserError, unknown
from oodbench.files import write_text
from oodbench.results import submission as submissions
from oodbench.results.folder import SUBMISSION, read_folder
from oodbench.results.result import Result, Unreadable
from oodbench.results.stored import LOCK, copy, link_among
from oodbench.results.submission import METHODS, Claim, Submission
from oodbench.running import request
from oodbench.running.cell_checks import place_of
from oodbench.running.request import REQUESTS
from oodbench.running.verifying import Verification, check


def submit(
    folder: str | Path,
    methods: str | Sequence[str],
    out: str | Path,
    name: str | None = None,
    note: str = "",
    plugins: Iterable[str | Path] = (),
    suites: Iterable[str] = (),
    settings: Iterable[str] = (),
    seeds: Iterable[int] = (),
) -> Verification:
    """Pack the results of these methods, by their labels, into an archive; what `oodbench submit` does.

    `suites`, `settings` and `seeds` leave out others. `UserError` if anything that is claimed is missing or does not
    hold, and nothing is written.
    """
    folder, out = Path(folder), Path(out)
    if out.suffix != ".zip":
        raise UserError(f"'{out}' is not the name of an archive; end it in .zip")
    name = out.stem if name is None else name
    submissions.check_words(name, note)
    labels = [methods] if isinstance(methods, str) else [*methods]
    chosen = _chosen(folder, labels, {*suites}, {*settings}, {*seeds})
    claims = _claims(chosen)
    with tempfile.TemporaryDirectory(prefix="oodbench-") as work:
        staged = Path(work)
        for result in chosen:
            _stage(result, staged)
        (staged / LOCK).unlink(missing_ok=True)
        for path in _method_files(folder, chosen, plugins):
            _copy(path, staged / METHODS / path.name)
        files = submissions.files_below(staged)[0]
        content = {each: submissions.digest_of(staged / each) for each in files}
        manifest = Submission(name, note, oodbench.__version__, claims, content)
        write_text(staged / SUBMISSION, submissions.as_json(manifest))
        found = check(staged, folder)
        _refuse_what_fails(found)
        plain_zip.write(out, {each: staged / each for each in [*files, SUBMISSION]})
    return found


def _chosen(folder: Path, labels: list[str], suites: set[str], settings: set[str], seeds: set[int]) -> list[Result]:
    """The configuration that was run last of every method and setting: its newest result of every seed and draw."""
    results, problems = read_folder(folder)
    known = {result.method for result in results}
    for label in labels:
        if label not in known:
            raise unknown("method in these results", label, known)
    wanted = [
        each
        for each in sorted(results, key=lambda each: (each.written, each.key))
        if each.method in labels
        and (not suites or each.suite_label in suites)
        and (not settings or each.setting in settings)
        and (not seeds or each.seed in seeds)
    ]
    if not wanted:
        raise UserError(f"'{folder}' has no such results of {', '.join(labels)}; see: oodbench table {folder}")
    last = {(each.suite_label, each.method, each.setting): each.family for each in wanted}
    newest = {
        (place, each.seed, each.draw): each
        for each in wanted
        if last[place := (each.suite_label, each.method, each.setting)] == each.family
    }
    failed = [each for each in newest.values() if each.status != "ok"]
    if failed:
        others = f" (and {len(failed) - 1} more)" if len(failed) > 1 else ""
        raise UserError(
            f"{place_of(failed[0])} failed{others}: {failed[0].error}; run it again, or leave out its method or setting"
        )
    return sorted(newest.values(), key=lambda each: (each.suite_label, each.method, each.setting, each.seed, each.draw))


def _claims(chosen: list[Result]) -> list[Claim]:
    """What a suite's results amount to: every method in every setting under every seed."""
    claims = []
    for label in sorted({each.suite_label for each in chosen}):
        own = [each for each in chosen if each.suite_label == label]
        claim = Claim(
            own[0].suite,
            own[0].preset,
            sorted({each.method for each in own}),
            [name for name in _in_order(own) if name in {each.setting for each in own}],
            sorted({each.seed for each in own}),
            sorted({each.draw for each in own}),
        )
        claims.append(claim)
    return claims


def _in_order(results: list[Result]) -> list[str]:
    order = results[-1].settings_order
    return [*order, *sorted({each.setting for each in results}.difference(order))]


def _stage(result: Result, folder: Path) -> None:
    """Copy a cell's files to the place that its run gave them, wherever they lie now."""
    assert result.path is not None
    link = link_among(result.path)
    if link is not None:
        raise UserError(f"'{result.path.with_name(link)}' is a link, which is not followed; put the file itself there")
    try:
        copy(result, folder.joinpath(*result.path.absolute().parts[-4:]))
    except (OSError, Unreadable) as reason:
        why = reason.strerror if isinstance(reason, OSError) else reason
        raise UserError(f"cannot read the files of '{result.path}': {why}; fix permissions, or run it again") from None


def _copy(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    try:
        shutil.copyfile(source, target)
    except OSError as error:
        raise UserError(f"cannot read '{source}': {error.strerror}; fix its permissions") from None


def _method_files(folder: Path, chosen: list[Result], plugins: Iterable[str | Path]) -> list[Path]:
    """The file of every method that oodbench does not ship: given, remembered by the folder, or installed."""
    shipped = Registry()
    used = {
        each.name
        for result in chosen
        for each in (result.config.method.trainer, result.config.method.scorer, *result.config.method.starts_from)
    }
    files = {name: card.path for name, card in shipped.cards.items() if not card.is_ours}
    for path in [*_remembered(folder), *map(Path, plugins)]:
        files[command_name(path.stem)] = path
    found = []
    for name in sorted(used):
        if name in shipped.cards and shipped.cards[name].is_ours:
            continue
        if name not in files or not files[name].is_file():
            raise UserError(f"the file of the method '{name}' was not found; give it with --plugin FILE.py")
        found.append(files[name])
    return found


def _remembered(folder: Path) -> list[Path]:
    """Plugins that runs into this folder were asked to take."""
    plugins: list[Path] = []
    for path in sorted((folder / REQUESTS).glob("*.yaml")):
        with suppress(UserError):
            plugins += [Path(each) for asked in request.read(path) for each in asked.plugins]
    return plugins


def _refuse_what_fails(found: Verification) -> None:
    failing = [cell for cell in found.cells if not cell.holds]
    reasons = [f"{cell.place}: {name}: {why}" for cell in failing for name, why in cell.problems.items()]
    reasons = [*found.problems, *reasons]
    if reasons:
        more = f" (and {len(reasons) - 1} more)" if len(reasons) > 1 else ""
        raise UserError(
            f"nothing was packed, because verification would fail: {reasons[0]}{more}; "
            "fix it, or submit less with --suite, --setting or --seed"
        )
