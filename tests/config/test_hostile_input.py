"""Files and texts of users that are made to harm, or by a slip of the hand: one short line each, at once."""

import os
import socket

import pytest

from oodbench.config import yaml_values
from oodbench.config.registry import Registry
from oodbench.config.schema import Document, Misfit, parse
from oodbench.config.suite import load
from oodbench.config.yaml_values import Unreadable, read
from oodbench.errors import LINE, QUOTED, UserError, shortened, shown, unknown
from oodbench.user_files import TEXT_LIMIT, open_regular, read_regular, read_text, user_path

LAUGHS = "a0: &a0 [lol, lol, lol, lol, lol, lol, lol, lol, lol, lol]\n" + "".join(
    f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]\n" for i in range(1, 10)
)
WORDS = "more than 50,000 keys and values, counting aliases; write less"


def problem(text):
    with pytest.raises(Unreadable) as caught:
        read(text)
    assert len(caught.value.reason) < 400 and "\n" not in caught.value.reason
    return caught.value.line, caught.value.reason


def test_aliases_count_as_often_as_they_are_named():
    assert problem(LAUGHS) == (1, WORDS)
    assert problem("s: &s " + "x" * (TEXT_LIMIT // 2) + "\nt: [*s, *s, *s]\n") == (1, WORDS)


def test_an_alias_that_is_named_a_few_times_is_the_value_itself():
    assert read("a: &a [1, {b: 2}]\nc: *a\n")[0] == {"a": [1, {"b": 2}], "c": [1, {"b": 2}]}
    assert problem("a: &a 1\nb: &a 2\n") == (2, "not valid YAML: an anchor with this name was defined above")


def test_a_text_may_have_so_many_values_and_is_read_no_further(monkeypatch):
    monkeypatch.setattr(yaml_values, "NODES", 5)
    assert read("[1, 2, 3, 4]")[0] == [1, 2, 3, 4]
    assert problem("[1, 2, 3, 4,\n 5, {")[0] == 2  # the brace that is never closed is not seen


@pytest.mark.parametrize("text", ["[" * 100_000, "{a: " * 3_000, "&a [*a]", "&a {b: *a}"])
def test_what_is_nested_too_deeply_is_told(text):
    assert problem(f"x: 1\ny: {text}") == (2, "nested too deeply, or inside itself through an alias; write it out")


def test_values_may_be_nested_as_deep_as_anybody_writes():
    depth = yaml_values.DEPTH
    assert read("[" * depth + "]" * depth)[0]
    problem("[" * (depth + 2) + "]" * (depth + 2))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('!!int ""', "'' is not of type !!int; leave out the tag"),
        ("!!int '-'", "'-' is not of type !!int; leave out the tag"),
        ("!!int 3.5", "'3.5' is not of type !!int; leave out the tag"),
        ("!!float x", "'x' is not of type !!float; leave out the tag"),
        ("!!float ''", "'' is not of type !!float; leave out the tag"),
        ("!!bool maybe", "'maybe' is not of type !!bool; leave out the tag"),
        ("!!null x", "'x' is not of type !!null; leave out the tag"),
        ("!!timestamp foo", "'foo' is not of type !!timestamp; leave out the tag"),
        ("!!binary eA==", "the tag '!!binary' is not supported"),
        ("!!python/name:os.system", "the tag '!!python/name:os.system' is not supported"),
        ("!!python/object/apply:os.getpid []", "the tag '!!python/object/apply:os.getpid' is not supported"),
        ("!!set {a, b}", "the tag '!!set' is not supported; leave it out"),
        ("!!omap [a: 1]", "the tag '!!omap' is not supported; leave it out"),
        ("!foo x", "the tag '!foo' is not supported"),
        ("!foo {a: 1}", "the tag '!foo' is not supported"),
        ("!!int [1]", "the tag '!!int' is not supported"),
        ("!!str {a: 1}", "the tag '!!str' is not supported"),
        ("=", "the tag '!!value' is not supported"),
        ("{<<: {a: 1}}", "merge keys (<<) are not supported; write out the keys"),
        ("9" * 5_000, f"cannot read '{'9' * QUOTED}... (5,000 letters)' (Exceeds the limit"),
        ("0x" + "f" * 5_000, f"the whole number 0x{'f' * (QUOTED - 2)}... (5,002 letters) is too large"),
        ("-9223372036854775808", "the whole number -9223372036854775808 is too large"),
        ("{? 0x" + "f" * 5_000 + " : 1}", "the whole number 0x"),
        ("2026-01-01 00:00:00 +99:99", "cannot read '2026-01-01 00:00:00 +99:99' ("),
        ("{? [1, 2] : 3}", "a list or mapping where a key is expected"),
        ("{? {a: 1} : 3}", "a list or mapping where a key is expected"),
    ],
)
def test_a_tag_or_value_that_cannot_be_is_told_with_its_line(text, message):
    line, reason = problem(f"first: 1\nsecond: {text}\n")
    assert line == 2 and reason.startswith(message)


@pytest.mark.parametrize(
    ("text", "value"),
    [('!!int "3"', 3), ("!!float 3", 3.0), ("!!str 3", "3"), ("9223372036854775807", 2**63 - 1)],
)
def test_a_tag_that_says_what_the_text_says_is_read(text, value):
    got = read(text)[0]
    assert got == value and type(got) is type(value)


@pytest.mark.parametrize(
    "text",
    ['!!int ""', "!!timestamp foo", "!!bool maybe", "&a [*a]", "[" * 50_000, "0x" + "f" * 5_000, "9" * 5_000]
    + ["<<: 1", LAUGHS.replace("\n", " ")],
)
def test_what_a_command_line_sets_is_refused_as_it_was_typed(text):
    with pytest.raises(Misfit) as caught:
        parse(text, int, ("knn", "k"))
    assert str(caught.value) == f"knn.k: expected a whole number, got {shown(text)}"
    assert parse(text, str, ("timm", "model")) == text


def test_what_an_error_quotes_is_short():
    assert shortened("x" * QUOTED) == "x" * QUOTED
    assert shortened("x" * 1_000) == "x" * QUOTED + "... (1,000 letters)"
    assert shown(16**5_000) == "a whole number of thousands of digits"
    assert str(unknown("key", "k" * 10**6, ["lr"])) == f"unknown key '{'k' * QUOTED}... (1,000,000 letters)'; known: lr"
    long = str(UserError(f"cannot read '{'y' * 5_000}'; check the name"))
    assert len(long) < LINE and long.startswith("cannot read 'yyy") and long.endswith("yyy'; check the name")


@pytest.fixture
def hostile(tmp_path):
    """A file of the kind that is asked for, under a name with this ending."""

    def make(kind, suffix):
        path = tmp_path / f"{kind}{suffix}"
        if kind == "fifo":
            os.mkfifo(path)
        elif kind == "device":
            path.symlink_to("/dev/zero")
        elif kind == "folder":
            path.mkdir()
        elif kind == "loop":
            path.symlink_to(path)
        elif kind == "large":
            with open(path, "wb") as file:
                file.truncate(2**40)  # and none of it on the disk
        elif kind == "long":
            path = tmp_path / f"{'x' * 300}{suffix}"
        elif kind == "nul":
            path = tmp_path / f"a\0b{suffix}"
        return path

    return make


KINDS = {
    "fifo": "Not a regular file",
    "device": "Not a regular file",
    "folder": "Is a directory",
    "loop": "Too many levels of symbolic links",
    "large": f"it has more than {TEXT_LIMIT:,} bytes",
    "long": "File name too long",
    "nul": "no file can have such a name",
    "missing": "No such file or directory",
}


@pytest.mark.parametrize(("kind", "reason"), KINDS.items())
def test_only_a_regular_file_of_a_sensible_size_is_read(kind, reason, hostile):
    with pytest.raises(UserError) as caught:
        read_text(hostile(kind, ".yaml"), "YAML")
    assert f"': {reason}; check the name and its permissions" in str(caught.value)


def test_a_socket_is_no_file_to_read(tmp_path):
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(tmp_path / "s"))
        with pytest.raises(OSError):
            open_regular(tmp_path / "s")


def test_a_file_is_read_up_to_its_limit_and_a_growing_one_no_further(tmp_path):
    (tmp_path / "a").write_bytes(b"x" * 100)
    assert read_regular(tmp_path / "a", 100) == b"x" * 100
    with pytest.raises(OSError, match="it has more than 99 bytes"):
        read_regular(tmp_path / "a", 99)
    with pytest.raises(OSError, match="it has more than 3 bytes"):
        read_regular("/proc/self/status", 3)  # which says that it has none


def test_a_byte_order_mark_is_no_letter(tmp_path):
    (tmp_path / "a.yaml").write_bytes("\ufefftitle: a\n".encode())
    assert Document(tmp_path / "a.yaml").values == {"title": "a"}


@pytest.mark.parametrize("kind", KINDS)
def test_a_suite_and_a_plugin_are_read_in_the_same_way(kind, hostile):
    with pytest.raises(UserError, match="cannot read '"):
        load(str(hostile(kind, ".yaml")))
    with pytest.raises(UserError, match="there is no plugin file '|cannot read '"):
        Registry([hostile(kind, ".py")])


def test_a_suite_whose_name_no_result_can_bear_is_refused(tmp_path):
    path = os.fsdecode(os.fsencode(tmp_path) + b"/\xff.yaml")
    with open(path, "w") as file:
        file.write("title: a\n")
    with pytest.raises(UserError, match="results are named after the suite file"):
        load(path)


PLUGIN = """\
from dataclasses import dataclass
from oodbench import Scorer

@dataclass
class Mine(Scorer):
    k: int = 1
"""


@pytest.mark.parametrize(
    "text",
    [PLUGIN.replace("= 1", "= 0x" + "f" * 5_000), PLUGIN.replace("= 1", "= " + "9" * 5_000)]
    + [PLUGIN.replace("int", f"'{'(' * 5_000}int{')' * 5_000}'"), PLUGIN.replace("= 1", "= " + "-" * 100_000 + "1")]
    + ["x = " + "(" * 5_000],
)
def test_a_plugin_with_absurd_values_is_told(text, tmp_path):
    (tmp_path / "mine.py").write_text(text)
    with pytest.raises(UserError) as caught:
        Registry([tmp_path / "mine.py"])
    assert str(caught.value).startswith((f"{tmp_path}/mine.py:", f"'{tmp_path}/mine.py'"))


def test_a_home_folder_that_nobody_knows_is_told():
    with pytest.raises(UserError, match="nobody knows the home folder in '~nosuchuser/x'; write the path out"):
        user_path("~nosuchuser/x")


SUITE = {
    ("epochs: 45", "epochs: 1000000000000000000"): "expected 1,000,000,000 or fewer, got 1000000000000000000",
    ("batch_size: 64", "batch_size: 1000000000000"): "expected 1,000,000 or fewer, got 1000000000000",
    ("id_validation: 0.2", "labelled: 1e300"): "'splits.labelled': expected a share between 0 and 1, got 1e+300",
    ("corruptions: digits_c", "corruptions: digits_c\ncpu_threads: 100000"): "100000 is too many; choose 1024 or fewer",
    ("settings:", "search: {recipe.lr: '" + "9" * 5_000 + " * int 2**U(1,3)'}\nsettings:"): "is not a distribution",
}


@pytest.mark.parametrize(("change", "message"), SUITE.items(), ids=lambda each: each[1][:20])
def test_numbers_beyond_sense_are_refused_in_a_suite(change, message, tmp_path):
    text = load("digits-c").path.read_text()
    assert change[0] in text
    (tmp_path / "mine.yaml").write_text(text.replace(*change, 1))
    with pytest.raises(UserError) as caught:
        load(str(tmp_path / "mine.yaml"))
    assert message in str(caught.value)


def test_a_suite_may_have_more_threads_than_this_machine_has_cores():
    assert load("digits-c").with_threads(1024).threads == 1024
    with pytest.raises(UserError, match="--cpu-threads 1025 is too many; choose 1024 or fewer"):
        load("digits-c").with_threads(1025)
