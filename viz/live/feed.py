"""Feed of a run's news, from its broker's frames or its store alone, up to four times a second."""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import cast

import msgspec
import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from chimbuko.core.errors import ChimbukoError, ServiceError
from chimbuko.provenance.query.run import Provenance
from chimbuko.runtime.process.storyfile import write_story
from chimbuko.runtime.protocol.messages import Frame
from chimbuko.runtime.protocol.runbroker import RunBroker
from chimbuko.runtime.runs.directory import RunDirectory
from chimbuko.viz.live.feedcore import TICK_S, FeedCore, LiveState
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
from chimbuko.viz.live.grid import GridUpdate, ShownGrid
from chimbuko.viz.live.gridreading import LiveGrid, Piece
from chimbuko.viz.live.healthhistory import Agents, AgentState
from chimbuko.viz.live.status import Status

BATCH = 256
"""Most frames read at once: more than a minute's worth, so that catching up takes few round trips."""

_frames = msgspec.msgpack.Decoder(Frame)


class FrameBroker:
    """Connection to the broker of a run, on which instructions are done; each may raise ``redis.RedisError``.

    Raises
    ------
    ServiceError
        The URL cannot be understood.
    """

    def __init__(self, url: str, run_id: str) -> None:
        self._broker = RunBroker(_connect(url), run_id)

    def events(self, instruction: ReadFrames | AskSnapshots | ReadSnapshots) -> Iterator[Event]:
        """Do as an instruction says, and give what comes of it."""
        match instruction:
            case ReadFrames(after):
                yield self._frames_read(after)
            case AskSnapshots(parts):
                self._ask(parts)
            case ReadSnapshots(parts):
                for part in parts:
                    answer = self._broker.client.get(self._broker.keys.part(part).snapshot)
                    snapshot = None if answer is None else self._frame(cast(bytes, answer))
                    if snapshot is not None:
                        yield SnapshotRead(Moment.now(), part, snapshot)

    def close(self) -> None:
        """Close the connection."""
        self._broker.client.close()

    def _frames_read(self, after: bytes) -> FramesRead:
        # This waits for news, so that they need not wait for the next round.
        entries = self._broker.read(self._broker.keys.frames, after, BATCH, round(TICK_S * 1000))
        frames = [(int(entry.partition(b"-")[0]) * 1000, self._frame(data)) for entry, data in entries]
        position = entries[-1][0] if entries else after
        return FramesRead(Moment.now(), frames, position, is_all=len(entries) < BATCH)

    def _ask(self, parts: tuple[int, ...]) -> None:
        """Ask parts of the parameter server for what they know, in place of what they said before."""
        with self._broker.client.pipeline(transaction=True) as pipeline:
            for part in parts:
                pipeline.delete(self._broker.keys.part(part).snapshot)
                pipeline.set(self._broker.keys.part(part).snapshot_wanted, 1)
            pipeline.execute()
        self._broker.wake()

    def _frame(self, payload: bytes) -> Frame | None:
        """Return the frame in a message; None if it holds none."""
        try:
            return self._broker.seal.decode(payload, _frames)
        except msgspec.MsgspecError:
            return None


def _connect(url: str) -> redis.Redis:
    try:
        # No retries inside the client: the feed itself comes back in the next round, and counts the time.
        return redis.Redis.from_url(
            url, protocol=2, socket_timeout=1.0, socket_connect_timeout=1.0, retry=Retry(NoBackoff(), 0)
        )
    except ValueError:
        # The URL is not repeated: it may hold a password.
        raise ServiceError("the broker's URL cannot be understood; give redis://HOST:PORT") from None


class Update(msgspec.Struct, frozen=True):
    """News since the last update."""

    status: Status
    steps: StepsByRank
    resync: bool
    """Whether steps may be missing here, so that histories and grid are to be read again."""
    grid: GridUpdate | None


class Feed:
    """Live state of one run, kept up to date by a thread of its own, as its ``FeedCore`` says.

    The broker only ever sees reads, so a slow dashboard holds nobody up; one that is gone is
    looked for again until it is back.

    Parameters
    ----------
    broker_url
        URL of the broker with the run's frames; None follows the store alone.

    Raises
    ------
    ServiceError
        ``broker_url`` cannot be understood.

    Attributes
    ----------
    state
        Live state of the run: the thread replaces it, and nobody changes it.
    on_update
        Function that gets each update.
    """

    def __init__(self, run: RunDirectory, provenance: Provenance, broker_url: str | None) -> None:
        self.run = run
        self.on_update: Callable[[Update], None] | None = None
        self._provenance = provenance
        info = run.read_info()
        self._broker = None if broker_url is None else FrameBroker(broker_url, info.id)
        agents = Agents() if info.state == "running" else Agents.at_end(run)
        self._core = FeedCore(info, self._broker is not None, agents, Moment.now())
        self.state: LiveState = self._core.state()
        self._grid = LiveGrid(provenance, self.state.totals)
        self._stopping = threading.Event()
        self._threads = (
            threading.Thread(target=self._follow, name="feed", daemon=True),
            # A long history takes a second, in which news shall not wait.
            threading.Thread(target=self._grid.begin, name="grid", daemon=True),
        )
        self._tell(self._store_read())

    def start(self) -> None:
        """Begin to follow the run."""
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """Stop following, and send the last news; the state of the run stays known."""
        self._stopping.set()
        for thread in self._threads:
            if thread.ident is not None:
                thread.join()
        self._tell(Stopping(Moment.now()))
        self._round()
        write_story(self._core.story)
        if self._broker is not None:
            self._broker.close()

    @property
    def is_live(self) -> bool:
        """Whether frames arrive, so that the store need not be asked for news."""
        return self._broker is not None

    def status(self) -> Status:
        """Return the run's present state."""
        return self.state.status(Moment.now())

    def agents(self) -> list[AgentState]:
        """Return the resources that each agent takes, as last reported, by name."""
        return self.state.agent_states(Moment.now())

    def grid(self, wanted: Piece) -> ShownGrid:
        """Return the grid of ranks and steps, or a piece of it.

        Raises
        ------
        StoreError
            The store cannot be read.
        """
        return self._grid.shown(wanted)

    def _follow(self) -> None:
        while not self._stopping.is_set():
            started_s = time.monotonic()
            try:
                is_early = self._round()
            except Exception:
                # The thread goes on: the next news may be well, and without it pages would stand still.
                logging.getLogger("chimbuko.viz").exception("news of the run could not be read")
                is_early = False
            if not is_early:
                self._stopping.wait(started_s + TICK_S - time.monotonic())

    def _round(self) -> bool:
        """Read what is due and send what is new; return whether this has waited for the broker.

        Whatever fails is tried again in a later round; the state says since when.
        """
        is_well = self._perform(self._tell(RoundBegan(Moment.now())))
        self._perform(self._tell(RoundEnded(Moment.now())))
        return is_well and self.is_live

    def _perform(self, instructions: Iterable[Instruction]) -> bool:
        """Do what the core says, and what follows from it; return whether all of it could be done."""
        waiting, is_well = deque(instructions), True
        while waiting:
            try:
                for event in self._events(waiting.popleft()):
                    waiting.extend(self._tell(event))
            except redis.RedisError as error:
                is_well = False
                waiting.extend(self._tell(BrokerLost(Moment.now(), str(error))))
            except ChimbukoError:
                is_well = False
        return is_well

    def _tell(self, event: Event) -> list[Instruction]:
        instructions = self._core.handle(event)
        self.state = self._core.state()
        self._grid.follow(self.state.totals)
        return instructions

    def _events(self, instruction: Instruction) -> Iterator[Event]:
        """Do as an instruction says, and give what comes of it."""
        match instruction:
            case ReadFrames() | AskSnapshots() | ReadSnapshots():
                assert self._broker is not None
                for event in self._broker.events(instruction):
                    if isinstance(event, FramesRead):
                        self._grid.add_frames(frame for _, frame in event.frames if frame is not None)
                    yield event
            case ReadStore():
                yield self._store_read()
            case ReadGrid():
                self._grid.read(instruction.since)
            case ReadInfo():
                yield InfoRead(Moment.now(), self.run.read_info())
            case SendUpdate():
                self._send(instruction)

    def _store_read(self) -> StoreRead:
        stored = self._provenance
        return StoreRead(
            Moment.now(),
            ranks=stored.steps.rank_statistics(),
            functions=stored.function_statistics(),
            health=stored.health(),
            times_us=stored.steps.time_range(),
        )

    def _send(self, update: SendUpdate) -> None:
        self._stopping.wait(update.at_s - time.monotonic())
        if self.on_update is not None:
            self.on_update(Update(self.status(), update.steps, update.resync, self._grid.changes()))
