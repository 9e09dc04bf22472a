"""``chimbuko filter``: what to leave out of the trace, since tracing is the larger overhead."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

import click

from chimbuko.capture.trace.tausettings import SELECT_FILE_NAME, TimerFilter
from chimbuko.cli.shared.table import Column, Output, print_json
from chimbuko.core.errors import ConfigError
from chimbuko.core.names import visible
from chimbuko.core.units import format_duration_us, format_share, number_of
from chimbuko.launcher.outcome.filteradvice import FilterAdvice, FunctionCost, advise
from chimbuko.launcher.outcome.reach import reachable_run
from chimbuko.provenance.query.run import open_run

_COLUMNS = [
    Column("CALLS", is_number=True),
    Column("TRACE", is_number=True),
    Column("TRACING", is_number=True),
    Column("HOLDS", is_number=True),
    Column("MEAN", is_number=True),
    Column("ANOMALIES", is_number=True),
    Column("LOST", is_number=True),
    Column("ADVICE"),
    Column("FUNCTION", may_shrink=True),
]


@click.command("filter", short_help="Propose functions to leave out of the trace.")
@click.argument("run", required=False, type=click.Path(path_type=Path))
@click.option("-o", "--output", type=click.Path(path_type=Path), help="Write TAU's select file.")
@click.option(
    "--limit",
    type=click.IntRange(min=1),
    default=20,
    show_default=True,
    help="Functions to list, of all ranks.",
)
@click.option("--json", "as_json", is_flag=True, help="Print all of it as JSON.")
def command(run: Path | None, output: Path | None, limit: int, as_json: bool) -> None:
    """List what tracing each function of RUN costs, by default of the newest run under ./chimbuko-runs.

    Short, frequent functions in whose abnormal calls less time was lost than tracing them takes are proposed
    to be left out; MPI calls never are. The select file holds them, and what was left out of RUN already.
    Functions are counted over all ranks: TRACE is the size of their calls, TRACING the time that tracing
    takes, HOLDS their exclusive time, LOST the time lost in abnormal calls.

    \b
    Examples:
      chimbuko filter
      chimbuko filter chimbuko-runs/heat -o select.tau
      TAU_ADIOS2_SELECT_FILE=select.tau chimbuko run -- mpirun -n 4 tau_exec -adios2_trace ./app
      chimbuko filter --json | jq '.patterns[]'
    """
    directory = reachable_run(run)
    with open_run(directory) as provenance:
        advice = advise(provenance.function_statistics(), provenance.health())
    if output is not None:
        previous = directory.settings / SELECT_FILE_NAME
        _write(output, advice, TimerFilter.from_file(previous) if previous.exists() else TimerFilter())
    if as_json:
        print_json(advice)
        return
    if advice.functions:
        Output().table(_COLUMNS, [_row(function) for function in advice.functions[:limit]])
    for line in _summary(advice, output):
        print(visible(line), file=sys.stderr)


def _write(path: Path, advice: FilterAdvice, before: TimerFilter) -> None:
    try:
        path.write_text(advice.select_file(before).text())
    except OSError as error:
        raise ConfigError(f"{path}: select file cannot be written ({error.strerror})") from error


def _row(function: FunctionCost) -> list[str]:
    return [
        f"{function.calls:,}",
        _megabytes(function.size_bytes),
        format_duration_us(function.tracing_us),
        format_duration_us(function.held_us),
        format_duration_us(function.mean_us),
        f"{function.anomalies:,}",
        format_duration_us(function.severity_us),
        "exclude" if function.is_excluded else "",
        function.name,
    ]


def _summary(advice: FilterAdvice, output: Path | None) -> list[str]:
    lines = [
        f"{number_of(len(advice.functions), 'functions')}, {number_of(advice.rows, 'rows')}, "
        f"{_megabytes(advice.size_bytes)}; "
        f"tracing took about {format_duration_us(advice.tracing_us)} of {format_duration_us(advice.held_us)}"
    ]
    excluded = sum(function.is_excluded for function in advice.functions)
    if not excluded:
        return [*lines, "nothing to leave out: no function is short, frequent and harmless"]
    lines.append(
        f"leaving out {excluded} of them saves {_share(advice.saved_rows, advice.rows)} of the rows, "
        f"{_share(advice.saved_bytes, advice.size_bytes)} of the bytes and "
        f"{_share(advice.saved_us, advice.tracing_us)} of the time that tracing takes"
    )
    if output is None:
        lines.append("write the select file with -o FILE")
    else:
        lines.append(f"use it: TAU_ADIOS2_SELECT_FILE={shlex.quote(str(output))} chimbuko run -- …")
    return lines


def _megabytes(size_bytes: int) -> str:
    return f"{size_bytes / 1e6:.2f} MB"


def _share(part: float, whole: float) -> str:
    return format_share(part / whole if whole else 0.0)
