"""Suites: YAML in `benchmarks/` to a checked Suite, its settings and presets. What a suite file may say is in
`contents`, what must hold of it in `validation`, and what a user may change about it in `overrides`.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from oodbench.config import networks, overrides, search, validation
from oodbench.config.cards import folder
from oodbench.config.contents import (
    FOLDER,
    NONE,
    SECTIONS,
    Column,
    Contents,
    Defaults,
    NetworkChoice,
    Precision,
    Setting,
    Source,
    Sweep,
)
from oodbench.config.schema import Document, Misfit, Place, parse, text_under, values_of
from oodbench.config.validation import check, check_setting
from oodbench.errors import UserError, unknown

# Also the values of a suite file, which most who have a suite name too.
__all__ = [
    "FOLDER",
    "NONE",
    "SECTIONS",
    "Column",
    "Contents",
    "Defaults",
    "NetworkChoice",
    "Precision",
    "Setting",
    "Source",
    "Suite",
    "Sweep",
    "check",
    "check_setting",
    "load",
    "suite_files",
    "title",
]


ID_ALONE = "id"  # names a setting without a semantic and a covariate set, which no suite has and no option means


@dataclass(frozen=True)
class Suite:
    """A validated suite under one of its presets."""

    name: str
    path: Path
    preset: str | None
    contents: Contents

    @property
    def label(self) -> str:
        """The name results are filed under."""
        return self.name if self.preset is None else f"{self.name}-{self.preset}"

    @cached_property
    def settings(self) -> list[Setting]:
        return [self.contents.completed(column) for column in self.contents.settings]

    @property
    def threads(self) -> int:
        """CPU threads of a training: with another number, sums come in another order and weights differ."""
        return self.contents.cpu_threads or 1

    @property
    def provides(self) -> frozenset[str]:
        """What a trainer may need and finds here."""
        has_wild = self.contents.wild and all(s.semantic != NONE for s in self.settings)
        offered = {"wild", "outliers", "labels"} if has_wild else set()
        if self.contents.outliers is not None:
            offered.add("outliers")
        if self.contents.id.embed is None:  # features of a frozen network cannot be augmented
            offered.add("views")
        if any(self.held_out(setting) for setting in self.settings):
            offered.add("environments")
        return frozenset(offered)

    def held_out(self, setting: Setting) -> list[str]:
        """The domains of the ID data set that a setting keeps for its covariate split."""
        return self.contents.domains_of(setting.covariate)

    @property
    def distributions(self) -> dict[str, search.Distribution]:
        """What a random search draws values of the recipe from."""
        return validation.distributions(self.contents)

    def sweep(self, name: str | None) -> Sweep | None:
        if name is not None and name not in self.contents.sweeps:
            raise unknown(f"sweep of {self.name}", name, self.contents.sweeps)
        return None if name is None else self.contents.sweeps[name]

    def setting_name(self, setting: Setting) -> str:
        """The semantic set and whatever differs from the suite's defaults; `setting` reads it back."""
        if setting.semantic == setting.covariate == NONE:
            return ID_ALONE
        defaults = values_of(self.contents.defaults)
        alone = setting.semantic == NONE  # then the covariate set names it
        shown = [key for key in defaults if getattr(setting, key) != defaults[key] or (alone and key == "covariate")]
        named = [f"{key}={getattr(setting, key)}" for key in shown]
        return ",".join(named if alone else [setting.semantic, *named])

    def setting(self, text: str) -> Setting:
        """`unseen-digits`, or `unseen-digits,covariate=blur,severity=5`."""
        setting = self.read_setting(text)
        try:
            check_setting(setting, self.contents)
        except Misfit as error:
            raise UserError(error.message) from None
        return setting

    def read_setting(self, text: str) -> Setting:
        """The setting that a text means here, whether or not this suite has such sets."""
        values = {"semantic": self.settings[0].semantic, **setting_values(text)}
        return self.contents.completed(Column(**values))

    def pairs_with(self, setting: Setting) -> list[Setting]:
        """The settings, of the suite with pairs, that hold out another domain with the one of this setting."""
        pairs = [pair for pair in self.contents.pairs() if setting.covariate in pair]
        return [dataclasses.replace(setting, covariate="+".join(pair)) for pair in pairs]

    def with_value(self, section: str, key: str, text: str) -> "Suite":
        return self._with(overrides.with_value(self.contents, section, key, text))

    def with_network(self, text: str | None) -> "Suite":
        return self._with(overrides.with_network(self.contents, text))

    def with_recipe(self, kind: str, values: Mapping[str, Any]) -> "Suite":
        return self._with(overrides.with_recipe(self.contents, kind, values))

    def with_precision(self, name: str | None) -> "Suite":
        return self._with(overrides.with_precision(self.contents, name))

    def with_threads(self, count: int | None) -> "Suite":
        return self._with(overrides.with_threads(self.contents, count))

    def with_pairs(self) -> "Suite":
        return self._with(overrides.with_pairs(self.contents))

    def with_sets(self, semantic: Sequence[str], covariate: Sequence[str]) -> "Suite":
        return self._with(overrides.with_sets(self.contents, semantic, covariate))

    def with_outliers(self, text: str | None) -> "Suite":
        return self._with(overrides.with_outliers(self.contents, text))

    def error(self, place: Place, message: str) -> UserError:
        """What is wrong at a place of the suite file, with its line, where only a plan can tell."""
        document = Document(self.path)
        return (document if self.preset is None else _under_preset(document, self.preset)).error(place, message)

    def _with(self, contents: Contents) -> "Suite":
        return self if contents is self.contents else dataclasses.replace(self, contents=contents)


def setting_values(text: str) -> dict[str, Any]:
    """What the text of a setting says, by key: `svhn,pi_c=0.1` a semantic set and a share."""
    types = {f.name: f.type for f in dataclasses.fields(Setting)}
    values: dict[str, Any] = {}
    for word in text.split(","):
        key, equals, value = (part.strip() for part in word.partition("="))
        if not equals:
            key, value = "semantic", key
        if key not in types:
            raise unknown("part of a setting", key, types)
        values[key] = parse(value, types[key], ("setting", key))
    return values


def suite_files() -> dict[str, Path]:
    return {path.stem: path for path in sorted(folder("benchmarks").glob("*.yaml"))}


def title(path: Path) -> str:
    """A suite's line in a list, without the work of reading the rest."""
    return text_under(path, "title") or "(no title)"


def load(name: str, preset: str | None = None) -> Suite:
    """A suite by name, or from a YAML file of the user's."""
    files = suite_files()
    path = files.get(name) or Path(name)
    if name not in files and path.suffix not in (".yaml", ".yml"):
        raise unknown("suite", name, files)
    document = Document(path)
    if not path.stem.isprintable():  # of bytes that are no UTF-8, or with a line break
        raise UserError(f"results bear the name of the suite file, and '{path}' cannot be printed; rename it")
    contents = _checked(document)
    for each in contents.presets:
        overlaid = _checked(_under_preset(document, each))
        contents = overlaid if each == preset else contents
    if preset == "paper" and "released" in contents.presets:
        raise UserError(
            f"'paper' could mean two presets of {path.stem}: without --preset it is what the paper writes, "
            "with --preset released what its code does"
        )
    if preset is not None and preset not in contents.presets:
        raise unknown(f"preset of {path.stem}", preset, contents.presets)
    return Suite(path.stem, path, preset, contents)


def _under_preset(document: Document, preset: str) -> Document:
    return document.overlaid(("presets", preset), replaced=("methods",))


def _checked(document: Document) -> Contents:
    contents = document.conform(Contents)
    contents = dataclasses.replace(contents, network=networks.placed(contents.network, document.path.parent))
    try:
        check(contents)
    except Misfit as error:
        raise document.error(error.place, error.message) from None
    return contents
