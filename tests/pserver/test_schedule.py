"""The schedule of the server, in a loop whose broker fails at any moment, without a broker or a clock."""

from __future__ import annotations

from contextlib import suppress
from itertools import pairwise

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from chimbuko.pserver.schedule import (
    IDLE_S,
    LONGEST_STORE_S,
    PUBLISH_S,
    READ_COUNT,
    RETRY_S,
    SAVE_PERIOD_S,
    SAVE_SHARE,
    STORE_S,
    TICK_S,
    BrokerFailed,
    Event,
    Hastened,
    Instruction,
    Life,
    MakeReport,
    Merged,
    ModelPublished,
    Pause,
    Publish,
    Read,
    ReportMade,
    ReportSought,
    RoundBegun,
    Save,
    Saved,
    Schedule,
    SeekReport,
    SendFrame,
    SendReport,
    StopAsked,
    WriteStory,
)

ROUNDS_TO_REST = 200
"""More than saves and copies that take as long as here are apart."""
durations_s = st.floats(0.0, 0.2)


class BrokerDied(Exception):
    """The broker does not answer."""


class Loop(RuleBasedStateMachine):
    """The loop around a schedule; a version of the state is all that it has merged by then."""

    @initialize(is_lockstep=st.booleans(), has_copy=st.booleans(), rounds=st.integers(0, 40))
    def begin(self, is_lockstep: bool, has_copy: bool, rounds: int) -> None:
        self.schedule = Schedule(is_lockstep, has_copy)
        self.is_lockstep, self.has_copy = is_lockstep, has_copy
        self.now_s = 1000.0
        self.waiting = 0
        """Deltas at the broker that were not read."""
        self.version = self.shown = self.stored = self.saved = self.copied = self.trimmed = 0
        self.unpublished_s: list[float] = []
        """When deltas were merged that agents have not got in the model yet."""
        self.reports = 0
        self.at_broker: set[int] = set()
        """Numbers of the reports that the store has not taken."""
        self.may_save_s = self.may_show_s = 0.0
        self.rounds_left = rounds
        """Before it is asked to stop."""
        self.is_awaited = self.is_urgent = self.is_stopping = False
        self.is_lost = True
        """Whether the broker may have lost what was published."""
        self.done: list[Instruction] = []
        """Instructions of the last round."""
        self.answers_left = ROUNDS_TO_REST
        self.took_s = 0.0

    @property
    def has_ended(self) -> bool:
        return self.schedule.life is Life.ENDED

    @rule(seconds=st.floats(0.0, 3.0))
    def wait(self, seconds: float) -> None:
        self.now_s += seconds

    @rule(deltas=st.integers(1, 3) | st.just(READ_COUNT))
    def send(self, deltas: int) -> None:
        self.waiting += deltas

    @rule()
    def take_reports(self) -> None:
        """The store has written all there is."""
        self.at_broker.clear()

    @rule()
    def hasten(self) -> None:
        self.is_urgent = True

    @precondition(lambda self: not self.has_ended)
    @rule(is_awaited=st.booleans(), has_changes=st.booleans(), took_s=durations_s)
    def serve(self, is_awaited: bool = False, has_changes: bool = True, took_s: float = 0.0) -> None:
        """A round in which all goes well."""
        self.is_awaited, self.has_changes, self.took_s = is_awaited, has_changes, took_s
        self.answers_left, self.done = ROUNDS_TO_REST, []
        self.do_round()
        self.is_lost = False

    @precondition(lambda self: not self.has_ended)
    @rule(answers=st.integers(0, 6), is_emptied=st.booleans(), took_s=durations_s)
    def lose_broker(self, answers: int, is_emptied: bool, took_s: float) -> None:
        """A round in which the broker answers some times, and then does not any more."""
        self.is_awaited, self.has_changes, self.took_s = True, True, took_s
        self.answers_left, self.done = answers, []
        with suppress(BrokerDied):
            self.do_round()
        was_lost, self.is_lost = self.is_lost, True
        if is_emptied:
            self.at_broker.clear()
        # Deltas that were not trimmed are read again.
        self.waiting += self.version - self.trimmed
        self.done = []
        if self.is_stopping:
            self.tell(StopAsked(self.now_s))
        self.tell(BrokerFailed(self.now_s))
        if self.is_stopping:
            assert (self.has_ended, self.done) == (True, [])
        elif was_lost:
            assert self.done[-1:] == [Pause(RETRY_S)]
        assert self.is_stopping or not self.has_ended

    @precondition(lambda self: self.schedule.life is Life.SERVING)
    @rule()
    def rest(self) -> None:
        """Nothing new comes for a while: then all have everything, and the server sleeps."""
        rounds_left, self.rounds_left = self.rounds_left, 2 * ROUNDS_TO_REST
        for _ in range(ROUNDS_TO_REST):
            self.take_reports()
            self.serve()
        assert not (self.waiting or self.unpublished_s)
        assert {self.shown, self.stored, self.saved, self.trimmed} == {self.version}
        assert not self.has_copy or self.copied == self.version
        assert any(isinstance(one, Read) and one.wait_s > 0.99 * IDLE_S for one in self.done)
        self.rounds_left = rounds_left

    def teardown(self) -> None:
        """The server is asked to end at last: an orderly end saves all that was merged."""
        if not hasattr(self, "schedule") or self.has_ended:
            return
        self.rounds_left = 0
        while not self.has_ended:
            self.serve()
        last = [one for one in self.done if isinstance(one, SendFrame | MakeReport | Save)]
        assert last[-3:] == [SendFrame(True), MakeReport(True), Save(copies=False, trims=True)]
        assert {self.shown, self.stored, self.saved, self.trimmed} == {self.version}

    def do_round(self) -> None:
        self.is_stopping = self.is_stopping or self.rounds_left <= 0
        self.rounds_left -= 1
        if self.is_stopping:
            self.tell(StopAsked(self.now_s))
        self.tell(RoundBegun(self.now_s))

    def tell(self, event: Event) -> None:
        instructions = self.schedule.handle(event)
        self.schedule.validate_state()
        for instruction in instructions:
            if not isinstance(instruction, Pause | WriteStory):
                if not self.answers_left:
                    raise BrokerDied
                self.answers_left -= 1
            self.done.append(instruction)
            self.do(instruction)

    def do(self, instruction: Instruction) -> None:
        match instruction:
            case Read():
                self.read(instruction)
            case Publish():
                self.unpublished_s.clear()
                if self.has_changes and not instruction.is_whole:
                    self.tell(ModelPublished(self.now_s))
            case SendFrame():
                assert instruction.is_last or self.is_awaited or self.now_s >= self.may_show_s
                self.shown, self.may_show_s = self.version, self.now_s + TICK_S
            case SeekReport():
                self.tell(ReportSought(self.now_s, self.reports not in self.at_broker))
            case MakeReport():
                assert instruction.is_last or self.reports not in self.at_broker
                if self.stored < self.version:
                    self.stored = self.version
                    self.reports += 1
                    self.tell(ReportMade(self.now_s))
            case SendReport():
                self.at_broker.add(self.reports)
                assert len(self.at_broker) == 1 or self.has_ended
            case Save():
                self.save(instruction)
            case Pause():
                self.now_s += instruction.pause_s

    def read(self, read: Read) -> None:
        assert read.publishes_each == self.is_lockstep
        if self.is_lost:
            assert self.done[0] == Publish(is_whole=True)
            assert not self.at_broker or SendReport() in self.done
        if self.unpublished_s:
            assert read.wait_s <= max(self.unpublished_s[0] + PUBLISH_S - self.now_s, 0.0) + 1e-9
        if self.is_stopping:
            assert read.wait_s == 0.0
        if not self.waiting:
            self.now_s += read.wait_s
        deltas = min(self.waiting, READ_COUNT)
        self.waiting -= deltas
        self.version += deltas
        self.unpublished_s += [self.now_s] * deltas
        if self.is_urgent:
            self.may_save_s = 0.0
            self.tell(Hastened(self.now_s))
        began_s = self.now_s
        self.tell(Merged(self.now_s, deltas, self.is_awaited))
        if deltas < READ_COUNT:
            assert all(began_s - merged_s < PUBLISH_S for merged_s in self.unpublished_s)

    def save(self, save: Save) -> None:
        assert self.has_ended or self.is_urgent or self.now_s >= self.may_save_s
        assert self.has_copy or not save.copies
        self.now_s += self.took_s
        self.saved = self.version
        if save.copies:
            self.copied = self.version
        if save.trims:
            assert self.copied == self.version or not self.has_copy or self.has_ended
            self.trimmed = self.version
        self.may_save_s = self.now_s + max(SAVE_PERIOD_S, self.took_s / SAVE_SHARE)
        self.tell(Saved(self.now_s, self.took_s, self.took_s if save.copies else None, save.trims))


TestLoop = Loop.TestCase
TestLoop.settings = settings(
    max_examples=100, stateful_step_count=40, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)


def served(schedule: Schedule, *events: Event) -> list[list[Instruction]]:
    return [schedule.handle(event) for event in events]


def test_reports_become_rarer_in_a_long_run() -> None:
    schedule = Schedule(is_lockstep=False, has_copy=False)
    served(schedule, RoundBegun(0.0), ReportMade(0.0))
    reports_s = []
    for tenth in range(2000):
        if SeekReport() in schedule.handle(Merged(now_s := tenth / 10, 1, False)):
            reports_s.append(now_s)
            served(schedule, ReportSought(now_s, is_taken=True), ReportMade(now_s))
    periods_s = [after - before for before, after in pairwise(reports_s)]
    assert periods_s[:8] == pytest.approx([STORE_S] * 8), "the first 20 s are as fresh as can be"
    assert periods_s[-1] == pytest.approx(LONGEST_STORE_S) and len(reports_s) < 50


def test_a_report_waits_until_the_one_before_is_taken() -> None:
    schedule = Schedule(is_lockstep=False, has_copy=False)
    assert MakeReport(is_last=False) in schedule.handle(Merged(10.0, 1, False))
    assert schedule.handle(ReportMade(10.0)) == [SendReport()]
    assert SeekReport() in schedule.handle(Merged(10.0 + STORE_S, 1, False))
    assert schedule.handle(ReportSought(10.0 + STORE_S, is_taken=False)) == []
    assert SeekReport() not in schedule.handle(Merged(10.0 + 1.5 * STORE_S, 1, False))
    assert SeekReport() in schedule.handle(Merged(10.0 + 2 * STORE_S, 0, False))
    assert schedule.handle(ReportSought(10.0 + 2 * STORE_S, is_taken=True)) == [MakeReport(is_last=False)]


def test_who_may_be_killed_soon_saves_and_copies_at_once() -> None:
    schedule = Schedule(is_lockstep=False, has_copy=True)
    schedule.handle(Merged(10.0, 1, False))
    schedule.handle(Saved(10.0, 0.1, 0.1, is_settled=True))
    *_, first, second = served(
        schedule,
        Merged(10.1, 1, False),
        Hastened(10.2),
        Merged(10.2, 0, False),
        Saved(10.3, 0.1, 0.0, is_settled=False),
        Hastened(10.4),
        Merged(10.4, 0, False),
        Merged(12.4, 0, False),
    )
    assert not any(isinstance(one, Save) for one in first)
    assert Save(copies=True, trims=True) in second


def test_what_was_to_be_done_when_the_broker_failed_is_done_later() -> None:
    schedule = Schedule(is_lockstep=False, has_copy=False)
    void = schedule.handle(Merged(10.0, 1, False))
    served(schedule, Saved(10.0, 0.0, None, is_settled=True), BrokerFailed(10.0))
    later = schedule.handle(Merged(10.0 + STORE_S, 0, False))
    assert [one for one in void if not isinstance(one, Save | Pause)] == later


def test_an_epoch_is_published_at_once_and_without_a_pause() -> None:
    schedule = Schedule(is_lockstep=True, has_copy=False)
    served(schedule, Merged(10.0, 1, False), ModelPublished(10.0))
    instructions = schedule.handle(Merged(10.0, 1, False))
    assert instructions[0] == Publish(is_whole=False)
    assert not any(isinstance(one, Pause) for one in instructions)


def test_the_story_says_what_led_to_what() -> None:
    schedule = Schedule(is_lockstep=False, has_copy=False)
    served(
        schedule,
        RoundBegun(10.0),
        Merged(10.0, 2, True),
        Saved(10.1, 0.02, None, is_settled=True),
        BrokerFailed(11.0),
        BrokerFailed(12.0),
        StopAsked(13.0),
        StopAsked(14.0),
    )
    assert [line.split(" s  ") for line in map(str.strip, schedule.story.lines())] == [
        ["10.000", "RoundBegun: Publish is_whole"],
        [
            "10.000",
            "Merged deltas=2 is_awaited: Publish, SendFrame, MakeReport, Save trims, "
            "agents current, disk behind",
        ],
        ["10.100", "Saved took_s=0.02 is_settled: disk current"],
        ["11.000", "BrokerFailed: WriteStory, agents lost, dashboards behind, store behind"],
        ["13.000", "StopAsked: life stopping"],
    ]
