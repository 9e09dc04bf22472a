"""``chimbuko monitor``: what a program's threads and their cores do."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

import click

from chimbuko.core.errors import ConfigError, ServiceError
from chimbuko.core.names import visible
from chimbuko.core.units import parse_duration_us
from chimbuko.monitor.procfs.numbers import format_cpulist
from chimbuko.monitor.procfs.topology import read_topology, summary
from chimbuko.monitor.report.locks import LockFile
from chimbuko.monitor.service.election import folder_of_job
from chimbuko.monitor.service.program import Endings, LogWatch, attach, run
from chimbuko.monitor.service.settings import Settings
from chimbuko.runtime.process.lifetime import log, write_error
from chimbuko.runtime.process.ranks import stated_rank

if TYPE_CHECKING:
    from chimbuko.monitor.report.preloaded import PreloadedCounting


@click.command("monitor", short_help="Watch a program's threads and cores, without a trace.")
@click.option(
    "--pid",
    "pids",
    type=click.IntRange(min=1),
    multiple=True,
    help="Watch a process that runs already, until it ends. Repeatable.",
)
@click.option("--period", default="1s", show_default=True, metavar="TIME", help="Time between two samples.")
@click.option(
    "--core",
    type=click.IntRange(min=0),
    help="Core of the sampler; default the last one that no worker uses, else the last one.",
)
@click.option(
    "--csv", "folder", type=click.Path(path_type=Path), help="Folder for zs.data.RANK.csv and zs.RANK.log."
)
@click.option(
    "--baseline",
    type=click.Path(path_type=Path),
    help="Folder that a good run has left (--csv): say how this one differs.",
)
@click.option(
    "--prometheus",
    type=click.Path(path_type=Path),
    help="File for the newest values as Prometheus' text, such as a node exporter reads (*.prom).",
)
@click.option(
    "--adios",
    type=click.Path(path_type=Path),
    help="File for a time series in ADIOS2's format (*.bp): a step each period.",
)
@click.option(
    "--publish",
    is_flag=True,
    help="Publish what the node does in the namespace 'hardware' (CHIMBUKO_NAMESPACES); without COMMAND and "
    "--pid until Ctrl-C.",
)
@click.option(
    "--heartbeat", is_flag=True, help="Print a line each period: what runs, and what memory is left."
)
@click.option(
    "--watch-log",
    type=click.Path(path_type=Path),
    help="End the program when this file has not changed for --time-out; exit code 124.",
)
@click.option(
    "--time-out",
    default="300s",
    show_default=True,
    metavar="TIME",
    help="Longest time for which the file of --watch-log may stand still.",
)
@click.option(
    "--stop-file", type=click.Path(path_type=Path), help="End the program as soon as there is such a file."
)
@click.option(
    "--messages",
    multiple=True,
    metavar="PATTERN",
    help="Count the messages between ranks in a recorded trace, into --csv, and end. Repeatable.",
)
@click.option(
    "--count-messages",
    is_flag=True,
    help="Count the messages between ranks of COMMAND while it runs, into --csv; needs the compiler of its "
    "MPI.",
)
@click.option(
    "--locks",
    "counts_locks",
    is_flag=True,
    help="Count how often each thread of COMMAND takes locks, and tries to; needs a C compiler.",
)
@click.option("--topology", is_flag=True, help="Show how this node is built, and end.")
@click.option("--json", "as_json", is_flag=True, help="Show that as JSON.")
@click.argument("command_line", nargs=-1, type=click.UNPROCESSED, metavar="[-- COMMAND...]")
def command(
    pids: tuple[int, ...],
    period: str,
    core: int | None,
    folder: Path | None,
    baseline: Path | None,
    prometheus: Path | None,
    adios: Path | None,
    publish: bool,
    heartbeat: bool,
    watch_log: Path | None,
    time_out: str,
    stop_file: Path | None,
    messages: tuple[str, ...],
    count_messages: bool,
    counts_locks: bool,
    topology: bool,
    as_json: bool,
    command_line: tuple[str, ...],
) -> None:
    """Run COMMAND, or attach to a process, and report how its threads used their cores.

    All processes that it starts on this node are watched, too. The report has ZeroSum's layout, and ends
    with what was found. It goes to standard error where a command was run, whose exit code is kept;
    with --pid to standard output, at the end of that process or at Ctrl-C. Where a launcher starts it once
    for each rank, one of them samples for all of the node, and the last one reports.

    \b
    Examples:
      chimbuko monitor -- ./app input.nml
      chimbuko monitor --csv samples -- mpirun -n 4 ./app
      mpirun -n 4 chimbuko monitor --heartbeat -- ./app
      chimbuko monitor --pid 4711 --period 500ms
      chimbuko monitor --watch-log out.log --time-out 600s -- ./app
      chimbuko monitor --count-messages --csv messages -- mpirun -n 4 ./app
      chimbuko monitor --messages 'trace/tau-metrics-*.bp' --csv messages
      chimbuko monitor --baseline samples -- mpirun -n 4 ./app
      chimbuko monitor --publish --period 10s
      chimbuko monitor --topology
    """
    if as_json and not topology:
        raise ConfigError("--json is for --topology; the tables of --csv are for other programs")
    if topology:
        found = read_topology()
        if as_json:
            import json

            allowed_cpus = sorted(os.sched_getaffinity(0))
            print(json.dumps({"allowed_cpus": allowed_cpus, "machine": found.as_json()}, indent=2))
            return
        print("\n".join(map(visible, [summary(found), *found.lines(os.sched_getaffinity(0))])))
        return
    if (messages or count_messages) and folder is None:
        raise ConfigError("messages are counted into tables: give their folder (--csv FOLDER)")
    if messages and folder is not None:
        _count_messages(messages, folder)
        return
    if publish and not pids and not command_line:
        from chimbuko.observe.namespaces.client.hardware import HardwarePublisher
        from chimbuko.runtime.process.wakeup import repeat_until_asked

        with HardwarePublisher() as publisher:
            repeat_until_asked(publisher.publish, _seconds("--period", period, 0.05))
        return
    if bool(pids) == bool(command_line):
        raise ConfigError("give either a command behind --, or --pid")
    if pids and (watch_log or stop_file):
        raise ConfigError("--watch-log and --stop-file end what they have started: give a command behind --")
    for option in ("--count-messages",) * count_messages + ("--locks",) * counts_locks:
        if pids:
            raise ConfigError(f"{option} loads a library into what it starts: give a command behind --")
    time_out_s = _seconds("--time-out", time_out, 1.0)
    allowed = os.sched_getaffinity(0)
    if core is not None and core not in allowed:
        raise ConfigError(f"--core {core}: this process may use {format_cpulist(allowed)} only")
    with (
        _published() if publish else nullcontext() as publish_now,
        _locks_counted() if counts_locks else nullcontext() as locks,
    ):
        settings = Settings(
            period_s=_seconds("--period", period, 0.05),
            core=core,
            csv=folder,
            baseline=baseline,
            prometheus=prometheus,
            adios=adios,
            heartbeat=heartbeat,
            publish=publish_now,
            locks=locks,
        )
        # Values of a sample live until the next one: to look for cycles among them costs, and finds none.
        gc.freeze()
        gc.set_threshold(100_000, 50, 100)
        if pids:
            print("\n".join(map(visible, attach(pids, settings))))
            return
        endings = Endings(LogWatch(watch_log, time_out_s) if watch_log else None, stop_file)
        with _counting(command_line, folder if count_messages else None) as counting:
            code, lines = run(command_line, settings, endings, counting)
            if lines and counting is not None:
                lines += counting.tables()
        write_error("".join(f"{visible(line)}\n" for line in lines))
    sys.exit(code)


@contextmanager
def _published() -> Iterator[Callable[[], None]]:
    """Publish the state of the node in this context; what does not arrive does not change the program's exit
    code.
    """
    from chimbuko.observe.namespaces.client.hardware import HardwarePublisher

    publisher = HardwarePublisher()
    try:
        yield publisher.publish
    finally:
        try:
            publisher.close()
        except ServiceError as error:
            log(str(error))


@contextmanager
def _locks_counted() -> Iterator[LockFile | None]:
    """Have a command's locks counted in this context, which gives None where they cannot be: that is no
    reason for a program not to run.
    """
    is_ranked = stated_rank(os.environ) is not None
    # Where each rank has a monitor of its own, one of them reads what the threads of all have counted.
    shared = folder_of_job(os.environ, os.getppid()).name
    try:
        file = LockFile(shared if is_ranked else f"{shared}-{os.getpid()}")
    except (ConfigError, OSError, subprocess.SubprocessError) as error:
        log(f"locks are not counted: {error}")
        yield None
        return
    try:
        yield file
    except BaseException:
        file.close()
        raise
    if not is_ranked:
        file.close()


@contextmanager
def _counting(command_line: Sequence[str], folder: Path | None) -> Iterator[PreloadedCounting | None]:
    """Count a command's messages into a folder in this context, which gives None without a folder, and where
    they cannot be counted: that is no reason for a program not to run.
    """
    if folder is None:
        yield None
        return
    from chimbuko.monitor.report.preloaded import PreloadedCounting

    try:
        counting = PreloadedCounting(command_line, folder)
    except (ConfigError, OSError, subprocess.SubprocessError) as error:
        log(f"messages are not counted: {error}")
        yield None
        return
    try:
        yield counting
    finally:
        counting.close()


def _count_messages(patterns: tuple[str, ...], folder: Path) -> None:
    # Loaded here since it needs NumPy, which the monitor of a program does not.
    from chimbuko.capture.trace.discovery import find_recorded
    from chimbuko.monitor.report.matrix import write_all
    from chimbuko.monitor.report.preloaded import count_messages

    found, complaints = count_messages(find_recorded(patterns))
    for complaint in complaints:
        log(complaint)
    print("\n".join(write_all(found, folder)))


def _seconds(option: str, text: str, least_s: float) -> float:
    seconds = parse_duration_us(text) / 1e6
    if not least_s <= seconds <= 3600:
        least = f"{least_s:.0f}s" if least_s >= 1 else f"{1000 * least_s:.0f}ms"
        raise ConfigError(f"{option} {text}: give between {least} and 3600s")
    return seconds
