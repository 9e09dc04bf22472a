"""``chimbuko query``: lists recorded calls of a run that has ended, or goes on."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Literal, cast

import click
import msgspec

from chimbuko.cli.table import MARK, Column, Output
from chimbuko.errors import ConfigError
from chimbuko.provenance.calls import SORTS, CallFilter, CallPage, CallSummary, Sort
from chimbuko.provenance.queries import Provenance, open_run
from chimbuko.records import Label
from chimbuko.rundir import find_run
from chimbuko.units import format_duration_us, parse_duration_us

_NUMBER_RANGE = re.compile(r"(\d*)(:?)(\d*)")


@click.command("query", short_help="List abnormal calls, worst first.")
@click.argument("run", required=False, type=click.Path(path_type=Path))
@click.option("--function", help="Name, or a pattern with * and ?; all other characters are literal.")
@click.option("--program", type=int, help="Number of a program of the workflow.")
@click.option("--rank", type=int)
@click.option("--thread", type=int)
@click.option("--step", metavar="A[:B]", help="One step, or a range: 20:30, 20:, :30.")
@click.option("--time", metavar="A:B", help="Calls under way at that time since the start, as in 1.5s:2s.")
@click.option("--min-severity", metavar="DURATION", help="Least time lost: 5 (ms), 200us, 1s.")
@click.option("--min-score", type=float, metavar="X", help="Least score, in σ for sstd.")
@click.option(
    "--label", type=click.Choice(["anomaly", "normal", "any"]), default="anomaly", show_default=True
)
@click.option("--open", "is_open", is_flag=True, help="Only calls that have not ended: of ranks that hang.")
@click.option("--sort", type=click.Choice(SORTS), default="severity_us", show_default=True)
@click.option("--ascending", is_flag=True, help="Smallest first.")
@click.option("--limit", type=click.IntRange(min=1), default=50, show_default=True, help="Calls per page.")
@click.option("--cursor", help="Continue a list where this cursor, which ended it, says.")
@click.option("--json", "as_json", is_flag=True, help="All fields, as JSON.")
def command(
    run: Path | None,
    function: str | None,
    program: int | None,
    rank: int | None,
    thread: int | None,
    step: str | None,
    time: str | None,
    min_severity: str | None,
    min_score: float | None,
    label: str,
    is_open: bool,
    sort: str,
    ascending: bool,
    limit: int,
    cursor: str | None,
    as_json: bool,
) -> None:
    """List recorded calls of RUN, the folder of a run; by default of the newest under ./chimbuko-runs.

    \b
    Examples:
      chimbuko query
      chimbuko query chimbuko-runs/heat --function 'MPI_*' --limit 10
      chimbuko query --rank 3 --step 20:30 --min-severity 5ms
      chimbuko query --time 1.5s:2s --sort entry_us --ascending
      chimbuko query --json | jq '.calls[].function'
    """
    first_step, last_step = _steps(step)
    with open_run(find_run(run)) as provenance:
        time_range = provenance.time_range()
        start_us = time_range[0] if time_range else 0
        first_us, last_us = _times(time, start_us)
        wanted = CallFilter(
            label=None if label == "any" else cast(Literal["anomaly", "normal"], label),
            function=function,
            program=program,
            rank=rank,
            thread=thread,
            step_min=first_step,
            step_max=last_step,
            time_min_us=first_us,
            time_max_us=last_us,
            min_severity_us=None if min_severity is None else parse_duration_us(min_severity, "ms"),
            min_score=min_score,
            is_open=is_open or None,
        )
        page = provenance.calls(wanted, cast(Sort, sort), not ascending, limit, cursor)
        matched = provenance.count(wanted)
        if as_json:
            answer = {"calls": page.calls, "matched": matched, "next": page.next}
            click.echo(msgspec.json.format(msgspec.json.encode(answer)))
            return
        if page.calls:
            _print_calls(page.calls, start_us, len(provenance.programs()) > 1, wanted.label is None)
        print(_summary(page, matched, wanted, provenance), file=sys.stderr)


def _steps(text: str | None) -> tuple[int | None, int | None]:
    if text is None:
        return None, None
    match = _NUMBER_RANGE.fullmatch(text)
    if match is None or not (match[1] or match[3]):
        raise ConfigError(
            f"--step {text!r}: not a step or range of steps; give one like 20, 20:30, 20: or :30"
        )
    first, colon, last = match.groups()
    if not colon:
        last = first
    return int(first) if first else None, int(last) if last else None


def _times(text: str | None, start_us: int) -> tuple[int | None, int | None]:
    if text is None:
        return None, None
    first, colon, last = text.partition(":")
    if not colon:
        raise ConfigError(f"--time {text!r}: not a range of times; give one like 1.5s:2s, 1.5s: or :2s")
    ends = (start_us + round(parse_duration_us(end, "s")) if end else None for end in (first, last))
    return next(ends), next(ends)


def _print_calls(calls: list[CallSummary], start_us: int, with_program: bool, with_mark: bool) -> None:
    columns = [
        *([Column("")] if with_mark else []),
        Column("CALL"),
        *([Column("PROGRAM", is_number=True)] if with_program else []),
        Column("RANK", is_number=True),
        Column("THREAD", is_number=True),
        Column("STEP", is_number=True),
        Column("TIME", is_number=True),
        Column("SEVERITY", is_number=True),
        Column("EXCLUSIVE", is_number=True),
        Column("INCLUSIVE", is_number=True),
        Column("USUAL", is_number=True),
        Column("SCORE", is_number=True),
        Column("FUNCTION", may_shrink=True),
    ]
    rows = [
        [
            *([MARK if call.label is Label.ANOMALY else ""] if with_mark else []),
            call.id,
            *([str(call.program)] if with_program else []),
            str(call.rank),
            str(call.thread),
            str(call.step),
            f"{(call.entry_us - start_us) / 1e6:.3f} s",
            format_duration_us(call.severity_us),
            format_duration_us(call.exclusive_us),
            ("" if call.exit_us else "≥ ") + format_duration_us(call.inclusive_us),
            format_duration_us(call.expected_us),
            f"{call.score:.1f}",
            call.function,
        ]
        for call in calls
    ]
    Output().table(columns, rows)


def _summary(page: CallPage, matched: int, wanted: CallFilter, provenance: Provenance) -> str:
    """What was shown, and how to go on."""
    if page.calls:
        more = f"; next page: --cursor {page.next}" if page.next else ""
        return f"{len(page.calls):,} of {matched:,} calls{more}"
    if matched:
        return f"no more of the {matched:,} calls; leave out --cursor to begin again"
    if wanted == CallFilter():
        goes_on = provenance.run().state == "running"
        return f"no anomalies{' yet' if goes_on else ''}; --label any shows the normal calls that were kept"
    return "no recorded call matches; loosen the filter, or look among all with --label any"
