"""Feed of a run's news, from its broker's frames or its store alone, up to four times a second."""

from __future__ import annotations

import threading
import time
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import cast

import msgspec
import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from chimbuko.core.arrays import RankKey
from chimbuko.core.calls.record import StepCount, StreamHealth
from chimbuko.core.errors import ChimbukoError, ServiceError
from chimbuko.provenance.query.run import Provenance
from chimbuko.runtime.protocol.messages import Frame, FunctionStatistics, Seal
from chimbuko.runtime.protocol.runbroker import RunBroker
from chimbuko.runtime.protocol.telemetry import AgentFigures, SlowRank
from chimbuko.runtime.runs.directory import RunDirectory, RunInfo
from chimbuko.viz.live.agents import Agents, AgentState
from chimbuko.viz.live.grid import MOST_COLUMNS, Grid, GridUpdate, ShownGrid
from chimbuko.viz.live.gridreading import Piece, read_piece, read_stored, width_for, width_of
from chimbuko.viz.live.healthhistory import HealthHistory, Past, Vital
from chimbuko.viz.live.livetotals import FunctionRanking, LiveTotals, Ranking, Statistic
from chimbuko.viz.live.status import Status, status

TICK_S = 0.25
"""Interval in seconds between updates: four pictures a second are as many as are worth drawing."""
HEARTBEAT_S = 1.0
"""Longest interval in seconds between updates of a page: ages of what it shows grow while nothing happens."""
STORE_EVERY_S = 2.0
"""Interval in seconds at which the store of a run without broker is read: all ranks are counted anew each
time.
"""
BATCH = 256
"""Most frames read at once: more than a minute's worth, so that catching up takes few round trips."""

_frames = msgspec.msgpack.Decoder(Frame)

StepsByRank = dict[RankKey, list[StepCount]]


class Update(msgspec.Struct, frozen=True):
    """News since the last update."""

    status: Status
    steps: StepsByRank
    resync: bool
    """Whether steps may be missing here, so that histories and grid are to be read again."""
    grid: GridUpdate | None


class Feed:
    """Live state of one run, kept up to date by a thread of its own.

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
    """

    def __init__(self, run: RunDirectory, provenance: Provenance, broker_url: str | None) -> None:
        self.run = run
        self._provenance = provenance
        self._info = run.read_info()
        self._parts = range(self._info.config.server_parts)
        self._tally = LiveTotals(len(self._parts))
        self._agents = Agents()
        self._vitals = HealthHistory()
        self._grid = Grid()
        self._has_grid = False
        self._lock = threading.Lock()
        self._grid_lock = threading.Lock()
        """Lock held while the grid is read from the store."""
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._follow, name="feed", daemon=True)
        # A long history takes a second, in which news shall not wait.
        self._grid_thread = threading.Thread(target=self._begin_grid, name="grid", daemon=True)
        self._broker = None if broker_url is None else RunBroker(_connect(broker_url), self._info.id)
        self._past = None if broker_url is None else Past(self._info.started_us)
        """State before this feed began, until the earlier frames have been read."""
        self._position = b"0"
        self._fresh: StepsByRank = defaultdict(list)
        self._resync = False
        self._awaited_snapshots: set[int] = set()
        """Parts of the parameter server whose snapshots are awaited."""
        self._heard_s = self._reached_s = time.monotonic()
        self._read_store_s = -STORE_EVERY_S
        self._read_info_s = 0.0
        self.on_update: Callable[[Update], None] | None = None
        self._read_store()
        if self._info.state != "running":
            self._agents.read_report(run)

    def start(self) -> None:
        """Begin to follow the run."""
        self._thread.start()
        self._grid_thread.start()

    def stop(self) -> None:
        """Stop following, and send the last news; the state of the run stays known."""
        self._stopping.set()
        for thread in (self._thread, self._grid_thread):
            if thread.ident is not None:
                thread.join()
        # A run ends its dashboard right after its last message.
        self._read_info_s = -HEARTBEAT_S
        self._learn()
        self._emit()
        if self._broker is not None:
            self._broker.client.close()

    @property
    def is_live(self) -> bool:
        """Whether frames arrive, so that the store need not be asked for news."""
        return self._broker is not None

    def info(self) -> RunInfo:
        """Return the run's description, as last read."""
        return self._info

    def status(self) -> Status:
        """Return the run's present state."""
        now_s = time.monotonic()
        lost_s = now_s - self._reached_s if self._broker is not None else None
        with self._lock:
            silent = self._agents.silent(now_s)
            now_us = time.time_ns() // 1000
            return status(self._tally, self._info, now_us, now_s - self._heard_s, lost_s, silent)

    def ranking(self, statistic: Statistic, n: int) -> Ranking:
        """Return the ranks with the largest and smallest ``statistic`` of anomalies per step."""
        with self._lock:
            return self._tally.ranking(statistic, n)

    def function_ranking(self, statistic: Statistic, n: int) -> FunctionRanking:
        """Return the functions with the largest and smallest ``statistic`` of abnormal calls per step of a
        rank.
        """
        with self._lock:
            return self._tally.function_ranking(statistic, n)

    def worst_functions(self) -> list[FunctionStatistics]:
        """Return the functions, most time lost first."""
        with self._lock:
            return self._tally.worst_functions()

    def health(self) -> list[StreamHealth]:
        """Return the running totals of each stream, by program and rank."""
        with self._lock:
            return [self._tally.health[key] for key in sorted(self._tally.health)]

    def agents(self) -> list[AgentState]:
        """Return the resources that each agent takes, as last reported, by name."""
        with self._lock:
            return self._agents.states(time.monotonic() if self._info.state == "running" else None)

    def agent_figures(self) -> dict[str, AgentFigures]:
        """Return the last report of each agent, by name."""
        with self._lock:
            return self._agents.figures()

    def slow_ranks(self) -> list[SlowRank]:
        """Return the ranks that are slower than the others all the time, the most time lost first."""
        with self._lock:
            return self._agents.slow_ranks

    def vitals(self) -> list[Vital]:
        """Return the history of the analysis' health, as far back as is known."""
        with self._lock:
            return list(self._vitals.samples)

    def grid(self, wanted: Piece) -> ShownGrid:
        """Return the grid of ranks and steps; finer pieces than are kept are read from the store.

        Raises
        ------
        StoreError
            The store cannot be read.
        """
        self._read_grid_once()
        with self._lock:
            self._name_ranks()
            ranks, sums = self._grid.ranks, self._tally.sums()
            last_step = sums.last_step or 0
            is_kept = width_of(wanted, len(ranks), last_step) >= self._grid.steps_per_column
            if is_kept:
                picture = self._grid.picture(wanted.places, wanted.steps, wanted.rows, wanted.columns)
            recent = [] if is_kept else list(self._tally.recent)
            shown = self._tally.version, self._grid.layout
        if not is_kept:
            picture = read_piece(self._provenance, ranks, recent, wanted, last_step)
        silent = [(bisect_left(ranks, rank), rank, silence) for rank, silence in sums.silent.items()]
        return ShownGrid(*shown, picture, silent)

    def ranks_with_anomalies(self) -> int:
        """Return the number of ranks with at least one anomaly."""
        with self._lock:
            return self._tally.sums().with_anomalies

    def recent_steps(self, ranks: Iterable[RankKey]) -> list[StepCount]:
        """Return the newest steps of these ranks, which the store may not have yet."""
        with self._lock:
            return self._tally.recent.of(ranks)

    def _follow(self) -> None:
        emitted_s, version = 0.0, -1
        while not self._stopping.is_set():
            started_s = time.monotonic()
            has_waited = self._learn()
            if version != self._tally.version or time.monotonic() - emitted_s >= HEARTBEAT_S:
                # News after a pause are reported at once, and then no more than four times a second.
                self._stopping.wait(emitted_s + TICK_S - time.monotonic())
                version, emitted_s = self._tally.version, time.monotonic()
                self._emit()
                self._note_vitals()
            if not has_waited:
                self._stopping.wait(started_s + TICK_S - time.monotonic())

    def _learn(self) -> bool:
        """Take in the news, and return whether this has waited for them.

        Whatever fails is tried again at the next tick; the state says since when.
        """
        before = self._tally.progress
        try:
            self._read_frames()
            self._read_snapshot()
            if self._tally.missed or not self.is_live:
                self._read_store()
            self._read_info()
        except (redis.RedisError, ChimbukoError):
            return False
        if self._tally.progress != before:
            self._heard_s = time.monotonic()
        return self._broker is not None

    def _read_frames(self) -> None:
        if self._broker is None:
            return
        # This waits for news, so that they need not wait for the next tick.
        entries = self._broker.read(self._broker.keys.frames, self._position, BATCH, round(TICK_S * 1000))
        with self._lock:
            for position, payload in entries:
                self._position = position
                self._take(self._broker.seal, payload, int(position.partition(b"-")[0]) * 1000)
        if len(entries) < BATCH:
            self._past = None
        self._reached_s = time.monotonic()

    def _read_snapshot(self) -> None:
        """Read the server's snapshot, which makes up for missed frames; the store has their steps."""
        if self._broker is None or self._info.state != "running":
            return
        keys = self._broker.keys
        if self._tally.missed and not self._awaited_snapshots:
            with self._broker.client.pipeline(transaction=True) as pipeline:
                for part in self._parts:
                    pipeline.delete(keys.part(part).snapshot)
                    pipeline.set(keys.part(part).snapshot_wanted, 1)
                pipeline.execute()
            self._broker.wake()
            self._awaited_snapshots = set(self._parts)
            return
        for part in sorted(self._awaited_snapshots):
            answer = cast("bytes | None", self._broker.client.get(keys.part(part).snapshot))
            if answer is not None:
                self._awaited_snapshots.discard(part)
                with self._lock:
                    snapshot = self._broker.seal.decode(answer, _frames)
                    self._tally.add_snapshot(snapshot)
                    self._agents.take(snapshot.telemetry, time.monotonic(), part)
                    self._resync = True

    def _take(self, seal: Seal, payload: bytes, time_us: int) -> None:
        """Add a frame that was reported at ``time_us``."""
        try:
            frame = seal.decode(payload, _frames)
        except msgspec.MsgspecError:
            self._tally.missed = True
            return
        self._tally.add_frame(frame)
        self._grid.add_steps(frame.steps)
        self._agents.take(frame.telemetry, time.monotonic(), frame.part)
        for step in frame.steps:
            self._fresh[step.program, step.rank].append(step)
        if self._past is not None:
            self._past.take(frame)
            self._past.add_to(self._vitals, time_us)

    def _read_info(self) -> None:
        """Read the run's description, and notice its end. The last findings are in the store by then."""
        now_s = time.monotonic()
        if self._info.state != "running" or now_s - self._read_info_s < HEARTBEAT_S:
            return
        self._read_info_s = now_s
        self._info = self.run.read_info()
        if self._info.state != "running":
            with self._lock:
                self._tally.missed = True
                self._tally.version += 1
            self._read_store_s = -STORE_EVERY_S

    def _read_store(self) -> None:
        """Add the store's totals: the only source without a broker, and what was missed with one."""
        now_s = time.monotonic()
        settled = self._info.state != "running" and self._tally.version > 0
        if now_s - self._read_store_s < STORE_EVERY_S or (settled and not self._tally.missed):
            return
        self._read_store_s = now_s
        ranks = self._provenance.steps.rank_statistics()
        functions, health = self._provenance.function_statistics(), self._provenance.health()
        times = self._provenance.steps.time_range()
        with self._lock:
            before, was_missed = self._tally.version, self._tally.missed
            since = 0 if was_missed else self._tally.oldest_news(ranks)
            self._tally.add_totals(ranks, functions, health)
            self._tally.missed = False
            if times is not None:
                self._tally.zero_us, self._tally.newest_us = times
            self._resync = self._resync or self._tally.version != before or was_missed
        if self._has_grid and since is not None:
            self._read_grid(since)

    def _begin_grid(self) -> None:
        # If it fails, the next reader of the grid tries again.
        with suppress(ChimbukoError):
            self._read_grid_once()

    def _read_grid_once(self) -> None:
        with self._grid_lock:
            if not self._has_grid:
                self._read_grid(0)
                self._has_grid = True

    def _read_grid(self, since: int) -> None:
        """Add the steps from ``since`` on that are in the store."""
        with self._lock:
            sums = self._tally.sums()
            width = self._grid.steps_per_column
        last_step = sums.last_step
        if last_step is None:
            return
        width = max(width, width_for(0, last_step, MOST_COLUMNS))
        stored = read_stored(self._provenance, sums.ranks, (since, last_step), width)
        with self._lock:
            stored.add_to(self._grid)
            # New readers of the grid get it with this; pages that have it already are told to read it again.
            self._grid.forget_changes()

    def _name_ranks(self) -> None:
        """Tell the grid all ranks, as it also shows those that report no steps."""
        self._grid.name(self._tally.health)
        self._grid.name(self._tally.ranks)
        self._grid.note_silent(frozenset(self._tally.sums().silent))

    def _emit(self) -> None:
        with self._lock:
            fresh, self._fresh = self._fresh, defaultdict(list)
            resync, self._resync = self._resync, False
            self._name_ranks()
            grid = self._grid.changes()
        if self.on_update is not None:
            self.on_update(Update(self.status(), fresh, resync, grid))

    def _note_vitals(self) -> None:
        now_us = time.time_ns() // 1000
        if self._info.state != "running" or self._past is not None or not self._vitals.is_due(now_us):
            return
        lag_us, agents = self.status().lag_us, self.agents()
        with self._lock:
            self._vitals.add(Vital.of(now_us, lag_us, self._tally.health.values(), agents))


def _connect(url: str) -> redis.Redis:
    try:
        # No retries inside the client: the feed itself comes back at the next tick, and counts the time.
        return redis.Redis.from_url(
            url, protocol=2, socket_timeout=1.0, socket_connect_timeout=1.0, retry=Retry(NoBackoff(), 0)
        )
    except ValueError:
        # The URL is not repeated: it may hold a password.
        raise ServiceError("the broker's URL cannot be understood; give redis://HOST:PORT") from None
