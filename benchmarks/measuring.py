"""What the benchmarks share: clocks, medians of ratios, processes, tables."""

from __future__ import annotations

import os
import pickle
import random
import statistics
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

T = TypeVar("T")

RESAMPLES = 2000
TICKS_PER_S = os.sysconf("SC_CLK_TCK")


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


@dataclass(frozen=True)
class Process:
    """One process of this machine."""

    pid: int
    parent: int
    command: str
    cpu_s: float


def processes() -> dict[int, Process]:
    """All processes."""
    found = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            # The name may itself contain spaces and parentheses.
            fields = (folder / "stat").read_text().rpartition(")")[2].split()
            command = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode()
        except OSError:
            continue  # It has ended meanwhile.
        pid = int(folder.name)
        found[pid] = Process(pid, int(fields[1]), command, (int(fields[11]) + int(fields[12])) / TICKS_PER_S)
    return found


def descendants(root: int) -> list[Process]:
    """Processes that a process has started, and those that these have started."""
    found = processes()
    family = {root}
    while grown := {process.pid for process in found.values() if process.parent in family} - family:
        family |= grown
    return [found[pid] for pid in family - {root}]


def cpu_of(pids: Iterable[int]) -> float:
    """CPU time of running processes so far, in seconds."""
    found = processes()
    return sum(found[pid].cpu_s for pid in pids if pid in found)


def cost_of(ratios: list[float]) -> dict[str, float]:
    """Mean of what a run took longer, and its interval, in percent."""
    low, high = interval(ratios)
    means = {"mean": statistics.fmean(ratios), "low": low, "high": high}
    return {name: 100 * (ratio - 1) for name, ratio in means.items()}


def interval(values: list[float]) -> tuple[float, float]:
    """95 % interval of the mean, by resampling."""
    draw = random.Random(1)
    means = sorted(statistics.fmean(draw.choices(values, k=len(values))) for _ in range(RESAMPLES))
    return means[RESAMPLES // 40], means[-RESAMPLES // 40]


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
