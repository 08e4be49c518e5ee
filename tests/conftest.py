"""One toy problem for all tests: that of the contract, whose data, network and outputs are fixtures here."""

import os
import shutil
import tempfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest
import torch
from command_line import assert_done, smoke
from filelock import FileLock
from torch import Tensor

from oodbench.data import store
from oodbench.learning.batches import Data
from oodbench.learning.method import Classifier, Outputs
from oodbench.testing.toy_problem import toy, toy_classifier

for variable in ("OODBENCH_RESULTS", "OODBENCH_DEVICE"):  # of whoever runs the tests
    os.environ.pop(variable, None)

USERS_DATA = "OODBENCH_TESTS_USERS_DATA"  # names, in the environment, the data folder of whoever runs the tests
torch.set_num_threads(1)  # tensors this small only lose by sharing; every test is faster so


def pytest_configure(config):
    """One temporary data folder for all tests, the workers of xdist and every process that a test starts."""
    if hasattr(config, "workerinput"):  # its environment has them already
        return
    folder = tempfile.TemporaryDirectory(prefix="oodbench-tests-", ignore_cleanup_errors=True)
    config.add_cleanup(folder.cleanup)
    os.environ[USERS_DATA] = str(store.data_folder().absolute())
    os.environ["OODBENCH_DATA"] = os.path.join(folder.name, "data")
    os.environ["MPLCONFIGDIR"] = os.path.join(folder.name, "matplotlib")  # its list of fonts
    os.environ["TEXMFVAR"] = os.path.join(folder.name, "tex")  # fonts that LaTeX draws


def pytest_collection_finish(session):
    """Slow tests read what their user has of data; what they write stays in the temporary folder."""
    theirs = Path(os.environ[USERS_DATA])
    if not theirs.is_dir() or not any(item.get_closest_marker("slow") for item in session.items):
        return
    for path in theirs.glob("[!.]*/"):
        # A set is linked whole, and where a folder holds several files or sets, each of them is.
        holds_several = path.name == "kept" or any(path.glob("*/meta.json"))
        for each in path.glob("[!.]*") if holds_several else [path]:
            link = store.data_folder() / each.relative_to(theirs)
            link.parent.mkdir(parents=True, exist_ok=True)
            with suppress(FileExistsError):  # another worker was faster
                link.symlink_to(each)


@pytest.fixture(scope="session")
def made_once() -> Callable[[str, Callable[[Path], None]], Path]:
    """A function that gives the folder of a name, which `make(folder)` has filled in the first worker that asked.

    All workers of xdist share it: a test that changes files copies it.
    """
    home = store.data_folder().with_name(
        "made"
    )  # beside the data folder, which all workers have from the first process

    def made(name: str, make: Callable[[Path], None]) -> Path:
        whole = home / name / "whole"
        whole.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(home / name / "lock"):
            if not whole.exists():
                part = Path(tempfile.mkdtemp(dir=whole.parent))
                make(part)
                part.rename(whole)
        return whole

    return made


@pytest.fixture(scope="session")
def finished(made_once) -> tuple[str, Path]:
    """What one smoke run of msp and knn printed, and its results folder."""

    def make(folder: Path) -> None:
        with pytest.MonkeyPatch.context() as patch:
            patch.chdir(folder)
            Path("printed").write_text(assert_done(smoke(Path("my results"), "msp,knn")))

    folder = made_once("finished", make)
    return (folder / "printed").read_text(), folder / "my results"


@pytest.fixture(scope="session")
def results(finished: tuple[str, Path]) -> Path:
    """The results folder of that run, which all tests share."""
    return finished[1]


@pytest.fixture
def copied(results: Path, tmp_path: Path) -> Path:
    """A copy of that folder, to be changed."""
    return shutil.copytree(results, tmp_path / "copied")


@pytest.fixture(scope="session")
def new_model():
    """A function that gives the untrained toy network."""
    return toy_classifier


@pytest.fixture(scope="session")
def toy_data() -> Data:
    return toy().data


@pytest.fixture(scope="session")
def toy_weights() -> dict[str, Tensor]:
    return toy().weights


@pytest.fixture
def toy_model(toy_weights: dict[str, Tensor]) -> Classifier:
    """The trained toy network, frozen as a run freezes it."""
    model = toy_classifier()
    model.load_state_dict(toy_weights)
    return model.eval().requires_grad_(False)


@pytest.fixture
def train_outputs() -> Outputs:
    return toy().train_outputs()


@pytest.fixture
def unseen_outputs() -> Outputs:
    return toy().unseen_outputs()
