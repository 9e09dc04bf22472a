"""When what steps have brought is committed. Knows no clock: who asks says how late it is.

What steps have brought since the last commit.
"""

from __future__ import annotations

from collections import Counter

from chimbuko.ad.analysis.streamanalysis import StepResult
from chimbuko.ad.handoff import outbox
from chimbuko.ad.handoff.spool import SpoolFrame, SpoolWriter
from chimbuko.core.calls.record import CounterStatistics, Metadata, StreamHealth
from chimbuko.core.calls.recordarrays import PackedRecords, joined
from chimbuko.core.config import AnalysisConfig
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


COMMIT_PERIOD_S = 0.05
"""What steps have brought is committed so often at most: after each of many small steps it buys nothing."""
COMMIT_SHARE = 0.02
"""Part of the time that commits may take: of 5,000 functions one takes some 20 ms."""
QUIET_PERIODS = 2.9
"""Steps in which nothing was found are committed together for so long, which is with the third. With that
and fewer wake-ups the reader of a rank that is fine takes 2.4 ms for a step of 5,000 rows; without, 3.5."""
LONGEST_QUIET_S = 3.0
"""But no longer than a user who watches likes to wait."""
LOUD_STEPS = 20
"""The first steps of a stream are never quiet: what they teach, all ranks need to know soon."""
MOST_QUIET_BYTES = 1 << 20
"""Quiet steps wait as long as they take no more space than this."""


def quiet_s(period_s: float) -> float:
    """How long a frame without findings may wait for more steps, in seconds."""
    return min(QUIET_PERIODS * period_s, LONGEST_QUIET_S)


class CommitSchedule:
    """Of one stream that is analysed live.

    Parameters
    ----------
    can_wait
        Whether steps in which nothing was found can wait for others: where they stay in their files.
    """

    def __init__(self, config: AnalysisConfig, can_wait: bool) -> None:
        self._can_wait = can_wait
        self._quiet_s = quiet_s(config.period_us / 1e6)
        self._least_at_s = self._done_at_s = 0.0
        self._took_s = 0.0
        self._is_quiet = can_wait
        self._size_bytes = 0

    def note(self, result: StepResult, size_bytes: int, steps: int) -> None:
        """A step waits for a commit, the stream's ``steps``-th."""
        is_found = bool(result.records.heads or result.count.anomalies)
        self._size_bytes += size_bytes
        is_small = self._size_bytes < MOST_QUIET_BYTES
        self._is_quiet = self._is_quiet and steps > LOUD_STEPS and is_small and not is_found

    @property
    def is_quiet(self) -> bool:
        """Whether nobody needs to hear at once of what waits."""
        return self._is_quiet

    def due_s(self) -> float:
        """When the steps that wait should be committed."""
        quiet_s = self._done_at_s + self._quiet_s if self._is_quiet else 0.0
        return max(self._least_at_s, quiet_s)

    def tried(self, now_s: float, took_s: float) -> None:
        """Somebody has tried to commit, which took so much CPU time."""
        # The first one, in cold memory, does not say what the next ones take.
        before_s, self._took_s = self._took_s, took_s
        self._least_at_s = now_s + max(COMMIT_PERIOD_S, min(before_s, took_s) / COMMIT_SHARE)

    def done(self, now_s: float) -> None:
        """Nothing waits any more."""
        self._done_at_s = now_s
        self._is_quiet, self._size_bytes = self._can_wait, 0
