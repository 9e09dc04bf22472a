"""One incident for people: its sentence, what the delay was made of, and whom it held up.

Open calls of all ranks as one tree, and whether it is a deadlock.
"""

from __future__ import annotations

import sys

from chimbuko.causes.part import Part
from chimbuko.causes.wording import ranks_in_words
from chimbuko.cli.shared.table import MARK, Column, Output
from chimbuko.core.calls.functionnames import shown_name, shown_names
from chimbuko.core.errors import StoreError
from chimbuko.core.units import format_duration_us, format_signed_us
from chimbuko.monitor.report.deadlock import lines, merged
from chimbuko.provenance.history.known import KnownFinding
from chimbuko.provenance.history.remembering import known_in_series
from chimbuko.provenance.incidents.incidentlist import IncidentDetails, RecurrenceSummary
from chimbuko.provenance.incidents.metricfindings import MetricFinding
from chimbuko.provenance.incidents.standstill import standstills
from chimbuko.provenance.query.run import Provenance
from chimbuko.runtime.runs.directory import RunDirectory


def stuck_lines(provenance: Provenance) -> list[str]:
    """Return for each program where its ranks are that are in a call that does not end, or are silent."""
    shown = []
    programs = provenance.programs()
    for one in standstills(provenance):
        if len(programs) > 1:
            shown.append(f"program {one.program}:")
        if one.finding is not None:
            shown += [f"{one.finding.kind}: {one.finding.text}", f"    {one.finding.advice}"]
        shown += lines(merged(one.stacks))
    return shown


def known_findings_of(run: RunDirectory) -> dict[str, KnownFinding]:
    """Return which findings of a run earlier runs had, too; say so where their index cannot be read."""
    try:
        return known_in_series(run)
    except StoreError as error:
        print(f"chimbuko: what earlier runs had is not known: {error}", file=sys.stderr)
        return {}


def print_known(output: Output, known: KnownFinding | None) -> None:
    """Print in how many earlier runs the same was, and since when."""
    if known is not None:
        output.line(f"Earlier runs of its series had the same: {known.words}.")


def print_incident(output: Output, details: IncidentDetails, start_us: int) -> None:
    """Print all that is known of an incident; times are relative to the beginning of the delay."""
    summary, incident = details.summary, details.incident
    output.line(f"{MARK} {summary.sentence}", "bold red")
    node = f", node {incident.node}" if incident.node else ""
    output.line(
        f"Incident {summary.id}, program {summary.program}{node}; {summary.kind}; "
        f"it began {(summary.begin_us - start_us) / 1e6:.3f} s after the start"
    )
    if details.is_gone:
        output.line("By the final judgement none of its calls is abnormal.")
    output.heading("What the time was lost by")
    rows = [
        [format_duration_us(part.lost_us), part.kind, _whom(part), part.call_id] for part in incident.parts
    ]
    lost = Column("LOST", is_number=True)
    output.table([lost, Column("CAUSE"), Column("WHERE", may_shrink=True), Column("CALL")], rows)
    if incident.call_id:
        judged = "" if incident.is_flagged else ", which was not flagged"
        call = f"'chimbuko show {incident.call_id}' shows it"
        output.line(f"The delayed call is {incident.call_id}{judged}; {call}.")
    if incident.losses:
        output.heading("Who was kept from running by the node")
        rows = [
            [
                str(one.rank),
                format_signed_us(one.begin_us - incident.entry_us),
                format_duration_us(one.end_us - one.begin_us),
                format_duration_us(one.lost_us),
            ]
            for one in incident.losses
        ]
        titles = ("RANK", "FROM", "FOR", "LOST")
        output.table([Column(title, is_number=True) for title in titles], rows)
    if incident.waited:
        output.heading("Who lost time because of it")
        shown = shown_names(one.operation for one in incident.waited)
        rows = [
            [
                str(one.rank),
                format_signed_us(one.entry_us - incident.entry_us),
                format_duration_us(one.lost_us),
                shown[one.operation],
                one.kind if one.is_flagged else f"{one.kind} (not flagged)",
                one.call_id,
                one.for_call_id,
            ]
            for one in incident.waited
        ]
        columns = [
            *(Column(title, is_number=True) for title in ("RANK", "FROM")),
            *(lost, Column("IN", may_shrink=True), Column("CAUSE"), Column("CALL"), Column("FOR CALL")),
        ]
        output.table(columns, rows)


def print_recurrence(output: Output, found: RecurrenceSummary, start_us: int) -> None:
    """Print all that is known of what recurs."""
    one = found.recurrence
    output.line(f"{MARK} {found.sentence}", "bold red")
    begin_s, end_s = (one.begin_us - start_us) / 1e6, (one.end_us - start_us) / 1e6
    when = f"from {begin_s:.3f} s to {end_s:.3f} s after the start"
    output.line(f"Finding {found.id}, program {one.program}; {one.kind}; {when}")
    output.heading("Where and when")
    facts = [
        ("functions", ", ".join(shown_names(one.functions).values())),
        ("ranks", ranks_in_words(one.ranks) if one.ranks else ""),
        ("node", one.node),
        ("called by", ", ".join(shown_names(one.callers).values())),
        ("every", format_duration_us(one.every_us) if one.every_us else ""),
        ("take", format_duration_us(one.typical_us) if one.typical_us else ""),
        ("instead of", format_duration_us(one.usual_us) if one.usual_us else ""),
    ]
    output.table([Column("WHAT"), Column("IS", may_shrink=True)], [list(fact) for fact in facts if fact[1]])
    if one.examples:
        output.heading("Examples")
        for call_id in one.examples:
            output.line(f"{call_id}; 'chimbuko show {call_id}' shows it")


def print_metric_finding(output: Output, found: MetricFinding, start_us: int) -> None:
    """Print all that is known of something that is wrong with a published quantity."""
    one = found.finding
    output.line(f"{MARK} {found.sentence}", "bold red")
    begin_s, found_s = (one.begin_us - start_us) / 1e6, (one.found_us - start_us) / 1e6
    when = f"it began {begin_s:.3f} s after the start and was found at {found_s:.3f} s"
    output.line(f"Finding {found.id}; {one.kind.value}; {when}")
    output.heading("Where and when")
    facts = [
        ("quantity", one.quantity),
        ("ranks", ranks_in_words(one.ranks) if one.ranks else "all, alike"),
        ("since step", f"{one.since:,}"),
        ("found at step", f"{one.step:,}"),
    ]
    output.table([Column("WHAT"), Column("IS", may_shrink=True)], [list(fact) for fact in facts])


def _whom(part: Part) -> str:
    where = [shown_name(part.function)] if part.function else []
    where += [] if part.rank is None else [f"rank {part.rank}"]
    return ", ".join(where)
