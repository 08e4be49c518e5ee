"""Hyperparameters as a class body declares them: types and defaults are read as text, and nothing is ever run."""

import ast
from typing import Literal

import pytest

from oodbench.config.annotations import Unknown, read_type
from oodbench.config.cards import read_cards


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
     "x.y.z", "..."],
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
