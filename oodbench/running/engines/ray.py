"""The engine of a Ray cluster, whose machines share no disk with the run. Imports no torch.

A task is a task of Ray's. Ray says where it runs; whether it is tried again, the driver says. What comes of it are
values of Ray's task, which arrive or else the task is lost; how far it is goes through an actor beside the driver, and
may be lost without harm.
"""

import logging
import os
import signal
import socket
import threading
import time
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

import msgspec

from oodbench.errors import UserError, said, shortened
from oodbench.running import tasks
from oodbench.running.engines import ray_node
from oodbench.running.engines.ray_node import Job, Make
from oodbench.running.request import Request
from oodbench.running.tasks import Failure, Message, Order, Send, Task

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
class Ray:
    """Tasks under way in a cluster that was there, or that this engine starts and ends."""

    order: Order
    address: str = "local"
    device: str = "auto"  # or cpu, or cuda
    threads: int = 1
    per_device: int = 1
    workers: int | None = None  # tasks at a time; None: what the cluster has room for
    cores: int = 1  # of this machine, if the cluster is started here
    make: Make = ray_node.planned

    carries_weights = True
    _run: str = field(default_factory=lambda: uuid.uuid4().hex[:12], init=False)
    _under_way: dict[str, tuple[Task, Any, dict[str, Any]]] = field(default_factory=dict, init=False)
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
        self._perform = ray.remote(ray_node.perform if streams else ray_node.perform_at_once).options(
            num_cpus=self.threads,
            num_gpus=1 / self.per_device if self._on_gpu else 0,
            num_returns="streaming" if streams else 1,
            max_retries=0,
        )

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

    def submit(self, task: Task, weights: Mapping[str, bytes], failures: Mapping[str, Failure]) -> None:
        # What tasks under way start from lies in the cluster already.
        there = {key: ref for _, _, refs in self._under_way.values() for key, ref in refs.items()}
        refs = {key: there[key] if key in there else self._ray.put(content) for key, content in weights.items()}
        device = "cuda" if self._on_gpu else "cpu"
        job = msgspec.msgpack.encode(Job(self._run, task, (*refs,), dict(failures), device, self.threads))
        # A reference in a list is not followed before the task begins; those of weights are.
        begun = self._perform.remote(job, [self._order], self._board, self.make, *refs.values())
        self._under_way[task.name] = task, begun, refs

    def wait(self, seconds: float, hear: Send) -> None:
        until, ready = time.monotonic() + seconds, list[str]()
        while not ready and (left := until - time.monotonic()) > 0:
            ready = self._ready(min(left, LISTEN))
            self._listen(hear)
        for name in ready:
            for message in self._news(name):
                hear(message)

    def _ready(self, seconds: float) -> list[str]:
        """Tasks of which there is news."""
        begun = {each: name for name, (_, each, _) in self._under_way.items()}
        try:
            self._ray.wait([*begun], timeout=seconds, fetch_local=False)
            ready, _ = self._ray.wait([*begun], num_returns=len(begun), timeout=0, fetch_local=False)
        except (self._ray.exceptions.RayError, ConnectionError) as error:
            raise UserError(
                f"the connection to Ray is lost ({said(error)}); the same command resumes the run"
            ) from None
        return [begun[each] for each in ready]

    def _listen(self, hear: Send) -> None:
        """How far tasks are."""
        if self._is_deaf:
            return
        try:
            messages = self._ray.get(self._board.take.remote(), timeout=1)
        except self._ray.exceptions.GetTimeoutError:
            return
        except Exception:  # which must not end a run
            self._is_deaf = True
            return
        for each in messages:
            hear(msgspec.msgpack.decode(each, type=Message))

    def _news(self, name: str) -> Iterator[Message]:
        """What came of a task that is ready, or that it was lost."""
        task, begun, _ = self._under_way[name]
        errors = self._ray.exceptions
        try:
            values = self._ray.get(next(begun) if hasattr(begun, "__next__") else begun)
        except errors.RayTaskError as error:
            if NO_IMPORT not in str(error):
                raise  # a bug of ours: what a component does wrong fails its cells
            why = str(error).strip().splitlines()[-1]
            yield tasks.Refused(f"a node of the Ray cluster cannot import what it should run ({why}); {INSTALL}")
            return
        except errors.RayError as error:
            del self._under_way[name]
            yield tasks.Lost(name, GONE.get(type(error).__name__, said(error)))
            return
        for each in values if isinstance(values, list) else [values]:
            message: Message = msgspec.msgpack.decode(each, type=Message)
            if isinstance(message, tasks.Ended):
                del self._under_way[name]
            yield message

    def stop(self, task: Task) -> None:
        _, begun, _ = self._under_way.pop(task.name)
        with suppress(Exception):  # it has just ended
            self._ray.cancel(begun, force=True)

    def close(self) -> None:
        for task, _, _ in [*self._under_way.values()]:
            self.stop(task)
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
