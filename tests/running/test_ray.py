"""The engine of a Ray cluster: the same bits as in one process, whatever becomes of workers, nodes and the driver."""

import importlib.util
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from functools import partial
from pathlib import Path

import pytest
from command_line import Outcome, assert_done, assert_refused, complaints, smoke
from result_files import arrays_of

from oodbench.config.cards import PACKAGE
from oodbench.config.cards import folder as shipped
from oodbench.errors import UserError
from oodbench.results.folder import read_folder
from oodbench.running import ray_node
from oodbench.running.ray import address_of

needs_ray = pytest.mark.skipif(
    importlib.util.find_spec("ray") is None, reason='Ray is an extra: pip install "oodbench[ray]"'
)
SHORT = ("--suite", "digits-c", "--preset", "smoke", "--methods", "msp,knn,scone")  # two share what one starts from
LONG = ("--suite", "digits-c", "--setting", "unseen-digits", "--methods", "erm,scone", "--set", "recipe.epochs=30")
LIMIT = 240  # seconds that nothing here should take


def test_every_form_of_an_address_names_a_cluster():
    forms = {"ray": "local", "ray:auto": "auto", "ray:h1:6379": "h1:6379", "ray://h1:10001": "ray://h1:10001"}
    assert {on: address_of(on) for on in forms} == forms
    with pytest.raises(UserError, match="names no cluster; write ray, ray:auto"):
        address_of("ray:")


def test_without_ray_one_line_says_how_to_install_it(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    assert_refused(smoke(tmp_path / "new", "msp", "--on", "ray"), 'pip install "oodbench[ray]"')
    assert not (tmp_path / "new").exists()


@needs_ray
@pytest.mark.parametrize(
    "options, says",
    [
        (["--on", "ray", "--keep-outputs"], "leave out --keep-outputs with --on ray"),
        (["--on", "ray://h1:10001", "--timeout", "9"], "leave out --timeout"),
        (["--on", "ray", "--device", "cuda:1"], "choose --device auto, cpu or cuda"),
        (["--on", "ray:"], "names no cluster"),
        (["--on", "rya"], "did you mean 'ray'?"),
    ],
)
def test_what_a_cluster_cannot_do_is_refused_before_anything_is_written(tmp_path, options, says):
    assert_refused(smoke(tmp_path / "new", "msp", *options), says)
    assert not (tmp_path / "new").exists()


@needs_ray
@pytest.mark.parametrize("form", ["ray:{}", "ray://{}"])
def test_an_address_where_nobody_listens_is_refused_at_once(tmp_path, form):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # and does not listen
        on = form.format(f"127.0.0.1:{taken.getsockname()[1]}")
        assert_refused(smoke(tmp_path, "msp", "--on", on), "cannot connect to Ray at", "refused", "ray start --head")


def test_a_checkpoint_goes_to_the_process_that_tries_again(tmp_path):
    before, own = tmp_path / "17" / "weights", tmp_path / "18"
    before.mkdir(parents=True)
    own.mkdir()
    for name in ("a.ckpt", "a.warmup.ckpt", "b.ckpt"):
        (before / name).write_text(name)
    ray_node._adopt_checkpoints("a", own)
    assert {each.name: each.read_text() for each in (own / "weights").iterdir()} == {
        "a.ckpt": "a.ckpt",
        "a.warmup.ckpt": "a.warmup.ckpt",
    }
    assert [each.name for each in before.iterdir()] == ["b.ckpt"]


def numbers(folder):
    """Metrics, digests of weights and every raw score, by file."""
    results, problems = read_folder(folder)
    assert not problems and all(result.status == "ok" for result in results)
    found = {}
    for result in results:
        found[str(result.path.relative_to(folder))] = (result.metrics, result.weights, result.key, arrays_of(result))
    return found


class Cluster:
    """Nodes of one CPU each beside a head of none, and commands that run in a folder that no node looks into."""

    def __init__(self, place, nodes=0):
        from ray.cluster_utils import Cluster

        self.place = place
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        head = {"num_cpus": 0, "ray_client_server_port": self.port, "include_dashboard": False}
        self.ray = Cluster(initialize_head=True, head_node_args=head)
        self.nodes = [self.ray.add_node(num_cpus=1) for _ in range(nodes)]

    @property
    def on(self):
        return ("--on", f"ray:{self.ray.address}")


@pytest.fixture(scope="module")
def temporary():
    """A folder for temporary files of nodes; its name is short, for Ray's sockets."""
    patch, folder = pytest.MonkeyPatch(), tempfile.mkdtemp(prefix="or", dir="/tmp")
    for name, value in {"TMPDIR": folder, "RAY_USAGE_STATS_ENABLED": "0", "OMP_NUM_THREADS": "1"}.items():
        patch.setenv(name, value)
    yield Path(folder)
    patch.undo()
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="module")
def two_nodes(temporary):
    cluster = Cluster(temporary, nodes=2)
    yield cluster
    cluster.ray.shutdown()


def start(place, *arguments):
    place.mkdir(exist_ok=True)
    command = [sys.executable, "-m", "oodbench", "run", *arguments, "--results", "results"]
    pipe = subprocess.PIPE
    # A shell has SIGINT ignored for jobs in the background, and their children inherit that.
    heeding = partial(signal.signal, signal.SIGINT, signal.SIG_DFL)
    return subprocess.Popen(command, cwd=place, stdout=pipe, stderr=pipe, text=True, preexec_fn=heeding)


def end(process):
    out, err = process.communicate(timeout=LIMIT)
    return Outcome(process.returncode, out, err)


def run(place, *arguments):
    return end(start(place, *arguments))


@pytest.fixture(scope="module")
def short(tmp_path_factory):
    """What every run of the short command must come to."""
    place = tmp_path_factory.mktemp("short")
    assert_done(run(place, *SHORT, "--workers", "1"))
    return numbers(place / "results")


@pytest.fixture(scope="module")
def long(tmp_path_factory):
    place = tmp_path_factory.mktemp("long")
    assert_done(run(place, *LONG))
    return numbers(place / "results")


def training_begun(temporary, process):
    """The folder of the worker process that has written a checkpoint."""
    until = time.monotonic() + LIMIT
    while time.monotonic() < until and process.poll() is None:
        for path in temporary.glob(f"{ray_node.FOLDER}*/*/weights/*.ckpt"):
            return path.parents[1]
        time.sleep(0.01)
    raise AssertionError(f"nothing trained: {end(process)}")


def left_over(temporary):
    return [*temporary.glob(f"{ray_node.FOLDER}*")]


@needs_ray
@pytest.mark.slow
def test_a_cluster_of_this_machine_gives_the_same_bits_and_ends_with_the_run(temporary, short, tmp_path):
    outcome = run(tmp_path, *SHORT, "--on", "ray", "--workers", "1")
    assert_done(outcome)
    assert outcome.out.startswith("digits-c") or outcome.out.lstrip().startswith("OOD"), outcome.out
    assert numbers(tmp_path / "results") == short and not left_over(temporary)


@needs_ray
@pytest.mark.slow
def test_two_nodes_without_a_shared_disk_give_the_same_bits_and_stay(two_nodes, temporary, short, tmp_path):
    assert_done(run(tmp_path, *SHORT, *two_nodes.on))
    assert numbers(tmp_path / "results") == short and not left_over(temporary)
    assert_done(run(tmp_path / "client", *SHORT, "--on", f"ray://127.0.0.1:{two_nodes.port}"))
    assert numbers(tmp_path / "client" / "results") == short and not left_over(temporary)


PLUGIN = '''
"""A scorer of one's own, which says where its file is."""
import os
from dataclasses import dataclass
import oodbench


@dataclass
class Mine(oodbench.Scorer):
    """The largest logit, negated."""

    def score(self, out: oodbench.Outputs):
        with open(os.path.join(os.environ["TMPDIR"], "seen"), "a") as seen:
            seen.write(__file__ + "\\n")
        return -out.logits.amax(dim=-1)
'''


@needs_ray
@pytest.mark.slow
def test_a_plugin_and_a_suite_travel_as_bytes(two_nodes, temporary, tmp_path):
    mine = ("--suite", "own.yaml", "--preset", "smoke", "--plugin", "mine.py", "--methods", "mine")
    found = []
    for place, more in ((tmp_path / "here", ()), (tmp_path / "there", two_nodes.on)):
        place.mkdir()
        (place / "mine.py").write_text(PLUGIN)
        text = (shipped("benchmarks") / "digits-c.yaml").read_text()
        (place / "own.yaml").write_text(text.replace("severity: 3", "severity: 2"))
        assert_done(run(place, *mine, *more))
        found.append(numbers(place / "results"))
    assert found[0] == found[1] and found[0]
    assert any(ray_node.FOLDER in line for line in (temporary / "seen").read_text().splitlines())


@needs_ray
@pytest.mark.slow
def test_a_worker_killed_while_training_is_replaced_and_numbers_stay(two_nodes, temporary, long, tmp_path):
    process = start(tmp_path, *LONG, *two_nodes.on)
    os.kill(int(training_begun(temporary, process).name), signal.SIGKILL)
    outcome = end(process)
    assert "raylet" not in outcome.out + outcome.err
    assert "erm, seed 0: its process was killed (out of memory?), or its node was lost; tried again" in outcome.err
    assert_done(outcome)
    assert numbers(tmp_path / "results") == long and not left_over(temporary)


@needs_ray
@pytest.mark.slow
def test_ctrl_c_ends_remote_tasks_and_the_same_command_goes_on(two_nodes, temporary, long, tmp_path):
    process = start(tmp_path, *LONG, *two_nodes.on)
    worker = int(training_begun(temporary, process).name)
    process.send_signal(signal.SIGINT)
    outcome = end(process)
    assert outcome.status == 130 and "2 of 2 cells are left" in outcome.err and "Traceback" not in outcome.err
    assert not ray_node._is_alive(worker) and not left_over(temporary)
    assert_done(run(tmp_path, *LONG, *two_nodes.on))
    assert numbers(tmp_path / "results") == long


@needs_ray
@pytest.mark.slow
def test_a_driver_that_is_killed_leaves_no_process_behind(temporary, long, tmp_path):
    process = start(tmp_path, *LONG, "--on", "ray", "--workers", "1")
    folder = training_begun(temporary, process)
    process.kill()
    until = time.monotonic() + 30
    while ray_node._is_alive(int(folder.name)) and time.monotonic() < until:
        time.sleep(0.1)
    assert not ray_node._is_alive(int(folder.name))
    end(process)
    shutil.rmtree(folder.parent)
    assert_done(run(tmp_path, *LONG, "--on", "ray", "--workers", "1"))
    assert numbers(tmp_path / "results") == long


@needs_ray
@pytest.mark.slow
def test_what_is_lost_with_its_node_is_done_on_another(temporary, long, tmp_path):
    cluster = Cluster(temporary, nodes=2)
    try:
        process = start(tmp_path, *LONG, *cluster.on)
        where = training_begun(temporary, process).parent
        (node,) = [node for node in cluster.nodes if where.name.endswith(node.node_id[:12])]
        cluster.ray.remove_node(node, allow_graceful=False)
        outcome = end(process)
        assert "tried again" in outcome.err
        assert_done(outcome)
        assert numbers(tmp_path / "results") == long
    finally:
        cluster.ray.shutdown()
        shutil.rmtree(where)


@needs_ray
@pytest.mark.slow
def test_a_node_with_other_code_is_refused_in_one_line(temporary, tmp_path, monkeypatch):
    other = tmp_path / "other" / "oodbench"
    shutil.copytree(PACKAGE, other)
    for name in ("methods", "benchmarks"):
        shutil.copytree(shipped(name), other / name, dirs_exist_ok=True)
    knn = (other / "methods" / "knn.py").read_text()
    (other / "methods" / "knn.py").write_text(knn.replace("k: int = 50", "k: int = 51"))
    assert "51" in (other / "methods" / "knn.py").read_text()
    cluster = Cluster(temporary)
    try:
        with monkeypatch.context() as patch:
            patch.setenv("PYTHONPATH", str(other.parent))
            cluster.ray.add_node(num_cpus=1)
        outcome = run(tmp_path / "run", *SHORT, *cluster.on)
        assert_refused(outcome, f"node {socket.gethostname()}: this machine has other code: keys differ")
        assert complaints(outcome) and not [*(tmp_path / "run" / "results").rglob("*.safetensors")]
    finally:
        cluster.ray.shutdown()
