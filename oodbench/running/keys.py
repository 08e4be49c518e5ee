"""What a result depends on, stated here and nowhere else. Equal keys, equal numbers.

Code counts as name@version (`identity`), values as they are, data sets by their content, files of weights too. Where a
module or a folder lies, times and object identities do not count. Metrics do not either: they are derived from the raw
scores, and a result names their version.
"""

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from oodbench import digests
from oodbench.config import identity, networks
from oodbench.config.cards import FACTORY
from oodbench.config.schema import values_of
from oodbench.config.suite import FOLDER, NONE, Contents, NetworkChoice, Setting, Source, Suite
from oodbench.data.lookup import dataset
from oodbench.errors import UserError
from oodbench.user_files import WEIGHTS_LIMIT

if TYPE_CHECKING:
    from oodbench.running.cells import Cell, Training

TRAINING = ("parts", "batches", "classifier", "loop")  # the components of the harness that weights come through
SCORING = ("outputs",)  # and raw scores


def of_training(training: "Training", with_seed: bool = True) -> dict[str, Any]:
    """Everything that a set of weights depends on."""
    contents = training.suite.contents
    outliers: dict[str, Any] = {}
    if training.reads_outliers and contents.outliers is not None:  # named only where there are some: older keys stay
        mark = training.marks[dataset(contents.outliers.dataset).name]
        outliers = {"outliers": {**source(contents.outliers), "data": mark}}
    return {
        **outliers,
        "code": {name: identity.of_harness(name) for name in TRAINING},
        "trainer": training.trainer.identity(),
        "network": network(contents.network),
        "recipe": stated(training.recipe),
        "id": source(contents.id),
        "data": training.marks[dataset(contents.id.dataset).name],
        "splits": stated(contents.splits),
        "mixture": contents.mixture if training.reads_wild else None,
        "shift": _seen(training),
        "seed": training.seed if with_seed else None,
        "init": training.init_digest,
        "parent": of_training(training.parent, with_seed) if training.parent else None,
        "precision": contents.precision,
        "threads": training.suite.threads,
    }


def of_cell(cell: "Cell", with_seed: bool = True) -> dict[str, Any]:
    """Everything that raw scores depend on."""
    return {
        "training": of_training(cell.training, with_seed),
        "code": {name: identity.of_harness(name) for name in SCORING},
        "scorer": cell.method.scorer.identity(),
        "shift": _shift(cell.suite, cell.setting, cell.marks),
    }


def code(contents: Contents) -> dict[str, str]:
    """The code that a result of a suite came through, beside that of its method: what it names."""
    code = {name: identity.of_harness(name) for name in (*TRAINING, *SCORING)}
    network = network_code(contents.network)
    code |= {"network": network.pop("code"), **network}
    if contents.corruptions is not None:
        code["corruptions"] = identity.of_family(contents.corruptions)
    if contents.id.embed is not None:
        code["embedding"] = identity.of_harness("embedding")
    return code


def stated(record: Any) -> dict[str, Any]:
    """The fields that differ from their defaults: one that oodbench learns later leaves old keys alone.

    Changing a default therefore takes a new version of what reads it.
    """
    defaults = {
        f.name: f.default_factory() if f.default_factory is not dataclasses.MISSING else f.default
        for f in dataclasses.fields(record)
    }
    return {name: value for name, value in values_of(record).items() if value != defaults[name]}


def source(source: Source) -> dict[str, Any]:
    """A folder counts by its content, which is among the marks, and not by its place or name."""
    values = {**stated(source), "dataset": FOLDER if source.dataset.startswith(FOLDER) else source.dataset}
    if source.embed is not None:
        values["embed"] = [source.embed, identity.of_harness("embedding")]
    return values


def network(choice: NetworkChoice) -> dict[str, Any]:
    """A file of weights counts by its content."""
    options = dict(choice.options)
    if options.get("weights"):
        options["weights"] = file_digest(Path(str(options["weights"])), "network.weights")
    return {**network_code(choice), "options": options}


def network_code(choice: NetworkChoice) -> dict[str, str]:
    """Of a function of the user's, also what makes a body of the module that it returns."""
    card = networks.card(choice.name)
    factory = {"factory": identity.of_harness("factory")} if card.kind == FACTORY else {}
    return {"code": identity.of_card(card), **factory}


def file_digest(path: Path, option: str) -> str:
    try:
        return digests.of_file(path, WEIGHTS_LIMIT)
    except OSError as error:
        raise UserError(f"cannot read '{path}': {error.strerror}; {option} takes a file of weights") from None


def _seen(training: "Training") -> dict[str, Any] | None:
    """What a training sees of its setting."""
    setting = training.setting
    if setting is None:
        return None
    held_out = training.suite.held_out(setting)
    if not held_out or training.reads_wild:
        return _shift(training.suite, setting, training.marks)
    # The domains that are left and, without a mixture to feed, all of their images.
    return {"held_out": held_out, "mixture": setting.semantic != NONE}


def _shift(suite: Suite, setting: Setting, marks: Mapping[str, str]) -> dict[str, Any]:
    """Where the images of a setting come from."""
    contents = suite.contents
    corruptions = corruption_code(contents, setting)
    return {
        "setting": stated(setting),
        "semantic": source(contents.semantic[setting.semantic]) if setting.semantic != NONE else None,
        "covariate": None if corruptions else source(contents.covariate[setting.covariate]),
        "corruptions": corruptions,
        "data": {f"{FOLDER}{mark}" if name.startswith(FOLDER) else name: mark for name, mark in sorted(marks.items())},
    }


def corruption_code(contents: Contents, setting: Setting) -> str | None:
    """The code that makes the covariate images of a setting, where they are corrupted copies."""
    if setting.covariate in contents.covariate or contents.corruptions is None:
        return None
    return identity.of_family(contents.corruptions)
