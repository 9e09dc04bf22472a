"""Reads one trace stream, step by step, over SST or from a BP4 or BP5 file."""

from __future__ import annotations

import math
import os
import time
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np

from chimbuko.capture.symbols.resolver import Resolver, Steps
from chimbuko.capture.trace.adios import adios2_bindings, adios2_reason
from chimbuko.capture.trace.discovery import SST
from chimbuko.capture.trace.source import Waiting
from chimbuko.core.arrays import UInt64Array
from chimbuko.core.errors import TraceFormatError
from chimbuko.core.files import contents
from chimbuko.core.traceschema import (
    ARRAY_COLUMNS,
    ARRAY_COUNTS,
    COMM_PARTNER,
    COMM_RANK,
    COMMS,
    COUNTER_RANK,
    COUNTERS,
    DETAILS,
    EVENT_RANK,
    EVENT_TIMER,
    EVENTS,
    LOST_STEPS,
    MAX_TIMERS,
    NO_PEER,
    OPERATION_PEER,
    OPERATION_RANK,
    OPERATIONS,
    OTHER_TIMER,
    UNNAMED_FUNCTIONS,
    UNRESOLVED,
    StreamNames,
    TraceStep,
)
from chimbuko.runtime.process.lifetime import log

PAUSE_S = 0.01
AFTER_END_S = 7.0
"""Time in seconds for which a step of a live stream waits for its names after its program has ended. Soon
afterwards, an agent gives up streams that bring nothing."""
TOO_LATE = "its end came before they were looked up, as the node was busy; leave a core free for the analysis"

_logged: set[tuple[str, str]] = set()
"""Binaries and what is wrong with them, of which this process has logged: a trace's streams share them."""


class UnnamedFunctions:
    """The functions of one stream that have come without a name.

    Parameters
    ----------
    path
        Path of the stream, for messages.
    rank
        Rank of the process, as in its metadata. If no name is found, it distinguishes functions.
    names
        Names of the stream, to which names that are found are added, and why others are missing.
    """

    def __init__(self, path: Path, rank: int, names: StreamNames) -> None:
        self._path = path
        self._rank = rank
        self._names = names
        self._resolver = Resolver(rank)
        self._waiting: dict[tuple[str, int], str] = {}
        """Unnamed functions that wait for their names, by kind and number."""
        self._look_up: Steps | None = None
        self._ended_s: float | None = None
        """Time at which the program was first seen to have ended, while names are looked up."""

    def put(self, kind: str, number: int, name: str) -> None:
        """Take a name that holds an address."""
        if number not in self._names.of_kind(kind):
            self._waiting[kind, number] = name

    def find(self, patience_s: float = math.inf, after_end_s: float = AFTER_END_S) -> bool:
        """Find the names; false if that takes longer than ``patience_s`` seconds, to be called again."""
        self._resolver.note_process(self._names.metadata)
        deadline_s = time.monotonic() + patience_s
        while self._waiting:
            if self._look_up is None:
                self._look_up = self._resolver.look_up(list(self._waiting.values()))
                self._ended_s = None
            if self._goes_on(self._look_up):
                if not self._is_too_late(after_end_s):
                    if time.monotonic() >= deadline_s:
                        return False
                    time.sleep(PAUSE_S)
                    continue
                self._look_up.close()
                self._resolver.give_up(self._waiting.values(), TOO_LATE)
            self._look_up = None
            self._keep()
            self._report_problems()
        return True

    def _is_too_late(self, after_end_s: float) -> bool:
        if self._ended_s is None and self._resolver.has_ended():
            self._ended_s = time.monotonic()
        return self._ended_s is not None and time.monotonic() > self._ended_s + after_end_s

    def _goes_on(self, look_up: Steps) -> bool:
        try:
            next(look_up)
            return True
        except StopIteration:
            pass
        # Whatever is wrong with a binary, the stream is read.
        except Exception as error:
            log(f"{self._path}: functions cannot be looked up ({type(error).__name__}: {error})")
        return False

    def _keep(self) -> None:
        for (kind, number), name in self._waiting.items():
            found = self._resolver.named(name)
            is_address = UNRESOLVED in found
            self._names.of_kind(kind)[number] = f"{found} (rank {self._rank})" if is_address else found
        self._waiting.clear()

    def _report_problems(self) -> None:
        """Say why functions of a binary have no names: once here, and to who looks at the run."""
        for path, problem in self._resolver.problems.items():
            key = self._rank, 0, UNNAMED_FUNCTIONS + path
            if key not in self._names.metadata:
                self._names.metadata[key] = problem
                if (path, problem) not in _logged:
                    _logged.add((path, problem))
                    log(f"{self._path}: functions of {path} have no name: {problem}")


MAX_ROWS = 1 << 28
"""A count above this (13 GB of rows) is a damaged step, not a large one."""

MAX_NAMES = 1 << 20
MAX_SHARING = 1 << 24
"""A count of timers above this is damaged."""

HARMLESS_SST_PARAMETERS = {"SpeculativePreloadMode": "Off"}
"""The reader fetches a step when it wants it. As a lone reader it would by default get each one pushed, by
the thread that writes it, and a reader that is stopped would hold up the application until it is gone (5 s
in a step of 2.4 MB, against 6 ms)."""


WAIT = -1.0
"""Time-out that never passes: a reader waits until there is a step, or the stream has ended."""

LOOK_UP_PATIENCE_S = 2.0
"""Longest time in seconds for which looking up names delays a caller that does not want to wait."""


class StreamReader:
    """Reader of one stream.

    Only one reader over SST may live in a process: two can crash the *writer*
    (measured, ADIOS2 2.12: 8 of 40 runs with 8-32 streams).

    Parameters
    ----------
    path
        The stream's path ending in ``.bp``; over SST the contact file is ``path + ".sst"``.
    engine
        ``SST`` or ``BPFile`` (BP4 and BP5).
    open_timeout_s
        How long SST waits for the writer to answer, in seconds.
    rank
        The stream's rank in the run, if it has one there. Functions that TAU could not name are then looked
        up; where that fails the rank distinguishes them, since an address means something else
        in every process.
    first_step
        Steps before this one are passed over: names are taken from them, and no data is read.
    begin
        Steps before this one are skipped, but for the names in step 0: in a followed file the metadata of the
        others may have been given back.
    names
        What is known of the stream already; it is added to.
    first_rank
        Added to all ranks in the stream: where an instance of a program takes itself for rank 0, its
        rank in the run.
    files
        Where its files are, if not under its path.

    Raises
    ------
    TraceFormatError
        The stream cannot be opened.
    """

    def __init__(
        self,
        path: Path,
        engine: str,
        open_timeout_s: float = 10.0,
        rank: int | None = None,
        first_rank: int = 0,
        first_step: int = 0,
        begin: int = 0,
        names: StreamNames | None = None,
        files: Path | None = None,
    ) -> None:
        self.path = path
        self.names = StreamNames() if names is None else names
        self._told_apart = "" if rank is None else f" (rank {rank})"
        self._unnamed = None if rank is None else UnnamedFunctions(path, rank, self.names)
        self._held: TraceStep | Waiting | None = None
        """Read, while its names are still looked up."""
        self._first_rank = first_rank
        self.first_step = first_step
        self._adios2 = adios2 = adios2_bindings()
        self._buffers: dict[str, UInt64Array] = {}
        self._counts: tuple[int, ...] = ()
        self._adios = adios2.ADIOS()
        self._io = self._adios.DeclareIO("chimbuko reader")
        self._io.SetEngine(engine)
        self._io.SetParameters({"OpenTimeoutSecs": str(open_timeout_s), **HARMLESS_SST_PARAMETERS})
        if engine != SST:
            # Else it starts threads for every array of every step: a tenth of the time at 10,000 rows.
            self._io.SetParameter("Threads", "1")
            # The default transport waits for ever, in C++, for data that a truncated file does not hold.
            self._io.AddTransport("File", {"Library": "stdio"})
        self._passed_over = max(begin - 1, 0)
        if self._passed_over:
            self._io.SetParameter("SelectSteps", f"0:0:1 {begin}:n:1")
        files = path if files is None else files
        if engine != SST and not files.exists():
            raise TraceFormatError(f"{path}: no such trace stream")
        self._files = files
        self._lost_steps = _lost_steps(files)
        try:
            self._engine = self._io.Open(str(files), adios2.Mode.Read)
        except Exception as error:
            raise TraceFormatError(
                f"{path}: not a readable {engine} trace stream ({adios2_reason(error)})"
            ) from error

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the stream."""
        # After a damaged step ADIOS2 tries once more to read it.
        with suppress(RuntimeError, ValueError):
            self._engine.Close()
        _remove_profile(self._files)

    def next_step(self, timeout_s: float = WAIT) -> TraceStep | Waiting:
        """Read the next step, or say within about ``timeout_s`` seconds why there is none.

        Over SST wait without limit: where a time-out runs out just as a step arrives, ADIOS2 2.12
        crashes the reader (seen in 4 of 6 runs with 4 streams, 8 steps/s and time-outs of 0.2 s).
        """
        step = self._next_step(timeout_s) if self._held is None else self._held
        while isinstance(step, TraceStep) and not self._is_wanted(step.step):
            step = self._next_step(timeout_s)
        # Only now: over SST nothing may hold up the stream in the middle of a step.
        is_named = self._unnamed is None or self._unnamed.find(
            LOOK_UP_PATIENCE_S if timeout_s == 0 else math.inf,
            # A step of a recorded stream is waited for so long, one of a live stream not at all, or for ever.
            math.inf if timeout_s > 0 else AFTER_END_S,
        )
        self._held = None if is_named else step
        return step if is_named else Waiting.NOT_READY

    def _next_step(self, timeout_s: float) -> TraceStep | Waiting:
        adios2 = self._adios2
        try:
            status = self._engine.BeginStep(adios2.StepMode.Read, timeout_s)
        except Exception as error:
            raise TraceFormatError(f"{self.path}: step cannot be read ({adios2_reason(error)})") from error
        if status == adios2.StepStatus.NotReady:
            return Waiting.NOT_READY
        if status == adios2.StepStatus.EndOfStream:
            # Metadata of the last step comes without a count that would report it.
            self._take_attributes()
            return Waiting.END
        if status != adios2.StepStatus.OK:
            return Waiting.BROKEN
        try:
            self._read_names()
            number = self._engine.CurrentStep()
            number += self._passed_over if number else 0
            is_wanted = self._is_wanted(number)
            step = TraceStep(
                step=number,
                events=self._array(EVENTS, is_wanted),
                comms=self._array(COMMS, is_wanted),
                counters=self._array(COUNTERS, is_wanted),
                details=self._array(DETAILS, is_wanted),
                operations=self._array(OPERATIONS, is_wanted),
            )
            self._engine.EndStep()
        except TraceFormatError:
            raise
        except Exception as error:
            raise TraceFormatError(f"{self.path}: step cannot be read ({adios2_reason(error)})") from error
        if self._first_rank:
            self._renumber(step)
        if self.names.last_timer:
            timers = step.events[:, EVENT_TIMER]
            timers[(timers > OTHER_TIMER) & (timers <= self.names.last_timer)] = OTHER_TIMER
        return step

    def _is_wanted(self, step: int) -> bool:
        return step >= self.first_step and step not in self._lost_steps

    def _renumber(self, step: TraceStep) -> None:
        first_rank = np.uint64(self._first_rank)
        step.events[:, EVENT_RANK] += first_rank
        step.comms[:, COMM_RANK] += first_rank
        step.comms[:, COMM_PARTNER] += first_rank
        step.counters[:, COUNTER_RANK] += first_rank
        step.operations[:, OPERATION_RANK] += first_rank
        has_peer = step.operations[:, OPERATION_PEER] != NO_PEER
        step.operations[has_peer, OPERATION_PEER] += first_rank

    def _array(self, name: str, is_wanted: bool) -> UInt64Array:
        columns = ARRAY_COLUMNS[name]
        rows = self._scalar(ARRAY_COUNTS[name]) if is_wanted else 0
        variable = self._io.InquireVariable(name) if rows else None
        # An array whose count is 0 is absent, and a count without its array is a damaged step.
        # What ADIOS2 does not know is a variable that is false, and not None.
        if not variable:
            return np.empty((0, columns), np.uint64)
        shape = variable.Shape()
        if len(shape) != 2 or shape[1] != columns or shape[0] > MAX_ROWS or variable.Type() != "uint64_t":
            raise TraceFormatError(
                f"{self.path}: {name} has type {variable.Type()} and shape {shape}, "
                f"expected uint64_t and (rows, {columns})"
            )
        variable.SetSelection([[0, 0], shape])
        buffer = self._buffer(name, shape[0])
        self._engine.Get(variable, buffer, self._adios2.Mode.Sync)
        return buffer

    def _buffer(self, name: str, rows: int) -> UInt64Array:
        """Return a view of reused memory: fresh pages cost more than the analysis (68 against 250 M
        events/s).
        """
        held = self._buffers.get(name)
        if held is None or len(held) < rows:
            held = np.empty((rows + rows // 4 + 1024, ARRAY_COLUMNS[name]), np.uint64)
            self._buffers[name] = held
        return held[:rows]

    def _scalar(self, name: str) -> int:
        variable = self._io.InquireVariable(name)
        if not variable:
            return 0
        if variable.Shape():
            raise TraceFormatError(f"{self.path}: {name} is not a single number")
        value = np.zeros(1, np.uint64 if variable.Type() == "uint64_t" else np.int32)
        self._engine.Get(variable, value, self._adios2.Mode.Sync)
        return int(value[0])

    def _read_names(self) -> None:
        """Read attributes that are new: they accumulate, and listing all of them costs 10 µs each."""
        names, timer_count = self.names, self._scalar("timer_count")
        names.share_timers_to(min(timer_count, MAX_SHARING) - 1)
        others = ("counter_count", "event_type_count", "thread_count")
        # What share a row have no names, so that their number is no reason to list a million attributes.
        counts = (min(timer_count, MAX_TIMERS), *(min(self._scalar(name), MAX_NAMES) for name in others))
        complete = (
            len(names.timers) >= counts[0]
            and len(names.counters) >= counts[1]
            and len(names.event_types) >= counts[2]
        )
        if counts == self._counts and complete:
            return
        self._counts = counts
        self._take_attributes()

    def read_new_attributes(self) -> None:
        """Take in all names and metadata that have come: listing them costs 10 µs each."""
        self._take_attributes()
        if self._unnamed is not None:
            self._unnamed.find()

    def _take_attributes(self) -> None:
        try:
            attributes = self._io.AvailableAttributes()
        except UnicodeDecodeError:
            self._read_names_one_by_one()
            return
        for name, described in attributes.items():
            self._keep_attribute(name, _text(described))

    def _read_names_one_by_one(self) -> None:
        """Read names one by one: where a single text is not in UTF-8 there is no list of attributes, but each
        can be asked for.
        """
        counts = dict(zip(("timer", "counter", "event_type"), self._counts, strict=False))
        for kind, count in counts.items():
            for number in range(count):
                attribute = f"{kind} {number}"
                if found := self._io.InquireAttribute(attribute):
                    try:
                        self._keep_name(kind, number, str(found.DataString()[0]))
                    except UnicodeDecodeError:
                        self._keep_name(kind, number, f"{attribute} (name not in UTF-8){self._told_apart}")

    def _keep_attribute(self, attribute: str, text: str) -> None:
        kind, _, rest = attribute.partition(" ")
        if attribute.startswith("MetaData:"):
            _, rank, thread, key = attribute.split(":", 3) if attribute.count(":") >= 3 else ("", "", "", "")
            if _is_number(rank) and _is_number(thread):
                self.names.metadata[(int(rank) + self._first_rank, int(thread), key)] = text
        elif kind in ("timer", "counter", "event_type") and _is_number(rest):
            self._keep_name(kind, int(rest), text)
        elif kind == "program_name":
            self.names.program = self.names.program or text

    def _keep_name(self, kind: str, number: int, name: str) -> None:
        if kind == "timer" and number >= OTHER_TIMER:
            self.names.share_timers_to(number)
        elif UNRESOLVED not in name or self._unnamed is None:
            self.names.of_kind(kind).setdefault(number, name)
        else:
            self._unnamed.put(kind, number, name)


def _lost_steps(path: Path) -> frozenset[int]:
    """Return the steps of which a kept stream holds no data, but zeros."""
    try:
        return frozenset(map(int, contents(path / LOST_STEPS).split()))
    except OSError:
        return frozenset()
    except ValueError as error:
        raise TraceFormatError(f"{path / LOST_STEPS}: not a list of steps") from error


def _remove_profile(files: Path) -> None:
    """ADIOS2 2.12 leaves a file about each stream of files that it has read, whatever its settings say."""
    with suppress(OSError):
        Path("/tmp", f"{files.name}_{os.getpid():x}_profiling.json").unlink()


def _is_number(text: str) -> bool:
    """Whether it can be an id: tables have a row for each id up to the highest, so none may be absurd."""
    return text.isascii() and text.isdecimal() and int(text) < MAX_NAMES


def _text(described: dict[str, Any]) -> str:
    """Return an attribute's text: the low-level listing puts literal double quotes around it."""
    value = str(described["Value"])
    return value[1:-1] if len(value) >= 2 and value[0] == value[-1] == '"' else value
