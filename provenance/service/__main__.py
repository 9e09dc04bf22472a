"""Process of the writer: it takes what comes for one run into the store, and alerts people, until its end."""

from __future__ import annotations

import argparse
import os
import signal
import sys
from contextlib import suppress
from functools import partial
from pathlib import Path

from chimbuko.core.errors import ChimbukoError, ServiceError
from chimbuko.provenance.alerts.alertservice import AlertService
from chimbuko.provenance.alerts.sinks import sinks_of
from chimbuko.provenance.service.runstore import Destination
from chimbuko.provenance.service.service import WriterService, report, run_writer
from chimbuko.provenance.store.engine import StoreBusy, StoreDamaged
from chimbuko.provenance.store.urls import STORE_VARIABLE
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
        destination = Destination(
            options.store, options.run_id, info, options.alert_us, options.copy, is_urgent
        )
        broker = RunBroker.from_environment(options.run_id)
        alerts = [] if options.alert_us is None else [_alerts(broker, options.run_id, options.alert_us)]
        service = WriterService(broker, destination, [one.take for one in alerts])
        # Troubles that may pass are waited for below.
        with suppress(StoreBusy, StoreDamaged):
            service.open()
        say_ready(service="provenance")
        run_writer(service, should_stop)
        for one in alerts:
            one.stop()
    except ChimbukoError as error:
        log(str(error))
        sys.exit(error.exit_code)


def _alerts(broker: RunBroker, run_id: str, least_us: float) -> AlertService:
    return AlertService(run_id, least_us, broker, sinks_of(os.environ), partial(report, broker))


if __name__ == "__main__":
    main()
