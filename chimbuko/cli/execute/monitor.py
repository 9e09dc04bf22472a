"""``chimbuko monitor``: what a program's threads and their cores do."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import click

from chimbuko.errors import ConfigError
from chimbuko.monitor.findings.threads import stuck
from chimbuko.monitor.procfs.cpulist import format_cpulist
from chimbuko.monitor.report.csvwriter import CsvWriter
from chimbuko.monitor.report.layout import report
from chimbuko.monitor.sampling.identity import read_identity, start_ticks_of
from chimbuko.monitor.sampling.span import Span
from chimbuko.monitor.sampling.watch import Watch, last_core
from chimbuko.monitor.topology.reading import read_topology
from chimbuko.monitor.topology.tree import summary
from chimbuko.process.lifetime import log
from chimbuko.units import parse_duration_us

LOOK_S = 0.05
"""Time between two looks whether it is over."""


@click.command("monitor", short_help="Watch a program's threads and cores, without a trace.")
@click.option("--pid", type=click.IntRange(min=1), help="Watch a process that runs already, until it ends.")
@click.option("--period", default="1s", show_default=True, metavar="TIME", help="Time between two samples.")
@click.option("--core", type=click.IntRange(min=0), help="Core of the sampler; default the last it may use.")
@click.option("--csv", "folder", type=click.Path(path_type=Path), help="Folder for zs.data.RANK.csv.")
@click.option("--topology", is_flag=True, help="Show how this node is built, and end.")
@click.argument("command_line", nargs=-1, type=click.UNPROCESSED, metavar="[-- COMMAND...]")
def command(
    pid: int | None,
    period: str,
    core: int | None,
    folder: Path | None,
    topology: bool,
    command_line: tuple[str, ...],
) -> None:
    """Run COMMAND, or attach to a process, and report how its threads used their cores.

    All processes that it starts on this node are watched, too. The report has ZeroSum's layout, and ends
    with what was found. It goes to standard error where a command was run, whose exit code is kept;
    with --pid to standard output, at the end of that process or at Ctrl-C.

    \b
    Examples:
      chimbuko monitor -- ./app input.nml
      chimbuko monitor --csv samples -- mpirun -n 4 ./app
      chimbuko monitor --pid 4711 --period 500ms
      chimbuko monitor --topology
    """
    if topology:
        found = read_topology()
        print("\n".join([summary(found), *found.lines(os.sched_getaffinity(0))]))
        return
    if (pid is None) == (not command_line):
        raise ConfigError("give either a command behind --, or --pid")
    period_s = parse_duration_us(period, "s") / 1e6
    if not 0.05 <= period_s <= 3600:
        raise ConfigError(f"--period {period}: give between 50ms and 3600s")
    allowed = os.sched_getaffinity(0)
    if core is not None and core not in allowed:
        raise ConfigError(f"--core {core}: this process may use {format_cpulist(allowed)} only")
    if pid is not None:
        _attach(pid, period_s, core, folder)
    else:
        sys.exit(_run(list(command_line), period_s, core, folder))


def _attach(pid: int, period_s: float, core: int | None, folder: Path | None) -> None:
    identity = read_identity(pid)
    if identity is None:
        raise ConfigError(f"--pid {pid}: no such process on this node")
    ended = _Interrupt()
    lines = _watch(
        pid, period_s, core, folder, lambda: ended.seen or start_ticks_of(pid) != identity.start_ticks
    )
    print("\n".join(lines))


def _run(words: list[str], period_s: float, core: int | None, folder: Path | None) -> int:
    try:
        process = subprocess.Popen(words)
    except OSError as error:
        raise ConfigError(f"{words[0]}: cannot be run ({error.strerror})") from error
    # Ctrl-C reaches the program as well, which decides what becomes of it; SIGTERM is passed on.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, lambda number, _: process.send_signal(number))
    lines = _watch(process.pid, period_s, core, folder, lambda: process.poll() is not None)
    print("\n".join(lines), file=sys.stderr)
    # As a shell says that a signal ended it.
    return process.returncode if process.returncode >= 0 else 128 - process.returncode


class _Interrupt:
    """Whether Ctrl-C or SIGTERM has come."""

    def __init__(self) -> None:
        self.seen = False
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, self._note)

    def _note(self, *_: object) -> None:
        self.seen = True


def _say_what_stands_still(total: Span, said: set[tuple[int, ...]]) -> None:
    """While it goes on, since it may never end: once for each process, and again when it had gone on."""
    still = {finding.threads: finding for finding in stuck(total)}
    for threads in still.keys() - said:
        log(f"{still[threads].text}; {still[threads].advice}")
    said.clear()
    said.update(still)


def _watch(
    pid: int, period_s: float, core: int | None, folder: Path | None, is_over: Callable[[], bool]
) -> list[str]:
    """Sample until it is over; the lines of the report."""
    node = socket.gethostname()
    watch = Watch([pid])
    identity = read_identity(pid)
    watch.move_to(
        last_core([identity.cpus] if identity else [], os.sched_getaffinity(0)) if core is None else core
    )
    said: set[tuple[int, ...]] = set()
    writer = None if folder is None else CsvWriter(folder, node)
    try:
        watch.step()
        due = time.monotonic()
        while not is_over():
            due = max(due + period_s, time.monotonic())
            while not is_over() and time.monotonic() < due:
                time.sleep(max(0.0, min(LOOK_S, due - time.monotonic())))
            span = watch.step()
            if watch.total:
                _say_what_stands_still(watch.total, said)
            if writer and span and watch.total:
                writer.write(span, watch.total, watch.identities)
    finally:
        watch.close()
        if writer:
            writer.close()
    if watch.total is None:
        return ["chimbuko: it ended before a sample could be taken"]
    return report(watch.total, watch.identities, node)
