"""Matrix of messages, of which only cells that are not 0 are kept, its four tables, and its heat map.

The heat map is as large for any number of ranks.
"""

from __future__ import annotations

import base64
import struct
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import numpy.typing as npt

from chimbuko.core.arrays import UInt64Array
from chimbuko.core.names import visible
from chimbuko.core.traceschema import COMM_PARTNER, COMM_RANK, COMM_SIZE, COMM_TYPE
from chimbuko.core.units import number_of

MOST_RANKS = 1 << 20
"""A rank beyond it is damage, or a wildcard."""


@dataclass
class Cells:
    """One direction: messages and bytes by (rank, partner)."""

    counts: dict[tuple[int, int], int] = field(default_factory=dict)
    sizes_bytes: dict[tuple[int, int], int] = field(default_factory=dict)

    def add(self, ranks: UInt64Array, partners: UInt64Array, sizes_bytes: UInt64Array) -> None:
        """Count messages: of each its rank, its partner and its size."""
        keys, places, counts = np.unique(
            ranks * np.uint64(MOST_RANKS) + partners, return_inverse=True, return_counts=True
        )
        sizes = np.zeros(len(keys), np.uint64)
        np.add.at(sizes, places, sizes_bytes)
        for key, count, size in zip(keys.tolist(), counts.tolist(), sizes.tolist(), strict=True):
            cell = divmod(key, MOST_RANKS)
            self.counts[cell] = self.counts.get(cell, 0) + count
            self.sizes_bytes[cell] = self.sizes_bytes.get(cell, 0) + size

    def put(self, cell: tuple[int, int], count: int, size_bytes: int) -> None:
        """Set the messages and bytes of (rank, partner); none are not kept."""
        if count:
            self.counts[cell], self.sizes_bytes[cell] = count, size_bytes


@dataclass
class MessageMatrix:
    """Messages of one program, as the senders and as the receivers have counted them."""

    sent: Cells = field(default_factory=Cells)
    received: Cells = field(default_factory=Cells)
    ranks: int = 0
    """Number of ranks, by the highest one that was seen."""
    left_out: int = 0
    """Rows whose rank or partner is none."""

    def add(self, comms: UInt64Array, send: int, receive: int) -> None:
        """Count the messages of a step.

        Parameters
        ----------
        comms
            (N, 8), columns ``COMM_...``.
        send, receive
            Numbers of these two events in the stream.
        """
        if not len(comms):
            return
        possible = (comms[:, COMM_RANK] < MOST_RANKS) & (comms[:, COMM_PARTNER] < MOST_RANKS)
        self.left_out += int(np.count_nonzero(~possible))
        rows = comms[possible]
        for cells, kind in ((self.sent, send), (self.received, receive)):
            own = rows[rows[:, COMM_TYPE] == kind]
            cells.add(own[:, COMM_RANK], own[:, COMM_PARTNER], own[:, COMM_SIZE])
        if len(rows):
            highest = int(max(rows[:, COMM_RANK].max(), rows[:, COMM_PARTNER].max()))
            self.ranks = max(self.ranks, highest + 1)


MOST_SQUARE = 2000
"""Most ranks in a square table: with more, tables hold only the cells that are not 0, as 10,000 ranks would
take 200 MB.
"""
MOST_BINS = 500
"""Cells of the heat map on each side; with more ranks several share one."""
SIDE_PX = 600


def write_all(found: Mapping[str, MessageMatrix], folder: Path) -> Iterator[str]:
    """Write the files of each program; what they hold and where they are, as lines."""
    for program, matrix in sorted(found.items()):
        written = write(matrix, folder, f"{program}." if len(found) > 1 else "")
        yield (
            f"{visible(program)}: {number_of(sum(matrix.sent.counts.values()), 'messages')}, "
            f"{sum(matrix.sent.sizes_bytes.values()):,} bytes between {number_of(matrix.ranks, 'ranks')}"
        )
        yield from (f"  {visible(str(path))}" for path in written)
        if matrix.left_out:
            yield f"  left out: {number_of(matrix.left_out, 'rows')} with a partner that is no rank"


def write(matrix: MessageMatrix, folder: Path, prefix: str = "") -> list[Path]:
    """Write ``sent|recv.count|bytes.nxn.heatmap.csv``, named as ZeroSum does, and ``sent.bytes.heatmap.svg``.

    Beyond 2,000 ranks the tables have a line for each cell that is not 0, and ``cells`` for ``nxn``.
    """
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    for direction, cells in (("sent", matrix.sent), ("recv", matrix.received)):
        for what, values in (("count", cells.counts), ("bytes", cells.sizes_bytes)):
            form = "nxn" if matrix.ranks <= MOST_SQUARE else "cells"
            path = folder / f"{prefix}{direction}.{what}.{form}.heatmap.csv"
            with open(path, "w", encoding="utf-8") as file:
                file.writelines(_square(values, matrix.ranks) if form == "nxn" else _cells(values))
            written.append(path)
    picture = folder / f"{prefix}sent.bytes.heatmap.svg"
    picture.write_text(heat_map(matrix.sent.sizes_bytes, matrix.ranks), encoding="utf-8")
    return [*written, picture]


def _square(values: Mapping[tuple[int, int], int], ranks: int) -> Iterator[str]:
    by_rank: dict[int, dict[int, int]] = {}
    for (rank, partner), value in values.items():
        by_rank.setdefault(rank, {})[partner] = value
    for rank in range(ranks):
        row = by_rank.get(rank, {})
        yield ",".join(str(row.get(partner, 0)) for partner in range(ranks)) + "\n"


def _cells(values: Mapping[tuple[int, int], int]) -> Iterator[str]:
    yield "rank,partner,value\n"
    for (rank, partner), value in sorted(values.items()):
        yield f"{rank},{partner},{value}\n"


def binned(values: Mapping[tuple[int, int], int], ranks: int) -> npt.NDArray[np.float64]:
    """Sums, f8[bins, bins], of as many ranks each as needed for at most 500 bins."""
    bins = max(1, min(ranks, MOST_BINS))
    sums = np.zeros((bins, bins))
    if values:
        cells = np.array(list(values), np.int64) * bins // ranks
        np.add.at(sums, (cells[:, 0], cells[:, 1]), np.array(list(values.values()), np.float64))
    return sums


def heat_map(values: Mapping[tuple[int, int], int], ranks: int) -> str:
    """Return a picture as SVG: senders from top to bottom, receivers from left to right, bytes as a
    logarithm.
    """
    sums = binned(values, ranks)
    most = sums.max(initial=0.0)
    shades = np.zeros(sums.shape)
    if most > 0:
        # What is not 0 is never white.
        shades = np.where(sums > 0, 0.15 + 0.85 * np.log1p(sums) / np.log1p(most), 0.0)
    data = base64.b64encode(_png(shades)).decode()
    each = f", {-(-ranks // len(sums))} ranks a cell" if ranks > len(sums) else ""
    left, top = 60, 40
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{SIDE_PX + 80}" height="{SIDE_PX + 80}" '
        'font-family="sans-serif" font-size="13">\n'
        f'<text x="{left}" y="20">Bytes sent between {ranks} ranks{each}; darkest {most:.4g} bytes</text>\n'
        f'<image x="{left}" y="{top}" width="{SIDE_PX}" height="{SIDE_PX}" '
        f'style="image-rendering:pixelated" href="data:image/png;base64,{data}"/>\n'
        f'<rect x="{left}" y="{top}" width="{SIDE_PX}" height="{SIDE_PX}" fill="none" stroke="#666"/>\n'
        f'<text x="{left}" y="{top + SIDE_PX + 20}">receiver 0 to {ranks - 1}</text>\n'
        f'<text transform="translate({left - 12} {top + SIDE_PX}) rotate(-90)">sender 0 to {ranks - 1}, '
        "from the top</text>\n</svg>\n"
    )


def _png(shades: npt.NDArray[np.float64]) -> bytes:
    """Shades from 0 (white) to 1 (dark blue) as an image of one pixel each."""
    ends = np.array([[255, 255, 255], [8, 48, 107]], np.float64)
    pixels = (ends[0] + shades[:, :, None] * (ends[1] - ends[0])).round().astype(np.uint8)
    height, width = shades.shape
    lines = b"".join(b"\0" + line.tobytes() for line in pixels)
    parts = (
        (b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)),
        (b"IDAT", zlib.compress(lines)),
        (b"IEND", b""),
    )
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        for kind, data in parts
    )
