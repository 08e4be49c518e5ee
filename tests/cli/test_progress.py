"""What is said while a network is scored: a line in a while, on a terminal one that moves."""

import pytest
from made_results import a_result

from oodbench.cli import progress
from oodbench.cli.progress import Lines, Terminal
from oodbench.running.reporting import left_out_line


def test_a_log_has_a_line_only_after_a_while(capsys, monkeypatch):
    lines = Lines()
    lines.begin(cells=1, workers=1)
    lines.scoring("4,000 images through the network", 0.25)
    assert capsys.readouterr().err == ""
    monkeypatch.setattr(progress, "EVERY", -1.0)
    lines.scoring("4,000 images through the network", 0.5)
    monkeypatch.setattr(progress, "EVERY", 10.0)
    lines.scoring("4,000 images through the network", 0.51)
    assert capsys.readouterr() == ("", "  4,000 images through the network: 50 %\n")


def test_a_terminal_has_a_view_that_moves_below_the_lines_that_stay(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "60")
    terminal = Terminal()
    terminal.begin(cells=3, workers=1)
    terminal.scoring("3 scorers on 10 images", 1 / 3)
    assert str(terminal._view()) == "0 of 3 cells\n  3 scorers on 10 images: 33 %"
    terminal.note("done")
    terminal.end()
    shown = capsys.readouterr()
    assert "done\n" in shown.err and shown.out == ""


@pytest.mark.parametrize("kind", [Lines, Terminal])
def test_without_a_line_for_each_result_only_failures_get_one(kind, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    shown = kind(each_result=False)
    shown.begin(cells=2, workers=1)
    shown.result(a_result(method="msp"))
    shown.result(a_result(method="knn", status="failed", error="no memory"))
    assert shown.done == 2
    shown.end()
    out, err = capsys.readouterr()
    assert out == "" and "msp" not in err
    assert "unseen-digits / knn / seed 0: FAILED: no memory\n" in err


def test_what_is_left_out_is_one_line_that_gathers_names_by_reason():
    assert left_out_line({"mine": "needs wild data"}) == "left out: mine needs wild data"
    reasons = {"coral": "needs environments", "gram": "needs maps", "dann": "needs environments"}
    assert left_out_line(reasons) == "left out: coral, dann (needs environments); gram (needs maps)"


def test_a_download_is_a_bar_on_a_terminal_that_goes_before_lines_come(capsys, monkeypatch):
    monkeypatch.setattr(progress, "_moves", lambda: True)
    monkeypatch.setenv("COLUMNS", "100")
    said = []
    heard = progress.downloads(said.append)
    heard.progress(30_000_000, 120_000_000)
    shown = capsys.readouterr()
    assert shown.out == "" and shown.err == "\r  [######..................]  25 %  30 of 120 MB\x1b[K"
    heard.tell("broke off")
    heard.tell("try again")
    assert capsys.readouterr().err == "\r\x1b[K" and said == ["broke off", "try again"]
    heard.progress(119_000_000, 120_000_000)
    heard.progress(120_000_000, 120_000_000)
    assert capsys.readouterr().err.endswith("\r\x1b[K")


def test_a_bar_says_how_fast_a_file_comes_and_how_long_it_will_take():
    bar = progress.DownloadBar()
    assert bar.line(50_000_000, 100_000_000, 10.0).endswith("50 %  50 of 100 MB, 5.0 MB/s, about 10 s left")
    assert bar.line(50_000_000, None, 10.0) == "50 MB, 5.0 MB/s"


def test_a_download_into_a_log_has_no_bar(capsys, monkeypatch):
    monkeypatch.setattr(progress, "_moves", lambda: False)
    progress.downloads(print).progress(1, 2)
    assert capsys.readouterr() == ("", "")
