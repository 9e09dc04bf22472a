"""Folders of rings that programs leave: who clears them up takes none that somebody drains, or will."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from threading import Thread

import pytest

from chimbuko.instrument.recorder import ringfolder
from chimbuko.instrument.recorder.ringfolder import clear_up, is_in_use, lock_as_drained, make_awaited_folder


@pytest.fixture
def memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder in place of the memory that all programs of the machine share."""
    monkeypatch.setattr(ringfolder, "MEMORY", tmp_path)
    yield tmp_path


def ended() -> int:
    """Id of a process that has ended."""
    process = subprocess.Popen([sys.executable, "-S", "-c", ""])
    process.wait()
    return process.pid


def test_only_what_nobody_waits_for_drains_or_fills_is_cleared_up(memory: Path) -> None:
    awaited, drained, left = (make_awaited_folder(ended()) for _ in range(3))
    used = make_awaited_folder(os.getpid())
    for folder in (left, used):
        (folder / ".awaited").unlink()
    lock = lock_as_drained(drained)
    clear_up()
    assert set(memory.iterdir()) == {awaited, drained, used}
    os.close(lock)
    old_s = time.time() - 2 * ringfolder.AWAITED_S
    os.utime(awaited / ".awaited", (old_s, old_s))
    clear_up()
    assert list(memory.iterdir()) == [used]


def test_who_comes_to_drain_while_another_one_clears_up_finds_all(
    memory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The program has ended; its drain comes just when others have seen that there is none."""
    folder = make_awaited_folder(ended())
    locks: list[int] = []
    coming = Thread(target=lambda: locks.append(lock_as_drained(folder)))

    def comes_meanwhile(asked: Path) -> bool:
        found = is_in_use(asked)
        coming.start()
        coming.join(0.2)
        return found

    monkeypatch.setattr(ringfolder, "is_in_use", comes_meanwhile)
    clear_up()
    coming.join()
    assert folder.exists()
    assert len(locks) == 1
    os.close(locks[0])
