"""Looks at processes that may become ranks before there is an agent: ``python -m`` of this module, with the
folder of the streams, in a process of its own.

An agent takes 0.7 s of CPU time to be loaded, and ten seconds where others take the cores: short programs are
over by then. This takes 0.05 s, and waits for nothing.
"""

from __future__ import annotations

import os
import sys
import time
from contextlib import ExitStack, closing
from pathlib import Path

import msgspec

from chimbuko.monitor.collector.threadreading import Reading, ThreadFiles
from chimbuko.monitor.collector.watched import ExpectedRanks
from chimbuko.monitor.sampling.procreader import ProcReader

EARLY_LOOKS = "early-looks"
"""Name of the file with the readings, in the folder of the streams, one JSON value a line."""
LOOK_S, SHARE = 0.02, 0.03
"""Pause between two looks, and share of a core that they may take: where they cost more they are further
apart."""
LOOKOUT_S = 0.1
LONGEST_S, MOST_READINGS = 120.0, 16_384
"""End of the looks where no agent comes."""
MOST_THREADS = 16
"""Threads of a process that are looked at."""


def take_early(folder: Path) -> list[Reading]:
    """Return what was read, in order of time, and end the looks."""
    file = folder / EARLY_LOOKS
    try:
        lines = file.read_bytes()
        file.unlink()
    except OSError:
        return []
    # It may just be writing its last line.
    whole = lines[: lines.rfind(b"\n") + 1]
    return msgspec.json.Decoder(Reading).decode_lines(whole)


class _Lookout:
    """The threads that are looked at."""

    def __init__(self, folder: str, files: ProcReader) -> None:
        self._expected = ExpectedRanks(folder)
        self._files = files
        self._pids: list[int] = []
        self._threads: dict[int, ThreadFiles] = {}
        self._next_s = 0.0

    def look(self) -> list[Reading]:
        """Look at all threads of processes that may be ranks."""
        if time.monotonic() >= self._next_s:
            self._next_s = time.monotonic() + LOOKOUT_S
            self._pids += self._expected.look()
        readings = [thread.read() for pid in self._pids for thread in self._threads_of(pid)]
        return [one for one in readings if one is not None]

    def _threads_of(self, pid: int) -> list[ThreadFiles]:
        try:
            tids = [int(name) for name in os.listdir(f"/proc/{pid}/task")[:MOST_THREADS]]
        except OSError:
            # It has ended. Its number is not another's so soon.
            return []
        for tid in tids:
            if tid not in self._threads:
                self._threads[tid] = ThreadFiles(self._files, pid, tid)
        return [self._threads[tid] for tid in tids]


def main() -> None:
    """Look until an agent has taken the readings, or nobody comes for them."""
    folder = sys.argv[1]
    count, until_s = 0, time.monotonic() + LONGEST_S
    with ExitStack() as opened:
        try:
            file = opened.enter_context((Path(folder) / EARLY_LOOKS).open("ab", buffering=0))
        except FileNotFoundError:
            # It went with a program that was over at once.
            return
        lookout = _Lookout(folder, opened.enter_context(closing(ProcReader())))
        while os.fstat(file.fileno()).st_nlink and count < MOST_READINGS and time.monotonic() < until_s:
            began_s = time.thread_time()
            if readings := lookout.look():
                file.write(msgspec.json.Encoder().encode_lines(readings))
                count += len(readings)
            time.sleep(max(LOOK_S, (time.thread_time() - began_s) / SHARE))


if __name__ == "__main__":
    main()
