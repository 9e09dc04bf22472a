"""Samples of a node made by hand, for stories of ``tests.causes.flagged``."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from chimbuko.monitor.sampling.nodebatch import NodeBatch, ThreadName
from chimbuko.monitor.sampling.rows import GPU, NODE, OTHER, THREAD
from tests.causes.flagged import at
from tests.sample_records import make_record

NODE_NAME = make_record().node
_sequences = itertools.count(1)


def names(ranks: int = 4) -> list[ThreadName]:
    """Main threads of ranks: rank r is process 100 + r."""
    return [ThreadName(100 + rank, 100 + rank, "app", 0, rank, 0) for rank in range(ranks)]


def thread(rank: int, begin_ms: float, end_ms: float, tid: int = 0, **values: Any) -> np.void:
    """A THREAD row of a rank's main thread, which ran all the time if nothing else is said; times in ms."""
    values = {"slices": 3, "ran_us": round(1000 * (end_ms - begin_ms)), "call": -1, "state": b"R", **values}
    row = np.zeros((), THREAD)
    row["begin_us"], row["length_us"] = at(begin_ms), round(1000 * (end_ms - begin_ms))
    row["pid"], row["tid"] = 100 + rank, tid or 100 + rank
    for name, value in values.items():
        row[name] = value
    return row[()]  # type: ignore[return-value]


def ticks(rank: int, begin_ms: float, end_ms: float, **values: Any) -> list[np.void]:
    """Rows of 20 ms each; counts are those of each."""
    steps = np.arange(begin_ms, end_ms, 20.0).tolist()
    return [thread(rank, step, step + 20, **values) for step in steps]


def other(begin_ms: float, end_ms: float, core: int, ran_ms: float, name: str = "spinner") -> np.void:
    """An OTHER row of process 4711 of root."""
    row = (at(begin_ms), round(1000 * (end_ms - begin_ms)), 4711, core, round(1000 * ran_ms), name, "root")
    return np.array([row], OTHER)[0]


def gpu(begin_ms: float, end_ms: float, busy: float = 1.0, **values: Any) -> np.void:
    """A GPU row: of GPU 2, which a kernel ran on for a share of the time, and which anybody may use."""
    row = np.zeros((), GPU)
    row["begin_us"], row["length_us"] = at(begin_ms), round(1000 * (end_ms - begin_ms))
    row["gpu"], row["busy_us"] = 2, round(busy * 1000 * (end_ms - begin_ms))
    for name, value in values.items():
        row[name] = value
    return row[()]  # type: ignore[return-value]


def batch(
    looks: list[np.void],
    others: list[np.void] | None = None,
    states: list[tuple[Any, ...]] | None = None,
    periods: list[np.void] | None = None,
    gpus: list[np.void] | None = None,
    **more: Any,
) -> NodeBatch:
    """Batch of samples of the node."""
    rows = np.array([*looks, *(periods or [])], THREAD)
    begin_us, end_us = int(rows["begin_us"].min()), int((rows["begin_us"] + rows["length_us"]).max())
    return NodeBatch(
        NODE_NAME,
        next(_sequences),
        more.pop("is_sum", False),
        begin_us,
        end_us,
        more.pop("names", names()),
        threads=np.array(periods or [], THREAD).tobytes(),
        looks=np.array(looks, THREAD).tobytes(),
        others=np.array(others or [], OTHER).tobytes(),
        states=np.array(states or [], NODE).tobytes(),
        gpus=np.array(gpus or [], GPU).tobytes(),
        **more,
    )
