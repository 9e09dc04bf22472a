"""Matrices of messages."""

from __future__ import annotations

import base64
import struct
import subprocess
import sys
import zlib
from collections import Counter
from pathlib import Path

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from chimbuko.capture.trace.writer import StreamWriter
from chimbuko.core.traceschema import COMM_COLUMNS, COMM_PARTNER, COMM_RANK, COMM_SIZE, COMM_TYPE, StreamNames
from chimbuko.monitor.report.matrix import MOST_BINS, MOST_RANKS, MessageMatrix, binned, heat_map, write
from tests.patience import PATIENCE_S

SEND, RECV = 2, 3
ROWS = st.lists(
    st.tuples(st.integers(0, 5), st.sampled_from((SEND, RECV, 9)), st.integers(0, 5), st.integers(0, 1 << 40))
)


def comms(rows: list[tuple[int, int, int, int]]) -> np.ndarray:
    """(rank, kind, partner, bytes) each."""
    made = np.zeros((len(rows), COMM_COLUMNS), np.uint64)
    for at, row in enumerate(rows):
        made[at, [COMM_RANK, COMM_TYPE, COMM_PARTNER, COMM_SIZE]] = row
    return made


def ring(ranks: int, times: int = 3) -> list[tuple[int, int, int, int]]:
    return [(rank, SEND, (rank + 1) % ranks, 100) for rank in range(ranks) for _ in range(times)] + [
        (rank, RECV, (rank - 1) % ranks, 100) for rank in range(ranks) for _ in range(times)
    ]


@given(st.lists(ROWS, max_size=4))
def test_each_cell_counts_its_messages(steps: list[list[tuple[int, int, int, int]]]) -> None:
    matrix = MessageMatrix()
    for rows in steps:
        matrix.add(comms(rows), SEND, RECV)
    flat = [row for rows in steps for row in rows]
    for cells, kind in ((matrix.sent, SEND), (matrix.received, RECV)):
        own = [row for row in flat if row[1] == kind]
        assert cells.counts == Counter((rank, partner) for rank, _, partner, _ in own)
        sizes: Counter[tuple[int, int]] = Counter()
        for rank, _, partner, size in own:
            sizes[rank, partner] += size
        assert cells.sizes_bytes == dict(sizes)


def test_a_ring_has_only_the_diagonals_beside_the_main_one(tmp_path: Path) -> None:
    matrix = MessageMatrix()
    matrix.add(comms(ring(8)), SEND, RECV)
    written = write(matrix, tmp_path)
    assert [path.name for path in written[:4]] == [
        "sent.count.nxn.heatmap.csv",
        "sent.bytes.nxn.heatmap.csv",
        "recv.count.nxn.heatmap.csv",
        "recv.bytes.nxn.heatmap.csv",
    ]
    sent, received = (np.loadtxt(written[at], delimiter=",") for at in (0, 3))
    assert (sent == 3 * np.roll(np.eye(8), 1, axis=1)).all()
    assert (received == 300 * np.roll(np.eye(8), -1, axis=1)).all()


def test_ten_thousand_ranks_take_as_many_pixels_as_five_hundred(tmp_path: Path) -> None:
    matrix = MessageMatrix()
    matrix.add(comms(ring(10_000, 1)), SEND, RECV)
    sums = binned(matrix.sent.sizes_bytes, matrix.ranks)
    assert sums.shape == (MOST_BINS, MOST_BINS)
    assert sums.sum() == 10_000 * 100
    assert np.count_nonzero(sums) == 2 * MOST_BINS
    picture = heat_map(matrix.sent.sizes_bytes, matrix.ranks)
    assert "20 ranks a cell" in picture and len(picture) < 100_000
    image = base64.b64decode(picture.partition("base64,")[2].partition('"')[0])
    assert struct.unpack(">II", image[16:24]) == (MOST_BINS, MOST_BINS)
    at = image.index(b"IDAT")
    (length,) = struct.unpack(">I", image[at - 4 : at])
    assert len(zlib.decompress(image[at + 4 : at + 4 + length])) == MOST_BINS * (1 + 3 * MOST_BINS)
    (path, *_) = write(matrix, tmp_path)
    assert path.name == "sent.count.cells.heatmap.csv"
    assert path.read_text().splitlines()[:2] == ["rank,partner,value", "0,1,1"]


def test_no_messages() -> None:
    assert "0 bytes" in heat_map({}, 4)


def test_wildcards_and_damage_are_left_out() -> None:
    matrix = MessageMatrix()
    matrix.add(comms([(0, SEND, MOST_RANKS, 1), (0, SEND, 1, 1)]), SEND, RECV)
    assert (matrix.left_out, matrix.ranks, matrix.sent.counts) == (1, 2, {(0, 1): 1})


def test_from_the_command_line(tmp_path: Path) -> None:
    """With numbers of events that are the stream's own."""
    names = StreamNames(event_types={0: "ENTRY", 1: "EXIT", 7: "SEND", 8: "RECV"})
    empty = np.empty((0, 6), np.uint64)
    for rank in range(3):
        with StreamWriter(tmp_path / f"tau-metrics-app-{rank}.bp") as writer:
            for _ in range(2):
                rows = [(rank, 7, (rank + 1) % 3, 10), (rank, 8, (rank - 1) % 3, 10)]
                writer.write_step(empty, comms(rows), empty, names)
    done = subprocess.run(
        [
            *(sys.executable, "-m", "chimbuko", "monitor"),
            *("--messages", str(tmp_path / "*.bp"), "--csv", str(tmp_path / "out")),
        ],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
    )
    assert done.returncode == 0, done.stderr
    assert "app: 6 messages, 60 bytes between 3 ranks" in done.stdout
    assert (tmp_path / "out" / "sent.bytes.nxn.heatmap.csv").read_text() == "0,20,0\n0,0,20\n20,0,0\n"
