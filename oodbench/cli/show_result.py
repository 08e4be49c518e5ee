"""`oodbench show RESULT.json`: one cell in words: what came out, what ran, on what, and how to repeat it."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from oodbench.errors import UserError
from oodbench.results import pack
from oodbench.results.metrics import METRICS
from oodbench.results.pack import is_pack
from oodbench.results.result import ComponentRun, Config, GivenRun, Result, Unreadable, read
from oodbench.running.repeat import command

FEW = 10  # so many outputs of a network are listed


def read_result(path: Path) -> Result:
    packed = next((parent for parent in path.parents if is_pack(parent)), None)
    try:
        if packed is None:
            return read(path)
        found = {result.path: result for result in pack.read(packed)[0]}
        if path not in found:
            raise Unreadable("the pack has no such result")
        return found[path]
    except Unreadable as reason:
        raise UserError(f"'{path}' is no result to show: {reason}") from None


def show_result(result: Result) -> None:
    draw = f" / draw {result.draw}" if result.draw else ""
    print(f"{result.suite_label} / {result.setting} / {result.method} / seed {result.seed}{draw}: {result.status}")
    _show_outcome(result)
    _show_configuration(result)
    _show_data(result)
    _show_circumstances(result)
    words, remarks = command(result)
    print(f"\nmake it again with:\n  {words}")
    for remark in remarks:
        print(f"  ({remark})")


def _show_outcome(result: Result) -> None:
    if result.status != "ok":
        print(f"\nfailed: {result.error}")
        if result.traceback:
            print(result.traceback.rstrip())
        return
    print(f"\nmetrics (version {result.metrics_version}), in percent")
    for name, value in result.metrics.items():
        title = METRICS[name].title if name in METRICS else ""
        print(f"  {name:20} {100 * value:6.2f}  {title}".rstrip())
    if result.notes.get("not_converged"):
        print(f"\ndid not converge: {result.notes['not_converged']}")


def _show_configuration(result: Result) -> None:
    config = result.config
    print("\nwhat ran")
    if config.given is None:
        _show_training(config)
    else:
        _show_given(config.given)
    _show_component("scorer", config.method.scorer)
    _line("setting", _pairs(vars(config.setting)))
    _line("threads", f"{config.threads}, precision {config.suite.precision}")
    _line("code", ", ".join(config.code.values()))
    if config.init is not None:
        _line("--init", f"weights with the digest {config.init}")
    if config.search is not None:
        _line("search", f"draw {config.search.draw} of {config.search.of}")


def _show_training(config: Config) -> None:
    _show_component("trainer", config.method.trainer)
    for each in config.method.starts_from:
        _show_component("starts from", each)
    network = config.suite.network
    _line("network", f"{network.name} {_pairs(network.options)}")
    _line("recipe", _pairs(vars(config.recipe)))


def _show_given(given: GivenRun) -> None:
    """A network that nothing here has trained."""
    _line("network", f"{given.words}, given")
    _line("head", f"{given.head or 'none'}, {given.form}")
    _line("images", _pairs({name: value for name, value in given.preprocessing.items() if value is not None}))
    _line("classes", "all outputs, in order" if given.classes is None else f"the outputs {_listed(given.classes)}")
    _line("adapter", f"{given.adapter}, digest of the network {given.digest}")


def _listed(classes: Sequence[int]) -> str:
    shown = ", ".join(map(str, classes[:FEW]))
    return shown if len(classes) <= FEW else f"{shown}, … ({len(classes)} in all)"


def _show_component(role: str, ran: ComponentRun) -> None:
    values = {f"{name}*" if name in ran.changed else name: value for name, value in ran.values.items()}
    _line(role, f"{ran.code} {_pairs(values)}" + ("  (* set by the user)" if ran.changed else ""))


def _show_data(result: Result) -> None:
    print("\ndata")
    for name, each in result.data.sets.items():
        _line(name, f"fingerprint {each.fingerprint}, {each.source}")
    parts = [f"{name} {part.rows:,}" for name, part in result.data.parts.items() if part.rows]
    _line("images", ", ".join(parts))


def _show_circumstances(result: Result) -> None:
    print("\nwhere and when")
    _line("device", result.device)
    _line("machine", _pairs(result.machine))
    _line("versions", _pairs(result.versions))
    _line("commit", result.commit or "")
    _line("seconds", _pairs(result.seconds))
    _line("written", result.written)
    _line("weights", result.weights or "")
    _line("keys", f"cell {result.key}, variant {result.variant}, training {result.training}")
    _line("notes", _pairs(result.notes))
    _line("file", str(result.path))


def _line(title: str, text: str) -> None:
    """Left out where there is nothing to say."""
    if text.strip():
        print(f"  {title + ':':12} {text.strip()}")


def _pairs(values: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} {value}" for name, value in values.items())
