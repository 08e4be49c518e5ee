"""The pages of trainers and scorers, read off the method files as `oodbench list` reads them: nothing is imported."""

import ast
from collections.abc import Iterable

import docstrings

from oodbench.config.cards import Card
from oodbench.config.registry import Registry
from oodbench.config.schema import describe
from oodbench.config.shipped import DETECTION_BY, GROUPS

INDEX = """# Methods

A method is a trainer and a scorer. A *trainer* says how the classifier learns. A *scorer* gives each image one number,
which is higher where the image looks more OOD. `--methods scone` is the trainer SCONE with its own scorer, `--methods
knn` is the scorer KNN on ERM's network, and `--methods mixup+knn` is a pair. `oodbench show NAME` prints the same.

There are {trainers} trainers and {scorers} scorers. The pages are generated from the files in `methods/`, where
each method has one. [Scorers](../scorers.md) compares the scorers with each other, and
[Add a method](../add-a-method.md) explains what a method file contains.
"""
TRAINERS = """# Every trainer

In the equations, z are the logits of an image x, p = softmax(z), f are its features and y is its label. CE is the
cross-entropy, σ the logistic function, and a mean is over the images of a batch. `Code` opens the whole file without
its imports. What a trainer *needs* beside labeled images must be part of the suite; otherwise `oodbench run` refuses
the trainer or leaves it out.
"""
SCORERS = """# Every scorer

In the equations, s is the score, which is higher where an image looks more OOD. z are the logits of K classes, ŷ is the
predicted class, p = softmax(z), f are the features, and z = W f + b, where w_k are the rows of W. μ and Σ are a mean
and a covariance of training features, those of class k with an index. New logits z' are scored as `base` says. `Code`
opens the whole file without its imports.
"""


def pages() -> dict[str, str]:
    """The text of every page, by its name."""
    registry = Registry()
    cards = [card for card in registry.cards.values() if card.is_ours]
    trainers = _grouped(registry, [card for card in cards if card.kind == "Trainer"])
    scorers = _grouped(registry, [card for card in cards if card.kind == "Scorer"])
    counts = {"trainers": sum(map(len, trainers.values())), "scorers": sum(map(len, scorers.values()))}
    return {
        "methods/index.md": _paragraphs(
            INDEX.format(**counts),
            *_overview(trainers, "trainers.md"),
            *_overview(scorers, "scorers.md"),
        ),
        "methods/trainers.md": _paragraphs(TRAINERS, *_sections(registry, trainers)),
        "methods/scorers.md": _paragraphs(SCORERS, *_sections(registry, scorers)),
    }


def _paragraphs(*pieces: str) -> str:
    return "\n\n".join(piece.strip("\n") for piece in pieces) + "\n"


def _grouped(registry: Registry, cards: Iterable[Card]) -> dict[str, list[Card]]:
    """In the order of the groups of tables; groups that methods name themselves come last."""
    groups: dict[str, list[Card]] = {}
    for card in cards:
        group = DETECTION_BY[card.reads] if card.reads is not None else registry.method(card.name).group
        groups.setdefault(group, []).append(card)
    order = [*DETECTION_BY.values(), *GROUPS]
    return {name: groups[name] for name in sorted(groups, key=lambda each: (each not in order, _place(each, order)))}


def _place(name: str, order: list[str]) -> int:
    return order.index(name) if name in order else 0


def _overview(groups: dict[str, list[Card]], page: str) -> Iterable[str]:
    for group, cards in groups.items():
        rows = [
            f"| [{card.display}]({page}#{card.name}) | `{card.name}` | {docstrings.cell(card.summary)} |"
            for card in cards
        ]
        yield f"## {group}"
        yield "\n".join(["| method | name | what it does |", "|---|---|---|", *rows])


def _sections(registry: Registry, groups: dict[str, list[Card]]) -> Iterable[str]:
    for group, cards in groups.items():
        yield f"## {group}"
        for card in cards:
            yield from _section(registry, card)


def _section(registry: Registry, card: Card) -> Iterable[str]:
    yield f"### {card.display} {{: #{card.name} }}"
    yield docstrings.markdown(_docstring(card))
    yield docstrings.markdown(card.paper)
    yield "\n".join(f"- {fact}" for fact in _facts(registry, card))
    if card.parameters:
        yield "\n".join(["| hyperparameter | type | default | meaning |", "|---|---|---|---|", *_parameters(card)])
    code = "\n".join(f"    {line}".rstrip() for line in ["```python", *_code(card), "```"])
    yield f'??? quote "Code"\n\n{code}'


def _facts(registry: Registry, card: Card) -> Iterable[str]:
    yield f"Name: `{card.name}`, in `methods/{card.path.name}`"
    needs = ", ".join(f"`{need}`" for need in sorted(card.needs))
    if card.kind == "Trainer":
        start = registry.start_of(card)
        yield f"Needs: {needs or 'labeled images only'}"
        yield f"Starts from: {f'the weights of `{start.name}`' if start is not None else 'random weights'}"
        if card.adds:
            yield f"Adds to the network: {', '.join(f'`{each}`' for each in sorted(card.adds))}"
        yield f"Scorer unless another is named: `{registry.scorer_of(card).name}`"
    else:
        yield f"Needs: {needs or 'what every network gives'}"


def _parameters(card: Card) -> Iterable[str]:
    for each in card.parameters.values():
        drawn = f"`--draws` draws it from `{card.search[each.name]}`" if each.name in card.search else ""
        meaning = docstrings.cell("; ".join(filter(None, (each.comment, drawn))))
        name, default = docstrings.code(each.name), docstrings.code(each.default)
        yield f"| {name} | {docstrings.cell(describe(each.type))} | {default} | {meaning} |"


def _docstring(card: Card) -> str:
    """The class's whole docstring: a card holds its first line."""
    return ast.get_docstring(_class(card)) or card.summary


def _class(card: Card) -> ast.ClassDef:
    tree = ast.parse(card.path.read_text(encoding="utf-8"))
    return next(node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == card.class_name)


def _code(card: Card) -> list[str]:
    """The lines of a method file after its imports."""
    text = card.path.read_text(encoding="utf-8")
    imports = [node for node in ast.parse(text).body if isinstance(node, ast.Import | ast.ImportFrom)]
    after = imports[-1].end_lineno if imports else 0
    return "\n".join(text.splitlines()[after:]).strip("\n").splitlines()
