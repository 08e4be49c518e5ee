"""What is said while a network is scored: a line in a while, on a terminal one that moves."""

from oodbench.cli import progress
from oodbench.cli.progress import Lines, Terminal


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
