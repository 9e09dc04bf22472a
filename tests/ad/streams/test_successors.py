"""Processes of a followed stream, killed at every moment: all that comes out is that of one undisturbed."""

from __future__ import annotations

import os
import random
import shutil
import signal
import time
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from chimbuko.ad.handoff.exchange import Cell, ExchangeBox, Phase
from chimbuko.ad.handoff.notifiers import AgentNotifier, MappedSemaphore
from chimbuko.ad.handoff.outbox import OutboxCopy
from chimbuko.ad.handoff.processspecs import StreamProcessSpec
from chimbuko.ad.handoff.spool import SpoolWriter
from chimbuko.ad.streams import commits
from chimbuko.ad.streams import process as child
from chimbuko.ad.streams.process import StreamProcess
from chimbuko.ad.streams.streamcheckpoint import Checkpoint, CheckpointFiles
from chimbuko.capture.follow import holes
from chimbuko.capture.follow.followedstream import FollowedStream
from chimbuko.capture.follow.holes import GUARD, FirstStep
from chimbuko.capture.follow.instances import aside_of
from chimbuko.capture.trace.source import Waiting
from chimbuko.capture.trace.writer import StreamWriter
from chimbuko.core.traceschema import LOST_STEPS, TraceStep
from chimbuko.runtime.process.signals import END
from tests.ad.followed import (
    CONFIG,
    Agent,
    MadeStream,
    Outcome,
    assert_same,
    made_stream,
    spec_of,
    write_step,
    write_whole,
)
from tests.capture.follow.test_reader import drop_before
from tests.capture.trace import whole_streams
from tests.patience import PATIENCE_S
from tests.thorough import first

STEPS = 24
MOST_KILLS = 12
DIED = 3
LOCKSTEP = msgspec.structs.replace(CONFIG, lockstep=True, period_us=20_000)


class Death(Exception):
    """Stands for SIGKILL: nothing of the process goes on."""


@pytest.fixture(scope="module")
def made() -> MadeStream:
    return made_stream(STEPS)


@pytest.fixture(autouse=True)
def own_signals() -> Iterator[None]:
    before = {number: signal.getsignal(number) for number in (END, signal.SIGCONT)}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.fixture
def commits_each_step(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(commits, "COMMIT_PERIOD_S", 0.0)
    monkeypatch.setattr(commits, "COMMIT_SHARE", 1e9)
    monkeypatch.setattr(commits, "PROMPT_STEPS", STEPS)


def at_agents_pace(monkeypatch: pytest.MonkeyPatch, agent: Agent) -> None:
    """Whenever a process of the stream waits for its agent, that has its turn."""
    clock = SimpleNamespace(**vars(time) | {"sleep": lambda seconds: agent.tick()})
    monkeypatch.setattr(child, "time", clock)
    monkeypatch.setattr(MappedSemaphore, "wait", lambda notifier, timeout_s: agent.tick())


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory, made: MadeStream) -> dict[bool, Outcome]:
    """Of one process; in lockstep and not."""
    outcomes = {}
    for lockstep in (False, True):
        folder = tmp_path_factory.mktemp("undisturbed")
        path = folder / "tau-metrics-app-0.bp"
        write_whole(path, made)
        spec = spec_of(folder, path, LOCKSTEP if lockstep else CONFIG)
        agent = Agent(spec)
        with pytest.MonkeyPatch.context() as patch:
            at_agents_pace(patch, agent)
            StreamProcess(spec, AgentNotifier()).run()
        outcomes[lockstep] = outcome = agent.outcome()
        assert agent.box[Cell.PHASE] == Phase.ENDED
        assert [step.step for step in outcome.steps] == list(range(STEPS))
        assert outcome.health.state == "ended" and outcome.health.losses == {}
        assert outcome.taken_steps == outcome.steps
        heads: Any = outcome.records["heads"]
        assert len(heads) > 10
    return outcomes


def half_written(checkpoints: CheckpointFiles, slot: int, checkpoint: Checkpoint) -> None:
    path = checkpoints._paths[slot]
    CheckpointFiles.save(checkpoints, slot, checkpoint)
    os.truncate(path, path.stat().st_size // 2)


def half_appended(spool: SpoolWriter, *arguments: Any) -> None:
    SpoolWriter._write(spool, *arguments)
    assert spool._current is not None
    os.truncate(spool._current.path, spool._current.path.stat().st_size - 7)


AT_THE_END = "before the stream is closed"
MOMENTS: dict[str, tuple[type | Any, str, Callable[..., Any] | None, bool]] = {
    # Where, the function that it dies in, what is left of that, and whether it has been done whole.
    "before the slot is filled": (ExchangeBox, "exchange", None, False),
    "while the slot is filled": (OutboxCopy, "copy_from", None, True),
    "before the checkpoint is saved": (CheckpointFiles, "save", None, False),
    "while the checkpoint is saved": (CheckpointFiles, "save", half_written, False),
    "after the checkpoint was saved": (CheckpointFiles, "save", None, True),
    "after the flip": (ExchangeBox, "exchange", None, True),
    "before the frame is appended": (SpoolWriter, "append", None, False),
    "while the frame is appended": (SpoolWriter, "_write", half_appended, False),
    "after the frame was appended": (SpoolWriter, "append", None, True),
    "before steps are given back": (FollowedStream, "give_back", None, False),
    "before holes are punched": (holes, "punch", None, False),
    "after steps were given back": (FollowedStream, "give_back", None, True),
    "before a step is analysed": (StreamProcess, "_step", None, False),
    "after a step was analysed": (StreamProcess, "_step", None, True),
    "before the next step is read": (FollowedStream, "next_step", None, False),
    AT_THE_END: (FollowedStream, "close", None, False),
}


def dying(
    owner: Any, name: str, left: Callable[..., Any] | None, is_done: bool, deadly: int
) -> Callable[..., Any]:
    """The function, in which its process dies when it is called for the ``deadly``-th time."""
    whole = getattr(owner, name)
    calls = 0

    def function(*arguments: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls < deadly:
            return whole(*arguments)
        if is_done:
            whole(*arguments)
        elif left is not None:
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(owner, name, whole)
                left(*arguments)
        raise Death

    return function


class Forked:
    """A process of its own, that can be killed. All of ``body`` belongs into it, also what takes locks."""

    def __init__(self, body: Callable[[], None]) -> None:
        self.pid = os.fork()
        if self.pid == 0:
            code = 1
            try:
                body()
                code = 0
            except BaseException:
                traceback.print_exc()
            finally:
                os._exit(code)
        self.code: int | None = None

    def has_ended(self) -> bool:
        if self.code is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self.code = os.waitstatus_to_exitcode(status)
        return self.code is not None

    def kill(self) -> None:
        if not self.has_ended():
            os.kill(self.pid, signal.SIGKILL)
            _, status = os.waitpid(self.pid, 0)
            self.code = os.waitstatus_to_exitcode(status)


def run_until_over(
    spec: StreamProcessSpec, moment: str, agent: Agent, between: Callable[[int], None] = lambda number: None
) -> int:
    """One process after the other: the first dies in its first such moment, the second in its second,
    and so on; returns how many died."""
    owner, name, left, is_done = MOMENTS[moment]

    def body(deadly: int) -> None:
        setattr(owner, name, dying(owner, name, left, is_done, deadly))
        try:
            StreamProcess(spec, AgentNotifier()).run()
        except Death:
            os._exit(DIED)

    for number in range(1, 10 * STEPS):
        process = Forked(lambda: body(number))  # noqa: B023
        while not process.has_ended():
            if spec.config.lockstep:
                agent.tick()
            time.sleep(0.001)
        if process.code == 0:
            return number - 1
        assert process.code == DIED
        between(number)
        if agent.is_over:
            return number
    raise AssertionError("it makes no progress")


@pytest.mark.usefixtures("commits_each_step")
@pytest.mark.parametrize("is_taken_between", first(1, [True, False]))
@pytest.mark.parametrize("moment", first(9, MOMENTS))
def test_wherever_processes_die_everything_is_there_once(
    tmp_path: Path,
    made: MadeStream,
    undisturbed: dict[bool, Outcome],
    moment: str,
    is_taken_between: bool,
) -> None:
    path = tmp_path / "tau-metrics-app-0.bp"
    write_whole(path, made)
    spec = spec_of(tmp_path, path)
    agent = Agent(spec)
    chance = random.Random(moment)

    def between(number: int) -> None:
        if is_taken_between and chance.random() < 0.5:
            assert agent.take()

    deaths = run_until_over(spec, moment, agent, between)
    assert deaths >= (1 if moment == AT_THE_END else 4)
    assert agent.box[Cell.PHASE] == Phase.ENDED
    assert_same(agent.outcome(), undisturbed[False])


@pytest.mark.parametrize("moment", first(3, MOMENTS))
def test_in_lockstep_flags_and_records_are_identical_wherever_processes_die(
    tmp_path: Path, made: MadeStream, undisturbed: dict[bool, Outcome], moment: str
) -> None:
    path = tmp_path / "tau-metrics-app-0.bp"
    write_whole(path, made)
    spec = spec_of(tmp_path, path, LOCKSTEP)
    agent = Agent(spec)
    deaths = run_until_over(spec, moment, agent)
    assert deaths >= (1 if moment == AT_THE_END else 3)
    assert_same(agent.outcome(), undisturbed[True], is_exact=True)


@pytest.mark.usefixtures("commits_each_step")
@pytest.mark.parametrize(
    "moment", first(3, [*(moment for moment in MOMENTS if moment != AT_THE_END), AT_THE_END])
)
def test_the_kept_trace_is_whole_wherever_processes_die(
    tmp_path: Path, made: MadeStream, moment: str
) -> None:
    path = tmp_path / "tau-metrics-app-0.bp"
    write_whole(path, made)
    spec = spec_of(tmp_path, path, kept_trace=str(tmp_path / "kept" / path.name))
    shutil.copytree(path, tmp_path / "original")
    run_until_over(spec, moment, Agent(spec))
    whole_streams.assert_equal(
        whole_streams.read_stream(tmp_path / "kept" / path.name, "BPFile"),
        whole_streams.read_stream(tmp_path / "original", "BPFile"),
    )
    assert (tmp_path / "kept" / path.name / LOST_STEPS).read_text() == ""


def test_steps_are_given_back_only_when_what_they_brought_is_kept(
    tmp_path: Path, made: MadeStream, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "tau-metrics-app-0.bp"
    write_whole(path, made)
    spec = spec_of(tmp_path, path)
    agent = Agent(spec)
    committed: list[int] = []
    given_back: list[int] = []
    exchange, give_back = ExchangeBox.exchange, FollowedStream.give_back

    def noting_exchange(box: ExchangeBox, analysis: Any, steps: Any, save: Any) -> bool:
        is_done = exchange(box, analysis, steps, save)
        committed.append(analysis.stacks.last_step)
        return is_done

    def noting_give_back(stream: FollowedStream, first_step: int) -> None:
        assert first_step == committed[-1] + 1
        given_back.append(first_step)
        give_back(stream, first_step)

    monkeypatch.setattr(ExchangeBox, "exchange", noting_exchange)
    monkeypatch.setattr(FollowedStream, "give_back", noting_give_back)
    monkeypatch.setattr(commits, "COMMIT_PERIOD_S", 0.0)
    StreamProcess(spec, AgentNotifier()).run()
    assert given_back[-1] == STEPS
    assert agent.outcome().health.steps == STEPS
    assert (aside_of(path, 0) / "data.0").stat().st_blocks * 512 <= 2 * 4096


def test_a_process_that_is_asked_to_go_leaves_everything_to_its_successor(
    tmp_path: Path, made: MadeStream, undisturbed: dict[bool, Outcome], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "tau-metrics-app-0.bp"
    write_whole(path, made)
    spec = spec_of(tmp_path, path)
    agent = Agent(spec)
    step = StreamProcess._step
    seen = 0

    def step_and_ask(one: StreamProcess, got: Any) -> None:
        nonlocal seen
        step(one, got)
        seen += 1
        if seen in (1, 5, 6, 17):
            os.kill(os.getpid(), END)

    monkeypatch.setattr(StreamProcess, "_step", step_and_ask)
    processes = 0
    while not agent.is_over:
        StreamProcess(spec, AgentNotifier()).run()
        processes += 1
    assert processes == 5
    # Nothing was read twice.
    assert seen == STEPS
    assert_same(agent.outcome(), undisturbed[False])


@pytest.mark.parametrize("lockstep", [False, True])
@pytest.mark.parametrize("seed", first(1, range(3)))
def test_real_processes_killed_at_random_while_the_stream_is_written(
    tmp_path: Path, made: MadeStream, undisturbed: dict[bool, Outcome], lockstep: bool, seed: int
) -> None:
    path = tmp_path / "tau-metrics-app-0.bp"
    spec = spec_of(tmp_path, path, LOCKSTEP if lockstep else CONFIG)
    agent = Agent(spec)
    chance = random.Random(seed)
    kills_left, number = MOST_KILLS, 0
    deadline = time.monotonic() + PATIENCE_S
    # Its folder is there before any of its files.
    path.mkdir()
    reader = Forked(lambda: StreamProcess(spec, AgentNotifier()).run())
    writer = StreamWriter(path, "BP5")
    while not agent.is_over:
        assert time.monotonic() < deadline
        if number < STEPS and chance.random() < 0.3:
            write_step(writer, made, number)
            number += 1
            if number == STEPS:
                writer.close()
        time.sleep(chance.random() * 0.02)
        if lockstep:
            agent.tick()
        elif chance.random() < 0.2:
            agent.take()
        if kills_left and chance.random() < 0.1:
            reader.kill()
            kills_left -= 1
        if reader.has_ended() and not agent.is_over:
            assert reader.code == -signal.SIGKILL
            reader = Forked(lambda: StreamProcess(spec, AgentNotifier()).run())
    reader.kill()
    assert agent.box[Cell.PHASE] == Phase.ENDED
    assert_same(agent.outcome(), undisturbed[lockstep], is_exact=lockstep)


def test_steps_that_were_dropped_are_counted_and_what_is_around_them_is_there(
    tmp_path: Path, made: MadeStream
) -> None:
    path = tmp_path / "tau-metrics-app-0.bp"
    write_whole(path, made)
    drop_before(path, 9)
    spec = spec_of(tmp_path, path)
    agent = Agent(spec)
    StreamProcess(spec, AgentNotifier()).run()
    outcome = agent.outcome()
    assert [step.step for step in outcome.steps] == list(range(9, STEPS))
    assert (outcome.health.gap_steps, outcome.health.steps, outcome.health.state) == (9, STEPS - 9, "ended")


def test_dropped_steps_at_the_end_of_a_stream_are_counted_too(tmp_path: Path, made: MadeStream) -> None:
    path = tmp_path / "tau-metrics-app-0.bp"
    writer = StreamWriter(path, "BP5")
    for number in range(STEPS):
        write_step(writer, made, number)
    writer.close()
    spec = spec_of(tmp_path, path)
    agent = Agent(spec)
    with pytest.MonkeyPatch.context() as patch:
        next_step = FollowedStream.next_step

        def dropping(stream: FollowedStream, timeout_s: float | None) -> TraceStep | Waiting:
            got = next_step(stream, timeout_s)
            if isinstance(got, TraceStep) and got.step == 9:
                FirstStep(aside_of(path, 0), GUARD).raise_to(STEPS)
            return got

        patch.setattr(FollowedStream, "next_step", dropping)
        StreamProcess(spec, AgentNotifier()).run()
    outcome = agent.outcome()
    assert outcome.health.steps == 10
    assert outcome.health.gap_steps == STEPS - 10


def test_nobody_takes_for_very_many_steps_and_then_all_of_them_come(
    tmp_path: Path, made: MadeStream, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "tau-metrics-app-0.bp"
    write_whole(path, made)
    spec = spec_of(tmp_path, path)
    monkeypatch.setattr("chimbuko.ad.handoff.outbox.MOST_STEPS", 7)
    agent = Agent(spec)
    monkeypatch.setattr(commits, "COMMIT_PERIOD_S", 0.0)
    waits = 0

    def wait(seconds: float) -> None:
        nonlocal waits
        waits += 1
        assert waits < 1000, "it waits for ever"
        if waits > 50:
            assert agent.take()

    monkeypatch.setattr(child, "time", SimpleNamespace(**vars(time) | {"sleep": wait}))
    StreamProcess(spec, AgentNotifier()).run()
    assert agent.outcome().taken_steps == agent.outcome().steps


@pytest.mark.usefixtures("commits_each_step")
def test_a_disk_that_was_full_for_checkpoints_costs_steps_but_counts_none_twice(
    tmp_path: Path, made: MadeStream, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "tau-metrics-app-0.bp"
    write_whole(path, made)
    spec = spec_of(tmp_path, path)
    agent = Agent(spec)
    # All in one page of data, as far as what is given back goes.
    monkeypatch.setattr("chimbuko.capture.follow.holes._PAGE", 1 << 30)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(CheckpointFiles, "save", lambda files, slot, kept: None)
        patch.setattr(StreamProcess, "_step", dying(StreamProcess, "_step", None, False, 10))
        with pytest.raises(Death):
            StreamProcess(spec, AgentNotifier()).run()
    StreamProcess(spec, AgentNotifier()).run()
    outcome = agent.outcome()
    numbers = [step.step for step in outcome.steps]
    assert numbers == sorted(set(numbers))
    assert len(numbers) + outcome.health.gap_steps >= STEPS


@pytest.mark.usefixtures("commits_each_step")
def test_metadata_that_came_without_a_count_is_there_after_a_death(tmp_path: Path, made: MadeStream) -> None:
    path = tmp_path / "tau-metrics-app-0.bp"
    for number, names in enumerate(made.names):
        if number >= 7:
            names.metadata[0, 0, "late"] = "x"
    try:
        write_whole(path, made)
    finally:
        for names in made.names:
            names.metadata.pop((0, 0, "late"), None)
    spec = spec_of(tmp_path, path)
    agent = Agent(spec)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(StreamProcess, "_step", dying(StreamProcess, "_step", None, False, 9))
        with pytest.raises(Death):
            StreamProcess(spec, AgentNotifier()).run()
    StreamProcess(spec, AgentNotifier()).run()
    assert agent.outcome().metadata[0, 0, "late", "x"] == 1
