"""The options of `evaluate` and `fit` that say which network and which images."""

import argparse
from typing import Any

from oodbench.running.given.request import GivenRequest, given_request

SETS = "folder:PATH or a data set of `oodbench list datasets`"


def add_network(parser: argparse.ArgumentParser) -> None:
    network = parser.add_argument_group("the network")
    network.add_argument(
        "--model",
        metavar="M",
        help="timm:NAME, torchvision:NAME[/WEIGHTS], oodbench:NAME, an installed network's name, or FILE.py:FUNCTION, "
        "which runs that file: its function returns an nn.Module",
    )
    network.add_argument(
        "--weights",
        metavar="FILE",
        help="its weights: safetensors, or a state dictionary or Lightning checkpoint of torch",
    )
    network.add_argument("--name", metavar="NAME", help="what results call it (default: the model's name)")
    network.add_argument("--head", metavar="MODULE", help="the last linear layer, where it is not found by itself")
    network.add_argument(
        "--classes",
        metavar="FILE",
        help="names of the network's outputs in their order, a line each, where folders are named so",
    )
    network.add_argument(
        "--mean", metavar="M[,M,M]", help="what is subtracted from pixels in [0, 1]: a number, or one for each channel"
    )
    network.add_argument("--std", metavar="S[,S,S]", help="what they are then divided by")
    network.add_argument("--size", metavar="N|HxW", help="of the images that it takes, in pixels")


def add_images(parser: argparse.ArgumentParser) -> None:
    images = parser.add_argument_group("the images")
    images.add_argument("--suite", metavar="S", help="a suite of `oodbench list suites`, or a YAML file")
    images.add_argument("--preset", metavar="P", help="a preset of the suite")
    images.add_argument(
        "--setting", dest="settings", action="append", metavar="SETTING", help="a setting of the suite; may be repeated"
    )
    images.add_argument(
        "--id",
        metavar="SET",
        help=f"in place of a suite: images of the network's classes, in a folder for each; {SETS}",
    )
    images.add_argument(
        "--train",
        metavar="SET",
        help="images that the network was trained on, to fit scorers on (default: train/ in --id, or else 70 %% of it)",
    )
    images.add_argument(
        "--covariate",
        action="append",
        metavar="SET",
        help="images of the same classes that look different; may be repeated",
    )
    images.add_argument(
        "--semantic",
        action="append",
        metavar="SET|probes",
        help="images of no known class; may be repeated; probes: noise and the like, which every machine has",
    )
    images.add_argument("--offline", action="store_true", help="do not fetch missing data")
    images.add_argument(
        "--available", action="store_true", help="leave out settings of the suite whose data is missing"
    )


def add_how(parser: argparse.ArgumentParser) -> None:
    how = parser.add_argument_group("how")
    how.add_argument("--set", action="append", metavar="SCORER.KEY=VALUE", help="a hyperparameter; may be repeated")
    how.add_argument(
        "--plugin",
        dest="plugins",
        action="append",
        metavar="FILE.py",
        help="a file with a scorer of yours; may be repeated",
    )
    how.add_argument("--device", help="auto (default), cpu, cuda, cuda:1")
    how.add_argument("--cpu-threads", type=int, metavar="N", help="threads on a CPU (default: all cores)")
    how.add_argument(
        "--half-bank",
        action="store_true",
        help="keep training features in half precision, for scorers that compare with them",
    )


def request_of(given: argparse.Namespace, **more: Any) -> GivenRequest:
    """What the options ask for."""
    names = {name for name in GivenRequest.__dataclass_fields__ if hasattr(given, name)}
    return given_request(**{name: getattr(given, name) for name in names} | more)
