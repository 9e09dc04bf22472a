"""GPU calls of one stream, with the calls that launched them, in its records.

A launch that is reported later than its GPU call completes a record that was already put out.
"""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from chimbuko.ad.calls.selection import NO_LAUNCHES, CallLaunches, Selection, table
from chimbuko.ad.calls.stacks import CallStacks
from chimbuko.ad.kernels import correlation as kernels
from chimbuko.ad.kernels.stack import NONE
from chimbuko.core.arrays import Int32Array, UInt64Array
from chimbuko.core.calls.functionnames import function_matcher
from chimbuko.core.calls.recordarrays import MEMBER, NO_CALL, UNKNOWN_THREAD, PackedRecords, joined
from chimbuko.core.traceschema import COUNTER_NUMBER, COUNTER_VALUE, StreamNames, TraceStep

# Correlation of GPU calls with the calls that launched them, by the correlation ids that both leave as
# counter values.
#
# The two may come in either order and many steps apart: GPU calls often come in one late dump.


CORRELATION_ID = "Correlation ID"
"""Name of the counter whose value a launch and its GPU call have in common."""
FIRST_NODES = 1 << 6
MOST_NODES = 1 << 17
"""Maximum number of remembered launches, approximately, in 13 MB: a GPU that dumps its calls at the very end
may have more.
"""

EntryId = tuple[int, int]
"""Step and row of a call's ENTRY."""


class LeftOut:
    """Functions whose correlation ids are left out, by the numbers that one stream has for them."""

    def __init__(self, patterns: tuple[str, ...]) -> None:
        self._matchers = [function_matcher(pattern) for pattern in patterns]
        self._known: dict[int, bool] = {}

    def of(self, functions: Int32Array, names: StreamNames) -> npt.NDArray[np.bool_]:
        """Return whether each call is of such a function."""
        for number in set(functions.tolist()) - self._known.keys():
            name = names.timer_name(number)
            self._known[number] = any(matches(name) for matches in self._matchers)
        return np.array([self._known[number] for number in functions.tolist()], np.bool_)


class Correlation:
    """Pairs of launches and GPU calls of one stream.

    Parameters
    ----------
    most_nodes
        Maximum number of launches and calls around them that are remembered, a power of two.
    uncorrelated
        Names or patterns of functions whose ids are left out.
    """

    def __init__(self, most_nodes: int = MOST_NODES, uncorrelated: tuple[str, ...] = ()) -> None:
        self._most_nodes = most_nodes
        self._uncorrelated = uncorrelated
        self._left_out = LeftOut(uncorrelated)
        self._launches = ring(min(FIRST_NODES, most_nodes))
        self._node_of = np.empty(0, np.int64)
        self._named = 0
        self._counter = NONE
        self._gpu_rows = np.empty(0, np.int32)
        self._gpu_ids = np.empty(0, np.uint64)
        self._ids_before: dict[EntryId, int] = {}
        self._open_ids: dict[EntryId, int] = {}
        self.new_ids = np.empty(0, np.uint64)
        """Correlation ids of the launches in the last step."""

    def __getstate__(self) -> dict[str, Any]:
        if self._counter == NONE:
            names = ("_most_nodes", "_uncorrelated", "_named")
            return {name: self.__dict__[name] for name in names}
        return self.__dict__

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(state["_most_nodes"], state["_uncorrelated"])  # type: ignore[misc]
        self.__dict__.update(state)

    @property
    def forgotten(self) -> int:
        """Number of launches that were dropped before their GPU call came."""
        return int(self._launches.state[kernels.FORGOTTEN])

    def read(
        self,
        step: TraceStep,
        names: StreamNames,
        stacks: CallStacks,
        is_gpu: npt.NDArray[np.uint8],
        selection: Selection,
    ) -> None:
        """Read the correlation ids of a step whose calls were selected; ``is_gpu`` is uint8[threads]."""
        if len(names.counters) != self._named:
            self._named = len(names.counters)
            numbers = (number for number, name in names.counters.items() if name == CORRELATION_ID)
            self._counter = next(numbers, NONE)
        if self._counter == NONE:
            return
        is_id = step.counters[:, COUNTER_NUMBER] == self._counter
        at = np.flatnonzero(is_id & (stacks.counter_calls != NONE))
        if self._uncorrelated:
            at = at[~self._left_out.of(stacks.calls["function"][stacks.counter_calls[at]], names)]
        ids, rows = step.counters[at, COUNTER_VALUE], stacks.counter_calls[at]
        is_on_gpu = is_gpu[stacks.calls["thread"][rows]] != 0
        self.new_ids = ids[~is_on_gpu]
        self._note_launches(rows[~is_on_gpu], stacks, selection)
        self._note_gpu_calls(ids[is_on_gpu], rows[is_on_gpu], stacks)

    def ids_of(self, stacks: CallStacks, rows: Int32Array) -> dict[int, int]:
        """Return the correlation ids of the calls on a GPU, by their index in ``rows``."""
        if self._counter == NONE:
            return {}
        begins = np.searchsorted(self._gpu_rows, rows)
        ends = np.searchsorted(self._gpu_rows, rows, side="right")
        found = {at: int(self._gpu_ids[begins[at]]) for at in np.flatnonzero(begins < ends).tolist()}
        for at in np.flatnonzero(rows < stacks.carried).tolist() if self._ids_before else ():
            place = _place(stacks, int(rows[at]))
            if place in self._ids_before:
                found[at] = self._ids_before[place]
        return found

    def launches_of(self, calls: int, ids: dict[int, int]) -> CallLaunches:
        """Return launches of ``calls`` calls, of which ``ids`` has some; unknown ones are left out."""
        if self._counter == NONE:
            return NO_LAUNCHES
        nodes = np.full(calls, NONE, np.int64)
        found = np.empty(len(ids), np.int64)
        kernels.find_launches(np.array(list(ids.values()), np.uint64), self._launches, found)
        nodes[np.array(list(ids), np.int64)] = found
        counts = np.empty(calls, np.int32)
        frames = table(MEMBER, kernels.copy_stacks(nodes, self._launches, counts, table(MEMBER, 0)))
        kernels.copy_stacks(nodes, self._launches, counts, frames)
        steps, rows = np.full(calls, NO_CALL, np.int32), np.full(calls, NO_CALL, np.int32)
        # A stack begins with the launching call itself.
        begins = (np.cumsum(counts) - counts)[counts > 0]
        steps[counts > 0], rows[counts > 0] = frames["step"][begins], frames["row"][begins]
        threads = np.full(calls, UNKNOWN_THREAD, np.int32)
        threads[counts > 0] = self._launches.threads[nodes[counts > 0] % len(self._launches.threads)]
        return CallLaunches(steps, rows, threads, counts, frames)

    def _note_launches(self, rows: Int32Array, stacks: CallStacks, selection: Selection) -> None:
        if not len(rows):
            return
        self._make_room(int((stacks.calls["depth"][rows] + 1).sum()))
        if len(self._node_of) < stacks.count:
            self._node_of = np.full(len(stacks.calls), NONE, np.int64)
        is_anomaly = np.zeros(stacks.count, np.uint8)
        is_anomaly[selection.flagged] = 1
        ids, calls, threads = self.new_ids, stacks.calls, stacks.threads
        kernels.note_launches(ids, rows, calls, threads, is_anomaly, self._launches, self._node_of)

    def _note_gpu_calls(self, ids: UInt64Array, rows: Int32Array, stacks: CallStacks) -> None:
        """Note the ids of the GPU calls of the step, and those of open ones for when they end."""
        order = np.argsort(rows, kind="stable")
        self._gpu_rows, self._gpu_ids = rows[order], ids[order]
        kernels.find_launches(self._gpu_ids, self._launches, np.empty(len(ids), np.int64))
        self._ids_before = self._open_ids
        is_open = stacks.calls["exit"][self._gpu_rows] == 0
        self._open_ids = {
            _place(stacks, row): identity
            for row, identity in zip(
                self._gpu_rows[is_open].tolist(), self._gpu_ids[is_open].tolist(), strict=True
            )
        }
        for row in range(stacks.carried if self._ids_before else 0):
            place = _place(stacks, row)
            if place in self._ids_before and not stacks.call(row).exit:
                self._open_ids[place] = self._ids_before[place]

    def _make_room(self, nodes: int) -> None:
        """Enlarge the ring while allowed: ``nodes`` more are about to come."""
        size = len(self._launches.kinds)
        used = min(int(self._launches.state[kernels.NODES]), size)
        larger = size
        while larger < min(used + nodes, self._most_nodes):
            larger *= 2
        if larger > size:
            before = self._launches
            self._launches = ring(larger)
            kernels.move_nodes(before, self._launches)


def _place(stacks: CallStacks, row: int) -> EntryId:
    call = stacks.call(row)
    return call.step, call.row


def ring(nodes: int) -> kernels.Launches:
    """Return an empty ring of so many nodes, a power of two."""
    return kernels.Launches(
        state=np.zeros(kernels.STATE_CELLS, np.int64),
        members=table(MEMBER, nodes),
        callers=np.empty(nodes, np.int64),
        threads=np.empty(nodes, np.int32),
        ids=np.empty(nodes, np.uint64),
        kinds=np.empty(nodes, np.uint8),
        keys=np.empty(2 * nodes, np.uint64),
        numbers=np.full(2 * nodes, NONE, np.int64),
    )


GPU_KEYS = frozenset(
    [f"{maker} {what}" for maker in ("CUDA", "ROCM") for what in ("Device", "Context", "Stream")]
    + ["ROCM_GPU_ID", "ROCM_QUEUE_ID"]
)
"""Metadata keys of threads that stand for a stream of a GPU."""
MOST_WAITING = 500
"""Maximum number of records that wait for their launch."""


class Waiting(msgspec.Struct):
    """Record of a GPU call whose launch was not known when the record was put out."""

    identity: int
    launch: CallLaunches | None = None
    record: PackedRecords | None = None
    """Last revision made by the record's window."""
    is_reported: bool = False
    """Whether the record has been put out with its launch."""
    added: int = 0
    """Number of revisions that were put out beside those of the window."""


class Launches:
    """GPU threads of one stream, and launches of the calls on them.

    ``Windows`` makes records of what ``of_calls`` gives for a step's calls, and ``complete`` takes these.
    """

    def __init__(
        self,
        most_nodes: int = MOST_NODES,
        most_waiting: int = MOST_WAITING,
        uncorrelated: tuple[str, ...] = (),
    ) -> None:
        self.is_gpu = np.zeros(0, np.uint8)
        """Whether each thread is a GPU's, by the threads' numbers, uint8[threads]."""
        self._correlation = Correlation(most_nodes, uncorrelated)
        self._most_waiting = most_waiting
        self._known = 0, 0, 0
        self._names = StreamNames()
        self._waiting: dict[EntryId, Waiting] = {}
        self._given_up = 0

    def of_calls(
        self, step: TraceStep, names: StreamNames, stacks: CallStacks, selection: Selection
    ) -> CallLaunches:
        """Return the calls that launched the selected ones, as far as known."""
        self._names = names
        self._note_threads(names, stacks)
        correlation, calls = self._correlation, len(selection.rows)
        correlation.read(step, names, stacks, self.is_gpu, selection)
        ids = correlation.ids_of(stacks, selection.rows)
        launches = correlation.launches_of(calls, ids)
        for at, identity in ids.items():
            if not launches.counts[at]:
                call = stacks.call(int(selection.rows[at]))
                self._wait((call.step, call.row), identity)
        return launches

    def complete(self, records: PackedRecords) -> PackedRecords:
        """Return the records of a step, and new revisions of earlier records whose launch was found in it.

        Each revision of such a record that follows has the launch too.
        """
        if not self._waiting:
            return records
        self._find_launches()
        heads = records.head_rows()
        places = list(zip(heads.begin_step.tolist(), heads.begin_row.tolist(), strict=True))
        is_late = np.array([place in self._waiting for place in places], np.bool_)
        parts = [records.only(~is_late) if is_late.any() else records]
        for at in np.flatnonzero(is_late).tolist():
            self._waiting[places[at]].record = records.only(np.arange(len(places)) == at)
            parts.append(self._put_out(places[at]))
        for place, waiting in list(self._waiting.items()):
            if waiting.launch is not None and not waiting.is_reported:
                waiting.added = 1
                parts.append(self._put_out(place))
        return joined(parts)

    def gpu_us(self, stacks: CallStacks) -> int:
        """Return the exclusive time of the calls that ended on GPUs in a step."""
        if not self.is_gpu.any():
            return 0
        calls = stacks.calls[: stacks.count]
        ended = calls[(calls["exit"] > 0) & (self.is_gpu[calls["thread"]] != 0)]
        return int((ended["exit"] - ended["entry"] - ended["child_us"]).sum())

    def lost(self) -> dict[str, int]:
        """Return how many launches could not be remembered, by kind; only kinds that occurred."""
        kinds = {
            "launches forgotten before their GPU call": self._correlation.forgotten,
            "records of GPU calls without their launch": self._given_up,
        }
        return {kind: count for kind, count in kinds.items() if count}

    def _note_threads(self, names: StreamNames, stacks: CallStacks) -> None:
        known = len(names.metadata), stacks.thread_count, len(stacks.threads)
        if known != self._known:
            self._known = known
            ids = [thread for _, thread, key in names.metadata if key in GPU_KEYS]
            self.is_gpu = np.isin(stacks.threads["id"], ids).astype(np.uint8)

    def _wait(self, place: EntryId, identity: int) -> None:
        while len(self._waiting) >= self._most_waiting:
            del self._waiting[next(iter(self._waiting))]
            self._given_up += 1
        self._waiting[place] = Waiting(identity)

    def _find_launches(self) -> None:
        """Look for the launches of waiting records in the step."""
        new = set(self._correlation.new_ids.tolist())
        for waiting in self._waiting.values() if new else ():
            if waiting.launch is None and waiting.identity in new:
                waiting.launch = self._correlation.launches_of(1, {0: waiting.identity})

    def _put_out(self, place: EntryId) -> PackedRecords:
        """Return a record as far as it is known; a complete one waits no longer."""
        waiting = self._waiting[place]
        assert waiting.record is not None
        if waiting.launch is None:
            return waiting.record
        waiting.is_reported = True
        record = self._with_launch(waiting.record, waiting.launch, waiting.added)
        if record.head_rows().is_final[0]:
            del self._waiting[place]
        return record

    def _with_launch(self, record: PackedRecords, launch: CallLaunches, added: int) -> PackedRecords:
        heads = record.head_rows().copy()
        heads.launch_step, heads.launch_row = launch.steps, launch.rows
        heads.launch_thread, heads.launch_frames = launch.threads, launch.counts
        heads.revision += added
        functions = {number: self._names.timer_name(number) for number in launch.frames["function"].tolist()}
        return msgspec.structs.replace(
            record,
            heads=heads.tobytes(),
            launch_frames=launch.frames.tobytes(),
            functions=record.functions | functions,
        )
