"""A run on a Ray cluster, whose machines share no disk with it.

A training with its cells is a task of Ray's. Ray says where it runs; whether it is tried again is said here. What comes
of it are values of Ray's task, which arrive or else the task is lost, and are written as those of any other run. How
far it is goes through an actor beside this process, and may be lost without harm.
"""

import logging
import os
import signal
import socket
import threading
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

import msgspec

from oodbench.errors import UserError, said, shortened
from oodbench.files import write_bytes
from oodbench.results.result import read
from oodbench.results.stored import place
from oodbench.running import ray_node
from oodbench.running.cells import Cell, Source, weights_file
from oodbench.running.costs import cores
from oodbench.running.order import Order, packed
from oodbench.running.plan import Plan
from oodbench.running.ray_node import Job, News
from oodbench.running.reporting import Told, training_name
from oodbench.running.request import Request
from oodbench.running.session import Session
from oodbench.running.supervise import TRIES, Watch, tell
from oodbench.running.work import fail, fail_named, may_begin

CLIENT = "ray://"  # addresses for drivers outside the cluster
COUNT = 2.0  # seconds between looks at what the cluster has
LISTEN = 0.25  # and at how far tasks are
REACH = 10.0  # seconds for a machine to answer
GOODBYE = 5.0  # seconds for nodes to delete what they have of a run
NO_IMPORT = "failed to import"  # what Ray says of a function that a node lacks
INSTALL = "install the same oodbench on all its machines"
# Ray reads these when it is imported: it reports to nobody, and says nothing on the standard output of a run.
QUIET = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",  # about which it would warn
    "RAY_DEDUP_LOGS_SKIP_REGEX": ".",  # lines of other processes that it leaves out
}
GONE = {
    "WorkerCrashedError": "its process was killed (out of memory?), or its node was lost",
    "NodeDiedError": "its node was lost",
    "OutOfMemoryError": "its node ran out of memory",
    "TaskCancelledError": "somebody canceled it",
}


def address_of(on: str) -> str:
    """`ray` is a cluster of this machine alone, for this run; `ray:auto`, `ray:HOST:PORT` and `ray://HOST:PORT`."""
    if on.startswith(CLIENT):
        return on
    name, colon, address = on.partition(":")
    if colon and not address:
        raise UserError("--on ray: names no cluster; write ray, ray:auto, ray:HOST:6379 or ray://HOST:10001")
    return address or "local"


def check(asked: Request) -> None:
    """What can be refused before anything else is done."""
    address = address_of(asked.on or "")
    package()
    if asked.keep_outputs:
        raise UserError(
            "outputs stay on the disk of the machine that computes them; leave out --keep-outputs with --on ray"
        )
    if asked.timeout is not None and address.startswith(CLIENT):
        raise UserError(
            f"a driver outside the cluster cannot tell how long a cell takes; leave out --timeout, or run on a machine "
            f"of the cluster with --on ray:auto instead of '{shortened(address)}'"
        )
    if asked.device not in ("auto", "cpu", "cuda"):
        raise UserError(
            f"Ray chooses among the devices of a machine; choose --device auto, cpu or cuda, not '{asked.device}'"
        )


def package() -> Any:
    """Ray, which is an extra."""
    for name, value in QUIET.items():
        os.environ.setdefault(name, value)
    try:
        import ray
        import ray.exceptions
        import ray.util.scheduling_strategies
    except ImportError as error:
        raise UserError(f'Ray cannot be imported ({said(error)}); install it: pip install "oodbench[ray]"') from None
    return ray


@dataclass
class Cluster:
    """Tasks under way in a cluster that was there, or that is started and ended here."""

    order: Order
    address: str = "local"
    device: str = "auto"  # or cpu, or cuda
    threads: int = 1
    per_device: int = 1
    workers: int | None = None  # tasks at a time; None: what the cluster has room for
    cores: int = 1  # of this machine, if the cluster is started here

    _run: str = field(default_factory=lambda: uuid.uuid4().hex[:12], init=False)
    under_way: dict[str, Any] = field(default_factory=dict, init=False)  # by the key of a training
    _weights: dict[str, Any] = field(default_factory=dict, init=False)  # those that lie in the cluster, by key
    _counted: tuple[float, int] = field(default=(float("-inf"), 0), init=False)
    _is_deaf: bool = field(default=False, init=False)  # the board is gone

    def __post_init__(self) -> None:
        self._ray = package()
        self._was_there = self._ray.is_initialized()
        if not self._was_there:
            self._connect()
        try:
            self._settle()
        except BaseException:
            self.close()
            raise

    def _connect(self) -> None:
        _check_reachable(self.address)
        local: dict[str, Any] = {}
        if self.address == "local":
            cpus = self.threads * self.workers if self.workers else max(self.cores, self.threads)
            local = {"num_cpus": cpus, "include_dashboard": False}
        try:
            with _signals_kept():
                self._ray.init(self.address, log_to_driver=False, logging_level=logging.ERROR, **local)
        except Exception as error:  # Ray has no one error for it
            raise _unreachable(self.address, error) from None

    def _settle(self) -> None:
        """Choose what tasks need of a node, and put what all of them need where they find it."""
        ray = self._ray
        gpus = any(node["Resources"].get("GPU", 0) for node in self._nodes())
        self._on_gpu = self.device == "cuda" or (self.device == "auto" and gpus)
        if not self.slots:
            lacks = f"{'a GPU and ' if self._on_gpu else ''}{self.threads} CPU{'s' if self.threads > 1 else ''}"
            raise UserError(
                f"no machine of the Ray cluster has {lacks} for a task; choose another --device or --cpu-threads, or "
                "say with --workers how many tasks there will be machines for"
            )
        here = ray.util.scheduling_strategies.NodeAffinitySchedulingStrategy(
            ray.get_runtime_context().get_node_id(), soft=False
        )
        self._board = ray.remote(ray_node.Board).options(num_cpus=0, scheduling_strategy=here).remote()
        self._order = ray.put(msgspec.msgpack.encode(self.order))
        streams = not self.address.startswith(CLIENT)
        function = ray_node.perform if streams else ray_node.perform_at_once
        options = {
            "num_cpus": self.threads,
            "num_gpus": 1 / self.per_device if self._on_gpu else 0,
            "num_returns": "streaming" if streams else 1,
            "max_retries": 0,
        }
        self._perform = ray.remote(function).options(**options)
        # A process that has run users' code does nothing else.
        self._perform_and_end = ray.remote(max_calls=1)(function).options(**options)

    def _nodes(self) -> list[dict[str, Any]]:
        return [node for node in self._ray.nodes() if node["Alive"]]

    @property
    def slots(self) -> int:
        if self.workers is not None:
            return self.workers
        if time.monotonic() - self._counted[0] > COUNT:
            self._counted = time.monotonic(), sum(self._room(node["Resources"]) for node in self._nodes())
        return self._counted[1]

    def _room(self, has: Mapping[str, float]) -> int:
        room = int(has.get("CPU", 0) // self.threads)
        return min(room, int(has.get("GPU", 0) * self.per_device)) if self._on_gpu else room

    def submit(self, source: Source, cells: Sequence[str], weights: Mapping[str, bytes]) -> None:
        for key, content in weights.items():
            self._weights = self._weights if key in self._weights else {key: self._ray.put(content)}
        device = "cuda" if self._on_gpu else "cpu"
        job = Job(self._run, source.key, tuple(cells), next(iter(weights), None), device, self.threads)
        # A reference in a list is not followed before the task begins; those of weights are.
        refs = [self._weights[key] for key in weights]
        perform = self._perform_and_end if source.files else self._perform
        self.under_way[source.key] = perform.remote(msgspec.msgpack.encode(job), [self._order], self._board, *refs)

    def ready(self, seconds: float) -> list[str]:
        """Trainings of which there is news."""
        if not self.under_way:
            return []
        begun = {each: name for name, each in self.under_way.items()}
        try:
            self._ray.wait([*begun], timeout=seconds, fetch_local=False)
            ready, _ = self._ray.wait([*begun], num_returns=len(begun), timeout=0, fetch_local=False)
        except (self._ray.exceptions.RayError, ConnectionError) as error:
            raise UserError(
                f"the connection to Ray is lost ({said(error)}); the same command resumes the run"
            ) from None
        return [begun[each] for each in ready]

    def words(self) -> list[dict[str, Any]]:
        """How far tasks are."""
        if self._is_deaf:
            return []
        try:
            said: list[dict[str, Any]] = self._ray.get(self._board.take.remote(), timeout=1)
            return said
        except self._ray.exceptions.GetTimeoutError:
            return []
        except Exception:  # which must not end a run
            self._is_deaf = True
            return []

    def news(self, training: str) -> tuple[list[News], bool]:
        """What came of a training that is ready, and whether that is all; `Lost` if it went with its worker or node."""
        begun, errors = self.under_way[training], self._ray.exceptions
        try:
            values = self._ray.get(next(begun) if hasattr(begun, "__next__") else begun)
        except StopIteration:
            del self.under_way[training]
            return [], True
        except errors.RayTaskError as error:
            if NO_IMPORT not in str(error):
                raise  # a bug of ours: what a component does wrong fails its cells
            why = str(error).strip().splitlines()[-1]
            raise UserError(f"a node of the Ray cluster cannot import what it should run ({why}); {INSTALL}") from None
        except errors.RayError as error:
            del self.under_way[training]
            raise Lost(GONE.get(type(error).__name__, said(error))) from None
        is_all = isinstance(values, list)
        if is_all:
            del self.under_way[training]
        return [msgspec.msgpack.decode(each, type=News) for each in (values if is_all else [values])], is_all

    def stop(self, training: str) -> None:
        begun = self.under_way.pop(training)
        with suppress(Exception):  # it has just ended
            self._ray.cancel(begun, force=True)

    def close(self) -> None:
        for training in [*self.under_way]:
            self.stop(training)
        with suppress(Exception):  # the cluster may be gone
            self._clean()
        if not self._was_there:
            with suppress(Exception):
                self._ray.shutdown()

    def _clean(self) -> None:
        """Delete what the nodes have of this run."""
        there = self._ray.util.scheduling_strategies.NodeAffinitySchedulingStrategy
        clean = self._ray.remote(ray_node.clean)
        options = [{"num_cpus": 0, "scheduling_strategy": there(node["NodeID"], soft=False)} for node in self._nodes()]
        cleaning = [clean.options(**each).remote(self._run) for each in options]
        self._ray.wait(cleaning, num_returns=len(cleaning), timeout=GOODBYE)


class Lost(Exception):
    """A task went with its worker or node: nobody knows how far it was."""


def run(plan: Plan, at: Session, told: Told, order: Sequence[Source]) -> None:
    """The loop of `work`, with each training and its cells as a task of the cluster."""
    asked = plan.request
    address = address_of(asked.on or "")
    cluster = Cluster(
        packed(plan), address, asked.device, plan.suite.threads, asked.per_device, asked.workers, len(cores())
    )
    try:
        told.reporter.begin(len(plan.todo) if plan.only is None else 0, cluster.slots)
        _Driver(plan, at, told, cluster, list(order), Watch(asked.timeout)).run()
    finally:
        cluster.close()


@dataclass
class _Driver:
    plan: Plan
    at: Session
    told: Told
    cluster: Cluster
    left: list[Source]
    watch: Watch

    _locks: dict[str, ExitStack] = field(default_factory=dict, init=False)  # by training
    _workers: dict[str, str] = field(default_factory=dict, init=False)  # who is at it

    def run(self) -> None:
        stuck = False
        try:
            while self.left or self._locks:
                moved = self._begin(take_over=stuck and self.at.asked.take_over)
                stuck = not (moved or self._locks)
                if stuck and self.left:
                    self.at.wait(self.left[0])
                for key in self.cluster.ready(LISTEN):
                    self._hear(self.plan.source(key))
                for message in self.cluster.words():
                    self._listen(**message)
                for name in self.watch.late():
                    self._end_late(self.plan.source(name))
        finally:
            for lock in self._locks.values():
                lock.close()

    def _begin(self, take_over: bool) -> bool:
        moved = False
        for source in list(self.left):
            if len(self._locks) > self.cluster.slots:  # one more than there is room for travels meanwhile
                break
            failure = self.at.failed(source)
            if failure is None and not may_begin(source, self.at):
                continue
            held = ExitStack()
            if not held.enter_context(self.at.hold(source, take_over=take_over and not moved)):
                continue
            self.left.remove(source)
            moved = True
            cells = self._lacking(source)
            if failure is not None:
                fail(cells, failure, self.at)
            elif cells or not self.at.has_weights(source.training):
                self._locks[source.key] = held
                self._submit(source, cells)
                continue
            held.close()
        return moved

    def _lacking(self, source: Source) -> list[Cell]:
        return [cell for cell in self.plan.cells_of(source) if self.at.lacks(cell)]

    def _submit(self, source: Source, cells: Sequence[Cell]) -> None:
        """With its own weights or, where it has yet to be trained, those that it starts from."""
        start = source.training if self.at.has_weights(source.training) else source.training.parent
        weights = {}
        if start is not None and start.init is None:  # weights that the user gives travel with the order
            weights[start.key] = weights_file(start.key, self.at.folder).read_bytes()
        self.watch.begins(source.key, source.key)
        self.cluster.submit(source, [cell.name for cell in cells], weights)

    def _hear(self, source: Source) -> None:
        try:
            every, is_all = self.cluster.news(source.key)
        except Lost as lost:
            self._lose(source, str(lost))
            return
        for news in every:
            if news.refused is not None:
                raise UserError(news.refused)
            if news.weights is not None:
                write_bytes(weights_file(source.training.key, self.at.folder), news.weights)
            if news.failure is not None:
                self.at.note_failure(source.key, *news.failure)
            if news.cell is not None:
                cell = self.plan.cell(news.cell)
                place(cell.path, news.files)
                self.told.result(cell, read(cell.path), self._workers.get(source.key, ""))
        if is_all:
            self._leave(source)

    def _leave(self, source: Source) -> None:
        self.watch.at.pop(source.key, None)
        if (worker := self._workers.pop(source.key, None)) is not None:
            self.told.reporter.busy(worker, "")
        self._locks.pop(source.key).close()

    def _listen(self, job: str, worker: str, do: str, **values: Any) -> None:
        if job in self._locks and do not in ("result", "trained", "done"):  # which are told when they are here
            self._workers[job] = worker
            tell(self.plan, self.told, self.watch, job, worker, do, **values)

    def _lose(self, source: Source, why: str) -> None:
        name, has_failed = self.watch.died(source.key)
        what_next = "given up" if has_failed else "tried again"
        self.told.note(f"{training_name(source.training)}: {why}; {what_next}")
        if has_failed:
            fail_named(name or source.key, f"its worker was lost {TRIES} times: {why}", self.plan, self.at)
        self._leave(source)
        self.left.insert(0, source)

    def _end_late(self, source: Source) -> None:
        name = self.watch.at[source.key].name
        self.cluster.stop(source.key)
        fail_named(name, f"it took longer than --timeout {self.watch.timeout:g}", self.plan, self.at)
        self._leave(source)
        self.left.insert(0, source)


def _check_reachable(address: str) -> None:
    """Ray itself tries for minutes where nobody listens."""
    host, _, port = address.removeprefix(CLIENT).rpartition(":")
    if host and port.isdecimal():
        try:
            socket.create_connection((host, int(port)), REACH).close()
        except (OSError, OverflowError, UnicodeError) as error:
            raise _unreachable(address, error) from None


def _unreachable(address: str, error: Exception) -> UserError:
    return UserError(
        f"cannot connect to Ray at '{shortened(address)}': {said(error)}; start it there with `ray start --head`, or "
        "write --on ray for a cluster of this machine alone"
    )


@contextmanager
def _signals_kept() -> Iterator[None]:
    """Ray replaces what SIGTERM does to this process."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.getsignal(signal.SIGTERM)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
