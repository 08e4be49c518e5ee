"""Results in, sentences out: where a cell was run on several machines or by several versions, whose number is shown."""

from collections import Counter
from collections.abc import Sequence

from oodbench.results.result import Result


def replaced(results: Sequence[Result]) -> tuple[str, ...]:
    """For results of one suite, oldest first: tables show the last of each configuration and seed."""
    newest = {(result.variant, result.seed): result for result in results}
    pairs = Counter(
        (_origin(newest[result.variant, result.seed]), _origin(result))
        for result in results
        if result is not newest[result.variant, result.seed]
    )
    return tuple(
        f"{count} {'cell was' if count == 1 else 'cells were'} run twice: the table shows the result of {shown}, not "
        f"that of {other}."
        for (shown, other), count in pairs.items()
        if shown != other
    )


def _origin(result: Result) -> str:
    host = result.machine.get("host") or "an unnamed machine"
    words = [
        result.device,
        *(f"{name} {result.versions[name]}" for name in ("oodbench", "torch") if name in result.versions),
    ]
    if result.commit is not None:
        words.append(f"commit {result.commit[:8]}{'+' if result.commit.endswith('+') else ''}")
    return f"{host} ({', '.join(words)})"
