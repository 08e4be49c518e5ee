"""A plan in, two job arrays of Slurm out: trainings that others start from, then all the rest. No torch, no library.

An array task is `oodbench run --shard`, and so the driver of its share; the results folder must be on a disk that all
nodes share. What the request names is copied beside the scripts, and the keys of its cells are written down: a task
whose code or data would give other numbers refuses to run.
"""

import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from oodbench import digests
from oodbench.errors import UserError, shortened
from oodbench.files import write_text
from oodbench.running.order import with_copies
from oodbench.running.plan import Plan, plan
from oodbench.running.request import HOW, Request, as_values, remember, save
from oodbench.running.shards import PARENTS, REST, parents_of

FOLDER = ".slurm"  # inside the results folder
WORKERS = 8  # array tasks at most, if the user does not say how many
OWN = ("array", "dependency", "parsable", "wrap", "test-only")  # options that are not the user's to set
KEY, VALUE = re.compile(r"[a-z][a-z0-9-]*"), re.compile(r"[\w.,:/@%+=\[\]-]+", re.ASCII)


@dataclass(frozen=True)
class Job:
    """An array of tasks and its script."""

    stage: str
    tasks: int
    path: Path
    text: str


@dataclass(frozen=True)
class Submission:
    """What is to be submitted, one after the other."""

    jobs: tuple[Job, ...]
    asked: Request  # of every task, but for its shard and stage
    request: Path


def options_of(on: str) -> dict[str, str]:
    """`slurm:partition=gpu,gres=gpu:1` as options of sbatch; what has no equals sign belongs to the value before it."""
    options: dict[str, str] = {}
    for word in re.split(r",(?=[^,]*=)", on.partition(":")[2]):
        key, equals, value = word.partition("=")
        if not word and not options:
            continue
        if not equals or not KEY.fullmatch(key) or not VALUE.fullmatch(value):
            raise UserError(
                f"'{shortened(word)}' is not an option of sbatch; write key=value without spaces and shell characters, "
                "as in --on slurm:partition=gpu,gres=gpu:1,time=4:00:00"
            )
        if key in OWN:
            raise UserError(f"oodbench sets '{key}' itself; leave it out of --on slurm")
        options[key] = value
    return options


def prepared(planned: Plan) -> Submission:
    """The scripts for a plan, not yet written."""
    asked = planned.request
    options = options_of(asked.on or "")
    home = asked.folder.absolute()
    if re.search(r'["\\%\n$`]', str(home)):
        raise UserError(f"Slurm cannot write logs into '{home}'; choose a results folder with a plain name")
    name = f"{planned.suite.label}-{digests.of_values([as_values(asked), planned.keys])[:8]}"
    folder = home / FOLDER / name
    fixed = {each: getattr(Request(), each) for each in HOW - {"device", "timeout", "per_device"}}
    task = replace(asked, **{**fixed, "results": str(home), "keys": planned.keys})
    most = asked.workers or WORKERS
    trees = {each.root.key for each in parents_of(planned.cells).values()}
    counts = {PARENTS: min(most, len(trees)), REST: min(most, len({cell.training.key for cell in planned.cells}))}
    request = folder / "request.yaml"
    jobs = [
        Job(stage, count, folder / f"{stage}.sh", _script(stage, count, request, options))
        for stage, count in counts.items()
        if count
    ]
    return Submission(tuple(jobs), task, request)


def _script(stage: str, tasks: int, request: Path, options: Mapping[str, str]) -> str:
    ours = {
        "job-name": f"oodbench-{stage}",
        "output": f'"{request.parent / stage}-%A_%a.log"',
        "open-mode": "append",  # what was said before a task was requeued stays
    }
    lines = [f"#SBATCH --{key}={value}" for key, value in {**ours, **options}.items()]
    command = [sys.executable, "-m", "oodbench", "run", "--request", str(request), "--stage", stage, "--shard"]
    return "\n".join(
        [
            "#!/bin/bash",
            f"#SBATCH --array=1-{tasks}",
            "#SBATCH --requeue",
            *lines,
            f"cd {shlex.quote(str(Path.cwd()))} || exit 1",
            f'exec {shlex.join(command)} "$SLURM_ARRAY_TASK_ID/{tasks}"',
            "",
        ]
    )


def check(asked: Request) -> None:
    """Before anything is fetched or planned."""
    options_of(asked.on or "")
    if shutil.which("sbatch") is None:
        raise UserError(
            "there is no sbatch here; submit where Slurm is installed, or split the work on any queue with "
            "--shard I/N (docs/scale.md)"
        )


def submit(planned: Plan, submission: Submission) -> dict[str, str]:
    """Write and submit the scripts; the numbers of the jobs, by stage."""
    _write(planned, submission)
    numbers: dict[str, str] = {}
    for job in submission.jobs:
        after = [f"--dependency=afterany:{number}" for number in numbers.values()]
        numbers[job.stage] = _sbatch([*after, str(job.path)], numbers)
    remember(planned.request)
    return numbers


def _write(planned: Plan, submission: Submission) -> None:
    task = with_copies(planned, submission.asked, submission.request.parent / "files")
    plan(task)  # refuses if the copies gave other keys
    save([task], submission.request)
    for job in submission.jobs:
        write_text(job.path, job.text)


def _sbatch(arguments: list[str], before: Mapping[str, str]) -> str:
    cancel = f"; cancel what was submitted with: scancel {' '.join(before.values())}" if before else ""
    try:
        done = subprocess.run(["sbatch", "--parsable", *arguments], capture_output=True, text=True, timeout=120)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise UserError(f"sbatch cannot be run ({shortened(str(error))}){cancel}") from None
    number = done.stdout.strip().partition(";")[0]  # with the name of a cluster, where there are several
    if done.returncode or not number.isdigit():
        said = " ".join((done.stderr or done.stdout).split())
        raise UserError(f"sbatch refused the job: {shortened(said)}{cancel}")
    return number
