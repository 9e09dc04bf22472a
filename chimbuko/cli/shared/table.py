"""Headings and aligned tables on standard output.

Answers as JSON on standard output.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import click
import msgspec

from chimbuko.core.names import escaped_json, visible

if TYPE_CHECKING:
    from rich.console import Console


def print_json(value: Any, enc_hook: Callable[[Any], Any] | None = None) -> None:
    """Print a value, indented, on a terminal as in a file.

    Parameters
    ----------
    enc_hook
        Makes something that JSON has of what it has not.
    """
    text = msgspec.json.format(msgspec.json.encode(value, enc_hook=enc_hook)).decode()
    click.echo(escaped_json(text))


MARK = "▲"
"""Stands beside what is abnormal, so that colour says nothing that is not written."""

LEAST_WIDTH = 16
"""Characters that a column keeps at least when it is cut short."""


class Column(msgspec.Struct, frozen=True):
    """Title of a column, and how its cells stand."""

    title: str
    is_number: bool = False
    """Aligned to the right."""
    may_shrink: bool = False
    """Cut short where the terminal is too narrow; all others are shown whole."""


class Output:
    """Standard output: styled and fitted to the width on a terminal, plain and whole into a file or pipe."""

    def __init__(self) -> None:
        # It takes 0.05 s to load, and adds nothing to a file.
        self._console = _console() if sys.stdout.isatty() or os.environ.get("FORCE_COLOR") else None

    def line(self, text: str = "", style: str = "") -> None:
        """Print a line, which is never broken."""
        if self._console is None:
            click.echo(visible(text))
            return
        from rich.text import Text

        self._console.print(Text(visible(text), style=style), soft_wrap=True)

    def heading(self, text: str) -> None:
        """Print the title of the next part, after an empty line."""
        self.line()
        self.line(text, "bold")

    def table(self, columns: Sequence[Column], rows: Sequence[Sequence[str]]) -> None:
        """Print rows under their titles; one with a ``▲`` is coloured, too."""
        width = self._console.width if self._console is not None and self._console.is_terminal else None
        titles, *lines = aligned(columns, rows, width)
        self.line(titles, "bold")
        for line in lines:
            self.line(line, "red" if MARK in line else "")


def _console() -> Console:
    from rich.console import Console

    return Console(highlight=False, markup=False, emoji=False)


def aligned(columns: Sequence[Column], rows: Sequence[Sequence[str]], width: int | None) -> list[str]:
    """Titles and rows as lines, columns two blanks apart, within ``width`` if that is possible."""
    from rich.cells import cell_len

    lines = [[column.title for column in columns], *([visible(cell) for cell in row] for row in rows)]
    widths = [max(cell_len(line[at]) for line in lines) for at in range(len(columns))]
    if width is not None:
        excess = sum(widths) + 2 * (len(widths) - 1) - width
        for at, column in enumerate(columns):
            if column.may_shrink and excess > 0:
                widths[at] = max(min(LEAST_WIDTH, widths[at]), widths[at] - excess)
    return [
        "  ".join(_fitted(*cell) for cell in zip(line, widths, columns, strict=True)).rstrip()
        for line in lines
    ]


def _fitted(cell: str, width: int, column: Column) -> str:
    from rich.cells import cell_len, set_cell_size

    if cell_len(cell) > width:
        return set_cell_size(cell, width - 1) + "…"
    blanks = " " * (width - cell_len(cell))
    return blanks + cell if column.is_number else cell + blanks
