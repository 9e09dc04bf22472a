"""Files ``zs.data.RANK.csv`` of ZeroSum, and of ours in its columns, read into values."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from chimbuko.core.errors import ConfigError

COLUMNS = ("hostname", "rank", "shmrank", "step", "resource", "type", "index", "name", "value")


@dataclass(frozen=True)
class Value:
    """One line: a value of one thing at one step."""

    hostname: str
    rank: int
    shmrank: int
    """Among the ranks of the node."""
    step: int
    resource: str
    """``Node``, ``HWT``, ``GPU`` or ``LWP``."""
    type: str
    """``Property`` or ``Metric``."""
    index: str
    """Which one: of threads their number."""
    name: str
    value: str

    @property
    def number(self) -> float | None:
        """The value as a number, None where it is none."""
        try:
            return float(self.value)
        except ValueError:
            return None


def read_zerosum(path: Path) -> Iterator[Value]:
    """All lines of a file, in its order, which is not that of the steps. A last one that was cut off, as the
    program was killed, is left out.

    Raises
    ------
    ConfigError
        It cannot be read, or is not in ZeroSum's columns.
    """
    try:
        with open(path, newline="", encoding="utf-8-sig", errors="replace") as file:
            lines = csv.reader(line for line in file if line.endswith("\n"))
            if tuple(word.strip() for word in next(lines, [])) != COLUMNS:
                raise ConfigError(f"{path}: not ZeroSum's columns; give a file like zs.data.0.csv")
            for words in lines:
                if words:
                    yield _value(path, lines.line_num, words)
    except (OSError, csv.Error) as error:
        raise ConfigError(f"{path}: cannot be read ({error})") from error


def _value(path: Path, number: int, words: list[str]) -> Value:
    # Some versions write " Metric" with a blank before it.
    stripped = [word.strip() for word in words]
    if len(stripped) != len(COLUMNS):
        raise ConfigError(
            f"{path}:{number}: not a line of ZeroSum's ({len(stripped)} values in place of {len(COLUMNS)})"
        )
    host, rank, shmrank, step, resource, kind, index, name, value = stripped
    try:
        return Value(host, int(rank), int(shmrank), int(step), resource, kind, index, name, value)
    except ValueError as error:
        raise ConfigError(f"{path}:{number}: not a line of ZeroSum's ({error})") from error
