"""What the store has acknowledged outlasts a loss of power.

``strace`` records the writes and syncs of a real writer, and power is cut at each acknowledgement. What was
written to a file since it was synced last does not reach the disk then, or some of it does, as it pleases; a
new file is found again where its folder was synced.
"""

from __future__ import annotations

import random
import re
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.places import ROOT

BATCHES, CALLS = 8, 20
ACKNOWLEDGED = b"acknowledged"
WRITES = f"""
import os, sys
from chimbuko.provenance.store.engine import open_for_writing
from chimbuko.provenance.write.writer import Writer
from tests.sample_records import RUN_ID, make_batch, make_record, make_run
writer = Writer(open_for_writing("sqlite:///" + sys.argv[1]), RUN_ID)
writer.write_run(make_run())
for number in range({BATCHES}):
    calls = [make_record(number * {CALLS} + row) for row in range({CALLS})]
    writer.write([make_batch(number + 1, records=calls)])
    os.write(1, {ACKNOWLEDGED!r})
os._exit(0)
"""
CALL = re.compile(r'\d+ +(\w+)\((?:(\w+)<([^>]*)>|"([^"]*)")(?:, (.*))?\) += (\d+)(?:<([^>]*)>)?$')


class Disk:
    """Files of a folder as a loss of power would leave them, from the system calls of a process."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._synced: dict[str, bytes] = {}
        self._pending: dict[str, list[tuple[int, bytes | None]]] = {}
        self._entries: set[str] = set()

    def apply(self, call: str, path: str, size: int, offset: int, data: bytes) -> None:
        """One system call."""
        is_sync = call in ("fsync", "fdatasync")
        if path == str(self._folder):
            self._entries = set(self._pending) if is_sync else self._entries
        elif call == "openat":
            self._pending.setdefault(path, [])
        elif call == "unlink":
            self._pending.pop(path)
        elif is_sync:
            self._synced[path] = _written(self._synced.get(path, b""), self._pending[path])
            self._pending[path] = []
        elif call == "ftruncate":
            self._pending[path].append((size, None))
        else:
            self._pending[path].append((offset, data))

    def cut(self, target: Path, luck: random.Random | None) -> None:
        """What is found after power was cut now; with luck, some of what was not synced, too."""
        for path in self._entries:
            written = [one for one in self._pending.get(path, []) if luck is not None and luck.random() < 0.5]
            (target / Path(path).name).write_bytes(_written(self._synced.get(path, b""), written))


def _written(content: bytes, changes: list[tuple[int, bytes | None]]) -> bytes:
    for offset, data in changes:
        before = content[:offset].ljust(offset, b"\0")
        content = before if data is None else before + data + content[offset + len(data) :]
    return content


def calls_of(record: Path) -> Iterator[tuple[str, str, int, int, bytes]]:
    """Which call, the file's path, size, offset and data of each that succeeded."""
    for line in record.read_text().splitlines():
        if not (found := CALL.match(line)):
            continue
        call, _, path, unlinked, rest, result, opened = found.groups()
        words = (rest or "").rsplit(", ", 2)
        data = _bytes(words[0].strip('"')) if "write" in call else b""
        offset = int(words[2]) if call == "pwrite64" else 0
        size = int(words[0]) if call == "ftruncate" else 0
        yield call, _bytes(opened or unlinked or path).decode(), size, offset, data[: int(result)]


def _bytes(text: str) -> bytes:
    """As ``strace -xx`` writes them."""
    return bytes.fromhex(text.replace("\\x", ""))


@pytest.mark.skipif(shutil.which("strace") is None, reason="needs strace")
def test_acknowledged_calls_are_there_after_power_was_cut(tmp_path: Path) -> None:
    folder, record = tmp_path / "run", tmp_path / "calls"
    folder.mkdir()
    subprocess.run(
        [
            *("strace", "-f", "-y", "-xx", "-s", "10000000", "-o", str(record), "--seccomp-bpf"),
            *("-e", "trace=openat,unlink,write,pwrite64,ftruncate,fsync,fdatasync"),
            *(sys.executable, "-c", WRITES, str(folder / "store.sqlite")),
        ],
        env={"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin"},
        check=True,
        stdout=subprocess.DEVNULL,
    )
    disk, luck, acknowledged = Disk(folder), random.Random(1), 0
    for call, path, size, offset, data in calls_of(record):
        if data == ACKNOWLEDGED:
            acknowledged += CALLS
            for chance in (None, luck, luck, luck):
                found = tmp_path / "found"
                found.mkdir()
                disk.cut(found, chance)
                with sqlite3.connect(found / "store.sqlite") as store:
                    assert store.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
                    assert store.execute("SELECT count(*) FROM calls").fetchone() >= (acknowledged,)
                store.close()
                shutil.rmtree(found)
        elif path.startswith(str(folder)) and not path.endswith("-shm"):
            disk.apply(call, path, size, offset, data)
    assert acknowledged == BATCHES * CALLS
