"""A trace that TAU recorded of four MPI ranks, with 41 delays of which the program itself kept a list."""

from __future__ import annotations

from pathlib import Path

import pytest

from chimbuko.ad.calls.stacks import CallStacks
from chimbuko.ad.kernels.stack import NONE
from chimbuko.capture.trace.discovery import StreamName, find_recorded
from chimbuko.capture.trace.reader import StreamReader
from chimbuko.core.config import AnalysisConfig
from chimbuko.core.traceschema import TraceStep
from evaluation.cluster import Cluster
from evaluation.recorded import analyse

CALLS = 141_202
MESSAGES = 27_738
TOLERANCE_US = 2000


@pytest.fixture(scope="module")
def streams(real_traces: Path) -> list[StreamName]:
    return find_recorded([str(real_traces / "heat4" / "*.bp")])


@pytest.fixture(scope="module")
def run(streams: list[StreamName]) -> Cluster:
    return analyse(streams, AnalysisConfig(), agents=1)


def test_all_rows_make_calls_that_close_and_messages_of_mpi_calls(streams: list[StreamName]) -> None:
    calls, messages = 0, 0
    for stream in streams:
        stacks = CallStacks(stream.rank)
        with StreamReader(stream.path, "BPFile") as reader:
            while isinstance(step := reader.next_step(1.0), TraceStep):
                stacks.build(step, reader.names)
                calls += int((stacks.calls["exit"][: stacks.count] > 0).sum())
                messages += len(step.comms)
                assert (stacks.message_calls != NONE).all()
                functions = stacks.calls["function"][stacks.message_calls]
                assert all(reader.names.timers[timer].startswith("MPI_") for timer in set(functions.tolist()))
        assert stacks.lost() == {}
        assert (stacks.threads["top"][: stacks.thread_count] == NONE).all()
        assert stacks.gap_steps == 0
    assert calls == CALLS
    assert messages == MESSAGES


def test_rows_and_calls_are_accounted_for(run: Cluster) -> None:
    health = [stream.analysis.health("ended") for stream in run.streams]
    assert [one.rows for one in health] == [stream.rows for stream in run.streams]
    assert sum(one.calls for one in health) == CALLS
    assert all(one.losses == {} for one in health)
    assert sum(one.anomalies for one in health) == len(run.anomalies())
    assert all(record.is_final for record in run.records())


def delays(folder: Path) -> list[tuple[int, str, int, int]]:
    """Rank, function, start and end."""
    lines = [
        line.split() for path in sorted(folder.glob("truth.*")) for line in path.read_text().splitlines()
    ]
    return [(int(line[0]), line[2], int(line[3]), int(line[4])) for line in lines]


FOUND_AND_FLAGS = {"robust": (36, 220), "sstd": (32, 229), "hbos": (38, 250), "copod": (37, 260)}
"""Delays that are found at least, of 41, and calls that are flagged at most."""


@pytest.mark.parametrize("detector", FOUND_AND_FLAGS)
def test_most_delays_are_found_with_few_other_flags(
    detector: str, run: Cluster, streams: list[StreamName], real_traces: Path
) -> None:
    is_default = detector == AnalysisConfig().detector
    one = run if is_default else analyse(streams, AnalysisConfig(detector=detector), agents=1)
    anomalies = one.anomalies()
    injected = delays(real_traces / "heat4")
    assert len(injected) == 41
    found = [
        delay
        for delay in injected
        if any(
            (record.rank, record.function.split(" ")[0]) == delay[:2]
            and record.entry_us <= delay[2] + TOLERANCE_US
            and record.exit_us >= delay[3] - TOLERANCE_US
            for record in anomalies
        )
    ]
    least_found, most_flags = FOUND_AND_FLAGS[detector]
    assert len(found) >= least_found
    assert len(anomalies) <= most_flags


@pytest.mark.parametrize("agents", [2, 4])
def test_flags_do_not_depend_on_the_number_of_agents(
    run: Cluster, streams: list[StreamName], agents: int
) -> None:
    divided = analyse(streams, AnalysisConfig(), agents)
    assert {record.id for record in divided.anomalies()} == {record.id for record in run.anomalies()}
    assert {record.id for record in divided.records()} == {record.id for record in run.records()}
    one, other = run.server.whole(), divided.server.whole()
    assert {(name.program, name.name) for name in one.names} == {(n.program, n.name) for n in other.names}
