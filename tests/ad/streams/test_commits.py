"""When what steps have brought is committed."""

from __future__ import annotations

import numpy as np
import pytest

from chimbuko.ad.analysis.streamanalysis import StepResult
from chimbuko.ad.streams.commits import (
    COMMIT_PERIOD_S,
    COMMIT_SHARE,
    LONGEST_QUIET_S,
    MOST_QUIET_BYTES,
    PROMPT_STEPS,
    CommitSchedule,
    quiet_s,
)
from chimbuko.core.calls.record import StepCount
from chimbuko.core.calls.recordarrays import HEAD, PackedRecords
from chimbuko.core.config import AnalysisConfig

PERIOD_S = 0.5
CONFIG = AnalysisConfig(period_us=int(1e6 * PERIOD_S))
STEP_BYTES = 1000
LATE = PROMPT_STEPS + 1
"""Steps of a stream that is not new."""


def result(anomalies: int = 0, recorded: tuple[int, ...] = ()) -> StepResult:
    """A step with so many abnormal calls, and with a record of each of ``recorded``: 1 is abnormal."""
    heads = np.zeros(len(recorded), HEAD)
    heads["is_anomaly"] = recorded
    count = StepCount(0, 0, 0, 0, 0, 10, anomalies, 0.0, 0.0)
    return StepResult(PackedRecords(heads=heads.tobytes()), count, {})


def committed(can_wait: bool = True, at_s: float = 100.0, took_s: float = 0.0) -> CommitSchedule:
    """Just after a commit."""
    schedule = CommitSchedule(CONFIG, can_wait)
    schedule.tried(at_s, took_s)
    schedule.tried(at_s, took_s)
    schedule.done(at_s)
    return schedule


def test_quiet_steps_wait_for_each_other() -> None:
    schedule = committed()
    for number in range(3):
        schedule.note(result(recorded=(0, 0)), STEP_BYTES, LATE + number)
        assert schedule.due_s() == 100 + quiet_s(PERIOD_S)


@pytest.mark.parametrize("found", [result(anomalies=1), result(recorded=(0, 1))])
def test_what_was_found_waits_for_nothing_and_nor_do_those_before_and_behind(found: StepResult) -> None:
    schedule = committed()
    for one in (result(), found, result()):
        schedule.note(one, STEP_BYTES, LATE)
    assert schedule.due_s() == 100 + COMMIT_PERIOD_S
    schedule.done(101)
    schedule.note(result(), STEP_BYTES, LATE)
    assert schedule.due_s() == 101 + quiet_s(PERIOD_S)


def test_what_would_take_much_space_or_cannot_be_read_again_does_not_wait() -> None:
    large, joined, new = committed(), committed(can_wait=False), committed()
    for number in range(2):
        large.note(result(), MOST_QUIET_BYTES // 2, LATE + number)
    joined.note(result(), STEP_BYTES, LATE)
    new.note(result(), STEP_BYTES, PROMPT_STEPS)
    assert [one.due_s() for one in (large, joined, new)] == [100 + COMMIT_PERIOD_S] * 3


def test_commits_take_a_small_share_of_the_time() -> None:
    schedule = committed(can_wait=False, took_s=0.02)
    schedule.note(result(), STEP_BYTES, LATE)
    assert schedule.due_s() == pytest.approx(100 + 0.02 / COMMIT_SHARE)
    # One in cold memory says nothing.
    schedule.tried(200, 5.0)
    assert schedule.due_s() == pytest.approx(200 + 0.02 / COMMIT_SHARE)


def test_the_first_commit_of_all_is_due_at_once() -> None:
    schedule = CommitSchedule(CONFIG, can_wait=True)
    schedule.note(result(), STEP_BYTES, 1)
    assert schedule.due_s() == 0.0


def test_nothing_waits_longer_than_a_user_likes_to() -> None:
    assert 2 * PERIOD_S < quiet_s(PERIOD_S) < 3 * PERIOD_S
    assert quiet_s(60.0) == LONGEST_QUIET_S
