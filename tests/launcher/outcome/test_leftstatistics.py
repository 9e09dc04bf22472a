"""What agents have learned and left is merged with what their server knew, once."""

from __future__ import annotations

from pathlib import Path

import msgspec
import numpy as np
import pytest

from chimbuko.ad.analysis.streamstatistics import Learned
from chimbuko.ad.modelsync.agentstatistics import AgentStatistics, StreamShare
from chimbuko.ad.streams.deltalog import LOG_NAME, DeltaLog, Entry
from chimbuko.core.calls.record import StepCount
from chimbuko.core.config import AnalysisConfig
from chimbuko.core.statistics.model import load_model
from chimbuko.core.statistics.moments import Moments
from chimbuko.core.statistics.schema import schema_of
from chimbuko.launcher.outcome.leftstatistics import deliver_statistics, merge_left, with_later
from chimbuko.provenance.query.run import open_run
from chimbuko.provenance.store.engine import close, open_for_writing
from chimbuko.provenance.write.writer import Writer
from chimbuko.pserver.state.savedstate import read_state, write_state
from chimbuko.pserver.state.serverstate import ServerState
from chimbuko.runtime.protocol.messages import Delta, FunctionStatistics
from chimbuko.runtime.runs.directory import RunDirectory, new_run

SCHEMA = schema_of(AnalysisConfig().detector)


def delta(statistics: AgentStatistics, step: int, runtime_us: int) -> Delta:
    """What one step with one call of ``solve`` teaches."""
    table = SCHEMA.empty(1)
    for column in ("exclusive_us", "inclusive_us"):
        table[:, SCHEMA.slices[column]] = Moments.of([runtime_us]).row()
    count = StepCount(0, 3, step, 0, 9, 1, 0, 0.0)
    outgoing = statistics.next_round(
        [StreamShare(0, 3, {0: "solve"}, Learned(np.arange(1), table), [count])], {}
    )
    assert outgoing is not None
    return outgoing.deltas[0]


def end_with(run: RunDirectory, *merged: Delta) -> None:
    """The services have ended, and what an agent has left is not in what they knew."""
    state = ServerState(schema=SCHEMA)
    state.name_programs({0: "app"})
    for one in merged:
        state.apply(one)
    write_state(run.statistics_paths(1)[0], state.save())
    statistics = state.statistics(is_last=True)
    assert statistics is not None
    engine = open_for_writing(run.store_url)
    writer = Writer(engine, run.read_info().id)
    writer.write_run(run.read_info())
    writer.write_statistics(statistics)
    close(engine)


def counted(run: RunDirectory) -> tuple[int, float]:
    """Calls of ``solve`` and their highest runtime, as the store has them; and the model has as many."""
    with open_run(run) as provenance:
        (function,) = provenance.function_statistics()
    model = load_model(run.model_path, run.read_info().config)
    assert model.functions == [("app", "solve")] and model.table[0, 0] == function.calls
    return function.calls, function.exclusive_maximum_us


def leave_deltas(folder: Path, *deltas: Delta) -> None:
    """An agent leaves these in the folder of its node."""
    place = folder / deltas[0].agent
    place.mkdir(parents=True)
    log = DeltaLog(place / LOG_NAME)
    log.write([Entry(one.incarnation, one.sequence, {0: one}, {}) for one in deltas])
    log.close()


@pytest.mark.parametrize("merged", [0, 1, 2, 3])
def test_a_server_that_goes_on_has_each_delta_once(tmp_path: Path, merged: int) -> None:
    """Whichever of them it had merged, and nothing at all."""
    run = new_run(tmp_path / "heat", ["./app"], AnalysisConfig(), None)
    info, path = run.read_info(), tmp_path / "state"
    statistics = AgentStatistics("agent", 7, SCHEMA)
    deltas = [delta(statistics, step, 10 * step) for step in range(1, 4)]
    known = ServerState(schema=SCHEMA)
    for one in deltas[:merged]:
        known.apply(one)
    if merged:
        write_state(path, known.save())
    leave_deltas(tmp_path / "rescued", *deltas)
    for _ in range(2):
        merge_left(tmp_path / "rescued", info, [path])
        saved = read_state(path)
        assert saved is not None
        state = ServerState(schema=SCHEMA)
        state.restore(saved)
        assert [function.calls for function in state.snapshot().functions] == [3]
        # From the agent itself they come too late.
        assert not any(state.apply(one) for one in deltas)


def test_each_part_of_a_server_gets_what_is_its_own(tmp_path: Path) -> None:
    """While a run goes on again, and when it is over."""
    run = new_run(tmp_path / "heat", ["./app"], AnalysisConfig(server_parts=3), None)
    info, statistics = run.read_info(), AgentStatistics("agent", 7, SCHEMA, 3)
    functions = [f"f{number}" for number in range(8)]
    table = SCHEMA.empty(len(functions))
    for column in ("exclusive_us", "inclusive_us"):
        table[:, SCHEMA.slices[column]] = Moments.of([10]).row()
    rounds = []
    for step in range(2):
        steps = [StepCount(0, 3, step, 0, 9, len(functions), 0, 0.0)]
        learned = Learned(np.arange(len(functions)), table)
        made = statistics.next_round([StreamShare(0, 3, dict(enumerate(functions)), learned, steps)], {})
        assert made is not None and len(made.deltas) == 3
        rounds.append(Entry(7, made.round, made.deltas, {}))
    place = tmp_path / "rescued" / "agent"
    place.mkdir(parents=True)
    run.programs_path.write_bytes(msgspec.json.encode({"app": 0}))
    engine = open_for_writing(run.store_url)
    Writer(engine, info.id).write_run(info)
    close(engine)
    for count in (1, 2):
        log = DeltaLog(place / LOG_NAME)
        log.read()
        log.write(rounds[:count])
        log.close()
        if count == 1:
            merge_left(tmp_path / "rescued", info, run.statistics_paths(3))
            continue
        for _ in range(2):
            assert deliver_statistics(run, info, tmp_path / "rescued")
            model = load_model(run.model_path, info.config)
            assert model.functions == [("app", name) for name in functions]
            assert set(model.table[:, 0]) == {2}
            with open_run(run) as provenance:
                stored = {one.name: one.calls for one in provenance.function_statistics()}
            assert stored == dict.fromkeys(functions, 2)
            report = msgspec.json.decode(run.read_report())
            assert sorted(one["fname"] for one in report["func_stats"]) == functions
            assert [rank["stats"]["count"] for rank in report["anomaly_stats"]] == [2]


@pytest.mark.parametrize(
    ("stored", "expected"),
    [
        (None, (30, 3)),
        # As it was when the server ended; judged again since then.
        ((20, 2), (30, 3)),
        ((20, 9), (30, 10)),
        # Merged before, and judged again since then.
        ((30, 3), (30, 3)),
        ((30, 10), (30, 10)),
        # Of a server that was killed, the store is behind what it had saved.
        ((15, 1), (30, 3)),
    ],
)
def test_calls_that_were_judged_again_stay_so(
    stored: tuple[int, int] | None, expected: tuple[int, int]
) -> None:
    def row(calls: int, anomalies: int) -> FunctionStatistics:
        return FunctionStatistics(0, "solve", calls, anomalies, 5.0 * anomalies, 1.0, 0.0, 1.0, 1.0, 1.0, 1.0)

    found = with_later(None if stored is None else row(*stored), row(20, 2), row(30, 3))
    assert found == msgspec.structs.replace(row(*expected), severity_us=5.0 * expected[1])
