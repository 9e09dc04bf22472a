"""Model of a run, what it has learned of its functions, as a file that later runs can begin with."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgspec
import numpy as np

from chimbuko.core.arrays import Float64Array
from chimbuko.core.config import AnalysisConfig
from chimbuko.core.errors import ConfigError
from chimbuko.core.files import contents, write_atomically
from chimbuko.core.statistics.schema import PackedTable, TableSchema, schema_of

FORMAT = 2
"""Version of the file format; others are refused."""


class Model(msgspec.Struct, frozen=True):
    """Statistics of functions, with the detector and the kind of runtime that they are for."""

    detector: str
    metric: str
    functions: list[tuple[str, str]]
    """Names of program and function."""
    table: Float64Array
    """Rows of the detector's table, float64[functions, width]."""

    @property
    def schema(self) -> TableSchema:
        """Schema of the table."""
        return schema_of(self.detector)


class _Head(msgspec.Struct):
    format: int


class _File(_Head):
    detector: str
    metric: str
    columns: list[tuple[str, int]]
    """Name and width of each column of the table."""
    functions: list[tuple[str, str]]
    table: PackedTable


def joined_models(models: Sequence[Model]) -> Model:
    """Join models, functions in order; of a function that several know, the row comes from the one that
    merges its calls: others have it from an earlier run.
    """
    calls_at = models[0].schema.slices["exclusive_us"].start
    known: dict[tuple[str, str], Float64Array] = {}
    for model in models:
        for function, row in zip(model.functions, model.table, strict=True):
            if function not in known or row[calls_at] > known[function][calls_at]:
                known[function] = row
    functions = sorted(known)
    table = np.array([known[function] for function in functions])
    return Model(
        models[0].detector,
        models[0].metric,
        functions,
        table.reshape(len(functions), models[0].schema.width),
    )


def save_model(path: Path, model: Model) -> None:
    """Write a model atomically: a reader finds the old model or the new one.

    Raises
    ------
    ConfigError
        The file cannot be written.
    """
    schema = model.schema
    columns = [(column.name, column.width) for column in schema.columns]
    file = _File(FORMAT, model.detector, model.metric, columns, model.functions, schema.pack(model.table))
    try:
        write_atomically(path, msgspec.msgpack.encode(file))
    except OSError as error:
        raise ConfigError(f"{path}: the model cannot be written ({error.strerror})") from error


def load_model(path: Path, config: AnalysisConfig) -> Model:
    """Read a model that the detector of ``config`` can judge by.

    Raises
    ------
    ConfigError
        The file is damaged, newer than this version can read, or made by another detector or of other
        runtimes.
    """
    try:
        content = contents(path)
        head = msgspec.msgpack.decode(content, type=_Head)
        if head.format > FORMAT:
            raise ConfigError(f"{path}: a model of format {head.format}; update chimbuko to read it")
        if head.format < FORMAT:
            raise ConfigError(f"{path}: made by an earlier version of chimbuko; learn it anew")
        file = msgspec.msgpack.decode(content, type=_File)
    except OSError as error:
        raise ConfigError(f"{path}: the model cannot be read ({error.strerror})") from error
    except msgspec.MsgspecError as error:
        raise ConfigError(f"{path}: not a model, or damaged ({error})") from error
    if (file.detector, file.metric) != (config.detector, config.metric):
        raise ConfigError(
            f"{path}: a model for --detector {file.detector} --metric {file.metric}; "
            f"not for {config.detector} and {config.metric}"
        )
    schema = schema_of(file.detector)
    if file.columns != [(column.name, column.width) for column in schema.columns]:
        raise ConfigError(f"{path}: its statistics are others than those of this version; learn it anew")
    try:
        table = schema.unpack(file.table)
    except (ValueError, IndexError) as error:
        raise ConfigError(f"{path}: not a model, or damaged ({error})") from error
    if len(table) != len(file.functions):
        raise ConfigError(f"{path}: damaged (its parts do not fit together)")
    return Model(file.detector, file.metric, file.functions, table)
