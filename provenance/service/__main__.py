"""Process of the writer: it takes what comes for one run into the store, and alerts people, until its end."""

from __future__ import annotations

import argparse
import os
import signal
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path

from chimbuko.core.errors import ChimbukoError, ServiceError
from chimbuko.provenance.alerts.alertservice import AlertService
from chimbuko.provenance.alerts.sinks import sinks_of
from chimbuko.provenance.service.runstore import Destination
from chimbuko.provenance.service.service import WriterService, report, run_writer
from chimbuko.provenance.store.engine import StoreBusy, StoreDamaged
from chimbuko.runtime.process.lifetime import log, say_ready
from chimbuko.runtime.process.signals import StopSignal
from chimbuko.runtime.protocol.runbroker import RunBroker, wake_ourselves
from chimbuko.runtime.runs.directory import RunDirectory
from chimbuko.runtime.runs.namedstores import STORE_VARIABLE


class StoreWriter:
    """The writer of one run's store, with its alerts, as its command line describes it.

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
        if not options.store:
            raise ServiceError(f"{STORE_VARIABLE} is not set: this process is started by 'chimbuko run'")
        run_id, least_us = options.run_id, options.alert_us
        info = None if options.own is None else RunDirectory(options.own).read_info()
        share = options.writer, options.writers
        destination = Destination(options.store, run_id, info, least_us, options.copy, is_urgent, *share)
        broker = RunBroker.from_environment(run_id, writer=options.writer)
        self._alerts: list[AlertService] = []
        if least_us is not None and not options.writer:
            said = partial(report, broker)
            self._alerts.append(AlertService(run_id, least_us, broker, sinks_of(os.environ), said))
        self._service = WriterService(broker, destination, [one.take for one in self._alerts])
        # Troubles that may pass are waited for later.
        with suppress(StoreBusy, StoreDamaged):
            self._service.open()

    def run(self, should_stop: Callable[[], bool]) -> None:
        """Write until asked to stop and nothing is left to write; errors are those of ``run_writer``."""
        run_writer(self._service, should_stop)
        for one in self._alerts:
            one.stop()


def parsed(words: Sequence[str]) -> argparse.Namespace:
    """Parse the command line of the writer."""
    parser = argparse.ArgumentParser(prog="chimbuko.provenance", description=__doc__)
    parser.add_argument("--run-id", required=True)
    parser.add_argument(
        "--store", default=os.environ.get(STORE_VARIABLE), help=f"URL; default ${STORE_VARIABLE}"
    )
    parser.add_argument(
        "--own", metavar="RUN", type=Path, help="Folder of the run, where the store is the run's own."
    )
    parser.add_argument("--alert-us", type=float, help="Severity from which a call is worth an alert.")
    parser.add_argument("--writers", type=int, default=1, help="Number of processes that write records.")
    parser.add_argument(
        "--writer",
        type=int,
        default=0,
        help="Number of this one of several, from 1 on; 0 for the process that does all else.",
    )
    parser.add_argument("--copy", type=Path, help="File that gets a copy of the store now and then.")
    return parser.parse_args(words)


def main() -> None:
    """Write into the store until asked to end."""
    options = parsed(sys.argv[1:])
    wake = partial(wake_ourselves, options.run_id)
    should_stop, is_urgent = StopSignal(wake), StopSignal(wake, signal.SIGTERM)
    try:
        writer = StoreWriter(options, is_urgent)
        say_ready(service="provenance")
        writer.run(should_stop)
    except ChimbukoError as error:
        log(str(error))
        sys.exit(error.exit_code)


if __name__ == "__main__":
    main()
