"""What a monitor does each period, be it a process of its own or a thread of the program."""

from __future__ import annotations

import os
import pickle
import socket
from collections.abc import Callable, Collection
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from chimbuko.monitor.findings.threads import stuck
from chimbuko.monitor.gpus.present import present_gpus
from chimbuko.monitor.report.csvwriter import CsvWriter
from chimbuko.monitor.report.heartbeat import heartbeat
from chimbuko.monitor.report.layout import report
from chimbuko.monitor.report.processlog import ProcessLogs
from chimbuko.monitor.report.profile import differences, load, profile_of, save
from chimbuko.monitor.report.prometheus import exposition, write_exposition
from chimbuko.monitor.sampling.identity import read_identity
from chimbuko.monitor.sampling.span import Span
from chimbuko.monitor.sampling.watch import Watch
from chimbuko.monitor.service.corechoice import better_core, last_core
from chimbuko.monitor.service.election import Election
from chimbuko.monitor.topology.sysfs import read_sysfs
from chimbuko.process.lifetime import log

if TYPE_CHECKING:
    from chimbuko.monitor.report.timeseries import TimeSeriesWriter

CHOOSE_AGAIN = 10
"""Periods between two looks for a better core; in the first of these it looks each time."""


@dataclass(frozen=True)
class Settings:
    """How a program is watched."""

    period_s: float = 1.0
    core: int | None = None
    """The sampler's; None where it is to choose."""
    csv: Path | None = None
    """Folder of tables and logs."""
    baseline: Path | None = None
    """Folder of the tables of a good run, with which this one is compared."""
    prometheus: Path | None = None
    """File that holds the newest values."""
    adios: Path | None = None
    """File of an ADIOS2 time series."""
    heartbeat: bool = False
    """A line each period."""
    publish: Callable[[], None] | None = None
    """Called each period by the one monitor that samples the node."""


class Session:
    """Watches a program, or lets another monitor of its job do so."""

    def __init__(self, root: int, settings: Settings, election: Election | None = None) -> None:
        self._root = root
        self._settings = settings
        self._election = election
        self._watch: Watch | None = None
        self._csv: CsvWriter | None = None
        self._logs: ProcessLogs | None = None
        self._series: TimeSeriesWriter | None = None
        self._node = socket.gethostname()
        self._said: set[tuple[int, ...]] = set()
        self._core: int | None = None
        self._allowed = sorted(os.sched_getaffinity(0))
        # Read now, so that it is said before the program runs that there is none.
        self._good = None if settings.baseline is None else load(settings.baseline, self._node)
        if election is not None:
            election.join(root)

    @property
    def watch(self) -> Watch | None:
        """None while another samples."""
        return self._watch

    def period(self, is_last: bool = False) -> Span | None:
        """Sample, where it is this monitor's to do so; what has happened since the last sample."""
        if self._watch is None and not self._begin():
            return None
        assert self._watch is not None
        if self._election is not None:
            self._watch.follow(self._election.roots())
        span = self._watch.step(closely=is_last)
        if self._logs is not None and self._watch.last is not None:
            self._logs.begin(self._watch.last, self._watch.identities)
        total = self._watch.total
        if span is None or total is None:
            return None
        self._say_what_stands_still(total)
        self._choose_core(span, total.periods)
        if self._csv is not None:
            self._csv.write(span, total, self._watch.identities)
        if self._series is not None:
            self._series.write(span, self._watch.identities)
        if self._settings.prometheus is not None:
            text = exposition(total, self._watch.identities, self._node)
            write_exposition(self._settings.prometheus, text)
        if self._settings.publish is not None:
            self._settings.publish()
        if self._settings.heartbeat:
            log(heartbeat(span, total))
        return span

    def end(self) -> list[str]:
        """Sample for the last time; the lines of the report, none where another monitor will report."""
        try:
            if self._election is not None and not self._election.leave(self._state):
                return []
            self.period(is_last=True)
            total = None if self._watch is None else self._watch.total
            if self._watch is None or total is None:
                return ["chimbuko: it ended before a sample could be taken"]
            if self._logs is not None:
                self._logs.end(total, self._watch.identities)
            return [*report(total, self._watch.identities, self._node), *self._compared(total)]
        finally:
            self._close()

    def _compared(self, total: Span) -> list[str]:
        """Keep what this run was like, and say how it differs from a good one."""
        assert self._watch is not None
        now = profile_of(total, self._watch.identities, self._node)
        if self._settings.csv is not None:
            save(now, self._settings.csv)
        if self._good is None:
            return []
        found = differences(self._good, now)
        lines = ["", f"Against {self._settings.baseline}:"]
        for one in found:
            lines += [f"{one.kind}: {one.text}", f"    {one.advice}"]
        return lines if found else [*lines, "no difference"]

    def _begin(self) -> bool:
        if self._election is not None and not self._election.lead():
            return False
        self._watch = Watch([self._root], present_gpus())
        if self._election is not None:
            handed = self._election.take_over()
            if handed:
                # Written by a process of this user into a folder that only this user may write.
                self._watch.total, self._watch.identities = pickle.loads(handed)
        if self._settings.csv is not None:
            self._csv = CsvWriter(self._settings.csv, self._node)
            # Not by lstopo, which would be a child of the program, where the sampler is a thread of that.
            self._logs = ProcessLogs(self._settings.csv, self._node, read_sysfs())
        if self._settings.adios is not None:
            from chimbuko.monitor.report.timeseries import TimeSeriesWriter

            self._series = TimeSeriesWriter(self._settings.adios, self._node)
        identity = read_identity(self._root)
        core = self._settings.core
        self._move_to(last_core([identity.cpus] if identity else [], self._allowed) if core is None else core)
        return True

    def _state(self) -> bytes:
        self.period(is_last=True)
        return b"" if self._watch is None else pickle.dumps((self._watch.total, self._watch.identities))

    def _choose_core(self, span: Span, periods: int) -> None:
        is_time = periods <= CHOOSE_AGAIN or periods % CHOOSE_AGAIN == 0
        if self._settings.core is None and self._core is not None and is_time:
            core = better_core(span, self._allowed, self._core)
            if core != self._core:
                self._move_to(core)

    def _move_to(self, core: int) -> None:
        self._core = core
        # Of the thread that calls: in a process of its own that is all of it.
        os.sched_setaffinity(0, {core})

    def _say_what_stands_still(self, total: Span) -> None:
        """While it goes on, since it may never end: once for each process, and again when it had gone on."""
        still: dict[tuple[int, ...], str] = {one.threads: f"{one.text}; {one.advice}" for one in stuck(total)}
        for threads in _new(still, self._said):
            log(still[threads])
        self._said = set(still)

    def _close(self) -> None:
        if self._watch is not None:
            self._watch.close()
        if self._csv is not None:
            self._csv.close()
        if self._series is not None:
            self._series.close()
        if self._election is not None:
            self._election.close()


def _new(now: Collection[tuple[int, ...]], before: set[tuple[int, ...]]) -> list[tuple[int, ...]]:
    return [threads for threads in now if threads not in before]
