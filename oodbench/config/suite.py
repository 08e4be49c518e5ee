"""Suite files: YAML in `benchmarks/` to a validated Suite, its settings and presets. Imports no data and no torch."""

import dataclasses
import itertools
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any, ClassVar, Literal, get_args

from oodbench.config import search
from oodbench.config.cards import PACKAGE, catalogue, folder
from oodbench.config.recipe import Recipe
from oodbench.config.schema import Document, Misfit, Place, conform, parse, text_under, values_of
from oodbench.errors import UserError, unknown

Precision = Literal["fp32", "tf32", "bf16"]
NONE = "none"  # in place of a semantic set: generalisation alone is measured


@dataclass(frozen=True)
class Source:
    """A data set, or some classes or domains of one."""

    dataset: str  # a name, or folder:PATH for any folder of images
    classes: list[int] | None = None
    domains: list[str] | None = None
    part: Literal["train", "test", "all"] | None = None  # of a semantic set, then divided here; default: as published
    size: int | None = None  # side of the ID images, where the files do not fix it; other sets follow
    jpeg: int | None = None  # encode the ID images at this quality, as those of a set of JPEG files are
    embed: Literal["efficientnet-lite0"] | None = None  # all sets as features of this frozen network, not as pixels


@dataclass(frozen=True)
class Splits:
    """How images are shared out. Shares are of what stands before them; the rest feeds the wild mixture."""

    labelled: float = 0.5  # of the ID training images, or how many; the others never show their labels
    mixed_validation: float = 0.3  # of each kind of unlabelled images
    id_validation: float = 0.1  # of the clean unlabelled images; as many covariate ones are set aside
    semantic_test: float = 0.3  # of a semantic set, or a domain, that has no test part of its own
    domain_out: float = 0.2  # of every domain where there is no semantic set: validates, or tests as ID
    covariate_from: Literal["unlabelled", "all"] = "unlabelled"  # whose corrupted copies the mixture may hold


@dataclass(frozen=True)
class NetworkChoice:
    name: str
    options: dict[str, bool | int | float | str] = field(default_factory=dict)


@dataclass(frozen=True)
class Recipes:
    """One recipe for training from scratch, one for trainers that start from another's weights."""

    scratch: Recipe
    finetune: Recipe


@dataclass(frozen=True)
class Setting:
    """One column group of a table."""

    semantic: str
    covariate: str
    severity: int
    pi_c: float  # share of covariate images in the wild mixture
    pi_s: float  # share of semantic images in it


@dataclass(frozen=True)
class Defaults:
    """What the settings of a suite have in common unless they say otherwise."""

    covariate: str
    severity: int = 1  # of a corruption; other covariate sets have none
    pi_c: float = 0.5  # the paper's mixture
    pi_s: float = 0.1


@dataclass(frozen=True)
class Column:
    """A setting as a suite file lists it: the semantic set, if it has one, and what differs from the defaults."""

    semantic: str = NONE
    covariate: str | None = None
    severity: int | None = None
    pi_c: float | None = None
    pi_s: float | None = None


@dataclass(frozen=True)
class Sweep:
    """An ablation of the paper: methods, and the values that their hyperparameters or the settings take in turn."""

    methods: str
    set: dict[str, list[bool | int | float | str]] = field(default_factory=dict)  # scone.margin: [0, -1, ...]
    setting: dict[str, list[int | float | str]] = field(default_factory=dict)  # pi_c: [0, 0.1, ...]


@dataclass(frozen=True)
class Contents:
    """The keys of a suite file."""

    RENAMED: ClassVar[dict[str, str]] = {"setting": "defaults"}

    title: str
    id: Source
    network: NetworkChoice
    recipes: Recipes
    defaults: Defaults
    settings: list[Column]
    corruptions: str | None = None  # a module of oodbench/data/corruptions, whose kinds are covariate sets
    semantic: dict[str, Source] = field(default_factory=dict)
    covariate: dict[str, Source] = field(default_factory=dict)  # further ones: data sets or domains, labelled as the ID
    splits: Splits = field(default_factory=Splits)
    wild: bool = True  # false: no unlabelled mixture is to be had
    mixture: Literal["categorical", "three_masks"] = "categorical"  # how a wild batch is drawn, see data.WildMixture
    sweeps: dict[str, Sweep] = field(default_factory=dict)
    search: dict[str, str] = field(default_factory=dict)  # recipe.lr: 10**U(-5,-3.5), for --draws; see search.py
    precision: Precision = "fp32"  # of the network's body; --precision overrides it
    cpu_threads: int | None = None  # of a training on a CPU, 1 unless said; --cpu-threads overrides it
    presets: dict[str, dict[str, Any]] = field(default_factory=dict)


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
        return [self._complete(column) for column in self.contents.settings]

    @property
    def threads(self) -> int:
        """CPU threads of a training: with another number, sums come in another order and weights differ."""
        return self.contents.cpu_threads or 1

    @property
    def provides(self) -> frozenset[str]:
        """What a trainer may need and finds here."""
        found = {"wild"} if self.contents.wild and all(s.semantic != NONE for s in self.settings) else set()
        if any(self.held_out(setting) for setting in self.settings):
            found.add("environments")
        return frozenset(found)

    def held_out(self, setting: Setting) -> list[str]:
        """The domains of the ID data set that a setting keeps for its covariate split."""
        return self._domains_of(setting.covariate)

    def _domains_of(self, covariate: str) -> list[str]:
        source = self.contents.covariate.get(covariate)
        return source.domains or [] if source is not None and source.dataset == self.contents.id.dataset else []

    @property
    def distributions(self) -> dict[str, search.Distribution]:
        """What a random search draws values of the recipe from."""
        return _distributions(self.contents)

    def with_recipe(self, kind: str, values: Mapping[str, Any]) -> "Suite":
        """Values of one of the recipes changed to drawn ones, which `check` has found to make sense."""
        recipe = dataclasses.replace(getattr(self.contents.recipes, kind), **values)
        recipes = dataclasses.replace(self.contents.recipes, **{kind: recipe})
        return dataclasses.replace(self, contents=dataclasses.replace(self.contents, recipes=recipes))

    def with_pairs(self) -> "Suite":
        """With a covariate set a+b of every two that hold out one domain each, in the order of the suite file."""
        sources = self.contents.covariate
        pairs = {
            f"{a}+{b}": dataclasses.replace(sources[a], domains=[*self._domains_of(a), *self._domains_of(b)])
            for a, b in self._pairs()
        }
        return dataclasses.replace(self, contents=dataclasses.replace(self.contents, covariate={**sources, **pairs}))

    def pairs_with(self, setting: Setting) -> list[Setting]:
        """The settings, of the suite with pairs, that hold out another domain with the one of this setting."""
        pairs = [pair for pair in self._pairs() if setting.covariate in pair]
        return [dataclasses.replace(setting, covariate="+".join(pair)) for pair in pairs]

    def _pairs(self) -> list[tuple[str, str]]:
        alone = [name for name in self.contents.covariate if len(self._domains_of(name)) == 1]
        return list(itertools.combinations(alone, 2))

    def _complete(self, column: Column) -> Setting:
        given = {key: value for key, value in values_of(column).items() if value is not None}
        return Setting(**{**values_of(self.contents.defaults), **given})

    def setting_name(self, setting: Setting) -> str:
        """The semantic set and whatever differs from the suite's defaults; `setting` reads it back."""
        defaults = values_of(self.contents.defaults)
        alone = setting.semantic == NONE  # then the covariate set names it
        shown = [key for key in defaults if getattr(setting, key) != defaults[key] or (alone and key == "covariate")]
        named = [f"{key}={getattr(setting, key)}" for key in shown]
        return ",".join(named if alone else [setting.semantic, *named])

    def sweep(self, name: str | None) -> Sweep | None:
        if name is not None and name not in self.contents.sweeps:
            raise unknown(f"sweep of {self.name}", name, self.contents.sweeps)
        return None if name is None else self.contents.sweeps[name]

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
        return self._complete(Column(**values))

    def with_value(self, section: str, key: str, text: str) -> "Suite":
        """`--set recipe.epochs=3`: one value of both recipes changed; or of `id`, `splits`, the network's options."""
        if section == "network":
            types = {name: p.type for name, p in catalogue("networks")[self.contents.network.name].parameters.items()}
        else:
            types = {f.name: f.type for f in dataclasses.fields(SECTIONS[section])}
        if key not in types:
            raise unknown(f"key of '{section}'", key, types)
        change = {key: parse(text, types[key], (section, key))}
        if section == "recipe":
            changed: Any = {
                name: dataclasses.replace(recipe, **change) for name, recipe in values_of(self.contents.recipes).items()
            }
            contents = dataclasses.replace(self.contents, recipes=Recipes(**changed))
        elif section == "network":
            network = self.contents.network
            changed = dataclasses.replace(network, options={**network.options, **change})
            contents = dataclasses.replace(self.contents, network=changed)
        else:
            changed = dataclasses.replace(getattr(self.contents, section), **change)
            contents = dataclasses.replace(self.contents, **{section: changed})
        try:
            check(contents)
        except Misfit as error:
            raise UserError(f"{section}.{key}={text}: {error.message}") from None
        return dataclasses.replace(self, contents=contents)

    def with_precision(self, name: str | None) -> "Suite":
        """`--precision`; None is the suite's own."""
        if name is None:
            return self
        if name not in get_args(Precision):
            raise unknown("precision", name, get_args(Precision))
        chosen: Any = {"precision": name}
        return dataclasses.replace(self, contents=dataclasses.replace(self.contents, **chosen))

    def with_threads(self, count: int | None) -> "Suite":
        """`--cpu-threads`; None is the suite's own."""
        if count is None:
            return self
        if count < 1:
            raise UserError(f"--cpu-threads {count} is none; choose 1 or more")
        return dataclasses.replace(self, contents=dataclasses.replace(self.contents, cpu_threads=count))

    def with_sets(self, semantic: Sequence[str], covariate: Sequence[str]) -> "Suite":
        """`--semantic` and `--covariate`: settings of these sets instead; each a name of the suite, or folder:PATH."""
        if not semantic and not covariate:
            return self
        kinds = {"semantic": dict(self.contents.semantic), "covariate": dict(self.contents.covariate)}
        family = self.contents.corruptions
        reserved = {
            "semantic": {NONE: None},
            "covariate": dict.fromkeys(corruption_kinds(family) if family is not None else ()),
        }
        names: dict[str, list[str]] = {"semantic": [], "covariate": []}
        for kind, words in (("semantic", semantic), ("covariate", covariate)):
            for word in words:
                name = word
                if word.startswith(FOLDER):
                    name = _name_of_folder(word, {**reserved[kind], **kinds[kind]})
                    kinds[kind][name] = Source(word)
                names[kind].append(name)
        contents = dataclasses.replace(self.contents, semantic=kinds["semantic"], covariate=kinds["covariate"])
        for both in set(names["semantic"]) & set(names["covariate"]):
            if kinds["semantic"].get(both) == kinds["covariate"].get(both, NONE):
                raise UserError(f"'{both}' cannot be both semantic and covariate shift; choose another for one of them")
        semantics = names["semantic"] or [column.semantic for column in self.contents.settings]
        covariates: Sequence[str | None] = names["covariate"] or [c.covariate for c in self.contents.settings]
        columns = dict.fromkeys(Column(s, c) for s in semantics for c in covariates)
        suite = dataclasses.replace(self, contents=dataclasses.replace(contents, settings=list(columns)))
        for setting in suite.settings:
            try:
                check_setting(setting, contents)
            except Misfit as error:
                raise UserError(error.message) from None
        return suite


SECTIONS: dict[str, Any] = {"recipe": Recipe, "id": Source, "splits": Splits, "network": NetworkChoice}
FOLDER = "folder:"
RECIPE = "recipe."  # before the name of a value that `search` draws


def _name_of_folder(word: str, taken: Mapping[str, Source | None]) -> str:
    """The folder's own name, as results may bear it, or a longer one if another set is called so."""
    path = Path(word.removeprefix(FOLDER)).expanduser()
    name = re.sub(r"[^\w.+-]", "_", path.resolve().name.split(".")[0]).lstrip("_.+-") or "folder"
    names = itertools.chain([name, f"folder-{name}"], (f"folder-{name}-{i}" for i in itertools.count(2)))
    return next(each for each in names if each not in taken or taken[each] == Source(word))


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
    contents = _checked(document)
    for each in contents.presets:
        overlaid = _checked(document.overlaid(("presets", each)))
        contents = overlaid if each == preset else contents
    if preset is not None and preset not in contents.presets:
        raise unknown(f"preset of {path.stem}", preset, contents.presets)
    return Suite(path.stem, path, preset, contents)


def _checked(document: Document) -> Contents:
    contents = document.conform(Contents)
    try:
        check(contents)
    except Misfit as error:
        raise document.error(error.place, error.message) from None
    return contents


def check(contents: Contents) -> None:
    """What types cannot say: names that must exist, numbers that must make sense."""
    datasets = catalogue("datasets")
    sources: dict[Place, Source] = {("id",): contents.id}
    sources |= {("semantic", name): source for name, source in contents.semantic.items()}
    sources |= {("covariate", name): source for name, source in contents.covariate.items()}
    for place, source in sources.items():
        if source.dataset not in datasets and not source.dataset.startswith(FOLDER):
            raise Misfit((*place, "dataset"), str(unknown("data set", source.dataset, datasets)))
        if source.classes is not None and (not source.classes or len(set(source.classes)) < len(source.classes)):
            raise Misfit((*place, "classes"), f"expected at least one class and none twice, got {source.classes}")
        if place[0] == "semantic" and _overlap(source, contents.id):
            raise Misfit(place, f"shares classes of '{source.dataset}' with the ID data; choose others")
        if place[0] == "covariate" and source.dataset == contents.id.dataset and not source.domains:
            raise Misfit(place, f"is the ID data set '{source.dataset}' itself; name the domains to hold out")
        if source.jpeg is not None and not 1 <= source.jpeg <= 100:
            raise Misfit((*place, "jpeg"), f"expected a quality from 1 to 100, got {source.jpeg}")
        if source.size is not None and not 8 <= source.size <= 1024:
            raise Misfit((*place, "size"), f"expected a side of 8 to 1024 pixels, got {source.size}")
        for key in ("size", "jpeg", "embed"):
            if place != ("id",) and getattr(source, key) is not None:
                raise Misfit((*place, key), f"'{key}' is for the ID data; other sets follow it")
    for place in [(kind, name) for kind in ("semantic", "covariate", "presets") for name in getattr(contents, kind)]:
        if not re.fullmatch(r"\w[\w.+-]*", str(place[-1])):
            raise Misfit(place, "expected a name of letters, digits and . + - _ alone, since folders bear it")
    networks = catalogue("networks")
    if contents.network.name not in networks:
        raise Misfit(("network", "name"), str(unknown("network", contents.network.name, networks)))
    known = networks[contents.network.name].parameters
    for option in contents.network.options:
        if option not in known:
            raise Misfit(("network", "options", option), str(unknown("option of the network", option, known)))
        conform(contents.network.options[option], known[option].type, ("network", "options", option))
    for kind, recipe in values_of(contents.recipes).items():
        _check_recipe(recipe, ("recipes", kind))
    for name, distribution in _distributions(contents).items():
        for value in distribution.extremes:
            drawn = dataclasses.replace(contents.recipes.scratch, **{name.removeprefix(RECIPE): value})
            try:
                _check_recipe(drawn, ())
            except Misfit as error:
                raise Misfit(("search", name), f"'{contents.search[name]}' may draw {value}: {error.message}") from None
    for name, share in values_of(contents.splits).items():
        if isinstance(share, float) and not 0 < share < 1 and not (name == "labelled" and share >= 1):
            raise Misfit(("splits", name), f"expected a share between 0 and 1, got {share}")
    if contents.splits.mixed_validation + contents.splits.id_validation >= 1:
        raise Misfit(("splits", "mixed_validation"), "mixed_validation + id_validation leave nothing for the mixture")
    if contents.id.embed is not None:
        if contents.corruptions is not None:
            raise Misfit(("id", "embed"), "embedded images cannot be corrupted; leave out 'embed' or 'corruptions'")
        for kind, recipe in values_of(contents.recipes).items():
            if recipe.augment != "none":
                raise Misfit(
                    ("recipes", kind, "augment"), f"'{recipe.augment}' is for pixels, not features; choose none"
                )
    if contents.cpu_threads is not None and contents.cpu_threads < 1:
        raise Misfit(("cpu_threads",), f"expected 1 or more, got {contents.cpu_threads}")
    if not contents.settings:
        raise Misfit(("settings",), "expected at least one setting")
    if contents.corruptions is not None:
        taken = set(corruption_kinds(contents.corruptions)) & set(contents.covariate)
        if taken:
            raise Misfit(("covariate", min(taken)), f"'{min(taken)}' is a kind of {contents.corruptions}; rename it")
    for i, column in enumerate(contents.settings):
        given = {key: value for key, value in values_of(column).items() if value is not None}
        try:
            check_setting(Setting(**{**values_of(contents.defaults), **given}), contents)
        except Misfit as error:
            where: Place = ("settings", i) if error.place[0] in given else ("defaults",)
            raise Misfit((*where, *error.place), error.message) from None


def _check_recipe(recipe: Recipe, place: Place) -> None:
    for key in ("epochs", "batch_size", "lr"):
        if getattr(recipe, key) <= 0:
            raise Misfit((*place, key), f"expected more than 0, got {getattr(recipe, key)}")
    for key in ("momentum", "warmup"):
        if not 0 <= getattr(recipe, key) < 1:
            raise Misfit((*place, key), f"expected 0 to below 1, got {getattr(recipe, key)}")
    if not 0 <= recipe.unaugmented <= 1:
        raise Misfit((*place, "unaugmented"), f"expected 0 to 1, got {recipe.unaugmented}")
    for key in ("weight_decay", "decay"):
        if getattr(recipe, key) < 0:
            raise Misfit((*place, key), f"expected 0 or more, got {getattr(recipe, key)}")


def _distributions(contents: Contents) -> dict[str, search.Distribution]:
    types = {f"{RECIPE}{f.name}": f.type for f in dataclasses.fields(Recipe)}
    for name in contents.search:
        if name not in types:
            raise Misfit(("search", name), str(unknown("value to draw", name, types)))
    return {name: search.read(text, types[name], ("search", name)) for name, text in contents.search.items()}


def _overlap(a: Source, b: Source) -> bool:
    return a.dataset == b.dataset and (a.classes is None or b.classes is None or bool({*a.classes} & {*b.classes}))


def check_setting(setting: Setting, contents: Contents) -> None:
    """A misfit names the key."""
    if setting.semantic != NONE and setting.semantic not in contents.semantic:
        raise Misfit(("semantic",), str(unknown("semantic set", setting.semantic, contents.semantic)))
    kinds = corruption_kinds(contents.corruptions) if contents.corruptions is not None else []
    if setting.covariate not in (*kinds, *contents.covariate):
        what = "corruption" if kinds else "covariate set"
        raise Misfit(("covariate",), str(unknown(what, setting.covariate, [*kinds, *contents.covariate])))
    steps = severities(contents.corruptions) if setting.covariate in kinds and contents.corruptions else [1]
    if setting.severity not in steps and setting.covariate in kinds:
        choice = f"{steps[0]} to {steps[-1]}" if len(steps) > 1 else str(steps[0])
        raise Misfit(("severity",), f"severity {setting.severity} does not exist; choose {choice}")
    for key in ("pi_c", "pi_s"):
        share = getattr(setting, key)
        if not 0 <= share <= 1:
            raise Misfit((key,), f"{key}={share:g} is not a share; choose a number from 0 to 1")
    if setting.pi_c + setting.pi_s > 1 + 1e-9:
        whole = f"pi_c + pi_s = {setting.pi_c + setting.pi_s:g}"
        raise Misfit(("pi_c",), f"{whole} is more than the whole; choose shares that sum to 1 or less")


def severities(family: str) -> Sequence[int]:
    """1 to 5, unless the family of corruptions says otherwise."""
    return getattr(_family(family), "SEVERITIES", range(1, 6))


def corruption_kinds(family: str) -> list[str]:
    return list(_family(family).KINDS)


def _family(family: str) -> ModuleType:
    families = [path.stem for path in (PACKAGE / "data" / "corruptions").glob("[a-z]*.py")]
    if family not in families:
        raise Misfit(("corruptions",), str(unknown("family of corruptions", family, families)))
    return import_module(f"oodbench.data.corruptions.{family}")
