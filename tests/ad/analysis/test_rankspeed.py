"""How fast a rank is: what its ordinary calls take, in the functions that take its time."""

from __future__ import annotations

import numpy as np
import pytest

from chimbuko.ad.analysis.streamstatistics import Learned
from chimbuko.ad.analysis.streamtelemetry import MOST_FUNCTIONS, MOST_ROWS, RankSpeeds
from chimbuko.core.statistics.schema import PROFILE
from chimbuko.core.traceschema import StreamNames
from chimbuko.runtime.protocol.telemetry import PERIODS_PER_WINDOW
from tests.ad.tables import table_of

PERIOD_US = 1_000_000
WINDOW_US = PERIODS_PER_WINDOW * PERIOD_US
NAMES = StreamNames(
    timers={0: "main", 1: "solve", 2: "MPI_Wait", 3: "tiny"} | {n: f"f{n}" for n in range(4, 90)}
)
SEVERITY = PROFILE.slices["severity_us"].start


def learned(runtimes_us: dict[int, list[int]], severity_us: float = 0.0) -> Learned:
    """What calls of some functions teach, of which those of the first lost some time."""
    table = table_of(*runtimes_us.values())[:, : PROFILE.width]
    table[0, SEVERITY] = severity_us
    return Learned(np.array(list(runtimes_us)), table)


def paces_of(has_severity: bool = True) -> RankSpeeds:
    return RankSpeeds(1, 7, PROFILE, has_severity, PERIOD_US)


def test_windows_are_those_of_the_trace_clock() -> None:
    paces = paces_of()
    for period in range(2 * PERIODS_PER_WINDOW + 1):
        assert not len(paces.hand_out())
        paces.add(learned({0: [100], 1: [1000, 3000]}), WINDOW_US * 50 + period * PERIOD_US, NAMES)
        if period % PERIODS_PER_WINDOW == 0 and period:
            handed = paces.hand_out()
            number = 50 + period // PERIODS_PER_WINDOW - 1
            assert handed.tolist() == [(1, 7, number, 1, 20, 40_000.0), (1, 7, number, 0, 10, 1000.0)]
    paces.end_window(NAMES)
    assert paces.hand_out().tolist() == [(1, 7, 52, 1, 2, 4000.0), (1, 7, 52, 0, 1, 100.0)]


def test_functions_that_take_no_time_are_left_out_and_those_that_wait() -> None:
    paces = paces_of()
    paces.add(learned({1: [5000], 2: [90_000], 3: [10] * 90}), WINDOW_US, NAMES)
    paces.end_window(NAMES)
    assert paces.hand_out()["function"].tolist() == [1]


def test_a_function_whose_callees_are_left_out_at_times_says_nothing_of_its_rank() -> None:
    """What was known of it before, in the same window, neither."""
    paces = paces_of()
    for is_caller in ([], [0, 1], [0, 1, 0, 0, 0, 0]):
        paces.add(learned({1: [5000], 2: [10], 3: [4000]}), WINDOW_US, NAMES, np.array(is_caller, np.uint8))
    paces.end_window(NAMES)
    assert paces.hand_out()["function"].tolist() == [3]


def test_the_functions_that_take_the_most_time_are_reported() -> None:
    paces = paces_of()
    paces.add(learned({timer: [1000 + timer] for timer in range(4, 40)}), WINDOW_US, NAMES)
    paces.end_window(NAMES)
    assert paces.hand_out()["function"].tolist() == list(range(39, 39 - MOST_FUNCTIONS, -1))


@pytest.mark.parametrize(("has_severity", "time_us"), [(True, 2000.0), (False, 92_000.0)])
def test_what_abnormal_calls_lost_is_not_what_the_rank_is_slow_by(has_severity: bool, time_us: float) -> None:
    paces = paces_of(has_severity)
    paces.add(learned({1: [1000, 91_000]}, severity_us=90_000.0), WINDOW_US, NAMES)
    paces.end_window(NAMES)
    assert paces.hand_out()["time_us"].tolist() == [time_us]


def test_windows_that_nobody_takes_are_forgotten() -> None:
    paces = paces_of()
    for window in range(MOST_ROWS + 20):
        paces.add(learned({1: [1000]}), window * WINDOW_US, NAMES)
    assert paces.hand_out()["window"].tolist() == list(range(19, MOST_ROWS + 19))
