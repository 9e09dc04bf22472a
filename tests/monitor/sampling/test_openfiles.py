"""Which file a process most likely waits for."""

from __future__ import annotations

import os
from pathlib import Path

from chimbuko.monitor.sampling.watch import busiest_file


def test_the_file_that_is_written_farthest_is_named(tmp_path: Path) -> None:
    paths = [tmp_path / name for name in ("read", "little", "much")]
    paths[0].write_bytes(bytes(10**7))
    with open(paths[0], "rb") as read, open(paths[1], "wb") as little, open(paths[2], "wb") as much:
        read.seek(10**7)
        # Beyond what any other file of this process is likely to have.
        os.lseek(little.fileno(), 1 << 38, os.SEEK_SET)
        os.lseek(much.fileno(), 1 << 39, os.SEEK_SET)
        assert busiest_file(os.getpid()) == str(paths[2])


def test_of_a_process_that_is_gone_there_is_none() -> None:
    assert busiest_file(1 << 30) == ""
