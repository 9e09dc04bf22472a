"""Core of the writer's service: what it does next, by what came of the step before."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from math import inf

from chimbuko.core.errors import ChimbukoError
from chimbuko.core.statemachine import Story
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
from chimbuko.provenance.store.engine import StoreDamaged
from chimbuko.provenance.write.pace import Pace

FIRST_RETRY_S = 0.1
LAST_RETRY_S = 2.0
STOP_GRACE_S = 10.0
"""Time to go on trying, once asked to stop, while broker or store cannot be used."""


class Troubles:
    """Troubles that may pass: each kind is reported once, and each try waits longer.

    ::

        NONE ──failed ─▶ Pause, with a line──▶ TROUBLED ─┐ failed ─▶ Pause, twice as long; another line
          ▲                                     │  │  ▲  │           where it is another kind of error
          └──────────over ─▶ Report─────────────┘  │  └──┘
                                                   └── failed, STOP_GRACE_S after the end ─▶ GiveUp
    """

    def __init__(self) -> None:
        self._said: type[ChimbukoError] | None = None
        """Kind of the error that was reported last; None without trouble."""
        self._since_s = 0.0
        self._retry_s = FIRST_RETRY_S
        self._stopping_since_s: float | None = None

    def validate_state(self) -> None:
        """Raise ``AssertionError`` where what is known contradicts itself."""
        assert FIRST_RETRY_S <= self._retry_s <= LAST_RETRY_S
        assert self._said is not None or self._retry_s == FIRST_RETRY_S, "it waits longer without trouble"

    def failed(self, now_s: float, error: ChimbukoError, is_stopping: bool) -> Pause | GiveUp:
        """Return what to do about an error."""
        if is_stopping:
            if self._stopping_since_s is None:
                self._stopping_since_s = now_s
            if now_s - self._stopping_since_s > STOP_GRACE_S:
                return GiveUp(error)
        if self._said is None:
            self._since_s = now_s
        is_new, self._said = self._said is not type(error), type(error)
        pause = Pause(f"{error}; records wait until it works again" if is_new else "", self._retry_s)
        self._retry_s = min(2 * self._retry_s, LAST_RETRY_S)
        return pause

    def over(self, now_s: float) -> Report | None:
        """Return what to say where all works again; None if there was no trouble."""
        if self._said is None:
            return None
        self._said, self._retry_s = None, FIRST_RETRY_S
        return Report(f"records are stored again, after {now_s - self._since_s:.1f} s")


PERIOD_S = 30.0
SHARE = 0.01
"""Share of the time that copying may take."""
MOST_SHARE = 0.1
"""Share of the time that copying may take where somebody waits for a copy."""


class CopySchedule:
    """Schedule of copies: one now and then, sooner for a request, and once where the node may be gone."""

    def __init__(self, now_s: float) -> None:
        self._usual = Pace(PERIOD_S, SHARE, now_s + PERIOD_S)
        self._wanted = Pace(0.0, MOST_SHARE, now_s)
        self._served: bytes | None = None
        """Last request for which there is a copy."""
        self._has_hastened = False

    def is_due(self, asked: Asked) -> bool:
        """Return whether a copy is due now."""
        is_urgent = asked.is_leaving and not self._has_hastened
        is_wanted = is_urgent or (asked.request is not None and asked.request != self._served)
        return (self._wanted if is_wanted else self._usual).is_due(asked.time_s)

    def copied(self, event: Copied) -> None:
        """Note that a copy was made, or tried."""
        took_s = event.time_s - event.asked.time_s
        self._usual.rest(event.time_s, took_s)
        self._wanted.rest(event.time_s, took_s)
        if event.is_made:
            self._served = event.asked.request
            self._has_hastened = event.asked.is_leaving


READ_COUNT = 256
"""Most batches per transaction: 1,000 records in one are stored ten times as fast as one each."""
LONGEST_S = 2.0
"""Time in seconds that a transaction shall take at most: agents wait 20 s for one."""
SLOWER = 1.5
"""Ratio by which each batch has to take longer where fewer come together, for these to be too few."""


class TransactionSize:
    """Number of batches that come into one transaction: fewer where the store is slow, unless it takes as
    long for these.

    Attributes
    ----------
    most
        Most batches in the next transaction.
    """

    def __init__(self) -> None:
        self.most = READ_COUNT
        self._each_s = inf

    def took(self, batches: int, took_s: float) -> None:
        """Note that a transaction of so many batches took so long."""
        each_s = took_s / batches
        if each_s > SLOWER * self._each_s or 2 * took_s <= LONGEST_S:
            self.most = min(2 * self.most, READ_COUNT)
        elif took_s > LONGEST_S:
            self.most = max(batches // 2, int(batches * LONGEST_S / took_s), 1)
        self._each_s = each_s


READ_BYTES = 1 << 20
"""Size of batches from which no more are gathered: an agent stops at 4 MB that are not stored."""
IDLE_S = 1.0
"""Time between two looks at signals while nothing comes."""
GATHER_S = 0.5
"""Time from one transaction to the next: each takes 1 ms however little is in it, and a batch without
findings 0.03 ms."""
MOST_PUT_ASIDE = 3
"""Most damaged stores that one writer puts aside: a disk that damages more will damage the next one, too."""
FIRST_ENTRY = b"0"

_ANSWERS: Mapping[type[Instruction] | None, type[Event]] = {
    None: Began,
    Read: Came,
    Gather: Came,
    Commit: Committed,
    Explain: Done,
    Acknowledge: Done,
    ReadFindings: FindingsRead,
    LookAround: Asked,
    Copy: Copied,
    Abandon: LetGo,
    Report: Done,
    Pause: Done,
}
"""Event that answers each instruction, if it does not fail, and the event that begins a round."""


class WriterCore:
    """Core of the writer's service: a state machine without a clock, a broker or a store.

    Its state is the instruction that is being done, and the plan for the rest of the round. An event answers
    the instruction, and leads to the next one; None ends the round. After ``Began`` these are

    ::

        Read ──Came, records that can wait──▶ Gather
         │ Came                                 │ Came
         ▼                                      ▼
        of each stream: Commit ──Committed──▶ Acknowledge
                          └─Committed, in a hurry──▶ Explain ──▶ Acknowledge
         │
         ▼
        Explain ──▶ ReadFindings, when it is due ──▶ LookAround ──Asked, when a copy is due──▶ Copy
         │
         ▼
        Report, where there was trouble before

        any of them ──Failed──▶ Pause, or GiveUp where it lasts too long after being asked to stop
                    ──Failed, a damaged store──▶ Abandon ──LetGo──▶ Report where that helped, else Pause

    After a failure all that is not acknowledged is read again, from the beginning: a restarted broker may
    number its entries anew, and what is stored already changes nothing.

    Parameters
    ----------
    copies
        Schedule of the store's copies; None for no copies.
    is_own
        Whether the store is the run's own, so that a damaged one may be put aside.
    is_one_of_several
        Whether it only writes records, and another process does all else.
    """

    def __init__(self, copies: CopySchedule | None, is_own: bool, is_one_of_several: bool = False) -> None:
        self.streams = (Stream.RECORDS,) if is_one_of_several else tuple(Stream)
        """Streams that it reads."""
        self._is_one_of_several = is_one_of_several
        self._doing: Instruction | None = None
        self._plan: deque[Instruction] = deque()
        self._round = Began(-inf, False, 0.0)
        self._is_drained = False
        self._after = dict.fromkeys(self.streams, FIRST_ENTRY)
        """Last entry of each stream that is acknowledged."""
        self._hand: dict[Stream, list[bytes]] = {}
        """Entries that came and are not acknowledged yet."""
        self._stored_at_s = -inf
        self._commit_began_s = 0.0
        self.size = TransactionSize()
        self._findings = -inf, b""
        """Time at which findings are read next, and the message of those that are stored."""
        self._copies = copies
        self._troubles = Troubles()
        self._may_put_aside = MOST_PUT_ASIDE if is_own else 0
        self.story = Story()

    @property
    def is_drained(self) -> bool:
        """Whether the last round was to be the last, and nothing came in it."""
        return self._is_drained and self._doing is None

    def validate_state(self) -> None:
        """Raise ``AssertionError`` where what is known contradicts itself."""
        steps = [self._doing, *self._plan]
        to_store = [one.stream for one in steps if isinstance(one, (Commit, Acknowledge))]
        has_to_be_read = isinstance(self._doing, Gather)
        assert has_to_be_read or to_store == list(self._hand), (
            "what is in hand is stored and acknowledged next"
        )
        assert not any(isinstance(one, Acknowledge) for one in list(self._plan)[1:]), "a commit comes before"
        assert self._doing is not None or not self._plan, "the plan stands still"
        assert self._may_put_aside >= 0
        self._troubles.validate_state()

    def handle(self, event: Event) -> Instruction | None:
        """Take an event, and return what to do next; None if the round is over."""
        doing = self._doing
        answer = _ANSWERS.get(None if doing is None else type(doing))
        has_failed = isinstance(event, Failed) and answer not in (None, Began)
        assert has_failed or type(event) is answer, f"{event} does not answer {doing}"
        self._take(event)
        self._doing = self._plan.popleft() if self._plan else None
        if isinstance(self._doing, Commit):
            self._commit_began_s = event.time_s
        self.story.note(event.time_s, type(event).__name__, _name(self._doing))
        return self._doing

    def _take(self, event: Event) -> None:
        """Plan what follows from an event."""
        match event:
            case Began():
                self._round, self._is_drained = event, False
                wait_s = 0.0 if event.is_stopping else min(IDLE_S, event.quiet_s)
                self._plan.append(Read(dict(self._after), self.size.most, wait_s))
            case Came():
                self._take_entries(event)
            case Committed():
                self._take_commit(event)
            case Done(now_s):
                if isinstance(self._doing, Acknowledge):
                    self._put_away(self._doing, now_s)
            case FindingsRead(now_s, sealed):
                self._findings = now_s + IDLE_S, sealed
            case Asked():
                if self._copies is not None and self._copies.is_due(event):
                    self._plan.append(Copy(event))
                else:
                    self._finish(event.time_s)
            case Copied():
                assert self._copies is not None, "no copy was to be made"
                self._copies.copied(event)
                self._finish(event.time_s)
            case Failed():
                self._fail(event)
            case LetGo():
                self._go_on_without_store(event)

    def _take_entries(self, event: Came) -> None:
        for stream, entries in event.entries.items():
            if entries:
                self._hand.setdefault(stream, []).extend(entries)
        may_wait = not (self._round.is_stopping or event.is_awaited) and isinstance(self._doing, Read)
        records = self._hand.get(Stream.RECORDS)
        if records and may_wait:
            wait_s = self._stored_at_s + GATHER_S - event.time_s
            room = self.size.most - len(records)
            if wait_s > 0.0 and room > 0 and event.record_bytes < READ_BYTES:
                self._plan.append(Gather(records[-1], room, wait_s))
                return
        self._hand = {stream: self._hand[stream] for stream in self.streams if stream in self._hand}
        self._is_drained = self._round.is_stopping and not self._hand
        self._plan.extend([*map(Commit, self._hand), *self._upkeep(event.time_s)])

    def _upkeep(self, now_s: float) -> Iterable[Instruction]:
        """Yield what is due in a round beside storing what came."""
        if not self._is_one_of_several:
            yield Explain(self._round.is_stopping)
            due_s, known = self._findings
            if now_s >= due_s or self._round.is_stopping:
                yield ReadFindings(known)
        yield LookAround()

    def _take_commit(self, event: Committed) -> None:
        assert self._doing == Commit(event.stream), "something else was to be committed"
        if event.stream is Stream.RECORDS:
            self.size.took(len(self._hand[event.stream]), event.time_s - self._commit_began_s)
        self._plan.appendleft(Acknowledge(event.stream, tuple(self._hand[event.stream]), event.sequences))
        if (event.has_ended or event.severe) and not self._is_one_of_several:
            # This comes before agents hear that all is stored, and end.
            self._plan.appendleft(Explain(True, event.severe))

    def _put_away(self, acknowledged: Acknowledge, now_s: float) -> None:
        self._after[acknowledged.stream] = self._hand.pop(acknowledged.stream)[-1]
        if acknowledged.stream is Stream.RECORDS:
            self._stored_at_s = now_s

    def _finish(self, now_s: float) -> None:
        """Note that all of a round went well."""
        if (report := self._troubles.over(now_s)) is not None:
            self._plan.append(report)

    def _fail(self, event: Failed) -> None:
        self._plan.clear()
        self._hand.clear()
        self._after = dict.fromkeys(self.streams, FIRST_ENTRY)
        self._findings = self._findings[0], b""
        self._is_drained = False
        if isinstance(event.error, StoreDamaged):
            self._plan.append(Abandon(event.error, self._may_put_aside > 0))
        else:
            self._plan.append(self._troubles.failed(event.time_s, event.error, self._round.is_stopping))

    def _go_on_without_store(self, event: LetGo) -> None:
        if event.aside:
            self._may_put_aside -= 1
            said = f"it was put aside as {event.aside}, with all that was stored so far, and a new one begun"
            self._plan.append(Report(f"{event.error}; {said}"))
        else:
            self._plan.append(self._troubles.failed(event.time_s, event.error, self._round.is_stopping))


def _name(instruction: Instruction | None) -> str:
    return "the round is over" if instruction is None else type(instruction).__name__
