"""Writes a run for speedscope: profiles of the whole run by call path, each thread, and incidents."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import IO, Any

import msgspec

from chimbuko import __version__
from chimbuko.causes.kinds.children import IN_CHILD
from chimbuko.core.calls.functionnames import short_name
from chimbuko.provenance.export.source import ExportSource
from chimbuko.provenance.incidents.incidentlist import IncidentDetails
from chimbuko.provenance.timeline.ranktimeline import Lane, RankTimeline, Slice, edges
from chimbuko.runtime.protocol.messages import PathStatistics

SCHEMA = "https://www.speedscope.app/file-format-schema.json"


def write_speedscope(source: ExportSource, file: IO[bytes]) -> None:
    """Write a sampled profile of each program, an evented one of each thread, and a sampled one of incidents.

    The sampled one has the exclusive time of each call path over the whole run and all ranks. The evented
    ones have what the windows of recorded calls cover, with the calls around them. Between windows nothing is
    open, so that no time counts of which it is not known what ran. Times are in µs since the start of the
    run's first step. The last ones have the core time that incidents of a program cost: below each sentence
    its origin, and the calls that waited for it, through those that had waited themselves. Written rank by
    rank.
    """
    _File(source, file).write()


class _File:
    """Profiles on their way into a file."""

    def __init__(self, source: ExportSource, file: IO[bytes]) -> None:
        self._source = source
        self._file = file
        self._frames: dict[str, int] = {}
        self._start_us = source.start_us()

    def write(self) -> None:
        head = {"$schema": SCHEMA, "exporter": f"chimbuko {__version__}", "name": self._source.run.name}
        self._file.write(msgspec.json.encode(head)[:-1] + b',"profiles":[')
        separator = b"\n"
        for profile in self._profiles():
            self._file.write(separator + msgspec.json.encode(profile))
            separator = b",\n"
        frames = [{"name": name} for name in self._frames]
        self._file.write(b'],\n"shared":' + msgspec.json.encode({"frames": frames}) + b"}\n")

    def _profiles(self) -> Iterator[dict[str, Any]]:
        paths = sorted(self._source.provenance.path_statistics(), key=lambda path: path.program)
        for program, of_program in groupby(paths, key=lambda path: path.program):
            yield self._sampled(program, sorted(of_program, key=lambda path: path.functions))
        for timeline in self._source.timelines():
            for lane in timeline.lanes:
                yield self._evented(timeline, lane)
        found = sorted(self._source.incidents(), key=lambda one: (one.summary.program, -one.summary.cost_us))
        for program, of_incidents in groupby(found, key=lambda one: one.summary.program):
            lost = [loss for one in of_incidents for loss in losses(one)]
            yield self._samples(f"{self._source.program_name(program)}, incidents by core time lost", lost)

    def _sampled(self, program: int, paths: Sequence[PathStatistics]) -> dict[str, Any]:
        weighted = [(path.functions, path.total_us) for path in paths]
        return self._samples(f"{self._source.program_name(program)}, all ranks, by call path", weighted)

    def _samples(self, name: str, weighted: Sequence[tuple[Sequence[str], float]]) -> dict[str, Any]:
        return {
            "type": "sampled",
            "name": name,
            "unit": "microseconds",
            "startValue": 0,
            "endValue": sum(weight_us for _, weight_us in weighted),
            "samples": [[self._frame(function) for function in stack] for stack, _ in weighted],
            "weights": [weight_us for _, weight_us in weighted],
        }

    def _evented(self, timeline: RankTimeline, lane: Lane) -> dict[str, Any]:
        name = f"{self._source.rank_name(timeline)}, {self._source.lane_name(timeline, lane)}"
        return {
            "type": "evented",
            "name": name,
            "unit": "microseconds",
            "startValue": lane.windows[0][0] - self._start_us,
            "endValue": lane.windows[-1][1] - self._start_us,
            "events": [
                {"type": kind, "frame": self._frame(call.function), "at": time_us - self._start_us}
                for kind, call, time_us in in_windows(lane)
            ],
        }

    def _frame(self, function: str) -> int:
        return self._frames.setdefault(function, len(self._frames))


def losses(one: IncidentDetails) -> Iterator[tuple[list[str], float]]:
    """Yield what each call of an incident lost, in µs, below the sentence and the calls it waited for."""
    incident = one.incident
    above = [one.summary.sentence]
    if incident.call_id:
        above.append(f"{short_name(incident.function)} on rank {incident.rank}")
        yield above, incident.excess_us
    for loss in incident.losses:
        if loss.beyond_us > 0.0:
            yield [*above, f"{incident.kind} on rank {loss.rank}"], loss.beyond_us
    waited = {call.call_id: call for call in incident.waited}
    for call in incident.waited:
        if call.kind == IN_CHILD.id:
            # Its time contains what is counted already.
            continue
        chain = [call]
        while (before := waited.get(chain[-1].for_call_id)) is not None and before not in chain:
            chain.append(before)
        names = (f"{short_name(link.operation)} on rank {link.rank}" for link in reversed(chain))
        yield [*above, *names], call.lost_us


def in_windows(lane: Lane) -> Iterator[tuple[str, Slice, int]]:
    """Yield openings (``O``) and closings (``C``) of calls within the windows of a thread, with times.

    A call that goes on over several windows opens and closes in each.
    """
    pieces: list[list[Slice]] = [[] for _ in lane.windows]
    ends_us = [last for _, last in lane.windows]
    for call in lane.slices:
        at = bisect_left(ends_us, call.begin_us)
        while at < len(pieces) and lane.windows[at][0] <= call.end_us:
            pieces[at].append(call)
            at += 1
    for (first_us, last_us), calls in zip(lane.windows, pieces, strict=True):
        for call, is_begin in edges(calls):
            if is_begin:
                yield "O", call, max(call.begin_us, first_us)
            else:
                yield "C", call, min(call.end_us, last_us)
