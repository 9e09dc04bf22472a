"""Spans from what the store keeps of a rank: recorded calls with their windows, and nothing between them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from chimbuko.core.arrays import RankKey
from chimbuko.provenance.query.run import Provenance, RankPath
from chimbuko.provenance.timeline.edges import LAUNCH, LINK, RECEIVE, SEND, UNKNOWN, Links, between, numbered
from chimbuko.provenance.timeline.rankcalls import JudgedCall, RankCalls
from chimbuko.provenance.timeline.ranktimeline import (
    Lane,
    MessagePoint,
    RankTimeline,
    Slice,
    matched,
    rank_timelines,
)
from chimbuko.provenance.timeline.spans import (
    ANOMALY,
    OPEN,
    RECORDED,
    Interval,
    SpanWindow,
    cut,
    new_spans,
    rows_of,
)

MOST_WINDOWS = 1000
"""Most records whose windows are read for one picture, in 0.2 s."""
MOST_JUDGED = 20_000
"""Most records that are drawn alone where there is no room for their windows."""
REACH_US = 10_000_000
"""Least time before and after a range in which recorded calls are looked for whose windows reach into it."""


@dataclass(frozen=True)
class _Kept:
    """Recorded calls of a rank around a range of time."""

    timeline: RankTimeline
    alone: list[JudgedCall]
    """Recorded calls whose windows were not read."""


def stored_window(
    provenance: Provenance,
    rank: RankKey,
    first_us: int,
    last_us: int,
    level: int,
    partners: Sequence[RankKey],
) -> tuple[SpanWindow, int]:
    """Return what is stored of a rank in a range of time, and the level to which it is reduced.

    Where there are many recorded calls, only the most severe come with their windows.

    Parameters
    ----------
    level
        A column of the picture is 2 ** ``level`` µs wide.
    partners
        Messages from and to these have both ends, where both are stored.
    """
    kept = _kept(provenance, rank, first_us, last_us)
    others = [_kept(provenance, partner, first_us, last_us).timeline for partner in partners]
    _end_single_calls(kept.timeline, provenance)
    numbers: dict[str, int] = {}
    slices = [(lane, call) for lane in kept.timeline.lanes for call in lane.slices]
    spans = new_spans(len(slices) + len(kept.alone))
    threads = np.zeros(len(spans), np.int32)
    depths = np.zeros(len(spans), np.int32)
    for at, (lane, call) in enumerate(slices):
        threads[at], depths[at] = lane.thread, call.depth
        spans[at] = _span(call, numbers.setdefault(call.function, len(numbers)))
    for at, alone in enumerate(kept.alone, len(slices)):
        threads[at], depths[at] = alone.thread, alone.depth
        spans[at] = _span_alone(alone, numbers.setdefault(alone.function, len(numbers)))
    window = SpanWindow(
        list(numbers),
        rows_of(spans, threads, depths),
        between(_links(kept.timeline, others, provenance.run().config.period_us), first_us, last_us),
        {lane.thread: lane.windows for lane in kept.timeline.lanes},
        lost_us(provenance, rank),
        [lane.thread for lane in kept.timeline.lanes if lane.is_gpu],
        len(kept.alone),
    )
    return cut(window, first_us, last_us, level)


def _end_single_calls(timeline: RankTimeline, provenance: Provenance) -> None:
    """Let calls end that are the only ones of their call path on a rank whose stream has ended, as ``main``.

    Their last window was kept before they ended, but the time in the calls of a path says when they did.
    """
    goes_on: list[tuple[tuple[str, ...], Slice]] = []
    for lane in timeline.lanes:
        around: list[str] = []
        for call in lane.slices:
            around[call.level :] = [call.function]
            if call.is_open and call.level == call.depth:
                goes_on.append((tuple(around), call))
    if not goes_on:
        return
    runtimes = _single_runtimes(provenance.rank_paths(timeline.program, timeline.rank))
    for path, call in goes_on:
        if path in runtimes:
            call.end_us = max(call.end_us, call.begin_us + runtimes[path])
            call.is_open = False


def _single_runtimes(paths: Sequence[RankPath]) -> dict[tuple[str, ...], int]:
    """Return the inclusive time in µs of each call path with a single call."""
    runtimes_us = {tuple(path.functions): 0.0 for path in paths if path.calls == 1}
    for path in paths:
        for depth in range(1, len(path.functions) + 1):
            outer = tuple(path.functions[:depth])
            if outer in runtimes_us:
                runtimes_us[outer] += path.exclusive_us
    return {path: round(runtime_us) for path, runtime_us in runtimes_us.items()}


def lost_us(provenance: Provenance, rank: RankKey) -> list[Interval]:
    """Return the intervals in which steps of a rank are missing, between those that were analysed."""
    steps = provenance.steps.counts([rank])
    return [
        (before.end_us, after.start_us)
        for before, after in pairwise(steps)
        if after.step > before.step + 1 and after.start_us > before.end_us
    ]


def _kept(provenance: Provenance, rank: RankKey, first_us: int, last_us: int) -> _Kept:
    reach = max(REACH_US, last_us - first_us)
    calls = RankCalls(provenance.calls, rank)
    judged = calls.within(first_us - reach, last_us + reach, MOST_JUDGED)
    # Calls in the picture come first, and of them the most severe.
    numbers = sorted(judged, key=lambda number: _is_outside(judged[number], first_us, last_us))
    records = calls.records(numbers[:MOST_WINDOWS])
    empty = RankTimeline(*rank, "", [], [], [], [])
    return _Kept(next(rank_timelines(records), empty), [judged[number] for number in numbers[MOST_WINDOWS:]])


def _is_outside(call: JudgedCall, first_us: int, last_us: int) -> bool:
    return call.entry_us > last_us or call.entry_us + call.inclusive_us < first_us


def _span(call: Slice, function: int) -> tuple[int, ...]:
    step, row = (int(part) for part in call.id.split(":")[2:])
    recorded = call.arguments
    flags = (ANOMALY if call.is_anomaly else 0) | (OPEN if call.is_open else 0)
    exclusive = UNKNOWN
    if recorded is not None:
        flags |= RECORDED
        exclusive = int(recorded["exclusive_us"])
    runtime = call.end_us - call.begin_us
    return call.begin_us, call.end_us, exclusive, runtime, function, step, row, 1, flags


def _span_alone(call: JudgedCall, function: int) -> tuple[int, ...]:
    flags = RECORDED | (ANOMALY if call.is_anomaly else 0) | (OPEN if call.is_open else 0)
    end_us = call.entry_us + call.inclusive_us
    return (
        *(call.entry_us, end_us, call.exclusive_us, call.inclusive_us, function),
        *(call.step, call.row, 1, flags),
    )


def _links(timeline: RankTimeline, others: Sequence[RankTimeline], within_us: int) -> Links:
    """Return messages and launches.

    Ends that lie further apart than ``within_us`` are not taken for one message.
    """
    places = {call.id: (lane, call) for lane in timeline.lanes for call in lane.slices}
    points = timeline.messages
    launches = timeline.launches
    links = np.zeros(len(points) + len(launches), LINK)
    for at, (point, other) in enumerate(_with_partners(timeline, others, within_us)):
        is_send = point.message.kind == "SEND"
        partner = point.message.destination if is_send else point.message.source
        other_us, thread, depth = other
        links[at] = (
            *(point.message.time_us, other_us, point.message.size_bytes, point.thread),
            *(_depth(places, point), partner, thread, depth, point.message.tag, 0, 1),
            SEND if is_send else RECEIVE,
        )
    for at, (launch, kernel) in enumerate(launches, len(points)):
        (lane, call), (kernel_lane, launched) = places[launch], places[kernel]
        links[at] = (
            *(call.begin_us, launched.begin_us, 0, lane.thread, call.depth, UNKNOWN),
            *(kernel_lane.thread, launched.depth, 0, 0, 1, LAUNCH),
        )
    return numbered(links)


End = tuple[int, int, int]
"""Time, thread and depth of an end of a message."""


def _with_partners(
    timeline: RankTimeline, others: Sequence[RankTimeline], within_us: int
) -> list[tuple[MessagePoint, End]]:
    """Return each end of a message on a rank, with its other end as far as that is known."""
    points = [point for one in (timeline, *others) for point in one.messages]
    of_rank = {
        other.rank: {call.id: (lane, call) for lane in other.lanes for call in lane.slices}
        for other in (timeline, *others)
    }
    ends: dict[int, End] = {}
    of_thread = {
        (other.rank, lane.thread): lane.windows for other in (timeline, *others) for lane in other.lanes
    }
    for send, receive in matched(points, within_us):
        # Where something between the two ends was not kept, there may have been other messages.
        times = send.message.time_us, receive.message.time_us
        if not all(_is_known(of_thread.get((end.rank, end.thread), []), *times) for end in (send, receive)):
            continue
        for own, other in ((send, receive), (receive, send)):
            depth = _depth(of_rank[other.rank], other)
            ends[id(own)] = other.message.time_us, other.thread, depth
    return [(point, ends.get(id(point), (UNKNOWN, UNKNOWN, UNKNOWN))) for point in timeline.messages]


def _is_known(windows: Sequence[Interval], first_us: int, last_us: int) -> bool:
    """Return whether one of the windows holds a range of time."""
    return any(begin <= first_us and last_us <= end for begin, end in windows)


def _depth(places: dict[str, tuple[Lane, Slice]], point: MessagePoint) -> int:
    place = places.get(point.message.call_id)
    return UNKNOWN if place is None else place[1].depth
