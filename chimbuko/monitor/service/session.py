"""One period of a monitor, in a process of its own or in a thread of the program, and the files that it
leaves.
"""

from __future__ import annotations

import os
import pickle
import socket
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from chimbuko.core.errors import ConfigError
from chimbuko.monitor.procfs.gpus import present_gpus
from chimbuko.monitor.procfs.topology import read_sysfs
from chimbuko.monitor.report.csvwriter import CsvWriter
from chimbuko.monitor.report.finding import workers
from chimbuko.monitor.report.layout import heartbeat, report
from chimbuko.monitor.report.limits import memory_filling
from chimbuko.monitor.report.processlog import ProcessLogs
from chimbuko.monitor.report.profile import Profile, differences, load, profile_of, save
from chimbuko.monitor.report.prometheus import exposition, write_exposition
from chimbuko.monitor.report.threads import deadlocked, stuck
from chimbuko.monitor.sampling.identity import Identity, read_identity
from chimbuko.monitor.sampling.sample import SAMPLER, Sample
from chimbuko.monitor.sampling.span import Span
from chimbuko.monitor.sampling.watch import Watch
from chimbuko.monitor.service.election import Election
from chimbuko.monitor.service.settings import Settings
from chimbuko.runtime.process.lifetime import log
from chimbuko.runtime.process.starting import one_blas_thread

if TYPE_CHECKING:
    from chimbuko.monitor.report.timeseries import TimeSeriesWriter


class Outputs:
    """Tables, logs and exports of one node.

    Parameters
    ----------
    goes_on
        Whether another monitor of this job has begun the files.
    """

    def __init__(self, settings: Settings, node: str, goes_on: bool) -> None:
        self._settings = settings
        self._node = node
        self._given_up: set[Path] = set()
        self._csv: CsvWriter | None = None
        self._logs: ProcessLogs | None = None
        self._series: TimeSeriesWriter | None = None
        if settings.csv is not None:
            self._csv = CsvWriter(settings.csv, node, goes_on)
            # Not by lstopo, which would be a child of the program, where the sampler is a thread of that.
            self._logs = ProcessLogs(settings.csv, node, read_sysfs())
        self._try(settings.adios, partial(self._open_series, goes_on))

    def begin(self, sample: Sample, identities: Mapping[int, Identity]) -> None:
        """Write the logs of processes that are new in a sample."""
        if self._logs is not None:
            self._try(self._settings.csv, partial(self._logs.begin, sample, identities))

    def write(self, span: Span, total: Span, identities: Mapping[int, Identity]) -> None:
        """Append a period."""
        if self._csv is not None:
            locks = self._settings.lock_counts()
            self._try(self._settings.csv, partial(self._csv.write, span, total, identities, locks))
        if self._series is not None:
            self._try(self._settings.adios, partial(self._series.write, span, identities))
        if self._settings.prometheus is not None:
            text = exposition(total, identities, self._node)
            self._try(self._settings.prometheus, partial(write_exposition, self._settings.prometheus, text))

    def end(self, total: Span, identities: Mapping[int, Identity], profile: Profile) -> None:
        """Write what was done in all of the time."""
        if self._logs is not None and self._settings.csv is not None:
            locks = self._settings.lock_counts()
            self._try(self._settings.csv, partial(self._logs.end, total, identities, locks))
            self._try(self._settings.csv, partial(save, profile, self._settings.csv))

    def close(self) -> None:
        """End all files."""
        if self._csv is not None:
            self._try(self._settings.csv, self._csv.close)
        if self._series is not None:
            self._try(self._settings.adios, self._series.close)

    def _open_series(self, goes_on: bool) -> None:
        # Loaded here since it needs NumPy and ADIOS2, which the monitor of a program does not.
        with one_blas_thread():
            from chimbuko.monitor.report.timeseries import TimeSeriesWriter

        assert self._settings.adios is not None
        self._series = TimeSeriesWriter(self._settings.adios, self._node, goes_on)

    def _try(self, path: Path | None, write: Callable[[], None]) -> None:
        if path is None or path in self._given_up:
            return
        try:
            write()
        except (OSError, ConfigError) as error:
            self._given_up.add(path)
            reason = error.strerror if isinstance(error, OSError) else str(error)
            log(f"{path}: cannot be written to ({reason}); nothing more is, and the program goes on")


def last_core(masks: Iterable[Iterable[int]], allowed: Iterable[int]) -> int:
    """Return the core on which the sampler begins: the last core of the masks that it may use, or the last
    that it may use.
    """
    may = set(allowed)
    wanted = may & {cpu for mask in masks for cpu in mask}
    return max(wanted or may)


def better_core(span: Span, allowed: Collection[int], current: int) -> int:
    """Return the last core without a worker, where the current one has one; else the current one.

    A worker takes the core that it is bound to, or the one on which it ran last.
    """
    taken = {one.cpus[0] if len(one.cpus) == 1 else one.processor for one in workers(span)}
    free = set(allowed) - taken
    return max(free) if free and current in taken else current


CHOOSE_AGAIN = 10
"""Periods between two looks for a better core; in the first of these it looks each time."""


class Session:
    """Watches programs, or lets another monitor of its job do so.

    It is made before they are started, so that what cannot be done is said before that.

    Raises
    ------
    ConfigError
        There is no good run to compare with, or a file cannot be written.
    """

    def __init__(self, settings: Settings, election: Election | None = None) -> None:
        settings.check()
        self._roots: list[int] = []
        self._settings = settings
        self._election = election
        self._watch: Watch | None = None
        self._outputs: Outputs | None = None
        self._node = socket.gethostname()
        self._said: set[tuple[int, ...]] = set()
        self._has_said_full = False
        self._core: int | None = None
        self._allowed = sorted(os.sched_getaffinity(0))
        self._good = None if settings.baseline is None else load(settings.baseline, self._node)
        if election is not None:
            try:
                election.meet()
            except ConfigError as error:
                # Anybody can foresee the folder's name, and take it; that is no reason for a rank not to run.
                log(f"{error}; each rank's monitor samples for itself")
                self._election = None

    def join(self, roots: Sequence[int]) -> None:
        """Begin with these processes."""
        self._roots += roots
        if self._election is not None:
            for root in roots:
                self._election.join(root)

    @property
    def watch(self) -> Watch | None:
        """Watch of this monitor; None while another monitor samples."""
        return self._watch

    def period(self, is_last: bool = False) -> Span | None:
        """Sample, where it is this monitor's to do so; what has happened since the last sample."""
        if self._watch is None and not self._begin():
            return None
        assert self._watch is not None
        if self._election is not None:
            self._watch.follow(self._election.roots())
        span = self._watch.step(closely=is_last)
        if self._outputs is not None and self._watch.last is not None:
            self._outputs.begin(self._watch.last, self._watch.identities)
        total = self._watch.total
        if span is None or total is None:
            return None
        self._say_what_stands_still(total)
        self._say_what_fills(total)
        self._choose_core(span, total.periods)
        if self._outputs is not None:
            self._outputs.write(span, total, self._watch.identities)
        if self._settings.publish is not None:
            self._settings.publish()
        if self._settings.heartbeat:
            log(heartbeat(span, total))
        return span

    def end(self) -> list[str]:
        """Sample for the last time, and return the lines of the report; none if another monitor will
        report.
        """
        try:
            if self._election is not None and not self._election.leave(self._state):
                return []
            self.period(is_last=True)
            total = None if self._watch is None else self._watch.total
            if self._watch is None or total is None or not _is_any_seen(total):
                return [
                    f"It ended within its first period ({1000 * self._settings.period_s:.0f} ms), so that "
                    "nothing was seen of it: give a shorter --period"
                ]
            now = profile_of(total, self._watch.identities, self._node)
            if self._outputs is not None:
                self._outputs.end(total, self._watch.identities, now)
            locks = self._settings.lock_counts()
            lines = report(total, self._watch.identities, self._node, locks=locks)
            return [*lines, *self._compared(now)]
        finally:
            self._close()

    def _compared(self, now: Profile) -> list[str]:
        """Return the differences of this run from a good one."""
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
        self._watch = Watch(self._roots, present_gpus())
        if self._election is not None:
            handed = self._election.take_over()
            if handed:
                # Written by a process of this user into a folder that only this user may write.
                self._watch.total, self._watch.identities = pickle.loads(handed)
        goes_on = self._election is not None and not self._election.is_first
        self._outputs = Outputs(self._settings, self._node, goes_on)
        identity = read_identity(self._roots[0])
        core = self._settings.core
        self._move_to(last_core([identity.cpus] if identity else [], self._allowed) if core is None else core)
        return True

    def _state(self) -> bytes:
        self.period(is_last=True)
        if self._outputs is not None:
            # Who samples next goes on with the files, and begins as soon as this is handed over.
            self._outputs.close()
            self._outputs = None
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
        found = (*deadlocked(total), *stuck(total))
        still: dict[tuple[int, ...], str] = {one.threads: f"{one.text}; {one.advice}" for one in found}
        for threads in _new(still, self._said):
            log(still[threads])
        self._said = set(still)

    def _say_what_fills(self, total: Span) -> None:
        """While there is time to act, once each time that it begins."""
        if total.filling is not None and not self._has_said_full:
            for one in memory_filling(total):
                log(f"{one.text}; {one.advice}")
        self._has_said_full = total.filling is not None

    def _close(self) -> None:
        if self._watch is not None:
            self._watch.close()
        if self._outputs is not None:
            self._outputs.close()
        if self._election is not None:
            if self._settings.locks is not None and self._election.leads:
                self._settings.locks.close()
            self._election.close()


def _new(now: Collection[tuple[int, ...]], before: set[tuple[int, ...]]) -> list[tuple[int, ...]]:
    return [threads for threads in now if threads not in before]


def _is_any_seen(total: Span) -> bool:
    return any(thread.kind != SAMPLER for thread in total.threads.values())
