"""Answers from the trace of a run, as flight recorders give them while it goes on: who lost time, who waited.

A trace that was kept, or that the run was made of, remembers what these have forgotten.
"""

from __future__ import annotations

import time
from bisect import bisect_left
from collections.abc import Callable, Sequence
from functools import partial
from itertools import takewhile
from pathlib import Path

import msgspec

from chimbuko.ad.handoff.flightrecorder import record_steps
from chimbuko.capture.trace.discovery import BP_FILE, StreamName
from chimbuko.capture.trace.isolated import apart
from chimbuko.capture.trace.reader import StreamReader
from chimbuko.capture.trace.replay import END_WAIT_S, steps_of
from chimbuko.causes.evidence.recordedcalls import answers
from chimbuko.causes.evidence.recordedrows import Interval, RankIdentity, RecordedRows
from chimbuko.core.arrays import RankKey
from chimbuko.core.calls.rawrows import RecordedStep
from chimbuko.core.calls.record import CallRecord
from chimbuko.core.calls.recordarrays import pack
from chimbuko.core.errors import TraceFormatError
from chimbuko.provenance.query.run import Provenance
from chimbuko.provenance.timeline.traceindex import recorded_by_rank
from chimbuko.runtime.protocol.messages import RecordBatch, WaitsRequest
from chimbuko.runtime.runs.directory import RunDirectory

AROUND_US = 10_000_000
"""Time before and after an interval that is read, too, for calls to compare with."""
MOST_S = 10.0
"""Most seconds that the end of a run waits for answers; the longest waits are asked about first."""


class Answers(msgspec.Struct):
    """Calls that were found, and who was looked at."""

    batches: list[RecordBatch] = []
    read: set[RankKey] = set()
    """Programs and ranks of the streams that were read."""

    def put(self, rank: RankKey, node: str, calls: list[CallRecord]) -> None:
        """Take what the stream of a rank has."""
        self.read.add(rank)
        if calls:
            self.batches.append(RecordBatch.of_others("trace", *rank, node, pack(calls)))


def answers_of_trace(
    run: RunDirectory,
    provenance: Provenance,
    requests: Sequence[WaitsRequest],
    is_hasty: Callable[[], bool],
) -> Answers:
    """Return records of calls that nobody flagged, from the recorded streams of a run that are still there.

    Parameters
    ----------
    is_hasty
        Whether the user does not want to wait for more.

    Raises
    ------
    StoreError
        The store cannot be read.
    """
    streams = recorded_by_rank(run, provenance.programs()) if requests and not is_hasty() else {}
    if not streams:
        return Answers()
    nodes = {(one.program, one.rank): one.node for one in provenance.health()}
    until_s = time.monotonic() + MOST_S
    found = Answers()
    for request in sorted(requests, key=lambda one: -one.least_own_us):
        for rank, ahead_us in request.ranks.items():
            key = request.program, rank
            if key not in streams or is_hasty() or time.monotonic() > until_s:
                continue
            interval = _interval(request, ahead_us)
            identity = RankIdentity(*key, nodes.get(key, ""))
            first_step = _first_step(provenance, key, interval.begin_us - AROUND_US)
            found.put(key, identity.node, _found(streams[key], identity, interval, first_step))
    return found


def recalled(
    run: RunDirectory,
    provenance: Provenance,
    requests: Sequence[WaitsRequest],
    most_bytes: int,
    is_hasty: Callable[[], bool],
) -> Answers:
    """Return the same out of one look through each stream, as if it were just being recorded.

    Parameters
    ----------
    most_bytes
        Size of the rows of a stream that are known at the same time.

    Raises
    ------
    StoreError
        The store cannot be read.
    """
    streams = recorded_by_rank(run, provenance.programs()) if requests else {}
    nodes = {(one.program, one.rank): one.node for one in provenance.health()} if streams else {}
    asked: dict[tuple[int, int], list[Interval]] = {}
    for request in requests:
        for rank, ahead_us in request.ranks.items():
            if (request.program, rank) in streams:
                asked.setdefault((request.program, rank), []).append(_interval(request, ahead_us))
    until_s = time.monotonic() + MOST_S
    found = Answers()
    # Ranks that are asked most stand for others.
    for key, intervals in sorted(asked.items(), key=lambda one: -len(one[1])):
        if is_hasty() or time.monotonic() > until_s:
            break
        identity = RankIdentity(*key, nodes.get(key, ""))
        first_rank = streams[key].first_rank
        look = partial(
            _look_through, identity=identity, asked=intervals, first_rank=first_rank, most_bytes=most_bytes
        )
        (answer,) = apart(look, [streams[key].path])
        found.put(key, identity.node, [] if isinstance(answer, TraceFormatError) else answer)
    return found


def _interval(request: WaitsRequest, ahead_us: int) -> Interval:
    """Return the interval of a request on the clock of a rank that is so far ahead."""
    return Interval(
        *(request.begin_us + ahead_us, request.end_us + ahead_us), *(request.least_us, request.least_own_us)
    )


def _first_step(provenance: Provenance, rank: tuple[int, int], time_us: int) -> int:
    """Return the first step of a rank that ends after a time."""
    steps = provenance.steps.counts([rank])
    at = bisect_left([step.end_us for step in steps], time_us)
    return steps[at].step if at < len(steps) else 0


def _found(
    stream: StreamName, identity: RankIdentity, interval: Interval, first_step: int
) -> list[CallRecord]:
    look = partial(
        _look, identity=identity, interval=interval, first_rank=stream.first_rank, first_step=first_step
    )
    (answer,) = apart(look, [stream.path])
    # A damaged trace was reported when it was analysed.
    return [] if isinstance(answer, TraceFormatError) else answer


def _look(
    path: Path, identity: RankIdentity, interval: Interval, first_rank: int, first_step: int
) -> list[CallRecord]:
    with StreamReader(
        path, BP_FILE, END_WAIT_S, rank=identity.rank, first_rank=first_rank, first_step=first_step
    ) as reader:
        recorded = record_steps(steps_of(reader), reader.names, identity.rank)
        until_us = interval.end_us + AROUND_US
        steps = list(takewhile(lambda step: step.start_us <= until_us, recorded))
        return answers(RecordedRows(identity, steps, reader.names), [interval])


def _look_through(
    path: Path, identity: RankIdentity, asked: Sequence[Interval], first_rank: int, most_bytes: int
) -> list[CallRecord]:
    """Return the answers of one stream. Where its rows are too many, the older half goes when what ended in
    it is answered.
    """
    found: dict[str, CallRecord] = {}
    waiting = sorted(asked, key=lambda one: one.end_us)
    kept: list[RecordedStep] = []
    size_bytes = 0
    with StreamReader(path, BP_FILE, END_WAIT_S, rank=identity.rank, first_rank=first_rank) as reader:
        for step in record_steps(steps_of(reader), reader.names, identity.rank):
            kept.append(step)
            size_bytes += step.size_bytes
            if size_bytes <= most_bytes or len(kept) == 1:
                continue
            middle = len(kept) // 2
            ripe = [one for one in waiting if one.end_us <= kept[middle - 1].end_us]
            if ripe:
                rows = RecordedRows(identity, kept, reader.names)
                found |= {record.id: record for record in answers(rows, ripe)}
                waiting = waiting[len(ripe) :]
            if not waiting:
                break
            kept = kept[middle:]
            size_bytes = sum(one.size_bytes for one in kept)
        if waiting:
            rows = RecordedRows(identity, kept, reader.names)
            found |= {record.id: record for record in answers(rows, waiting)}
    return list(found.values())
