"""Do `table`, `compare` and `check` still print the same characters? Writes what they print, a file for each command.

    python benchmarks/fidelity/printed.py results/reference before [SUITE …]
    (change the results, or the code that prints them)
    python benchmarks/fidelity/printed.py results/reference after [SUITE …]
    diff -r before after

Every suite in three formats, every layout of a paper, and the comparisons with the papers and with the demo.
"""

import contextlib
import io
import sys
from pathlib import Path

from oodbench.cli import main

FORMATS = ("text", "latex", "json")
LAYOUTS = ("paper", "aha", "domainbed", "dul", "graph-spectral", "medix", "scone")
ALL_METRICS = (
    "covariate_acc,id_acc,fpr95,auroc,aupr_in,aupr_out,fpr95_ood_positive,auroc_full,fpr95_full,covariate_flagged,"
    "accepted_acc,id_ece,covariate_ece"
)


def commands(results: Path, suites: list[str]) -> dict[str, list[str]]:
    """What to call, by the name of the file that takes what it prints."""
    calls = {f"layout-{name}": ["table", str(results), "--layout", name] for name in LAYOUTS}
    for suite in suites:
        folder = str(results / suite)
        for form in FORMATS:
            calls[f"{suite}-table-{form}"] = ["table", folder, "--format", form]
        calls[f"{suite}-table-all"] = ["table", folder, "--columns", ALL_METRICS, "--format", "csv"]
        calls[f"{suite}-table-average"] = ["table", folder, "--average", "--sort", "fpr95"]
        calls[f"{suite}-compare"] = ["compare", folder, "--format", "text"]
        calls[f"{suite}-compare-json"] = ["compare", folder, "--format", "json"]
        calls[f"{suite}-check-paper"] = ["check", folder, "--against", "paper"]
        calls[f"{suite}-status"] = ["status", folder]
    calls["check-demo"] = ["check", "results/demo", "--against", str(results)]
    calls["check-itself"] = ["check", str(results), "--against", str(results), "--same-machine"]
    return calls


if __name__ == "__main__":
    results, out = Path(sys.argv[1]), Path(sys.argv[2])
    out.mkdir(parents=True)
    suites = sys.argv[3:] or sorted(each.name for each in results.iterdir() if each.is_dir())
    for name, arguments in commands(results, suites).items():
        said = io.StringIO()
        with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
            status = main(arguments)
        (out / f"{name}.txt").write_text(f"$ oodbench {' '.join(arguments)}\n{said.getvalue()}\nstatus {status}\n")
