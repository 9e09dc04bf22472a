"""What the server knows for others: a rank that is slow all the time, messages, counters, the agents."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from chimbuko.capture.trace.writer import StreamWriter
from chimbuko.core.traceschema import EventType, StreamNames
from chimbuko.runtime.runs.directory import RunDirectory
from tests.integration.conftest import Run, Start

RANKS = 4
SLOW_RANK = 2
SLOWER_BY = 1.1
STEPS = 60
"""Of a second: six windows."""
ROUNDS = 50
"""Per step."""
FUNCTIONS = {0: "iterate", 1: "solve", 2: "MPI_Send()", 3: "norm"}
MESSAGE_BYTES = 8
COUNTER = "residual"


def write_stream(folder: Path, rank: int) -> None:
    """One rank, whose calls vary by a tenth; each round it sends a message and counts something."""
    random = np.random.default_rng(rank)
    slow = SLOWER_BY if rank == SLOW_RANK else 1.0
    means_us = {1: 9000.0 * slow, 2: 100.0, 3: 3000.0 * slow}
    names = StreamNames(timers=FUNCTIONS, counters={0: COUNTER}, program="plate")
    with StreamWriter(folder / f"tau-metrics-plate-{rank}.bp", "BP4") as writer:
        for step in range(STEPS):
            events: list[list[int]] = []
            comms, counters = [], []
            time = 1_000_000 * (step + 1)
            for _ in range(ROUNDS):
                events.append([0, rank, 0, 0, 0, time])
                for timer, mean_us in means_us.items():
                    runtime_us = int(mean_us * random.normal(1.0, 0.1))
                    events += [[0, rank, 0, 0, timer, time], [0, rank, 0, 1, timer, time + runtime_us]]
                    if timer == 2:
                        partner = (rank + 1) % RANKS
                        comms.append([0, rank, 0, EventType.SEND, 7, partner, MESSAGE_BYTES, time + 5])
                        counters.append([0, rank, 0, 0, 5 + rank, time + 5])
                    time += runtime_us + 1
                events.append([0, rank, 0, 1, 0, time])
            writer.write_step(
                np.array(events, np.uint64), np.array(comms, np.uint64), np.array(counters, np.uint64), names
            )


@pytest.fixture(scope="module")
def traces(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("plate")
    for rank in range(RANKS):
        write_stream(folder, rank)
    return folder


def report_of(run: Run) -> dict[str, Any]:
    """What a run leaves, when it has ended."""
    assert run.end() == 0, run.output
    report: dict[str, Any] = json.loads(RunDirectory(run.folder).read_report())
    return report


@pytest.mark.thorough
def test_a_rank_that_is_slow_all_the_time_is_reported(traces: Path, start: Start) -> None:
    run = start("--trace", traces / "*.bp")
    report = report_of(run)
    assert {(one["program"], one["rank"]) for one in report["slow_ranks"]} == {(0, SLOW_RANK)}
    [whole] = [one for one in report["slow_ranks"] if not one["function"]]
    assert whole["ratio"] == pytest.approx(SLOWER_BY, abs=0.02)
    spent_us = STEPS * ROUNDS * 12_000.0
    assert whole["lost_us"] == pytest.approx((SLOWER_BY - 1.0) * spent_us, rel=0.2)
    assert f"0:{SLOW_RANK} on" in run.output


def test_several_agents_report_messages_counters_and_functions(traces: Path, start: Start) -> None:
    report = report_of(start("--trace", traces / "*.bp", "--agents", "3"))
    rounds = STEPS * ROUNDS
    assert Counter((one["source"], one["destination"]) for one in report["messages"]) == Counter(
        (rank, (rank + 1) % RANKS) for rank in range(RANKS)
    )
    assert {(one["count"], one["bytes"]) for one in report["messages"]} == {(rounds, MESSAGE_BYTES * rounds)}
    [counter] = report["counter_stats"]
    assert (counter["counter"], counter["ranks"]) == (COUNTER, RANKS)
    assert counter["stats"]["count"] == RANKS * rounds
    assert counter["stats"]["mean"] == pytest.approx(6.5)
    # The first call of a function teaches nothing.
    calls = {
        one["fname"]: one["runtime_profile"]["exclusive_runtime"]["count"] for one in report["func_stats"]
    }
    assert calls == dict.fromkeys(FUNCTIONS.values(), RANKS * (rounds - 1))
    anomalies = sum(one["anomaly_metrics"]["anomaly_count"] for one in report["anomaly_metrics"])
    assert anomalies == sum(one["stats"]["accumulate"] for one in report["anomaly_stats"])
    streams = report["analysis"]["streams"]
    assert [stream["state"] for stream in streams] == ["ended"] * RANKS
    agents = report["analysis"]["agents"].values()
    assert len(agents) == 3
    assert all(agent["pss_bytes"] > 20_000_000 and agent["cpu_s"] > 0 for agent in agents)
