"""Process of the parameter server: reads deltas from the broker, publishes models and frames."""

from __future__ import annotations

import argparse
import os
import signal
import sys
import time
from functools import partial
from pathlib import Path

from chimbuko.core.config import DETECTORS, METRICS, AnalysisConfig
from chimbuko.core.errors import ChimbukoError
from chimbuko.core.statistics.model import Model, load_model, save_model
from chimbuko.core.statistics.schema import schema_of
from chimbuko.pserver.metrics import MetricsPort
from chimbuko.pserver.server import Server, StateFile
from chimbuko.pserver.state.runreport import write_report
from chimbuko.pserver.state.savedstate import read_state
from chimbuko.pserver.state.serverstate import ServerState
from chimbuko.runtime.process.lifetime import log, say_ready
from chimbuko.runtime.process.signals import StopSignal
from chimbuko.runtime.protocol.metricsplace import TOKEN_VARIABLE
from chimbuko.runtime.protocol.runbroker import RunBroker, wake_ourselves


def main() -> None:
    """Run the server until it is asked to end."""
    parser = argparse.ArgumentParser(prog="chimbuko.pserver", description=__doc__)
    parser.add_argument("--run-id", required=True)
    parser.add_argument("--part", type=int, default=0, help="which one this is, from 0 on")
    parser.add_argument("--parts", type=int, default=1, help="how many there are")
    parser.add_argument("--lockstep-streams", type=int, default=0)
    parser.add_argument("--detector", choices=DETECTORS, default=AnalysisConfig().detector)
    parser.add_argument("--metric", choices=METRICS, default=METRICS[0])
    parser.add_argument("--load-model", type=Path)
    parser.add_argument("--freeze", action="store_true")
    parser.add_argument("--save-model", type=Path, action="append", default=[])
    parser.add_argument("--state", type=Path, help="file from which a server that is started again goes on")
    parser.add_argument("--state-copy", type=Path, help="file that gets a copy of it now and then")
    parser.add_argument("--metrics", help="answer Prometheus at [WHERE:]PORT; port 0 for any that is free")
    parser.add_argument("--report", type=Path, help="file for all that is known at the end")
    options = parser.parse_args()
    try:
        config = AnalysisConfig(detector=options.detector, metric=options.metric)
        base = load_model(options.load_model, config) if options.load_model else None
        schema = schema_of(options.detector)
        state = ServerState(
            options.lockstep_streams,
            schema,
            base,
            options.freeze,
            time.time_ns(),
            options.part,
            options.parts,
        )
        saved = read_state(options.state) if options.state else None
        if saved is not None:
            state.restore(saved)
            log("continues from the saved state")
        metrics = (
            None if options.metrics is None else MetricsPort(options.metrics, os.environ[TOKEN_VARIABLE])
        )
        wake = partial(wake_ourselves, options.run_id)
        server = Server(
            RunBroker.from_environment(options.run_id),
            state,
            StateFile(options.state, options.state_copy),
            metrics,
            is_urgent=StopSignal(wake, signal.SIGTERM),
        )
        should_stop = StopSignal(wake)
        say_ready(service="pserver", **({"metrics": metrics.url} if metrics else {}))
        server.run(should_stop)
        for path in options.save_model:
            save_model(path, Model(options.detector, options.metric, *state.learned()))
        if options.report:
            model = next(map(str, options.save_model), "")
            write_report(options.report, state.report(model))
    except ChimbukoError as error:
        log(str(error))
        sys.exit(error.exit_code)


if __name__ == "__main__":
    main()
