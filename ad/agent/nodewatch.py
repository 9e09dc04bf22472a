"""Sampling of the node beside the calls: samples while ranks run, of which those around flagged calls go to
the store.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Iterable
from contextlib import closing
from pathlib import Path

import redis

from chimbuko.ad.handoff.looksfile import LOOKS, LooksFile
from chimbuko.core.calls.record import Metadata
from chimbuko.core.calls.recordarrays import PackedRecords
from chimbuko.monitor.collector.collector import PERIOD_S, Collector
from chimbuko.monitor.collector.earlylooks import take_early
from chimbuko.monitor.collector.watched import ExpectedRanks, Watched
from chimbuko.monitor.procfs.gpus import present_gpus
from chimbuko.monitor.sampling.nodebatch import NodeBatch, PackedBatch, packed
from chimbuko.runtime.process.lifetime import log
from chimbuko.runtime.protocol.messages import PAYLOAD
from chimbuko.runtime.protocol.runbroker import RunBroker

PID, TID, BEGAN = "pid", "tid", "Starting Timestamp"
"""Keys of a stream's metadata: the id of its process, the kernel's id of a thread, and the time at which the
stream began, in µs.
"""
LOOKOUT_S = 0.1
"""Time between two looks for ranks until there is one: each takes 0.3 ms where 500 processes are."""
SETTLED_S = 0.1
"""Time in seconds after the period in which a call ended when its samples are complete."""
MOST_WAITING = 256
"""Maximum number of batches that the broker has not taken; the oldest are lost. They explain findings, and
are none themselves.
"""
MOST_AT_BROKER = 2_000
CLOSING_S = 5.0


class NodeWatch:
    """Sampling of one node in a thread of its own. Other threads note what streams found, and send what is
    due.

    Whatever goes wrong with it ends the samples and nothing else: the user is notified once.

    Parameters
    ----------
    node
        Name of the node.
    is_first
        Whether this agent is the first of its node, which reports what belongs to no rank.
    folder
        Folder in which ranks leave their traces.
    streams
        Folder with those of the node's streams.
    """

    def __init__(self, node: str, broker: RunBroker, is_first: bool, folder: str, streams: Path) -> None:
        self._node, self._is_first = node, is_first
        self._broker = broker
        self._folder = Path(folder)
        self._expected = ExpectedRanks(folder)
        self._streams = streams
        self._looks: dict[int, LooksFile] = {}
        """File of the looks at each rank, by its process."""
        self._pids: dict[tuple[int, int], int] = {}
        self._news: deque[tuple[int, int, list[Metadata]]] = deque()
        self._wanted: deque[tuple[int, int]] = deque(maxlen=65_536)
        self._batches: deque[PackedBatch] = deque(maxlen=MOST_WAITING)
        self._is_closing = threading.Event()
        self._failure: str | None = None
        self._is_failure_sent = False
        self._thread = threading.Thread(target=self._run, name="node monitor", daemon=True)
        try:
            self._thread.start()
        except RuntimeError as error:
            # No further thread can be started.
            self._give_up(error)

    def note(self, program: int, rank: int, metadata: list[Metadata], records: PackedRecords) -> None:
        """Note what a stream has sent."""
        if self._failure is not None:
            return
        try:
            self._note(program, rank, metadata, records)
        except Exception as error:
            self._give_up(error)

    def send(self) -> None:
        """Hand over what is ready; raise ``redis.RedisError`` if the broker cannot be reached."""
        try:
            self._send()
        except (redis.ConnectionError, redis.TimeoutError):
            raise
        except Exception as error:
            self._batches.clear()
            self._give_up(error)
        if self._failure is not None and not self._is_failure_sent:
            self._broker.notify_user(self._failure)
            self._is_failure_sent = True

    def close(self) -> None:
        """Finish, when no rank runs any more: all samples that are wanted become ready."""
        self._is_closing.set()
        if self._thread.is_alive():
            self._thread.join(CLOSING_S)

    def _note(self, program: int, rank: int, metadata: list[Metadata], records: PackedRecords) -> None:
        described = [one for one in metadata if one.key in (PID, TID, BEGAN)]
        if described:
            self._news.append((program, rank, described))
        heads = records.head_rows()
        flagged = heads[(heads["is_anomaly"] == 1) & (heads["exit_us"] > 0)] if len(heads) else heads
        for entry_us, exit_us in zip(flagged["entry_us"].tolist(), flagged["exit_us"].tolist(), strict=True):
            self._wanted.append((entry_us, exit_us))

    def _send(self) -> None:
        while self._batches:
            batch = self._batches[0]
            self._broker.client.xadd(
                self._broker.keys.node_batches,
                {PAYLOAD: self._broker.seal.encode(batch)},
                maxlen=MOST_AT_BROKER,
                approximate=True,
            )
            self._batches.popleft()

    def _give_up(self, error: Exception) -> None:
        """Stop sampling; earlier samples are still sent."""
        self._is_closing.set()
        if self._failure is None:
            why = f"{type(error).__name__}: {error}"
            self._failure = (
                f"node {self._node} is not sampled any more ({why}): later incidents have no cause in it, "
                "and all else goes on"
            )
            log(self._failure)

    def _run(self) -> None:
        try:
            gpus = present_gpus() if self._is_first else None
            with closing(Collector(self._node, self._is_first, gpus)) as collector:
                collector.remember(take_early(self._folder))
                self._sample(collector)
        except Exception as error:
            self._give_up(error)

    def _sample(self, collector: Collector) -> None:
        # Of a program that is soon over, what was read before goes from the first period to the last.
        collector.period()
        period_due_s = time.monotonic() + PERIOD_S
        while not self._is_closing.wait(
            collector.fast_s if collector.has_ranks else min(collector.fast_s, LOOKOUT_S)
        ):
            self._learn(collector)
            if not collector.has_ranks:
                for pid in self._expected.look():
                    collector.expect(pid, time.time_ns() // 1000)
            collector.fast(time.time_ns() // 1000)
            for look in collector.looks():
                self._looks[look.pid].put(look.time_us, look.length_us, look.thread, look.is_asleep)
            if time.monotonic() >= period_due_s:
                period_due_s = max(period_due_s + PERIOD_S, time.monotonic())
                collector.period()
                self._answer(collector, time.time_ns() // 1000 - int(1e6 * SETTLED_S))
        self._learn(collector)
        collector.period()
        self._answer(collector, None)
        self._put(collector.due_sum(time.time_ns() // 1000, is_last=True))

    def _answer(self, collector: Collector, until_us: int | None) -> None:
        """Make ready the samples of calls that ended by then."""
        margin_us = int(1e6 * PERIOD_S)
        wanted = [self._wanted.popleft() for _ in range(len(self._wanted))]
        due = [one for one in wanted if until_us is None or one[1] < until_us]
        self._wanted.extend(one for one in wanted if until_us is not None and one[1] >= until_us)
        for begin_us, end_us in joined(due):
            self._put(collector.around([(begin_us - margin_us, end_us + margin_us)]))
        self._put(collector.losses())
        self._put(collector.due_sum(time.time_ns() // 1000))

    def _put(self, batch: NodeBatch | None) -> None:
        if batch is not None:
            self._batches.append(packed(batch))

    def _learn(self, collector: Collector) -> None:
        while self._news:
            program, rank, metadata = self._news.popleft()
            began = [one.value for one in metadata if one.key == BEGAN and one.value.isdecimal()]
            for one in metadata:
                if one.key == PID and one.value.isdecimal() and one.thread == 0:
                    pid = int(one.value)
                    # A stream of another machine, or another container, has numbers that mean nothing here.
                    if collector.was_there(pid):
                        self._pids[program, rank] = pid
                        self._looks[pid] = LooksFile(self._streams / f"{program}-{rank}" / LOOKS)
                        collector.watch(Watched(pid, program, rank), int(began[0]) if began else 0)
            for one in metadata:
                pid = self._pids.get((program, rank), 0)
                if pid and one.key == TID and one.value.isdecimal():
                    collector.name_thread(pid, int(one.value), one.thread)


def joined(intervals: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return the intervals in order, overlapping ones joined."""
    found: list[tuple[int, int]] = []
    for begin_us, end_us in sorted(intervals):
        if found and begin_us <= found[-1][1]:
            found[-1] = found[-1][0], max(found[-1][1], end_us)
        else:
            found.append((begin_us, end_us))
    return found
