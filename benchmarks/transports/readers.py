"""The processes of an agent that read streams, with all that looks after them: as in ``chimbuko run``.

What an agent does beside that, its conversation with the broker, is left out.
"""

from __future__ import annotations

import os
import resource
import shutil
import signal
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import ClassVar, Self

import msgspec

from benchmarks.transports.clocked import LABEL, LABELS, clocked_fork_server
from chimbuko.ad.agent.agenttelemetry import cpu_s
from chimbuko.ad.detectors import make_detector
from chimbuko.ad.handoff.spool import SpoolReader
from chimbuko.ad.streams.streamhandle import StreamHandle
from chimbuko.ad.streams.streamsupervisor import TICK_S, Supervisor
from chimbuko.capture.follow.guard import Options
from chimbuko.capture.follow.presence import Role, announce, guard_of
from chimbuko.capture.follow.starter import GuardStarter
from chimbuko.capture.trace.discovery import Transport, parse_stream_path
from chimbuko.core.config import AnalysisConfig
from chimbuko.runtime.protocol.messages import RecordBatch

CONFIG = AnalysisConfig(min_anomaly_us=0)
"""One call in a thousand is recorded, however short they are: else a record would never be made."""
GUARD_TICKS = 4
"""As in an agent."""
_WAIT_S = 20.0


class _Supervisor(Supervisor):
    """One that can leave streams alone, as if it were stopped."""

    abandoned: ClassVar[set[str]] = set()

    def _watch(self, stream: StreamHandle, passed_s: float) -> None:
        if stream.key not in self.abandoned:
            super()._watch(stream, passed_s)


class Readers:
    """Reads streams of one folder, each in a process of its own.

    Parameters
    ----------
    folder
        Of the streams, for the guard.
    scratch
        For what the processes keep.
    poll_s
        Follow files as ADIOS2 does, looking every so many seconds; None for the product's own way.
    """

    def __init__(self, folder: Path, scratch: Path, poll_s: float | None = None) -> None:
        _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
        self._folder = folder
        self._scratch = scratch
        self._schema = make_detector(CONFIG).schema
        self._new: list[StreamHandle] = []
        self._streams: list[StreamHandle] = []
        self._guard = GuardStarter(Options(str(folder), linger_s=1.0))
        # It waits for a second only.
        announce(folder, "agent", Role.AGENT)
        self._guard.ensure()
        self._forks = clocked_fork_server(poll_s)
        self._supervisor = _Supervisor(self._forks, self._streams, self._take_new)
        self._ticks = 0
        self._due_s = 0.0
        self._guard.wait()
        self._began_s = cpu_s([self._forks.pid])
        self.guard_pid = guard_of(folder) or 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._forks.close()
        for process in (self.guard_pid, guard_of(self._folder)):
            if process:
                with suppress(ProcessLookupError):
                    os.kill(process, signal.SIGKILL)

    def add(self, path: Path, transport: Transport) -> StreamHandle:
        """Read a stream; its files, or its contact file, are there."""
        name = parse_stream_path(path)
        assert name is not None
        stream = StreamHandle(
            name,
            transport,
            0,
            "node",
            self._scratch / f"0-{name.rank}",
            CONFIG,
            self._schema,
            guarded=str(self._folder),
        )
        self._new.append(stream)
        return stream

    def abandon(self, stream: StreamHandle) -> None:
        """Its agent looks after it no more: only the guard does."""
        self._supervisor.abandoned.add(stream.key)

    def take_back(self, stream: StreamHandle) -> None:
        """Its agent looks after it again."""
        self._supervisor.abandoned.discard(stream.key)

    def forget(self, stream: StreamHandle) -> None:
        """It is over: what is left of it goes."""
        self._streams.remove(stream)
        shutil.rmtree(stream.folder)

    def tick(self) -> float:
        """Look after all, if it is time; the seconds until it will be."""
        now_s = time.monotonic()
        if now_s >= self._due_s:
            self._due_s = now_s + TICK_S
            self._supervisor.tick()
            self._ticks += 1
            if self._ticks % GUARD_TICKS == 0:
                self._guard.ensure()
        return max(self._due_s - time.monotonic(), 0.0)

    def run(self, seconds: float) -> None:
        """Look after all for so long."""
        end_s = time.monotonic() + seconds
        while (left_s := end_s - time.monotonic()) > 0:
            time.sleep(min(self.tick(), left_s))

    @property
    def cpu_s(self) -> float:
        """CPU time of all that read, those that have ended too, and of the fork server."""
        return cpu_s([self._forks.pid, *self.pids]) - self._began_s

    @property
    def server_cpu_s(self) -> float:
        """CPU time of the fork server itself."""
        return cpu_clock_s(self._forks.pid)

    @property
    def pids(self) -> list[int]:
        """Processes that read."""
        return [stream.pid for stream in self._streams if stream.pid]

    def _take_new(self) -> list[StreamHandle]:
        new, self._new = self._new, []
        return new


def steps_analysed(stream: StreamHandle) -> Counter[int]:
    """How often each step stands among what was found, by its number."""
    decoder = msgspec.msgpack.Decoder(RecordBatch)
    found: Counter[int] = Counter()
    for _, frame in SpoolReader(stream.delivery.folder).read(1 << 62):
        found.update(count.step for count in decoder.decode(frame).steps)
    return found


def lags_ms(stream: StreamHandle) -> dict[int, float]:
    """Step to the time between its newest event and the labels of its calls. Where the process that had them
    died with them, those of its successor."""
    try:
        content = (stream.folder / LABELS).read_bytes()
    except OSError:
        return {}
    whole = content[: len(content) // LABEL.size * LABEL.size]
    return {step: (labelled - newest) / 1e3 for step, newest, labelled in LABEL.iter_unpack(whole)}


def cpu_clock_s(pid: int) -> float:
    """CPU time of a process, to the nanosecond; 0 where it has ended."""
    try:
        # The clock of another process, as clock_getcpuclockid(3) numbers it.
        return time.clock_gettime((~pid << 3) | 2)
    except OSError:
        return 0.0
