"""One scorer on a given network in one setting: its key, and the ordinary result that comes of it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timezone
from functools import cached_property
from pathlib import Path
from typing import Any

from oodbench import digests
from oodbench.config import identity
from oodbench.config.registry import Component, changed_words
from oodbench.config.shipped import YOUR_NETWORK
from oodbench.errors import printable, said
from oodbench.learning.loop import Failed
from oodbench.results import result as results
from oodbench.results.result import ComponentRun, Config, DataRead, MethodRun, PartRead, Result
from oodbench.results.stored import file_of
from oodbench.running import keys, provenance
from oodbench.running.given.network import SEED, Case, Given
from oodbench.seeds import derive

CODE = ("adapter", "decoder", "outputs", "parts")  # the components of the harness that raw scores come through


@dataclass(frozen=True)
class GivenCell:
    """One scorer on a given network in one setting: what is planned, run and stored."""

    given: Given
    case: Case
    scorer: Component
    folder: Path
    threads: int
    half_bank: bool
    request: Mapping[str, Any] = field(default_factory=dict, compare=False)  # that asked for it, as results carry it

    @property
    def method(self) -> str:
        """Under its own name a network stands for the suite, and the scorer is the method."""
        name, given = self.scorer.card.name, self.given
        return name if given.suite.name == given.run.name else f"{given.run.name}+{name}"

    @property
    def label(self) -> str:
        card = self.scorer.card
        return ",".join([self.method, *changed_words(self.method, {card.name: self.scorer.changed})])

    @property
    def setting(self) -> str:
        return self.given.suite.setting_name(self.case.setting)

    @cached_property
    def key(self) -> str:
        return digests.of_values(
            {
                "given": network_key(self.given),
                "code": {name: identity.of_harness(name) for name in CODE},
                "scorer": self.scorer.identity(),
                "data": self.case.marks,
                "parts": {name: part.key for name, part in self.case.parts.items().items() if len(part)},
                "threads": self.threads,
                "half_bank": self.half_bank,
            }
        )

    @cached_property
    def path(self) -> Path:
        return file_of(self.folder, self.given.suite.label, self.setting, self.label, SEED, self.key)

    def is_done(self) -> bool:
        try:
            result = results.read(self.path)
        except results.Unreadable:
            return False
        return result.key == self.key and result.status == "ok"


def network_key(given: Given) -> dict[str, Any]:
    """What the outputs of a given network depend on, beside the images."""
    run = given.run
    layer = {} if run.features is None else {"features": run.features}
    return {
        **layer,
        "digest": run.digest,
        "preprocessing": run.preprocessing,
        "head": run.head,
        "form": run.form,
        "classes": run.classes,
    }


def result_of(
    cell: GivenCell, device: str, measured: dict[str, float], seconds: dict[str, float], failure: Failed | None
) -> Result:
    given, config = cell.given, _config(cell)
    parts = {name: part for name, part in cell.case.parts.items().items() if len(part)}
    return Result(
        suite=given.suite.name,
        preset=given.suite.preset,
        setting=cell.setting,
        method=cell.label,
        seed=SEED,
        status="ok" if failure is None else "failed",
        error=None if failure is None else said(failure),
        traceback=None if failure is None else printable(failure.traceback, provenance.LONGEST_TRACEBACK),
        metrics=measured,
        metrics_version=identity.version_of("metrics"),
        key=cell.key,
        variant=cell.key,
        training=digests.of_values(network_key(given)),
        config=config,
        seeds={"parts": derive(SEED, "labelled")},
        versions=provenance.versions(),
        commit=provenance.commit(),
        device=device,
        machine=provenance.machine(),
        data=DataRead(given.sets, {name: PartRead(len(p), p.digest, p.origin) for name, p in parts.items()}),
        weights=provenance.weights_digest(given.model),
        notes=provenance.of_validation(cell.scorer.card, cell.case.parts, given.model.head.out_features),
        domain_accuracies=[],
        seconds={stage: round(value, 4) for stage, value in seconds.items()},
        written=datetime.now(timezone.utc).isoformat(),
        request=dict(cell.request),
        chain=provenance.chain(config.method),
        precision="fp32",
    )


def _config(cell: GivenCell) -> Config:
    given, card = cell.given, cell.scorer.card
    own = f"given@{given.run.digest}"
    contents = given.suite.contents
    display = card.display if cell.method == card.name else f"{given.run.name} + {card.display}"
    return Config(
        suite=contents,
        setting=cell.case.setting,
        method=MethodRun(
            cell.method,
            display,
            YOUR_NETWORK,
            ComponentRun("given", given.run.name, own, {}),
            provenance.component(cell.scorer),
        ),
        recipe=contents.recipes.scratch,
        code=_code(cell),
        threads=cell.threads,
        given=given.run,
    )


def _code(cell: GivenCell) -> dict[str, str]:
    code = {name: identity.of_harness(name) for name in CODE}
    corruptions = keys.corruption_code(cell.given.suite.contents, cell.case.setting)
    return code if corruptions is None else {**code, "corruptions": corruptions}
