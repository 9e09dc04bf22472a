"""Process of the parameter server: reads deltas from the broker, publishes models and frames."""

from __future__ import annotations

import argparse
import os
import signal
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from chimbuko.core.config import METRICS, AnalysisConfig
from chimbuko.core.errors import ChimbukoError
from chimbuko.core.statistics.model import Model, load_model, save_model
from chimbuko.core.statistics.schema import schema_of
from chimbuko.pserver.leafserver import LeafPlace, LeafServer
from chimbuko.pserver.metrics import MetricsPort
from chimbuko.pserver.server import Server, StateFile
from chimbuko.pserver.state.runreport import write_report
from chimbuko.pserver.state.savedstate import read_state
from chimbuko.pserver.state.serverstate import ServerState
from chimbuko.runtime.process.lifetime import log, say_ready
from chimbuko.runtime.process.signals import StopSignal
from chimbuko.runtime.protocol.brokerplace import TOKEN_VARIABLE
from chimbuko.runtime.protocol.runbroker import RunBroker, wake_ourselves


class ServerPart:
    """The parameter server of one run, or one part of it, as its command line describes it.

    Parameters
    ----------
    options
        Its command line, as ``parsed`` returns it.
    is_urgent
        Whether the process may be killed soon, and its node be gone.

    Raises
    ------
    ChimbukoError
        It cannot begin.
    """

    def __init__(self, options: argparse.Namespace, is_urgent: Callable[[], bool]) -> None:
        self._options = options
        config = AnalysisConfig(detector=options.detector, metric=options.metric)
        base = load_model(options.load_model, config) if options.load_model else None
        schema = schema_of(options.detector)
        counts = options.part, options.parts
        self._state = ServerState(
            options.lockstep_streams, schema, base, options.freeze, time.time_ns(), *counts
        )
        saved = read_state(options.state) if options.state else None
        if saved is not None:
            self._state.restore(saved)
            log("continues from the saved state")
        metrics = None
        if options.metrics is not None:
            metrics = MetricsPort(options.metrics, os.environ[TOKEN_VARIABLE])
        self.facts = {"metrics": metrics.url} if metrics else {}
        """Facts that the process reports when it is ready."""
        broker, place = (
            RunBroker.from_environment(options.run_id),
            StateFile(options.state, options.state_copy),
        )
        self._server = Server(broker, self._state, place, metrics, is_urgent)

    def run(self, should_stop: Callable[[], bool]) -> None:
        """Serve until asked to stop and nothing is left to merge; then write what was learned.

        Raises
        ------
        ChimbukoError
            It cannot be written.
        """
        options, state = self._options, self._state
        self._server.run(should_stop)
        for path in options.save_model:
            save_model(path, Model(options.detector, options.metric, *state.learned()))
        if options.report:
            model = next(map(str, options.save_model), "")
            write_report(options.report, state.report(model))


def leaf_server(options: argparse.Namespace) -> LeafServer:
    """Return the leaf server that a command line describes."""
    place = LeafPlace(options.leaf, options.leaves, options.parts, tuple(options.names))
    return LeafServer(RunBroker.from_environment(options.run_id), schema_of(options.detector), place)


def parsed(words: Sequence[str]) -> argparse.Namespace:
    """Parse the command line of the server."""
    parser = argparse.ArgumentParser(prog="chimbuko.pserver", description=__doc__)
    parser.add_argument("--run-id", required=True)
    parser.add_argument("--part", type=int, default=0, help="number of this part, from 0")
    parser.add_argument("--parts", type=int, default=1, help="number of parts")
    parser.add_argument("--lockstep-streams", type=int, default=0)
    parser.add_argument("--detector", default=AnalysisConfig().detector)
    parser.add_argument("--metric", choices=METRICS, default=METRICS[0])
    parser.add_argument("--load-model", type=Path)
    parser.add_argument("--freeze", action="store_true")
    parser.add_argument("--save-model", type=Path, action="append", default=[])
    parser.add_argument("--state", type=Path, help="file from which a server that is started again goes on")
    parser.add_argument("--state-copy", type=Path, help="file that gets a copy of it now and then")
    parser.add_argument("--metrics", help="answer Prometheus at [WHERE:]PORT; port 0 for any that is free")
    parser.add_argument("--leaf", type=int, default=0, help="be the leaf server of this number, from 1")
    parser.add_argument("--leaves", type=int, default=0, help="number of leaf servers")
    parser.add_argument(
        "--names", type=Path, action="append", default=[], help="file from which a leaf server goes on"
    )
    parser.add_argument("--report", type=Path, help="file for all that is known at the end")
    return parser.parse_args(words)


def main() -> None:
    """Run the server until it is asked to end."""
    options = parsed(sys.argv[1:])
    wake = partial(wake_ourselves, options.run_id)
    try:
        is_urgent = StopSignal(wake, signal.SIGTERM)
        if options.leaf:
            leaf, should_stop = leaf_server(options), StopSignal(wake)
            say_ready(service="leaf server")
            leaf.run(should_stop)
            return
        server = ServerPart(options, is_urgent)
        should_stop = StopSignal(wake)
        say_ready(service="pserver", **server.facts)
        server.run(should_stop)
    except ChimbukoError as error:
        log(str(error))
        sys.exit(error.exit_code)


if __name__ == "__main__":
    main()
