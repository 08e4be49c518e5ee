"""Values against types: what fits, what does not and how that is said, and the line of every value of a file."""

import dataclasses
from dataclasses import dataclass, field
from typing import Any, Literal

import pytest

from oodbench.config.schema import Document, Misfit, conform, describe, merge, parse
from oodbench.errors import UserError, shown, unknown


@dataclass(frozen=True)
class Inner:
    size: int
    share: float = 0.5


@dataclass(frozen=True)
class Outer:
    name: str
    inner: Inner
    many: list[Inner] = field(default_factory=list)
    by_name: dict[str, Inner] = field(default_factory=dict)
    numbers: list[float] | None = None
    anything: dict[str, Any] = field(default_factory=dict)


FITS = [
    (True, bool, True), (3, int, 3), (3, float, 3.0), (0.5, float, 0.5), ("x", str, "x"), ("", str, ""),
    (None, int | None, None), ("auto", int | Literal["auto"], "auto"), (3, int | Literal["auto"], 3),
    ([], list[int], []), ([1, 2], list[float], [1.0, 2.0]), ({"a": 1}, dict[str, float], {"a": 1.0}),
    ({"size": 1}, Inner, Inner(1)), (3, bool | int | float | str, 3), (0.0, int | float, 0.0), ({1}, Any, {1}),
]  # fmt: skip

MISFITS = [
    (1, bool, "expected true or false, got 1"),
    ("yes", bool, "expected true or false, got 'yes'"),
    (True, int, "expected a whole number, got True"),
    (3.0, int, "expected a whole number, got 3.0"),
    ("3", int, "expected a whole number, got '3'"),
    (None, int, "expected a whole number, got nothing"),
    (True, float, "expected a number, got True"),
    ("0.5", float, "expected a number, got '0.5'"),
    (float("nan"), float, "expected a number, got nan"),
    (float("-inf"), float, "expected a number, got -inf"),
    (10**400, float, "expected a number, got 1000"),
    (3, str, "expected text, got 3"),
    (3, None, "expected nothing, got 3"),
    ("c", Literal["a", "b"], "expected 'a' or 'b', got 'c'"),
    (True, Literal[1], "expected 1, got True"),
    ("outo", int | Literal["auto"], "expected a whole number or 'auto', got 'outo'"),
    ("ab", list[int], "expected a list (a whole number each), got 'ab'"),
    ([1, "b"], list[int] | None, "expected a list (a whole number each) or nothing, got [1, 'b']"),
    ([1], dict[str, int], "expected a mapping, got [1]"),
    (3, Inner, "expected a mapping, got 3"),
]


@pytest.mark.parametrize(("value", "type_", "expected"), FITS)
def test_a_value_that_fits_is_taken_as_its_type(value, type_, expected):
    got = conform(value, type_)
    assert got == expected and type(got) is type(expected)


@pytest.mark.parametrize(("value", "type_", "message"), MISFITS)
def test_a_value_that_does_not_fit_says_what_was_expected(value, type_, message):
    with pytest.raises(Misfit) as caught:
        conform(value, type_)
    assert str(caught.value).startswith(message)


NESTED_MISFITS = [
    ({"inner": {"size": 1}}, (), "the key 'name' is missing; expected text"),
    ({"name": "a"}, (), "the key 'inner' is missing; expected a mapping"),
    ({"name": "a", "inner": {}}, ("inner",), "the key 'size' is missing; expected a whole number"),
    ({"name": "a", "inner": {"siez": 1}}, ("inner", "siez"), "unknown key 'siez'; did you mean 'size'?"),
    ({"name": "a", "inner": {"size": 1}, 3: 4}, ("3",), "unknown key '3'; known: anything, by_name, inner, many"),
    ({"name": "a", "inner": {"size": "x"}}, ("inner", "size"), "expected a whole number, got 'x'"),
    ({"name": "a", "inner": {"size": 1}, "many": [{"size": 1}, {"size": 2.5}]}, ("many", 1, "size"), "expected a whol"),
    ({"name": "a", "inner": {"size": 1}, "by_name": {"b": 3}}, ("by_name", "b"), "expected a mapping, got 3"),
    ({"name": "a", "inner": {"size": 1}, "by_name": {7: {}}}, ("by_name",), "expected text, got 7"),
]


@pytest.mark.parametrize(("value", "place", "message"), NESTED_MISFITS)
def test_a_misfit_deep_inside_names_its_place(value, place, message):
    with pytest.raises(Misfit) as caught:
        conform(value, Outer)
    assert caught.value.place == place
    assert caught.value.message.startswith(message)


def test_defaults_stand_for_what_is_left_out():
    assert conform({"name": "a", "inner": {"size": 1}}, Outer) == Outer("a", Inner(1, 0.5), [], {}, None, {})


READABLE = [
    ("3", int, 3), ("-5", float, -5.0), ("1e-3", float, 0.001), ("1E5", float, 1e5), (".5", float, 0.5),
    ("true", bool, True), ("auto", int | Literal["auto"], "auto"), ("[0.5, 1e-1]", list[float], [0.5, 0.1]),
    ("3", str, "3"), ("true", str, "true"), ("null", str, "null"), ("null", int | None, None), ("a: b", str, "a: b"),
    ("", str, ""), ("[", str, "["), ("nan", str, "nan"), ("2026-13-45", str, "2026-13-45"), ("*x", str, "*x"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "type_", "expected"), READABLE)
def test_text_of_the_command_line_is_read_as_its_type(text, type_, expected):
    got = parse(text, type_, ("knn", "k"))
    assert got == expected and type(got) is type(expected)


@pytest.mark.parametrize(
    ("text", "type_"),
    [("abc", int), ("1.5", int), ("1e3", int), ("", int), ("[1", int), ("true", int), ("null", int), ("nan", float)]
    + [(".inf", float), ("1e400", float), ("1" + 400 * "0", float), ("2026-13-45", float), ("!!int x", int)]
    + [(600 * "[", int), ("!!python/name:os.system", int), ("[1, a]", list[float]), ("maybe", bool)],
)
def test_text_that_cannot_be_read_as_its_type_is_shown_as_it_was_typed(text, type_):
    with pytest.raises(Misfit) as caught:
        parse(text, type_, ("knn", "k"))
    assert str(caught.value) == f"knn.k: expected {describe(type_)}, got {shown(text)}"


def test_a_mapping_laid_on_another_joins_key_by_key_and_replaces_the_rest():
    base = {"a": {"x": 1, "y": [1, 2]}, "b": 1}
    assert merge(base, {"a": {"y": [3]}, "c": {"z": 0}}) == {"a": {"x": 1, "y": [3]}, "b": 1, "c": {"z": 0}}
    assert merge(base, {"a": 3}) == {"a": 3, "b": 1}
    assert base == {"a": {"x": 1, "y": [1, 2]}, "b": 1}


GOOD = """\
# a comment
name: a
inner:
  size: 1
  share: 2e-1

many:
  - size: 1
  - {size: 2,
     share: 1}
by_name: {first: {size: 3}, second: {size: 4}}
"""


@pytest.fixture
def document(tmp_path):
    def write(text: str | bytes) -> Document:
        path = tmp_path / "file.yaml"
        path.write_bytes(text.encode() if isinstance(text, str) else text)
        return Document(path)

    return write


def message_of(caught) -> str:
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_a_file_becomes_a_dataclass(document):
    expected = Outer("a", Inner(1, 0.2), [Inner(1), Inner(2, 1.0)], {"first": Inner(3), "second": Inner(4)})
    assert document(GOOD).conform(Outer) == expected


@pytest.mark.parametrize(
    ("old", "new", "line", "message"),
    [
        ("name: a", "name: [a]", 2, "'name': expected text, got ['a']"),
        ("name: a", "nmae: a", 2, "'nmae': unknown key 'nmae'; did you mean 'name'?"),
        ("name: a\n", "", 2, "the key 'name' is missing; expected text"),
        ("  size: 1\n  share", "  share", 3, "'inner': the key 'size' is missing; expected a whole number"),
        ("  share: 2e-1", "  share: all", 5, "'inner.share': expected a number, got 'all'"),
        ("  - size: 1", "  - size: one", 8, "'many.0.size': expected a whole number, got 'one'"),
        ("     share: 1}", "     shar: 1}", 10, "'many.1.shar': unknown key 'shar'; did you mean 'share'?"),
        ("{size: 4}", "{size: 4.5}", 11, "'by_name.second.size': expected a whole number, got 4.5"),
        ("{size: 4}", "4", 11, "'by_name.second': expected a mapping, got 4"),
        ("name: a", "name: a\nname: b", 3, "the key 'name' occurs twice; keep one"),
        ("{size: 4}", "{size: 4, size: 4}", 11, "the key 'size' occurs twice; keep one"),
        ("name: a", "? [a, b]\n: 3", 2, "a list or mapping where a key is expected"),
        ("name: a", "name: 2026-13-45", 2, "cannot read '2026-13-45' (month must be in 1..12"),
        ("  size: 1", "\tsize: 1", 4, "not valid YAML: found character '\\t' that cannot start any token"),
        ("name: a", "name: [a", 3, "not valid YAML: expected ',' or ']', but got ':'"),
        ("name: a", "name: *b", 2, "not valid YAML: found undefined alias 'b'"),
        ("name: a", "name: !ruby b", 2, "the tag '!ruby' is not supported; leave it out or quote the text"),
        ("name: a", "name: &a [*a]", 2, "nested too deeply, or inside itself through an alias; write it out"),
        ("name: a", "name: " + 600 * "[", 2, "nested too deeply, or inside itself through an alias; write it out"),
    ],
)
def test_what_is_wrong_in_a_file_is_told_with_its_line(old, new, line, message, document, tmp_path):
    assert old in GOOD
    with pytest.raises(UserError) as caught:
        document(GOOD.replace(old, new, 1)).conform(Outer)
    assert message_of(caught).startswith(f"{tmp_path / 'file.yaml'}:{line}: {message}")


@pytest.mark.parametrize("text", ["", "# nothing\n"])
def test_an_empty_file_lacks_its_first_key(text, document):
    with pytest.raises(UserError, match=r"file\.yaml:1: the key 'name' is missing; expected text$"):
        document(text).conform(Outer)


@pytest.mark.parametrize("text", ["- a\n- b\n", "hello\n", "3\n"])
def test_a_file_that_is_no_mapping_says_so(text, document):
    with pytest.raises(UserError, match=r"file\.yaml:1: expected a mapping of keys to values$"):
        document(text).conform(Outer)


@pytest.mark.parametrize("content", [b"\x80\x81\xff\x00", "name: é\n".encode("latin-1")])
def test_a_file_that_is_not_text_says_so(content, document):
    with pytest.raises(UserError, match=r"file\.yaml: not a text file; expected YAML in UTF-8$"):
        document(content)


def test_a_character_that_yaml_forbids_is_told_in_one_line(document):
    with pytest.raises(UserError) as caught:
        document(b"name: a\x00b\n")
    assert "file.yaml:1: not valid YAML: unacceptable character" in message_of(caught)


def test_a_missing_file_and_a_folder_are_told(tmp_path):
    with pytest.raises(UserError, match=r"cannot read '.*none\.yaml': No such file or directory; check the name"):
        Document(tmp_path / "none.yaml")
    with pytest.raises(UserError, match="cannot read '.*': Is a directory"):
        Document(tmp_path)


def test_nothing_in_a_file_can_run_code(document, tmp_path):
    mark = tmp_path / "ran"
    text = f"name: !!python/object/apply:os.mkdir ['{mark}']\ninner: {{size: !!python/object/apply:os.getpid []}}\n"
    with pytest.raises(UserError, match=r"file\.yaml:\d: "):
        document(text).conform(Outer)
    assert not mark.exists()


def test_an_overlaid_document_gives_the_line_of_the_overlay_where_that_is_wrong(document):
    text = GOOD + "anything:\n  small:\n    inner: {size: 7}\n    by_name:\n      second: {size: x}\n"
    overlaid = document(text).overlaid(("anything", "small"))
    with pytest.raises(UserError, match=r"file\.yaml:16: 'by_name\.second\.size': expected a whole number, got 'x'$"):
        overlaid.conform(Outer)
    overlaid = document(text.replace("{size: x}", "{size: 8}")).overlaid(("anything", "small"))
    values = overlaid.conform(Outer)
    assert values.inner == Inner(7, 0.2)
    assert values.by_name == {"first": Inner(3), "second": Inner(8)}
    with pytest.raises(UserError, match=r"file\.yaml:8: "):
        document(text.replace("- size: 1", "- size: x")).overlaid(("anything", "small")).conform(Outer)


def test_an_unknown_name_is_answered_with_the_nearest_or_with_all():
    names = ["knn", "energy", "energy-oe"]
    assert str(unknown("method", "knnn", names)) == "unknown method 'knnn'; did you mean 'knn'?"
    assert str(unknown("method", "enrgy", names)) == "unknown method 'enrgy'; did you mean 'energy' or 'energy-oe'?"
    assert str(unknown("method", "zzz", names)) == "unknown method 'zzz'; known: energy, energy-oe, knn"
    assert str(unknown("name", "zzz", [*names, "knn"])) == "unknown name 'zzz'; known: energy, energy-oe, knn"
    assert str(unknown("preset", "zzz", [])) == "unknown preset 'zzz'; there are none"


def test_the_dataclasses_stay_as_they_were_read(document):
    with pytest.raises(dataclasses.FrozenInstanceError):
        document(GOOD).conform(Outer).name = "b"
