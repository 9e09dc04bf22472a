"""Finds the incidents of a stored run: why its abnormal calls were slow, and which belong together."""

from __future__ import annotations

import itertools
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType

import msgspec
from msgspec.structs import replace
from sqlalchemy import Engine

from chimbuko.causes.evidence.flag import Flag, flag_of, may_matter
from chimbuko.causes.incident import Asked, Incident
from chimbuko.causes.incidents.interruptions import Interruptions
from chimbuko.causes.incidents.sentence import sentence
from chimbuko.causes.incidents.tracker import IncidentTracker
from chimbuko.causes.kinds.registry import cause_of
from chimbuko.causes.kinds.split import main_part
from chimbuko.core.calls.record import CallRecord
from chimbuko.core.units import number_of
from chimbuko.provenance.explain.traceanswers import answers_of_trace
from chimbuko.provenance.incidents.incidentlist import Incidents
from chimbuko.provenance.incidents.recurring import recurring
from chimbuko.provenance.query.filters import CallFilter
from chimbuko.provenance.query.nodelist import NodeSamples
from chimbuko.provenance.query.run import Provenance, open_run
from chimbuko.provenance.store.engine import close, open_for_writing
from chimbuko.provenance.write.inquiries import Inquiries, asked_by
from chimbuko.provenance.write.kept import Kept
from chimbuko.provenance.write.writer import Writer
from chimbuko.runtime.process.lifetime import log
from chimbuko.runtime.protocol.messages import WaitsRequest
from chimbuko.runtime.protocol.telemetry import SlowRank
from chimbuko.runtime.runs.directory import RunDirectory

AT_ONCE = 2_000
"""Number of calls that are looked at together."""
HORIZON_US = 60_000_000
"""Time after which a call is forgotten: it has nothing to do with calls that end later."""

FOREVER_US = 1 << 62

MOST_AT_END = 20_000
"""Most abnormal calls that are judged and explained once more when a run ends, in a minute: three times, and
of one node with its looks 600 take a second of CPU time on a busy core (``benchmarks.incidents --flood``)."""


class Explained(msgspec.Struct, frozen=True):
    """Numbers of what was found."""

    calls: int
    """Abnormal calls of the run."""
    incidents: int
    recurrences: int
    failed: list[str] = []
    """Calls that could not be explained, as in ``Changes``."""


def explain(
    engine: Engine,
    run_id: str,
    slow_ranks: Sequence[SlowRank] = (),
    ask: Callable[[Sequence[WaitsRequest]], None] = lambda requests: None,
    asked: Mapping[int, Asked] = MappingProxyType({}),
    kept: Kept | None = None,
) -> Explained:
    """Find the incidents of all abnormal calls of a run anew, and store them with recurring findings.

    Calls that belong to an incident already keep its number.

    Parameters
    ----------
    slow_ranks
        Ranks that are slower than the others all the time.
    ask
        Called with the questions that the trace can answer: waits for delays that are not on record.
    asked
        Ranks that have answered such questions, by the number of the incident.
    kept
        What is kept of the run, if anything: where it has all calls, none is read again.

    Raises
    ------
    StoreError
        The store cannot be read or written.
    """
    provenance = Provenance(engine, run_id)
    writer = Writer(engine, run_id)
    found = Incidents(provenance.reader)
    told = kept.incidents if kept is not None else None
    if told is None:
        told = {one.incident.number: one.incident for one in found.each()}
    of_losses = {loss.id: number for number, one in told.items() for loss in one.losses}
    first = max([found.last_number(), *told]) + 1
    tracker = IncidentTracker(first, dict(found.of_calls()) | of_losses)
    for batch in NodeSamples(provenance.reader).batches(0, FOREVER_US, is_sum=True):
        tracker.put_samples(batch)
    for stream in provenance.health():
        tracker.evidence.ranks[stream.program].add(stream.rank)
    short, inquiries = Interruptions(tracker.evidence.nodes), Inquiries(tracker.evidence)
    known: set[int] = set()
    tracker.note_asked({number: one.asked for number, one in told.items()} | dict(asked))
    failed: list[str] = []
    calls = looked_to_us = now_us = 0
    for flags in _batches(_flags(tracker, short, _records(provenance, kept))):
        tracker.put(flags)
        # All samples that there are: ranks may have lost time also while no call was abnormal.
        begin_us = min([looked_to_us, *(flag.entry_us for flag in flags)])
        looked_to_us = max([looked_to_us, *(flag.exit_us for flag in flags)]) if flags else FOREVER_US
        for batch in NodeSamples(provenance.reader).batches(begin_us, looked_to_us):
            tracker.put_samples(batch)
        now_us = flags[-1].entry_us if flags else now_us
        calls += sum(flag.is_flagged for flag in flags)
        changes = tracker.update()
        known |= {one.number for one in changes.incidents}
        known -= {*changes.merged, *changes.gone}
        failed += changes.failed
        short.take(changes)
        inquiries.take(changes, now_us / 1e6)
        requests = inquiries.due(now_us / 1e6, is_urgent=True)
        ask([request for request in requests if request.least_own_us])
        told_again = [_revised(one, told.get(one.number)) for one in changes.incidents]
        writer.write_incidents(replace(changes, incidents=told_again))
        for one in (tracker.forget_before, short.settle_before, inquiries.settle_before):
            one(now_us - HORIZON_US)
    writer.withdraw_incidents(known)
    recurrences = [*short.found(), *recurring(provenance, slow_ranks)]
    writer.write_recurrences(recurrences)
    return Explained(calls, len(known), len(recurrences), failed)


def _revised(incident: Incident, told: Incident | None) -> Incident:
    """Return an incident with its earlier explanation, if origin or cause have changed."""
    if told is None:
        return incident
    before = told.told_before
    if not before and _culprit(told) != _culprit(incident):
        before = sentence(told)
    return replace(incident, told_before=before)


def _culprit(incident: Incident) -> tuple[object, ...]:
    """Return what distinguishes one explanation from another."""
    main = main_part(incident.parts) if incident.parts else None
    by = "" if main is None or cause_of(main.kind).is_by_amount else main.by
    return incident.kind, incident.rank, incident.function, by


def _records(provenance: Provenance, kept: Kept | None) -> Iterable[CallRecord]:
    """Return all calls as they are judged now, in order of their entry."""
    records = {} if kept is None else kept.records
    verdicts = list(provenance.calls.verdicts()) if records else []
    if not records or records.keys() != {one for one, _ in verdicts}:
        return provenance.calls.in_time(CallFilter(label=None))
    return (replace(records[one], **verdict._asdict()) for one, verdict in verdicts)


def _flags(tracker: IncidentTracker, short: Interruptions, records: Iterable[CallRecord]) -> Iterator[Flag]:
    """Yield abnormal calls, and others that may have to do with them.

    The rest is there to be compared with.
    """
    for record in records:
        tracker.put_communication(record)
        flag = flag_of(record)
        if may_matter(flag):
            yield flag
        else:
            tracker.evidence.put_ordinary(flag)
        if not flag.is_flagged and record.is_relabelled:
            short.acquit(record.program, record.severity_us)


def _batches(flags: Iterator[Flag]) -> Iterator[list[Flag]]:
    """Yield all flagged calls in batches, and at last an empty batch."""
    while some := list(itertools.islice(flags, AT_ONCE)):
        yield some
    yield []


Say = Callable[[str], None]
"""Function that takes a line for the user about what went wrong."""


def flood_line(run: RunDirectory) -> str:
    """Return the line for the user about a run that has too many anomalies to be explained at its end."""
    command = shlex.join(["chimbuko", "runs", "relabel", str(run.path)])
    return (
        f"incidents are those that were found live, for there are more than {MOST_AT_END:,} anomalies; "
        f"'{command}' judges them again, and finds their incidents anew"
    )


def is_explained_at_end(run: RunDirectory) -> bool:
    """Return whether a run has few enough anomalies to be explained at its end."""
    with open_run(run) as provenance:
        return provenance.calls.count(CallFilter(), most=MOST_AT_END + 1) <= MOST_AT_END


def explain_run(
    run: RunDirectory,
    is_hasty: Callable[[], bool] = lambda: False,
    say: Say = log,
    kept: Kept | None = None,
) -> Explained:
    """Find the incidents of a run, and keep them in its store.

    Parameters
    ----------
    is_hasty
        Whether to stop looking in the run's trace, where it was kept, for calls that are not on record.
    say
        Takes a line where calls could not be explained.
    kept
        As for ``explain``.

    Raises
    ------
    ChimbukoError
        The store cannot be read or written.
    """
    info = run.read_info()
    engine = open_for_writing(run.used_store_url(info))
    try:
        requests: list[WaitsRequest] = []
        slow_ranks = slow_ranks_of(run, say)
        explained = explain(engine, info.id, slow_ranks, requests.extend, kept=kept)
        answers = answers_of_trace(run, Provenance(engine, info.id), requests, is_hasty)
        if answers.read:
            Writer(engine, info.id).write(answers.batches)
            explained = explain(engine, info.id, slow_ranks, asked=asked_by(requests, answers.read))
        if explained.failed:
            say(
                f"{number_of(len(explained.failed), 'abnormal calls')} could not be explained, and may be "
                f"missing among the incidents: {explained.failed[0]}"
            )
        return explained
    finally:
        close(engine)


class _Report(msgspec.Struct):
    """Part of a run's report that findings are made of."""

    slow_ranks: list[SlowRank] = []


def slow_ranks_of(run: RunDirectory, say: Say = log) -> list[SlowRank]:
    """Return the ranks that were slow all the time; none if the server was killed, or its report is
    damaged, which is said.
    """
    try:
        return msgspec.json.decode(run.read_report(), type=_Report).slow_ranks
    except FileNotFoundError:
        return []
    except (OSError, msgspec.MsgspecError) as error:
        say(f"no rank counts as slow, as the report of the run cannot be read: {error}")
        return []
