"""Which code counts, by name@version or by digest; what a definition reaches."""

import pytest

from oodbench.config import identity, shipped
from oodbench.config.cards import catalogue
from oodbench.config.definitions import Code
from oodbench.config.identity import Locked
from oodbench.config.registry import Registry


def test_every_shipped_component_is_listed_with_the_code_it_has():
    """A failure means: raise the version, or show that numbers are unchanged; see benchmarks/fidelity/identity.py."""
    locked, shipped = identity.lock(), identity.shipped()
    assert locked.keys() == shipped.keys()
    unlisted = [name for name, digest in shipped.items() if digest not in locked[name].digests]
    assert not unlisted, f"{', '.join(unlisted)}: changed; see benchmarks/fidelity/identity.py"


def test_the_facts_that_tables_read_are_those_of_the_method_files():
    """A failure means: run benchmarks/fidelity/identity.py --same."""
    cards = Registry().cards
    assert shipped.FACTS.read_text(encoding="utf-8") == shipped.written(cards.values())
    without_paper = {name for name, each in shipped.facts().items() if each.paper is None}
    assert without_paper == {"bn-adapt"}, "the first sentence of a method file cites its paper"
    rmd = shipped.facts()["rmd"].paper
    assert (rmd.authors, rmd.venue, rmd.year) == ("J. Ren et al.", "arXiv 2106.09022", "2021")


def test_listed_code_counts_by_its_version_and_other_code_by_its_digest(monkeypatch):
    card = Registry().card("scone")
    digest = identity.card_digest(card)
    assert identity.of_card(card) == f"scone@{identity.lock()['trainer/scone'].version}"
    monkeypatch.setattr(identity, "lock", lambda: {"trainer/scone": Locked(7, frozenset({"another", digest}))})
    assert identity.of_card(card) == "scone@7"
    monkeypatch.setattr(identity, "lock", lambda: {"trainer/scone": Locked(7, frozenset({"another"}))})
    assert identity.of_card(card) == f"scone@{digest}"


def test_a_plugin_counts_by_its_digest_and_reaches_into_oodbench(tmp_path):
    path = tmp_path / "mine.py"
    text = "from oodbench import Scorer, functional\n\n\nclass Mine(Scorer):\n    def score(self, out):\n"
    path.write_text(text + "        return out.logits.sum(dim=-1)\n")
    plain = identity.of_card(Registry([path]).card("mine"))
    path.write_text(text + "        return functional.energy(out.logits)\n")
    reaching = identity.of_card(Registry([path]).card("mine"))
    assert plain.startswith("mine@") and len(plain) == len("mine@") + 16 and plain != reaching


def test_a_harness_component_ends_where_another_begins():
    """A change of the loop is the loop's alone: no method has to be listed again."""
    code = identity._shipped()
    roots = [("oodbench.methods.scone", "SCONE")]
    assert identity._digest(roots, code) != code.digest(roots)


def test_a_corruption_family_counts_its_own_helpers_alone():
    digests = {family: identity.family_digest(family) for family in ("cifar_c", "mnist_c", "digits_c")}
    assert len(set(digests.values())) == 3


def test_made_data_sets_are_known_by_their_code():
    assert identity.of_card(catalogue("datasets")["rotated-mnist"]).startswith("rotated-mnist@")


def digest(tmp_path, **files):
    """Of `main` in the package p with these modules."""
    home = tmp_path / "p"
    home.mkdir(exist_ok=True)
    for name, text in files.items():
        (home / f"{name}.py").write_text(text)

    def find(module):
        path = tmp_path.joinpath(*module.split(".")).with_suffix(".py")
        return path if path.is_file() else None

    return Code(find, {}).digest([("p.a", "main")])


BODY = "def main(x):\n    return helper(x) + LIMIT\n"
BESIDE = "LIMIT = 3\n\ndef helper(x):\n    return x\n"


@pytest.mark.parametrize(
    ("other", "beside"),
    [
        ("from p.b import helper, LIMIT\n" + BODY, BESIDE + "\ndef unused():\n    return 1\n"),
        ("from p.b import helper as h, LIMIT\n" + BODY.replace("helper", "h"), BESIDE),
        ("from p import b\n" + BODY.replace("helper", "b.helper").replace("LIMIT", "b.LIMIT"), BESIDE),
        ("def main(x):\n    '''Doc.'''\n    from p.b import helper, LIMIT\n    return helper(x) + LIMIT\n", BESIDE),
        ("import p.b\nfrom p.b import *\nfrom p.b import helper, LIMIT\n" + BODY, BESIDE),
        (
            "from p.b import helper, LIMIT\ndef main(x: int) -> int:\n    # why\n    return (helper(x) +\n LIMIT)\n",
            BESIDE,
        ),
    ],
)
def test_the_same_code_in_other_words_has_the_same_digest(tmp_path, other, beside):
    first = digest(tmp_path, a="from p.b import helper, LIMIT\n" + BODY, b=BESIDE)
    assert digest(tmp_path, a=other, b=beside) == first


@pytest.mark.parametrize(
    ("a", "b"),
    [
        (BODY.replace("+", "-"), BESIDE),
        (BODY, BESIDE.replace("LIMIT = 3", "LIMIT = 4")),
        (BODY, BESIDE.replace("return x", "return -x")),
        (BODY, BESIDE + "\nLIMIT += 1\n"),
        (BODY, BESIDE.replace("return x", "return deep(x)\n\ndef deep(x):\n    return 2 * x")),
        (BODY, "import math\nLIMIT = 3 if math else 4\n" + BESIDE.partition("\n")[2]),
    ],
)
def test_other_code_has_another_digest_however_far_away(tmp_path, a, b):
    start = "from p.b import helper, LIMIT\n"
    assert digest(tmp_path, a=start + a, b=b) != digest(tmp_path, a=start + BODY, b=BESIDE)


def test_a_local_name_is_not_taken_for_a_definition(tmp_path):
    text = "from p.b import helper, LIMIT\ndef main(helper):\n    LIMIT = 1\n    return [helper for helper in LIMIT]\n"
    first = digest(tmp_path, a=text, b=BESIDE)
    assert digest(tmp_path, a=text, b=BESIDE.replace("3", "4").replace("return x", "return -x")) == first


def test_definitions_that_call_each_other_end(tmp_path):
    text = "def main(x):\n    return other(x)\n\ndef other(x):\n    return main(x)\n"
    assert digest(tmp_path, a=text) != digest(tmp_path, a=text.replace("main(x)\n", "main(x + 1)\n"))


@pytest.mark.parametrize("statement", ["self.scale = {}", "group = {}\n        self.x = group", "self.rows[0] = {}"])
def test_what_a_method_sets_on_itself_counts(tmp_path, statement):
    text = "class main:\n    group = 'A'\n    def fit(self):\n        "
    first, second = (digest(tmp_path, a=text + statement.format(value)) for value in (1, 2))
    assert first != second


def test_what_a_class_says_of_itself_does_not_count(tmp_path):
    first, second = (digest(tmp_path, a=f"class main:\n    group = {group!r}\n    k = 3\n") for group in "AB")
    assert first == second
