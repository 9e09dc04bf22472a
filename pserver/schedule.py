"""Schedule of the parameter server: what it does, when, and why, with the events that it takes and the
instructions that it gives. No I/O, no clock.
"""

from __future__ import annotations

from enum import Enum
from math import inf

import msgspec

from chimbuko.core.statemachine import Story

# Steps of the parameter server: events that its schedule takes, and instructions that it gives.
#
# An event has the time at which it came about, in seconds on a clock that never goes back.


class _Event(msgspec.Struct, frozen=True):
    time_s: float


class RoundBegun(_Event, frozen=True):
    """The server has nothing left to do of what it was told before."""


class Merged(_Event, frozen=True):
    """The broker was read, and the deltas that came are merged."""

    deltas: int
    is_awaited: bool
    """Whether somebody waits for the server."""


class ModelPublished(_Event, frozen=True):
    """Changes of the model were published; an instruction to do so may find none that are due."""


class ReportSought(_Event, frozen=True):
    """The last report to the store was looked for at the broker."""

    is_taken: bool
    """Whether the store has removed it, as it is written there."""


class ReportMade(_Event, frozen=True):
    """Event: there is a new report to the store."""


class Saved(_Event, frozen=True):
    """The state was saved."""

    took_s: float
    """Duration of all that the instruction asked for, in seconds."""
    copy_took_s: float | None
    """Duration of the copying onto shared storage in seconds; None if nothing was to be copied."""
    is_settled: bool
    """Whether the merged deltas are trimmed, and all agents know that these are saved."""


class Hastened(_Event, frozen=True):
    """The server may be killed soon, and its node be gone."""


class StopAsked(_Event, frozen=True):
    """The server was asked to end when nothing is left to merge."""


class BrokerFailed(_Event, frozen=True):
    """The broker does not answer; all further instructions of the round are void."""


Event = (
    RoundBegun
    | Merged
    | ModelPublished
    | ReportSought
    | ReportMade
    | Saved
    | Hastened
    | StopAsked
    | BrokerFailed
)


class Read(msgspec.Struct, frozen=True):
    """Read deltas from the broker, and merge them."""

    wait_s: float
    """Maximum time to wait for the first one, in seconds."""
    publishes_each: bool
    """Whether an epoch that a delta closes is published before the next delta is merged, as that may be of
    the next epoch where another server was killed before it could publish this one.
    """


class Publish(msgspec.Struct, frozen=True):
    """Publish the model to agents, and acknowledge what is merged."""

    is_whole: bool
    """Whether all of it is published, in place of what the broker has."""


class SendFrame(msgspec.Struct, frozen=True):
    """Send changes to dashboards, and answer those that have asked for more."""

    is_last: bool


class SeekReport(msgspec.Struct, frozen=True):
    """Look at the broker for the last report to the store."""


class MakeReport(msgspec.Struct, frozen=True):
    """Make a report of the changes for the store, if there are any."""

    is_last: bool


class SendReport(msgspec.Struct, frozen=True):
    """Send the last report that was made to the store."""


class Save(msgspec.Struct, frozen=True):
    """Save the state."""

    copies: bool
    """Whether it is copied onto shared storage, too."""
    trims: bool
    """Whether merged deltas are trimmed afterwards, and agents may forget them."""


class WriteStory(msgspec.Struct, frozen=True):
    """Write the story of the schedule into its file."""


class Pause(msgspec.Struct, frozen=True):
    """Do nothing for a while."""

    pause_s: float


Instruction = Read | Publish | SendFrame | SeekReport | MakeReport | SendReport | Save | WriteStory | Pause


PUBLISH_S = 0.05
"""Minimum time between two publications of the model, in seconds."""
TICK_S = 0.25
"""Minimum time between two frames, in seconds."""
STORE_S = 2.0
"""Minimum time between two reports to the store, in seconds: of what changes only the latest values count."""
STORE_SHARE = 0.1
LONGEST_STORE_S = 10.0
"""Largest value of that minimum, which is a tenth of the time since the server began: a report of 100
functions takes server and writer 30 ms together, and says less and less that is new.
"""
IDLE_S = 1.0
"""Maximum time between two rounds of the server while nothing comes, in seconds."""
READ_COUNT = 1000
"""Maximum number of deltas that are read at once; where there are as many, more may wait."""
GATHER_S = 0.003
"""Pause between two readings of the broker, in seconds: deltas that come meanwhile are merged together, for
less.
"""
SAVE_PERIOD_S = 1.0
SAVE_SHARE = 0.05
"""Maximum share of the time spent on saving the state."""
COPY_PERIOD_S = 10.0
COPY_SHARE = 0.01
"""Maximum share of the time spent on copying the state onto shared storage."""
RETRY_S = 0.2


class Life(Enum):
    """Life of the server."""

    SERVING = "serving"
    STOPPING = "stopping"
    """The server was asked to end, and merges what is left."""
    ENDED = "ended"
    """The last instructions were given, and nothing follows."""


class Pace(Enum):
    """Pace at which the state gets onto shared storage; its value is the period in seconds."""

    ORDINARY = COPY_PERIOD_S
    HASTENED = SAVE_PERIOD_S


class Standing(Enum):
    """Standing of a follower of the merged state."""

    CURRENT = "current"
    BEHIND = "behind"
    """Something that is merged has not reached them yet."""
    LOST = "lost"
    """The broker may have nothing of what was published to them."""


class Report(Enum):
    """Last report to the store."""

    TAKEN = "taken"
    """The store has it, or there was none."""
    UNDERWAY = "underway"
    """The store is not known to have it, so no other one is made."""
    LOST = "lost"
    """The broker may have lost it on its way."""


class Follower(msgspec.Struct):
    """Follower of the merged state: agents, dashboards, the store, or the file of the state."""

    standing: Standing
    next_s: float = 0.0
    """Time before which nothing more is done for it."""

    def is_due(self, now_s: float) -> bool:
        """Return whether it lacks something, and may have it now."""
        return self.standing is Standing.BEHIND and now_s >= self.next_s


class Schedule:
    """Schedule of the parameter server as a state machine: events in, instructions out.

    ========== ========== ============================== ============================================
    state of   from       by                             to
    ========== ========== ============================== ============================================
    life       serving    ``StopAsked``                  stopping
    life       stopping   ``Merged``, without deltas     ended, after last frame, report and ``Save``
    life       stopping   ``BrokerFailed``               ended, without them
    pace       ordinary   ``Hastened``                   hastened, and the disk behind
    followers  current    ``Merged``, with deltas        behind
    agents     behind     ``Merged``, after PUBLISH_S    current, by ``Publish``
    dashboards behind     ``Merged``, after TICK_S       current, by ``SendFrame``
    store      behind     ``Merged``, after a while      current, by ``MakeReport``; but while a report is
                                                         underway behind, and ``SeekReport``
    report     taken      ``ReportMade``                 underway, by ``SendReport``
    report     underway   ``ReportSought``, is taken     taken, and the store current by ``MakeReport``
    disk       behind     ``Merged``, after a while      behind, and ``Save``
    disk       behind     ``Saved``, is settled          current
    agents     any        ``BrokerFailed``               lost, and dashboards and store behind
    report     underway   ``BrokerFailed``               lost
    agents     lost       ``Merged``                     behind: the round began with the whole model
    report     lost       ``Merged``                     underway: the round began with ``SendReport``
    ========== ========== ============================== ============================================

    Parameters
    ----------
    is_lockstep
        Whether streams wait for the server: it publishes in each round, and never pauses for more deltas.
    has_copy
        Whether services elsewhere are to go on from a copy of the saved state: they need the deltas that are
        not in the copy, so only a save that is copied lets these be trimmed.
    """

    def __init__(self, is_lockstep: bool, has_copy: bool) -> None:
        self._is_lockstep = is_lockstep
        self._has_copy = has_copy
        self.life = Life.SERVING
        self._pace = Pace.ORDINARY
        self._agents = Follower(Standing.LOST)
        self._dashboards = Follower(Standing.CURRENT)
        self._store = Follower(Standing.CURRENT)
        self._disk = Follower(Standing.CURRENT)
        self._report = Report.TAKEN
        self._began_s = inf
        self._copy_s = 0.0
        """Time before which the state is not copied again."""
        self.story = Story()

    def handle(self, event: Event) -> list[Instruction]:
        """Take an event; return what is to be done, in this order, before the next round."""
        before = self.states()
        instructions = self._react(event)
        changes = [f"{name} {state}" for name, state in self.states().items() if state != before[name]]
        told = [_words(one) for one in instructions if not isinstance(one, Read | Pause)]
        if changes or told or isinstance(event, Saved):
            self.story.note(event.time_s, _words(event), ", ".join([*told, *changes]))
        return instructions

    def states(self) -> dict[str, str]:
        """Return the states of all parts by their names."""
        return {
            "life": self.life.value,
            "pace": self._pace.name.lower(),
            "agents": self._agents.standing.value,
            "dashboards": self._dashboards.standing.value,
            "store": self._store.standing.value,
            "disk": self._disk.standing.value,
            "report": self._report.value,
        }

    def validate_state(self) -> None:
        """Raise AssertionError where states contradict each other; for tests."""
        others = (self._dashboards, self._store, self._disk)
        assert Standing.LOST not in {other.standing for other in others}, "only the broker loses something"
        assert self._report is not Report.LOST or self._agents.standing is Standing.LOST, "no failure"
        assert self._has_copy or not self._copy_s, "a copy without a place for it"

    def _react(self, event: Event) -> list[Instruction]:
        match event:
            case RoundBegun():
                self._began_s = min(self._began_s, event.time_s)
                return self._begin_round(event.time_s)
            case Merged():
                return self._follow(event)
            case ModelPublished():
                self._agents.next_s = event.time_s + PUBLISH_S
            case ReportSought(is_taken=True):
                self._report, self._store.standing = Report.TAKEN, Standing.CURRENT
                return [MakeReport(is_last=False)]
            case ReportMade():
                self._report = Report.UNDERWAY
                return [SendReport()]
            case Saved():
                self._note_saved(event)
            case Hastened() if self._pace is Pace.ORDINARY:
                self._pace, self._disk.standing = Pace.HASTENED, Standing.BEHIND
                self._disk.next_s = self._copy_s = 0.0
            case StopAsked() if self.life is Life.SERVING:
                self.life = Life.STOPPING
            case BrokerFailed():
                return self._lose_broker()
        return []

    def _begin_round(self, now_s: float) -> list[Instruction]:
        instructions: list[Instruction] = []
        if self._agents.standing is Standing.LOST:
            instructions.append(Publish(is_whole=True))
        if self._report is Report.LOST:
            instructions.append(SendReport())
        return [*instructions, Read(max(self._due_s(now_s) - now_s, 0.0), self._is_lockstep)]

    def _due_s(self, now_s: float) -> float:
        """Return the time at which something will be due although no delta comes."""
        if self.life is Life.STOPPING or self._agents.standing is Standing.LOST:
            return now_s
        followers = (self._agents, self._dashboards, self._store, self._disk)
        due_s = [follower.next_s for follower in followers if follower.standing is Standing.BEHIND]
        return min([now_s + IDLE_S, *due_s])

    def _follow(self, merged: Merged) -> list[Instruction]:
        """Return what is due for the followers of the merged state."""
        if self._agents.standing is Standing.LOST:
            self._agents.standing = Standing.BEHIND
        if self._report is Report.LOST:
            self._report = Report.UNDERWAY
        if merged.deltas:
            for follower in (self._agents, self._dashboards, self._store, self._disk):
                follower.standing = Standing.BEHIND
        if merged.deltas == READ_COUNT:
            return []
        instructions = self._due(merged.time_s, merged.is_awaited)
        if merged.deltas and not self._is_lockstep:
            instructions.append(Pause(GATHER_S))
        if self.life is Life.STOPPING and not merged.deltas:
            self.life = Life.ENDED
            instructions += [
                SendFrame(is_last=True),
                MakeReport(is_last=True),
                Save(copies=False, trims=True),
            ]
        return instructions

    def _due(self, now_s: float, is_awaited: bool) -> list[Instruction]:
        due: list[Instruction] = []
        if self._is_lockstep or now_s >= self._agents.next_s:
            # Also where nothing came: rows that were held back become due by themselves.
            self._agents.standing = Standing.CURRENT
            due.append(Publish(is_whole=False))
        if is_awaited or now_s >= self._dashboards.next_s:
            self._dashboards.standing, self._dashboards.next_s = Standing.CURRENT, now_s + TICK_S
            due.append(SendFrame(is_last=False))
        if self._store.is_due(now_s):
            age_s = max(now_s - self._began_s, 0.0)
            self._store.next_s = now_s + min(max(STORE_S, STORE_SHARE * age_s), LONGEST_STORE_S)
            if self._report is Report.TAKEN:
                self._store.standing = Standing.CURRENT
                due.append(MakeReport(is_last=False))
            else:
                due.append(SeekReport())
        if self._disk.is_due(now_s):
            copies = self._has_copy and now_s >= self._copy_s
            due.append(Save(copies, trims=copies or not self._has_copy))
        return due

    def _note_saved(self, saved: Saved) -> None:
        self._disk.standing = Standing.CURRENT if saved.is_settled else Standing.BEHIND
        self._disk.next_s = saved.time_s + max(SAVE_PERIOD_S, saved.took_s / SAVE_SHARE)
        if saved.copy_took_s is not None:
            self._copy_s = saved.time_s + max(self._pace.value, saved.copy_took_s / COPY_SHARE)

    def _lose_broker(self) -> list[Instruction]:
        if self.life is not Life.SERVING:
            self.life = Life.ENDED
            return []
        was_lost = self._agents.standing is Standing.LOST
        self._agents.standing = Standing.LOST
        self._dashboards.standing = self._store.standing = Standing.BEHIND
        if self._report is Report.UNDERWAY:
            self._report = Report.LOST
        return [Pause(RETRY_S)] if was_lost else [WriteStory(), Pause(RETRY_S)]


def _words(step: Event | Instruction) -> str:
    """Return a step's name and fields for people, without its time and what is not so."""
    fields = {name: value for name, value in msgspec.structs.asdict(step).items() if name != "time_s"}
    told = {name: value for name, value in fields.items() if value is not None and value is not False}
    return " ".join([type(step).__name__, *(_field(name, value) for name, value in told.items())])


def _field(name: str, value: float | bool) -> str:
    return name if value is True else f"{name}={value:.3g}"
