"""Messages of single ranks: as the recorder's library has counted them, and as tables that are put together.

Each rank has a table of its own, since the monitors of several nodes do not know each other.
"""

from __future__ import annotations

import csv
import os
import re
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from chimbuko.core.errors import ConfigError, TraceFormatError
from chimbuko.core.files import write_atomically
from chimbuko.core.units import number_of
from chimbuko.instrument.recorder.layout import COUNTS, COUNTS_MAGIC, TRAFFIC, VERSION
from chimbuko.monitor.report.matrix import MOST_RANKS, MessageMatrix

COLUMNS = ("rank", "ranks", "partner", "sent_count", "sent_bytes", "recv_count", "recv_bytes")
SUFFIX = ".counts"
_NAME = re.compile(r"messages\.(?P<program>.+)\.\d+\.csv", re.DOTALL)


@dataclass
class RankMessages:
    """Messages of one rank of a program."""

    program: str
    rank: int
    ranks: int
    """Number of ranks."""
    partners: dict[int, tuple[int, int, int, int]] = field(default_factory=dict)
    """Messages and bytes sent to each rank, and messages and bytes received from it, by rank."""
    left_out: int = 0
    """Messages with processes that are none of these ranks."""

    def and_also(self, other: RankMessages) -> RankMessages:
        """Return the sum with the messages of another process of the same rank, as of a program that a script
        runs twice.
        """
        both = dict(self.partners)
        for partner, counts in other.partners.items():
            first, second, third, fourth = both.get(partner, (0, 0, 0, 0))
            both[partner] = (first + counts[0], second + counts[1], third + counts[2], fourth + counts[3])
        ranks, left_out = max(self.ranks, other.ranks), self.left_out + other.left_out
        return RankMessages(self.program, self.rank, ranks, both, left_out)


def read_counts(path: Path) -> RankMessages:
    """Return what the library has counted in one process.

    Raises
    ------
    TraceFormatError
        The file is damaged, or another version's.
    """
    try:
        data = path.read_bytes()
    except OSError as error:
        raise TraceFormatError(f"{path}: not readable ({error.strerror})") from error
    if len(data) < COUNTS.itemsize:
        raise TraceFormatError(f"{path}: damaged: it is too short")
    head = np.frombuffer(data, COUNTS, 1)[0]
    rank, ranks = int(head["world_rank"]), int(head["world_size"])
    is_ours = head["magic"] == COUNTS_MAGIC and head["version"] == VERSION
    if not is_ours or not 0 <= rank < ranks < MOST_RANKS or len(data) < size_of(ranks):
        raise TraceFormatError(f"{path}: damaged, or of another version of Chimbuko")
    traffic = np.frombuffer(data, TRAFFIC, ranks, COUNTS.itemsize)
    some = np.flatnonzero(traffic["sent_count"] | traffic["received_count"])
    return RankMessages(
        program=os.path.basename(bytes(head["executable"]).decode(errors="replace")) or "program",
        rank=rank,
        ranks=ranks,
        partners=dict(zip(some.tolist(), traffic[some].tolist(), strict=True)),
        left_out=int(head["left_out"]),
    )


def size_of(ranks: int) -> int:
    """Return the bytes of a file of counts."""
    return int(COUNTS.itemsize + ranks * TRAFFIC.itemsize)


def collected(place: Path) -> tuple[list[RankMessages], list[str]]:
    """Return all ranks that were counted into a place; what is not in them, as sentences."""
    found: dict[tuple[str, int], RankMessages] = {}
    complaints = []
    for path in sorted(place.glob(f"[!.]*{SUFFIX}")):
        try:
            one = read_counts(path)
        except TraceFormatError as error:
            complaints.append(str(error))
            continue
        before = found.get((one.program, one.rank))
        found[one.program, one.rank] = one if before is None else before.and_also(one)
    complaints += [
        f"{one.program}, rank {one.rank}: {number_of(one.left_out, 'messages')} not counted, "
        "with processes that are none of its ranks"
        for one in found.values()
        if one.left_out
    ]
    return list(found.values()), complaints


def write_rank_table(one: RankMessages, folder: Path) -> Path:
    """Write ``messages.PROGRAM.RANK.csv``; of a rank without messages it has a line of zeros."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"messages.{one.program}.{one.rank}.csv"
    partners = one.partners or {one.rank: (0, 0, 0, 0)}
    rows = [COLUMNS, *((one.rank, one.ranks, partner, *partners[partner]) for partner in sorted(partners))]
    text = "".join(",".join(map(str, row)) + "\n" for row in rows)
    write_atomically(path, text.encode())
    return path


def read_rank_tables(folder: Path) -> tuple[dict[str, MessageMatrix], list[str]]:
    """Read the matrix of each program that has tables; return also the names of tables that are missing.

    Raises
    ------
    ConfigError
        A table is damaged.
    """
    found, complaints = {}, []
    for program, paths in rank_tables(folder).items():
        matrix = found[program] = _joined(paths)
        if len(paths) < matrix.ranks:
            complaints.append(f"{program}: {len(paths)} of {matrix.ranks} ranks have been counted so far")
    return found, complaints


def rank_tables(folder: Path) -> dict[str, list[Path]]:
    """Return the tables that there are, by program."""
    by_program: defaultdict[str, list[Path]] = defaultdict(list)
    for path in sorted(folder.glob("messages.*.csv")):
        if (named := _NAME.fullmatch(path.name)) is not None:
            by_program[named["program"]].append(path)
    return dict(by_program)


def _joined(paths: Iterable[Path]) -> MessageMatrix:
    matrix = MessageMatrix()
    for path in paths:
        try:
            with open(path, newline="", encoding="utf-8") as file:
                lines = csv.reader(file)
                if tuple(next(lines, ())) != COLUMNS:
                    raise ValueError("other columns")
                for words in lines:
                    rank, ranks, partner, *counts = map(int, words)
                    matrix.ranks = max(matrix.ranks, ranks)
                    matrix.sent.put((rank, partner), *counts[:2])
                    matrix.received.put((rank, partner), *counts[2:])
        except (OSError, ValueError, TypeError, csv.Error) as error:
            raise ConfigError(f"{path}: not a table of a rank's messages ({error}); remove it") from error
    return matrix
