"""Commits of a stream's process: what its steps have brought since the last one, and when the next one is
due. It knows no clock: the caller gives the time.
"""

from __future__ import annotations

from collections import Counter

import msgspec
import numpy as np
from msgspec.structs import replace

from chimbuko.ad.analysis.streamanalysis import StepResult, StreamAnalysis
from chimbuko.ad.handoff import outbox
from chimbuko.ad.handoff.namesfile import new_metadata
from chimbuko.ad.handoff.spool import SpoolFrame, SpoolWriter
from chimbuko.core.calls.record import StepCount
from chimbuko.core.calls.recordarrays import HEAD, PackedRecords, joined
from chimbuko.core.config import AnalysisConfig
from chimbuko.core.traceschema import StreamNames

MOST_HELD_BYTES = 8 << 20
"""Maximum size of records that wait for a commit while there is no room for one; beyond it steps wait in
files, or the findings are given up.
"""


class Uncommitted:
    """Results of the steps since the last commit, in their order."""

    def __init__(self) -> None:
        self._results: list[StepResult] = []

    def __len__(self) -> int:
        return len(self._results)

    def add(self, result: StepResult) -> None:
        """Add the result of a step."""
        self._results.append(result)

    def clear(self) -> None:
        """Clear the results, which are committed."""
        self._results.clear()

    def is_too_much(self, is_blocked: bool) -> bool:
        """Return whether more results have to wait: more than the outbox holds could never be committed, nor
        shall they fill the memory.

        Parameters
        ----------
        is_blocked
            Whether there is no room for a commit. Usually there is one before this can become much.
        """
        if len(self._results) > outbox.MOST_STEPS // 4:
            return True
        return is_blocked and sum(result.size_bytes for result in self._results) > MOST_HELD_BYTES

    def give_up(self, spool: SpoolWriter) -> None:
        """Lose the results, for which there is no room; the spool counts what is lost."""
        for result in self._results:
            spool.lose(result.records)
            spool.dropped.update(result.left_out)
        spool.lost_steps += len(self._results)
        self._results.clear()

    def left_out(self) -> dict[str, int]:
        """Return the number of abnormal calls of each function that are not recorded."""
        left_out: Counter[str] = Counter()
        for result in self._results:
            left_out.update(result.left_out)
        return dict(left_out)

    def records(self, last: PackedRecords | None) -> PackedRecords:
        """Return the records of all results, with ``last`` after them."""
        made = [result.records for result in self._results] + ([] if last is None else [last])
        return joined([part for part in made if part.heads] or [PackedRecords()])

    @property
    def steps(self) -> list[StepCount]:
        """Counts of the steps."""
        return [result.count for result in self._results]


class Told(msgspec.Struct, frozen=True):
    """Facts of a stream that the store has, beside its calls and steps."""

    metadata: frozenset[tuple[int, int, str]] = frozenset()
    """Keys of its metadata."""
    counters_due_us: int = 0
    """Time in the trace from which totals of its counters are due again."""

    def frame(
        self,
        analysis: StreamAnalysis,
        names: StreamNames,
        uncommitted: Uncommitted,
        last: PackedRecords | None,
        state: str,
    ) -> SpoolFrame:
        """Return the results since the last commit as a frame.

        Parameters
        ----------
        last
            Records that come after all others, at the end of the stream.
        state
            State of the stream, as in ``StreamHealth``.
        """
        health = analysis.health(state)
        if last is not None:
            names.say_sharing(health.rank)
        are_counters_due = last is not None or analysis.end_us >= self.counters_due_us
        return SpoolFrame(
            records=uncommitted.records(last),
            steps=uncommitted.steps,
            metadata=new_metadata(names, self.metadata, health.program),
            health=health,
            counter_statistics=analysis.counter_statistics() if are_counters_due else [],
            left_out=uncommitted.left_out(),
            paths=None if last is None else analysis.path_times(),
        )

    def after(self, frame: SpoolFrame, end_us: int, period_us: int) -> Told:
        """Return what the store has been told with this frame, too; the analysis is at ``end_us``."""
        keys = {(one.rank, one.thread, one.key) for one in frame.metadata}
        told = replace(self, metadata=self.metadata | keys) if keys else self
        return replace(told, counters_due_us=end_us + period_us) if frame.counter_statistics else told


COMMIT_PERIOD_S = 0.05
"""Minimum time between two commits, in seconds: after each of many small steps a commit gains nothing."""
COMMIT_SHARE = 0.02
"""Maximum share of the time that commits take: with 5,000 functions one takes some 20 ms."""
QUIET_PERIODS = 2.9
"""Number of periods for which steps without abnormal calls wait for a common commit, which then comes with
the third. With that and fewer wake-ups the reader of a healthy rank takes 2.4 ms for a step of 5,000 rows;
without, 3.5 ms.
"""
LONGEST_QUIET_S = 3.0
"""Longest wait of steps without abnormal calls, in seconds: a user who watches waits no longer."""
PROMPT_STEPS = 20
"""Number of first steps of a stream that are committed at once: what they teach, all ranks need to know soon.
"""
MOST_QUIET_BYTES = 1 << 20
"""Maximum size of steps without abnormal calls that wait."""


def quiet_s(period_s: float) -> float:
    """Return how long a frame without findings may wait for more steps, in seconds."""
    return min(QUIET_PERIODS * period_s, LONGEST_QUIET_S)


class CommitSchedule:
    """Schedule of the commits of one stream that is analysed live.

    Parameters
    ----------
    can_wait
        Whether steps without abnormal calls can wait for others: where they stay in their files.
    """

    def __init__(self, config: AnalysisConfig, can_wait: bool) -> None:
        self._can_wait = can_wait
        self._quiet_s = quiet_s(config.period_us / 1e6)
        self._least_at_s = self._done_at_s = 0.0
        self._took_s = 0.0
        self._is_quiet = can_wait
        self._size_bytes = 0

    def note(self, result: StepResult, size_bytes: int, steps: int) -> None:
        """Note that a step waits for a commit, the stream's ``steps``-th."""
        # Ordinary calls are recorded in most steps of a rank with many channels of messages, and nobody waits
        # for these: committed at once they cost agent and services three times as much.
        heads = np.frombuffer(result.records.heads, HEAD)
        is_found = bool(result.count.anomalies or heads["is_anomaly"].any())
        self._size_bytes += size_bytes
        is_small = self._size_bytes < MOST_QUIET_BYTES
        self._is_quiet = self._is_quiet and steps > PROMPT_STEPS and is_small and not is_found

    @property
    def is_quiet(self) -> bool:
        """Return whether nobody needs to hear at once of what waits."""
        return self._is_quiet

    def due_s(self) -> float:
        """Return when the steps that wait should be committed."""
        quiet_s = self._done_at_s + self._quiet_s if self._is_quiet else 0.0
        return max(self._least_at_s, quiet_s)

    def tried(self, now_s: float, took_s: float) -> None:
        """Note an attempt to commit, which took so much CPU time."""
        # The first commit, in cold memory, takes longer than the next ones.
        before_s, self._took_s = self._took_s, took_s
        self._least_at_s = now_s + max(COMMIT_PERIOD_S, min(before_s, took_s) / COMMIT_SHARE)

    def done(self, now_s: float) -> None:
        """Note that nothing waits any more."""
        self._done_at_s = now_s
        self._is_quiet, self._size_bytes = self._can_wait, 0
