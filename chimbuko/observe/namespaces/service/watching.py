"""The process that watches what the programs of a run publish, for as long as the run goes on."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import redis

from chimbuko.core.errors import ChimbukoError
from chimbuko.observe.namespaces.analyses.metricanomalies import MetricAnomalies
from chimbuko.observe.namespaces.analyses.metricfinding import Finding
from chimbuko.observe.namespaces.client.client import Client
from chimbuko.observe.namespaces.exchange.namespacereader import LOOK_PERIOD_S, Reader
from chimbuko.observe.namespaces.service.observations import LateObservations
from chimbuko.observe.namespaces.service.publishing import FindingsBoard
from chimbuko.observe.namespaces.service.viewsfile import ViewsFile
from chimbuko.observe.namespaces.sources.performance import PerformancePublisher
from chimbuko.runtime.process.lifetime import log, say_ready
from chimbuko.runtime.process.signals import StopSignal
from chimbuko.runtime.protocol.runbroker import RunBroker

NAMESPACE = "application"
"""Where programs publish of their computation."""


def watch(
    observations: LateObservations,
    board: FindingsBoard,
    views: ViewsFile,
    performance: PerformancePublisher,
    should_stop: Callable[[], bool],
) -> None:
    """Look for anomalies, publish what functions take, and keep what charts show, until asked to stop: of all
    that has come until then.
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
    """Forks share what this module imports."""


def main() -> None:
    """What the process does."""
    parser = argparse.ArgumentParser(prog="chimbuko.observe.namespaces.service", description=__doc__)
    parser.add_argument("--run-id", required=True)
    parser.add_argument("--since-us", type=int, default=0, help="What was published before is left out.")
    parser.add_argument("--parts", type=int, default=1, help="Of the parameter server.")
    parser.add_argument("--views", type=Path, required=True, help="File for what charts show.")
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
