"""Committed results of schema 2 become packs of schema 3: the same results, under the same keys, and what follows."""

import importlib.util
from dataclasses import replace
from pathlib import Path

import pytest
from result_files import REFERENCE, arrays_of, as_schema_2, reference

from oodbench.results.folder import read_folder
from oodbench.results.result import SINCE_3
from oodbench.running.plan import plan
from oodbench.running.request import request

FILE = Path(__file__).parents[2] / "benchmarks" / "history" / "migrate.py"
NEW = dict.fromkeys((*SINCE_3, "schema", "path", "pack", "collection"))


@pytest.fixture(scope="module")
def script():
    specification = importlib.util.spec_from_file_location("migrate", FILE)
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


@pytest.mark.parametrize("ranks", [False, True])
def test_a_migrated_result_is_what_it_was_with_its_key_and_says_what_follows(script, tmp_path, ranks):
    paths = reference(tmp_path, "digits-c", lambda each: each.method in ("scone", "knn") and each.seed == 1)
    for path in paths:
        as_schema_2(path)
    before, _ = read_folder(tmp_path)
    after, problems = read_folder(script.migrate(tmp_path, "digits-c", ranks))
    assert not problems and len(before) == len(after) == 4
    for old, new in zip(before, after, strict=True):
        assert old.schema == 2 and new.schema == 3 and new.ranks == ranks
        assert replace(old, **NEW) == replace(new, **NEW)
        assert new.path.parts[-4:] == old.path.parts[-4:]
        assert ranks or arrays_of(new) == arrays_of(old)
        assert new.request == {"suite": "digits-c", "methods": [old.method], "settings": [old.setting], "seeds": [1]}
        assert new.chain == ["erm@1", *(["scone@2"] if old.method == "scone" else []), new.config.method.scorer.code]
        assert new.precision == "fp32"


def test_the_request_of_a_migrated_result_asks_for_its_cell_alone():
    for each in read_folder(REFERENCE)[0][::60]:
        if each.request and each.suite == "digits-c":  # whose images are always at hand
            assert [cell.key for cell in plan(request(**each.request)).cells] == [each.key], each.path
