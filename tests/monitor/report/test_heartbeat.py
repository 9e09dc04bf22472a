"""The line of each period."""

from __future__ import annotations

import pytest

from chimbuko.monitor.procfs.system import NodeMemory
from chimbuko.monitor.report.layout import heartbeat
from chimbuko.monitor.sampling.span import ProcessSpan, Span
from tests.monitor.sampling.made import span, thread


def made(seconds: float, resident_bytes: int) -> Span:
    return span(
        thread(7, busy=0.5, seconds=seconds),
        processes={7: ProcessSpan(7, resident_bytes, resident_bytes)},
        memory=NodeMemory(2**34, 2**33, 2**33),
        seconds=seconds,
    )


@pytest.mark.parametrize(
    ("seconds", "resident_bytes", "line"),
    [
        (
            1.0,
            3 * 2**29,
            "1 s: 1 process, 1 thread (1 wants to run), 0.5 cores busy, 1.5 GB in memory, 8.0 GB left",
        ),
        (
            0.2,
            2**23,
            "0.2 s: 1 process, 1 thread (1 wants to run), 0.5 cores busy, 8 MB in memory, 8.0 GB left",
        ),
    ],
)
def test_short_periods_and_small_programs_have_figures_too(
    seconds: float, resident_bytes: int, line: str
) -> None:
    period = made(seconds, resident_bytes)
    assert heartbeat(period, period) == line
