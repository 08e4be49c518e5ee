"""CPU time of the 19 corruptions of 32x32 images, beside the package imagecorruptions, on one core.

    python -m venv peer && peer/bin/pip install imagecorruptions==1.1.2 opencv-python-headless scikit-image
    python benchmarks/speed/corruptions.py --peer peer/bin/python

The peer runs its own ImageNet-C constants, the only ones it has, on the same images. Two of its calls name an argument
and a type that newer libraries have dropped; both are given back to it here, otherwise three of its corruptions fail.
Both sides take turns, and the fastest of the turns counts. Without a peer, the plain definitions in tests/ stand in:
they are written to be read, so that ratio says nothing about other packages. Ends with status 1 if an aim is missed.
"""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

import argparse
import json
import subprocess
import sys
import tempfile
import time
from importlib.util import find_spec
from pathlib import Path

import numpy as np
from sklearn.datasets import load_sample_image

from oodbench.corruptions.cifar_c import KINDS, frost_photographs
from oodbench.errors import UserError

TOTAL, WITHOUT = 25, 10  # times as fast as the peer: all 19, and without the two that are slowest there
SLOWEST = {"glass_blur", "frost"}
PEER = """
import json, sys, time, warnings
from pathlib import Path
warnings.filterwarnings("ignore")
import cv2, numpy as np, skimage.filters
np.float_ = np.float64
from imagecorruptions import corrupt, corruptions as peer
def gaussian(image, sigma, multichannel=False, **options):
    return skimage.filters.gaussian(image, sigma, channel_axis=-1 if multichannel else None, **options)
peer.gaussian = gaussian
cv2.setNumThreads(1)
images, spent = np.load(sys.argv[1]).transpose(0, 2, 3, 1), {}
for name in sys.argv[2:]:
    corrupt(images[0], 1, name)
    start = time.process_time()
    for image in images:
        for severity in (1, 2, 3, 4, 5):
            corrupt(image, severity, name)
    spent[name] = (time.process_time() - start) / len(images) / 5
print(json.dumps({"folder": str(Path(peer.__file__).parent), "seconds": spent}))
"""


def patches(count: int) -> np.ndarray:
    """Parts of two photographs."""
    rng = np.random.default_rng(0)
    photos = [load_sample_image(name) for name in ("china.jpg", "flower.jpg")]
    corners = [(int(rng.integers(427 - 32)), int(rng.integers(640 - 32))) for _ in range(count)]
    found = [photos[i % 2][y : y + 32, x : x + 32] for i, (y, x) in enumerate(corners)]
    return np.stack(found).transpose(0, 3, 1, 2).copy()


def ours(images: np.ndarray, names: list[str]) -> dict[str, float]:
    spent, rows = {}, np.arange(len(images))
    for name in names:
        start = time.process_time()
        for severity in (1, 2, 3, 4, 5):
            KINDS[name](images, severity, rows)
        spent[name] = (time.process_time() - start) / len(images) / 5
    return spent


def peers(python: str, images: np.ndarray, names: list[str]) -> tuple[dict[str, float], str]:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "images.npy"
        np.save(file, images)
        command = [python, "-c", PEER, str(file), *names]
        answer = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    return answer["seconds"], answer["folder"]


def plain(images: np.ndarray, names: list[str]) -> dict[str, float]:
    sys.path.insert(0, str(Path(__file__).parents[2] / "tests"))
    import test_cifar_c as tests

    os.environ.setdefault("OODBENCH_DATA", str(frost_photographs()[0].parents[1]))
    spent = {}
    for name in names:
        start = time.process_time()
        for severity in (1, 2, 3, 4, 5):
            draws = KINDS[name].draws(np.arange(len(images)), severity, 32)
            for i, image in enumerate(images.transpose(0, 2, 3, 1)):
                getattr(tests, name)(image, tests.CONSTANTS_32[name][severity - 1], *(draw[i] for draw in draws))
        spent[name] = (time.process_time() - start) / len(images) / 5
    return spent


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--images", type=int, default=1000, help="for our side (%(default)s)")
    parser.add_argument("--turns", type=int, default=5, help="%(default)s")
    parser.add_argument("--peer", help="a Python that has imagecorruptions")
    options = parser.parse_args()
    python = options.peer or (sys.executable if find_spec("imagecorruptions") else None)
    images, names = patches(options.images), list(KINDS)
    try:
        frost_photographs()
    except UserError as error:
        if python is None:
            print(error, file=sys.stderr)
            return 2
        os.environ["OODBENCH_DATA"] = peers(python, images[:1], [])[1]
    ours(images, names)  # tables are made at the first call
    fastest: list[dict[str, float]] = [{}, {}]
    for _ in range(options.turns):
        other = peers(python, images[:10], names)[0] if python else plain(images[:2], names)
        for best, seconds in zip(fastest, (ours(images, names), other), strict=True):
            best.update({name: min(best.get(name, np.inf), value) for name, value in seconds.items()})
    print(f"{'ms per image':24}{'oodbench':>10}{'imagecorruptions' if python else 'plain definition':>18}{'ratio':>8}")

    def line(label: str, chosen: list[str]) -> float:
        mine, theirs = (1000 * sum(best[name] for name in chosen) for best in fastest)
        print(f"{label:24}{mine:10.3f}{theirs:18.2f}{theirs / mine:8.1f}")
        return theirs / mine

    for name in names:
        line(name, [name])
    total = line("all 19", names)
    without = line("without glass and frost", [name for name in names if name not in SLOWEST])
    if python:
        print(f"aims: {TOTAL} and {WITHOUT}")
    return int(bool(python) and (total < TOTAL or without < WITHOUT))


if __name__ == "__main__":
    sys.exit(main())
