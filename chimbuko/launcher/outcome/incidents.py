"""The incidents of a run that has ended, found in its store, in lines."""

from __future__ import annotations

import shlex
from collections.abc import Callable

import msgspec

from chimbuko.core.calls.functionnames import shown_names
from chimbuko.core.units import format_duration_us, number_of
from chimbuko.launcher.outcome.progress import say
from chimbuko.launcher.outcome.traceanswers import answers_of_trace
from chimbuko.provenance.incidents.incidentlist import IncidentPage, RecurrenceSummary
from chimbuko.provenance.incidents.origins import OriginList
from chimbuko.provenance.manage.explain import Explained, explain
from chimbuko.provenance.query.filters import CallFilter
from chimbuko.provenance.query.run import Provenance, open_run
from chimbuko.provenance.store.engine import close, open_for_writing
from chimbuko.provenance.write.writer import Writer
from chimbuko.runtime.protocol.messages import WaitsRequest
from chimbuko.runtime.protocol.telemetry import SlowRank
from chimbuko.runtime.runs.directory import RunDirectory

MOST_SHOWN = 5
MOST_AT_END = 100_000
"""Abnormal calls that are judged and explained once more when a run ends, in half a minute."""


def explain_at_end(run: RunDirectory, is_hasty: Callable[[], bool]) -> None:
    """Find the incidents of a run that has just ended; of very many calls what was found live stays.

    Parameters
    ----------
    is_hasty
        As for ``explain_run``.

    Raises
    ------
    ChimbukoError
        The store cannot be read or written.
    """
    if is_explained_at_end(run):
        explain_run(run, is_hasty)
    else:
        command = shlex.join(["chimbuko", "relabel", str(run.path)])
        say(
            f"incidents are those that were found live, for there are more than {MOST_AT_END:,} anomalies; "
            f"'{command}' judges them again, and finds their incidents anew"
        )


def is_explained_at_end(run: RunDirectory) -> bool:
    """Whether the anomalies of a run are few enough."""
    with open_run(run) as provenance:
        return provenance.calls.count(CallFilter(), most=MOST_AT_END + 1) <= MOST_AT_END


def explain_run(run: RunDirectory, is_hasty: Callable[[], bool] = lambda: False) -> Explained:
    """Find the incidents of a run, and keep them in its store.

    Parameters
    ----------
    is_hasty
        Whether what is not on record is looked for in the run's trace no further, where that was kept.

    Raises
    ------
    ChimbukoError
        The store cannot be read or written.
    """
    info = run.read_info()
    engine = open_for_writing(run.used_store_url(info))
    try:
        requests: list[WaitsRequest] = []
        explained = explain(engine, info.id, slow_ranks_of(run), requests.extend)
        batches = answers_of_trace(run, Provenance(engine, info.id), requests, is_hasty)
        if not batches:
            return explained
        Writer(engine, info.id).write(batches)
        return explain(engine, info.id, slow_ranks_of(run))
    finally:
        close(engine)


class _Report(msgspec.Struct):
    """The part of a run's report that findings are made of."""

    slow_ranks: list[SlowRank] = []


def slow_ranks_of(run: RunDirectory) -> list[SlowRank]:
    """Ranks that were slow all the time; none where the server was killed, which is said elsewhere."""
    try:
        return msgspec.json.decode(run.read_report(), type=_Report).slow_ranks
    except FileNotFoundError:
        return []


def incident_lines(page: IncidentPage, recurrences: list[RecurrenceSummary]) -> list[str]:
    """Return lines for people about what happened, the most costly first."""
    found = [(one.cost_us, one.id, one.sentence) for one in page.incidents]
    found += [(one.recurrence.cost_us, "again", one.sentence) for one in recurrences]
    lines = [f"Worst of {number_of(page.total + len(recurrences), 'incidents')}, by core time lost:"]
    lines += [
        f"  {format_duration_us(cost_us):>8}  {name:<6} {text}"
        for cost_us, name, text in sorted(found, reverse=True)
    ]
    return lines if found else []


def worst_lines(functions: OriginList, ranks: OriginList) -> list[str]:
    """Because of which functions and ranks core time was lost, and in which waits; for people.

    Empty where no incident has a known origin.
    """
    began = [one for one in functions.origins if one.lost_us > 0]
    if not began:
        return []
    shown = shown_names(one.function or "" for one in functions.origins)
    lines = ["Worst functions, by core time lost because of them:"]
    lines += [
        f"  {format_duration_us(one.lost_us):>8}  {one.incidents:>5}×  {shown[one.function or '']}"
        for one in began[:MOST_SHOWN]
    ]
    waits = sorted(functions.origins, key=lambda one: one.waited_us, reverse=True)[:MOST_SHOWN]
    waited = [
        f"{format_duration_us(one.waited_us)} in {shown[one.function or '']}"
        for one in waits
        if one.waited_us > 0
    ]
    if waited:
        lines.append(f"Waited for others: {', '.join(waited)}")
    lines.append("Worst ranks, by core time lost because of them:")
    lines += [
        f"  {format_duration_us(one.lost_us):>8}  {one.incidents:>5}×  rank {one.program}:{one.rank}"
        for one in ranks.origins[:MOST_SHOWN]
        if one.lost_us > 0
    ]
    return lines
