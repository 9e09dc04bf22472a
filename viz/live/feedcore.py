"""Core of a run's feed: what is known of the run, what frames it misses, what is due, and what pages are to
be told.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import Enum

from chimbuko.core.statemachine import Story
from chimbuko.runtime.protocol.messages import Frame
from chimbuko.runtime.runs.directory import RunInfo
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
    StepsByRank,
    Stopping,
    StoreRead,
)
from chimbuko.viz.live.healthhistory import Agents, AgentState, HealthHistory, Past, Vital
from chimbuko.viz.live.status import Status, status
from chimbuko.viz.live.totals import LiveTotals, Totals

# Gaps in the frames of the parameter server, and the snapshots that make up for them. Pure.


class Knowledge(Enum):
    """State of what is known of one part of the server."""

    WHOLE = "whole"
    """All that its frames have told."""
    MISSED = "missed"
    """Frames were lost, and the server has not been asked yet."""
    ASKED = "asked"
    """The server has been asked for a snapshot, and has not answered."""


@dataclass
class _Part:
    state: Knowledge = Knowledge.WHOLE
    tick: int = 0
    """Number of the last frame."""
    least_tick: int = 0
    """Number of the last frame that was lost: an older snapshot does not make up for it."""
    is_last: bool = False


class FrameGaps:
    """Frames of each part of the parameter server: whether some are missing, and how they are made up for.

    ::

                  gap              ask                 answer
        WHOLE ──────────▶ MISSED ───────▶ ASKED ─────────────────▶ WHOLE
                            ▲               │  answer older than the last gap,
                            └───────────────┘  broker lost, or server started anew

    A further gap while the server is asked changes no state: most answers contain it, and one that does not
    is too old. A server that started anew counts from an earlier tick on: that is a gap, too, and the one
    that was asked is no more.

    Parameters
    ----------
    parts
        Number of parts of the parameter server that makes the frames.
    """

    def __init__(self, parts: int = 1) -> None:
        self._parts = [_Part() for _ in range(parts)]

    @property
    def is_last(self) -> bool:
        """Whether this is the last frame of the run."""
        return all(part.is_last for part in self._parts)

    def take(self, frame: Frame) -> bool:
        """Note a frame, and return whether any were lost before it."""
        part = self._parts[frame.part]
        is_gap = frame.tick != part.tick + 1
        if is_gap:
            self._miss(part, max(0, frame.tick - 1))
            if frame.tick <= part.tick:
                part.state = Knowledge.MISSED
        part.tick = frame.tick
        part.is_last = part.is_last or frame.is_last
        return is_gap

    def take_unknown(self) -> None:
        """Note something that is no frame: it may have been one of any part."""
        for part in self._parts:
            self._miss(part, part.tick)

    def ask(self) -> tuple[int, ...]:
        """Return the parts that are to be asked for a snapshot now, each once."""
        parts = self._in(Knowledge.MISSED)
        self._turn(parts, Knowledge.ASKED)
        return parts

    def asked(self) -> tuple[int, ...]:
        """Return the parts whose snapshots are awaited."""
        return self._in(Knowledge.ASKED)

    def answer(self, part: int, tick: int) -> bool:
        """Note a snapshot of a part as of a tick, and return whether it makes up for what was lost."""
        asked = self._parts[part]
        is_enough = tick >= asked.least_tick
        if asked.state is Knowledge.ASKED:
            asked.state = Knowledge.WHOLE if is_enough else Knowledge.MISSED
            asked.least_tick = 0 if is_enough else asked.least_tick
        return is_enough

    def forget_asking(self) -> tuple[int, ...]:
        """Note that the broker was lost, perhaps with what it was told; return the parts this is about."""
        parts = self.asked()
        self._turn(parts, Knowledge.MISSED)
        return parts

    def validate_state(self) -> None:
        """Raise AssertionError where the state is impossible."""
        for part in self._parts:
            assert part.tick >= 0 and part.least_tick >= 0, part
            assert part.state is not Knowledge.WHOLE or part.least_tick == 0, part

    def _miss(self, part: _Part, least_tick: int) -> None:
        # Not the largest: a server that starts anew may not come to that for long.
        part.least_tick = least_tick
        if part.state is Knowledge.WHOLE:
            part.state = Knowledge.MISSED

    def _in(self, state: Knowledge) -> tuple[int, ...]:
        return tuple(number for number, part in enumerate(self._parts) if part.state is state)

    def _turn(self, parts: Iterable[int], state: Knowledge) -> None:
        for part in parts:
            self._parts[part].state = state


@dataclass(frozen=True)
class LiveState:
    """Live state of a run after an event. It never changes, so that any thread may read it."""

    info: RunInfo
    """Description of the run, as last read."""
    totals: Totals
    agents: Agents
    vitals: tuple[Vital, ...]
    """History of the analysis' health, as far back as is known."""
    is_last: bool
    """Whether this is the last frame of the run."""
    heard_s: float
    """Time when anything new was heard of the run, on the clock of moments."""
    reached_s: float | None
    """Time when the broker was reached last, on the clock of moments; None without a broker."""

    def status(self, at: Moment) -> Status:
        """Return the status of the run, when nothing has happened until then."""
        lost_s = None if self.reached_s is None else at.clock_s - self.reached_s
        silence_s, silent = at.clock_s - self.heard_s, self.agents.silent(at)
        return status(self.totals, self.info, at.epoch_us, silence_s, lost_s, silent, self.is_last)

    def agent_states(self, at: Moment) -> list[AgentState]:
        """Return the resources that each agent takes, as last reported, by name."""
        return self.agents.states(at if self.info.state == "running" else None)


TICK_S = 0.25
"""Interval in seconds between updates: four pictures a second are as many as are worth drawing."""
HEARTBEAT_S = 1.0
"""Longest interval in seconds between updates of a page: ages of what it shows grow while nothing happens."""
STORE_EVERY_S = 2.0
"""Interval in seconds at which the store of a run without broker is read: all ranks are counted anew each
time.
"""
FROM_THE_FIRST = b"0"
"""Id before that of any entry of a stream."""
_LONG_AGO_S = float("-inf")


@dataclass
class _Times:
    """Times in seconds when things happened last, on the clock of moments."""

    heard_s: float
    """Time when the run made progress."""
    reached_s: float | None
    """Time when the broker answered; None without a broker."""
    store_s: float
    info_s: float = _LONG_AGO_S
    update_s: float = _LONG_AGO_S


@dataclass
class _News:
    """News that pages have not been told."""

    steps: StepsByRank = field(default_factory=dict)
    resync: bool = False
    told_version: int = -1
    """Version of the totals in the last update."""


class FeedCore:
    """Feed of a run as a state machine: events in, instructions out. It has no clock, and reads nothing.

    Rounds follow each other. ``RoundBegan`` leads to the instruction to read frames, and these say what else
    is due. ``RoundEnded`` leads to an update for pages: four times a second where there are news, else each
    second. What could not be done, as broker or store did not answer, is due again in a later round.

    ::

        run      RUNNING ── InfoRead ──▶ ENDED      no more snapshots; the store once more, as it has all now
        frames   EARLIER ── FramesRead, all ──▶ NEW     earlier ones tell the history of the health
        parts    WHOLE, MISSED, ASKED: see ``FrameGaps``
        store    SETTLED ── gap, or the run's end ──▶ OWED ── StoreRead ──▶ SETTLED

    Without a broker there are no frames: the store is read again and again while the run goes on.

    Parameters
    ----------
    has_broker
        Whether the run's frames can be read.
    agents
        Agents as the report of a run says that has ended.
    at
        Moment of the beginning, when the store is read first.
    """

    def __init__(self, info: RunInfo, has_broker: bool, agents: Agents, at: Moment) -> None:
        self.story = Story()
        self._info = info
        self._totals = LiveTotals()
        self._agents = agents
        self._vitals = HealthHistory()
        self._past = Past(info.started_us) if has_broker else None
        """State before this feed began, until the earlier frames have been read."""
        self._gaps = FrameGaps(info.config.server_parts)
        self._position = FROM_THE_FIRST
        self._is_store_owed = False
        """Whether the store has what is missing here."""
        self._news = _News()
        self._times = _Times(at.clock_s, at.clock_s if has_broker else None, store_s=at.clock_s)

    def state(self) -> LiveState:
        """Return what is known now."""
        return LiveState(
            info=self._info,
            totals=self._totals.now(),
            agents=self._agents,
            vitals=tuple(self._vitals.samples),
            is_last=self._gaps.is_last,
            heard_s=self._times.heard_s,
            reached_s=self._times.reached_s,
        )

    def handle(self, event: Event) -> list[Instruction]:
        """Take in an event, and return what is to be done for it, in order."""
        progress = self._totals.progress
        instructions = self._handle(event)
        if self._totals.progress != progress:
            self._times.heard_s = event.at.clock_s
        return instructions

    def validate_state(self) -> None:
        """Raise AssertionError where the state is impossible."""
        times = self._times
        self._gaps.validate_state()
        if times.reached_s is None:
            assert self._past is None and self._position == FROM_THE_FIRST
            assert not self._gaps.asked() and not self._gaps.is_last
        assert self._news.told_version <= self._totals.version
        assert self._past is None or not self._vitals.samples or self._position != FROM_THE_FIRST

    def _handle(self, event: Event) -> list[Instruction]:
        match event:
            case RoundBegan():
                return self._begin(event)
            case FramesRead():
                return self._take_frames(event)
            case SnapshotRead():
                return self._take_snapshot(event)
            case BrokerLost():
                return self._lose_broker(event)
            case StoreRead():
                return self._take_store(event)
            case InfoRead():
                return self._take_info(event)
            case RoundEnded():
                return self._end(event)
            case Stopping():
                return self._prepare_end()

    @property
    def _is_running(self) -> bool:
        return self._info.state == "running"

    @property
    def _wants_store(self) -> bool:
        is_alone = self._times.reached_s is None
        return self._is_store_owed or (is_alone and (self._is_running or self._totals.version == 0))

    def _begin(self, event: RoundBegan) -> list[Instruction]:
        return self._due(event.at) if self._times.reached_s is None else [ReadFrames(self._position)]

    def _due(self, at: Moment) -> list[Instruction]:
        """Return what is to be read now, beside frames."""
        due: list[Instruction] = []
        if self._times.reached_s is not None and self._is_running:
            if asked := self._gaps.asked():
                due.append(ReadSnapshots(asked))
            if missed := self._gaps.ask():
                self.story.note(at.clock_s, "frames were missed", f"ask parts {missed} for snapshots")
                due.append(AskSnapshots(missed))
        if self._wants_store and at.clock_s - self._times.store_s >= STORE_EVERY_S:
            self._times.store_s = at.clock_s
            due.append(ReadStore())
        if self._is_running and at.clock_s - self._times.info_s >= HEARTBEAT_S:
            self._times.info_s = at.clock_s
            due.append(ReadInfo())
        return due

    def _take_frames(self, event: FramesRead) -> list[Instruction]:
        for time_us, frame in event.frames:
            if frame is None:
                self.story.note(event.at.clock_s, "an entry is no frame", "all parts missed")
                self._gaps.take_unknown()
                self._is_store_owed = True
                continue
            if self._gaps.take(frame):
                self.story.note(event.at.clock_s, "gap", f"before frame {frame.tick} of part {frame.part}")
                self._is_store_owed = True
            self._totals.add_frame(frame)
            self._agents = self._agents.with_changes(frame.telemetry, event.at, frame.part)
            for step in frame.steps:
                self._news.steps.setdefault((step.program, step.rank), []).append(step)
            if self._past is not None:
                self._past.take(frame)
                self._past.add_to(self._vitals, time_us)
        if event.is_all and self._past is not None:
            self.story.note(event.at.clock_s, "earlier frames are read", "the history is known")
            self._past = None
        self._position = event.position
        self._times.reached_s = event.at.clock_s
        return self._due(event.at)

    def _take_snapshot(self, event: SnapshotRead) -> list[Instruction]:
        is_enough = self._gaps.answer(event.part, event.snapshot.tick)
        told = f"snapshot {event.snapshot.tick} of part {event.part}"
        self.story.note(event.at.clock_s, told, "makes up" if is_enough else "older than the gap")
        self._totals.add_totals(event.snapshot.ranks, event.snapshot.functions, event.snapshot.health)
        self._agents = self._agents.with_changes(event.snapshot.telemetry, event.at, event.part)
        self._news.resync = True
        return []

    def _lose_broker(self, event: BrokerLost) -> list[Instruction]:
        if parts := self._gaps.forget_asking():
            self.story.note(event.at.clock_s, "broker lost", f"ask parts {parts} again: {event.why}")
        return []

    def _take_store(self, event: StoreRead) -> list[Instruction]:
        version, was_owed, self._is_store_owed = self._totals.version, self._is_store_owed, False
        since = 0 if was_owed else self._totals.oldest_news(event.ranks)
        self._totals.add_totals(event.ranks, event.functions, event.health)
        if event.times_us is not None:
            self._totals.add_times(*event.times_us)
        self._news.resync |= was_owed or self._totals.version != version
        self.story.note(event.at.clock_s, "store read", "settled" if was_owed else f"new from step {since}")
        return [] if since is None else [ReadGrid(since)]

    def _take_info(self, event: InfoRead) -> list[Instruction]:
        """Note the run's end: the last findings are in the store by then."""
        self._info = event.info
        if not self._is_running:
            self.story.note(event.at.clock_s, f"the run is {event.info.state}", "the store has all")
            self._totals.note_change()
            self._is_store_owed = True
            self._times.store_s = _LONG_AGO_S
        return []

    def _end(self, event: RoundEnded) -> list[Instruction]:
        now_s, news, version = event.at.clock_s, self._news, self._totals.version
        if version == news.told_version and now_s - self._times.update_s < HEARTBEAT_S:
            return []
        # News after a pause are reported at once, and then no more than four times a second.
        at_s = self._times.update_s = max(now_s, self._times.update_s + TICK_S)
        self._news = _News(told_version=version)
        self._note_vitals(event.at)
        return [SendUpdate(at_s, news.steps, news.resync)]

    def _note_vitals(self, at: Moment) -> None:
        if not self._is_running or self._past is not None or not self._vitals.is_due(at.epoch_us):
            return
        state = self.state()
        lag_us, agents = state.status(at).lag_us, state.agent_states(at)
        self._vitals.add(Vital.of(at.epoch_us, lag_us, state.totals.health.values(), agents))

    def _prepare_end(self) -> list[Instruction]:
        """Make all due that ends a run: it ends its dashboard right after its last message."""
        self._times.info_s = self._times.update_s = _LONG_AGO_S
        return []
