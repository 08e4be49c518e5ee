"""Which code a number depends on, as name@version.

`identity.lock` lists, for every component that oodbench ships, a version and the digests of code known to give the
numbers of that version. Code whose digest is listed counts by the version: rewriting what gives the same numbers keeps
every result. Any other code, such as a plugin or a user's edit, counts by its digest.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from oodbench.config.cards import PACKAGE, Card, catalogue, folder
from oodbench.config.definitions import Code, Definition, exports_of

LOCK = PACKAGE / "identity.lock"
# What every training or evaluation runs through. A component's code ends where another's begins.
HARNESS = {
    "parts": ("oodbench.data.parts.build_parts", "oodbench.data.parts.mixed_validation"),
    "batches": (
        "oodbench.learning.batches.Data",
        "oodbench.learning.batches.Batch",
        "oodbench.running.trained.training_data",
        "oodbench.running.trained.data_of",
        "oodbench.running.trained.oracle",
    ),
    "classifier": ("oodbench.learning.networks.Classifier", "oodbench.running.trained.build_model"),
    "factory": ("oodbench.learning.factories.Factory",),  # which only networks of users come through
    "adapter": ("oodbench.learning.adapter.adapt", "oodbench.learning.adapter.Adapted"),
    "loop": ("oodbench.learning.loop.Loop", "oodbench.learning.domain_accuracy.observer"),
    "outputs": (
        "oodbench.learning.outputs.Outputs",
        "oodbench.learning.outputs.forward",
        "oodbench.learning.evaluation.Evaluation",
    ),
    "decoder": ("oodbench.data.decoder.decode", "oodbench.data.jpeg.encoded"),
    "embedding": ("oodbench.data.embedding.embedded", "oodbench.data.embedding.network"),
    "metrics": ("oodbench.results.metrics.evaluate",),
}
# Values of a suite are in a key as such, data sets by their content, and an error message changes no number.
BY_VALUE = ("oodbench.errors", "oodbench.files", "oodbench.config", "oodbench.data")
OF_THEIR_OWN = (
    "oodbench.config.recipe",
    "oodbench.data.corruptions",
    "oodbench.data.decoder",
    "oodbench.data.embedding",
    "oodbench.data.image_part",
    "oodbench.data.jpeg",
    "oodbench.data.lookup",
    "oodbench.data.parts",
    "oodbench.data.resizing",
    "oodbench.data.sets.street_digits",
    "oodbench.data.views",
)


@dataclass(frozen=True)
class Locked:
    """A line of the lock."""

    version: int
    digests: frozenset[str]


@cache
def lock(path: Path = LOCK) -> dict[str, Locked]:
    lines = [line.split() for line in path.read_text(encoding="utf-8").splitlines() if line and line[0] != "#"]
    return {name: Locked(int(version), frozenset(digests)) for name, version, *digests in lines}


def _file(module: str) -> Path | None:
    top, *inner = module.split(".")
    if top != PACKAGE.name:
        return None
    home = folder("methods") if inner[:1] == ["methods"] else PACKAGE
    path = home.joinpath(*(inner[1:] if inner[:1] == ["methods"] else inner))
    return next((file for file in (path.with_suffix(".py"), path / "__init__.py") if file.is_file()), None)


def _counts_by_value(module: str) -> bool:
    return _is_in(module, BY_VALUE) and not _is_in(module, OF_THEIR_OWN)


def _is_in(module: str, places: Iterable[str]) -> bool:
    return any(f"{module}.".startswith(f"{place}.") for place in places)


@cache
def _shipped() -> Code:
    return Code(_file, _exports(), _counts_by_value)


def _exports() -> dict[str, str]:
    return exports_of(PACKAGE, "_PUBLIC")


@cache
def _harness() -> dict[str, list[Definition]]:
    """The roots of every component of the harness."""
    roots: dict[str, list[Definition]] = {}
    for name, dotted in HARNESS.items():
        resolved = [_shipped().resolve(each) for each in dotted]
        assert None not in resolved, f"HARNESS names what is not there: {dotted}"
        roots[name] = [each for each in resolved if each is not None]
    return roots


def _digest(roots: list[Definition], code: Code) -> str:
    others = {each for some in _harness().values() for each in some} - set(roots)
    return code.digest(roots, others)


@cache
def harness_digest(name: str) -> str:
    return _digest(_harness()[name], _shipped())


@cache
def family_digest(family: str) -> str:
    """Of a family of corruptions: its kinds, and what a decorator of the module has made one."""
    module = f"oodbench.data.corruptions.{family}"
    source = _shipped().module(module)
    assert source is not None
    return _digest([(module, name) for name in ("KINDS", *source.decorated)], _shipped())


def card_digest(card: Card) -> str:
    """Of a trainer, scorer, network or made data set."""
    text = None if card.is_ours else card.path.read_text(encoding="utf-8")
    return _class_digest(card.module, card.class_name, card.path, text)


@cache
def _class_digest(module: str, class_name: str, path: Path, plugin: str | None) -> str:
    """The text of a plugin is part of the call, for the file may change; what it reaches of oodbench does not."""
    code = _shipped()
    if plugin is not None:
        code = Code(lambda name: path if name == module else _file(name), _exports(), _counts_by_value)
    return _digest([(module, class_name)], code)


def _stated(name: str, digest: str) -> str:
    locked = lock().get(name)
    short = name.partition("/")[2]
    return f"{short}@{locked.version}" if locked is not None and digest in locked.digests else f"{short}@{digest}"


def of_card(card: Card) -> str:
    """`scone@1`, or `mine@5f0c…` for code that the lock does not list."""
    return _stated(f"{card.kind.lower()}/{card.name}", card_digest(card))


def is_shipped(card: Card) -> bool:
    """Whether it is a method of oodbench and nobody has edited it."""
    locked = lock().get(f"{card.kind.lower()}/{card.name}")
    return card.is_ours and locked is not None and card_digest(card) in locked.digests


def of_harness(name: str) -> str:
    return _stated(f"harness/{name}", harness_digest(name))


def of_family(family: str) -> str:
    return _stated(f"corruptions/{family}", family_digest(family))


def version_of(name: str) -> int:
    """Of a component of the harness as shipped."""
    return lock()[f"harness/{name}"].version


def shipped() -> dict[str, str]:
    """Every component that oodbench ships, and the digest of its code here: what the lock must list."""
    from oodbench.config.registry import Registry

    found = {f"harness/{name}": harness_digest(name) for name in HARNESS}
    found |= {f"corruptions/{path.stem}": family_digest(path.stem) for path in _families()}
    cards: Iterable[Card] = (
        *(card for card in Registry().cards.values() if card.is_ours),
        *catalogue("networks").values(),
        *(card for card in catalogue("datasets").values() if _is_made(card)),
    )
    return found | {f"{card.kind.lower()}/{card.name}": card_digest(card) for card in cards}


def _families() -> list[Path]:
    return sorted((PACKAGE / "data" / "corruptions").glob("[a-z]*.py"))


def _is_made(card: Card) -> bool:
    """Whether a data set is made here from another, so that its content is this code."""
    return card.made_from is not None
