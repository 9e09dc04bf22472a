"""``chimbuko attach``: the analysis around a Python program that runs already."""

from __future__ import annotations

import math
import os
import signal
import sys
import time
from pathlib import Path
from typing import NoReturn

import click

from chimbuko.cli.execute.interpreter import parse_command
from chimbuko.cli.execute.trace import MPI_WRITERS
from chimbuko.core.errors import ConfigError
from chimbuko.core.units import parse_duration_us
from chimbuko.instrument.tracer import session
from chimbuko.instrument.tracer.attaching import COOPERATION_VARIABLE, attach, cooperate, detach, watch
from chimbuko.instrument.tracer.injection import Target
from chimbuko.instrument.tracer.processmetadata import program_name
from chimbuko.runtime.process.ranks import rank_from
from chimbuko.runtime.runs.programname import ATTACHED

PART_VARIABLE = "CHIMBUKO_ATTACH_TO"
"""Environment variable by which the program of the run, which is this verb, knows its part."""


@click.command(
    "attach",
    short_help="Record a Python program that runs already, with the analysis beside it.",
    context_settings={"ignore_unknown_options": True},
)
@click.argument("pid", type=click.IntRange(min=1))
@click.argument("options", metavar="[OPTIONS OF RUN]...", nargs=-1, type=click.UNPROCESSED)
@click.option(
    "--for", "duration", metavar="DURATION", help="Let the program go after so long, as 30s or 10m."
)
@click.option(ATTACHED, "program", hidden=True)
def command(pid: int, options: tuple[str, ...], duration: str | None, program: str | None) -> None:
    """Record the calls of process PID from now on, and analyse them as ``chimbuko run`` does.

    The process is of Python 3.11 or newer, yours, and on this node; it needs no change and no new start.
    Ctrl-C lets it go: it is as it was, and goes on. Calls that had begun before are not recorded, nor are
    processes that it starts as new programs.

    It takes the right to debug the process (ptrace), as debuggers do.

    \b
    Examples:
      chimbuko attach 4711
      chimbuko attach 4711 --for 60s -o looked
    """
    longest_s = None if duration is None else parse_duration_us(duration) / 1e6
    target = Target(pid)
    if os.environ.pop(PART_VARIABLE, "") == str(pid) and program is not None:
        _be_the_program(target, program, longest_s)
    if COOPERATION_VARIABLE not in os.environ:
        target.check()
    limit = [] if duration is None else ["--for", duration]
    words = [sys.executable, "-m", "chimbuko", "attach", str(pid), ATTACHED, _name_of(target), *limit]
    os.execve(
        sys.executable,
        [sys.executable, "-m", "chimbuko", "run", *options, "--", *words],
        os.environ | {PART_VARIABLE: str(pid)},
    )


def _name_of(target: Target) -> str:
    python = parse_command(target.words[1:])
    return program_name(python.module or python.script)


def _be_the_program(target: Target, name: str, longest_s: float | None) -> NoReturn:
    """Record the process for a run, as the program of which this one stands."""
    pid = target.pid
    asked: list[int] = []
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda number, _: asked.append(number))

    python = parse_command(target.words[1:])
    include = (f"{python.package}.*",) if python.package else ()
    script = os.path.join(os.readlink(f"/proc/{pid}/cwd"), python.script) if python.script else ""
    try:
        family = session.new_family(
            os.environ, name, rank_from(os.environ), script, MPI_WRITERS, include, with_builtins=False
        )
    except OSError as error:
        raise ConfigError(f"process {pid} cannot be recorded: {error}") from error
    if place := os.environ.get(COOPERATION_VARIABLE):
        cooperate(target, family.text(), Path(place), lambda: bool(asked))
    elif attach(target, family.text(), lambda: bool(asked)):
        until_s = math.inf if longest_s is None else time.monotonic() + longest_s
        print(f"chimbuko: recording process {pid} ({name}); Ctrl-C lets it go", file=sys.stderr, flush=True)
        watch(target, lambda: bool(asked) or time.monotonic() > until_s)
        if target.is_alive:
            detach(target)
            print(f"chimbuko: process {pid} goes on as before", file=sys.stderr, flush=True)
    sys.exit(0)
