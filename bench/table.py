"""Markdown tables."""

from __future__ import annotations


class Table:
    """A table whose first column is text and whose others are figures."""

    def __init__(self, *heads: str) -> None:
        self._lines = [_line(heads), "|---|" + "--:|" * (len(heads) - 1)]

    def row(self, *cells: str) -> None:
        self._lines.append(_line(cells))

    def __str__(self) -> str:
        return "\n".join(self._lines) + "\n"


def _line(cells: tuple[str, ...]) -> str:
    return "| " + " | ".join(cells) + " |"
