"""The report's text, as a whole."""

from __future__ import annotations

import pytest

from chimbuko.monitor.procfs.system import NodeMemory
from chimbuko.monitor.report.layout import heartbeat, report
from chimbuko.monitor.sampling.identity import Identity
from chimbuko.monitor.sampling.span import ProcessSpan, Span
from tests.monitor.sampling.made import span, thread


def identity(pid: int, rank: int | None, cpus: tuple[int, ...]) -> Identity:
    return Identity(pid, 1, "./app", rank, 8, cpus, {})


def test_report() -> None:
    threads = (
        thread(51334, (1,), busy=0.6394, system_s=1.248, involuntary=4, voluntary=365488, waited_s=None),
        thread(51343, (7,), busy=0.0026, pid=1, kind="Sampler", involuntary=9, voluntary=679, waited_s=0.01),
        thread(51384, (1, 2, 3), busy=0.64, pid=51334, kind="OpenMP", involuntary=3, voluntary=7),
    )
    made = span(*threads, cores={1: 0.773, 2: 0.5, 9: 0.1})
    assert report(made, {51334: identity(51334, 0, (1, 2)), 4: identity(4, None, (5,))}, "frontier09085") == [
        "Duration of execution: 10.000 s",
        "",
        "Process Summary:",
        "MPI 000 - PID 51334 - Node frontier09085 - CPUs allowed: [1]",
        "",
        "LWP (thread) Summary:",
        "LWP 51334: Main, OpenMP - stime: 12.48, utime: 63.94, nv_ctx: 4, ctx: 365488, CPUs: [1] - app",
        "LWP 51384:       OpenMP - stime:  0.00, utime: 64.00, nv_ctx: 3, ctx:      7, wait:  0.00, CPUs: [1-3] - app",  # noqa: E501
        "LWP 51343:      Sampler - stime:  0.00, utime:  0.26, nv_ctx: 9, ctx:    679, wait:  0.10, CPUs: [7] - app",  # noqa: E501
        "",
        "Hardware Summary:",
        "CPU 001 - idle: 22.70, system:  0.00, user: 77.30",
        "",
        "Findings:",
        "none",
    ]


def test_findings_come_with_advice() -> None:
    lines = report(span(thread(1, busy=0.0, state="T", still_periods=6)), {1: identity(1, None, (0,))}, "n")
    assert "PID 1 - Node n - CPUs allowed: [0]" in lines
    assert lines[-2:] == [
        "stopped: the 1 thread of process 1 stand still for 6 periods",
        "    let it go on (kill -CONT 1)",
    ]


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
