"""`--on slurm`: the scripts, a stand-in for sbatch that runs them, and Slurm itself where it is installed."""

import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest
import yaml
from command_line import assert_done, assert_refused, oodbench, smoke
from contents import content

from oodbench.errors import UserError
from oodbench.running.slurm import options_of

# Runs every task of an array, one after the other, before it answers. The task named in `kill` is killed once, when it
# has said that it trains, and requeued if its script asks for that.
SBATCH = """#!{python}
import os, re, subprocess, sys, time
from pathlib import Path

home = Path({home!r})
*options, script = sys.argv[1:]
assert options[0] == "--parsable"
text = Path(script).read_text()
said = dict(re.findall(r"^#SBATCH --([a-z-]+)(?:=(.*))?$", text, re.M))
first, last = map(int, said["array"].split("-"))
number = len(list(home.glob("job*"))) + 7
(home / f"job{{number}}").write_text(" ".join([*options, Path(script).name]))
for task in range(first, last + 1):
    log = Path(said["output"].strip('"').replace("%A", str(number)).replace("%a", str(task)))
    environment = {{**os.environ, "SLURM_ARRAY_TASK_ID": str(task)}}
    kill = home / f"kill-{{said['job-name']}}-{{task}}"
    while True:
        with open(log, "ab" if said.get("open-mode") == "append" else "wb") as out:
            job = subprocess.Popen(["bash", script], stdout=out, stderr=out, env=environment)
        while kill.exists() and job.poll() is None:
            if "[1/" in log.read_text():
                job.kill()
                kill.rename(home / "killed")
            time.sleep(0.01)
        if job.wait() != -9 or "requeue" not in said:
            break
print(f"{{number}};cluster")
"""


@pytest.fixture
def sbatch(tmp_path, monkeypatch):
    """The folder of a stand-in, which is first on PATH."""
    home = tmp_path / "bin"
    home.mkdir()
    path = home / "sbatch"
    path.write_text(SBATCH.format(python=sys.executable, home=str(home)))
    path.chmod(0o755)
    monkeypatch.setenv("PATH", f"{home}{os.pathsep}{os.environ['PATH']}")
    return home


RUN = ("msp,scone", "--set", "recipe.epochs=8")


@pytest.mark.slow
def test_jobs_of_slurm_give_the_same_bits_also_when_a_task_is_killed_and_requeued(tmp_path, sbatch):
    assert_done(smoke(tmp_path / "plain", *RUN))
    (sbatch / "kill-oodbench-rest-1").touch()
    folder = tmp_path / "results"
    outcome = smoke(folder, *RUN, "--on", "slurm:partition=gpu,time=4:00:00", "--workers", "2")
    assert (outcome.status, outcome.err) == (0, "")
    assert (sbatch / "job7").read_text() == "--parsable parents.sh"
    assert (sbatch / "job8").read_text() == "--parsable --dependency=afterany:7 rest.sh"
    assert outcome.out.endswith(
        "submitted parents as job 7, an array of 1\n"
        "submitted rest as job 8, an array of 2, after 7\n"
        f"follow:  oodbench status {folder}   and   squeue --jobs=7,8\n"
        "repeat:  the same command, once the jobs have ended; what is done is not done again\n"
        "cancel:  scancel 7 8\n"
        f"results: oodbench table {folder}\n"
    )
    (home,) = (folder / ".slurm").iterdir()
    killed, other = ((home / f"rest-8_{task}.log").read_text() for task in (1, 2))
    assert (sbatch / "killed").exists() and killed.count("(shard 1/2, rest): ") == 2
    assert other.count("(shard 2/2, rest): ") == 1 and "is trained here" not in killed + other
    assert content(folder) == content(tmp_path / "plain")
    # The same command again submits nothing and shows the table.
    again = smoke(folder, *RUN, "--on", "slurm:partition=gpu", "--workers", "2")
    assert "nothing to do" in assert_done(again) and len(list(sbatch.glob("job*"))) == 2


def scripts(outcome):
    """What a dry run prints, by stage."""
    blocks = assert_done(outcome).split("\n\n")
    return {block.partition(":\n")[0].rpartition("/")[2]: block for block in blocks if "#!/bin/bash" in block}


def test_a_dry_run_prints_the_scripts_and_writes_nothing(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))  # no sbatch is needed
    on = ("--on", "slurm:partition=gpu,gres=gpu:1,time=4:00:00", "--workers", "16", "--dry-run")
    found = scripts(smoke(tmp_path / "r", "msp,scone", "--seeds", "0,1", *on))
    assert [*found] == ["parents.sh", "rest.sh"] and not (tmp_path / "r").exists()
    for line in ("--partition=gpu", "--gres=gpu:1", "--time=4:00:00", "--requeue", "--open-mode=append"):
        assert all(f"\n#SBATCH {line}\n" in text for text in found.values())
    assert "\n#SBATCH --array=1-2\n" in found["parents.sh"] and "\n#SBATCH --array=1-6\n" in found["rest.sh"]
    assert '--stage rest --shard "$SLURM_ARRAY_TASK_ID/6"' in found["rest.sh"]
    for text in found.values():
        subprocess.run(["/bin/bash", "-n"], input=text.partition(":\n")[2], text=True, check=True)


def test_where_nothing_starts_from_another_training_there_is_one_array(tmp_path, sbatch):
    found = scripts(smoke(tmp_path / "r", "msp,irm", "--on", "slurm", "--dry-run"))
    assert [*found] == ["rest.sh"] and "\n#SBATCH --array=1-2\n" in found["rest.sh"]


def test_tasks_work_with_the_files_as_they_were_submitted(tmp_path, sbatch, monkeypatch):
    """A plugin that is changed while jobs wait changes nothing, and so does a suite."""
    monkeypatch.chdir(tmp_path)
    plugin = tmp_path / "my_score.py"
    plugin.write_text(
        "from oodbench import Scorer\n\nclass MyScore(Scorer):\n"
        "    def score(self, outputs):\n        return -outputs.logits.max(dim=-1).values\n"
    )
    (sbatch / "sbatch").write_text("#!/bin/sh\necho 12\n")
    on = ("--plugin", "my_score.py", "--on", "slurm", "--workers", "1")
    assert_done(smoke(tmp_path / "r", "my-score", *on))
    plugin.write_text("this is no Python any more")
    (request,) = (tmp_path / "r" / ".slurm").glob("*/request.yaml")
    values = yaml.safe_load(request.read_text())
    assert values["results"] == str(tmp_path / "r") and values["plugins"] != ["my_score.py"]
    assert not {"on", "workers", "shard"} & {*values}
    assert_done(oodbench("run", "--request", request, "--shard", "1/1", "--stage", "rest"))
    assert len(content(tmp_path / "r")) == 2
    copied = tmp_path / "r" / ".slurm" / values["plugins"][0]
    copied.write_text(copied.read_text().replace("max", "min"))
    assert_refused(oodbench("run", "--request", request, "--shard", "1/1"), "keys differ from those of the plan")


def test_without_sbatch_one_line_says_so_and_names_the_other_way(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    outcome = smoke(tmp_path / "r", "msp", "--on", "slurm:partition=gpu")
    assert_refused(outcome, "there is no sbatch here; ", "split the work on any queue with --shard I/N (docs/scale.md)")
    assert not (tmp_path / "r").exists()


def test_what_sbatch_says_against_a_job_is_told_and_what_was_submitted_is_named(tmp_path, sbatch):
    refuse = "echo 'sbatch: error: invalid partition: gpu' >&2; exit 1"
    (sbatch / "sbatch").write_text(f"#!/bin/sh\n{refuse}\n")
    assert_refused(
        smoke(tmp_path / "r", "msp,scone", "--on", "slurm:partition=gpu"),
        "sbatch refused the job: sbatch: error: invalid partition: gpu",
    )
    assert not (tmp_path / "r" / "requests").exists()
    (sbatch / "sbatch").write_text(f'#!/bin/sh\ncase "$*" in *parents.sh) echo 12;; *) {refuse};; esac\n')
    assert_refused(
        smoke(tmp_path / "r", "msp,scone", "--on", "slurm:partition=gpu"),
        "invalid partition: gpu; cancel what was submitted with: scancel 12",
    )


def test_options_are_those_of_sbatch_and_a_comma_may_stand_in_a_value():
    on = "slurm:partition=gpu,nodelist=n1,n[2-4],gres=gpu:a100:1,mem-per-cpu=4G"
    assert options_of(on) == {
        "partition": "gpu",
        "nodelist": "n1,n[2-4]",
        "gres": "gpu:a100:1",
        "mem-per-cpu": "4G",
    }
    assert options_of("slurm") == options_of("slurm:") == {}


@pytest.mark.parametrize(
    "options",
    ["gpu", "=gpu", "partition=", "partition=a b", "time=1\n#SBATCH --uid=0", "a=$(id)", "a=`id`", "a=b;c", "a=b|c",
     "a=é", "Partition=gpu", "a=b#c", "a='b'", 'a="b"', "a=b\\c", "a=b&", "a=b>c", "-a=b", "a_b=c", ",", "a=b,,c=d\0"],
)  # fmt: skip
def test_what_is_no_option_of_sbatch_is_refused(options):
    with pytest.raises(UserError, match="is not an option of sbatch; write key=value without spaces") as error:
        options_of(f"slurm:{options}")
    assert "SBATCH" not in str(error.value).partition("' is not an option")[2]


@pytest.mark.parametrize("key", ["array", "dependency", "parsable", "wrap"])
def test_what_oodbench_sets_itself_is_refused(tmp_path, key):
    message = f"oodbench sets '{key}' itself; leave it out of --on slurm"
    assert_refused(smoke(tmp_path / "r", "msp", "--on", f"slurm:{key}=1"), message)


def test_slurm_with_a_shard_or_force_or_from_python_is_refused(tmp_path, sbatch):
    import oodbench as package

    for more in (["--shard", "1/2"], ["--force"]):
        assert_refused(smoke(tmp_path / "r", "msp", "--on", "slurm", *more), "leave out --shard and --force")
    with pytest.raises(
        UserError, match="can only be submitted from the command line; use: oodbench run --on slurm:OPTIONS"
    ):
        package.run(preset="smoke", methods="msp", results=tmp_path / "r", on="slurm")
    assert_refused(smoke(tmp_path / 'a"b', "msp", "--on", "slurm"), "choose a results folder with a plain name")


CONFIGURATION = """
ClusterName=one
SlurmctldHost={host}(127.0.0.1)
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={home}/munge.socket
SlurmctldPort={first_port}
SlurmdPort={second_port}
StateSaveLocation={home}/state
SlurmdSpoolDir={home}/spool
SlurmctldPidFile={home}/slurmctld.pid
SlurmdPidFile={home}/slurmd.pid
SlurmctldLogFile={home}/slurmctld.log
SlurmdLogFile={home}/slurmd.log
ProctrackType=proctrack/pgid
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
MpiDefault=none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
ReturnToService=2
SchedulerParameters=sched_interval=1
NodeName={host} NodeAddr=127.0.0.1 CPUs={cores} State=UNKNOWN
PartitionName=main Nodes={host} Default=YES MaxTime=INFINITE State=UP
"""


def free_ports():
    with socket.socket() as first, socket.socket() as second:
        first.bind(("127.0.0.1", 0))
        second.bind(("127.0.0.1", 0))
        return first.getsockname()[1], second.getsockname()[1]


def said(*command):
    return subprocess.run(command, capture_output=True, text=True, timeout=60).stdout


def wait_for(what, seconds=120):
    end = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < end, "Slurm took too long"
        time.sleep(0.2)


@pytest.fixture
def slurm(monkeypatch):
    """A Slurm of this one machine, gone afterwards."""
    programs = ("munged", "slurmctld", "slurmd", "sbatch")
    missing = [name for name in programs if shutil.which(name) is None]
    if missing or os.getuid() != 0:
        pytest.skip(f"needs root and Slurm (Debian: slurm-wlm, munge); missing: {', '.join(missing) or 'root'}")
    with tempfile.TemporaryDirectory(prefix="slurm-", dir="/tmp") as name:  # a socket has a short name
        home = Path(name)
        home.chmod(0o755)  # munge insists
        for folder in ("state", "spool"):
            (home / folder).mkdir()
        (home / "key").write_bytes(os.urandom(1024))
        (home / "key").chmod(0o400)
        host, (first, second) = socket.gethostname().partition(".")[0], free_ports()
        (home / "slurm.conf").write_text(
            CONFIGURATION.format(
                host=host, home=home, first_port=first, second_port=second, cores=len(os.sched_getaffinity(0))
            )
        )
        monkeypatch.setenv("SLURM_CONF", str(home / "slurm.conf"))
        munge = [f"--{each}={home}/munge.{each}" for each in ("socket", "pid-file", "log-file", "seed-file")]
        for command in (
            ["munged", "--force", f"--key-file={home}/key", *munge],
            ["slurmctld", "-f", home / "slurm.conf"],
            ["slurmd", "-f", home / "slurm.conf"],
        ):
            subprocess.run(command, check=True, capture_output=True, timeout=60)
        try:
            wait_for(lambda: "idle" in said("sinfo", "--noheader"), seconds=60)
            yield home
        finally:
            said("scancel", "--me")  # what a test that failed has left, of this Slurm
            wait_for(lambda: not said("squeue", "--noheader").strip(), seconds=60)
            for name in ("slurmd.pid", "slurmctld.pid", "munge.pid-file"):
                pid = int((home / name).read_text())
                os.kill(pid, signal.SIGTERM)
                wait_for(lambda pid=pid: not Path(f"/proc/{pid}").exists(), seconds=30)


@pytest.mark.slow
def test_slurm_itself_runs_the_jobs_and_a_requeued_one_ends_with_the_same_bits(tmp_path, slurm):
    longer = ("msp,scone", "--set", "recipe.epochs=40")
    assert_done(smoke(tmp_path / "plain", *longer))
    folder = tmp_path / "results"
    out = assert_done(smoke(folder, *longer, "--on", "slurm:cpus-per-task=1,time=10", "--workers", "2"))
    parents, rest = re.findall(r"as job (\d+)", out)
    assert f"submitted rest as job {rest}, an array of 2, after {parents}\n" in out
    assert f"Dependency=afterany:{parents}" in said("scontrol", "show", "job", rest)
    (home,) = (folder / ".slurm").iterdir()
    log = home / f"rest-{rest}_1.log"
    wait_for(lambda: log.exists() and "[1/" in log.read_text())
    subprocess.run(["scontrol", "requeue", f"{rest}_1"], check=True)
    wait_for(lambda: not said("squeue", "--noheader").strip(), seconds=400)
    assert log.read_text().count("(shard 1/2, rest): ") == 2
    assert content(folder) == content(tmp_path / "plain")
    assert "4 done, 0 failed, 0 left; trainings: 0 running, 0 interrupted" in assert_done(oodbench("status", folder))
