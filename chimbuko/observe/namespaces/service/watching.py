"""Process that watches the publications of a run's programs, for as long as the run goes on.

It looks for anomalies, and keeps a file with the data of the dashboard's charts. Publications of
all namespaces count from the beginning of the run on, whoever serves them and whenever.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import redis

from chimbuko.core.errors import ChimbukoError
from chimbuko.core.files import write_atomically
from chimbuko.observe.namespaces.analyses.gathering import Gathered
from chimbuko.observe.namespaces.analyses.metricanomalies import MetricAnomalies
from chimbuko.observe.namespaces.analyses.metricfinding import Finding
from chimbuko.observe.namespaces.analyses.views import encode
from chimbuko.observe.namespaces.client.client import Client
from chimbuko.observe.namespaces.client.performance import PerformancePublisher
from chimbuko.observe.namespaces.exchange.namespacereader import (
    LOOK_PERIOD_S,
    MOST_AT_ONCE,
    Observation,
    Reader,
    Subscription,
)
from chimbuko.observe.namespaces.service.publishing import FindingsBoard
from chimbuko.runtime.process.lifetime import log, say_ready
from chimbuko.runtime.process.signals import StopSignal
from chimbuko.runtime.protocol.runbroker import RunBroker

TRY_AGAIN_S = 2.0


class LateObservations:
    """Observations from a service that may not be there yet.

    Parameters
    ----------
    open_reader
        Function that connects to the service; raises ``ChimbukoError`` where that is not possible now.
    since_us
        Time in µs since the epoch; earlier publications are left out.
    report
        Function that takes a line: once that the service cannot be used yet, and once that it can.
    """

    def __init__(
        self,
        open_reader: Callable[[], Reader],
        since_us: int,
        report: Callable[[str], None],
    ) -> None:
        self._open_reader = open_reader
        self._since_us = since_us
        self._report = report
        self._subscriptions: list[Subscription] = []
        self._try_at_s = 0.0
        self._is_missing = False
        self.has_caught_up = False
        """Whether all earlier publications have been read."""

    def new(self) -> list[Observation]:
        """Return the observations since the last call."""
        if not self._subscriptions:
            self._subscriptions = self._open()
        found = [one for subscription in self._subscriptions for one in subscription.new()]
        self.has_caught_up = bool(self._subscriptions) and len(found) < MOST_AT_ONCE
        return [one for one in found if one.time_us >= self._since_us]

    def _open(self) -> list[Subscription]:
        if time.monotonic() < self._try_at_s:
            return []
        try:
            # The connection lasts as long as the process.
            reader = self._open_reader()
            subscriptions = [reader.subscription(name, has_past=True) for name in reader.namespaces]
        except ChimbukoError as error:
            self._try_at_s = time.monotonic() + TRY_AGAIN_S
            if not self._is_missing:
                self._report(f"what programs publish is not watched yet: {error}")
            self._is_missing = True
            return []
        if self._is_missing:
            self._report("what programs publish is watched from now on")
        return subscriptions


PERIOD_S = 1.0
REST = 20.0
"""Ratio of the pause after writing to the time that writing took: large files are written less often."""


class ViewsFile:
    """File with the data of charts, gathered from observations and written now and then."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._gathered = Gathered()
        self._is_new = False
        self._due_s = 0.0
        self._has_failed = False

    def take(self, observation: Observation) -> None:
        """Add an observation."""
        self._gathered.take(observation)
        self._is_new = True

    def keep_up(self, is_last: bool = False) -> None:
        """Write the file if there is something new and that is due, or if it is for the last time."""
        began_s = time.monotonic()
        if not self._is_new or (began_s < self._due_s and not is_last):
            return
        try:
            write_atomically(self._path, encode(self._gathered.views), 0o600)
            self._is_new = False
        except OSError as error:
            # The watch goes on without it, and tries again.
            if not self._has_failed:
                log(f"{self._path}: cannot be written ({error.strerror}); the dashboard lacks what is new")
            self._has_failed = True
        self._due_s = began_s + PERIOD_S + REST * (time.monotonic() - began_s)


NAMESPACE = "application"
"""Namespace in which programs publish quantities of their computation."""


def watch(
    observations: LateObservations,
    board: FindingsBoard,
    views: ViewsFile,
    performance: PerformancePublisher,
    should_stop: Callable[[], bool],
) -> None:
    """Look for anomalies, publish the times of functions, and keep the data of charts, until asked to stop;
    all publications up to then count.
    """
    anomalies = MetricAnomalies()
    is_stopping = False
    while True:
        is_last, is_stopping = is_stopping, should_stop()
        new = observations.new()
        for observation in new:
            views.take(observation)
            performance.note(observation)
            if observation.namespace == NAMESPACE:
                for found in anomalies.take(observation):
                    _add(board, found)
        if is_last and not new:
            break
        if is_stopping:
            performance.finish()
        elif observations.has_caught_up:
            performance.keep_up()
        board.keep_up()
        views.keep_up()
        if not new and not is_stopping:
            time.sleep(LOOK_PERIOD_S)
    for found in anomalies.finish():
        _add(board, found)
    board.keep_up()
    views.keep_up(is_last=True)
    if board.left_out:
        log(f"{board.left_out} findings more are left out")


def _add(board: FindingsBoard, found: Finding) -> None:
    if board.add(found):
        log(found.sentence)


def load() -> None:
    """Load this module before forking: forks share its imports."""


def main() -> None:
    """Run the process."""
    parser = argparse.ArgumentParser(prog="chimbuko.observe.namespaces.service", description=__doc__)
    parser.add_argument("--run-id", required=True)
    parser.add_argument(
        "--since-us",
        type=int,
        default=0,
        help="Time in µs since the epoch; earlier publications are left out.",
    )
    parser.add_argument("--parts", type=int, default=1, help="Number of parts of the parameter server.")
    parser.add_argument("--views", type=Path, required=True, help="File for the data of charts.")
    options = parser.parse_args()
    should_stop = StopSignal()
    try:
        broker = RunBroker.from_environment(options.run_id)

        def report(line: str) -> None:
            log(line)
            with suppress(redis.RedisError):
                broker.notify_user(line)

        observations = LateObservations(Reader, options.since_us, report)
        performance = PerformancePublisher(broker, options.parts, lambda: Client(rank=0), report)
        say_ready(service="metricwatch")
        views = ViewsFile(options.views)
        watch(observations, FindingsBoard(broker), views, performance, should_stop)
    except ChimbukoError as error:
        log(str(error))
        sys.exit(error.exit_code)


if __name__ == "__main__":
    main()
