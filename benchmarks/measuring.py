"""What the benchmarks share: clocks, medians of ratios, processes, tables."""

from __future__ import annotations

import os
import pickle
import statistics
import time
from collections.abc import Callable
from typing import Any, TypeVar

T = TypeVar("T")


def cpu_seconds(work: Callable[[], Any]) -> float:
    """CPU time of this process, all its threads, in ``work``."""
    began = time.process_time()
    work()
    return time.process_time() - began


def in_child(work: Callable[[], T]) -> T:
    """What ``work`` returns in a process of its own, forked like that of a stream."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        try:
            with os.fdopen(writing, "wb") as pipe:
                pickle.dump(work(), pipe)
        finally:
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        result: T = pickle.load(pipe)
    os.waitpid(child, 0)
    return result


def median_ratio(mine: list[float], its: list[float]) -> float:
    """Median over the rounds of one rate to another: both were measured in each round."""
    return statistics.median(a / b for a, b in zip(mine, its, strict=True))


def table(heads: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    """As Markdown that reads well as plain text too: columns to the right."""
    widths = [max(len(row[at]) for row in [heads, *rows]) for at in range(len(heads))]

    def line(cells: tuple[str, ...]) -> str:
        return "| " + " | ".join(cell.rjust(width) for cell, width in zip(cells, widths, strict=True)) + " |"

    rule = "|" + "|".join("-" * (width + 1) + ":" for width in widths) + "|"
    return "\n".join([line(heads), rule, *(line(row) for row in rows)])
