"""What is said while a network is scored: a line in a while, on a terminal one that moves."""

from oodbench.cli.progress import Lines, Terminal


def test_a_log_has_a_line_only_after_a_while(capsys):
    lines = Lines()
    lines.scoring("4,000 images through the network", 0.25)
    assert capsys.readouterr().out == ""
    lines.last -= 11
    lines.scoring("4,000 images through the network", 0.5)
    lines.scoring("4,000 images through the network", 0.51)
    assert capsys.readouterr().out == "  4,000 images through the network: 50 %\n"


def test_a_terminal_has_one_line_that_moves(capsys):
    terminal = Terminal()
    terminal.scoring("3 scorers on 10 images", 0.0)
    terminal.scoring("3 scorers on 10 images", 1 / 3)
    shown = capsys.readouterr().out
    assert shown.count("\r\x1b[2K") == 2 and "\n" not in shown and shown.endswith("3 scorers on 10 images: 33 %")
    terminal.note("done")
    assert capsys.readouterr().out == "\r\x1b[2Kdone\n"
