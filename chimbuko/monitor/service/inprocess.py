"""A monitor as a thread of the program that it watches."""

from __future__ import annotations

import atexit
import os
import sys
import threading
from pathlib import Path

from chimbuko.errors import ConfigError
from chimbuko.monitor.procfs.cpulist import format_cpulist
from chimbuko.monitor.service.election import Election, folder_of_job
from chimbuko.monitor.service.session import Session, Settings
from chimbuko.process.ranks import stated_rank

SHORTEST_S, LONGEST_S = 0.05, 3600.0
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
        self._thread = threading.Thread(target=self._run, name="chimbuko-monitor", daemon=True)
        self._thread.start()

    def stop(self) -> list[str]:
        """Sample for the last time, and report.

        Returns
        -------
        list[str]
            The lines of the report; none where the monitor of another rank of this node reports.
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
        if self._lines and self._report is not None:
            self._report.write_text("\n".join(self._lines) + "\n", encoding="utf-8")
        elif self._lines:
            print("\n".join(self._lines), file=sys.stderr)
        return self._lines

    def _run(self) -> None:
        ranked = stated_rank(os.environ) is not None
        session = Session(
            os.getpid(), self._settings, Election(folder_of_job(os.environ, os.getppid())) if ranked else None
        )
        session.period()
        while not self._end.wait(self._settings.period_s):
            session.period()
        self._lines = session.end()


def start(
    period_s: float = 1.0,
    core: int | None = None,
    csv: str | Path | None = None,
    report: str | Path | None = None,
) -> Monitor:
    """Watch this process, and all that it starts, from a thread of its own.

    Of several ranks on a node one samples for all. A second call gives what runs already.

    Parameters
    ----------
    period_s
        Seconds between two samples, 0.05 to 3600.
    core
        Where the sampler's thread runs; by default the last of the mask, beside no worker where one is free.
    csv
        Folder for tables in ZeroSum's columns.
    report
        File for the report, which goes to standard error by default, when the program ends.

    Raises
    ------
    ConfigError
        A period or a core that there is not.
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
