"""Writes a run in the trace event format of Chrome: JSON, one event a line."""

from __future__ import annotations

import itertools
from itertools import groupby
from typing import IO, Any

from chimbuko.capture.formats.chromewriter import ChromeFile
from chimbuko.provenance.export.incidenttracks import calls_of_incidents, process_name, tracks_and_arrows
from chimbuko.provenance.export.source import ExportSource
from chimbuko.provenance.timeline.ranktimeline import (
    NODE,
    Interval,
    MessagePoint,
    RankTimeline,
    Slice,
    matched,
    message_arguments,
    slice_arguments,
)

COLOURS = {"anomaly": "terrible", "normal": "good", "neighbour": "generic_work"}
"""Colours by category, by the names that Chrome's viewer has for them."""


def write_chrome(source: ExportSource, file: IO[bytes]) -> None:
    """Write a process of each rank and a thread of each of its threads and GPU streams.

    A rank's abnormal calls also stand on a thread of their own, and a program's incidents in a process of
    theirs. Flows lead from sends to receives, where both were recorded, from launches to GPU kernels, and
    from delays to the calls that waited. Times are those of the trace, in µs since the Unix epoch. Written
    rank by rank; of all ranks only the messages and the times of calls in incidents are kept in memory.
    """
    _Trace(source, file).write()


class _Trace:
    """A trace on its way into a file."""

    def __init__(self, source: ExportSource, file: IO[bytes]) -> None:
        self._source = source
        run = source.run
        about = {"run": run.name, "id": run.id, "host": run.host, "chimbuko": run.version}
        self._file = ChromeFile(file, {"displayTimeUnit": "ms", "otherData": about})
        self._numbers = itertools.count(1)
        """Numbers of processes and of threads, so that no two are the same."""
        self._flows = itertools.count(1)
        self._messages: list[MessagePoint] = []
        self._threads: dict[tuple[int, int, int], tuple[int, int]] = {}
        """Numbers of process and thread by (program, rank, thread)."""
        self._intervals: dict[str, Interval] = {}
        self._places: dict[str, tuple[int, int]] = {}
        """Numbers of process and thread of each call in an incident, by id."""

    def write(self) -> None:
        for timeline in self._source.timelines():
            self._write_rank(timeline)
        self._write_messages()
        self._write_incidents()
        self._file.close()

    def _write_rank(self, timeline: RankTimeline) -> None:
        process = next(self._numbers)
        self._metadata("process_name", process, 0, self._source.rank_name(timeline))
        self._metadata("process_sort_index", process, 0, process)
        of_call: dict[str, tuple[Slice, int]] = {}
        for lane in timeline.lanes:
            thread = self._begin_thread(process, self._source.lane_name(timeline, lane))
            self._threads[timeline.program, timeline.rank, lane.thread] = process, thread
            for call in lane.slices:
                self._write_call(call, process, thread)
            of_call |= {call.id: (call, thread) for call in lane.slices}
        for launch, kernel in timeline.launches:
            ends = ((of_call[end][0].begin_us, process, of_call[end][1]) for end in (launch, kernel))
            self._write_flow("launch", *ends)
        self._write_anomalies(timeline, process)
        for counter in timeline.counters:
            name = counter.name if counter.thread == NODE else f"{counter.name}, thread {counter.thread}"
            for time_us, value in counter.values:
                self._file.event("C", name, process, 0, ts=time_us, args={"value": value})
        self._messages += timeline.messages
        for call_id, of_lane, interval in calls_of_incidents(timeline):
            self._intervals[call_id] = interval
            self._places[call_id] = self._threads[timeline.program, timeline.rank, of_lane]

    def _begin_thread(self, process: int, name: str) -> int:
        thread = next(self._numbers)
        self._metadata("thread_name", process, thread, name)
        self._metadata("thread_sort_index", process, thread, thread)
        return thread

    def _write_call(self, call: Slice, process: int, thread: int) -> None:
        self._file.event(
            "X",
            call.function,
            process,
            thread,
            ts=call.begin_us,
            dur=call.end_us - call.begin_us,
            cat=call.category,
            cname=COLOURS[call.category],
            args=slice_arguments(call),
        )

    def _write_anomalies(self, timeline: RankTimeline, process: int) -> None:
        anomalies = timeline.anomalies()
        if not anomalies:
            return
        thread = self._begin_thread(process, "anomalies")
        for call in anomalies:
            arguments = slice_arguments(call)
            self._file.event(
                "i", call.function, process, thread, ts=call.begin_us, s="t", cat="anomaly", args=arguments
            )

    def _write_messages(self) -> None:
        for point in self._messages:
            message = point.message
            self._file.event(
                "i",
                message.kind,
                *self._threads[point.program, point.rank, point.thread],
                ts=message.time_us,
                s="t",
                cat="message",
                args=message_arguments(message),
            )
        for pair in matched(self._messages, self._source.run.config.period_us):
            ends = ((end.message.time_us, *self._threads[end.program, end.rank, end.thread]) for end in pair)
            self._write_flow("message", *ends)

    def _write_incidents(self) -> None:
        tracks, arrows = tracks_and_arrows(self._source, self._intervals)
        for program, of_program in groupby(tracks, key=lambda track: track.program):
            process = next(self._numbers)
            self._metadata("process_name", process, 0, process_name(self._source, program))
            # Before the ranks, as incidents are looked at first.
            self._metadata("process_sort_index", process, 0, -1)
            for track in of_program:
                thread = self._begin_thread(process, track.name)
                for span in track.spans:
                    duration_us = span.end_us - span.begin_us
                    where: dict[str, Any] = {"ts": span.begin_us, "dur": duration_us, "cat": span.category}
                    self._file.event("X", span.name, process, thread, **where, args=span.arguments)
        for arrow in arrows:
            ends = ((arrow.from_us, arrow.from_call), (arrow.to_us, arrow.to_call))
            self._write_flow("incident", *((time_us, *self._places[call]) for time_us, call in ends))

    def _write_flow(self, name: str, *ends: tuple[int, int, int]) -> None:
        """Write an arrow from the first to the second time, process and thread."""
        number = next(self._flows)
        for kind, (time_us, process, thread) in zip("sf", ends, strict=True):
            self._file.event(kind, name, process, thread, ts=time_us, id=number, cat=name, bp="e")

    def _metadata(self, kind: str, process: int, thread: int, value: str | int) -> None:
        argument = "sort_index" if isinstance(value, int) else "name"
        self._file.event("M", kind, process, thread, args={argument: value})
