"""Stories whose causes are known, as the records that a run would have of them."""

from __future__ import annotations

from chimbuko.calls.record import CallRecord
from tests.causes.flagged import record

ORIGIN = "0:3:1:1"


def chain() -> list[CallRecord]:
    """Rank 3 is late by 99 ms; ranks 2, 1 and 0 wait for each other's messages."""
    return [
        record("compute", 3, 0, 100),
        record("MPI_Recv()", 2, 5, 101, received_from=[3]),
        record("MPI_Waitall()", 1, 8, 104, received_from=[2]),
        record("MPI_Recv()", 0, 12, 108, received_from=[1]),
    ]


def interruptions(count: int = 40) -> list[CallRecord]:
    """Short delays of four functions on three ranks, long after the chain."""
    functions = ("pack", "unpack", "relax", "exchange")
    return [
        record(functions[n % 4], n % 3, 1000 + 100 * n, 1005 + 100 * n + n % 3, row=n + 1000)
        for n in range(count)
    ]
