"""``chimbuko incidents``: what was slow and why, each delay once."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from chimbuko.causes.wording import bounded
from chimbuko.cli.shared.incident import known_findings_of
from chimbuko.cli.shared.table import Column, Output, print_json
from chimbuko.core.units import format_duration_us, number_of
from chimbuko.launcher.outcome.reach import reachable_run
from chimbuko.provenance.explain.explaining import explain_run
from chimbuko.provenance.incidents.incidentlist import (
    IncidentPage,
    Incidents,
    IncidentSummary,
    RecurrenceSummary,
    set_mark,
)
from chimbuko.provenance.incidents.marks import MarkState
from chimbuko.provenance.incidents.metricfindings import MetricFinding, metric_findings
from chimbuko.provenance.incidents.standstill import standstills
from chimbuko.provenance.query.run import open_run

_COLUMNS = (
    Column("INCIDENT"),
    Column("TIME", is_number=True),
    Column("LOST", is_number=True),
    Column("RANKS", is_number=True),
    Column("FLAGS", is_number=True),
    Column("CAUSE"),
    Column("WHAT HAPPENED", may_shrink=True),
)


@click.command("incidents", short_help="List what was slow and why, each delay once.")
@click.argument("run", required=False, type=click.Path(path_type=Path))
@click.option("--sort", type=click.Choice(["cost_us", "begin_us"]), default="cost_us", show_default=True)
@click.option("--limit", type=click.IntRange(min=1), default=20, show_default=True, help="Incidents to list.")
@click.option("--skip", type=click.IntRange(min=0), default=0, help="Number of incidents to skip.")
@click.option(
    "--all", "with_short", is_flag=True, help="List also the short delays that are reported as one finding."
)
@click.option(
    "--again", is_flag=True, help="Find the incidents again, among all calls that are abnormal now."
)
@click.option(
    "--mark",
    type=(str, click.Choice([*(state.value for state in MarkState), "none"])),
    metavar="ID STATE",
    help="Mark an incident or finding before: known and ignored ones send no alerts, "
    "and comparisons leave ignored ones out; noted for a note alone, none to remove the mark.",
)
@click.option("--note", default="", help="Note for --mark.")
@click.option("--json", "as_json", is_flag=True, help="Print all fields as JSON.")
def command(
    run: Path | None,
    sort: str,
    limit: int,
    skip: int,
    with_short: bool,
    again: bool,
    mark: tuple[str, str] | None,
    note: str,
    as_json: bool,
) -> None:
    """List the incidents of RUN, a run's folder; by default of the newest under ./chimbuko-runs.

    An incident is a delay with all that was flagged because of it: which call of which rank lost time, why,
    whom that held up, and the core time that it cost. What happens again and again is reported once.
    What is wrong with the quantities that the programs publish (--namespaces) stands at the end.
    'chimbuko show' shows one of them, 'chimbuko query --incident' lists the calls of an incident.

    \b
    Examples:
      chimbuko incidents
      chimbuko incidents chimbuko-runs/heat --limit 5
      chimbuko incidents --sort begin_us --all
      chimbuko incidents --mark I3 known --note "the old switch, ticket 812"
      chimbuko incidents --json | jq -r '.incidents[].sentence'
    """
    directory = reachable_run(run)
    if again:
        explain_run(directory)
    with open_run(directory) as provenance:
        found = Incidents(provenance.reader)
        if mark is not None:
            finding, state = mark
            set_mark(found, directory, finding, None if state == "none" else MarkState(state), note)
        page = found.page(limit, skip, "begin_us" if sort == "begin_us" else "cost_us", with_short)
        short = 0 if with_short else found.page(1, 0, "cost_us", True).total - page.total
        recurrences = found.recurrences()
        metrics = metric_findings(provenance.reader)
        if as_json:
            answer = {
                "incidents": page.incidents,
                "total": page.total,
                "recurrences": recurrences,
                "metrics": metrics,
                "known": known_findings_of(directory),
            }
            print_json(answer)
            return
        known = known_findings_of(directory)
        is_stuck = any(True for _ in standstills(provenance))
        time_range = provenance.steps.time_range()
        start_us = time_range[0] if time_range else 0
    rows = _rows(page.incidents, recurrences if not skip else [], start_us)
    for row in rows:
        row[-1] += f" ({known[row[0]].words})" if row[0] in known else ""
    rows += [] if skip else _metric_rows(metrics, start_us)
    if rows:
        Output().table(list(_COLUMNS), rows)
    print(_footer(page, len(recurrences), len(metrics), short, is_stuck), file=sys.stderr)


def _footer(page: IncidentPage, recurrences: int, metrics: int, short: int, is_stuck: bool) -> str:
    """Return what the list shows, and what else there is, by numbers."""
    text = f"{len(page.incidents):,} of {number_of(page.total, 'incidents')}"
    text += f"; {number_of(recurrences, 'recurring findings')}"
    text += f", {metrics:,} in what programs publish" if metrics else ""
    text += f"; {number_of(short, 'short delays')} within these: --all lists them" if short else ""
    return text + ("; ranks stand still: 'chimbuko query --stuck' shows where" if is_stuck else "")


def _rows(
    incidents: list[IncidentSummary], recurrences: list[RecurrenceSummary], start_us: int
) -> list[list[str]]:
    rows = [
        [
            one.id,
            f"{(one.begin_us - start_us) / 1e6:.3f} s",
            bounded(one.cost_us, one.bound, is_short=True),
            f"{one.ranks:,}",
            f"{one.flags:,}",
            one.kind,
            one.sentence + _mark_text(one),
        ]
        for one in incidents
    ]
    rows += [
        [
            found.id,
            f"{(found.recurrence.begin_us - start_us) / 1e6:.3f} s",
            format_duration_us(found.recurrence.cost_us),
            f"{len(found.recurrence.ranks):,}",
            f"{found.recurrence.calls:,}",
            found.recurrence.kind,
            found.sentence + _mark_text(found),
        ]
        for found in recurrences
    ]
    return rows


def _mark_text(one: IncidentSummary | RecurrenceSummary) -> str:
    """Return the mark of a finding, with its note and its author, to stand behind its sentence."""
    if not one.mark:
        return ""
    return f" [{one.mark} by {one.marked_by}{f': {one.note}' if one.note else ''}]"


def _metric_rows(metrics: list[MetricFinding], start_us: int) -> list[list[str]]:
    """Return rows for findings in published quantities, which lose no time and have no flagged calls."""
    return [
        [
            one.id,
            f"{(one.finding.begin_us - start_us) / 1e6:.3f} s",
            "",
            f"{len(one.finding.ranks):,}" if one.finding.ranks else "all",
            "",
            one.finding.kind.value,
            one.sentence,
        ]
        for one in metrics
    ]
