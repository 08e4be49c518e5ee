"""Speed of `oodbench predict` on image files, beside a bare loop over the same files; and its memory.

    python benchmarks/speed/predict.py

Both sides decode 640 JPEG files of 64x64 to 32x32 with the same decoder in the same threads, and pass them through
WRN-40-2. The bare loop does nothing else: batches of 64, decoded while the ones before are passed, logits kept. Ours
also scores, compares with the threshold and the ID scores, and writes lines of CSV. CPU time, torch in one thread.
The memory is that of 100 times as many files through a small network, read from a list.
"""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

import contextlib
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image
from subject import images, network, scorers
from timing import Row, least, main, memory
from torch import Tensor

from oodbench.cli.predict import FORMATS
from oodbench.data.decoder import in_threads
from oodbench.data.preprocessing import Preprocessing
from oodbench.learning.networks import Classifier
from oodbench.learning.rows import ahead
from oodbench.running.given.detector import Detector
from oodbench.running.given.fitting import fit_detector, network_card
from oodbench.running.given.predicting import BATCH, decode_prepared, predict

TURNS = 3
PREPROCESSING = Preprocessing(mean=(0.5,) * 3, std=(0.25,) * 3, size=(32, 32), resize=32)


def files(folder: Path, count: int) -> list[str]:
    rng = np.random.default_rng(0)
    for i in range(count):
        coarse = Image.fromarray(rng.integers(0, 256, (8, 8, 3), dtype=np.uint8))
        coarse.resize((64, 64), Image.Resampling.BICUBIC).save(folder / f"{i:05}.jpg", quality=90)
    return sorted(map(str, folder.iterdir()))


def detector(name: str, model: Classifier) -> Detector:
    train, held_out = images(100, seed=1), images(100, seed=2)
    card = network_card(model, "noise", None, train)
    (scorer,) = scorers(name)
    return fit_detector(model, card, PREPROCESSING, scorer, train=train, validation=held_out, id=held_out)


def with_bank(fitted: Detector, rows: int) -> Detector:
    """As if it had been fitted on so many training images, whose pass would take minutes."""
    scorer: Any = fitted.learned.scorer
    scorer.bank = torch.rand(rows, fitted.model.head.in_features, generator=torch.Generator().manual_seed(0))
    return fitted


def ours(fitted: Detector, paths: Iterable[str]) -> None:
    with open(os.devnull, "w") as nowhere, contextlib.redirect_stdout(nowhere):
        write = FORMATS["csv"](fitted.classes)
        for some in predict(fitted, paths):
            for each in some:
                write(each)


def bare(model: Classifier, paths: Iterable[str]) -> None:
    def decoded(path: str) -> np.ndarray:
        return decode_prepared(Path(path), PREPROCESSING, (3, 32, 32))

    def batches(left: Iterator[str]) -> Iterator[Tensor]:
        while some := list(islice(left, BATCH)):
            yield torch.from_numpy(np.stack(list(in_threads(decoded, some))))

    logits = []
    with torch.inference_mode():
        for batch in ahead(batches(iter(paths))):
            for rows in batch.split(32):  # which suits a CPU
                x = ((rows.float() / 255 - model.mean) / model.std).contiguous(memory_format=torch.channels_last)
                logits.append(model.head(model.body(x)))
    torch.cat(logits)


def growth(paths: list[str], times: int) -> float:
    """Megabytes that this process grows by, from the first pass over the files to the last of so many."""
    fitted = detector("energy", network("small-cnn"))
    ours(fitted, paths)
    before = memory("VmRSS")
    ours(fitted, (path for _ in range(times) for path in paths))
    return memory("VmRSS") - before


def rows(quick: bool) -> Iterator[Row]:
    count, times = (64, 2) if quick else (640, 100)
    model = network("wrn")
    fitted = {
        "energy": detector("energy", model),
        "knn, 5,000 training rows": with_bank(detector("knn", model), 5_000),
        "knn, 50,000 training rows": with_bank(detector("knn", model), 50_000),
    }
    with tempfile.TemporaryDirectory() as folder:
        paths = files(Path(folder), count)
        sides: dict[str, Callable[[], object]] = {name: partial(ours, each, paths) for name, each in fitted.items()}
        spent = least({"bare": partial(bare, model, paths), **sides}, 1 if quick else TURNS)
        for name, aim in zip(fitted, (0.95, 0.95, None), strict=True):  # the last costs what its distances cost
            claim = f"speed of predict ({name}) : a bare loop over the same files"
            yield Row(claim, spent["bare"] / spent[name], aim, at_least=True)
        grown = growth(paths, times)
        yield Row(f"memory growth of predict from {count:,} to {count * times:,} images", grown, 16, "MB")


if __name__ == "__main__":
    sys.exit(main(rows, __doc__))
