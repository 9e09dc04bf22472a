"""Writes one trace stream in TAU's layout, over SST or to a BP file."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np

from chimbuko.capture.trace.adios import adios2_bindings, adios2_reason
from chimbuko.capture.trace.discovery import BP_FILE, TAU_IO_NAME
from chimbuko.core.arrays import UInt64Array
from chimbuko.core.errors import TraceFormatError
from chimbuko.core.traceschema import (
    ARRAY_COLUMNS,
    ARRAY_COUNTS,
    COMMS,
    COUNTERS,
    DETAILS,
    EVENTS,
    NO_DETAILS,
    NO_OPERATIONS,
    OPERATIONS,
    SCALARS,
    StreamNames,
)

INT32_MAX = 2**31 - 1


class StreamWriter:
    """Writer of one stream; what it writes is indistinguishable from TAU's to a reader.

    Parameters
    ----------
    path
        The stream's path, ending in ``.bp``.
    engine
        ``SST``, ``BP4``, ``BP5`` or ``BPFile``; ignored where ``config_file`` is given.
    parameters
        Settings of the engine, such as ``QueueFullPolicy``; ignored where ``config_file`` is given.
    config_file
        ADIOS2 XML file with an ``<io name="TAU trace data">``, as ``TAU_ADIOS2_CONFIG_FILE``.
    """

    def __init__(
        self,
        path: Path,
        engine: str = BP_FILE,
        parameters: Mapping[str, str] | None = None,
        config_file: Path | None = None,
    ) -> None:
        self.path = path
        self._adios2 = adios2 = adios2_bindings()
        try:
            self._adios = adios2.ADIOS(str(config_file)) if config_file else adios2.ADIOS()
            self._io = self._adios.DeclareIO(TAU_IO_NAME)
            if config_file is None:
                self._io.SetEngine(engine)
                self._io.SetParameters(dict(parameters or {}))
            self._engine = self._io.Open(str(path), adios2.Mode.Write)
        except Exception as error:
            raise TraceFormatError(
                f"{path}: trace stream cannot be written ({adios2_reason(error)})"
            ) from error
        self._written: dict[str, str] = {}
        self._threads = 1
        self._variables: dict[str, Any] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End the stream; readers then see its end."""
        self._engine.Close()

    def write_step(
        self,
        events: UInt64Array,
        comms: UInt64Array,
        counters: UInt64Array,
        names: StreamNames,
        details: UInt64Array = NO_DETAILS,
        operations: UInt64Array = NO_OPERATIONS,
    ) -> None:
        """Write one step with all names known so far; only those that are new become attributes.

        Parameters
        ----------
        events, comms, counters
            uint64 arrays with 6, 8 and 6 columns; an empty one is left out, as TAU does.
        names
            All names the stream has used up to here.
        details, operations
            What TAU's layout does not have, with 2 and 10 columns; where they are empty nothing is written.
        """
        arrays = {EVENTS: events, COMMS: comms, COUNTERS: counters}
        scalars: dict[str, int] = dict.fromkeys(SCALARS, 1)
        highest = max(int(array[:, 2].max(initial=0)) for array in arrays.values())
        # A damaged trace that is replayed may hold absurd thread numbers.
        self._threads = max(self._threads, min(highest + 1, INT32_MAX))
        scalars["thread_count"] = self._threads
        scalars["event_type_count"] = len(names.event_types)
        scalars["timer_count"] = len(names.timers)
        scalars["counter_count"] = len(names.counters)
        self._engine.BeginStep()
        self._write_names(names)
        # Puts are deferred: what they refer to has to live until EndStep.
        held: list[np.ndarray[Any, Any]] = []
        for name, number in scalars.items():
            held.append(self._put_scalar(name, number, np.dtype(np.int32)))
        for name, array in arrays.items():
            held.append(self._put_scalar(ARRAY_COUNTS[name], len(array), np.dtype(np.uint64)))
            if len(array):
                held.append(self._put_array(name, array))
        if len(details):
            held.append(self._put_array(DETAILS, details))
        if len(operations):
            held.append(self._put_scalar(ARRAY_COUNTS[OPERATIONS], len(operations), np.dtype(np.uint64)))
            held.append(self._put_array(OPERATIONS, operations))
        self._engine.EndStep()
        held.clear()

    def _put_scalar(self, name: str, number: int, dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
        value = np.array([number], dtype)
        if name not in self._variables:
            self._variables[name] = self._io.DefineVariable(name, value)
        self._engine.Put(self._variables[name], value, self._adios2.Mode.Deferred)
        return value

    def _put_array(self, name: str, array: UInt64Array) -> UInt64Array:
        rows, columns = len(array), ARRAY_COLUMNS[name]
        contiguous = np.ascontiguousarray(array, np.uint64)
        if name not in self._variables:
            self._variables[name] = self._io.DefineVariable(
                name, contiguous[:1], [rows, columns], [0, 0], [rows, columns], False
            )
        variable = self._variables[name]
        variable.SetShape([rows, columns])
        variable.SetSelection([[0, 0], [rows, columns]])
        self._engine.Put(variable, contiguous, self._adios2.Mode.Deferred)
        return contiguous

    def _write_names(self, names: StreamNames) -> None:
        """Write each name once, as TAU does: over SST it travels with this step only."""
        attributes = {f"timer {number}": name for number, name in names.timers.items()}
        attributes |= {f"counter {number}": name for number, name in names.counters.items()}
        attributes |= {f"event_type {number}": name for number, name in names.event_types.items()}
        if names.program:
            attributes["program_name 0"] = names.program
        attributes |= {
            f"MetaData:{rank}:{thread}:{key}": value for (rank, thread, key), value in names.metadata.items()
        }
        for attribute, value in attributes.items():
            if attribute not in self._written:
                self._io.DefineAttribute(attribute, value)
                self._written[attribute] = value
