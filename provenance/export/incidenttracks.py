"""Tracks of a timeline for incidents and findings, and arrows from a delay to the calls that waited."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from chimbuko.causes.incident import Incident
from chimbuko.causes.kinds.children import IN_CHILD
from chimbuko.provenance.export.source import ExportSource
from chimbuko.provenance.incidents.incidentlist import IncidentDetails, RecurrenceSummary
from chimbuko.provenance.incidents.metricfindings import MetricFinding
from chimbuko.provenance.timeline.ranktimeline import Argument, Interval, RankTimeline


@dataclass(frozen=True)
class Span:
    """Incident or finding as a span of a track."""

    program: int | None
    """Program that it is of; None for findings in published quantities, which are the job's."""
    category: str
    """Category: ``incident``, ``recurring`` or ``published``."""
    name: str
    begin_us: int
    end_us: int
    arguments: Mapping[str, Argument]


@dataclass(frozen=True)
class Track:
    """Spans that do not overlap, by time."""

    program: int | None
    name: str
    """Name of the track: ``incidents``, ``recurring`` or ``published``, with a number where one does not hold
    them all."""
    spans: list[Span]


@dataclass(frozen=True)
class Arrow:
    """Arrow from a call to one that waited for it, at a moment that lies in both; never backwards in time."""

    incident: str
    from_call: str
    from_us: int
    to_call: str
    to_us: int
    lost_us: float


def calls_of_incidents(timeline: RankTimeline) -> Iterator[tuple[str, int, Interval]]:
    """Yield id, thread, and begin and end of the calls of a rank that are part of an incident."""
    for lane in timeline.lanes:
        for call in lane.slices:
            if call.arguments is not None and "incident_id" in call.arguments:
                yield call.id, lane.thread, (call.begin_us, call.end_us)


def tracks_and_arrows(
    source: ExportSource, intervals: Mapping[str, Interval]
) -> tuple[list[Track], list[Arrow]]:
    """Return what is shown of the incidents of a source's calls, once all of these were read.

    Parameters
    ----------
    intervals
        Begin and end of the calls that are shown, by id.
    """
    shown = tracks(list(findings(source)))
    return shown, [arrow for one in source.incidents() for arrow in arrows(one.incident, intervals)]


def findings(source: ExportSource) -> Iterator[Span]:
    """Yield the incidents of a source's calls, once all of these were read, and then all other findings."""
    yield from map(_incident, source.incidents())
    yield from map(_recurring, source.recurrences())
    yield from (_published(one) for one in source.metric_findings() if one.finding.found_us)


def tracks(spans: Sequence[Span]) -> list[Track]:
    """Return the spans of each program and category, on as few tracks as it takes so that none overlap."""
    groups: dict[tuple[int | None, str], list[Span]] = defaultdict(list)
    for span in sorted(spans, key=lambda span: (span.begin_us, -span.end_us)):
        groups[span.program, span.category].append(span)
    found = []
    for program, category in sorted(groups, key=lambda key: (key[0] is None, key)):
        lanes: list[list[Span]] = []
        for span in groups[program, category]:
            free = (lane for lane in lanes if lane[-1].end_us <= span.begin_us)
            lane = next(free, None)
            if lane is None:
                lanes.append(lane := [])
            lane.append(span)
        name = "incidents" if category == "incident" else category
        found += [Track(program, f"{name} {n}" if n > 1 else name, lane) for n, lane in enumerate(lanes, 1)]
    return found


def process_name(source: ExportSource, program: int | None) -> str:
    """Return the name of the process that has the tracks of a program."""
    return "published quantities" if program is None else f"{source.program_name(program)} incidents"


def arrows(incident: Incident, intervals: Mapping[str, Interval]) -> Iterator[Arrow]:
    """Yield an arrow to each waiting call: from what it waited for if that is shown, else from the origin."""
    for one in incident.waited:
        if not one.for_call_id or one.kind == IN_CHILD.id:
            continue
        cause = one.for_call_id if one.for_call_id in intervals else incident.call_id
        if cause == one.call_id or not {cause, one.call_id} <= intervals.keys():
            continue
        # A wait is over when what it waited for is done: the arrow stands at the end of both.
        to_us = _last_moment_us(intervals[one.call_id])
        from_us = min(_last_moment_us(intervals[cause]), to_us)
        if from_us >= intervals[cause][0]:
            yield Arrow(incident.id, cause, from_us, one.call_id, to_us, one.lost_us)


def _last_moment_us(interval: Interval) -> int:
    """Return the last moment within a call, also where another one begins as soon as it ends."""
    begin_us, end_us = interval
    return max(begin_us, end_us - 1)


def _incident(one: IncidentDetails) -> Span:
    known, incident = one.summary, one.incident
    # The delay, or all that waited for a rank that is not on record.
    is_known = incident.call_id or incident.is_loss
    begin_us, end_us = (incident.entry_us, incident.exit_us) if is_known else (known.begin_us, known.end_us)
    rank: dict[str, Argument] = {} if known.rank is None else {"rank": known.rank}
    return Span(
        program=known.program,
        category="incident",
        name=f"{known.id} {known.function or known.kind}",
        begin_us=begin_us,
        end_us=max(begin_us, end_us),
        arguments={
            "id": known.id,
            "sentence": known.sentence,
            "cause": known.kind,
            **rank,
            "call_id": known.call_id,
            "cost_us": known.cost_us,
            "flags": known.flags,
            "ranks": known.ranks,
        },
    )


def _recurring(one: RecurrenceSummary) -> Span:
    found = one.recurrence
    return Span(
        program=found.program,
        category="recurring",
        name=f"{one.id} {found.kind.value}" + "".join(f" {of}" for of in (found.function, found.node) if of),
        begin_us=found.begin_us,
        end_us=max(found.begin_us, found.end_us),
        arguments={
            "id": one.id,
            "sentence": one.sentence,
            "cost_us": found.cost_us,
            "calls": found.calls,
        },
    )


def _published(one: MetricFinding) -> Span:
    found = one.finding
    begin_us = found.begin_us or found.found_us
    return Span(
        program=None,
        category="published",
        name=f"{one.id} {found.kind.value}: {found.quantity}",
        begin_us=begin_us,
        end_us=max(begin_us, found.found_us),
        arguments={
            "id": one.id,
            "sentence": one.sentence,
            "ranks": ", ".join(map(str, found.ranks)) or "all",
            "since_step": found.since,
            "step": found.step,
            "change": found.change,
        },
    )
