"""What the corpus of broken traces is made of: a sound stream to spoil, and the register of cases."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from chimbuko.capture.trace.writer import StreamWriter
from chimbuko.core.arrays import UInt64Array
from chimbuko.core.traceschema import StreamNames

START_US = 1_700_000_000_000_000
APPLICATION, MAIN, SOLVE, SEND = range(4)
ENTRY, EXIT = 0, 1
PROGRAM, RANK, THREAD, EVENT_TYPE, TIMER, TIME = range(6)

STEPS, ROUNDS = 3, 10
STEP_ROWS, STEP_CALLS = 6 * ROUNDS, 2 * ROUNDS
ROWS = STEPS * STEP_ROWS + 4
CALLS = STEPS * STEP_CALLS + 2

ORIGIN = "rows of another program or rank"
ABSURD_THREAD = "rows with an absurd thread"
UNKNOWN_TYPE = "rows with an unknown event type"
ABSURD_TIMER = "rows with an absurd timer"
NO_ENTRY = "EXIT without ENTRY"
POINT_TIME = "messages and counters with an absurd time"
NOT_USED = (ORIGIN, ABSURD_THREAD, UNKNOWN_TYPE, ABSURD_TIMER, NO_ENTRY, POINT_TIME)
"""Kinds of loss whose rows are not used at all."""
LOST_EXIT = "calls whose EXIT was lost"
REVERSED = "rows whose time is absurd or runs backwards"
UNNAMED = "rows of a timer not named yet"
OUTSIDE = "messages outside of calls"
VALUE_OUTSIDE = "counters outside of calls"

Rows = list[list[int]]
Make = Callable[[Path], None]

MAKERS: dict[str, Make] = {}
EXPECTED: dict[str, dict[str, Any]] = {}


class Stream:
    """Rows of a sound stream, for a case to spoil.

    Three steps of ten rounds each: ``solve`` calls ``MPI_Send()``, in which are a message and a counter
    value. ``.TAU application`` and ``main`` begin in the first step and end in the last.
    """

    def __init__(self) -> None:
        timers = (".TAU application", "main [{app.c} {1,0}]", "solve [{app.c} {9,0}]", "MPI_Send()")
        self.names = StreamNames(
            timers=dict(enumerate(timers)),
            counters={0: "TIME", 1: "Message size"},
            event_types={0: "ENTRY", 1: "EXIT", 2: "SEND", 3: "RECV"},
            program="app",
            metadata={(0, 0, "Hostname"): "node1"},
        )
        self.events: list[Rows] = []
        self.comms: list[Rows] = []
        self.counters: list[Rows] = []
        for step in range(STEPS):
            starts = [START_US + step * 1_000_000 + 1000 * i for i in range(1, ROUNDS + 1)]
            self.events.append([row for start_us in starts for row in _round(start_us)])
            self.comms.append([[0, 0, 0, 2, 5, 1, 800, start_us + 150] for start_us in starts])
            self.counters.append([[0, 0, 0, 1, 800, start_us + 160] for start_us in starts])
        self.events[0][:0] = [[0, 0, 0, ENTRY, timer, START_US] for timer in (APPLICATION, MAIN)]
        end_us = START_US + STEPS * 1_000_000
        self.events[-1] += [[0, 0, 0, EXIT, timer, end_us] for timer in (MAIN, APPLICATION)]

    @property
    def parts(self) -> tuple[list[Rows], list[Rows], list[Rows]]:
        """Events, messages and counter values, each by step."""
        return self.events, self.comms, self.counters

    def write(self, path: Path) -> None:
        with StreamWriter(path, "BP5") as writer:
            self.write_steps(writer)

    def write_steps(self, writer: StreamWriter) -> None:
        for step in range(len(self.events)):
            writer.write_step(*self.arrays(step), self.names)

    def arrays(self, step: int) -> tuple[UInt64Array, UInt64Array, UInt64Array]:
        events, comms, counters = (
            np.array(part[step], np.uint64).reshape(-1, columns)
            for part, columns in zip(self.parts, (6, 8, 6), strict=True)
        )
        return events, comms, counters


def _round(start_us: int) -> Rows:
    return [
        [0, 0, 0, ENTRY, SOLVE, start_us],
        [0, 0, 0, ENTRY, SEND, start_us + 100],
        [0, 0, 0, EXIT, SEND, start_us + 200],
        [0, 0, 0, EXIT, SOLVE, start_us + 500],
    ]


def counted(
    why: str,
    losses: dict[str, int] | None = None,
    rows: int = ROWS,
    calls: int = CALLS,
    steps: int = STEPS,
    state: str = "ended",
) -> Callable[[Make], Make]:
    """A stream that is analysed as far as it goes, with what has to be counted."""
    losses = losses or {}
    used = rows - sum(losses.get(kind, 0) for kind in NOT_USED)
    accounting = {"steps": steps, "rows": rows, "used": used, "calls": calls, "losses": losses}
    return lambda make: _register(make, {"why": why, "state": state, **accounting})


def refused(why: str, complaint: str) -> Callable[[Make], Make]:
    """A stream that cannot be opened, with what has to be said of it."""
    return lambda make: _register(make, {"why": why, "complaint": complaint})


def _register(make: Make, expected: dict[str, Any]) -> Make:
    MAKERS[make.__name__], EXPECTED[make.__name__] = make, expected
    return make
