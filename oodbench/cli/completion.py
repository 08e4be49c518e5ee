"""Names for the Tab key, by argcomplete, which is an extra: nothing of this is imported unless a shell asks.

eval "$(register-python-argcomplete oodbench)"
"""

import argparse
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from oodbench.cli.parser import OneOf

Names = Callable[[argparse.Namespace], Iterable[str]]


def complete(parser: argparse.ArgumentParser) -> None:
    """Write the words that may follow to where the shell reads them, and end the process."""
    import argcomplete

    for each in _all(parser):
        for action in each._actions:
            completer = _completer(each.prog, action)
            if completer is not None:
                action.completer = completer  # type: ignore[attr-defined]
    argcomplete.autocomplete(parser)


def command_in(line: str) -> str:
    """The command that the user is typing, so that only its arguments are looked up."""
    words = line.split()
    return words[1] if len(words) > 1 else ""


def _all(parser: argparse.ArgumentParser) -> Iterator[argparse.ArgumentParser]:
    yield parser
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for inner in action.choices.values():
                yield from _all(inner)


def _completer(prog: str, action: argparse.Action) -> Callable[..., list[str]] | None:
    """None where files are completed, as shells do by themselves."""
    if isinstance(action.type, OneOf):
        known = action.type.known
        return _listed(lambda given: known)
    argument = action.option_strings[-1] if action.option_strings else action.dest
    names = NAMES.get(f"{prog.removeprefix('oodbench ')} {argument}") or NAMES.get(argument)
    return None if names is None else _listed(names)


def _listed(names: Names) -> Callable[..., list[str]]:
    def completer(prefix: str, parsed_args: argparse.Namespace, **_: Any) -> list[str]:
        """Of a list with commas, and of a pair with a plus, the last name."""
        start = max(prefix.rfind(","), prefix.rfind("+")) + 1
        return [prefix[:start] + name for name in names(parsed_args) if name.startswith(prefix[start:])]

    return completer


def _methods(given: argparse.Namespace) -> list[str]:
    from oodbench.config.cards import EVERY

    return [*_cards(given), *EVERY]


def _scorers(given: argparse.Namespace) -> list[str]:
    return [name for name, card in _cards(given).items() if card.kind == "Scorer"]


def _cards(given: argparse.Namespace) -> dict[str, Any]:
    from oodbench.config.registry import Registry

    return Registry(getattr(given, "plugins", None) or getattr(given, "plugin", None) or ()).cards


def _suites(given: argparse.Namespace) -> list[str]:
    from oodbench.config.suite import suite_files

    return [*suite_files()]


def _catalogue(kind: str) -> list[str]:
    from oodbench.config.cards import catalogue

    return [*catalogue(kind)]


def _stored(given: argparse.Namespace) -> list[str]:
    return [*_catalogue("datasets"), "efficientnet-lite0"]


def _sets(given: argparse.Namespace) -> list[str]:
    return [*_catalogue("datasets"), "folder:"]


def _everything(given: argparse.Namespace) -> list[str]:
    return [*_cards(given), *_suites(given), *_catalogue("datasets"), *_catalogue("networks")]


def _presets(given: argparse.Namespace) -> list[str]:
    return [preset for suite in _chosen(given) for preset in suite.contents.presets]


def _settings(given: argparse.Namespace) -> list[str]:
    return [suite.setting_name(setting) for suite in _chosen(given) for setting in suite.settings]


def _corruptions(given: argparse.Namespace) -> list[str]:
    from oodbench.config.families import corruption_kinds

    families = [suite.contents.corruptions for suite in _chosen(given)]
    return [*(kind for family in families if family is not None for kind in corruption_kinds(family)), "all"]


def _chosen(given: argparse.Namespace) -> list[Any]:
    from oodbench.config.suite import load
    from oodbench.running.request import DEFAULT_SUITE

    named = getattr(given, "suite", None) or DEFAULT_SUITE
    return [load(name) for name in ([named] if isinstance(named, str) else named)]


def _metrics(given: argparse.Namespace) -> list[str]:
    from oodbench.results.metrics import METRICS

    return [*METRICS]


def _rules(given: argparse.Namespace) -> list[str]:
    from oodbench.results.selection import RULES

    return [*RULES]


# By argument, or by command and argument where commands differ.
NAMES: dict[str, Names] = {
    "run --suite": _suites,
    "evaluate --suite": _suites,
    "fit --suite": _suites,
    "data show suite": _suites,
    "run --methods": _methods,
    "run --setting": _settings,
    "evaluate --setting": _settings,
    "fit --setting": _settings,
    "run --selection": _rules,
    "run --stage": lambda given: ("parents", "rest"),
    "run --precision": lambda given: ("fp32", "tf32", "bf16"),
    "run --on": lambda given: ("ray", "slurm:"),
    "show name": _everything,
    "data status name": lambda given: [*_stored(given), *_suites(given)],
    "data get names": lambda given: [*_stored(given), *_suites(given)],
    "data add name": _stored,
    "data remove name": _stored,
    "--preset": _presets,
    "--corruption": _corruptions,
    "--scorers": lambda given: [*_scorers(given), "all"],
    "--scorer": lambda given: [*_scorers(given), "best"],
    "--semantic": _sets,
    "--covariate": _sets,
    "--id": _sets,
    "--train": _sets,
    "--metrics": _metrics,
    "--sort": _metrics,
    "--device": lambda given: ("auto", "cpu", "cuda"),
    "run --model": lambda given: [*_catalogue("networks"), "timm:"],
}
