"""``chimbuko overhead``: what tracing and analysis cost a program."""

from __future__ import annotations

import sys
from dataclasses import asdict

import click

from chimbuko.cli.execute.recordedcommand import recorded_command
from chimbuko.cli.shared.table import Column, Output, print_json
from chimbuko.core.units import format_change, format_duration_us, format_signed, number_of
from chimbuko.plan.overhead import (
    KINDS,
    LEAST_ROUNDS,
    Added,
    Interrupted,
    Measured,
    Overhead,
    Spread,
    Trial,
    measure,
    overhead,
)

LEAST_COMPARED = 2
"""Rounds."""


@click.command(
    "overhead",
    context_settings={"allow_interspersed_args": False},
    short_help="Measure what tracing and analysis cost a program.",
)
@click.option(
    "--rounds",
    type=click.IntRange(min=LEAST_COMPARED),
    default=LEAST_ROUNDS,
    show_default=True,
    help="Number of rounds that count.",
)
@click.option(
    "--period", type=click.FloatRange(min=0.01), default=1.0, show_default=True, help="Seconds between steps."
)
@click.option(
    "--transport",
    type=click.Choice(["files", "sst"]),
    default="files",
    show_default=True,
    help="Transport of the trace, as of 'chimbuko run'.",
)
@click.option(
    "--config",
    type=click.Path(exists=True, dir_okay=False),
    metavar="FILE",
    help="TOML file with settings, as of 'chimbuko run'.",
)
@click.option(
    "--json", "as_json", is_flag=True, help="Print all of it as JSON, with the times of each round."
)
@click.argument("command_line", metavar="[--] COMMAND...", nargs=-1, required=True, type=click.UNPROCESSED)
@click.pass_context
def command(
    context: click.Context,
    rounds: int,
    period: float,
    transport: str,
    config: str | None,
    as_json: bool,
    command_line: tuple[str, ...],
) -> None:
    """Run COMMAND again and again: alone, traced, and traced with the analysis beside it.

    COMMAND is what you would give to 'chimbuko run'. Under a switch of ours 'chimbuko trace' and tau_exec in
    it, or in scripts that it calls, run the program plainly. The three take turns, in another order in each
    round, after a round that does not count. Measured is the time from the program's start to its end, so a
    program that takes ten seconds or more on an otherwise quiet machine says most.

    \b
    Examples:
      chimbuko overhead -- mpirun -n 4 ./app input.nml
      chimbuko overhead --rounds 15 -- mpirun -n 4 tau_exec -T mpi,pthread -adios2_trace ./app
      chimbuko overhead --json -- python simulation.py > overhead.json
    """
    options = ["--transport", transport, *(["--config", config] if config else [])]
    found = Measured()

    def show(number: int, kind: str, time_s: float) -> None:
        which = f"round {number} of {rounds}" if number else "round that does not count"
        print(f"{which}: {kind} {time_s:.3f} s", file=sys.stderr)

    code = 0
    try:
        words = tuple(recorded_command(command_line))
        measure(Trial(words, period, tuple(options)), rounds, show, found)
    except Interrupted as interruption:
        code = interruption.code
        if found.rounds < LEAST_COMPARED:
            print("chimbuko: interrupted before two rounds were whole; nothing to compare", file=sys.stderr)
            context.exit(code)
    times = [found.times_s[kind][: found.rounds] for kind in KINDS]
    result = overhead(*times)
    if as_json:
        value = {"command": command_line, **asdict(result), "times_s": dict(zip(KINDS, times, strict=True))}
        print_json(value)
    else:
        _print(result)
    context.exit(code)


def _print(found: Overhead) -> None:
    output = Output()
    columns = [Column(""), Column("MEAN", True), Column("SD", True), Column("ADDED", True)]
    columns += [Column("95 %", True), Column("P", True)]
    rows = [
        [*_spread("application", found.application), "", "", ""],
        [*_spread("application + tracing", found.traced), *_added(found.tracing)],
        [*_spread("application + tracing + analysis", found.analysed), *_added(found.both)],
        ["the analysis' own share", "", "", *_added(found.analysis)],
    ]
    output.table(columns, rows)
    few = f"; {LEAST_ROUNDS} or more say more" if found.rounds < LEAST_ROUNDS else ""
    output.line(f"{number_of(found.rounds, 'rounds')}, compared within each (t-test){few}")


def _spread(name: str, spread: Spread) -> list[str]:
    return [name, *(format_duration_us(1e6 * time_s) for time_s in (spread.mean_s, spread.deviation_s))]


def _added(added: Added) -> list[str]:
    low, high = added.interval
    return [
        format_change(added.share, ".2f"),
        f"{format_signed(100 * low, '.2f')} to {format_signed(100 * high, '.2f')}",
        f"{added.p:.2g}",
    ]
