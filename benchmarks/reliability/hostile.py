"""Hostile plugins: the table of deeds, and the source of a trainer or a scorer that does one of them, or several.

Moments of a scorer are `fit` (with `train` and `validation`), `score` (with `out` and the `values` it returns) and
`rehearsal` (as `fit`, but on the few images before anything trains). Those of a trainer are `extend` (with `model`),
`before`, `epoch` and `after` (with `model`, `data` and `loop`) and `loss` (with `model`, `batch`, `self.loop` and the
`value` it returns). `import`, `init` and `del` are moments of either.
"""

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

TABLE = Path(__file__).with_name("deeds.txt")
NETWORK = "changes the network"
KILLS = "ends the process"  # what no code of the same process can prevent
SCORER = ("fit", "score", "rehearsal")
TRAINER = ("extend", "before", "epoch", "after", "loss")
EITHER = ("import", "init", "del")


@dataclass(frozen=True)
class Deed:
    """A line of the table."""

    kind: str
    moment: str
    code: str

    def __str__(self) -> str:
        return f"{self.moment}: {self.code}"


@dataclass(frozen=True)
class Plugin:
    """A file that does some deeds."""

    deeds: tuple[Deed, ...]

    @property
    def name(self) -> str:
        return ", then ".join(map(str, self.deeds))

    @property
    def kind(self) -> str:
        return self.deeds[0].kind if len(self.deeds) == 1 else "two of these"

    @property
    def trains(self) -> bool:
        """A trainer; what suits both is one or the other, by its text."""
        moments = {deed.moment for deed in self.deeds}
        if moments & {*TRAINER, *SCORER}:
            return bool(moments & {*TRAINER})
        return len(self.name) % 2 == 0

    @property
    def kills(self) -> bool:
        return any(deed.kind == KILLS for deed in self.deeds)

    def source(self) -> str:
        return COMMON.replace("IMPORT", self._at("import", "")) + self._filled(A_TRAINER if self.trains else A_SCORER)

    def _filled(self, template: str) -> str:
        for moment in (*EITHER, *(TRAINER if self.trains else SCORER)):
            template = template.replace(f"AT_{moment.upper()}", self._at(moment, " " * 8))
        return template

    def _at(self, moment: str, indent: str) -> str:
        lines = [deed.code for deed in self.deeds if deed.moment == moment]
        if moment in ("fit", "score"):  # a rehearsal is to see nothing of it
            rows = "len(train.logits) > 64" if moment == "fit" else "len(out.logits) > 2"
            lines = [f"if {rows}:", *(f"    {line}" for line in lines)] if lines else []
        return f"\n{indent}".join(lines or ["pass"])


def table() -> list[Deed]:
    kind, deeds = "", []
    for line in TABLE.read_text(encoding="utf-8").splitlines():
        if line.startswith("# "):  # the last before the deeds names their kind
            kind = line[2:]
        elif line:
            moment, code = line.split(maxsplit=1)
            deeds.append(Deed(kind, moment, code))
    return deeds


def plugins(count: int, seed: int) -> Iterator[Plugin]:
    """So many: some of every kind, then all there are, then pairs of deeds that one plugin can do."""
    chance, deeds = random.Random(seed), table()
    kinds: dict[str, list[Deed]] = {}
    for deed in chance.sample(deeds, len(deeds)):
        kinds.setdefault(deed.kind, []).append(deed)
    in_turn = (each[i] for i in range(len(deeds)) for _, each in sorted(kinds.items()) if i < len(each))
    for _, deed in zip(range(count), in_turn, strict=False):
        yield Plugin((deed,))
    for _ in range(count - len(deeds)):
        yield _pair(deeds, chance)


def _pair(deeds: Sequence[Deed], chance: random.Random) -> Plugin:
    while True:
        plugin = Plugin(tuple(chance.sample(deeds, 2)))
        moments = {deed.moment for deed in plugin.deeds}
        if not (moments & {*TRAINER} and moments & {*SCORER}) and not plugin.kills:
            return plugin


COMMON = '''"""A hostile plugin."""

import asyncio, atexit, builtins, contextlib, copy, ctypes, decimal, gc, io, json, locale, os, random, resource, signal
import sys, tempfile, threading, time, warnings
from dataclasses import dataclass

import numpy as np
import threadpoolctl
import torch
import torch.nn.functional as F
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

from oodbench import Scorer, Trainer, UserError


def forever(act):
    def again():
        while True:
            with contextlib.suppress(Exception):
                act()
            time.sleep(0.001)

    threading.Thread(target=again, daemon=True).start()


def base_of(tensor):
    array = tensor.numpy()
    while isinstance(array.base, np.ndarray):
        array = array.base
    array.flags.writeable = True
    return array


def deep(levels):
    nested = []
    for _ in range(levels):
        nested = [nested]
    return nested


class Stop(BaseException):
    pass


class Unprintable(Exception):
    def __str__(self):
        raise ValueError("no words")

    __repr__ = __str__


class Odd(torch.Tensor):
    def __len__(self):
        return 7


class Doubling(TorchFunctionMode):
    def __torch_function__(self, function, types, given=(), named=None):
        result = function(*given, **(named or {}))
        return result * 2 if function is torch.Tensor.softmax else result


class Zeroing(TorchDispatchMode):
    def __torch_dispatch__(self, function, types, given=(), named=None):
        result = function(*given, **(named or {}))
        return result * 0 if "addmm" in str(function) else result


IMPORT
'''

A_SCORER = '''

@dataclass
class Hostile(Scorer):
    """Does what it should not."""

    needs = frozenset({"validation"})

    def __post_init__(self):
        AT_INIT

    def fit(self, train, validation):
        self.mean = train.features.mean(dim=0)
        AT_FIT
        AT_REHEARSAL

    def score(self, out):
        values = (out.features - self.mean).norm(dim=-1)
        AT_SCORE
        return values

    def __del__(self):
        AT_DEL
'''

A_TRAINER = '''

@dataclass
class Hostile(Trainer):
    """Does what it should not."""

    needs = frozenset({"wild"})

    def __post_init__(self):
        AT_INIT

    def extend(self, model):
        AT_EXTEND

    def loss(self, model, batch):
        value = F.cross_entropy(model(batch.x), batch.y)
        AT_LOSS
        return value

    def train(self, model, data, loop):
        self.loop = loop
        AT_BEFORE
        for _ in loop.epochs(model, data, self.loss):
            AT_EPOCH
        AT_AFTER

    def __del__(self):
        AT_DEL
'''
