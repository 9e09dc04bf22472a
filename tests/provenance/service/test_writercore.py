"""The writer's core against a broker and a store that fail as they please: what is acknowledged is stored."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule

from chimbuko.core.errors import ChimbukoError, ServiceError
from chimbuko.provenance.service.steps import (
    Abandon,
    Acknowledge,
    Asked,
    Began,
    Came,
    Commit,
    Committed,
    Copied,
    Copy,
    Done,
    Event,
    Explain,
    Failed,
    FindingsRead,
    Gather,
    GiveUp,
    Instruction,
    LetGo,
    LookAround,
    Pause,
    Read,
    ReadFindings,
    Report,
    Stream,
)
from chimbuko.provenance.service.writercore import (
    GATHER_S,
    IDLE_S,
    LONGEST_S,
    MOST_SHARE,
    PERIOD_S,
    READ_COUNT,
    SHARE,
    CopySchedule,
    TransactionSize,
    WriterCore,
)
from chimbuko.provenance.store.engine import StoreBusy, StoreDamaged

BUSY, DAMAGED, AWAY = StoreBusy("held"), StoreDamaged("malformed"), ServiceError("away")
FAILURES = (BUSY, DAMAGED, AWAY)
ASKS_BROKER = (Read, Gather, Acknowledge, ReadFindings, LookAround)
QUIET_S = 0.75
FEW = 3
"""Entries are read by so many at once."""


class Broker:
    """Messages by the id that they have at the broker."""

    def __init__(self) -> None:
        self.entries: dict[Stream, dict[bytes, int]] = {stream: {} for stream in Stream}
        self._last = 0

    def send(self, stream: Stream, message: int) -> None:
        self._last += 1
        self.entries[stream][b"%08d" % self._last] = message

    def read(self, stream: Stream, after: bytes, count: int) -> list[bytes]:
        return [entry for entry in self.entries[stream] if entry > after][:count]

    def restart(self) -> None:
        """It loses all; agents and server send again what is not acknowledged, and ids begin anew."""
        left, self.entries = self.entries, {stream: {} for stream in Stream}
        self._last = 0
        for stream, entries in left.items():
            for message in entries.values():
                self.send(stream, message)


class WriterMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.core = WriterCore(CopySchedule(0.0), is_own=True)
        self.now_s = 0.0
        self.instruction: Instruction | None = None
        self.broker = Broker()
        self.hand: dict[Stream, dict[bytes, int]] = {}
        self.sent: set[int] = set()
        self.stored: set[int] = set()
        """Messages that are committed, in the present store or in one that was put aside."""
        self.here: set[int] = set()
        """Messages that are committed in the present store."""
        self.is_awaited = self.is_leaving = self.is_stopping = self.is_over = self.has_restarted = False
        self.request: bytes | None = None
        self.copies: list[Asked] = []
        self.findings_s = -IDLE_S
        self.wait_s = 0.0
        """How long the round that was begun last may wait."""

    @rule(stream=st.sampled_from(Stream), count=st.integers(1, 2 * FEW))
    def send(self, stream: Stream, count: int) -> None:
        for _ in range(count):
            message = len(self.sent)
            self.sent.add(message)
            self.broker.send(stream, message)

    @rule(passed_s=st.sampled_from([1 / 64, 0.25, 1.0, 40.0]))
    def let_time_pass(self, passed_s: float) -> None:
        self.now_s += passed_s

    @rule()
    def wake(self) -> None:
        self.is_awaited = True

    @rule()
    def ask_for_a_copy(self) -> None:
        self.request = b"%d" % len(self.copies)

    @rule()
    def leave(self) -> None:
        self.is_leaving = True

    @rule()
    def restart_broker(self) -> None:
        self.broker.restart()
        self.has_restarted = True

    @precondition(lambda self: len(self.sent) > 3 * FEW)
    @rule()
    def stop(self) -> None:
        self.is_stopping = True

    @rule(
        error=st.sampled_from([None, None, None, *FAILURES]),
        is_late=st.booleans(),
        has_ended=st.booleans(),
        aside=st.sampled_from(["", "aside"]),
    )
    def step(self, error: ChimbukoError | None, is_late: bool, has_ended: bool, aside: str) -> None:
        """One step; what fails may have been done or not."""
        if self.is_over:
            return
        if self.instruction is None:
            self.handle(self.began())
        elif isinstance(self.instruction, (Pause, Report, Abandon)):
            self.handle(self.done(self.instruction, has_ended, aside))
        elif self.has_restarted and isinstance(self.instruction, ASKS_BROKER):
            self.has_restarted = False
            self.handle(Failed(self.now_s, AWAY))
        elif error is None:
            self.handle(self.done(self.instruction, has_ended, aside))
        else:
            if is_late:
                self.done(self.instruction, has_ended, aside)
            self.handle(Failed(self.now_s, error))

    @rule()
    def end_round_well(self) -> None:
        self.step_well()
        while self.instruction is not None and not self.is_over:
            self.step_well()

    def began(self) -> Began:
        self.wait_s = 0.0 if self.is_stopping else QUIET_S
        return Began(self.now_s, self.is_stopping, QUIET_S)

    def handle(self, event: Event) -> None:
        self.instruction = self.core.handle(event)
        self.core.validate_state()
        if isinstance(event, FindingsRead):
            self.findings_s = self.now_s + IDLE_S
        if isinstance(event, Committed):
            # Agents that may soon be gone are asked before they hear that all is stored.
            assert self.instruction == Explain(True) or not event.has_ended
            assert isinstance(self.instruction, Acknowledge) or event.has_ended
        if isinstance(self.instruction, GiveUp):
            assert self.is_stopping and isinstance(event, (Failed, LetGo))
            self.is_over = True

    def done(self, instruction: Instruction, has_ended: bool, aside: str) -> Event:
        """Do what is to be done."""
        match instruction:
            case Read(after, count, wait_s):
                assert count == self.core.size.most and wait_s == self.wait_s
                self.hand = {stream: {} for stream in Stream}
                return self.came({stream: self.broker.read(stream, after[stream], FEW) for stream in Stream})
            case Gather(entry, _, wait_s):
                assert 0.0 < wait_s <= GATHER_S
                return self.came({Stream.RECORDS: self.broker.read(Stream.RECORDS, entry, FEW)})
            case Commit(stream):
                messages = set(self.hand[stream].values())
                assert messages
                self.here |= messages
                self.stored |= messages
                return Committed(self.now_s, stream, has_ended=has_ended)
            case Acknowledge(stream, entries):
                for entry in entries:
                    message = self.broker.entries[stream].pop(entry, None)
                    assert message is None or message in self.here, "acknowledged before it was committed"
                return Done(self.now_s)
            case ReadFindings():
                assert self.now_s >= self.findings_s or self.is_stopping
                return FindingsRead(self.now_s, b"sealed")
            case LookAround():
                return Asked(self.now_s, self.request, self.is_leaving)
            case Copy(asked):
                self.copies.append(asked)
                return Copied(self.now_s, asked, True)
            case Abandon(error, puts_aside):
                aside = aside if puts_aside else ""
                self.here = set() if aside else self.here
                return LetGo(self.now_s, error, aside)
            case Pause(_, pause_s):
                assert 0.0 < pause_s <= 2.0
                self.now_s += 0.125
        return Done(self.now_s)

    def came(self, found: dict[Stream, list[bytes]]) -> Came:
        for stream, entries in found.items():
            self.hand[stream] |= {entry: self.broker.entries[stream][entry] for entry in entries}
        is_awaited, self.is_awaited = self.is_awaited, False
        return Came(self.now_s, found, 10 * len(found[Stream.RECORDS]), is_awaited)

    def teardown(self) -> None:
        """All is stored and acknowledged once nothing fails any more."""
        self.is_stopping = True
        self.end_round_well()
        while not (self.is_over or self.core.is_drained):
            self.end_round_well()
        if not self.is_over:
            assert self.core.is_drained
            assert self.broker.entries == {stream: {} for stream in Stream}
            assert self.stored == self.sent
        unhurried = [asked.time_s for asked in self.copies if asked.request is None and not asked.is_leaving]
        assert all(later - sooner >= 30.0 for sooner, later in itertools.pairwise(unhurried))

    def step_well(self) -> None:
        if self.is_over:
            return
        if self.instruction is None:
            self.handle(self.began())
        elif self.has_restarted and isinstance(self.instruction, ASKS_BROKER):
            self.has_restarted = False
            self.handle(Failed(self.now_s, AWAY))
        else:
            self.handle(self.done(self.instruction, False, ""))


TestWriter = WriterMachine.TestCase
TestWriter.settings = settings(max_examples=100, stateful_step_count=50, deadline=None)


def takes(
    size: TransactionSize, fixed_s: float, batch_s: float, transactions: int
) -> list[tuple[int, float]]:
    """Batches and seconds of transactions while more wait than come into one."""
    found = []
    for _ in range(transactions):
        batches = size.most
        found.append((batches, fixed_s + batch_s * batches))
        size.took(*found[-1])
    return found


def test_transactions_of_a_slow_store_are_short() -> None:
    size = TransactionSize()
    assert all(batches == READ_COUNT for batches, _ in takes(size, 0.001, 0.001, 5))
    assert all(LONGEST_S / 4 < took_s <= LONGEST_S for _, took_s in takes(size, 0.01, 0.1, 20)[8:])
    assert takes(size, 0.001, 0.001, 10)[-1][0] == READ_COUNT


def test_where_any_transaction_takes_long_many_come_into_one() -> None:
    found = takes(TransactionSize(), 5.0, 0.001, 40)
    batches, took_s = (sum(of) for of in zip(*found, strict=True))
    assert batches / took_s > 0.6 * READ_COUNT / 5.256


def test_each_request_and_each_warning_is_served_once() -> None:
    schedule = CopySchedule(0.0)
    asked = Asked(1.0, b"one", False)
    assert not schedule.is_due(Asked(1.0, None, False))
    assert schedule.is_due(asked)
    schedule.copied(Copied(1.0, asked, False))
    assert schedule.is_due(asked), "the copy failed"
    schedule.copied(Copied(1.0, asked, True))
    assert not schedule.is_due(asked)
    leaving = Asked(2.0, b"one", True)
    assert schedule.is_due(leaving)
    schedule.copied(Copied(2.0, leaving, True))
    assert not schedule.is_due(leaving)
    assert schedule.is_due(Asked(2.0, b"two", True))


looks = st.lists(
    st.tuples(st.floats(0.0, 20.0), st.sampled_from([None, b"a", b"b"]), st.booleans(), st.floats(0.0, 3.0)),
    max_size=40,
)


@given(looks)
def test_copying_takes_no_more_than_its_share(
    looks: Sequence[tuple[float, bytes | None, bool, float]],
) -> None:
    now_s, schedule = 0.0, CopySchedule(0.0)
    last: Copied | None = None
    served: bytes | None = None
    for pause_s, request, is_leaving, took_s in looks:
        now_s += pause_s
        asked = Asked(now_s, request, is_leaving)
        if not schedule.is_due(asked):
            continue
        is_wanted = is_leaving or request not in (None, served)
        if last is not None:
            last_s = last.time_s - last.asked.time_s
            least_s = last_s / MOST_SHARE if is_wanted else max(PERIOD_S, last_s / SHARE)
            assert now_s - last.time_s >= least_s - 1e-9
        now_s += took_s
        last, served = Copied(now_s, asked, True), request
        schedule.copied(last)
