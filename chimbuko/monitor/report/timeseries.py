"""An ADIOS2 time series of what was watched: a step for each period, a variable for each column."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from chimbuko.capture.trace.adios import adios2_bindings, adios2_reason
from chimbuko.capture.trace.discovery import BP_FILE
from chimbuko.core.errors import ConfigError
from chimbuko.monitor.procfs.gpuspan import BUSY, MEMORY, POWER, TEMPERATURE, GpuSpan
from chimbuko.monitor.sampling.identity import Identity
from chimbuko.monitor.sampling.span import Span

NO_RANK = -1
_THREADS = ("user_s", "system_s", "waited_s")
_COUNTS = ("voluntary", "involuntary", "minor_faults", "major_faults", "migrations", "processor")
_CORES = ("user_s", "system_s", "idle_s", "steal_s")
_PROCESSES = ("resident_bytes", "peak_bytes", "read_bytes", "written_bytes")
_GPUS = {"busy_percent": BUSY, "memory_used_gb": MEMORY, "power_w": POWER, "temperature_c": TEMPERATURE}

Column = npt.NDArray[np.float64] | npt.NDArray[np.int64]


class TimeSeriesWriter:
    """Writer of one file, in place of what was there.

    Parameters
    ----------
    path
        Path of the file, by habit ``*.bp``.
    node
        Its name, an attribute.
    goes_on
        Whether a file that is there is of this run, and gets further steps.

    Raises
    ------
    ConfigError
        It cannot be written.
    """

    def __init__(self, path: Path, node: str, goes_on: bool = False) -> None:
        try:
            self._adios2 = adios2 = adios2_bindings()
            self._adios = adios2.ADIOS()
            self._io = self._adios.DeclareIO("chimbuko monitor")
            self._io.SetEngine(BP_FILE)
            self._io.SetParameters({"Profile": "Off"})
            mode = adios2.Mode.Append if goes_on and path.exists() else adios2.Mode.Write
            self._engine = self._io.Open(str(path), mode)
        except Exception as error:
            raise ConfigError(
                f"{path}: no time series can be written there ({adios2_reason(error)})"
            ) from error
        self._io.DefineAttribute("node", node)
        self._variables: dict[str, Any] = {}
        self._named: set[str] = set()

    def write(self, span: Span, identities: Mapping[int, Identity]) -> None:
        """Append a period.

        Raises
        ------
        ConfigError
            It cannot be written any more.
        """
        columns = columns_of(span, identities)
        columns["time_s"] = np.array([time.time()])
        try:
            self._write(span, columns)
        except RuntimeError as error:
            raise ConfigError(adios2_reason(error)) from error

    def close(self) -> None:
        """End the file."""
        self._engine.Close()

    def _write(self, span: Span, columns: Mapping[str, Column]) -> None:
        self._engine.BeginStep()
        for tid, one in span.threads.items():
            name = f"thread {tid}"
            if name not in self._named:
                self._named.add(name)
                self._io.DefineAttribute(name, one.name)
        for name, column in columns.items():
            if len(column):
                self._put(name, column)
        # What was put is read until then.
        self._engine.EndStep()

    def _put(self, name: str, column: Column) -> None:
        count = [len(column)]
        if name not in self._variables:
            self._variables[name] = self._io.DefineVariable(name, column[:1], count, [0], count, False)
        variable = self._variables[name]
        variable.SetShape(count)
        variable.SetSelection([[0], count])
        self._engine.Put(variable, column, self._adios2.Mode.Deferred)


def columns_of(span: Span, identities: Mapping[int, Identity]) -> dict[str, Column]:
    """Return a period as columns: ``threads/tid`` and so on, f8 or i8[n]. Not known: NaN, and -1 for a
    rank.
    """
    threads, cores = list(span.threads.values()), list(span.cores.values())
    processes, gpus = list(span.processes.values()), list(span.gpus.items())
    return {
        "seconds": _floats([span.seconds]),
        "threads/tid": _integers(one.tid for one in threads),
        "threads/pid": _integers(one.pid for one in threads),
        "threads/rank": _integers(_rank(one.pid, identities) for one in threads),
        **{f"threads/{name}": _floats(getattr(one, name) for one in threads) for name in _THREADS},
        **{f"threads/{name}": _integers(getattr(one, name) for one in threads) for name in _COUNTS},
        "processes/pid": _integers(one.pid for one in processes),
        "processes/rank": _integers(_rank(one.pid, identities) for one in processes),
        **{f"processes/{name}": _integers(getattr(one, name) for one in processes) for name in _PROCESSES},
        "cores/cpu": _integers(one.cpu for one in cores),
        **{f"cores/{name}": _floats(getattr(one, name) for one in cores) for name in _CORES},
        "gpus/gpu": _integers(number for number, _ in gpus),
        **{
            f"gpus/{name}": _floats(_metric(one, metric) for _, one in gpus) for name, metric in _GPUS.items()
        },
        "node/memory_total_bytes": _integers([span.memory.total_bytes] if span.memory else []),
        "node/memory_available_bytes": _integers([span.memory.available_bytes] if span.memory else []),
        **{f"node/{name}_pressure_s": _floats([seconds]) for name, seconds in span.pressure_s.items()},
    }


def _rank(pid: int, identities: Mapping[int, Identity]) -> int:
    identity = identities.get(pid)
    return NO_RANK if identity is None or identity.rank is None else identity.rank


def _metric(gpu: GpuSpan, name: str) -> float | None:
    metric = gpu.metrics.get(name)
    return None if metric is None else metric.mean


def _floats(values: Iterable[float | None]) -> npt.NDArray[np.float64]:
    return np.array([np.nan if value is None else value for value in values], np.float64)


def _integers(values: Iterable[int]) -> npt.NDArray[np.int64]:
    return np.fromiter(values, np.int64)
