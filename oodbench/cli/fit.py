"""`oodbench fit`: a network, a scorer and images to a detector in a folder."""

import argparse
from pathlib import Path

from oodbench.cli import given_options, progress
from oodbench.cli.defaults import help_of
from oodbench.errors import UserError
from oodbench.files import check_writable

BEST = "best"
KEEP = 0.95


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Which network and which images is said as for `evaluate`."""
    detector = parser.add_argument_group(
        "the detector",
        "best is the scorer with the highest mean AUROC over the semantic sets, and the cheapest of those within one "
        "standard error.",
    )
    detector.add_argument(
        "--scorer", default=BEST, metavar="SCORER", help="one of `oodbench list methods`, or best (default: best)"
    )
    detector.add_argument(
        "--keep",
        type=float,
        default=KEEP,
        metavar="SHARE",
        help=f"share of held-out ID images below the threshold (default: {KEEP})",
    )
    detector.add_argument("--aim", metavar="AIM", help="detection, or both (the default if there are covariate images)")
    detector.add_argument("--out", type=Path, required=True, metavar="DIR", help="the folder of the detector")
    given_options.add_network(parser)
    given_options.add_images(parser)
    given_options.add_how(parser)
    detector.add_argument("--results", metavar="DIR", help=f"evaluated scores to reuse {help_of('results')}")


def main(given: argparse.Namespace) -> int:
    if given.model is None:  # `evaluate` could take a file of outputs in its place
        raise UserError("there is no network; give it with --model")
    asked = given_options.request_of(given)
    from oodbench.cli.detector_summary import summary
    from oodbench.learning.threshold import check_keep
    from oodbench.running.given.detector_files import check_place
    from oodbench.running.given.fit import fit

    check_keep(given.keep)  # what cannot end well is refused before anything is computed
    check_place(given.out)
    check_writable(given.out.absolute().parent)
    reporter = progress.reporter()
    fitted = fit(asked, given.scorer, given.keep, reporter, given.aim)
    fitted.detector.save(given.out)
    rule = None if fitted.best is None else fitted.best.rule
    reporter.note(summary(fitted.detector, [fitted.division], rule, given.out))
    return 0
