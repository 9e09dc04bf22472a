"""Statistics of a series' runs: packed for the index, and merged to what the next run begins with."""

from __future__ import annotations

import zlib
from collections.abc import Sequence

import msgspec
import numpy as np

from chimbuko.causes.incidents.drift import OF_RUN, Drift, Stretch, drift_over
from chimbuko.core.arrays import Float64Array, Int64Array
from chimbuko.core.errors import StoreError
from chimbuko.core.statistics.model import Model
from chimbuko.core.statistics.schema import PackedTable, TableSchema, schema_of, stored_columns
from chimbuko.core.unpacking import unpacked
from chimbuko.provenance.query.run import Provenance

KEPT = 0.8
"""Weight of a run relative to the next newer one: of 20 runs the oldest counts for 1 %."""
MOST_CALLS = 1000.0
"""Maximum number of calls that a function begins with: its own calls outweigh them after as many, which is
one era of the server's memory.
"""
MOST_MODEL_BYTES = 150_000
LEAST_RUNS = 3
"""Number of good runs from which a series has a model of its own."""
MOST_RUNS = 20
"""Number of runs that are merged."""


class _Packed(msgspec.Struct, frozen=True):
    detector: str
    metric: str
    functions: list[tuple[str, str]]
    table: PackedTable


def own_model(provenance: Provenance) -> Model:
    """Return what a run has learned of its own calls, without the model that it began with; functions with
    most time first.

    Raises
    ------
    StoreError
        The store cannot be read.
    """
    config = provenance.run().config
    schema, programs, times = schema_of(config.detector), provenance.programs(), provenance.function_times()
    newest = {(one.program, one.name): one for one in provenance.models.newest()}
    found = []
    for one in provenance.function_statistics():
        key = one.program, one.name
        row, calls = schema.empty(1)[0], float(times[key].counted if key in times else one.calls)
        if "buckets" in schema.slices and key in newest:
            counted = stored_columns(config.detector, newest[key].row).get("counted")
            row[schema.slices["buckets"]] = 0.0 if counted is None else counted
            calls = float(row[schema.slices["buckets"]].sum())
        if not calls:
            continue
        squares = one.exclusive_stddev_us**2 * max(0.0, calls - 1.0)
        low, high = one.exclusive_minimum_us, one.exclusive_maximum_us
        # Higher moments are not stored, and no detector takes them.
        row[schema.slices["exclusive_us"]] = calls, one.exclusive_mean_us, squares, 0.0, 0.0, low, high
        longest = one.inclusive_maximum_us
        row[schema.slices["inclusive_us"]] = calls, one.inclusive_mean_us, 0.0, 0.0, 0.0, 0.0, longest
        found.append(
            (-calls * one.exclusive_mean_us, (programs.get(one.program, str(one.program)), one.name), row)
        )
    found.sort(key=lambda one: one[:2])
    table = np.array([row for _, _, row in found]).reshape(len(found), schema.width)
    return Model(config.detector, config.metric, [name for _, name, _ in found], table)


def packed_model(model: Model, most_bytes: int = MOST_MODEL_BYTES) -> bytes:
    """Pack a model; where that is too large, without the functions that stand last."""
    count = len(model.functions)
    while True:
        table = model.schema.pack(model.table[:count])
        whole = zlib.compress(
            msgspec.msgpack.encode(_Packed(model.detector, model.metric, model.functions[:count], table))
        )
        if len(whole) <= most_bytes or not count:
            return whole
        count = min(count - 1, int(0.95 * count * most_bytes / len(whole)))


def merged_prior(models: Sequence[bytes], detector: str, metric: str) -> Model | None:
    """Return the model that a run begins with; None if none of the runs judged in the same way.

    Parameters
    ----------
    models
        Packed statistics of good runs, the newest first; damaged ones are left out.
    """
    schema = schema_of(detector)
    calls_at, numbers = schema.slices["exclusive_us"].start, dict[tuple[str, str], int]()
    parts: list[tuple[Int64Array, float, Float64Array]] = []
    for packed in models:
        try:
            one = msgspec.msgpack.decode(unpacked(packed), type=_Packed)
            table = schema.unpack(one.table)
        except (StoreError, msgspec.MsgspecError, ValueError, IndexError):
            continue
        if (one.detector, one.metric) == (detector, metric) and len(table) == len(one.functions):
            rows = np.array(
                [numbers.setdefault(function, len(numbers)) for function in one.functions], np.int64
            )
            parts.append((rows, KEPT ** len(parts), table))
    if not numbers:
        return None
    calls = np.zeros(len(numbers))
    for rows, weight, table in parts:
        calls[rows] += weight * table[:, calls_at]
    merged, scale = schema.empty(len(numbers)), np.minimum(1.0, MOST_CALLS / np.maximum(calls, 1e-9))
    for rows, weight, table in parts:
        schema.merge(merged, rows, _weighted(schema, table, weight * scale[rows]))
    return Model(detector, metric, list(numbers), merged)


def _weighted(schema: TableSchema, table: Float64Array, weights: Float64Array) -> Float64Array:
    """Return rows as if they were of other numbers of calls, float64[functions, width]."""
    weighted = table.copy()
    for name in ("exclusive_us", "inclusive_us"):
        # Number and sums of powers, not mean and bounds.
        at = schema.slices[name].start
        weighted[:, [at, at + 2, at + 3, at + 4]] *= weights[:, None]
    if "buckets" in schema.slices:
        weighted[:, schema.slices["buckets"]] *= weights[:, None]
    return weighted


def slower_than(prior: Model, packed: bytes) -> list[Drift]:
    """Return the functions all of whose calls take longer in a run than in its series, those that cost most
    first.

    Parameters
    ----------
    packed
        Packed statistics of the run.
    """
    one = msgspec.msgpack.decode(unpacked(packed), type=_Packed)
    table = prior.schema.unpack(one.table)
    usual = dict(zip(prior.functions, prior.table, strict=True))
    run_us = sum(_stretch(prior.schema, row).time_us for row in table)
    found = [
        drift_over(*function, [_stretch(prior.schema, usual[function]), _stretch(prior.schema, row)])
        for function, row in zip(one.functions, table, strict=True)
        if function in usual and "buckets" in prior.schema.slices
    ]
    costly = [one for one in found if one is not None and one.lost_us >= OF_RUN * run_us]
    return sorted(costly, key=lambda one: -one.lost_us)


def _stretch(schema: TableSchema, row: Float64Array) -> Stretch:
    calls, mean_us = row[schema.slices["exclusive_us"]][:2]
    return Stretch(row[schema.slices["buckets"]], float(calls * mean_us))
