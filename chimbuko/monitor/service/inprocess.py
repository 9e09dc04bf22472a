"""A monitor as a thread of the program that it watches."""

from __future__ import annotations

import atexit
import os
import sys
import threading
from contextlib import suppress
from pathlib import Path

from chimbuko.core.errors import ConfigError
from chimbuko.core.names import visible
from chimbuko.monitor.procfs.numbers import format_cpulist
from chimbuko.monitor.service.election import Election, folder_of_job
from chimbuko.monitor.service.session import Session
from chimbuko.monitor.service.settings import Settings, check_folder
from chimbuko.runtime.process.lifetime import log
from chimbuko.runtime.process.ranks import stated_rank

SHORTEST_S, LONGEST_S = 0.05, 3600.0
NAME = "chimbuko-monitor"
_lock = threading.Lock()
_running: Monitor | None = None


class Monitor:
    """A monitor that runs; ``stop`` ends it, as the end of the program does."""

    def __init__(self, settings: Settings, report: Path | None) -> None:
        self._settings = settings
        self._report = report
        self.pid = os.getpid()
        self._end = threading.Event()
        self._lines: list[str] = []
        if report is not None:
            check_folder(report.parent)
        ranked = stated_rank(os.environ) is not None
        election = Election(folder_of_job(os.environ, os.getppid())) if ranked else None
        self._session = Session(settings, election)
        self._thread = threading.Thread(target=self._run, name=NAME, daemon=True)
        self._thread.start()

    def stop(self) -> list[str]:
        """Sample for the last time, and report.

        Returns
        -------
        list[str]
            The lines of the report; none if the monitor of another rank of this node reports.
        """
        global _running
        if os.getpid() != self.pid or self._end.is_set():
            # A child that was forked has no such thread.
            return self._lines
        self._end.set()
        self._thread.join()
        with _lock:
            _running = None
        atexit.unregister(self.stop)
        text = "".join(f"{visible(line)}\n" for line in self._lines)
        if self._lines and self._report is not None:
            try:
                self._report.write_text(text, encoding="utf-8")
            except OSError as error:
                log(f"{self._report}: the report cannot be written there ({error.strerror})")
        elif self._lines:
            # Into a notebook, too; that nobody reads it is no fault of the program's.
            with suppress(OSError, ValueError):
                print(text, end="", file=sys.stderr, flush=True)
        return self._lines

    def _run(self) -> None:
        # What "top -H" and the report show; Python gives its threads names of its own only.
        with suppress(OSError), open(f"/proc/self/task/{threading.get_native_id()}/comm", "w") as file:
            file.write(NAME)
        self._session.join([self.pid])
        self._session.period()
        while not self._end.wait(self._settings.period_s):
            self._session.period()
        self._lines = self._session.end()


def start(
    period_s: float = 1.0,
    core: int | None = None,
    csv: str | Path | None = None,
    report: str | Path | None = None,
) -> Monitor:
    """Watch this process, and all that it starts, from a thread of its own.

    If a node has several ranks, one samples for all. A second call returns the monitor that runs already.

    Parameters
    ----------
    period_s
        Seconds between two samples, 0.05 to 3600.
    core
        Core of the sampler's thread; by default the last of the mask that no worker uses, else the last one.
    csv
        Folder for tables in ZeroSum's columns.
    report
        File for the report, which goes to standard error by default, when the program ends.

    Raises
    ------
    ConfigError
        A period or a core that there is not, or a file that cannot be written.
    """
    global _running
    if not SHORTEST_S <= period_s <= LONGEST_S:
        raise ConfigError(f"period_s={period_s}: give between {SHORTEST_S} and {LONGEST_S:.0f}")
    allowed = os.sched_getaffinity(0)
    if core is not None and core not in allowed:
        raise ConfigError(f"core={core}: this process may use {format_cpulist(allowed)} only")
    with _lock:
        if _running is None or _running.pid != os.getpid():
            settings = Settings(period_s=period_s, core=core, csv=None if csv is None else Path(csv))
            _running = Monitor(settings, None if report is None else Path(report))
            atexit.register(_running.stop)
        return _running
