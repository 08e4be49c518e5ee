"""Docstrings and comments, which are plain text, as Markdown."""

import re


def markdown(text: str) -> str:
    """The same paragraphs; what is indented by four spaces stays as it is, as code."""
    return "\n".join(line if line.startswith("    ") else escaped(line) for line in text.splitlines())


def cell(text: str) -> str:
    """The same for one cell of a table."""
    return escaped(" ".join(text.split())).replace("|", "\\|")


def escaped(line: str) -> str:
    """Characters that Markdown gives a meaning, save in quoted code."""
    pieces = re.split(r"(`[^`]*`)", line)
    return "".join(each if each.startswith("`") else re.sub(r"([*_\[\]<>\\])", r"\\\1", each) for each in pieces)


def code(value: object) -> str:
    """A value as quoted code, for a cell of a table."""
    return f"`{value}`".replace("|", "\\|")
