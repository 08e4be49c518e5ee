"""The families of corruptions are read as text, and say the same as when they are imported."""

from importlib import import_module

import pytest

from oodbench.config import families
from oodbench.config.families import corruption_kinds, family_names, severities
from oodbench.config.schema import Misfit


def test_the_families_are_those_that_ship():
    assert family_names() == ["cifar_c", "digits_c", "mnist_c"]


@pytest.mark.parametrize("family", family_names())
def test_kinds_and_severities_are_those_of_the_imported_module_in_its_order(family):
    module = import_module(f"oodbench.data.corruptions.{family}")
    assert corruption_kinds(family) == list(module.KINDS)
    assert list(severities(family)) == list(getattr(module, "SEVERITIES", range(1, 6)))


def test_an_unknown_family_is_answered_with_the_nearest():
    with pytest.raises(Misfit, match="unknown family of corruptions 'cifar-c'; did you mean 'cifar_c'"):
        corruption_kinds("cifar-c")


def test_a_family_that_lists_its_kinds_in_another_way_is_noticed(tmp_path, monkeypatch):
    (tmp_path / "mine.py").write_text("def blur(): ...\nKINDS = {}\nKINDS['blur'] = blur\n")
    monkeypatch.setattr(families, "FOLDER", tmp_path)
    with pytest.raises(AssertionError, match="corruptions/mine.py says in no known way which kinds it has"):
        corruption_kinds("mine")
