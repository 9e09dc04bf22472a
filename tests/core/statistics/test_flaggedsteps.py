"""Flagged calls per step: what streams, agents and the server make of them is what the definition says."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chimbuko.ad.analysis.streamstatistics import FlaggedSteps, Learned
from chimbuko.ad.analysis.streamtelemetry import StreamTelemetry
from chimbuko.ad.modelsync.agentstatistics import AgentStatistics, StreamShare
from chimbuko.core.statistics.flaggedsteps import empty, merged, moments_per_step
from chimbuko.core.statistics.moments import Moments
from chimbuko.core.statistics.schema import PROFILE
from chimbuko.pserver.state.serverstate import ServerState
from chimbuko.runtime.protocol.messages import FunctionStatistics
from chimbuko.runtime.protocol.telemetry import PACE, TRAFFIC

TIMERS = {2: "f", 5: "g", 9: "h"}
steps_of_streams = st.lists(
    st.lists(st.lists(st.sampled_from(sorted(TIMERS)), max_size=6), max_size=8), min_size=1, max_size=5
)
"""By stream and step: the timers of its flagged calls."""


def per_step(streams: list[list[list[int]]], timer: int) -> list[int]:
    return [Counter(step)[timer] for steps in streams for step in steps]


def delivered(steps: list[list[int]], taken: list[bool]) -> list[StreamTelemetry]:
    """What an agent takes of a stream, which hands out after each step."""
    stream, generation, found = FlaggedSteps(), 0, []
    for step, is_taken in zip(steps, taken, strict=True):
        stream.note(np.array(step, np.int64))
        rows = stream.not_taken(generation)
        if is_taken:
            found.append(rows)
            generation += 1
    found.append(stream.not_taken(generation))
    return [StreamTelemetry(np.empty(0, TRAFFIC), np.empty(0, PACE), rows) for rows in found]


def learned(telemetry: StreamTelemetry) -> Learned:
    """The same flagged calls as the statistics of functions count them."""
    rows = telemetry.flagged_steps
    table = PROFILE.empty(len(rows))
    table[:, PROFILE.slices["exclusive_us"]] = Moments.of([1.0]).row()
    table[:, PROFILE.slices["inclusive_us"]] = Moments.of([1.0]).row()
    return Learned(rows["function"].astype(np.int64), table)


@settings(deadline=None)
@given(streams=steps_of_streams, data=st.data())
def test_any_number_of_agents_gives_the_moments_of_all_steps(
    streams: list[list[list[int]]], data: st.DataObject
) -> None:
    server = ServerState()
    agents = [AgentStatistics(f"agent {n}", 1, PROFILE) for n in range(data.draw(st.integers(1, 3)))]
    parts: list[list[StreamShare]] = [[] for _ in agents]
    for rank, steps in enumerate(streams):
        taken = data.draw(st.lists(st.booleans(), min_size=len(steps), max_size=len(steps)))
        for telemetry in delivered(steps, taken):
            parts[rank % len(agents)].append(StreamShare(0, rank, TIMERS, learned(telemetry), (), telemetry))
    for agent, some in zip(agents, parts, strict=True):
        while some:
            now, some = some[:2], some[2:]
            outgoing = agent.next_round(now, {})
            if outgoing is not None:
                assert server.apply(outgoing.deltas[0])
    restored = ServerState()
    restored.restore(server.save())
    for state in (server, restored):
        frame = state.frame(is_last=True)
        assert frame is not None
        found = {function.name: function for function in frame.functions}
        for timer, name in TIMERS.items():
            counts = per_step(streams, timer)
            assert (name in found) == any(counts)
            if any(counts):
                check(found[name], counts)


def check(found: FunctionStatistics, counts: list[int]) -> None:
    powers = sum(counts), int(found.flagged_squares), int(found.flagged_cubes), int(found.flagged_fourths)
    fewest, most = found.fewest_flagged, found.most_flagged
    mine = moments_per_step(len(counts), found.flagged_steps, powers, fewest, most)
    twin = Moments.of(counts)
    assert (mine.n, mine.minimum, mine.maximum) == (twin.n, twin.minimum, twin.maximum)
    for name in ("total", "mean", "stddev", "skewness", "kurtosis"):
        assert getattr(mine, name) == pytest.approx(getattr(twin, name), abs=1e-9), name


def test_nothing_adds_nothing() -> None:
    steps = FlaggedSteps()
    steps.note(np.array([4, 4, 7]))
    rows = steps.not_taken(0)
    assert (
        merged(rows, empty(0)).tolist()
        == rows.tolist()
        == [(4, 1, 4.0, 8.0, 16.0, 2, 2), (7, 1, *[1.0] * 3, 1, 1)]
    )
    assert moments_per_step(0, 0, (0, 0, 0, 0), 0, 0) == Moments()


def test_a_large_mean_hides_no_spread() -> None:
    counts = [1_000_000, 1_000_001] * 500
    powers = tuple(sum(count**power for count in counts) for power in range(1, 5))
    found = moments_per_step(1000, 1000, powers, 1_000_000, 1_000_001)
    assert found.stddev == pytest.approx(0.5 * (1000 / 999) ** 0.5, rel=1e-12)
    assert found.kurtosis == pytest.approx(-2.0, rel=1e-9)
