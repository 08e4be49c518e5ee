"""What the commands' parsers share."""

import argparse
import sys
from collections.abc import Callable, Iterable
from typing import NoReturn

from oodbench.errors import UserError, unknown


class Parser(argparse.ArgumentParser):
    """Wrong usage is an error like any other: one line."""

    def error(self, message: str) -> NoReturn:
        raise UserError(f"{message}; see '{self.prog} --help'")

    def exit(self, status: int = 0, message: str | None = None) -> NoReturn:
        """After --help and --version, which must have come through."""
        sys.stdout.flush()
        super().exit(status, message)


def one_of(kind: str, known: Iterable[str]) -> Callable[[str], str]:
    """An argument that must be one of these names; unlike argparse's `choices` it answers with the nearest."""

    def check(name: str) -> str:
        if name not in known:
            raise unknown(kind, name, known)
        return name

    return check


def add_plugins(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--plugin", action="append", default=[], metavar="FILE.py", help="a file with a method of yours"
    )
