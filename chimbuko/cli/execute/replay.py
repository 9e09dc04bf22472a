"""``chimbuko replay``: feed recorded streams to readers as if the application ran now."""

from __future__ import annotations

import math
import multiprocessing
import os
import signal
import sys
from contextlib import suppress
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess
from multiprocessing.synchronize import Barrier
from pathlib import Path
from threading import BrokenBarrierError

import click
from msgspec.structs import asdict

from chimbuko.capture.trace.discovery import CONTACT_SUFFIX, ENGINES, SST, StreamName, find_recorded
from chimbuko.capture.trace.isolated import apart
from chimbuko.capture.trace.replay import Pace, Replayed, replay_stream, start_of
from chimbuko.cli.shared.table import print_json
from chimbuko.core.errors import ChimbukoError, ConfigError, TraceFormatError
from chimbuko.core.names import visible
from chimbuko.core.units import number_of
from chimbuko.runtime.process.signals import no_ctrl_c


class _PaceFactor(click.ParamType[float]):
    name = "original|N|max"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> float:
        words = {"original": 1.0, "max": math.inf}
        with suppress(ValueError):
            factor = words.get(str(value)) or float(str(value))
            if factor > 0:
                return factor
        self.fail(f"{value!r} is neither 'original', 'max' nor a number above 0", param, ctx)


@click.command("replay", short_help="Feed recorded traces to readers as if the application ran now.")
@click.argument("patterns", metavar="PATTERN...", nargs=-1, required=True)
@click.option(
    "--to",
    "folder",
    required=True,
    type=click.Path(file_okay=False, path_type=Path),
    help="Folder that the streams are written to.",
)
@click.option(
    "--pace",
    "factor",
    type=_PaceFactor(),
    default="original",
    show_default=True,
    help="Speed: the trace's own pace, N times as fast, or as fast as readers take it.",
)
@click.option("--engine", type=click.Choice(ENGINES, case_sensitive=False), default=SST, show_default=True)
@click.option("--json", "as_json", is_flag=True, help="Print what was replayed as JSON.")
def command(patterns: tuple[str, ...], folder: Path, factor: float, engine: str, as_json: bool) -> None:
    """Write the recorded streams that match a PATTERN again, as tau-metrics-PROGRAM-RANK.bp, into a folder.

    Over SST (the default) each stream waits for its reader and loses nothing. Steps, rows and
    names stay what they were; each step comes when it was complete in the trace's own time,
    counted from the start of the earliest stream. ADIOS2 settings in TAU_ADIOS2_CONFIG_FILE
    replace the engine and its settings.

    \b
    Examples:
      chimbuko replay 'traces/tau-metrics-*.bp' --to live
      chimbuko replay 'traces/tau-metrics-*.bp' --to live --pace 10
      chimbuko replay 'traces/tau-metrics-app-0.bp' --to copies --engine BP5 --pace max
    """
    streams = find_recorded(patterns)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(f"{folder}: cannot be made ({error.strerror})") from error
    for stream in streams:
        if (folder / stream.file_name).resolve() == stream.path.resolve():
            raise ConfigError(f"{folder}: holds the recorded streams themselves; choose another with --to")
    starts = dict(zip(streams, apart(start_of, [stream.path for stream in streams]), strict=True))
    damaged = {stream: start for stream, start in starts.items() if isinstance(start, TraceFormatError)}
    usable = [stream for stream in streams if stream not in damaged]
    if not usable:
        raise next(iter(damaged.values()))
    earliest_us = min((start for start in starts.values() if isinstance(start, int)), default=0)
    results = _replay_all(usable, folder, engine, Pace(factor, earliest_us))
    results += [
        Replayed(stream.path.name, 0, 0, str(error).removeprefix(f"{stream.path}: "))
        for stream, error in damaged.items()
    ]
    if as_json:
        print_json([asdict(result) for result in results])
        return
    for result in results:
        if result.complaint:
            print(visible(f"chimbuko: {result.stream}: {result.complaint}"), file=sys.stderr)
    steps, rows = sum(result.steps for result in results), sum(result.rows for result in results)
    counts = number_of(len(usable), "streams"), number_of(steps, "steps"), number_of(rows, "rows")
    click.echo(f"replayed {', '.join(counts)}")


def _replay_all(streams: list[StreamName], folder: Path, engine: str, pace: Pace) -> list[Replayed]:
    """Replay each stream in a process of its own, as two SST streams in one process can harm each other."""
    context = multiprocessing.get_context("spawn")
    barrier = context.Barrier(len(streams)) if math.isfinite(pace.factor) else None
    processes: list[SpawnProcess] = []
    answers: dict[Connection, StreamName] = {}
    results: dict[StreamName, Replayed] = {}
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    try:
        for stream in streams:
            ours, theirs = context.Pipe(duplex=False)
            arguments = (stream.path, folder / stream.file_name, engine, pace, barrier, theirs)
            process = context.Process(target=_replay_one, args=arguments)
            with no_ctrl_c():
                process.start()
            theirs.close()
            processes.append(process)
            answers[ours] = stream
        while answers:
            for answer in wait(list(answers)):
                assert isinstance(answer, Connection)
                stream = answers.pop(answer)
                results[stream] = _result(stream, answer)
        return [results[stream] for stream in streams]
    finally:
        for process in processes:
            process.terminate()
            process.join()
        for stream in streams:
            # A replay that was cut off leaves the invitation to read it behind.
            (folder / (stream.file_name + CONTACT_SUFFIX)).unlink(missing_ok=True)


def _result(stream: StreamName, answer: Connection) -> Replayed:
    try:
        result: Replayed | str = answer.recv()
    except EOFError:
        return Replayed(stream.path.name, 0, 0, "its replay ended unexpectedly")
    finally:
        answer.close()
    if isinstance(result, str):
        raise TraceFormatError(result)
    return result


def _replay_one(
    source: Path, target: Path, engine: str, pace: Pace, barrier: Barrier | None, answer: Connection
) -> None:
    """Replay one stream in a process of its own, which its parent ends."""
    # What a terminal sends must not reach it: SST has a loud handler of its own for that.
    os.setsid()
    config_file = os.environ.get("TAU_ADIOS2_CONFIG_FILE")
    try:
        answer.send(
            replay_stream(
                source,
                target,
                engine,
                pace,
                Path(config_file) if config_file else None,
                barrier.wait if barrier else lambda: None,
            )
        )
    except BrokenBarrierError:
        answer.send(f"{source}: not replayed, since another stream could not be")
    except ChimbukoError as error:
        if barrier:
            barrier.abort()
        answer.send(str(error))
