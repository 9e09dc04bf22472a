"""The writer's process: takes what comes for one run into the store until it is asked to end."""

from __future__ import annotations

import argparse
import os
import signal
import sys
from contextlib import suppress
from functools import partial
from pathlib import Path

from chimbuko.core.errors import ChimbukoError, ServiceError
from chimbuko.provenance.alerts.sinks import sinks_of
from chimbuko.provenance.store.engine import StoreBusy, StoreDamaged
from chimbuko.provenance.store.urls import STORE_VARIABLE
from chimbuko.provenance.write.service import Destination, WriterService, run_writer
from chimbuko.runtime.process.lifetime import log, say_ready
from chimbuko.runtime.process.signals import StopSignal
from chimbuko.runtime.protocol.runbroker import RunBroker, wake_ourselves
from chimbuko.runtime.runs.directory import RunDirectory


def main() -> None:
    """Write into the store until asked to end."""
    parser = argparse.ArgumentParser(prog="chimbuko.provenance", description=__doc__)
    parser.add_argument("--run-id", required=True)
    parser.add_argument(
        "--store", default=os.environ.get(STORE_VARIABLE), help=f"URL; default ${STORE_VARIABLE}"
    )
    parser.add_argument(
        "--own", metavar="RUN", type=Path, help="Folder of the run, where the store is the run's own."
    )
    parser.add_argument("--alert-us", type=float, help="Severity from which on a call is worth an alert.")
    parser.add_argument("--copy", type=Path, help="File that gets a copy of the store now and then.")
    options = parser.parse_args()
    wake = partial(wake_ourselves, options.run_id)
    should_stop, is_urgent = StopSignal(wake), StopSignal(wake, signal.SIGTERM)
    try:
        if not options.store:
            raise ServiceError(f"{STORE_VARIABLE} is not set: this process is started by 'chimbuko run'")
        info = None if options.own is None else RunDirectory(options.own).read_info()
        sinks = [] if options.alert_us is None else sinks_of(os.environ)
        destination = Destination(
            options.store, options.run_id, info, options.alert_us, sinks, options.copy, is_urgent
        )
        service = WriterService(RunBroker.from_environment(options.run_id), destination)
        # Troubles that may pass are waited for below.
        with suppress(StoreBusy, StoreDamaged):
            service.open()
        say_ready(service="provenance")
        run_writer(service, should_stop)
    except ChimbukoError as error:
        log(str(error))
        sys.exit(error.exit_code)


if __name__ == "__main__":
    main()
