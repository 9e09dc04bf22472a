"""The exchange between a stream's process and its agent: two real processes over one file."""

from __future__ import annotations

import mmap
import os
import pickle
import signal
import subprocess
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

from chimbuko.ad.analysis.streamanalysis import StreamAnalysis, StreamIdentity
from chimbuko.ad.handoff.exchange import Cell, ExchangeBox
from chimbuko.ad.handoff.outbox import MOST_STEPS
from chimbuko.core.calls.record import StepCount
from chimbuko.core.config import AnalysisConfig
from chimbuko.core.statistics.moments import Moments
from chimbuko.core.statistics.schema import PROFILE
from chimbuko.core.traceschema import StreamNames, TraceStep
from chimbuko.runtime.protocol.messages import NO_EPOCH
from tests.places import ROOT

NAMES = StreamNames(timers={0: "main", 1: "solve"})
NO_COMMS = np.empty((0, 8), np.uint64)
EXCLUSIVE = PROFILE.slices["exclusive_us"]
STEPS = [StepCount(3, 7, number, 10 * number, 10 * number + 9, 5, 1, 2.5) for number in range(5)]


def make_analysis() -> StreamAnalysis:
    return StreamAnalysis(StreamIdentity(0, 0, ""), AnalysisConfig(detector="sstd", min_anomaly_us=0))


def analyse(
    analysis: StreamAnalysis, number: int, calls: int, runtime_us: int = 10, comms: np.ndarray = NO_COMMS
) -> None:
    """``calls`` calls of ``solve``, the first ever of which teaches nothing."""
    start = 1_000_000 * (number + 1)
    rows = []
    for call in range(calls):
        rows.append([0, 0, 0, 0, 1, start + 20 * call])
        rows.append([0, 0, 0, 1, 1, start + 20 * call + runtime_us])
    events = np.array(rows, np.uint64).reshape(-1, 6)
    analysis.analyse(TraceStep(number, events, comms, np.empty((0, 6), np.uint64)), NAMES)


def calls_known(analysis: StreamAnalysis) -> float:
    """Of ``solve``."""
    return float(analysis._detection.statistics.seen(np.array([1]))[0])


@contextmanager
def forked(body: Callable[[], None]) -> Iterator[int]:
    """Run ``body`` in a forked process, as the fork server does; it must end well unless it is killed."""
    pid = os.fork()
    if pid == 0:
        try:
            body()
            os._exit(0)
        except BaseException:
            traceback.print_exc()
            os._exit(1)
    try:
        yield pid
    finally:
        _, status = os.waitpid(pid, 0)
        assert os.waitstatus_to_exitcode(status) in (0, -signal.SIGKILL)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "exchange"


def surely(attempt: Callable[[], object]) -> None:
    """Try until the other end does not hold the lock."""
    while not attempt():
        pass


def test_what_a_stream_learned_arrives_once_and_the_model_comes_back(path: Path) -> None:
    agent = ExchangeBox(path, PROFILE)
    (has_model, give_model), (is_done, say_done) = os.pipe(), os.pipe()

    def stream() -> None:
        box, analysis = ExchangeBox(path, PROFILE), make_analysis()
        for number, calls in enumerate((11, 5)):
            analyse(analysis, number, calls)
            surely(lambda: box.exchange(analysis, []))
        os.write(say_done, b"!")
        os.read(has_model, 1)
        surely(lambda: box.exchange(analysis, []))
        # The model holds these 15 calls and 1000 of others.
        analyse(analysis, 2, 1)
        assert calls_known(analysis) == 15 + 1000 + 1

    gathered = PROFILE.empty(2)
    with forked(stream):
        os.read(is_done, 1)
        taken = agent.take()
        assert taken is not None and taken.learned.table[0, 0] == 15
        PROFILE.merge(gathered, taken.learned.timers, taken.learned.table)
        others = PROFILE.empty(1)
        others[0, EXCLUSIVE] = Moments.of([10] * 1000).row()
        PROFILE.merge(gathered, [1], others)
        assert agent.put_model(7, NO_EPOCH, taken.generation, gathered)
        os.write(give_model, b"!")
    for end in (has_model, give_model, is_done, say_done):
        os.close(end)


def test_deltas_of_one_generation_merge_in_place(path: Path) -> None:
    agent, stream, analysis = ExchangeBox(path, PROFILE), ExchangeBox(path, PROFILE), make_analysis()
    for number in range(3):
        analyse(analysis, number, 10)
        assert stream.exchange(analysis, [])
    taken = agent.take()
    assert taken is not None and taken.generation == 0
    assert taken.learned.timers.tolist() == [1]
    assert Moments.from_row(taken.learned.table[0, EXCLUSIVE]) == Moments.of([10] * 29)
    again = agent.take()
    assert again is not None and again.generation == 1 and len(again.learned.timers) == 0


def test_views_go_with_what_was_learned(path: Path) -> None:
    """A step of a window, in which three messages are sent, then one of the next window, then the end."""
    agent, stream, analysis = ExchangeBox(path, PROFILE), ExchangeBox(path, PROFILE), make_analysis()
    sent = np.array([[0, 0, 0, 2, 7, to, 80, 1_000_010] for to in (1, 1, 2)], np.uint64)
    for number in (0, 10):
        analyse(analysis, number, 11, comms=sent)
        assert stream.exchange(analysis, [])
    analysis.finish()
    assert stream.exchange(analysis, [])
    taken = agent.take()
    assert taken is not None
    assert taken.telemetry.traffic.tolist() == [(0, 0, 1, 4, 320), (0, 0, 2, 2, 160)]
    assert taken.telemetry.paces.tolist() == [(0, 0, 0, 1, 10, 100.0), (0, 0, 1, 1, 11, 110.0)]
    again = agent.take()
    assert again is not None and not again.telemetry


def test_generations_keep_apart_what_the_model_holds(path: Path) -> None:
    """A model that contains generation 0 leaves generation 1 to the stream's own statistics."""
    agent, stream, analysis = ExchangeBox(path, PROFILE), ExchangeBox(path, PROFILE), make_analysis()
    analyse(analysis, 0, 11)
    stream.exchange(analysis, [])
    taken = agent.take()
    assert taken is not None
    analyse(analysis, 1, 4)
    stream.exchange(analysis, [])
    model = PROFILE.empty(2)
    PROFILE.merge(model, taken.learned.timers, taken.learned.table)
    assert agent.put_model(1, 5, taken.generation, model)
    assert stream[Cell.MODEL_EPOCH] == 5
    stream.exchange(analysis, [])
    analyse(analysis, 2, 1)
    assert calls_known(analysis) == 15


def test_rows_that_contain_more_than_others_come_with_what_they_contain(path: Path) -> None:
    agent, stream, analysis = ExchangeBox(path, PROFILE), ExchangeBox(path, PROFILE), make_analysis()
    analyse(analysis, 0, 11)
    stream.exchange(analysis, [])
    taken = agent.take()
    assert taken is not None
    model = PROFILE.empty(2)
    PROFILE.merge(model, taken.learned.timers, taken.learned.table)
    for ahead, known in (
        (np.array([NO_EPOCH, taken.generation]), 10),
        (np.array([taken.generation, NO_EPOCH]), 20),
        (None, 20),
    ):
        other = pickle.loads(pickle.dumps(analysis))
        assert agent.put_model(1, NO_EPOCH, NO_EPOCH, model, ahead)
        stream.take_model(other)
        stream._seen_edition = 0
        assert calls_known(other) == known


def test_nobody_waits_for_a_held_lock(path: Path) -> None:
    agent, analysis = ExchangeBox(path, PROFILE), make_analysis()
    analyse(analysis, 0, 11)
    held, let_go = os.pipe(), os.pipe()

    def holder() -> None:
        other = ExchangeBox(path, PROFILE)
        assert other._try_lock()
        os.write(held[1], b"!")
        os.read(let_go[0], 1)

    with forked(holder):
        os.read(held[0], 1)
        assert agent.take() is None
        assert not agent.put_model(1, 0, 0, PROFILE.empty(1))
        assert not agent.exchange(analysis, [])
        os.write(let_go[1], b"!")
    # The lock went with its holder, and what was refused is still there.
    assert agent.exchange(analysis, [])
    taken = agent.take()
    assert taken is not None and taken.learned.table[0, 0] == 10
    for end in (*held, *let_go):
        os.close(end)


EXCHANGE_UNTIL_KILLED = """
import sys
from pathlib import Path
from chimbuko.ad.handoff.exchange import ExchangeBox
from chimbuko.core.statistics.schema import PROFILE
from tests.ad.handoff.test_exchange import analyse, make_analysis
box, analysis = ExchangeBox(Path(sys.argv[1]), PROFILE), make_analysis()
analyse(analysis, 0, 1)
print("exchanging", flush=True)
number = 0
while True:
    number += 1
    analyse(analysis, number, 50)
    box.exchange(analysis, [])
"""


def test_a_killed_stream_leaves_a_box_that_can_be_emptied_and_used(path: Path) -> None:
    """Killed at no particular moment, while it exchanges as fast as it can."""
    agent = ExchangeBox(path, PROFILE)
    for _ in range(3):
        process = subprocess.Popen(
            [sys.executable, "-c", EXCHANGE_UNTIL_KILLED, str(path)],
            stdout=subprocess.PIPE,
            cwd=ROOT,
        )
        assert process.stdout is not None and process.stdout.readline() == b"exchanging\n"
        calls = 0.0
        while calls < 2000:
            taken = agent.take()
            if taken is None or not len(taken.learned.timers):
                continue
            row = Moments.from_row(taken.learned.table[0, EXCLUSIVE])
            assert (row.n % 50, row.mean, row.m2) == (0, 10.0, 0.0)
            calls += row.n
        process.send_signal(signal.SIGKILL)
        process.wait()
        process.stdout.close()
        left = agent.take()
        assert left is not None
        assert all(Moments.from_row(row[EXCLUSIVE]).m2 == 0.0 for row in left.learned.table)
    assert agent.put_model(9, 0, 0, PROFILE.empty(2))


class Death(Exception):
    """Stands for a kill: nothing of the process goes on, and the kernel frees its lock."""


def die(*_: object) -> None:
    raise Death


@pytest.mark.parametrize(
    "moment",
    [
        "handoff.exchange.ExchangeBox._try_lock",
        "handoff.outbox.OutboxCopy.copy_from",
        "handoff.outbox.OutboxCopy.add",
        "handoff.outbox.TelemetryOutbox.put",
        "handoff.outbox.PathOutbox.put",
        "save",
    ],
)
@pytest.mark.parametrize("is_taken_before", [False, True])
def test_what_was_half_written_was_never_committed_and_what_was_committed_is_all_there(
    path: Path, monkeypatch: pytest.MonkeyPatch, moment: str, is_taken_before: bool
) -> None:
    agent, stream, analysis = ExchangeBox(path, PROFILE), ExchangeBox(path, PROFILE), make_analysis()
    sent = np.array([[0, 0, 0, 2, 7, 1, 80, 1_000_010]], np.uint64)
    analyse(analysis, 0, 11, comms=sent)
    assert stream.exchange(analysis, STEPS[:1])
    taken = agent.take() if is_taken_before else None
    kept = pickle.dumps(analysis)
    analyse(analysis, 10, 3, comms=sent)
    if moment != "save":
        monkeypatch.setattr(f"chimbuko.ad.{moment}", die)
    with pytest.raises(Death):
        stream.exchange(analysis, STEPS[1:2], die if moment == "save" else lambda slot: None)
    monkeypatch.undo()
    stream.close()
    before = agent.look()
    assert before is not None
    assert len(before.steps) == (not is_taken_before)
    assert before.learned.table[:, 0].tolist() == ([] if is_taken_before else [10])
    before.release()
    # A successor on the same box goes on from the last commit.
    successor, analysis = ExchangeBox(path, PROFILE), pickle.loads(kept)
    successor.take_model(analysis)
    analyse(analysis, 10, 3, comms=sent)
    assert successor.exchange(analysis, STEPS[1:2])
    analysis.finish()
    assert successor.exchange(analysis, [])
    parts = [one for one in (taken, agent.take()) if one is not None]
    assert [step.step for part in parts for step in part.steps] == [0, 1]
    assert sum(float(part.learned.table[0, 0]) for part in parts) == 13
    assert sum(int(part.paths["calls"].sum()) for part in parts) == 13
    sends = [row for part in parts for row in part.telemetry.traffic.tolist()]
    assert [sum(row[column] for row in sends) for column in (3, 4)] == [2, 160]
    assert [row[2:] for part in parts for row in part.telemetry.paces.tolist()] == [
        (0, 1, 10, 100.0),
        (1, 1, 3, 30.0),
    ]


def test_the_copy_in_use_is_the_one_that_was_saved_with_its_state(path: Path) -> None:
    agent, stream, analysis = ExchangeBox(path, PROFILE), ExchangeBox(path, PROFILE), make_analysis()
    saved: list[tuple[int, int, float]] = []

    def save(slot: int) -> None:
        # Not before: what is in use meanwhile must stay usable.
        assert slot != stream[Cell.ACTIVE]
        state: StreamAnalysis = pickle.loads(pickle.dumps(analysis))
        saved.append((slot, stream[Cell.GENERATION], calls_known(state)))

    for number in range(6):
        analyse(analysis, number, 11 if number == 0 else 10)
        assert stream.exchange(analysis, STEPS[:1], save)
        assert stream[Cell.ACTIVE] == saved[-1][0]
        if number % 2:
            agent.take()
    assert [slot for slot, _, _ in saved] == [1, 0] * 3
    assert [generation for _, generation, _ in saved] == [0, 0, 1, 1, 2, 2]
    assert [calls for _, _, calls in saved] == [10, 20, 30, 40, 50, 60]


def test_a_model_that_was_half_put_is_none(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    agent, stream, analysis = ExchangeBox(path, PROFILE), ExchangeBox(path, PROFILE), make_analysis()
    analyse(analysis, 0, 11)
    stream.exchange(analysis, [])
    model = PROFILE.empty(2)
    model[1, EXCLUSIVE] = Moments.of([10] * 1000).row()
    assert agent.put_model(3, 4, NO_EPOCH, model)
    # A dead agent leaves the first half of the next one.
    agent[Cell.MODEL_VERSION] = 0
    stream.exchange(analysis, [])
    assert calls_known(analysis) == 10
    assert agent.put_model(4, 4, NO_EPOCH, model)
    stream.exchange(analysis, [])
    assert calls_known(analysis) == 10 + 1000


def test_only_pages_in_use_take_disk_and_memory(path: Path) -> None:
    box = ExchangeBox(path, PROFILE)
    analysis = make_analysis()
    analyse(analysis, 0, 11)
    box.exchange(analysis, [])
    assert path.stat().st_size > 30 << 20
    assert path.stat().st_blocks * 512 <= 16 * mmap.PAGESIZE


def test_steps_come_with_what_was_learned_in_them(path: Path) -> None:
    agent, stream = (ExchangeBox(path, PROFILE, program=3, rank=7) for _ in range(2))
    analysis = make_analysis()
    assert stream.exchange(analysis, STEPS[:2])
    assert stream.exchange(analysis, STEPS[2:3])
    taken = agent.take()
    assert taken is not None and taken.steps == STEPS[:3]
    assert stream.exchange(analysis, STEPS[3:])
    taken = agent.take()
    assert taken is not None and taken.steps == STEPS[3:]


def test_a_full_outbox_leaves_all_with_the_stream(path: Path) -> None:
    agent, stream, analysis = ExchangeBox(path, PROFILE), ExchangeBox(path, PROFILE), make_analysis()
    assert stream.exchange(analysis, STEPS[:1] * MOST_STEPS)
    analyse(analysis, 0, 11)
    assert not stream.exchange(analysis, STEPS[:1])
    taken = agent.take()
    assert taken is not None and len(taken.steps) == MOST_STEPS and not len(taken.learned.timers)
    assert stream.exchange(analysis, STEPS[:1])
    taken = agent.take()
    assert taken is not None and taken.learned.table[0, 0] == 10


def test_what_is_held_back_stays_but_its_flagged_calls_and_steps_go(path: Path) -> None:
    agent, stream, analysis = ExchangeBox(path, PROFILE), ExchangeBox(path, PROFILE), make_analysis()
    anomalies = PROFILE.slices["anomalies"].start
    analyse(analysis, 0, 11)
    analysis._detection.statistics.note_anomalies(np.array([1]), np.array([5.0]), np.array([6.0]))
    assert stream.exchange(analysis, STEPS[:1])
    for _ in range(2):
        # Done twice, as by an agent that died in the middle and its successor.
        outbox = agent.look()
        assert outbox is not None
        outbox.remove(np.array([False]), has_paths=False)
        outbox.release()
    left = agent.look()
    assert left is not None and left.steps == []
    assert (left.learned.table[0, 0], left.learned.table[0, anomalies]) == (10, 0)
    left.release()
    analyse(analysis, 1, 3)
    assert stream.exchange(analysis, STEPS[1:2])
    taken = agent.take()
    assert taken is not None and taken.learned.table[0, 0] == 13
