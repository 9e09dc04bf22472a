"""The node beside the calls: samples while ranks run, of which those around flagged calls go to the store."""

from __future__ import annotations

import os
import threading
import time
from collections import deque
from collections.abc import Iterable

from chimbuko.calls.record import Metadata
from chimbuko.calls.recordarrays import PackedRecords
from chimbuko.monitor.collector.collector import PERIOD_S, Collector, Watched
from chimbuko.monitor.samples.nodebatch import NodeBatch
from chimbuko.process.lifetime import log
from chimbuko.protocol.messages import PAYLOAD
from chimbuko.protocol.runbroker import RunBroker

PID, TID = "pid", "tid"
"""Keys of a stream's metadata: which process it is of, and which thread of the kernel a thread."""
SETTLED_S = 0.1
"""Samples of a call are complete so long after the period in which it ended."""
MOST_WAITING = 256
"""Batches that the broker has not taken; the oldest are lost. They explain, and are no findings."""
MOST_AT_BROKER = 2_000
CLOSING_S = 5.0


class NodeWatch:
    """Samples in a thread of its own. Other threads note what streams found, and send what is due.

    Parameters
    ----------
    node
        Its name.
    is_first
        Whether this agent is the first of its node, which reports what is not of a rank.
    """

    def __init__(self, node: str, broker: RunBroker, is_first: bool) -> None:
        self._broker = broker
        self._collector = Collector(node, is_first)
        self._pids: dict[tuple[int, int], int] = {}
        self._news: deque[tuple[int, int, list[Metadata]]] = deque()
        self._wanted: deque[tuple[int, int]] = deque(maxlen=65_536)
        self._batches: deque[NodeBatch] = deque(maxlen=MOST_WAITING)
        self._is_closing = threading.Event()
        self._thread = threading.Thread(target=self._run, name="node monitor", daemon=True)
        self._thread.start()

    def note(self, program: int, rank: int, metadata: list[Metadata], records: PackedRecords) -> None:
        """What a stream has sent."""
        described = [one for one in metadata if one.key in (PID, TID)]
        if described:
            self._news.append((program, rank, described))
        heads = records.head_rows()
        flagged = heads[(heads["is_anomaly"] == 1) & (heads["exit_us"] > 0)] if len(heads) else heads
        for entry_us, exit_us in zip(flagged["entry_us"].tolist(), flagged["exit_us"].tolist(), strict=True):
            self._wanted.append((entry_us, exit_us))

    def send(self) -> None:
        """Hand over what is ready; raises ``redis.RedisError`` where the broker is away."""
        while self._batches:
            batch = self._batches[0]
            self._broker.client.xadd(
                self._broker.keys.node_batches,
                {PAYLOAD: self._broker.seal.encode(batch)},
                maxlen=MOST_AT_BROKER,
                approximate=True,
            )
            self._batches.popleft()

    def close(self) -> None:
        """No rank runs any more: what is wanted becomes ready."""
        self._is_closing.set()
        self._thread.join(CLOSING_S)

    def _run(self) -> None:
        try:
            self._sample()
        except Exception as error:
            log(f"the node is not watched any more: {type(error).__name__}: {error}")
        finally:
            self._collector.close()

    def _sample(self) -> None:
        collector = self._collector
        period_due_s = time.monotonic()
        while not self._is_closing.wait(collector.fast_s):
            self._learn()
            collector.fast(time.time_ns() // 1000)
            if time.monotonic() >= period_due_s:
                period_due_s = max(period_due_s + PERIOD_S, time.monotonic())
                collector.period()
                self._answer(time.time_ns() // 1000 - int(1e6 * SETTLED_S))
        collector.period()
        self._answer(None)
        self._put(collector.due_sum(time.time_ns() // 1000, is_last=True))

    def _answer(self, until_us: int | None) -> None:
        """Give what is asked of calls that ended by then."""
        margin_us = int(1e6 * PERIOD_S)
        wanted = [self._wanted.popleft() for _ in range(len(self._wanted))]
        due = [one for one in wanted if until_us is None or one[1] < until_us]
        self._wanted.extend(one for one in wanted if until_us is not None and one[1] >= until_us)
        for begin_us, end_us in joined(due):
            self._put(self._collector.around([(begin_us - margin_us, end_us + margin_us)]))
        self._put(self._collector.due_sum(time.time_ns() // 1000))

    def _put(self, batch: NodeBatch | None) -> None:
        if batch is not None:
            self._batches.append(batch)

    def _learn(self) -> None:
        while self._news:
            program, rank, metadata = self._news.popleft()
            for one in metadata:
                if one.key == PID and one.value.isdecimal() and one.thread == 0:
                    pid = int(one.value)
                    # A stream of another machine, or another container, has numbers that mean nothing here.
                    if os.path.isdir(f"/proc/{pid}"):
                        self._pids[program, rank] = pid
                        self._collector.watch(Watched(pid, program, rank))
            for one in metadata:
                pid = self._pids.get((program, rank), 0)
                if pid and one.key == TID and one.value.isdecimal():
                    self._collector.name_thread(pid, int(one.value), one.thread)


def joined(intervals: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """Intervals in order, those that overlap as one."""
    found: list[tuple[int, int]] = []
    for begin_us, end_us in sorted(intervals):
        if found and begin_us <= found[-1][1]:
            found[-1] = found[-1][0], max(found[-1][1], end_us)
        else:
            found.append((begin_us, end_us))
    return found
