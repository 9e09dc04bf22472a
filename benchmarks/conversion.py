"""What conversions between formats of traces lose and cost, and what it takes to read a large file.

Run: python -m benchmarks.conversion [--only flags reading] [--megabytes N ...] [--json]

``flags``: a recording of four ranks, cut into whole periods as all that is converted, goes through a file of
each format and back, and through one file for each rank, of formats in turn, that are merged into a folder of
streams. Abnormal calls are compared by rank, function, begin and end.
``reading``: made files are converted to streams in a process of their own; its memory is what it has of its
own, without pages of files, at the most.
"""

from __future__ import annotations

import argparse
import json
import shutil
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from functools import partial
from itertools import count, cycle
from pathlib import Path
from typing import IO

import msgspec
import numpy as np

from benchmarks.generate import SyntheticTrace
from benchmarks.measuring import in_child, table
from chimbuko.capture.formats.conversion import convert
from chimbuko.capture.formats.moments import Moments
from chimbuko.capture.formats.tracemerge import merge
from chimbuko.capture.formats.written import writer_of
from chimbuko.capture.trace.discovery import StreamName, find_recorded
from chimbuko.core.config import AnalysisConfig
from chimbuko.core.traceschema import COMM_COLUMNS
from chimbuko.instrument.annotations.eventfile import head, lines
from evaluation.recorded import TRACES, analyse

RECORDING = "heat4"
PROGRAM = "heat2d"
PERIOD_US = 1_000_000
ENDS = (".pfw", ".json", ".pftrace")
MADE_ROWS = 50_000
SAMPLE_S = 0.02
Flag = tuple[int, str, int, int]
"""Rank, function, begin and end in µs of an abnormal call."""


@dataclass(frozen=True)
class Detour:
    """What became of a recording that went through other formats."""

    way: str
    file_mb: float
    rows: int
    written_per_cpu_s: float
    """Rows."""
    read_per_cpu_s: float
    flags: int
    same: int
    """Of them are those of the recording as well."""
    lost: int


@dataclass(frozen=True)
class Reading:
    """What it took to read one file."""

    format: str
    megabytes: float
    events: int
    cpu_s: float
    events_per_cpu_s: float
    memory_mb: float


def flags_of(streams: list[StreamName]) -> set[Flag]:
    """All that the detector flags in streams of one program."""
    calls = analyse(streams, AnalysisConfig(), 1).anomalies()
    return {(call.rank, call.function, call.entry_us, call.exit_us) for call in calls}


def detours(recorded: list[StreamName], folder: Path) -> Iterator[Detour]:
    """A recording through each format, and through files of its ranks.

    Parameters
    ----------
    recorded
        Cut into whole periods.
    folder
        For all files; empty.
    """
    expected = flags_of(recorded)

    def compared(
        way: str, files: list[Path], rows: int, times_s: list[float], back: list[StreamName]
    ) -> Detour:
        flags = flags_of(back)
        size_mb = sum(file.stat().st_size for file in files) / 1e6
        begun_s, written_s, read_s = times_s
        rates = rows / (written_s - begun_s), rows / (read_s - written_s)
        same = len(flags & expected)
        return Detour(way, size_mb, rows, *rates, len(flags), same, len(expected) - same)

    for end in ENDS:
        times_s = [time.process_time()]
        file = folder / f"whole{end}"
        rows = merge(recorded, [], file, is_aligned=False).rows
        times_s.append(time.process_time())
        back = convert([file], folder / f"streams{end}", PROGRAM, PERIOD_US).streams
        times_s.append(time.process_time())
        yield compared(end, [file], rows, times_s, back)

    times_s, rows = [time.process_time()], 0
    files = [folder / f"rank{stream.rank}{end}" for stream, end in zip(recorded, cycle(ENDS))]
    for stream, file in zip(recorded, files, strict=True):
        rows += merge([stream], [], file, is_aligned=False).rows
    times_s.append(time.process_time())
    merge([], files, folder / "merged", is_aligned=False)
    times_s.append(time.process_time())
    back = find_recorded([str(folder / "merged" / "*.bp")])
    yield compared("a file of each rank, merged", files, rows, times_s, back)


def all_detours() -> list[Detour]:
    """Of the recording among the tests' data."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        shutil.unpack_archive(TRACES / f"{RECORDING}.tar.xz", folder)
        whole = folder / "whole.json"
        merge(find_recorded([str(folder / RECORDING / "*.bp")]), [], whole, is_aligned=False)
        (ways := folder / "ways").mkdir()
        recorded = convert([whole], folder / "recorded", PROGRAM, PERIOD_US).streams
        return list(detours(recorded, ways))


def put_stream(file: IO[bytes], path: Path, size: int) -> None:
    """Begins and ends of calls, and counters, as ``chimbuko merge`` writes them, up to a size."""
    trace, moments = SyntheticTrace(MADE_ROWS), Moments(0)
    writer = writer_of(path, file)
    writer.begin_rank(0, "made rank 0")
    while file.tell() < size:
        # Of its messages the other ends are in no trace.
        step = msgspec.structs.replace(trace.next_step(), comms=np.empty((0, COMM_COLUMNS), np.uint64))
        writer.write(moments.of(step, trace.names), trace.names)
    writer.close()


def put_whole_calls(file: IO[bytes], path: Path, size: int) -> None:
    """Whole calls as our annotations write them, those inside first, up to a size."""
    heads = [head(f"function_{number}", "made", "X") for number in range(100)]
    file.write(b"[\n")
    for number in count():
        begun_ns = number * 1_000_000
        calls = ((heads[inner % 100], 1, begun_ns + inner * 9_000, 8_000) for inner in range(100))
        around = (heads[number % 100], 1, begun_ns, 950_000)
        text = ",\n".join((*lines(calls, 1, 0), *lines([around], 1, 0)))
        file.write(text.encode())
        if file.tell() >= size:
            break
        file.write(b",\n")
    file.write(b"\n]\n")


MADE: dict[str, tuple[str, Callable[[IO[bytes], Path, int], None]]] = {
    "Chrome, B and E": ("made.json", put_stream),
    "PerfFlowAspect, X": ("made.pfw", put_whole_calls),
    "Perfetto": ("made.pftrace", put_stream),
}


def own_memory_mb() -> float:
    """Of this process, without pages of files."""
    status = Path("/proc/self/status").read_text()
    return int(status.partition("RssAnon:")[2].split()[0]) / 1e3


def read(path: Path, folder: Path) -> tuple[int, float, float]:
    """Convert a file: events, CPU seconds and the most MB of memory."""
    most, has_ended = [own_memory_mb()], threading.Event()

    def watch() -> None:
        while not has_ended.wait(SAMPLE_S):
            most[0] = max(most[0], own_memory_mb())

    watching = threading.Thread(target=watch)
    watching.start()
    begun = time.process_time()
    result = convert([path], folder, "made", PERIOD_US)
    cpu_s = time.process_time() - begun
    has_ended.set()
    watching.join()
    return result.events, cpu_s, most[0]


def reading(name: str, megabytes: float) -> Reading:
    """Make a file and read it."""
    file_name, put = MADE[name]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / file_name
        with path.open("wb") as file:
            in_child(partial(_put, put, file, path, round(megabytes * 1e6)))
        size_mb = path.stat().st_size / 1e6
        events, cpu_s, memory_mb = in_child(partial(read, path, Path(folder) / "streams"))
        return Reading(name, size_mb, events, cpu_s, events / cpu_s, memory_mb)


def _put(put: Callable[[IO[bytes], Path, int], None], file: IO[bytes], path: Path, size: int) -> None:
    put(file, path, size)
    file.flush()


def ways_table(ways: list[Detour]) -> str:
    """One row for each way."""
    heads = ("through", "MB", "rows", "written per CPU-s", "read per CPU-s", "flags", "same", "lost")
    rows = []
    for way in ways:
        rates = f"{way.written_per_cpu_s:,.0f}", f"{way.read_per_cpu_s:,.0f}"
        flags = str(way.flags), str(way.same), str(way.lost)
        rows.append((way.way, f"{way.file_mb:.1f}", f"{way.rows:,}", *rates, *flags))
    return table(heads, rows)


def readings_table(readings: list[Reading]) -> str:
    """One row for each file."""
    heads = ("reading", "MB", "events", "CPU s", "events per CPU-s", "memory MB")
    rows = []
    for one in readings:
        cost = f"{one.cpu_s:.1f}", f"{one.events_per_cpu_s:,.0f}", f"{one.memory_mb:.0f}"
        rows.append((one.format, f"{one.megabytes:,.0f}", f"{one.events:,}", *cost))
    return table(heads, rows)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", nargs="+", choices=("flags", "reading"), default=("flags", "reading"))
    parser.add_argument("--megabytes", nargs="+", type=float, default=[100, 1000], help="of files to read")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    ways = all_detours() if "flags" in options.only else []
    readings = (
        [reading(name, megabytes) for name in MADE for megabytes in options.megabytes]
        if "reading" in options.only
        else []
    )
    if options.json:
        print(
            json.dumps({"flags": list(map(asdict, ways)), "reading": list(map(asdict, readings))}, indent=2)
        )
    else:
        tables = [ways_table(ways)] if ways else []
        print("\n\n".join([*tables, readings_table(readings)] if readings else tables))


if __name__ == "__main__":
    main()
