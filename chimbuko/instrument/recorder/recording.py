"""Recording of one process: its rings converted to the handovers that the writer of a stream takes.

It keeps the process's memory mappings for the time after its end, and knows the functions that the library
has stopped recording because they are very short and called very often.
"""

from __future__ import annotations

import json
import os
import shlex
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from chimbuko.capture.symbols.maps import MAPPED_FILE, parse_maps
from chimbuko.capture.symbols.resolver import Resolver
from chimbuko.core.arrays import BoolArray, Int64Array, UInt64Array, distinct
from chimbuko.core.errors import TraceFormatError
from chimbuko.core.redaction import without_secrets
from chimbuko.core.sourcecensus import CALL_COUNTS
from chimbuko.core.statistics.latethreads import LATE_THREADS, encode_late_threads
from chimbuko.core.traceschema import (
    ENDING,
    LEFT_OUT_AT_TIMES,
    LEFT_OUT_FUNCTIONS,
    MPI_PREFIX,
    NOT_RECORDED,
    OPENMP_PREFIX,
    RECORDED_AGAIN,
    UNRESOLVED,
)
from chimbuko.core.units import number_of
from chimbuko.instrument.annotations.pointcuts import Advice, AnnotatedName, parse_name
from chimbuko.instrument.recorder.annotated import AnnotatedCalls, asked_options
from chimbuko.instrument.recorder.ending import describe_end
from chimbuko.instrument.recorder.layout import (
    COMMUNICATORS,
    CONSTRUCT_SHIFT,
    CONSTRUCTS,
    LEFT_EARLIER,
    NAMED,
    OPENMP,
    OPENMP_COMMUNICATOR,
    Kind,
)
from chimbuko.instrument.recorder.leftout import (
    LeftOutAtTimes,
    call_counts,
    describe_left_out,
    describe_unseen,
)
from chimbuko.instrument.recorder.library import INJECTION_VARIABLE
from chimbuko.instrument.recorder.mappings import Mappings
from chimbuko.instrument.recorder.mpi import is_mpi, needed_libraries
from chimbuko.instrument.recorder.ring import Events, ProcessFile, Ring
from chimbuko.instrument.recorder.ringfolder import Listing
from chimbuko.instrument.recorder.threadbalance import ThreadBalance
from chimbuko.instrument.tracer.chunks import (
    ENTRY,
    RECEIVE,
    ROOT_TIMER,
    SEND,
    THREAD_NAME,
    Handover,
    Header,
    ThreadRows,
)
from chimbuko.instrument.tracer.processmetadata import describe_process


class _Lanes:
    """Lanes of one ring, whose events are taken piece by piece.

    Parameters
    ----------
    own
        Number of the lane of the thread's own stack.
    """

    def __init__(self, own: int) -> None:
        self._present = own
        self._last_ns: dict[int, int] = {}
        """Time of the last event of each lane."""

    def split(self, events: Events) -> Iterator[tuple[int, Events]]:
        """Yield the number and the events of each lane, in order of time."""
        kinds = events["kind"]
        says_lane = (kinds <= Kind.EXIT) | (kinds == Kind.LANE)
        lanes = _filled(events["tag"].astype(np.int64), says_lane, self._present)
        self._present = int(lanes[-1])
        is_kept = kinds != Kind.LANE
        for lane in distinct(lanes[is_kept]).tolist():
            of_lane = events[is_kept & (lanes == lane)]
            is_earlier = (of_lane["kind"] == Kind.EXIT) & (of_lane["request"] == LEFT_EARLIER)
            if is_earlier.any():
                last_ns = self._last_ns.get(lane, int(of_lane["time_ns"][0]))
                of_lane["time_ns"] = _filled(of_lane["time_ns"], ~is_earlier, last_ns)
            self._last_ns[lane] = int(of_lane["time_ns"][-1])
            yield lane, of_lane


class NativeThreads:
    """Threads that have one ring, one after the other, by the numbers that the system gives them.

    Parameters
    ----------
    first
        Number of the thread that is known to have it.
    """

    def __init__(self, first: int) -> None:
        self._present = first

    def split(self, events: Events) -> Iterator[tuple[int, Events]]:
        """Yield the number and the events of each thread, in order of time."""
        is_new = (events["kind"] == Kind.LANE) & (events["value"] > 0)
        threads = _filled(events["value"].astype(np.int64), is_new, self._present)
        self._present = int(threads[-1])
        is_kept = events["kind"] != Kind.LANE
        for thread in distinct(threads[is_kept]).tolist():
            yield thread, events[is_kept & (threads == thread)]


def _filled(values: Int64Array, is_known: BoolArray, first: int) -> Int64Array:
    """Return the values with each unknown one as the last known one before it."""
    places = np.maximum.accumulate(np.where(is_known, np.arange(len(values)), -1))
    return np.where(places >= 0, values[places], first)


ROOT_ENTRY = ROOT_TIMER << 1 | ENTRY
MAIN_THREAD = 0
RECORDER = "chimbuko"
BUDGET = "Recorder's Budget"
"""Key of metadata: part of the program's time that recording may cost."""
CALL_SITES = "Recorder's Call Sites"
"""Key of metadata: why the calls of functions that are left out cannot be taken out of the program's code."""
CALLERS = "Callers of MPI"
"""Key of metadata: how the functions around calls of MPI were found, where none was compiled with hooks."""
DECISIONS = "Recorder's Decisions"
"""Key of metadata: with whom the recorder decided which functions it leaves out."""
CUDA = "/libcuda.so"
LARGEST_COUNT = float(1 << 62)
NAMES_PATIENCE_S = 5.0
"""Longest wait for the names of functions in a report, at the end of a stream."""
PAUSE_S = 0.01


class Recording:
    """Recording of one process, taken piece by piece.

    Parameters
    ----------
    path
        Path of the file of the process; its rings stand beside it.
    is_beside
        Whether another recording describes the process and its threads: then these have the numbers that the
        system gives them.

    Raises
    ------
    TraceFormatError
        The file is damaged.
    """

    def __init__(self, path: Path, is_beside: bool = False) -> None:
        self.process = ProcessFile(path)
        self.pid = self.process.number("pid")
        self.executable = self.process.text("executable")
        self._listing = Listing(path.parent)
        self._rings: dict[str, Ring | None] = {}
        """Rings by file name; None for one that is damaged."""
        self._lanes: dict[str, _Lanes | NativeThreads] = {}
        """Lanes of the rings, by file name."""
        self._new_threads: dict[int, Ring] = {}
        """Lanes whose native ids are not in the metadata yet, with their rings."""
        self._known_lanes: set[int] = set()
        self._keys = np.empty(0, np.uint64)
        self._timers_of_keys = np.empty(0, np.int64)
        self._counters: dict[int, int] = {}
        self._is_beside = self._has_begun = is_beside
        self._taken = 0
        """Number of events that were taken from all rings."""
        self._recorded = 0
        """Number of calls among them."""
        self._communicators = 0
        self._left_out_at_times = LeftOutAtTimes(self.process)
        self._left_out: set[int] = set()
        """Timers that are said to be left out at times."""
        self._entries = {LEFT_OUT_AT_TIMES: 0, RECORDED_AGAIN: 0}
        """Number of entries of the metadata that say so, and that it is over."""
        self._mappings = Mappings(self.process)
        self._balance = ThreadBalance()
        self._has_openmp = False
        """Whether constructs of OpenMP were among the calls."""
        self._said: dict[tuple[int, str], str] = {}
        self.problems: list[str] = []
        """Lines that say what is wrong with the files."""
        options = asked_options(os.environ)
        self._annotated = None if options is None else AnnotatedCalls(self.process, options, os.environ)

    def header(self, program: str, rank: int) -> Header:
        """Return the header of the stream."""
        return Header(
            program=program,
            rank=rank,
            clock_offset_ns=self.process.number("clock_offset_ns"),
            parent_pid=self.process.number("parent"),
            is_forked=bool(self.process.number("is_forked")),
        )

    @property
    def is_linked_with_mpi(self) -> bool:
        """Whether the program is linked with MPI, so that its calls of MPI are recorded."""
        # The names of wrapped functions come first.
        return self.process.name(0).startswith(MPI_PREFIX)

    @property
    def end_ns(self) -> int | None:
        """Time of the process's orderly end; None before, and where it died."""
        return self.process.number("end_ns") or None

    @property
    def fill(self) -> float:
        """Fill level of the fullest ring, from 0 to 1."""
        self._find_rings()
        return max((ring.fill for ring in self._rings.values() if ring is not None), default=0.0)

    def take(self, now_ns: int) -> Handover:
        """Take all that the process has recorded up to ``now_ns``, of its clock."""
        self._find_rings()
        timers: dict[int, str] = {}
        counters: dict[int, str] = {}
        rows = []
        if not self._has_begun:
            start = np.array([(ROOT_ENTRY, self.process.number("start_ns"))], np.int64)
            rows.append(ThreadRows(MAIN_THREAD, start.tobytes(), b"", b""))
        for name, ring in self._rings.items():
            if ring is None:
                continue
            try:
                events = ring.take()
            except TraceFormatError as error:
                self._give_up(name, error)
                continue
            self._taken += len(events)
            for lane, of_lane in self._by_lane(name, ring, events):
                rows.append(self._rows(lane, of_lane, timers, counters))
                if self._has_openmp:
                    self._balance.note(lane, of_lane)
                if self._annotated is not None:
                    self._annotated.note(ring.number("tid"), of_lane, lane)
        self._balance.close()
        self._write_annotated()
        self.process.set_number("drained_ns", time.process_time_ns())
        metadata = self._new_metadata(now_ns)
        self._said |= metadata
        self._has_begun = True
        return Handover(now_ns, rows, timers, counters, metadata)

    def _by_lane(self, name: str, ring: Ring, events: Events) -> Iterator[tuple[int, Events]]:
        if not len(events):
            return
        self._recorded += int(np.count_nonzero(events["kind"] == Kind.ENTRY))
        is_split = self._is_beside or ring.number("lanes")
        split = self._lanes[name].split(events) if is_split else [(ring.thread, events)]
        for lane, of_lane in split:
            if lane not in self._known_lanes:
                self._known_lanes.add(lane)
                self._new_threads[lane] = ring
            yield lane, of_lane

    def note_stored(self, waiting: int) -> None:
        """Note in the file of the process that all events taken but ``waiting`` rows are in the stream."""
        self.process.set_number("stored", max(0, self._taken - waiting))

    def last(self, now_ns: int, has_become_another: bool) -> Handover:
        """Take all that is left, and the end of the process, or of a program that became another one."""
        handover = self.take(now_ns)
        end_ns = self.end_ns or (now_ns if has_become_another else None)
        metadata = handover.metadata | self._last_metadata(end_ns is not None)
        if end_ns is None:
            return handover._replace(metadata=metadata)
        return handover._replace(metadata=metadata, complete_until_ns=end_ns, is_last=True)

    def _write_annotated(self) -> None:
        if self._annotated is None:
            return
        try:
            self._annotated.write()
        except OSError as error:
            self.problems.append(f"annotated functions in {self._annotated.path}: {error.strerror}")
            self._annotated = None

    def _find_rings(self) -> None:
        stem = self.process.path.stem + "."
        for name in self._listing.news():
            if name.startswith(stem) and name.endswith(".ring") and name not in self._rings:
                try:
                    ring = self._rings[name] = Ring(self.process.path.with_name(name))
                    own = NativeThreads(ring.number("tid")) if self._is_beside else _Lanes(ring.thread)
                    self._lanes[name] = own
                    self._known_lanes.add(ring.thread)
                    self._new_threads[ring.thread] = ring
                except TraceFormatError as error:
                    self._give_up(name, error)

    def _give_up(self, name: str, error: TraceFormatError) -> None:
        self._rings[name] = None
        self.problems.append(str(error))

    def _rows(
        self, lane: int, events: Events, timers: dict[int, str], counters: dict[int, str]
    ) -> ThreadRows:
        kinds = events["kind"]
        is_call = kinds <= Kind.EXIT
        # Calls and other events are split first, as only the others need all fields: a quarter of the time.
        calls = slice(None) if is_call.all() else np.flatnonzero(is_call)
        codes = self._timers(events["value"][calls], timers)
        codes <<= 1
        codes |= kinds[calls] == Kind.EXIT
        calls_only = ThreadRows(lane, _bytes(codes, events["time_ns"][calls]), b"", b"")
        others = events[~is_call]
        if not len(others):
            return calls_only
        kinds = others["kind"]
        comms = others[(kinds == Kind.SEND) | (kinds == Kind.RECEIVE)]
        event_type = np.where(comms["kind"] == Kind.SEND, SEND, RECEIVE)
        values = others[kinds == Kind.COUNTER]
        operations = others[kinds == Kind.OPERATION]
        # At barriers of threads it is a time, see ``threadbalance``.
        operations["value"][operations["communicator"] == OPENMP_COMMUNICATOR] = 0
        return ThreadRows(
            lane,
            calls_only.events,
            _bytes(event_type, comms["tag"], comms["peer"], comms["value"], comms["time_ns"]),
            _bytes(
                self._counter_numbers(values["tag"], counters),
                _whole(values["value"]),
                values["time_ns"],
            ),
            _bytes(self._identities(comms), comms["request"]),
            _bytes(
                *(operations["operation"], self._identities(operations), operations["peer"]),
                *(operations["tag"], operations["value"], operations["request"], operations["time_ns"]),
            ),
        )

    def _identities(self, events: Events) -> UInt64Array:
        """Return the identities of the communicators of events; 0 for an unknown one."""
        known = self.process.field("communicators")["identity"]
        found: UInt64Array = known[np.minimum(events["communicator"], COMMUNICATORS - 1)]
        return found

    def _timers(self, keys: UInt64Array, new: dict[int, str]) -> Int64Array:
        """Return the timers of functions by their keys; the names of new ones are added to ``new``."""
        at = np.searchsorted(self._keys, keys)
        is_known = np.append(self._keys, np.uint64(0))[at] == keys
        if not is_known.all():
            fresh = distinct(keys[~is_known])
            numbers = np.arange(len(self._keys), len(self._keys) + len(fresh)) + ROOT_TIMER + 1
            places = np.searchsorted(self._keys, fresh)
            self._keys = np.insert(self._keys, places, fresh)
            self._timers_of_keys = np.insert(self._timers_of_keys, places, numbers)
            self._has_openmp |= bool(((fresh & (NAMED | OPENMP)) == OPENMP).any())
            for key, number in zip(fresh.tolist(), numbers.tolist(), strict=True):
                new[number] = self.name_of(key)
                if self._annotated is not None and (noted := self._noted_name(key)):
                    self._annotated.add(key, noted)
            at = np.searchsorted(self._keys, keys)
        found: Int64Array = self._timers_of_keys[at]
        return found

    def name_of(self, key: int) -> str:
        """Return a timer's name in TAU's format; a function's has its address, to be looked up later."""
        if key & NAMED:
            name = self.process.name(key & (NAMED - 1)) or "unknown"
            if annotated := parse_name(name):
                return f"{annotated.short} [{{{annotated.file}}} {{{annotated.line},0}}]"
            return f"{name}()" if name.startswith(MPI_PREFIX) else name
        prefix = ""
        if key & OPENMP:
            # The call of the runtime ends before the place behind it.
            prefix = f"{OPENMP_PREFIX}{CONSTRUCTS[(key ^ OPENMP) >> CONSTRUCT_SHIFT]} "
            key = max(key & (1 << CONSTRUCT_SHIFT) - 1, 1) - 1
        path = self._mappings.path_of(key) or self.executable
        return f"{prefix}{UNRESOLVED}{key:x}> [{{{path}}} {{0,0}}]"

    def _noted_name(self, key: int) -> AnnotatedName | None:
        """Return the name that the source gives: that of an annotated function, or of a region."""
        name = self.process.name(key & (NAMED - 1)) if key & NAMED else ""
        if not name or name.startswith(MPI_PREFIX):
            return None
        return parse_name(name) or AnnotatedName(Advice(), os.path.basename(self.executable), 0, name)

    def _counter_numbers(self, names: Int64Array, new: dict[int, str]) -> Int64Array:
        for number in distinct(names).tolist():
            if number not in self._counters:
                # Counter 0 is TAU's TIME.
                self._counters[number] = len(self._counters) + 1
                new[self._counters[number]] = self.process.name(number) or "unknown"
        return np.array([self._counters[number] for number in names.tolist()], np.int64)

    def _new_metadata(self, now_ns: int) -> dict[tuple[int, str], str]:
        found = {f"{MAPPED_FILE} {number}": line for number, line in self._mappings.take_new()}
        if not self._has_begun:
            found |= self._description()
        known = self.process.field("communicators")
        count = min(self.process.number("communicator_count"), COMMUNICATORS - 1)
        for row in known[self._communicators + 1 : count + 1]:
            found[f"Communicator {row['identity']}"] = f"{row['size']} ranks, here rank {row['rank']}"
        self._communicators = count
        found |= self._newly_left_out(now_ns)
        threads = {
            (lane, key): value
            for lane, ring in self._new_threads.items()
            for key, value in self._about(ring).items()
        }
        self._new_threads.clear()
        return threads | {(MAIN_THREAD, key): value for key, value in found.items()}

    def _about(self, ring: Ring) -> dict[str, str]:
        """Return the metadata of a thread, or of a queue of a GPU, which has a maker and numbers."""
        if not (described := ring.number("description")):
            return {"tid": str(ring.number("tid"))}
        maker, device, queue = self.process.name(described - 1).split()
        name = f"GPU {device}, stream {queue}"
        return {f"{maker} Device": device, f"{maker} Stream": queue, THREAD_NAME: name}

    def _newly_left_out(self, now_ns: int) -> dict[str, str]:
        """Return metadata with the timers of which calls may be missing in the events that were taken, as far
        as that was not said yet, and those of which that is over.
        """
        is_out = self._left_out_at_times.look(self._sound_rings(), now_ns)
        if not self._left_out and not is_out.any():
            return {}
        keys = self.process.field("functions")["key"]
        out = {int(key) for key in keys[is_out]}
        if is_out[0]:
            # All functions without a row of their own.
            out |= set(self._keys.tolist()).difference(keys.tolist())
        known = zip(self._keys.tolist(), self._timers_of_keys.tolist(), strict=True)
        before, self._left_out = self._left_out, {timer for key, timer in known if key in out}
        found = {}
        for what, timers in (
            (LEFT_OUT_AT_TIMES, self._left_out - before),
            (RECORDED_AGAIN, before - self._left_out),
        ):
            if timers:
                found[f"{what}{self._entries[what]}"] = " ".join(map(str, sorted(timers)))
                self._entries[what] += 1
        return found

    def _description(self) -> dict[str, str]:
        process = self.process
        start_us = (process.number("start_ns") + process.number("clock_offset_ns")) // 1000
        described = describe_process(start_us)
        described |= {"Executable": self.executable, "pid": str(self.pid), "tid": str(self.pid)}
        described |= {"Command Line": self._command_line() or self.executable, "Recorder": RECORDER}
        described[BUDGET] = f"{process.overhead:.2%}"
        del described["Python Version"]
        return described

    def _command_line(self) -> str:
        with suppress(OSError):
            words = Path(f"/proc/{self.pid}/cmdline").read_bytes().split(b"\0")
            return shlex.join(without_secrets(os.fsdecode(word) for word in words[:-1]))
        return ""

    def _last_metadata(self, has_ended: bool) -> dict[tuple[int, str], str]:
        found = {}
        if obstacle := self.process.text("obstacle"):
            is_said = obstacle.startswith("functions ")
            found[CALL_SITES] = "functions that are left out are still counted: " * (not is_said) + obstacle
        if (others := self.process.number("deciders") - 1) > 0:
            found[DECISIONS] = f"together with {number_of(others, 'other processes')} of this node"
        if callers := self._describe_callers():
            found[CALLERS] = callers
        if left_out := describe_left_out(self.process, self._sound_rings(), self._resolved):
            found[LEFT_OUT_FUNCTIONS] = left_out
        if ending := describe_end(self.process, has_ended, self._sound_rings(), self._resolved):
            found[ENDING] = ending
        if slow := self._balance.late_threads(lambda key: self._full_names([key])[0]):
            found[LATE_THREADS] = encode_late_threads(slow)
        rings = self._sound_rings()
        unseen = ", ".join(describe_unseen(self.process, rings, self._resolved))
        said = [unseen] * bool(unseen) + self.problems + self._unseen_mpi() + self._unseen_gpus()
        found[CALL_COUNTS] = json.dumps(call_counts(self.process, rings, self._recorded))
        if said:
            found[NOT_RECORDED] = "; ".join(said)
        return {(MAIN_THREAD, key): value for key, value in found.items()}

    def _describe_callers(self) -> str:
        """Describe how functions were found that no compiler has instrumented; empty where none was."""
        rows = self.process.field("functions")["key"]
        has_hooks = bool(((rows > 0) & (rows < OPENMP)).any())
        if has_hooks or not (self._keys < OPENMP).any():
            return ""
        said = "found on the stack: each function lasts from its first call of MPI to its last one"
        if missing := self.process.number("calls_without_caller"):
            said += f"; not those of {missing} calls, as the recorder's budget is {self.process.overhead:.2%}"
        return said

    def _unseen_mpi(self) -> list[str]:
        """Return a line for each MPI that the program loads while it runs, and is not linked with."""
        if self.is_linked_with_mpi:
            return []
        paths = {mapping.path for mapping in parse_maps(self.process.text("maps"))}
        loaded = sorted(path for path in paths if is_mpi(os.path.basename(path)))
        if not loaded:
            return []
        linked = {os.path.basename(path) for path in loaded} & {*needed_libraries(Path(self.executable))}
        why = "no recorder could be made for" if linked else "it is not linked with MPI, and loads"
        when = "" if linked else " while it runs"
        return [f"MPI calls: {why} {path}{when}" for path in loaded]

    def _unseen_gpus(self) -> list[str]:
        why = self.process.text("gpu")
        if not why and CUDA in self.process.text("maps") and (other := os.environ.get(INJECTION_VARIABLE)):
            why = f"{INJECTION_VARIABLE} names another profiler, {other}"
        return [f"what runs on GPUs: {why}"] if why else []

    def _sound_rings(self) -> list[Ring]:
        return [ring for ring in self._rings.values() if ring is not None]

    def _resolved(self, keys: Sequence[int]) -> list[str]:
        """Return the names of functions for people, looked up where the recording has only addresses."""
        return [name.partition(" [{")[0] for name in self._full_names(keys)]

    def _full_names(self, keys: Sequence[int]) -> list[str]:
        names = [self.name_of(key) for key in keys]
        resolver = Resolver(0)
        metadata = self._said | {
            (MAIN_THREAD, f"{MAPPED_FILE} {number}"): line for number, line in self._mappings.take_new()
        }
        resolver.note_process({(0, 0, key): value for (_, key), value in metadata.items()})
        deadline_s = time.monotonic() + NAMES_PATIENCE_S
        with suppress(Exception):
            for _ in resolver.look_up(names):
                if time.monotonic() > deadline_s:
                    break
                time.sleep(PAUSE_S)
        return [resolver.named(name) for name in names]


def _bytes(*columns: npt.NDArray[Any]) -> bytes:
    rows = np.empty((len(columns[0]), len(columns)), np.int64)
    for at, column in enumerate(columns):
        rows[:, at] = column
    return rows.tobytes()


def _whole(values: UInt64Array) -> Int64Array:
    """Return the values of counters as TAU's layout has them: whole, and 0 for negative ones."""
    doubles = np.nan_to_num(values.view(np.float64), nan=0.0)
    return np.clip(doubles, 0, LARGEST_COUNT).astype(np.int64)
