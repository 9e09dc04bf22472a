"""Results as aligned text and as Markdown."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class ResultTable:
    """Cells under titles; all but the first column are numbers."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]

    def text(self) -> str:
        """For a terminal."""
        lines = [self.columns, *self.rows]
        widths = [max(len(line[at]) for line in lines) for at in range(len(self.columns))]
        aligned = [
            "  ".join(
                cell.ljust(width) if at == 0 else cell.rjust(width)
                for at, (cell, width) in enumerate(zip(line, widths, strict=True))
            )
            for line in lines
        ]
        return "\n".join([self.title, *(line.rstrip() for line in aligned)])

    def markdown(self) -> str:
        """For a document."""
        rule = ["---", *("---:" for _ in self.columns[1:])]
        lines = ["| " + " | ".join(line) + " |" for line in (self.columns, rule, *self.rows)]
        return "\n".join([f"**{self.title}**", "", *lines])


def number(value: float, decimals: int = 3) -> str:
    """A dash for what is not defined."""
    return "-" if value != value else f"{value:.{decimals}f}"
