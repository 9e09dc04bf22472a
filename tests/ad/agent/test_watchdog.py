"""What the agent reports of a rank that hangs, and what becomes of it when that goes on."""

from __future__ import annotations

from pathlib import Path

import msgspec
import numpy as np
import pytest

from chimbuko.ad.agent.watchdog import HangWatchdog
from chimbuko.ad.analysis.streamanalysis import StreamAnalysis, StreamIdentity
from chimbuko.ad.detectors import make_detector
from chimbuko.ad.handoff.exchange import Cell, Phase
from chimbuko.ad.handoff.namesfile import NamesFile
from chimbuko.ad.handoff.notifiers import AgentNotifier
from chimbuko.ad.handoff.opencalls import OpenCallsFile
from chimbuko.ad.streams.streamhandle import StreamHandle
from chimbuko.capture.trace.discovery import StreamName, Transport
from chimbuko.core.calls.record import CallRecord, Silence, StreamHealth
from chimbuko.core.calls.recordarrays import unpack
from chimbuko.core.calls.schema import Label
from chimbuko.core.config import AnalysisConfig
from chimbuko.core.traceschema import StreamNames, TraceStep
from chimbuko.pserver.state.serverstate import ServerState
from chimbuko.runtime.protocol.messages import RecordBatch
from tests.pserver.agents import Agent, Broker

RANK = 3
START_US = 1_000_000_000
PERIOD_US = 1_000_000
MAIN, STEP, RELAX = 0, 1, 2
CALLS = 50
RELAX_US = 900
TAU = {(RANK, 0, "TAU Version"): "2.35"}


def names(**more: object) -> StreamNames:
    return StreamNames(timers={MAIN: "main", STEP: "step", RELAX: "relax [{a.c} {3,0}]"}, **more)


def ordinary() -> list[tuple[int, int, int]]:
    """``main`` and calls of ``step`` with one of ``relax`` in each, and then one that does not end."""
    rows = [(0, MAIN, START_US)]
    for call in range(CALLS):
        at = START_US + 1000 * call
        rows += [(0, STEP, at), (0, RELAX, at + 10), (1, RELAX, at + 10 + RELAX_US), (1, STEP, at + 990)]
    at = START_US + 1000 * CALLS
    return [*rows, (0, STEP, at), (0, RELAX, at + 10)]


class Rank:
    """A stream with the agent's end of it, and in place of its process the same parts in this one."""

    def __init__(
        self,
        folder: Path,
        config: AnalysisConfig,
        metadata: dict[tuple[int, int, str], str],
        number: int = RANK,
    ) -> None:
        self.number = number
        schema = make_detector(config).schema
        self.names = names(metadata=metadata)
        self.stream = StreamHandle(
            StreamName("app", number, folder / "app.bp"),
            Transport.SST,
            0,
            "node1",
            folder / "stream",
            config,
            schema,
        )
        self.stream.pid = 1
        self.agent = Agent("agent-0", 1, schema)
        self.broker = Broker()
        self.watch = HangWatchdog(
            "agent-0", folder / "reports", [self.stream], self.agent.statistics, AgentNotifier(), config
        )
        self.analysis = StreamAnalysis(StreamIdentity(0, number, "node1"), config)
        spec = self.stream.next_attempt()
        self.open_calls = OpenCallsFile(Path(spec.open_calls))
        NamesFile(Path(spec.names)).save(self.names)
        self.stream.box[Cell.NAMES_VERSION] += 1
        self.server = ServerState(schema=schema)
        self.steps = 0

    def step(self, *rows: tuple[int, int, int]) -> list[CallRecord]:
        """As its process does it; rows are (kind, timer, time). The server learns at once."""
        self.stream.box[Cell.HEARTBEAT] += 1
        events = np.array([(0, self.number, 0, *row) for row in rows], np.uint64)
        step = TraceStep(self.steps, events, np.empty((0, 8), np.uint64), np.empty((0, 6), np.uint64))
        self.steps += 1
        self.analysis.expect(self.open_calls.new_reports())
        result = self.analysis.analyse(step, self.names)
        self.open_calls.publish(self.analysis.stacks, result.count)
        self.stream.box[Cell.PHASE] = Phase.IDLE
        self.stream.rhythm.note(self.stream.open_calls.steps, 0.0)
        self.agent.learn(0, self.names.timers, self.analysis.hand_out(0).learned)
        delta = self.agent.next_delta()
        if delta is not None:
            self.server.apply(delta)
            published = self.broker.publish(self.server)
            if published is not None:
                self.agent.take(published, self.broker)
        return unpack(result.records, self.analysis.health("reading"), "robust")

    def wait(self, seconds: float) -> list[CallRecord]:
        """No step for so long; what the agent reports then."""
        self.stream.rhythm.note(self.stream.open_calls.steps, seconds)
        self.watch.look(self.stream)
        return self.reports()

    def reports(self) -> list[CallRecord]:
        batches = [
            msgspec.msgpack.decode(frame, type=RecordBatch) for _, frame in self.watch.delivery.take(1 << 20)
        ]
        assert not any(batch.is_from_stream for batch in batches)
        return [record for batch in batches for record in unpack(batch.records, batch.health, "robust")]


@pytest.fixture
def rank(tmp_path: Path) -> Rank:
    return Rank(tmp_path, AnalysisConfig(period_us=PERIOD_US), {})


def hang(rank: Rank) -> CallRecord:
    rank.step(*ordinary())
    assert rank.wait(4.9) == []
    (record,) = rank.wait(0.2)
    return record


def test_hung_call_is_reported_with_its_callers_and_what_it_lost(rank: Rank) -> None:
    record = hang(rank)
    assert (record.program, record.rank, record.node, record.thread) == (0, RANK, "node1", 0)
    assert record.function == "relax [{a.c} {3,0}]"
    assert (record.label, record.revision, record.is_final) == (Label.ANOMALY, 0, False)
    assert (record.exit_us, record.entry_us) == (0, START_US + 1000 * CALLS + 10)
    assert record.inclusive_us == record.exclusive_us == pytest.approx(5.1e6, rel=1e-3)
    assert record.expected_us == pytest.approx(RELAX_US)
    assert record.severity_us == pytest.approx(5.1e6 - RELAX_US, rel=1e-3)
    assert record.score >= AnalysisConfig().usual_threshold
    assert record.seen >= CALLS - 1
    assert [frame.function.split()[0] for frame in record.call_stack] == ["relax", "step", "main"]
    assert record.call_stack[0].id == record.id
    assert [(call.id, call.exit_us) for call in record.window] == [(record.id, 0)]
    assert record.window[0].parent_id == record.call_stack[1].id


def test_reported_again_when_twice_as_long(rank: Rank) -> None:
    first = hang(rank)
    assert rank.wait(5.0) == []
    (second,) = rank.wait(0.2)
    assert (second.id, second.revision) == (first.id, 0)
    assert second.severity_us > first.severity_us
    assert rank.wait(10.0) == []
    assert len(rank.wait(0.5)) == 1


def test_end_of_a_reported_call_is_recorded_though_its_own_time_is_short(rank: Rank) -> None:
    """Most of it went into a call of whose beginning was not heard before."""
    reported = hang(rank)
    entry_us = reported.entry_us
    long_us = 20_000_000
    records = rank.step(
        (0, STEP, entry_us + 5), (1, STEP, entry_us + long_us), (1, RELAX, entry_us + long_us + 10)
    )
    (ended,) = [record for record in records if record.id == reported.id]
    assert (ended.label, ended.revision) == (Label.ANOMALY, 1)
    assert ended.inclusive_us == long_us + 10
    assert ended.exclusive_us == 15
    assert ended.severity_us == pytest.approx(long_us, rel=1e-3)
    assert rank.wait(0.1) == []


def test_call_that_had_ended_in_time_after_all_becomes_a_normal_one(rank: Rank) -> None:
    """The tracer could not tell: the hanging thread held Python's lock, for example."""
    reported = hang(rank)
    records = rank.step((1, RELAX, reported.entry_us + RELAX_US))
    (ended,) = [record for record in records if record.id == reported.id]
    assert (ended.label, ended.revision, ended.score) == (Label.NORMAL, 1, 0.0)


def test_reported_call_that_was_open_across_a_gap_is_none_any_more(rank: Rank) -> None:
    """Its end may lie in the gap: as a call that never ended it would cost all the time until the end."""
    reported = hang(rank)
    rank.steps += 3
    later_us = reported.entry_us + 30_000_000
    records = rank.step((0, STEP, later_us), (1, STEP, later_us + 990))
    (withdrawn,) = [record for record in records if record.id == reported.id]
    assert (withdrawn.label, withdrawn.exit_us, withdrawn.score) == (Label.NORMAL, 0, 0.0)
    assert withdrawn.severity_us <= 0.0
    assert withdrawn.inclusive_us > reported.inclusive_us, "so it takes the place of the report"
    assert [one for one in rank.step((1, RELAX, later_us + 2_000)) if one.id == reported.id] == []
    assert rank.wait(60.0) == []


def test_call_inside_that_hangs_without_a_history_is_shown_inside_its_caller(rank: Rank) -> None:
    rank.names.timers[9] = "write_checkpoint"
    rows = ordinary()
    rank.step(*rows, (0, 9, rows[-1][2] + 1))
    (record,) = rank.wait(6.0)
    assert record.function.startswith("relax")
    assert [call.function for call in record.window][1:] == ["timer 9 (name not received)"]
    assert record.exclusive_us == pytest.approx(1.0)


def test_process_at_work_is_no_hang(rank: Rank) -> None:
    rank.step(*ordinary())
    rank.stream.box[Cell.PHASE] = Phase.READING
    assert rank.wait(60.0) == []
    assert rank.stream.silence is None


def test_functions_to_ignore_are_not_reported(tmp_path: Path) -> None:
    rank = Rank(tmp_path, AnalysisConfig(period_us=PERIOD_US, ignore=("relax*", "step")), {})
    rank.step(*ordinary())
    assert rank.wait(60.0) == []


def test_silent_rank_says_what_it_is_in(rank: Rank) -> None:
    rank.step(*ordinary())
    newest_us = START_US + 1000 * CALLS + 10
    rank.wait(4.9)
    assert rank.stream.silence is None
    rank.wait(0.2)
    stack = ["main", "step", "relax [{a.c} {3,0}]"]
    assert rank.stream.silence == Silence(newest_us, stack[-1], newest_us, stack)
    ended = StreamHealth(0, 0, "n1", "broken", 9, 0, 0, 0, 0, 0, {}, open_calls=2)
    assert rank.stream.last_health(ended).silence == rank.stream.silence
    late = msgspec.structs.replace(ended, state="reading", calls=7)
    assert rank.stream.last_health(late).silence is None
    assert rank.stream.last_health(msgspec.structs.replace(ended, calls=7)).silence is not None
    for other in ({"calls": 1}, {"open_calls": 0}, {"state": "reading"}):
        assert rank.stream.last_health(msgspec.structs.replace(ended, **other)).silence is None
    rank.step((1, RELAX, newest_us + 5_200_000))
    rank.watch.tick()
    assert rank.stream.silence is None


def test_under_tau_a_silent_rank_is_no_proof_that_a_short_call_is_still_open(tmp_path: Path) -> None:
    rank = Rank(tmp_path, AnalysisConfig(period_us=PERIOD_US), TAU)
    rank.step(*ordinary())
    assert rank.wait(600.0) == []
    assert rank.stream.silence is not None


def test_recorded_stream_that_broke_off_is_held_against_the_others(tmp_path: Path) -> None:
    config = AnalysisConfig(period_us=PERIOD_US)
    rank = Rank(tmp_path, config, {})
    rank.step(*ordinary())
    other = Rank(tmp_path / "other", config, {}, number=RANK + 1)
    other.step((0, MAIN, START_US), (0, STEP, START_US + 40_000_000))
    both = [rank.stream, other.stream]
    watch = HangWatchdog(
        "agent-0", tmp_path / "reports of both", both, rank.agent.statistics, AgentNotifier(), config
    )
    watch.look_back(watch.newest_us)
    ((_, frame),) = watch.delivery.take(1 << 20)
    batch = msgspec.msgpack.decode(frame, type=RecordBatch)
    (record,) = unpack(batch.records, batch.health, "robust")
    assert record.function.startswith("relax")
    assert record.inclusive_us == pytest.approx(40_000_000 - 1000 * CALLS, abs=1000)
    end_us = START_US + 1_000_000
    rank.step((1, RELAX, end_us), (1, STEP, end_us), (1, MAIN, end_us))
    rank.stream.box[Cell.PHASE] = Phase.ENDED
    watch.look_back(watch.newest_us)
    assert watch.delivery.take(1 << 20) == [], "a program that ended is complete"
