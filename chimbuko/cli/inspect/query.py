"""``chimbuko query``: lists recorded calls of a run that has ended, or goes on."""

from __future__ import annotations

import sys
from pathlib import Path

import click
import msgspec

from chimbuko.cli.shared.calls import CallChoice, call_options, start_us
from chimbuko.cli.shared.incident import stuck_lines
from chimbuko.cli.shared.table import MARK, Column, Output, print_json
from chimbuko.core.calls.functionnames import shown_names
from chimbuko.core.calls.schema import SORTS, Label
from chimbuko.core.names import name_matcher, visible
from chimbuko.core.statistics.moments import Moments
from chimbuko.core.units import format_duration_us, number_of
from chimbuko.launcher.outcome.reach import reachable_run
from chimbuko.provenance.incidents.standstill import standstills
from chimbuko.provenance.query.filters import CallFilter, CallPage, CallSummary
from chimbuko.provenance.query.run import Provenance, open_run


@click.command("query", short_help="List abnormal calls, worst first.")
@click.argument("run", required=False, type=click.Path(path_type=Path))
@call_options(label="anomaly")
@click.option("--sort", type=click.Choice(SORTS), default="severity_us", show_default=True)
@click.option("--ascending", is_flag=True, help="Smallest first.")
@click.option("--limit", type=click.IntRange(min=1), default=50, show_default=True, help="Calls per page.")
@click.option("--cursor", help="Continue a list from the cursor that was printed at its end.")
@click.option("--json", "as_json", is_flag=True, help="Print all fields as JSON.")
@click.option(
    "--stuck",
    is_flag=True,
    help="Instead what the ranks are in that do not go on, as one tree, and whether it is a deadlock.",
)
@click.option(
    "--counter",
    metavar="NAME",
    help="Instead what this counter, or those that match a pattern, was on each rank; also with --json.",
)
def command(
    run: Path | None,
    choice: CallChoice,
    sort: str,
    ascending: bool,
    limit: int,
    cursor: str | None,
    as_json: bool,
    stuck: bool,
    counter: str | None,
) -> None:
    """List recorded calls of RUN, the folder of a run; by default of the newest under ./chimbuko-runs.

    \b
    Examples:
      chimbuko query
      chimbuko query chimbuko-runs/heat --function 'MPI_*' --limit 10
      chimbuko query --rank 3 --step 20:30 --min-severity 5ms
      chimbuko query --incident I12
      chimbuko query --through 'time_step*'
      chimbuko query --time 1.5s:2s --sort entry_us --ascending
      chimbuko query --stuck
      chimbuko query --counter 'PAPI_*'
      chimbuko query --json | jq '.calls[].function'
    """
    directory = reachable_run(run)
    with open_run(directory) as provenance:
        if stuck and as_json:
            print_json({"standstills": list(standstills(provenance))})
            return
        if stuck:
            print("\n".join(map(visible, stuck_lines(provenance))) or "no rank stands still")
            return
        if counter is not None:
            _show_counters(provenance, counter, as_json)
            return
        wanted = choice.filter(provenance)
        page = provenance.calls.page(wanted, sort, not ascending, limit, cursor)
        matched = provenance.calls.count(wanted)
        if as_json:
            answer = {"calls": page.calls, "matched": matched, "next": page.next}
            print_json(answer)
            return
        if page.calls:
            _print_calls(
                page.calls, start_us(provenance), len(provenance.programs()) > 1, wanted.label is None
            )
        print(_summary(page, matched, wanted, provenance), file=sys.stderr)


def _show_counters(provenance: Provenance, pattern: str, as_json: bool) -> None:
    """Print the statistics of all values that counters had, by rank."""
    matches = name_matcher(pattern)
    found = [
        (program, rank, counter, Moments(*msgspec.structs.astuple(counter)[1:]))
        for program, rank, counter in provenance.counter_statistics()
        if matches(counter.name)
    ]
    names = ("values", "mean", "standard_deviation", "least", "most")
    values = [(m.n, m.mean, m.stddev, m.minimum, m.maximum) for *_, m in found]
    if as_json:
        answer = [
            {"counter": counter.name, "program": program, "rank": rank, **dict(zip(names, row, strict=True))}
            for (program, rank, counter, _), row in zip(found, values, strict=True)
        ]
        print_json({"counters": answer})
        return
    if not found:
        known = sorted({counter.name for _, _, counter in provenance.counter_statistics()})
        print(
            f"no counter is called {visible(pattern)}; there are {', '.join(map(visible, known)) or 'none'}"
        )
        return
    has_programs = len(provenance.programs()) > 1
    columns = [Column("COUNTER", may_shrink=True), Column("RANK", True), Column("VALUES", True)]
    columns += [Column(title, True) for title in ("MEAN", "STD", "LEAST", "MOST")]
    rows = [
        [
            counter.name,
            f"{program}:{rank}" if has_programs else str(rank),
            f"{row[0]:,.0f}",
            *(f"{value:.6g}" for value in row[1:]),
        ]
        for (program, rank, counter, _), row in zip(found, values, strict=True)
    ]
    Output().table(columns, rows)


def _print_calls(calls: list[CallSummary], zero_us: int, with_program: bool, with_mark: bool) -> None:
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
    shown = shown_names(call.function for call in calls)
    rows = [
        [
            *([MARK if call.label is Label.ANOMALY else ""] if with_mark else []),
            call.id,
            *([str(call.program)] if with_program else []),
            str(call.rank),
            str(call.thread),
            str(call.step),
            f"{(call.entry_us - zero_us) / 1e6:.3f} s",
            format_duration_us(call.severity_us),
            format_duration_us(call.exclusive_us),
            ("" if call.exit_us else "≥ ") + format_duration_us(call.inclusive_us),
            format_duration_us(call.expected_us),
            f"{call.score:.2f}",
            shown[call.function],
        ]
        for call in calls
    ]
    Output().table(columns, rows)


def _summary(page: CallPage, matched: int, wanted: CallFilter, provenance: Provenance) -> str:
    """Return what was shown, and how to go on, in one line."""
    if page.calls:
        more = f"; next page: --cursor {page.next}" if page.next else ""
        return f"{len(page.calls):,} of {number_of(matched, 'calls')}{_only_counted(provenance)}{more}"
    if matched:
        return f"no more of the {number_of(matched, 'calls')}; leave out --cursor to begin again"
    if wanted == CallFilter():
        goes_on = provenance.run().state == "running"
        return f"no anomalies{' yet' if goes_on else ''}; --label any shows the normal calls that were kept"
    return "no recorded call matches; loosen the filter, or look among all with --label any"


def _only_counted(provenance: Provenance) -> str:
    numbers = {
        "only counted": sum(item.anomalies for item in provenance.dropped()),
        "pruned": sum(item.anomalies for item in provenance.prunings()),
    }
    return "".join(f"; {n:,} more anomalies of the run were {how}" for how, n in numbers.items() if n)
