"""``chimbuko follow``: writes streams of traces that other tools are still writing."""

from __future__ import annotations

import os
import sys
import time
from contextlib import ExitStack
from pathlib import Path

import click

from chimbuko.capture.formats.conversion import losses_of, program_name
from chimbuko.capture.formats.following import Following
from chimbuko.capture.trace.discovery import SST
from chimbuko.capture.trace.tausettings import WriterSettings
from chimbuko.core.errors import ConfigError
from chimbuko.core.names import visible
from chimbuko.core.units import parse_duration_us
from chimbuko.runtime.process.signals import FROM_OTHERS, heed
from chimbuko.runtime.process.usercommand import UserCommand
from chimbuko.runtime.process.wakeup import Ending

LOOK_S = 0.2


@click.command(
    "follow",
    short_help="Feed traces that other tools are writing to an analysis.",
    context_settings={"allow_interspersed_args": False},
)
@click.option(
    "--trace",
    "patterns",
    multiple=True,
    required=True,
    metavar="PATTERN",
    help="Files that are being written, also those that come later. Repeatable.",
)
@click.option(
    "--idle",
    default="60s",
    show_default=True,
    metavar="DURATION",
    help="Without a COMMAND: end when so long nothing has come.",
)
@click.argument("command_line", metavar="[--] [COMMAND...]", nargs=-1, type=click.UNPROCESSED)
def command(patterns: tuple[str, ...], idle: str, command_line: tuple[str, ...]) -> None:
    """Read trace files as they grow, and write streams of what has come, one for each process.

    Started by chimbuko run it puts traces of programs that no tracer of ours sees under the analysis while
    they run. It runs COMMAND and ends with it, with its exit code; or it ends when nothing comes any more, or
    at Ctrl-C. Events become a step when no earlier one is expected: that is a second, or as long as twice
    the longest whole call, at most 30 s; tools that write beginnings and ends of calls are followed more
    closely. Files can be in JSON (PerfFlowAspect, Chrome) and Perfetto's.

    \b
    Examples:
      chimbuko run -- chimbuko follow --trace 'perfflow.*.pfw' -- python workflow.py
      chimbuko run -- chimbuko follow --trace trace.json --idle 5s
    """
    settings = WriterSettings.from_environment(os.environ)
    if settings.engine.upper() == SST:
        raise ConfigError("one process cannot write several streams over SST; use --transport files")
    idle_s = parse_duration_us(idle) / 1e6
    is_over = Ending()
    program = program_name(Path(patterns[0].replace("*", "").replace("?", "")))
    with ExitStack() as stack:
        following = Following(patterns, program, settings, stack)
        beside = stack.enter_context(UserCommand()) if command_line else None
        if beside is None:
            heed(FROM_OTHERS, is_over.set)
        else:
            beside.start(command_line, os.environ)
        _follow(following, settings.period_us / 1e6, idle_s, beside, is_over)
        following.finish()
        code = 0 if beside is None else beside.wait()
    for line in following.catalogue.complaints + losses_of(following.catalogue):
        print(f"chimbuko: {visible(line)}", file=sys.stderr)
    if not following.files:
        print(f"chimbuko: {' '.join(patterns)}: no such trace has come", file=sys.stderr)
    sys.exit(code)


def _follow(
    following: Following,
    period_s: float,
    idle_s: float,
    beside: UserCommand | None,
    is_over: Ending,
) -> None:
    news_s = step_s = time.monotonic()
    while not is_over.is_set():
        # Asked before the look: what a program has written before its end is taken.
        has_ended = beside is not None and beside.poll() is not None
        has_news = following.look()
        now_s = time.monotonic()
        news_s = now_s if has_news else news_s
        if now_s - step_s >= period_s:
            following.write()
            step_s = now_s
        if has_ended or (beside is None and now_s - news_s >= idle_s):
            return
        if not has_news:
            is_over.wait(min(LOOK_S, period_s))
