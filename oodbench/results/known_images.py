"""A result in; whether its data sets and its test images are those that its suite has, out. No torch.

What these are is known from data sets that come with a package, which are divided anew, and from the reference results
of the repository, of which any with the same suite, sets and seed has the same images.
"""

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from oodbench.config.suite import FOLDER, NONE, Setting, Source, Suite
from oodbench.data import known, lookup
from oodbench.data.parts import build_parts
from oodbench.results.folder import reference_results
from oodbench.results.raw_scores import Unreadable
from oodbench.results.result import PartRead, Result
from oodbench.results.stored import read_scores

ROLES = ("id", "covariate", "semantic")


@dataclass(frozen=True)
class Images:
    """What is known of one test split."""

    rows: int
    digest: str | None  # None: how many are known, and not which
    labels: NDArray[np.int64] | None = None  # None: not known


@dataclass
class _Seen:
    """What the reference results have of one test split."""

    examples: dict[str, Result] = field(default_factory=dict)  # a result with these images, by their digest
    seeds: dict[int, PartRead] = field(default_factory=dict)


def set_names(result: Result) -> set[str]:
    """The data sets that a setting must have read."""
    outliers = result.config.suite.outliers
    return {source.dataset for source in (*_sources(result).values(), *([outliers] if outliers is not None else []))}


def _sources(result: Result) -> dict[str, Source]:
    return lookup.sources(result.ran_suite, result.config.setting)


def roles(setting: Setting) -> list[str]:
    """The test splits that a setting has."""
    return [role for role in ROLES if role == "id" or getattr(setting, role) != NONE]


class KnownImages:
    def __init__(self) -> None:
        self._built: dict[tuple[str, int], dict[str, Images]] = {}
        self._labels: dict[tuple[str, str], NDArray[np.int64] | None] = {}

    @cached_property
    def _reference(self) -> list[Result]:
        return reference_results()

    @cached_property
    def _reference_sets(self) -> dict[str, set[str]]:
        sets: dict[str, set[str]] = {}
        for result in self._reference:
            for name, each in result.data.sets.items():
                sets.setdefault(name, set()).add(each.fingerprint)
        return sets

    def contents(self, name: str, kind: str | None = None) -> set[str]:
        """The fingerprints that a data set of this name is known to have, or one kind of published copies."""
        if known.is_bundled(name):
            return {*known.fingerprints(name)}
        return {*known.fingerprints(name, kind), *self._reference_sets.get(name, ())}

    def of(self, result: Result, role: str) -> Images | None:
        """The images that a split of a result of one of our suites must have; None where nobody knows."""
        if all(known.is_bundled(source.dataset) for source in _sources(result).values()):
            return self._divided(result)[role]
        seen = self._seen.get(_scope(result, role))
        if seen is None:
            return None
        digest = result.data.parts[role].digest
        if result.seed in seen.seeds:
            part = seen.seeds[result.seed]
            return Images(part.rows, part.digest, self._labels_of(seen.examples[part.digest], role))
        if digest in seen.examples:  # of a set that has a test part of its own, the same under every seed
            example = seen.examples[digest]
            return Images(example.data.parts[role].rows, digest, self._labels_of(example, role))
        rows = {part.rows for part in seen.seeds.values()}
        return Images(rows.pop(), None) if len(rows) == 1 else None

    def _divided(self, result: Result) -> dict[str, Images]:
        """The parts as a run would make them."""
        contents, setting = result.config.suite, result.config.setting
        sets = (contents.id, contents.semantic, contents.covariate)
        scope = repr((*sets, contents.splits, contents.corruptions, setting))
        if (scope, result.seed) not in self._built:
            suite = Suite(result.suite, result.ran_suite.path, result.preset, contents)
            parts = build_parts(suite, setting, result.seed).items()
            self._built[scope, result.seed] = {
                role: Images(len(parts[role]), parts[role].digest, parts[role].labels) for role in ROLES
            }
        return self._built[scope, result.seed]

    def _labels_of(self, example: Result, role: str) -> NDArray[np.int64] | None:
        """As its raw scores have them, each file read once."""
        place = (str(example.path), role)
        if place not in self._labels:
            try:
                self._labels[place] = read_scores(example)[role].labels
            except (FileNotFoundError, Unreadable, KeyError):
                self._labels[place] = None
        return self._labels[place]

    @cached_property
    def _seen(self) -> dict[str, _Seen]:
        seen: dict[str, _Seen] = {}
        for result in self._reference:
            for role, part in result.data.parts.items():
                if role in ROLES and part.rows:
                    one = seen.setdefault(_scope(result, role), _Seen())
                    one.examples.setdefault(part.digest, result)
                    one.seeds.setdefault(result.seed, part)
        return seen


def _scope(result: Result, role: str) -> str:
    """All that the images of a split depend on, but the seed."""
    contents, setting = result.config.suite, result.config.setting
    chosen: list[object] = [role, contents.id, contents.splits, result.held_out, setting.semantic == NONE]
    if role == "covariate":
        chosen += [contents.covariate.get(setting.covariate, (contents.corruptions, setting.covariate))]
        chosen += [setting.severity]
    if role == "semantic":
        chosen += [contents.semantic[setting.semantic]]
    named = {contents.id.dataset, *(source.dataset for name, source in _sources(result).items() if name == role)}
    content = [(name, each.fingerprint) for name, each in sorted(result.data.sets.items()) if _is_of(name, named)]
    return repr((chosen, content))


def _is_of(name: str, datasets: set[str]) -> bool:
    return name in datasets or (name.startswith(FOLDER) and name.partition(" ")[0] in datasets)
