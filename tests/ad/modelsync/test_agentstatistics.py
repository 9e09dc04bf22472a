"""The agent's statistics, as the thread that does not own them sees them."""

from __future__ import annotations

from collections import Counter, defaultdict

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from chimbuko.ad.detectors import make_detector
from chimbuko.ad.modelsync.agentstatistics import AgentStatistics, cut_ranks, cut_telemetry, rank_timers
from chimbuko.core.arrays import Float64Array, Int32Array, Rows
from chimbuko.core.calls.pathtable import PathTable
from chimbuko.core.calls.record import CounterStatistics, StepCount
from chimbuko.core.config import AnalysisConfig
from chimbuko.core.statistics.flaggedsteps import FLAGGED_STEPS
from chimbuko.core.statistics.schema import TableSchema
from chimbuko.runtime.protocol.partition import RANKS_TOGETHER, part_of_function, part_of_rank
from chimbuko.runtime.protocol.telemetry import (
    BEGUN,
    FLAGGED,
    OTHERS,
    PACE,
    TIMER,
    TRAFFIC,
    AgentFigures,
    ProgramPaths,
    StreamCounters,
    TelemetryDelta,
)
from tests.core.calls.test_pathtable import path_rows


def test_a_function_is_known_only_when_it_has_a_row(monkeypatch: pytest.MonkeyPatch) -> None:
    statistics = AgentStatistics("agent-0", 1, replace(make_detector(AnalysisConfig()).schema))
    names = {number: f"function {number}" for number in range(1000)}
    seen = []

    def grown(schema: TableSchema, table: Float64Array, count: int) -> Float64Array:
        # What another thread may ask for just now.
        seen.append(len(statistics.model.rows_for(0, names)))
        return original(schema, table, count)

    original = TableSchema.grown
    monkeypatch.setattr(TableSchema, "grown", grown)
    statistics.name(0, names.values())
    assert len(seen) >= 4 and set(seen) == {len(names)}


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


paths = st.lists(st.integers(0, 3), min_size=1, max_size=4).map(tuple)
calls = st.lists(st.tuples(paths, st.integers(0, 1000)), min_size=1, max_size=20)


@given(calls, st.integers(1, 5))
def test_timers_are_the_sums_of_calls(calls: list[tuple[tuple[int, ...], int]], most: int) -> None:
    count: dict[int, int] = defaultdict(int)
    exclusive_us: dict[int, int] = defaultdict(int)
    inclusive_us: dict[int, int] = defaultdict(int)
    for path, runtime_us in calls:
        count[path[-1]] += 1
        exclusive_us[path[-1]] += runtime_us
        # TAU's rule: what a call within another one of the same function takes is in that one's already.
        inclusive_us[path[-1]] += 0 if path[-1] in path[:-1] else runtime_us
    timers = rank_timers(2, 7, path_rows(calls), most)
    assert set(timers["program"].tolist()) == {2} and set(timers["rank"].tolist()) == {7}
    own = timers[timers["function"] != OTHERS]
    assert len(own) == min(most, len(count)) and len(timers) <= len(own) + 1
    for _, _, function, called, inclusive, exclusive in own.tolist():
        assert (called, inclusive, exclusive) == (
            count[function],
            inclusive_us[function],
            exclusive_us[function],
        )
    least = min(own["exclusive_us"])
    assert all(exclusive_us[function] <= least for function in count.keys() - set(own["function"].tolist()))
    assert timers["calls"].sum() == len(calls)
    assert timers["exclusive_us"].sum() == sum(runtime_us for _, runtime_us in calls)


def test_calls_on_no_path_are_those_of_others() -> None:
    table = PathTable(most=4)
    table.add(path_rows([((0,), 1), ((1,), 2), ((2,), 4), ((3,), 8), ((0, 3), 16)]))
    timers = {row[2]: row[3:] for row in rank_timers(0, 0, table.rows).tolist()}
    assert timers[OTHERS] == (2, 0.0, pytest.approx(24.0))
    assert timers[2] == (1, 4.0, 4.0)
