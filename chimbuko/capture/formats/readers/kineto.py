"""Reads traces of PyTorch's profiler, which Kineto writes: trace events with meanings of their own.

A file is of one process, with its threads and the streams of its GPUs; ``distributedInfo`` has its rank, and
times count from ``baseTimeNanoseconds``, both of which may stand behind the events. A profiler with a
schedule writes a file of each of its windows. A kernel has the correlation id of the call that launched it.
Collective operations are numbered on their group of processes, in the order of time: the same on all members
of the group, as long as their profilers began before the same operation.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Mapping
from typing import Any, Final

import numpy as np

from chimbuko.capture.formats.readers import chrome
from chimbuko.capture.formats.readers.chrome import ChromeEvent
from chimbuko.capture.formats.readers.events import NO_EVENTS, Catalogue, Dropped, Kind, TrackKind
from chimbuko.core.arrays import Table

CORRELATION_ID: Final = "Correlation ID"
"""The counter by which launches are found, as under TAU."""
_ON_GPU: Final = frozenset(("kernel", "gpu_memcpy", "gpu_memset"))
"""Categories of calls that run on a GPU."""
_LAUNCHING: Final = frozenset(("cuda_runtime", "cuda_driver", "privateuse1_runtime", "privateuse1_driver"))
_OF_THE_PROFILER: Final = frozenset(("Trace", "overhead", "gpu_user_annotation"))
"""Categories of what the program did not do. An annotation appears on the GPU once more, under the same name,
around the kernels that were launched in it: it would be judged by the runtimes of the other."""
_COLLECTIVE: Final = re.compile(r"(gloo|nccl|ucc|mpi|xccl)(?::(?!send|recv)|(?:Dev)?Kernel_(?!SendRecv))\w+")
"""Names of the operations of communication libraries; ``c10d::`` only asks them for it."""
_STEP: Final = re.compile(r"ProfilerStep#\d+")
_MOST_BASE_NS: Final = 1 << 62
_WORKER: Final = re.compile(r"(.+)\.\d{6,}\.pt\.trace\.json(?:\.gz)?")
"""Name that ``tensorboard_trace_handler`` gives a file: a worker, by default host and process, and a time."""


class Reader(chrome.Reader):
    """Reads the trace of one process."""

    has_more_in_calls = True

    def __init__(self, catalogue: Catalogue, source: int, name: str) -> None:
        super().__init__(catalogue, source, name)
        self._number = catalogue.process(self.process_key(0))
        self._correlation = catalogue.name(CORRELATION_ID)
        self._gpu_tracks: set[int] = set()
        self._where = found[1] if (found := _WORKER.fullmatch(name)) else ""
        self._pid: int | None = None
        self._base_ns = 0
        self._is_known = False
        self._has_ended = False
        self._held: list[Table] = []
        self._span_ns: tuple[int, int] | None = None

    def foreknow(self, beside: Mapping[str, Any]) -> None:
        """Take what stands beside the events, so that none has to wait for it."""
        self._is_known = True
        about = beside.get("distributedInfo")
        if isinstance(about, dict) and type(about.get("rank")) is int:
            process = self.catalogue.processes[self._number]
            process.rank = about["rank"]
            process.identity = "rank", about["rank"], about.get("world_size")
        self._where = str(beside.get("host_name") or self._where)
        base_ns = beside.get("baseTimeNanoseconds")
        if type(base_ns) is int and 0 < base_ns < _MOST_BASE_NS:
            self._base_ns = base_ns

    def feed(self, data: bytes) -> Table:
        """Take in the next bytes; the events that are known now. Where what stands beside them is not, they
        wait for it.
        """
        events = super().feed(data)
        return self._placed(events, self.text.is_whole)

    def finish(self) -> Table:
        """Return the events that are left, as no more bytes will come."""
        super().finish()
        return self._placed(NO_EVENTS, True)

    def _placed(self, events: Table, is_last: bool) -> Table:
        self._held.append(events)
        if is_last and not self._is_known:
            self.foreknow(self.text.beside)
        if not self._is_known:
            return NO_EVENTS
        events, self._held = np.concatenate(self._held), []
        events["time_ns"] += self._base_ns
        if len(events):
            ends_ns = events["time_ns"] + np.where(events["kind"] == Kind.CALL, events["value"], 0)
            begin_ns, end_ns = int(events["time_ns"].min()), int(ends_ns.max())
            before = self._span_ns or (begin_ns, end_ns)
            self._span_ns = min(before[0], begin_ns), max(before[1], end_ns)
        if is_last and not self._has_ended:
            self._has_ended = True
            self._unite()
        return events

    def _unite(self) -> None:
        process = self.catalogue.processes[self._number]
        if process.identity is None and self._where and self._pid is not None:
            process.identity = "process", self._where, self._pid
        if self._span_ns is not None:
            self.catalogue.unite(self._number, *self._span_ns)

    def process_key(self, pid: Any) -> object:
        """Return the key of the one process that such a trace is of."""
        return self._source, "PyTorch"

    def thread_key(self, pid: Any, tid: Any) -> object:
        """Threads of a GPU are its streams, under the number of the device as process."""
        return pid, tid

    def function_name(self, name: str, category: str) -> str:
        """Return one name for all steps, which are calls of one function."""
        return _STEP.sub("ProfilerStep", name)

    def _call(self, event: ChromeEvent) -> None:
        if event.cat in _OF_THE_PROFILER:
            self.catalogue.losses[Dropped.OF_THE_PROFILER] += 1
        else:
            super()._call(event)

    def _flow(self, event: ChromeEvent) -> None:
        """Take a flow from a launch to its kernel, as a correlation id says, or from forward to backward: no
        message.
        """
        self.catalogue.losses[Dropped.LAUNCH_FLOWS] += 1

    def on_call(self, event: ChromeEvent, time_ns: int, duration_ns: int, track: int) -> None:
        """Correlation ids, and collective operations."""
        category, name = event.cat, event.name
        if self._pid is None and category not in _ON_GPU and type(event.pid) is int:
            self._pid = event.pid
        if category in _ON_GPU and track not in self._gpu_tracks:
            self._gpu_tracks.add(track)
            described = self.catalogue.tracks[track]
            described.kind, described.is_main = TrackKind.GPU, False
            described.about |= {"CUDA Device": str(event.pid), "CUDA Stream": str(event.tid)}
        inside_ns = time_ns + min(duration_ns // 2, 1000)
        if category in _ON_GPU or category in _LAUNCHING:
            identity = self.arguments(event).get("correlation")
            if type(identity) is int and 0 < identity < chrome.MOST_NS:
                self.put((inside_ns, identity, 0, track, self._correlation, Kind.COUNTER))
        if type(name) is str and _COLLECTIVE.match(name):
            group = self.arguments(event).get("Process Group Name", "")
            layer = "kernel" if category in _ON_GPU else "host"
            of = zlib.crc32(f"{group} {layer}".encode()) + 1
            self.put((inside_ns, 0, of, track, self.catalogue.name(name), Kind.COLLECTIVE))
