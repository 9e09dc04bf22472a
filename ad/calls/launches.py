"""GPU calls of one stream, with the calls that launched them, in its records.

A launch that is reported later than its GPU call completes a record that was already put out.
"""

from __future__ import annotations

import msgspec
import numpy as np

from chimbuko.ad.calls.correlation import MOST_NODES, Correlation, EntryId
from chimbuko.ad.calls.selection import CallLaunches, Selection
from chimbuko.ad.calls.stacks import CallStacks
from chimbuko.core.calls.recordarrays import PackedRecords, joined
from chimbuko.core.traceschema import StreamNames, TraceStep

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
