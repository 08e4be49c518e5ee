"""The options of `evaluate` and `fit` that say which network and which images."""

import argparse
import shlex
from typing import Any

from oodbench.cli.defaults import help_of
from oodbench.cli.parser import add_plugins
from oodbench.running.given.request import GivenRequest, given_request

DETECTOR = "detector"  # the folder in a command that is suggested


def add_network(parser: argparse.ArgumentParser) -> None:
    network = parser.add_argument_group(
        "the network",
        "FILE.py:FUNCTION runs that file, and the function returns an nn.Module. torchvision:NAME/WEIGHTS chooses "
        "among the weights of torchvision. The name of an installed network works too.",
    )
    network.add_argument(
        "--model",
        metavar="NETWORK",
        help="FILE.py:FUNCTION, or timm:, torchvision:, openood: or oodbench: and a NAME",
    )
    network.add_argument("--weights", metavar="FILE", help="safetensors, or a state dictionary or Lightning checkpoint")
    network.add_argument("--name", metavar="NAME", help="what results call the network (default: the model's name)")
    network.add_argument("--head", metavar="MODULE", help="the last linear layer, if it is not found automatically")
    network.add_argument(
        "--features",
        metavar="MODULE",
        help="the layer whose output is the features, if no linear layer is the head",
    )
    network.add_argument("--classes", metavar="FILE", help="the class names of the outputs in order, one a line")
    network.add_argument("--mean", metavar="MEAN", help="subtracted from pixels in [0, 1]: M, or M,M,M by channel")
    network.add_argument("--std", metavar="STD", help="divides the pixels after that: S, or S,S,S by channel")
    network.add_argument("--size", metavar="SIZE", help="of the images the network takes, in pixels: N or HxW")


def add_images(parser: argparse.ArgumentParser) -> None:
    images = parser.add_argument_group(
        "the images", "A SET is folder:PATH, of a folder or an image list, or a data set of `oodbench list datasets`."
    )
    images.add_argument("--suite", metavar="SUITE", help="a suite of `oodbench list suites`, or a YAML file")
    images.add_argument("--preset", metavar="PRESET", help="a preset of the suite")
    images.add_argument(
        "--setting", dest="settings", action="append", metavar="SETTING", help="a setting of the suite; repeatable"
    )
    images.add_argument(
        "--id", metavar="SET", help="instead of a suite: images of the network's classes, one folder each"
    )
    images.add_argument(
        "--train", metavar="SET", help="images that scorers are fitted on (default: train/ or 70 %% of --id)"
    )
    images.add_argument(
        "--covariate", action="append", metavar="SET", help="the same classes, looking different; repeatable"
    )
    images.add_argument(
        "--semantic",
        action="append",
        metavar="SET",
        help="images of no known class, or probes (noise); repeatable",
    )
    images.add_argument("--offline", action="store_true", help="do not download missing data")
    images.add_argument(
        "--available", action="store_true", help="leave out settings of the suite whose data is missing"
    )


def add_how(parser: argparse.ArgumentParser) -> None:
    how = parser.add_argument_group("how")
    how.add_argument(
        "--set", action="append", metavar="SCORER.KEY=VALUE", help="a hyperparameter of a scorer; repeatable"
    )
    add_plugins(how, "plugins", "scorer")
    how.add_argument("--device", metavar="DEVICE", help=f"auto, cpu, cuda or cuda:1 {help_of('device')}")
    how.add_argument("--cpu-threads", type=int, metavar="N", help="threads on a CPU (default: all cores)")
    how.add_argument("--half-bank", action="store_true", help="store training features in half precision")


def request_of(given: argparse.Namespace, **more: Any) -> GivenRequest:
    """What the options ask for."""
    names = {name for name in GivenRequest.__dataclass_fields__ if hasattr(given, name)}
    return given_request(**{name: getattr(given, name) for name in names} | more)


def fit_command(given: argparse.Namespace, scorer: str) -> str:
    """The command that makes a detector of the same network and images, with one scorer; to be copied."""
    parser = argparse.ArgumentParser(add_help=False)
    for add in (add_network, add_images, add_how):
        add(parser)
    words = ["oodbench", "fit"]
    for action in parser._actions:
        value = getattr(given, action.dest)
        values = value if isinstance(value, list) else [value]
        if action.dest == "set":  # which other scorers have no use for
            values = [each for each in value or () if each.startswith(f"{scorer}.")]
        for each in values:
            if each is not None and each is not False:
                words += [action.option_strings[0], *([] if each is True else [str(each)])]
    return shlex.join([*words, "--scorer", scorer, "--out", DETECTOR])
