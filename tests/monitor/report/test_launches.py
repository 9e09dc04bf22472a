"""The verdict over the three launches of ZeroSum's paper, whose figures are these.

Eight ranks of seven OpenMP threads: on one core each, on seven cores, and bound to one of seven each. The
columns are the thread, its system and user time in percent, and how often it was cut off.
"""

from __future__ import annotations

import pytest

from chimbuko.monitor.procfs.numbers import parse_cpulist
from chimbuko.monitor.report.findings import findings
from chimbuko.monitor.sampling.sample import SAMPLER
from chimbuko.monitor.sampling.span import Span
from tests.monitor.sampling.made import span, thread

ONE_CORE = """18351 1.54 15.17 332905 1
18356 0.42 1.10 194 1
18385 0.00 0.00 0 1-127
18405 0.31 13.09 232689 1
18407 0.44 12.93 353365 1
18408 0.21 13.22 92528 1
18409 0.47 12.93 394014 1
18410 0.37 13.03 302371 1
18411 0.41 12.97 348829 1"""
SEVEN_CORES = """18552 3.13 88.40 5 1-7
18561 0.79 2.64 2 7
18588 0.00 0.00 0 1-127
18589 1.10 90.00 9 1-7
18590 1.10 93.00 8 1-7
18591 1.07 90.52 9 1-7
18592 1.10 89.83 14 1-7
18593 1.10 90.48 7 1-7
18594 1.10 91.93 300 1-7"""
BOUND = """18948 3.07 88.57 2 1
18954 0.71 2.57 2 7
18981 0.00 0.00 0 1-127
18992 1.18 96.36 0 2
18993 1.14 96.50 1 3
18994 1.18 96.46 0 4
18995 1.11 93.89 0 5
18996 1.14 93.29 0 6
18997 1.14 95.54 208 7"""


def launch(table: str, seconds: float) -> Span:
    rows = [line.split() for line in table.splitlines()]
    return span(
        *(
            thread(
                int(tid),
                parse_cpulist(cpus),
                seconds=seconds,
                pid=int(rows[0][0]),
                kind=SAMPLER if at == 1 else "OpenMP",
                system_s=float(system) / 100 * seconds,
                user_s=float(user) / 100 * seconds,
                involuntary=int(cut_off),
                waited_s=None,
                # The tables do not say.
                processor=-1,
            )
            for at, (tid, system, user, cut_off, cpus) in enumerate(rows)
        ),
        seconds=seconds,
    )


@pytest.mark.parametrize(
    ("table", "seconds", "verdict"),
    [
        (ONE_CORE, 63.67, {"oversubscribed": 7}),
        (SEVEN_CORES, 27.33, {"sampler beside a worker": 1}),
        (BOUND, 27.40, {"sampler beside a worker": 1}),
    ],
)
def test_verdict(table: str, seconds: float, verdict: dict[str, int]) -> None:
    found = findings(launch(table, seconds))
    assert {finding.kind: len(finding.threads) for finding in found} == verdict


def test_what_is_said_of_the_first_launch() -> None:
    (finding,) = findings(launch(ONE_CORE, 63.67))
    assert finding.text.startswith("7 threads share 1 core (1): each runs 14 % of the time")
    assert finding.text.endswith("is cut off up to 6188 times a second")
