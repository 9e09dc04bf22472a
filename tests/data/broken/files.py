"""Streams with steps, variables, attributes or files that are not as they should be."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import adios2.bindings as adios2
import numpy as np

from chimbuko.capture.trace.writer import StreamWriter
from chimbuko.core.arrays import UInt64Array
from chimbuko.core.traceschema import EVENTS
from tests.data.broken.cases import (
    OUTSIDE,
    ROUNDS,
    SOLVE,
    STEP_CALLS,
    STEP_ROWS,
    STEPS,
    VALUE_OUTSIDE,
    Stream,
    counted,
    refused,
)


class Careless(StreamWriter):
    """A writer that gets variables wrong.

    Parameters
    ----------
    scalars
        Values to write instead of the right ones.
    events
        What the events' array becomes; None for no array at all.
    """

    def __init__(self, path: Path, scalars: dict[str, int], events: Any = lambda array: array) -> None:
        super().__init__(path, "BP5")
        self._scalars = scalars
        self._spoilt = events

    def _put_scalar(self, name: str, number: int, dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
        return super()._put_scalar(name, self._scalars.get(name, number), dtype)

    def _put_array(self, name: str, array: UInt64Array) -> Any:
        if name != EVENTS:
            return super()._put_array(name, array)
        if self._spoilt is None:
            return array
        spoilt = np.ascontiguousarray(self._spoilt(array))
        shape, start = list(spoilt.shape), [0] * spoilt.ndim
        if name not in self._variables:
            self._variables[name] = self._io.DefineVariable(name, spoilt, shape, start, shape, False)
        self._variables[name].SetShape(shape)
        self._variables[name].SetSelection([start, shape])
        self._engine.Put(self._variables[name], spoilt, adios2.Mode.Deferred)
        return spoilt


def write_careless(path: Path, scalars: dict[str, int], *events: Any) -> None:
    with Careless(path, scalars, *events) as writer:
        Stream().write_steps(writer)


# Steps


@counted("steps without any variables", steps=STEPS + 2)
def steps_without_variables(path: Path) -> None:
    stream = Stream()
    with StreamWriter(path, "BP5") as writer:
        for step in range(STEPS):
            writer.write_step(*stream.arrays(step), stream.names)
            if step:
                writer._engine.BeginStep()
                writer._engine.EndStep()


@counted("steps of zero events", steps=STEPS + 3)
def steps_without_events(path: Path) -> None:
    stream = Stream()
    for part in stream.parts:
        for at in (3, 1, 0):
            part.insert(at, [])
    stream.write(path)


@counted("no step at all; ADIOS2 makes an empty one of it", rows=0, calls=0, steps=1)
def no_steps(path: Path) -> None:
    StreamWriter(path, "BP5").close()


@counted(
    "the last step was never written: calls stay open",
    rows=2 * STEP_ROWS + 2,
    calls=2 * STEP_CALLS,
    steps=2,
    state="broken",
)
def no_last_step(path: Path) -> None:
    stream = Stream()
    for part in stream.parts:
        part.pop()
    stream.write(path)


# Variables

NOT_READABLE: dict[str, Any] = {"rows": 0, "calls": 0, "steps": 0, "state": "broken"}
POINTS = STEPS * ROUNDS
ONLY_POINTS = {OUTSIDE: POINTS, VALUE_OUTSIDE: POINTS}


@counted("a count of events, but no events", ONLY_POINTS, rows=2 * POINTS, calls=0, state="broken")
def count_without_array(path: Path) -> None:
    write_careless(path, {}, None)


@counted("events, but a count of zero", ONLY_POINTS, rows=2 * POINTS, calls=0, state="broken")
def array_without_count(path: Path) -> None:
    write_careless(path, {"timer_event_count": 0})


@counted("a count that is not that of the rows, which decide")
def wrong_count(path: Path) -> None:
    write_careless(path, {"timer_event_count": (1 << 64) - 1})


@counted("counts of names that cannot be; the names are there nevertheless")
def absurd_counts_of_names(path: Path) -> None:
    write_careless(path, {"timer_count": -1, "counter_count": (1 << 31) - 1, "event_type_count": 0})


@counted("times as doubles that are not numbers", **NOT_READABLE)
def wrong_type(path: Path) -> None:
    write_careless(path, {}, lambda array: np.full(array.shape, np.nan))


@counted("a column is missing", **NOT_READABLE)
def missing_column(path: Path) -> None:
    write_careless(path, {}, lambda array: array[:, :5])


@counted("rows that do not stand in columns", **NOT_READABLE)
def no_columns(path: Path) -> None:
    write_careless(path, {}, lambda array: array.ravel())


# Attributes


@counted("names with absurd ids, ids that are no numbers, attributes that are no names")
def absurd_names(path: Path) -> None:
    stream = Stream()
    stream.names.timers[1 << 62] = "absurd"
    stream.names.metadata |= {(1 << 60, 0, "absurd"): "x", (0, 1 << 60, "absurd"): "y", (0, 0, ""): ""}
    with StreamWriter(path, "BP5") as writer:
        for name in ("timer x", "timer ", "MetaData:0", "MetaData:::", "program_name", "zzz"):
            writer._io.DefineAttribute(name, "?")
        writer._io.DefineAttribute("timer 77", np.array([7], np.int32))
        stream.write_steps(writer)


@counted("a name that is not in UTF-8")
def name_not_in_utf8(path: Path) -> None:
    stream = Stream()
    stream.names.timers[SOLVE] = "l\u00f6se [{app.c} {9,0}]"
    stream.write(path)
    for file in path.iterdir():
        file.write_bytes(file.read_bytes().replace("l\u00f6se".encode(), b"l\xf6\xf6se"))


# Files

TWO_STEPS: dict[str, Any] = {
    "rows": 2 * STEP_ROWS + 2,
    "calls": 2 * STEP_CALLS,
    "steps": 2,
    "state": "broken",
}
WRITE_AND_DIE = """
import os, signal, sys
from pathlib import Path
from chimbuko.core.traceschema import EVENTS
from chimbuko.capture.trace.writer import StreamWriter
from tests.data.broken.cases import Stream
stream, writer = Stream(), StreamWriter(Path(sys.argv[1]), sys.argv[2])
stream.events.pop()
stream.write_steps(writer)
if sys.argv[3:]:
    writer._engine.BeginStep()
    writer._put_array(EVENTS, stream.arrays(0)[0])
os.kill(os.getpid(), signal.SIGKILL)
"""


def write_and_die(path: Path, *arguments: str) -> None:
    """Write two steps in a process that is then killed."""
    done = subprocess.run([sys.executable, "-c", WRITE_AND_DIE, str(path), *arguments], check=False)
    assert done.returncode == -signal.SIGKILL


@counted("its writer was killed between two steps", **TWO_STEPS)
def killed_writer(path: Path) -> None:
    write_and_die(path, "BP5")


@counted("its writer was killed in the middle of a step", **TWO_STEPS)
def killed_in_a_step(path: Path) -> None:
    write_and_die(path, "BP5", "in step")


@counted("its writer was killed; in the older format", **TWO_STEPS)
def killed_writer_bp4(path: Path) -> None:
    write_and_die(path, "BP4")


def cut(path: Path, file: str, part: float) -> None:
    """Write the sound stream and keep only a part of one of its files."""
    Stream().write(path)
    os.truncate(path / file, int((path / file).stat().st_size * part))


@counted("the data are cut in the second step", rows=STEP_ROWS + 2, calls=STEP_CALLS, steps=1, state="broken")
def data_cut(path: Path) -> None:
    cut(path, "data.0", 0.5)


@counted("the data are gone", **NOT_READABLE)
def data_missing(path: Path) -> None:
    Stream().write(path)
    (path / "data.0").unlink()


@counted("the index is empty: nothing was finished", **NOT_READABLE)
def index_empty(path: Path) -> None:
    cut(path, "md.idx", 0)


@refused("the index is a single byte", "only supports bp format version 5")
def index_of_a_byte(path: Path) -> None:
    Stream().write(path)
    (path / "md.idx").write_bytes(b"\0")


@refused("the index is gone", "could not be found within")
def index_missing(path: Path) -> None:
    Stream().write(path)
    (path / "md.idx").unlink()


@refused("the metadata are cut", "md.0 has not contained enough data")
def metadata_cut(path: Path) -> None:
    cut(path, "md.0", 0.6)


@refused("the formats are cut: ADIOS2 2.12 reads behind their end and crashes", "ADIOS2 crashes on it")
def formats_cut(path: Path) -> None:
    cut(path, "mmd.0", 0.5)


@refused("a folder with something else in it", "not a readable BPFile trace stream")
def other_folder(path: Path) -> None:
    path.mkdir()
    (path / "md.idx").write_bytes(b"not an index")


@refused("an empty folder", "not a readable BPFile trace stream")
def empty_folder(path: Path) -> None:
    path.mkdir()


@refused("a text", "not a readable BPFile trace stream")
def text(path: Path) -> None:
    path.write_text("rank 0 was here\n")
