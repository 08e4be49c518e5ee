"""`oodbench run --on slurm:…`: the scripts, what was submitted, and how to go on from there."""

import shlex

from oodbench.running import slurm
from oodbench.running.plan import Plan
from oodbench.running.slurm import check as check


def submit(planned: Plan, dry_run: bool) -> int:
    """Print the scripts and submit them; `dry_run` prints them alone."""
    submission = slurm.prepared(planned)
    numbers = {} if dry_run else slurm.submit(planned, submission)
    for job in submission.jobs:
        print(f"{job.path}:\n{job.text}")
    if dry_run:
        return 0
    folder, ids = shlex.quote(str(planned.folder)), [*numbers.values()]
    for job in submission.jobs:
        after = f", after {ids[0]}" if len(ids) > 1 and job is submission.jobs[-1] else ""
        print(f"submitted {job.stage} as job {numbers[job.stage]}, an array of {job.tasks}{after}")
    print(f"follow:  oodbench status {folder}   and   squeue --jobs={','.join(ids)}")
    print("repeat:  the same command, once the jobs have ended; what is done is not done again")
    print(f"cancel:  scancel {' '.join(ids)}")
    print(f"results: oodbench table {folder}")
    return 0
