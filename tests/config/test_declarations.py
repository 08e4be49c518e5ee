"""Hyperparameters as a class body declares them: types and defaults are read as text, and nothing is ever run."""

import ast
from typing import Literal, Optional

import pytest
from command_line import Outcome, assert_refused, oodbench

from oodbench import api
from oodbench.config.annotations import Unknown, read_type, stated_type
from oodbench.config.cards import read_cards
from oodbench.errors import UserError
from oodbench.testing import check_method


def type_of(text):
    return read_type(ast.parse(text, mode="eval").body)


@pytest.mark.parametrize(
    ("text", "type_"),
    [
        ("bool", bool), ("int", int), ("float", float), ("str", str), ("None", type(None)),
        ("'int'", int), ("' int | None '", int | None), ("'list[\"int\"]'", list[int]),
        ("int | str", int | str), ("int | None", int | None), ("None | int", int | None),
        ("int | str | None", int | str | None),
        ("Optional[int]", int | None), ("Union[int, str, None]", int | str | None),
        ("typing.Optional[int]", int | None), ("t.Union[int, str]", int | str), ("Union[int]", int),
        ("Literal['a']", Literal["a"]), ("Literal['a', 2, -1.5, True, None]", Literal["a", 2, -1.5, True, None]),
        ("typing.Literal['a'] | float", Literal["a"] | float), ("list[int]", list[int]),
        ("List[list[str]]", list[list[str]]),
        ("list[int] | Literal['auto']", list[int] | Literal["auto"]),
    ],
)  # fmt: skip
def test_an_annotation_is_the_type_that_python_would_make_of_it(text, type_):
    assert type_of(text) == type_


@pytest.mark.parametrize(
    "text",
    ["dict[str, int]", "Tensor", "int & str", "list[int, str]", "tuple[int, ...]", "'in'", "''", "5", "print('x')",
     "Optional[int, str]", "int[str]", "Literal[x]", "Literal['a' + 'b']", "list", "list[list]", "list[Tensor]",
     "x.y.z", "...", "print().int", "print().Literal['a']", "torch.float", "Literal[()]", "Union[()]",
     "Literal[{1, []}]", "'int' + ' ' * 9", repr("int" + " " * 5000)],
)  # fmt: skip
def test_another_annotation_is_refused_with_what_to_write(text):
    with pytest.raises(Unknown, match="^(use bool, int, |say of what; write list|write the choices of Literal out)"):
        type_of(text)


HEAD = """\
from dataclasses import KW_ONLY, dataclass, field
from oodbench import Scorer


@dataclass
class A(Scorer):
"""


def parameters(tmp_path, *lines):
    path = tmp_path / "a.py"
    path.write_text(HEAD + "".join(f"    {line}\n" for line in lines))
    (card,) = read_cards(path, "a")
    return card.parameters


def test_an_annotation_is_never_run(tmp_path):
    mark = tmp_path / "mark"
    for harmful in (f"open({str(mark)!r}, 'w')", f'"open({str(mark)!r}, chr(119))"', f"list[open({str(mark)!r}, 'w')]"):
        with pytest.raises(Exception, match="a.py:7: hyperparameter 'x' has the type "):
            parameters(tmp_path, f"x: {harmful} = 1")
    assert not mark.exists()


# Python keeps these annotations as text; evaluated, each would make a file.
HARMLESS = """
@dataclass
class A(Scorer):
    \"\"\"Scores.\"\"\"

    seen: ClassVar[EVIL] = 1

    def fit(self, train: EVIL, *more: "EVIL") -> EVIL:
        count: EVIL = 1
"""
HARMFUL = {
    "text": 'x: "EVIL" = 1',
    "of a typing module": "x: \"EVIL.Literal['a']\" = 'a'",
    "inside a list": 'x: "list[EVIL]" = 1',
    "inside a union": 'x: "int | EVIL" = 1',
    "choice": 'x: "Literal[EVIL]" = 1',
    "default": "x: int = EVIL",
    "factory": "x: list[int] = field(default_factory=lambda: EVIL)",
}
SCORES = "\n    def score(self, out):\n        return -out.logits.logsumexp(dim=-1)\n"


def plugin(tmp_path, text):
    """A file with this text, and the file that it would make; annotations that are no text are kept as text."""
    path, mark = tmp_path / "a.py", tmp_path / "mark"
    head = "from __future__ import annotations\nfrom dataclasses import dataclass, field\n"
    head += "from typing import ClassVar, Literal\nfrom oodbench import Scorer\n"
    path.write_text((head + text).replace("EVIL", f"__import__('pathlib').Path({str(mark)!r}).touch()"))
    return path, mark


def doors(path, tmp_path):
    """Every command that reads a method file, and both functions; what each says, with its name."""
    run = ("--suite", "digits-c", "--preset", "smoke", "--methods", "a", "--plugin", path)
    yield "list", oodbench("list", "methods", "--plugin", path)
    yield "show", oodbench("show", "a", "--plugin", path)
    yield "dry run", oodbench("run", *run, "--dry-run", "--results", tmp_path / "results")
    yield "run", oodbench("run", *run, "--results", tmp_path / "results")
    yield "check-method", oodbench("check-method", path)
    for name, call in (
        ("run()", lambda: api.run("digits-c", "a", preset="smoke", plugins=path, results=tmp_path / "more")),
        ("check_method()", lambda: check_method(path)),
    ):
        try:
            yield name, Outcome(0, str(call()), "")
        except UserError as error:
            yield name, Outcome(2, "", f"oodbench: {error}\n")


def test_no_door_evaluates_an_annotation_that_is_no_hyperparameter(tmp_path):
    path, mark = plugin(tmp_path, HARMLESS + SCORES)
    for door, outcome in doors(path, tmp_path):
        assert not mark.exists(), door
        assert outcome.status == 0, (door, outcome)


@pytest.mark.parametrize("line", HARMFUL.values(), ids=HARMFUL)
def test_every_door_refuses_what_is_no_type_and_evaluates_nothing(tmp_path, line):
    path, mark = plugin(tmp_path, f"\n@dataclass\nclass A(Scorer):\n    {line}\n{SCORES}")
    for door, outcome in doors(path, tmp_path):
        assert not mark.exists(), door
        assert_refused(outcome, "a.py:8: ", "hyperparameter 'x'")


@pytest.mark.parametrize(
    "line",
    [
        "x: " + "|".join(["int"] * 100_000) + " = 1",
        "x: " + "list[" * 1000 + "int" + "]" * 1000 + " = 1",
        "x: " + repr("|".join(["int"] * 2_500_000)) + " = 1",
        "x: " + repr("-" * 1990 + "1") + " = 1",
        "x: " + "-" * 100_000 + "1 = 1",
        "x: int = " + "-" * 2000 + "1",
        "x: int = " + "[" * 150 + "]" * 150,
        "needs = " + "-" * 2000 + "1",
    ],
    ids=["union", "list", "10 MB of text", "signs in text", "signs", "default", "lists", "variable"],
)
def test_what_is_long_or_nested_deeply_is_refused_in_one_short_line(tmp_path, line):
    path, _ = plugin(tmp_path, f"\n@dataclass\nclass A(Scorer):\n    {line}\n{SCORES}")
    outcome = oodbench("show", "a", "--plugin", path)
    assert_refused(outcome, "a.py")
    assert len(outcome.err) < 800


def test_the_type_of_a_field_is_parsed_where_the_class_holds_text(tmp_path):
    assert stated_type("list['int']") == list[int] == stated_type(list["int"])
    assert stated_type(Optional["int"]) == int | None == stated_type(int | None)
    assert stated_type(Literal["a"]) == Literal["a"] == stated_type("Literal['a']")


def test_defaults_within_field_are_read(tmp_path):
    found = parameters(
        tmp_path,
        "a: list[int] = field(default_factory=lambda: [1, 2])",
        "b: list[float] = field(default_factory=list)",
        "c: float = field(default=3, kw_only=True)",
    )
    assert {name: p.default for name, p in found.items()} == {"a": [1, 2], "b": [], "c": 3.0}
    assert [p.keyword_only for p in found.values()] == [False, False, True]


def test_keyword_only_hyperparameters_come_last_as_in_the_constructor(tmp_path):
    lines = ["_: KW_ONLY", "last: int = 1  # of all"]
    assert [(p.name, p.comment) for p in parameters(tmp_path, "first: int = 1", *lines).values()] == [
        ("first", ""), ("last", "of all"),
    ]  # fmt: skip
    path = tmp_path / "b.py"
    path.write_text(HEAD + "    _: KW_ONLY\n    last: int = 1\n\n\n@dataclass\nclass B(A):\n    first: int = 1\n")
    assert [list(card.parameters) for card in read_cards(path, "b")] == [["last"], ["first", "last"]]
