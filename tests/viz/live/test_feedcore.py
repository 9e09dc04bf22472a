"""What pages hold is what the frames add up to, whatever happens to frames, broker, server and store."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any

import msgspec
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from chimbuko.core.arrays import RankKey
from chimbuko.core.calls.record import StepCount, StreamHealth
from chimbuko.core.config import AnalysisConfig
from chimbuko.runtime.protocol.messages import Frame, RankStatistics
from chimbuko.runtime.runs.directory import RunInfo
from chimbuko.viz.live.feedcore import FROM_THE_FIRST, HEARTBEAT_S, STORE_EVERY_S, TICK_S, FeedCore, LiveState
from chimbuko.viz.live.feedevents import (
    AskSnapshots,
    BrokerLost,
    Event,
    FramesRead,
    InfoRead,
    Instruction,
    Moment,
    ReadFrames,
    ReadGrid,
    ReadInfo,
    ReadSnapshots,
    ReadStore,
    RoundBegan,
    RoundEnded,
    SendUpdate,
    SnapshotRead,
    Stopping,
    StoreRead,
)
from chimbuko.viz.live.healthhistory import Agents
from tests.plainpython import examples

PARTS, RANKS = 2, 3
BATCH = 3
ZERO_US = 1_700_000_000_000_000
STEP_US = 100_000
BEACONS = range(RANKS, RANKS + PARTS)
"""Ranks of which each part hears at the end only: the frame shows whether any before it were lost."""
part_numbers, ranks = st.integers(0, PARTS - 1), st.integers(0, RANKS - 1)


def moment(clock_s: float) -> Moment:
    return Moment(clock_s, ZERO_US + round(1e6 * clock_s))


def info(state: str = "running", parts: int = PARTS) -> RunInfo:
    config = msgspec.structs.replace(AnalysisConfig(), server_parts=parts)
    return RunInfo("id", "run", [], state, ZERO_US, 0, None, "here", "", config, "")


def step_of(rank: int, number: int) -> StepCount:
    start_us = ZERO_US + number * STEP_US
    return StepCount(0, rank, number, start_us, start_us + STEP_US, 10, (rank + number) % 3, 0.0)


def statistics_of(rank: int, steps: int) -> RankStatistics:
    total = sum(step_of(rank, number).anomalies for number in range(steps))
    return RankStatistics(0, rank, steps, total, 0.0, 0.0, 0, 0, 0.0, 0.0, 0.0, steps - 1)


def health_of(rank: int, steps: int) -> StreamHealth:
    return StreamHealth(0, rank, "here", "reading", steps, 9 * steps, 0, 0, 0, 0, {})


def frame(tick: int, steps: dict[int, Sequence[int]], part: int = 0, is_last: bool = False) -> Frame:
    """A frame with some ranks, each with the numbers of its new steps; it knows all before these, too."""
    known = {rank: max(numbers) + 1 for rank, numbers in steps.items() if numbers}
    return Frame(
        tick,
        [statistics_of(*one) for one in known.items()],
        [step_of(rank, number) for rank, numbers in steps.items() for number in numbers],
        [],
        [health_of(*one) for one in known.items()],
        is_last,
        part=part,
    )


def snapshot(tick: int, known: dict[int, int], part: int = 0) -> Frame:
    """All that a part knows of ranks, by their number of steps."""
    rows, streams = (
        [statistics_of(*one) for one in known.items()],
        [health_of(*one) for one in known.items()],
    )
    return Frame(tick, rows, [], [], streams, False, part=part)


@dataclass
class Server:
    """One part of the parameter server."""

    part: int
    tick: int = 0
    known: dict[int, int] = field(default_factory=dict)
    """Number of steps of each rank that are merged."""
    new: dict[int, list[int]] = field(default_factory=lambda: defaultdict(list))
    """Steps that no frame has."""


@dataclass
class Page:
    """A page: it takes updates, and where these say so it reads anew."""

    steps: dict[RankKey, set[int]] = field(default_factory=lambda: defaultdict(set))

    def take(self, update: SendUpdate, state: LiveState, stored: dict[int, int]) -> None:
        if update.resync:
            self.read(state, stored)
        for rank, steps in update.steps.items():
            self.steps[rank].update(step.step for step in steps)

    def read(self, state: LiveState, stored: dict[int, int]) -> None:
        for rank, count in stored.items():
            recent = state.totals.recent_steps([(0, rank)])
            self.steps[0, rank] = {*range(count), *(step.step for step in recent)}


class Followed(RuleBasedStateMachine):
    """A run that a feed follows: its servers, its broker and its store, and a page."""

    def __init__(self) -> None:
        super().__init__()
        self.now_s = 100.0
        self.core = FeedCore(info(), True, Agents(), moment(self.now_s))
        self.servers = [Server(part) for part in range(PARTS)]
        self.saved = deepcopy(self.servers)
        self.analysed: dict[int, int] = dict.fromkeys(range(RANKS + PARTS), 0)
        self.stored: dict[int, int] = dict.fromkeys(range(RANKS + PARTS), 0)
        self.stream: list[tuple[int, Frame | None]] = []
        self.sent = 0
        self.wanted: set[int] = set()
        self.answers: dict[int, Frame] = {}
        self.is_up = True
        self.info = info()
        self.restarts: dict[int, int] = {}
        """Parts that started anew and of which no frame has been read since, with what had been sent then.
        Where their first frames were lost, ticks could not tell them from those before: here they are not."""
        self.position = 0
        self.ticks = [0] * PARTS
        """Ticks of the frames that were read last."""
        self.asked: set[int] = set()
        self.updates_s = [0.0]
        self.page = Page()
        self.earlier: list[tuple[LiveState, dict[Any, Any]]] = []

    @rule(rank=ranks, count=st.integers(1, 4))
    def analyse(self, rank: int, count: int) -> None:
        self.analysed[rank] += count
        self.merge(self.servers[rank % PARTS])

    def merge(self, server: Server) -> None:
        """What agents have learned comes to the server; one that has started anew is sent the rest again."""
        for rank, count in self.analysed.items():
            known = server.known.get(rank, 0)
            if rank % PARTS == server.part and count > known:
                server.new[rank].extend(range(known, count))
                server.known[rank] = count

    @rule(part=part_numbers)
    def publish(self, part: int) -> None:
        server = self.servers[part]
        if server.new and self.is_up:
            server.tick += 1
            self.put(frame(server.tick, dict(server.new), part))
            server.new.clear()

    @rule(rank=ranks, count=st.integers(1, 4), is_lost=st.booleans())
    def report(self, rank: int, count: int, is_lost: bool) -> None:
        """The ordinary case, and the one in which the feed was away for too long."""
        self.analyse(rank, count)
        self.publish(rank % PARTS)
        if is_lost and not self.restarts:
            self.stream.clear()

    @rule()
    @precondition(lambda self: self.is_up)
    def send_what_is_no_frame(self) -> None:
        self.put(None)

    def put(self, content: Frame | None) -> None:
        self.sent += 1
        self.stream.append((self.sent, content))

    @rule(count=st.integers(1, 3))
    @precondition(lambda self: not self.restarts)
    def drop_the_oldest_frames(self, count: int) -> None:
        del self.stream[:count]

    @rule(part=part_numbers)
    def save(self, part: int) -> None:
        self.saved[part] = deepcopy(self.servers[part])

    @rule(part=part_numbers)
    def restart_the_server(self, part: int) -> None:
        self.servers[part] = deepcopy(self.saved[part])
        self.restarts[part] = self.sent
        self.merge(self.servers[part])

    @rule(part=part_numbers)
    @precondition(lambda self: self.is_up)
    def answer(self, part: int) -> None:
        if part in self.wanted:
            self.wanted.discard(part)
            self.answers[part] = snapshot(self.servers[part].tick, self.servers[part].known, part)

    @rule()
    def store_all(self) -> None:
        self.stored = dict(self.analysed)

    @rule(forgets=st.booleans())
    @precondition(lambda self: not self.restarts)
    def lose_the_broker(self, forgets: bool) -> None:
        self.is_up = False
        if forgets:
            self.stream.clear()
            self.wanted.clear()
            self.answers.clear()
        self.round(0.1)

    @rule()
    def bring_the_broker_back(self) -> None:
        self.is_up = True

    @rule(seconds=st.sampled_from([0.01, 0.1, 0.25, 1.0, 3.0]))
    def round(self, seconds: float) -> None:
        """As the feed does."""
        self.now_s = max(self.now_s, self.updates_s[-1]) + seconds
        self.perform(self.tell(RoundBegan(self.at)))
        self.perform(self.tell(RoundEnded(self.at)))
        self.earlier.append(self.remembered(self.core.state()))

    @property
    def at(self) -> Moment:
        return moment(self.now_s)

    def tell(self, event: Event) -> list[Instruction]:
        instructions = self.core.handle(event)
        self.core.validate_state()
        return instructions

    def perform(self, instructions: Iterable[Instruction]) -> None:
        waiting = list(instructions)
        while waiting:
            for event in self.events(waiting.pop(0)):
                waiting.extend(self.tell(event))

    def events(self, instruction: Instruction) -> Iterable[Event]:
        if isinstance(instruction, ReadFrames | AskSnapshots | ReadSnapshots) and not self.is_up:
            self.asked.clear()
            return [BrokerLost(self.at, "away")]
        match instruction:
            case ReadFrames(after):
                assert after == str(self.position).encode()
                return [self.read()]
            case AskSnapshots(parts):
                assert not self.asked & set(parts), "a gap leads to one question"
                self.asked |= set(parts)
                self.wanted |= set(parts)
                for part in parts:
                    self.answers.pop(part, None)
            case ReadSnapshots(parts):
                assert set(parts) <= self.asked
                found = [part for part in parts if part in self.answers]
                self.asked -= set(found)
                return [SnapshotRead(self.at, part, self.answers[part]) for part in found]
            case ReadStore():
                ranks = [statistics_of(*one) for one in self.stored.items() if one[1]]
                return [StoreRead(self.at, ranks, [], [], None)]
            case ReadInfo():
                return [InfoRead(self.at, self.info)]
            case SendUpdate():
                assert instruction.at_s >= max(self.now_s, self.updates_s[-1] + TICK_S - 1e-6)
                self.updates_s.append(instruction.at_s)
                self.page.take(instruction, self.core.state(), self.stored)
        return []

    def read(self) -> FramesRead:
        new = [one for one in self.stream if one[0] > self.position][:BATCH]
        for self.position, content in new:
            if content is None:
                continue
            if content.tick <= self.ticks[content.part]:
                self.asked.discard(content.part)
            self.ticks[content.part] = content.tick
            if self.position > self.restarts.get(content.part, self.position):
                del self.restarts[content.part]
        frames = [(self.at.epoch_us, content) for _, content in new]
        return FramesRead(self.at, frames, str(self.position).encode(), len(new) < BATCH)

    @staticmethod
    def remembered(state: LiveState) -> tuple[LiveState, dict[Any, Any]]:
        return state, {**state.totals.ranks, "steps": len(state.totals.recent), "vitals": state.vitals}

    @invariant()
    def nobody_knows_more_than_there_is(self) -> None:
        for (_, rank), row in self.core.state().totals.ranks.items():
            assert row.steps <= self.analysed[rank]

    def settle(self) -> None:
        """All that is under way arrives, and each part has said something since."""
        self.is_up = True
        for rank in BEACONS:
            self.analyse(rank, 1)
        for part in range(PARTS):
            self.publish(part)
        while self.position < self.sent:
            self.round(0.25)
        for _ in range(8):
            for part in range(PARTS):
                self.answer(part)
            self.round(0.25)

    def teardown(self) -> None:
        self.settle()
        totals = self.core.state().totals
        for known in totals.ranks, totals.health:
            assert {rank: row.steps for (_, rank), row in known.items()} == {
                rank: count for rank, count in self.analysed.items() if count
            }
        assert not self.asked, self.core.story.lines()
        # The end comes when the store has all.
        self.store_all()
        self.info = info("finished")
        for seconds in (HEARTBEAT_S, STORE_EVERY_S, HEARTBEAT_S):
            self.round(seconds)
        assert {rank: self.page.steps[0, rank] for rank in self.analysed} == {
            rank: set(range(count)) for rank, count in self.analysed.items()
        }
        for state, content in self.earlier:
            assert self.remembered(state)[1] == content, "a state stays as it was"


TestFollowed = Followed.TestCase
TestFollowed.settings = settings(examples(300), stateful_step_count=40)


def told(core: FeedCore, *events: Event) -> list[Instruction]:
    """What events lead to, with the state looked at after each."""
    instructions: list[Instruction] = []
    for event in events:
        instructions += core.handle(event)
        core.validate_state()
    return instructions


def following(parts: int = 1) -> FeedCore:
    """A core that has read a run's store, and its first frame."""
    core = FeedCore(info(parts=parts), True, Agents(), moment(0.0))
    told(core, StoreRead(moment(0.0), [], [], [], None))
    assert told(core, RoundBegan(moment(0.1))) == [ReadFrames(FROM_THE_FIRST)]
    assert told(core, read(0.1, frame(1, {0: [0]}))) == [ReadInfo()]
    return core


def read(clock_s: float, *frames: Frame | None, is_all: bool = True) -> FramesRead:
    timed = [(moment(clock_s).epoch_us, one) for one in frames]
    return FramesRead(moment(clock_s), timed, b"1-0", is_all)


def test_a_gap_leads_to_one_question_however_long_the_answer_takes() -> None:
    core = following()
    assert told(core, read(0.2, frame(3, {0: [2]}))) == [AskSnapshots((0,))]
    for clock_s in (0.3, 0.4, 1.0):
        assert told(core, read(clock_s)) == [ReadSnapshots((0,))]
    told(core, SnapshotRead(moment(1.0), 0, snapshot(3, {0: 3, 1: 7})))
    assert told(core, read(1.05)) == []
    assert core.state().totals.ranks[0, 1].steps == 7
    assert any("gap" in line for line in core.story.lines())


def test_what_is_missing_is_read_from_the_store_when_that_is_due() -> None:
    core = following()
    told(core, read(0.2, frame(3, {0: [2]})))
    due = told(core, read(STORE_EVERY_S, frame(4, {0: [3]})))
    assert due == [ReadSnapshots((0,)), ReadStore(), ReadInfo()]
    assert told(core, StoreRead(moment(2.0), [statistics_of(0, 2)], [], [], None)) == [ReadGrid(0)]
    assert ReadStore() not in told(core, read(99.0, frame(5, {0: [4]})))


def test_pages_are_told_at_once_then_four_times_a_second_and_each_second_in_silence() -> None:
    core = following()
    (first,) = told(core, RoundEnded(moment(5.0)))
    assert first == SendUpdate(5.0, {(0, 0): [step_of(0, 0)]}, False)
    assert told(core, RoundEnded(moment(5.01))) == []
    told(core, read(5.02, frame(2, {0: [1]})))
    (second,) = told(core, RoundEnded(moment(5.02)))
    assert second == SendUpdate(5.0 + TICK_S, {(0, 0): [step_of(0, 1)]}, False)
    assert told(core, RoundEnded(moment(6.0))) == []
    assert told(core, RoundEnded(moment(5.0 + TICK_S + HEARTBEAT_S))) == [SendUpdate(6.25, {}, False)]


def test_the_end_is_told_at_once() -> None:
    core = following()
    told(core, RoundEnded(moment(5.0)))
    told(core, InfoRead(moment(5.0), info()))
    assert told(core, Stopping(moment(5.1)), RoundBegan(moment(5.1)))
    assert told(core, read(5.1)) == [ReadInfo()]
    told(core, InfoRead(moment(5.1), info("finished")))
    assert [type(one) for one in told(core, RoundEnded(moment(5.1)))] == [SendUpdate]
    assert core.state().status(moment(5.1)).state == "ended"
    assert told(core, read(5.2)) == [ReadStore()], "it has all now"


def test_a_run_without_broker_is_read_from_the_store_until_it_has_ended() -> None:
    core = FeedCore(info(), False, Agents(), moment(0.0))
    rows = [statistics_of(0, 5)]
    assert told(core, StoreRead(moment(0.0), rows, [], [], None)) == [ReadGrid(0)]
    assert told(core, RoundBegan(moment(0.1))) == [ReadInfo()]
    assert told(core, RoundBegan(moment(STORE_EVERY_S))) == [ReadStore(), ReadInfo()]
    assert told(core, StoreRead(moment(2.0), [statistics_of(0, 9)], [], [], None)) == [ReadGrid(4)]
    told(core, InfoRead(moment(3.0), info("finished")))
    assert told(core, RoundBegan(moment(3.1))) == [ReadStore()]
    assert told(core, StoreRead(moment(3.1), [statistics_of(0, 9)], [], [], None)) == [ReadGrid(0)]
    assert told(core, RoundBegan(moment(99.0))) == []


def test_the_history_is_that_of_the_earlier_frames_and_then_of_each_second() -> None:
    core = FeedCore(info(parts=1), True, Agents(), moment(50.0))
    told(core, read(50.0, *(frame(1 + at, {0: [at]}) for at in range(2)), is_all=False))
    told(core, RoundEnded(moment(51.0)))
    assert len(core.state().vitals) == 1, "as of the first frame"
    told(core, read(51.1), RoundEnded(moment(52.0)), RoundEnded(moment(54.0)))
    assert [one.time_us for one in core.state().vitals] == [
        moment(clock_s).epoch_us for clock_s in (50.0, 52.0, 54.0)
    ]


@pytest.mark.parametrize(("clock_s", "state"), [(1.0, "live"), (30.0, "stale")])
def test_a_state_says_what_is_so_when_nothing_has_happened_since(clock_s: float, state: str) -> None:
    core = following()
    told(core, BrokerLost(moment(0.5), "away"))
    shown = core.state().status(moment(clock_s))
    assert (shown.state, "broker has not answered" in shown.sentence) == (state, state == "stale")
