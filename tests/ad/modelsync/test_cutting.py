"""What agents have to say is divided among the parts of the server: all of it, and nothing twice."""

from __future__ import annotations

from collections import Counter

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from chimbuko.ad.modelsync.agentstatistics import cut_ranks, cut_telemetry
from chimbuko.core.arrays import Int32Array, Rows
from chimbuko.core.calls.record import CounterStatistics, StepCount
from chimbuko.core.statistics.flaggedsteps import FLAGGED_STEPS
from chimbuko.runtime.protocol.partition import RANKS_TOGETHER, part_of_function, part_of_rank
from chimbuko.runtime.protocol.telemetry import (
    BEGUN,
    FLAGGED,
    PACE,
    TIMER,
    TRAFFIC,
    AgentFigures,
    ProgramPaths,
    StreamCounters,
    TelemetryDelta,
)

FUNCTIONS = 7
RANKS = 5 * RANKS_TOGETHER
COUNTERS = [f"counter {number}" for number in range(5)]

parts = st.integers(1, 4)
ranks = st.tuples(st.integers(0, 2), st.integers(0, RANKS - 1))
functions = st.lists(st.integers(0, FUNCTIONS - 1), max_size=20)


def rows_of(dtype: np.dtype[np.void], count: int, **columns: object) -> Rows:
    rows = np.zeros(count, dtype)
    for name, values in columns.items():
        rows[name] = values
    # So that each is told from the others.
    rows[dtype.names[-1]] = np.arange(count)  # type: ignore[index]
    return rows


def entries(content: bytes, dtype: np.dtype[np.void]) -> Counter[tuple[object, ...]]:
    return Counter(np.frombuffer(content, dtype).tolist())


def everything(flagged: list[int], who: list[tuple[int, int]], said: list[tuple[int, int]]) -> TelemetryDelta:
    """All that an agent may have to say, of functions, ranks, and ranks with counters."""
    programs, numbers = np.array(who, np.int32).reshape(-1, 2).T
    counters = [
        StreamCounters(program, rank, [CounterStatistics(name, *[1.0] * 7) for name in COUNTERS])
        for program, rank in said
    ]
    return TelemetryDelta(
        flagged=rows_of(FLAGGED, len(flagged), function=flagged).tobytes(),
        flagged_steps=rows_of(FLAGGED_STEPS, len(flagged), function=flagged).tobytes(),
        traffic=rows_of(TRAFFIC, len(who), program=programs, rank=numbers).tobytes(),
        paces=rows_of(PACE, len(who), program=programs, rank=numbers).tobytes(),
        counters=counters,
        figures=AgentFigures("node", 1, 1, 1.0, 1, 1.0),
        paths=[ProgramPaths(program, b"") for program in range(3)],
        node="node",
        timers=rows_of(TIMER, len(who), program=programs, rank=numbers).tobytes(),
        begun=rows_of(BEGUN, len(flagged), function=flagged).tobytes(),
    )


def functions_of(parts: int) -> Int32Array:
    """The part of each function."""
    return np.array([part_of_function(0, f"f{number}", parts) for number in range(FUNCTIONS)], np.int32)


def test_no_field_of_a_delta_is_forgotten() -> None:
    whole = everything([0, 1], [(0, 1), (1, RANKS - 1)], [(0, 1)])
    cut = cut_telemetry(whole, "agent", functions_of(3), 3)
    for name in TelemetryDelta.__struct_fields__:
        assert getattr(whole, name) != getattr(TelemetryDelta(), name), f"{name}: is in no delta of this test"
        assert any(getattr(one, name) for one in cut), f"{name}: no part of the server gets it"


@given(parts, st.lists(ranks, max_size=20), functions, st.lists(ranks, max_size=20))
def test_each_part_gets_what_is_its_own(
    parts: int, who: list[tuple[int, int]], flagged: list[int], said: list[tuple[int, int]]
) -> None:
    part_of, names = functions_of(parts), COUNTERS
    whole = everything(flagged, who, said)
    cut = cut_telemetry(whole, "agent", part_of, parts)
    assert len(cut) == parts
    for name, dtype in {
        "flagged": FLAGGED,
        "flagged_steps": FLAGGED_STEPS,
        "traffic": TRAFFIC,
        "paces": PACE,
        "timers": TIMER,
        "begun": BEGUN,
    }.items():
        rows = sum((entries(getattr(one, name), dtype) for one in cut), Counter[tuple[object, ...]]())
        assert rows == entries(getattr(whole, name), dtype)
    for part, one in enumerate(cut):
        for by_function in (np.frombuffer(one.flagged, FLAGGED), np.frombuffer(one.begun, BEGUN)):
            assert (part_of[by_function["function"]] == part).all()
        for row in (*np.frombuffer(one.traffic, TRAFFIC), *np.frombuffer(one.timers, TIMER)):
            assert part_of_rank(int(row["program"]), int(row["rank"]), parts) == part
        # Ranks are compared with all others of their program.
        assert len({paces % parts for paces in np.frombuffer(one.paces, PACE)["program"].tolist()}) <= 1
    assert sum(one.figures is not None for one in cut) == 1
    assert sorted(paths.program for one in cut for paths in one.paths) == [0, 1, 2]
    by_name = [{counter.name for stream in one.counters for counter in stream.counters} for one in cut]
    assert Counter(name for names in by_name for name in names) == (Counter(names) if said else Counter())
    assert sum(len(stream.counters) for one in cut for stream in one.counters) == 5 * len(said)


@given(parts, st.lists(ranks, max_size=20))
def test_steps_go_where_their_rank_is(parts: int, who: list[tuple[int, int]]) -> None:
    steps = [StepCount(program, rank, step, 0, 1, 0, 0, 0.0) for step, (program, rank) in enumerate(who)]
    cut = cut_ranks(steps, parts)
    assert sorted(step.step for of_part in cut for step in of_part) == list(range(len(who)))
    for part, of_part in enumerate(cut):
        assert all(part_of_rank(step.program, step.rank, parts) == part for step in of_part)
        assert of_part == sorted(of_part, key=lambda step: step.step)


def test_ranks_and_functions_are_spread_evenly() -> None:
    for parts in (2, 4):
        of_ranks = Counter(part_of_rank(0, rank, parts) for rank in range(100_000))
        of_functions = Counter(part_of_function(0, f"function {number}", parts) for number in range(2000))
        for counts, least in ((of_ranks, 0.99), (of_functions, 0.9)):
            assert min(counts.values()) > least * max(counts.values()) and len(counts) == parts
    # A node's ranks are one message.
    assert len({part_of_rank(0, rank, 4) for rank in range(RANKS_TOGETHER)}) == 1
