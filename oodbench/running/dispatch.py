"""Carries out what a plan has left to do, with the engine that fits."""

from contextlib import closing
from typing import TYPE_CHECKING

from oodbench.errors import UserError
from oodbench.files import check_writable
from oodbench.results.result import Result
from oodbench.running import preflight
from oodbench.running.claims import Claims
from oodbench.running.costs import Costs, cores
from oodbench.running.driver import Driver, Engine, drive
from oodbench.running.plan import Plan
from oodbench.running.reporting import Reporter, training_name
from oodbench.running.request import remember
from oodbench.running.schedule import Schedule
from oodbench.running.tasks import tasks_of

if TYPE_CHECKING:
    import torch

SHORT = 20.0  # seconds: to start workers for less than that would not pay


def execute(plan: Plan, device: "torch.device", reporter: Reporter) -> list[Result]:
    """Run what is still to do; the new results. A cell that fails is a result too, the others go on."""
    _check_engine(plan)
    preflight.check(plan, device)
    check_writable(plan.folder)
    remember(plan.request)
    costs = _costs(plan, device)
    schedule = Schedule.of(tasks_of(plan, costs.trainings, costs.cell))
    claims = Claims(plan.folder, reporter, plan.request.take_over)
    driver = Driver(plan, schedule, reporter, claims, plan.request.timeout)
    cells = plan.todo if plan.only is None else []
    with closing(driver), closing(_engine(plan, device, driver, costs.seconds)) as engine:
        reporter.begin(len(cells), engine.slots)
        try:
            drive(schedule, engine, driver, ahead=int(engine.carries_weights))  # of what has to travel, one is sent on
        except KeyboardInterrupt:
            reporter.note(f"{len(cells) - len(driver.new)} of {len(cells)} cells are left")
            raise
        finally:
            reporter.end()
    if driver.given_up:
        key, why = next(iter(driver.given_up.items()))
        raise UserError(
            f"{len(driver.given_up)} cells have no result; the first, '{plan.cell(key)}': {why}; the same command "
            "tries them again"
        )
    if plan.only is not None and driver.failures:  # which no cell tells here
        key, failure = next(iter(driver.failures.items()))
        name = training_name(plan.training(key))
        raise UserError(
            f"{len(driver.failures)} of {len(plan.only)} trainings failed; the first, {name}: {failure.error}; "
            "the other stage tries again and records the outcome"
        )
    return driver.new


def _costs(plan: Plan, device: "torch.device") -> Costs:
    """None that anybody knows where a network or a picture cannot be tried; what is wrong fails its cells in turn."""
    try:
        return preflight.costs(plan, device)
    except Exception:
        return Costs({}, 0.0)


def _check_engine(plan: Plan) -> None:
    """Refuse what the engine cannot do, before anything is rehearsed or written."""
    if _is_on(plan, "ray"):
        from oodbench.running.engines import ray

        ray.check(plan.request)


def _is_on(plan: Plan, engine: str) -> bool:
    return plan.request.on is not None and plan.request.on.partition(":")[0] == engine


def _engine(plan: Plan, device: "torch.device", driver: Driver, seconds: float) -> Engine:
    asked = plan.request
    if _is_on(plan, "ray"):
        from oodbench.running.engines.order import packed
        from oodbench.running.engines.ray import Ray, address_of

        return Ray(
            packed(plan),
            address_of(asked.on or ""),
            asked.device,
            plan.suite.threads,
            asked.per_device,
            asked.workers,
            len(cores()),
        )
    devices = _devices(plan, device, seconds)
    if len(devices) == 1 and asked.workers is None and asked.timeout is None:
        from oodbench.running.engines.local import Local

        return Local(plan, device, driver)
    from oodbench.running.engines.order import packed
    from oodbench.running.engines.workers import Workers

    return Workers(packed(plan), str(plan.folder.absolute()), devices, plan.suite.threads)


def _devices(plan: Plan, device: "torch.device", seconds: float) -> list[str]:
    """One for each worker: as many as were asked for or, on CPUs, as there are cores; at most one for each training."""
    asked, trainings = plan.request, len(plan.all_trainings)
    if device.type == "cpu":
        slots = max(1, len(cores()) // plan.suite.threads)
        chosen = asked.workers or (slots if seconds > SHORT else 1)
        return [str(device)] * min(chosen, trainings)
    found = [str(device)]
    if device.type == "cuda" and device.index is None:
        import torch

        found = [f"cuda:{i}" for i in range(torch.cuda.device_count())]
    chosen, most = asked.workers or 1, len(found) * asked.per_device
    if chosen > most:
        raise UserError(
            f"{chosen} workers for {len(found)} devices with {asked.per_device} each; choose --workers {most}, or more "
            "with --per-device"
        )
    return [found[i % len(found)] for i in range(min(chosen, trainings))]
