"""How long something takes, in words."""

from oodbench.running.costs import durations
from oodbench.running.plan import Plan


def duration(seconds: float) -> str:
    if seconds < 1:
        return "under a second"
    if seconds < 120:
        return f"about {seconds:.0f} s"
    if seconds < 7200:
        return f"about {seconds / 60:.0f} min"
    hours = seconds / 3600
    if hours < 48:
        return f"about {hours:.1f} h" if hours < 10 else f"about {hours:.0f} h"
    return f"about {hours / 24:.0f} days"


def time_of(planned: Plan) -> str:
    """How long a plan takes, in words; nothing where nobody knows."""
    said, words = durations(planned), []
    for kind, is_measured in (("measured", True), ("estimated", False)):
        each = [f"{duration(one.seconds)} on {one.where}" for one in said if one.is_measured == is_measured]
        if each:
            words.append(f"{', '.join([each[0], *(one.removeprefix('about ') for one in each[1:])])} ({kind})")
    return "; ".join(words)
