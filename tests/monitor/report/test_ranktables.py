"""Messages that the recorder's library has counted, rank by rank."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from chimbuko.core.errors import ConfigError
from chimbuko.instrument.recorder.layout import COUNTS, COUNTS_MAGIC, TRAFFIC, VERSION
from chimbuko.monitor.report.matrix import MessageMatrix
from chimbuko.monitor.report.preloaded import mpi_among
from chimbuko.monitor.report.ranktables import (
    COLUMNS,
    collected,
    read_rank_tables,
    size_of,
    write_rank_table,
)

COUNT = st.integers(0, 2**62)
RANKS = 3
TRAFFICS = st.lists(
    st.lists(st.tuples(COUNT, COUNT, COUNT, COUNT), min_size=RANKS, max_size=RANKS),
    min_size=RANKS,
    max_size=RANKS,
)


def write_counts(
    path: Path, rank: int, traffic: list[tuple[int, int, int, int]], program: str = "app", left_out: int = 0
) -> None:
    """As the library does."""
    head = np.zeros(1, COUNTS)
    head[0] = (COUNTS_MAGIC, VERSION, rank, len(traffic), 0, left_out, f"/bin/{program}".encode())
    path.write_bytes(head.tobytes() + np.array(traffic, TRAFFIC).tobytes())


@given(TRAFFICS)
def test_what_all_ranks_have_counted_is_the_matrix(traffics: list[list[tuple[int, int, int, int]]]) -> None:
    expected = MessageMatrix(ranks=RANKS)
    with tempfile.TemporaryDirectory() as folder:
        place, tables = Path(folder, "place"), Path(folder, "tables")
        place.mkdir()
        for rank, traffic in enumerate(traffics):
            write_counts(place / f"{rank}-1.counts", rank, traffic)
            for partner, (sent, sent_bytes, got, got_bytes) in enumerate(traffic):
                expected.sent.put((rank, partner), sent, sent_bytes)
                expected.received.put((rank, partner), got, got_bytes)
        found, complaints = collected(place)
        assert complaints == []
        for one in found:
            write_rank_table(one, tables)
        assert read_rank_tables(tables) == ({"app": expected}, [])


def test_processes_of_one_rank_add_up_and_programs_are_apart(tmp_path: Path) -> None:
    """A script may run a program twice, and then another one."""
    write_counts(tmp_path / "1-1.counts", 1, [(1, 10, 0, 0), (0, 0, 0, 0)])
    write_counts(tmp_path / "2-1.counts", 1, [(2, 20, 3, 30), (4, 40, 0, 0)])
    write_counts(tmp_path / "3-1.counts", 0, [(5, 50, 0, 0)], "other.x", left_out=2)
    found, complaints = collected(tmp_path)
    assert {(one.program, one.rank): one.partners for one in found} == {
        ("app", 1): {0: (3, 30, 3, 30), 1: (4, 40, 0, 0)},
        ("other.x", 0): {0: (5, 50, 0, 0)},
    }
    (complaint,) = complaints
    assert complaint.startswith("other.x, rank 0: 2 messages not counted")
    for one in found:
        write_rank_table(one, tmp_path)
    matrices, missing = read_rank_tables(tmp_path)
    assert {program: matrix.ranks for program, matrix in matrices.items()} == {"app": 2, "other.x": 1}
    assert missing == ["app: 1 of 2 ranks have been counted so far"]


def test_a_rank_without_messages_is_counted(tmp_path: Path) -> None:
    write_counts(tmp_path / "1-1.counts", 1, [(0, 0, 0, 0)] * 2)
    ((one,), _) = collected(tmp_path)
    text = write_rank_table(one, tmp_path).read_text()
    assert text == ",".join(COLUMNS) + "\n1,2,1,0,0,0,0\n"
    (matrix,) = read_rank_tables(tmp_path)[0].values()
    assert (matrix.ranks, matrix.sent.counts) == (2, {})


@pytest.mark.parametrize("bytes_left", [0, COUNTS.itemsize - 1, size_of(2) - 1])
def test_damaged_counts_are_reported(bytes_left: int, tmp_path: Path) -> None:
    whole = tmp_path / "1-1.counts"
    write_counts(whole, 0, [(1, 1, 1, 1)] * 2)
    os.truncate(whole, bytes_left)
    found, (complaint,) = collected(tmp_path)
    assert found == [] and "damaged" in complaint


def test_a_foreign_table_is_reported(tmp_path: Path) -> None:
    (tmp_path / "messages.app.0.csv").write_text("rank,ranks\n0,1\n")
    with pytest.raises(ConfigError, match=r"messages\.app\.0\.csv: not a table"):
        read_rank_tables(tmp_path)


def test_a_command_without_a_program_that_is_linked_with_mpi_is_reported() -> None:
    assert shutil.which("env") is not None
    with pytest.raises(ConfigError, match="no word of 'env -i nothing' is a program"):
        mpi_among(["env", "-i", "nothing"], os.environ)
