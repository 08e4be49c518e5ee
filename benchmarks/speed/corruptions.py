"""CPU time of the 19 corruptions of 32x32 images, beside the package imagecorruptions, on one core.

    python -m venv peer && peer/bin/pip install imagecorruptions==1.1.2 opencv-python-headless scikit-image
    PEER=peer/bin/python python benchmarks/speed/corruptions.py

The peer runs its own ImageNet-C constants, the only ones it has, on the same images. Two of its calls name an argument
and a type that newer libraries have dropped; both are given back to it here, otherwise three of its corruptions fail.
Both sides take turns, and the fastest of the turns counts for each corruption. Without a peer nothing is measured.
"""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from sklearn.datasets import load_sample_image
from timing import TURNS, Row, main

from oodbench.data.corruptions.cifar_c import KINDS, frost_photographs
from oodbench.errors import UserError

WITHOUT_SLOWEST = [name for name in KINDS if name not in ("glass_blur", "frost")]  # there
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


def rows(quick: bool) -> Iterator[Row]:
    claims = {"all 19 corruptions": (list(KINDS), 25), "17 corruptions, without glass and frost": (WITHOUT_SLOWEST, 10)}
    python = os.environ.get("PEER")
    if python is None:
        for claim, (_, aim) in claims.items():
            yield Row(f"speed of {claim} : imagecorruptions", None, aim, at_least=True, remark="needs PEER")
        return
    names = WITHOUT_SLOWEST[:2] if quick else list(KINDS)
    images = patches(10 if quick else 1000)
    try:
        frost_photographs()
    except UserError:
        os.environ["OODBENCH_DATA"] = peers(python, images[:1], [])[1]
    ours(images, names)  # tables are made at the first call
    fastest: list[dict[str, float]] = [{}, {}]
    for _ in range(1 if quick else TURNS):
        for best, seconds in zip(fastest, (ours(images, names), peers(python, images[:10], names)[0]), strict=True):
            best.update({name: min(best.get(name, np.inf), value) for name, value in seconds.items()})
    for claim, (chosen, aim) in claims.items():
        mine, theirs = (sum(best[name] for name in chosen if name in names) for best in fastest)
        yield Row(f"speed of {claim} : imagecorruptions", theirs / mine, aim, at_least=True)


if __name__ == "__main__":
    sys.exit(main(rows, __doc__))
