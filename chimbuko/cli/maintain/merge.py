"""``chimbuko merge``: puts traces of any formats together into one, on one clock."""

from __future__ import annotations

import shutil
import sys
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TextIO

import click

from chimbuko.capture.formats.apart import sorted_out
from chimbuko.capture.formats.tracemerge import merge
from chimbuko.capture.trace.discovery import find_recorded
from chimbuko.core.names import visible
from chimbuko.core.units import format_duration_us, number_of


@click.command("merge", short_help="Put traces of any formats together into one, on one clock.")
@click.argument("patterns", metavar="TRACE...", nargs=-1, required=True)
@click.option(
    "--to",
    "target",
    required=True,
    type=click.Path(path_type=Path),
    help="File or folder to write: a file ending in .json (Chrome), .pfw (PerfFlowAspect), .pftrace "
    "(Perfetto) or .txt (an event a line), or a folder, for streams that --trace and --replay read; - prints "
    "an event a line.",
)
@click.option(
    "--align/--no-align",
    default=True,
    show_default=True,
    help="Correct clocks that contradict messages or collective operations.",
)
def command(patterns: tuple[str, ...], target: Path, align: bool) -> None:
    """Put recorded streams and traces of other tools together, and write them as one trace.

    Each process has a rank of its own. No message is received before it was sent, and nobody leaves a
    collective operation before the last one came: where the clocks of processes contradict that, they are
    corrected, by as little as need be, and by how much is printed. One trace is converted.

    \b
    Examples:
      chimbuko merge 'perfflow.array.*.pfw' --to all.pfw
      chimbuko merge 'node?/rank*.pt.trace.json' --to training.pftrace
      chimbuko merge 'traces/tau-metrics-*.bp' --to traces.json
      chimbuko merge trace.json.gz --to streams
      chimbuko merge tau-metrics-app-0.bp --to - | less
    """
    if str(target) == "-":
        with TemporaryDirectory(prefix="chimbuko-") as folder:
            text = Path(folder, "events.txt")
            _merge(patterns, text, align, sys.stderr)
            with text.open("rb") as events, suppress(BrokenPipeError):
                shutil.copyfileobj(events, sys.stdout.buffer)
    else:
        _merge(patterns, target, align, sys.stdout)


def _merge(patterns: tuple[str, ...], target: Path, align: bool, told: TextIO) -> None:
    """Write the traces as one, and tell what was done to them."""
    traces = sorted_out(patterns)
    streams = find_recorded(traces.streams) if traces.streams else []
    merged = merge(streams, traces.others, target, align)
    for line in merged.complaints:
        print(f"chimbuko: {visible(line)}", file=sys.stderr)
    for program, old, new in merged.moved:
        click.echo(
            f"ranks of {visible(program)} begin at {new}, and not at {old}: another program has these", told
        )
    for rank, (ahead_us, uncertain_us) in sorted(merged.offsets_us.items()):
        direction = "ahead" if ahead_us > 0 else "behind"
        click.echo(
            f"the clock of rank {rank} was {format_duration_us(abs(ahead_us))} {direction}, "
            f"give or take {format_duration_us(uncertain_us)}",
            told,
        )
    click.echo(f"merged {number_of(len(merged.streams), 'ranks')}, {number_of(merged.rows, 'rows')}", told)
