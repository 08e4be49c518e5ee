"""`oodbench check-method`: the contract tests of the harness on a method of the user's."""

import argparse
import sys


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", metavar="FILE.py", help="a file with one class derived from Trainer or Scorer")


def main(given: argparse.Namespace) -> int:
    import torch

    from oodbench.testing import Violation, checks, hints

    torch.set_num_threads(1)  # tensors this small only lose by sharing
    try:
        for sentence in checks(given.file):
            print(f"ok: {sentence}", flush=True)
        for hint in hints(given.file):
            print(f"note: {hint}")
    except Violation as violation:
        if given.debug:
            raise
        print(f"oodbench: {' '.join(str(violation).split())}", file=sys.stderr)
        return 1
    return 0
