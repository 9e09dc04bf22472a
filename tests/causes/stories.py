"""Stories whose causes are known, as the records that a run would have of them."""

from __future__ import annotations

import msgspec

from chimbuko.core.calls.record import CallRecord, WindowCall
from tests.causes.flagged import AFTER, BEGIN_US, at, record

ORIGIN = "0:3:1:1"


def chain() -> list[CallRecord]:
    """Rank 3 is late by 99 ms; ranks 2, 1 and 0 wait for each other's messages."""
    return [
        record("compute", 3, 0, 100),
        record("MPI_Recv()", 2, 5, 101, received_from=[3]),
        record("MPI_Waitall()", 1, 8, 104, received_from=[2]),
        record("MPI_Recv()", 0, 12, 108, received_from=[1]),
    ]


def delays_of_neighbours(count: int = 40) -> list[CallRecord]:
    """Each second another of four ranks is late by 99 ms, and those beside it wait for its messages."""
    found = []
    for n in range(count):
        late, begin_ms = n * 3 % 4, 1000.0 * n
        beside = [rank for rank in (late - 1, late + 1) if 0 <= rank <= 3]
        sends = [(rank, begin_ms + 101) for rank in beside]
        found += [
            record("compute", late, begin_ms, begin_ms + 100, number=n + 1, sends_after=sends),
            *(
                record("MPI_Recv()", rank, begin_ms + 5, begin_ms + 101.1, received_from=[late], number=n + 1)
                for rank in beside
            ),
        ]
    return found


def delays_at_collectives(count: int = 40) -> list[CallRecord]:
    """Each second another of four ranks is late by 99 ms at a barrier; nobody sends any message."""
    found = []
    for n in range(count):
        late, begin_ms = n * 3 % 4, 1000.0 * n
        come_ms, leave_ms = begin_ms + 100.1, begin_ms + 101.2
        delayed = record("compute", late, begin_ms, begin_ms + 100, enters=[(n + 1, come_ms)])
        barrier = WindowCall(AFTER, "MPI_Barrier()", at(come_ms), at(leave_ms), "", 2, False)
        found.append(msgspec.structs.replace(delayed, window=[*delayed.window, barrier]))
        for rank in set(range(4)) - {late}:
            came_ms = begin_ms + 5 + rank
            found.append(record("MPI_Barrier()", rank, came_ms, leave_ms, enters=[(n + 1, came_ms)]))
    return found


def by_another_clock(one: CallRecord, lead_us: float, drift: float, begin_us: int = BEGIN_US) -> CallRecord:
    """A record of a rank whose clock is ahead, and too fast."""

    def shown(time_us: int) -> int:
        return round(time_us + lead_us + drift * (time_us - begin_us))

    return msgspec.structs.replace(
        one,
        entry_us=shown(one.entry_us),
        exit_us=shown(one.exit_us),
        window=[
            msgspec.structs.replace(call, entry_us=shown(call.entry_us), exit_us=shown(call.exit_us))
            for call in one.window
        ],
        messages=[
            msgspec.structs.replace(message, time_us=shown(message.time_us)) for message in one.messages
        ],
        collectives=[
            msgspec.structs.replace(other, time_us=shown(other.time_us)) for other in one.collectives
        ],
    )


def interruptions(count: int = 40) -> list[CallRecord]:
    """Short delays of four functions on three ranks, long after the chain."""
    functions = ("pack", "unpack", "relax", "exchange")
    return [
        record(functions[n % 4], n % 3, 1000 + 100 * n, 1005 + 100 * n + n % 3, row=n + 1000)
        for n in range(count)
    ]
