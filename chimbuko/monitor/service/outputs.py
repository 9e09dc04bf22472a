"""The files that a monitor leaves. One that cannot be written any more is given up: the program goes on."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from chimbuko.core.errors import ConfigError
from chimbuko.monitor.procfs.topology import read_sysfs
from chimbuko.monitor.report.csvwriter import CsvWriter
from chimbuko.monitor.report.processlog import ProcessLogs
from chimbuko.monitor.report.profile import Profile, save
from chimbuko.monitor.report.prometheus import exposition, write_exposition
from chimbuko.monitor.sampling.identity import Identity
from chimbuko.monitor.sampling.sample import Sample
from chimbuko.monitor.sampling.span import Span
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
