"""Streams with rows that cannot be, or are not where they should be."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np

from chimbuko.capture.trace.writer import StreamWriter
from tests.data.broken.cases import (
    ABSURD_THREAD,
    ABSURD_TIMER,
    CALLS,
    ENTRY,
    EVENT_TYPE,
    EXIT,
    LOST_EXIT,
    NO_ENTRY,
    ORIGIN,
    OUTSIDE,
    POINT_TIME,
    PROGRAM,
    RANK,
    REVERSED,
    ROUNDS,
    ROWS,
    SEND,
    SOLVE,
    START_US,
    STEP_CALLS,
    STEP_ROWS,
    STEPS,
    THREAD,
    TIME,
    TIMER,
    UNKNOWN_TYPE,
    UNNAMED,
    VALUE_OUTSIDE,
    Rows,
    Stream,
    counted,
)

ROUND = slice(4, 8)
"""The second round of a step; the first one of a function on a thread is never judged."""
NOT_A_NUMBER = 1 << 63
"""What a double that is not a number becomes on its way into an unsigned integer."""
LOST_CALLS = 10_000


def with_events(path: Path, change: Callable[[Rows], Rows]) -> None:
    """Write the sound stream with other events in its second step."""
    stream = Stream()
    stream.events[1] = change(stream.events[1])
    stream.write(path)


def with_round(path: Path, column: int, *values: int) -> None:
    """Write the sound stream with other values in one column of one round."""

    def change(events: Rows) -> Rows:
        for row, value in zip(events[ROUND], values, strict=True):
            row[column] = value
        return events

    with_events(path, change)


@counted("nothing is wrong with it")
def sound(path: Path) -> None:
    Stream().write(path)


@counted("a round of another program", {ORIGIN: 4}, calls=CALLS - 2)
def rows_of_another_program(path: Path) -> None:
    with_round(path, PROGRAM, 3, 3, 3, 3)


@counted("a round of programs beyond all numbers", {ORIGIN: 4}, calls=CALLS - 2)
def rows_of_an_absurd_program(path: Path) -> None:
    with_round(path, PROGRAM, *[(1 << 64) - 1] * 4)


@counted("a round of ranks that cannot be", {ORIGIN: 4}, calls=CALLS - 2)
def rows_of_an_absurd_rank(path: Path) -> None:
    with_round(path, RANK, *[1 << 63] * 4)


@counted("a round on a thread that cannot be", {ABSURD_THREAD: 4}, calls=CALLS - 2)
def rows_of_an_absurd_thread(path: Path) -> None:
    with_round(path, THREAD, *[1 << 40] * 4)


@counted("a round on the highest possible thread, which is as good as any")
def rows_of_a_high_thread(path: Path) -> None:
    with_round(path, THREAD, *[(1 << 16) - 1] * 4)


@counted("event types that nobody has named", {UNKNOWN_TYPE: 4}, calls=CALLS - 2)
def unknown_event_type(path: Path) -> None:
    with_round(path, EVENT_TYPE, 9, 1 << 31, 1 << 63, (1 << 64) - 1)


@counted("event types that the stream has numbered otherwise")
def event_types_renumbered(path: Path) -> None:
    stream = Stream()
    stream.names.event_types = {0: "SEND", 4: "EXIT", 7: "ENTRY", 3: "RECV"}
    for row in (row for rows in stream.events for row in rows):
        row[EVENT_TYPE] = 7 if row[EVENT_TYPE] == ENTRY else 4
    for row in (row for rows in stream.comms for row in rows):
        row[EVENT_TYPE] = 0
    stream.write(path)


@counted("timer ids that cannot be", {ABSURD_TIMER: 4}, calls=CALLS - 2)
def absurd_timer(path: Path) -> None:
    with_round(path, TIMER, 1 << 16, 1 << 31, 1 << 50, (1 << 64) - 1)


@counted("a timer whose name never arrives: its calls are calls, but nobody's", {UNNAMED: 2})
def unknown_timer(path: Path) -> None:
    with_round(path, TIMER, SOLVE, 900, 900, SOLVE)


@counted("a name that arrives a step after the first rows of its timer", {UNNAMED: 2 * ROUNDS})
def late_name(path: Path) -> None:
    stream = Stream()
    send = stream.names.timers.pop(SEND)
    with StreamWriter(path, "BP5") as writer:
        writer.write_step(*stream.arrays(0), stream.names)
        stream.names.timers[SEND] = send
        for step in (1, 2):
            writer.write_step(*stream.arrays(step), stream.names)


@counted("two rounds that have changed places", {REVERSED: 1})
def time_runs_backwards(path: Path) -> None:
    with_events(path, lambda events: events[4:8] + events[:4] + events[8:])


@counted("times of zero, of what was no number, and of another age", {REVERSED: 4})
def times_that_cannot_be(path: Path) -> None:
    with_round(path, TIME, 0, NOT_A_NUMBER, (1 << 64) - 1, 1 << 53)


@counted("calls that end in the µs in which they begin")
def calls_without_length(path: Path) -> None:
    with_round(path, TIME, *[START_US + 1_002_150] * 4)


@counted("an EXIT whose ENTRY is missing", {NO_ENTRY: 1}, ROWS - 1, CALLS - 1)
def exit_without_entry(path: Path) -> None:
    with_events(path, lambda events: events[:5] + events[6:])


@counted("an EXIT of a function that is not open", {NO_ENTRY: 1}, ROWS + 1)
def exit_of_a_function_not_open(path: Path) -> None:
    with_events(path, lambda events: [*events[:4], [0, 0, 0, EXIT, SEND, events[4][TIME]], *events[4:]])


@counted("an EXIT is missing; that of the call around it ends both", {LOST_EXIT: 1}, ROWS - 1, CALLS - 1)
def lost_exit(path: Path) -> None:
    with_events(path, lambda events: events[:6] + events[7:])


@counted("the EXIT of another function than the innermost", {LOST_EXIT: 1, NO_ENTRY: 1}, calls=CALLS - 1)
def exit_of_another_function(path: Path) -> None:
    with_round(path, TIMER, SOLVE, SEND, SOLVE, SEND)


@counted(
    "all EXITs of a function are missing",
    {LOST_EXIT: STEPS * ROUNDS},
    ROWS - STEPS * ROUNDS,
    CALLS - STEPS * ROUNDS,
)
def no_exits_of_a_function(path: Path) -> None:
    stream = Stream()
    for rows in stream.events:
        rows[:] = [row for row in rows if row[EVENT_TYPE] == ENTRY or row[TIMER] != SEND]
    stream.write(path)


@counted(
    "ten thousand calls without an EXIT, under one that ends only with the stream",
    {LOST_EXIT: LOST_CALLS},
    ROWS + LOST_CALLS,
    steps=STEPS + 5,
)
def lost_exits_pile_up(path: Path) -> None:
    stream = Stream()
    for first in range(0, LOST_CALLS, LOST_CALLS // 5):
        numbers = range(first, first + LOST_CALLS // 5)
        at = len(stream.events) - STEPS + 1
        stream.events.insert(at, [[0, 0, 0, ENTRY, SEND, START_US + 500_000 + number] for number in numbers])
        stream.comms.insert(at, [])
        stream.counters.insert(at, [])
    stream.write(path)


@counted("rows that are there twice look like calls in calls", rows=ROWS + 4, calls=CALLS + 2)
def rows_twice(path: Path) -> None:
    with_events(
        path, lambda events: [*events[:4], *(row for row in events[ROUND] for _ in "12"), *events[8:]]
    )


@counted("a step that is there twice", {REVERSED: 1}, ROWS + STEP_ROWS, CALLS + STEP_CALLS, STEPS + 1)
def step_twice(path: Path) -> None:
    stream = Stream()
    for part in stream.parts:
        part.insert(2, part[1])
    stream.write(path)


@counted("blocks of threads in descending order")
def threads_in_another_order(path: Path) -> None:
    stream = Stream()
    for row in (row for part in stream.parts for rows in part for row in rows):
        row[THREAD] = 4
    for rows in stream.events:
        for row in rows:
            row[THREAD] = 4 if row[TIMER] in (SOLVE, SEND) else 0
        rows.sort(key=lambda row: -row[THREAD])
    stream.write(path)


@counted("numbers of messages that cannot be", {ORIGIN: 2, ABSURD_THREAD: 1, POINT_TIME: 2})
def absurd_messages(path: Path) -> None:
    stream = Stream()
    comms = stream.comms[1]
    comms[0][PROGRAM] = comms[1][RANK] = comms[2][THREAD] = 1 << 60
    comms[3][7], comms[4][7] = 0, NOT_A_NUMBER
    comms[5][3:7] = [1 << 63] * 4
    stream.write(path)


@counted("numbers of counter values that cannot be", {ORIGIN: 2, ABSURD_THREAD: 1, POINT_TIME: 2})
def absurd_counters(path: Path) -> None:
    stream = Stream()
    counters = stream.counters[1]
    counters[0][PROGRAM] = counters[1][RANK] = counters[2][THREAD] = 1 << 60
    counters[3][5], counters[4][5] = 0, NOT_A_NUMBER
    counters[5][3] = counters[6][4] = 1 << 63
    stream.write(path)


@counted("messages and values before the first call and after the last", {OUTSIDE: 2, VALUE_OUTSIDE: 2})
def points_outside_of_calls(path: Path) -> None:
    stream = Stream()
    for step, at, time in ((0, 0, START_US - 5), (2, -1, START_US + 9_000_000)):
        stream.comms[step][at][-1] = stream.counters[step][at][-1] = time
    stream.write(path)


@counted("noise, as a writer with a wild pointer leaves it", {ORIGIN: 400}, 400, 0, 1, "broken")
def noise(path: Path) -> None:
    chance = np.random.default_rng(1)
    stream = Stream()
    for part, rows, columns in zip(stream.parts, (200, 100, 100), (6, 8, 6), strict=True):
        part[:] = [chance.integers(1, 1 << 63, (rows, columns)).tolist()]
    stream.write(path)
