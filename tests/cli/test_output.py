"""What is printed, where standard output and error cannot take it: another encoding, a full disk, closed, no screen."""

import contextlib
import errno
import io
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from command_line import Outcome, assert_done, assert_refused, on_screen, oodbench, smoke
from made_results import a_result

from oodbench.cli import COMMANDS, main
from oodbench.cli.output import encodable, escaped, guarded
from oodbench.cli.progress import DownloadBar, Terminal
from oodbench.results.folder import read_folder
from oodbench.results.stored import write

REFERENCE = Path(__file__).parents[2] / "results" / "reference"
FULL = "cannot write to standard output: No space left on device; "
CLOSED = "cannot write to standard output: it is closed; "
PLUGIN = '''
from oodbench.methods.erm import ERM

class Mine(ERM):
    """As ERM."""
'''


class Device(io.RawIOBase):
    """Takes bytes until some of them are `last`, and then has no space left."""

    def __init__(self, last=None):
        self.taken, self.last = b"", last

    def writable(self):
        return True

    def write(self, data):
        if self.last is not None and self.last in bytes(data):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        self.taken += bytes(data)
        return len(data)


def printed(encoding, *arguments, last=None):
    """`oodbench ARGUMENTS` where standard output has this encoding, and is full when `last` comes."""
    device, err = Device(last), io.StringIO()
    out = io.TextIOWrapper(io.BufferedWriter(device), encoding=encoding)
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        status = main([str(argument) for argument in arguments])
    device.last = None  # what still waits is written when `out` goes
    return Outcome(status, device.taken.decode(encoding), err.getvalue())


def shell(redirections, *arguments):
    """`oodbench ARGUMENTS` in a process of its own, whose streams a shell has redirected."""
    command = ["sh", "-c", f'exec "$@" {redirections}', "sh", sys.executable, "-m", "oodbench", *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    return Outcome(done.returncode, done.stdout, done.stderr)


@pytest.fixture
def folder(tmp_path):
    """Two results, of which one has an error to be shown."""
    metrics = {"covariate_acc": 0.5, "id_acc": 0.9, "fpr95": 0.25, "auroc": 0.75}
    for method in ("msp", "knn"):
        for seed, auroc in enumerate((0.7, 0.8) if method == "msp" else (0.1234,)):
            result = a_result(method=method, seed=seed, metrics={**metrics, "auroc": auroc})
            write(result, tmp_path / "results" / method / f"{seed}.json", {}, [])
    return tmp_path / "results"


@pytest.mark.parametrize(
    ("text", "encoding", "shown"),
    [
        ("AUROC ↑, FPR ↓", "ascii", "AUROC ^, FPR v"),
        ("69.52 ±  4.44", "ascii", "69.52+/- 4.44"),
        ("±: half of −1–2 × 3", "ascii", "+/-: half of -1-2 x 3"),
        ("±: half of −1–2 × 3", "latin-1", "±: half of -1-2 × 3"),
        ("a → b, ≤ “c’…", "ascii", "a -> b, <= \"c'..."),
        ("Schölkopf, Łukasz", "ascii", "Scholkopf, \\u0141ukasz"),
        ("Scho\u0308lkopf, R²", "ascii", "Scholkopf, R2"),
        ("b\udcffd ↑", "utf-8", "b\\xffd ↑"),
        ("b\udcffd ÿ", "latin-1", "b\\xffd ÿ"),
        ("網", "ascii", "\\u7db2"),
        ("↑ ± ö", "utf-8", "↑ ± ö"),
    ],
)
def test_what_an_encoding_lacks_is_shown_in_ascii(text, encoding, shown):
    assert encodable(text, encoding) == shown
    assert shown.encode(encoding)


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "cp437"])
def test_the_columns_of_a_table_stay_in_line(folder, encoding):
    rows = assert_done(oodbench("table", folder, "--format", "text")).partition("In percent")[0].splitlines()
    assert any(" ± " in row for row in rows) and any("↑" in row for row in rows)
    shown = assert_done(printed(encoding, "table", folder, "--format", "text")).splitlines()
    assert [len(row) for row in shown[: len(rows)]] == [len(row) for row in rows]
    assert not any("↑" in row or "\\" in row for row in shown)


@pytest.mark.parametrize("encoding", ["ascii", "latin-1"])
@pytest.mark.parametrize(
    "arguments", [("table", REFERENCE / "digits-c"), ("list",), ("show", "scone"), ("show", "cifar10-c")]
)
def test_all_that_we_ship_is_shown_in_ascii_without_numbers_for_letters(arguments, encoding):
    assert not re.search(r"\\[xuU]", assert_done(printed(encoding, *arguments)))


def test_a_run_shows_its_table_in_ascii_and_writes_it_in_utf_8(tmp_path):
    arguments = ["run", "--suite", "digits-c", "--preset", "smoke", "--methods", "msp", "--results", tmp_path]
    out = assert_done(printed("ascii", *arguments))
    assert "AUROC ^" in out and "+/-" in out
    assert "AUROC ↑" in (tmp_path / "digits-c-smoke" / "table.md").read_text(encoding="utf-8")


def test_a_file_name_that_is_no_text_is_shown_by_its_bytes(folder):
    strange = folder.rename(folder.with_name(os.fsdecode(b"b\xffd")))
    (strange / os.fsdecode(b"\xe9.json")).write_text("{")
    outcome = printed("utf-8", "status", strange)
    assert outcome.status == 0 and "b\\xffd: 3 done, " in outcome.out
    done = shell("", "table", strange)  # whose standard error has an encoding too
    assert done.status == 0 and "b\\xffd/\\xe9.json: truncated, or not JSON\n" in done.err


@pytest.mark.parametrize("arguments", [(), ("--version",), ("table", "--help"), ("list",)], ids=" ".join)
def test_output_that_is_lost_is_an_error_in_one_line(arguments, monkeypatch):
    assert_refused(printed("utf-8", *arguments, last=b""), FULL)
    monkeypatch.setattr(sys, "stdout", None)  # as Python has it where a shell has closed it
    err = io.StringIO()
    with contextlib.redirect_stderr(err):
        status = main([*arguments])
    assert_refused(Outcome(status, "", err.getvalue()), CLOSED)


def test_so_it_is_in_a_process():
    assert_refused(shell("> /dev/full", "list"), FULL)
    assert_refused(shell(">&-", "--version"), CLOSED)


def test_what_closed_streams_would_have_said_goes_nowhere_else(tmp_path):
    assert shell("2>&-", "table", tmp_path) == (2, "", "")
    assert shell("2> /dev/full", "table", tmp_path) == (2, "", "")
    assert shell(">&- 2>&-", "list") == (2, "", "")
    assert "msp" in assert_done(shell("<&-", "list"))


def test_a_reader_of_the_help_may_go_away():
    child = subprocess.Popen([sys.executable, "-m", "oodbench"], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    child.stdout.close()
    assert child.stderr.read() == b""
    child.stderr.close()
    assert child.wait() == 0


@pytest.mark.parametrize("mine", [False, True], ids=["ours", "plugin"])
def test_a_run_whose_output_is_lost_fails_no_cell_and_says_what_is_stored(tmp_path, mine):
    plugin, results = tmp_path / "mine.py", tmp_path / "results"
    plugin.write_text(PLUGIN)
    methods = "mine" if mine else "msp"
    more = ("--plugin", plugin, "--setting", "unseen-digits")
    command = ("run", "--suite", "digits-c", "--preset", "smoke", "--methods", methods, "--results", results, *more)
    after = printed("utf-8", *command, last=b"AUROC")
    shows = f"results so far are stored: oodbench table {results} shows them, and the same command resumes"
    assert_refused(after, FULL + shows)
    assert [result.status for result in read_folder(results)[0]] == ["ok"]
    assert "nothing to do" in assert_done(smoke(results, methods, *more))


def test_a_run_without_output_does_not_begin(tmp_path):
    refused = shell(">&-", "run", "--suite", "digits-c", "--preset", "smoke", "--results", tmp_path / "results")
    assert_refused(refused, CLOSED + "send it somewhere")
    assert not (tmp_path / "results").exists()


def test_nothing_is_removed_that_could_not_be_shown(folder):
    assert_refused(printed("utf-8", "remove", folder, "--method", "msp", "--yes", last=b"msp"), FULL)
    assert len(read_folder(folder)[0]) == 3
    asked = shell("<&-", "remove", folder, "--method", "msp")
    assert asked.status == 2 and "there is no terminal to ask on; add --yes" in asked.err


def short_run(results):
    """What a short run shows on a terminal."""
    arguments = ("run", "--suite", "digits-c", "--preset", "smoke", "--methods", "msp", "--results", results)
    status, shown = on_screen(*arguments, "--setting", "unseen-digits")
    assert status == 0
    return shown


@pytest.mark.parametrize("kind", ["dumb", "unknown"])
def test_a_terminal_that_only_writes_gets_plain_lines(tmp_path, monkeypatch, kind):
    monkeypatch.setenv("TERM", kind)
    shown = short_run(tmp_path)
    assert "\x1b" not in shown and "\r" not in shown
    assert "[1/1] erm, seed 0\n  epoch 3/3, " in shown


def test_a_run_is_shown_on_a_terminal_of_one_column(tmp_path, monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "1")
    shown = short_run(tmp_path)
    assert "  unseen-digits / msp / seed 0: OOD Acc. " in shown


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("columns", ["1", "0", "-3", "12"])
def test_help_is_shown_in_any_width(command, columns, monkeypatch):
    monkeypatch.setenv("COLUMNS", columns)
    assert "--debug" in assert_done(oodbench(command, "--help"))


def test_a_plugin_that_closes_the_streams_takes_them_from_nobody(tmp_path):
    closing = "sys.stdout.close(); sys.stderr.close()"
    plugin = tmp_path / "closing.py"
    closes = f"    def train(self, model, data, loop):\n        import os, sys\n        {closing}\n"
    plugin.write_text(PLUGIN.replace("Mine", "Closing") + closes + "        super().train(model, data, loop)\n")
    arguments = ["run", "--suite", "digits-c", "--preset", "smoke", "--methods", "closing,msp"]
    command = [*arguments, "--setting", "unseen-digits", "--plugin", plugin, "--results", tmp_path / "results"]
    done = printed("utf-8", *command)
    assert "The same table: " in assert_done(done) and "Closing" in done.out


CLEARS = "\x1b[2J"  # the screen, in a terminal that obeys


@pytest.mark.parametrize(
    "words",
    [
        (CLEARS,),
        ("table", CLEARS),
        ("list", CLEARS),
        ("run", "--suite", CLEARS),
        ("run", "--set", f"knn.{CLEARS}=3"),
        ("run", "--request", "request.yaml"),
        ("verify", CLEARS),
        ("evaluate", "--arrays", "arrays.npz"),
        ("predict", CLEARS, "images"),
    ],
    ids=lambda words: " ".join(words).replace(CLEARS, "it"),
)
def test_no_word_of_anybody_s_commands_the_terminal(tmp_path, monkeypatch, words):
    monkeypatch.chdir(tmp_path)
    Path("request.yaml").write_text('"\\e[2Jkey": 1')
    np.savez("arrays.npz", **{f"{CLEARS}_logits": np.zeros((2, 2))})
    assert_refused(oodbench(*words), "\\x1b[2J")


def test_nor_does_a_file_of_defaults(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("oodbench.toml").write_text('"\\u001b[2Jkey" = 1')
    assert_refused(oodbench("list", "methods"), "\\x1b[2Jkey")


def test_what_turns_or_overwrites_a_line_is_escaped_and_letters_of_all_languages_are_not():
    letters = "naïve 猫 عربى שלום ‑ ½ \t\n"
    assert escaped(letters) == letters
    assert escaped("a\x07\x9b2J\u202eb\x7f\rc") == "a\\x07\\x9b2J\\u202eb\\x7f\\rc"
    assert escaped("\r 10%|#") == "\r 10%|#"  # a bar that a library draws


def test_a_line_that_moves_keeps_its_own_escapes_and_no_one_else_s(tmp_path, monkeypatch):
    screen, view = io.StringIO(), Terminal()
    screen.isatty = lambda: True
    monkeypatch.setenv("TERM", "xterm-256color")
    with contextlib.redirect_stderr(screen), guarded():
        view.begin(cells=1, workers=1)
        view.note(f"note {CLEARS}")
        view.scoring(f"scoring {CLEARS}", 0.5)
        print(f"printed \x9b2J{CLEARS}", file=sys.stderr)
        view.end()
    shown = screen.getvalue()
    assert "note \\x1b[2J" in shown and "scoring \\x1b[2J" in shown and "\x1b[?25l" in shown and "\x1b[2K" in shown
    assert CLEARS not in shown and "\x9b" not in shown


def test_a_bar_of_a_download_moves(monkeypatch):
    screen = io.StringIO()
    with contextlib.redirect_stderr(screen), guarded():
        bar = DownloadBar()
        bar(1_000_000, 4_000_000)
        bar.clear()
    assert screen.getvalue().startswith("\r  [######") and screen.getvalue().endswith("\x1b[K\r\x1b[K")
