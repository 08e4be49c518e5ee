"""The networks and the images of results, again. Imports torch, but not before it must."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from copy import deepcopy
from typing import TYPE_CHECKING

from oodbench.config import suite as suites
from oodbench.config.schema import Misfit
from oodbench.data import splits
from oodbench.errors import UserError
from oodbench.report.figures.studies import NotDrawn
from oodbench.results import result as ledger
from oodbench.results.result import Result

if TYPE_CHECKING:
    from oodbench.learning.networks import Classifier


@contextmanager
def reasons(what: str) -> Iterator[None]:
    """Missing data is no reason to leave out the other figures."""
    try:
        yield
    except (UserError, Misfit) as error:
        raise NotDrawn(f"{what}: {error}") from None


def check(result: Result) -> None:
    """That its suite and setting make sense: the file may have been edited."""
    suites.check(result.config.suite)
    suites.check_setting(result.config.setting, result.config.suite)


def parts_of(result: Result, used: Sequence[str]) -> splits.Parts:
    """The images a result was made with; of the parts in `used` this is certain."""
    with reasons("needs the images again"):
        check(result)
        parts = splits.build(result.ran_suite, result.config.setting, result.seed)
    recorded = result.data.parts
    for name in used:
        if name not in recorded or recorded[name].digest != getattr(parts, name).digest:
            raise NotDrawn(f"the part '{name}' is not what '{result.path}' was made with; run again with --force")
    return parts


def networks_of(chosen: Sequence[Result]) -> "list[Classifier]":
    """The trained network of each result, all of one suite, found among the stored weights by its hash."""
    with reasons("needs the images again"):
        from oodbench.running import execution

        check(chosen[0])
        model = execution.build_model(chosen[0].ran_suite, chosen[0].seed)
    from oodbench.learning.loop import load_tensors
    from oodbench.running.provenance import weights_digest

    shapes = {name: value.shape for name, value in model.state_dict().items()}
    assert chosen[0].path is not None
    folder = chosen[0].path.parents[3] / ledger.WEIGHTS
    found: dict[str | None, Classifier] = {}
    for path in sorted(folder.glob("*.pt")):
        if all(result.weights in found for result in chosen):
            break
        state = (load_tensors(path, model.device) or {}).get("model", {})
        if {name: value.shape for name, value in state.items()} == shapes:
            model.load_state_dict(state)
            found[weights_digest(model)] = deepcopy(model).eval().requires_grad_(False)
    for result in chosen:
        if result.weights not in found:
            run = f"'{result.method}', seed {result.seed}"
            raise NotDrawn(f"the weights of {run}, are not in '{folder}'; train them again with --force")
    return [found[result.weights] for result in chosen]
