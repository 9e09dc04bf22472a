"""What steps have brought since the last commit."""

from __future__ import annotations

from collections import Counter

from chimbuko.ad.analysis.streamanalysis import StepResult
from chimbuko.ad.handoff import outbox
from chimbuko.ad.handoff.spool import SpoolFrame, SpoolWriter
from chimbuko.core.calls.record import CounterStatistics, Metadata, StreamHealth
from chimbuko.core.calls.recordarrays import PackedRecords, joined
from chimbuko.runtime.protocol.messages import PathTimes

MOST_HELD_BYTES = 8 << 20
"""Records of steps that wait for a commit while there is no room for one; then steps wait in files, or what
was found in them is given up."""


class Uncommitted:
    """The results of these steps, in their order."""

    def __init__(self) -> None:
        self._results: list[StepResult] = []

    def __len__(self) -> int:
        return len(self._results)

    def add(self, result: StepResult) -> None:
        """Add those of a step."""
        self._results.append(result)

    def clear(self) -> None:
        """They are committed."""
        self._results.clear()

    def is_too_much(self, is_blocked: bool) -> bool:
        """More than the outbox holds could never be committed, nor shall it fill the memory: better wait.

        Parameters
        ----------
        is_blocked
            There is no room for a commit. Usually there is one before this can become much.
        """
        if len(self._results) > outbox.MOST_STEPS // 4:
            return True
        return is_blocked and sum(result.size_bytes for result in self._results) > MOST_HELD_BYTES

    def give_up(self, spool: SpoolWriter) -> None:
        """Lose them, for which there is no room; the spool counts what is lost."""
        for result in self._results:
            spool.lose(result.records)
            spool.dropped.update(result.left_out)
        spool.lost_steps += len(self._results)
        self._results.clear()

    def frame(
        self,
        last: PackedRecords | None,
        metadata: list[Metadata],
        health: StreamHealth,
        counter_statistics: list[CounterStatistics],
        paths: PathTimes | None,
    ) -> SpoolFrame:
        """All of it for the spool, and the records ``last`` behind it."""
        left_out: Counter[str] = Counter()
        for result in self._results:
            left_out.update(result.left_out)
        made = [result.records for result in self._results] + ([] if last is None else [last])
        return SpoolFrame(
            records=joined([part for part in made if part.heads] or [PackedRecords()]),
            steps=[result.count for result in self._results],
            metadata=metadata,
            health=health,
            counter_statistics=counter_statistics,
            left_out=dict(left_out),
            paths=paths,
        )
