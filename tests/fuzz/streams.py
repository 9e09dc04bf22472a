"""Streams to fuzz the analysis with, real ones and made up ones, and ways to spoil them."""

from __future__ import annotations

import copy
import shutil
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np

from chimbuko.capture.trace.reader import StreamReader
from chimbuko.core.arrays import UInt64Array
from chimbuko.core.traceschema import StreamNames, TraceStep
from tests.places import DATA

TRACE = DATA / "heat4.tar.xz"
MOST_ROWS = 2000
"""Of an array of a step."""
ABSURD = np.array(
    [0, 1, 2, 3, 255, 65_535, 65_536, 1 << 20, 1 << 31, 1 << 53, 1 << 63, (1 << 64) - 1], np.uint64
)

Arrays = list[UInt64Array]
"""Events, messages and counter values of a step."""


@dataclass
class Stream:
    """What the analysis of one stream gets to see, step by step."""

    steps: list[Arrays]
    numbers: list[int]
    names: list[StreamNames]
    """Known by each step."""


Spoil = Callable[[Stream, np.random.Generator], None]


@cache
def real_stream() -> Stream:
    """The first steps of a rank of the recorded MPI program."""
    stream = Stream([], [], [])
    with tempfile.TemporaryDirectory() as folder:
        shutil.unpack_archive(TRACE, folder)
        (path,) = Path(folder).rglob("tau-metrics-*-0.bp")
        with StreamReader(path, "BPFile") as reader:
            while len(stream.steps) < 12 and isinstance(step := reader.next_step(10), TraceStep):
                arrays = (step.events, step.comms, step.counters)
                stream.steps.append([array[:MOST_ROWS].copy() for array in arrays])
                stream.numbers.append(step.step)
                stream.names.append(copy.deepcopy(reader.names))
    return stream


def made_stream(chance: np.random.Generator) -> Stream:
    """Calls on some threads that begin and end at random, with names, metrics and GPUs or without."""
    threads, timers = int(chance.integers(1, 12)), int(chance.integers(1, 40))
    named = {
        timer: f"{'MPI_' if timer % 3 == 0 else ''}f{timer}"
        for timer in range(timers)
        if chance.random() < 0.9
    }
    names = StreamNames(
        timers=named,
        counters={0: "TIME", 1: "monitoring: load", 2: "Correlation ID", 3: "CPU_TIME"},
        metadata={(0, thread, "CUDA Stream"): "1" for thread in range(threads) if chance.random() < 0.2},
    )
    has_metric = chance.random() < 0.5
    stream = Stream([], list(range(int(chance.integers(1, 8)))), [])
    stacks: dict[int, list[int]] = {thread: [] for thread in range(threads)}
    time_us = 1_000_000
    for _ in stream.numbers:
        rows: list[list[list[int]]] = [[], [], []]
        for _ in range(int(chance.integers(0, MOST_ROWS // 4))):
            thread, kind = int(chance.integers(threads)), chance.random()
            time_us += int(chance.choice((0, 0, 1, 7, 5000)))
            if kind < 0.1:
                rows[1].append([0, 0, thread, int(chance.integers(2, 4)), 5, 0, 8, time_us])
            elif kind < 0.2:
                rows[2].append([0, 0, thread, int(chance.integers(3)), int(chance.integers(9)), time_us])
            elif kind < 0.6 and stacks[thread]:
                rows[0].append([0, 0, thread, 1, stacks[thread].pop(), time_us])
                if has_metric:
                    rows[2].append([0, 0, thread, 3, time_us // 2, time_us])
            else:
                stacks[thread].append(int(chance.integers(timers)))
                rows[0].append([0, 0, thread, 0, stacks[thread][-1], time_us])
        stream.steps.append(
            [
                np.array(part, np.uint64).reshape(-1, width)
                for part, width in zip(rows, (6, 8, 6), strict=True)
            ]
        )
        stream.names.append(names)
    return stream


def random_stream(chance: np.random.Generator) -> Stream:
    """Nothing but numbers, mostly small ones."""
    steps = []
    for _ in range(int(chance.integers(1, 5))):
        shapes = [(int(chance.integers(0, 400)), width) for width in (6, 8, 6)]
        highest = int(chance.choice((2, 4, 1000, 1 << 63)))
        steps.append([chance.integers(0, highest, shape).astype(np.uint64) for shape in shapes])
    return Stream(steps, list(range(len(steps))), [StreamNames(timers={0: "f", 1: "MPI_g"})] * len(steps))


def drop_rows(stream: Stream, chance: np.random.Generator) -> None:
    step, at = _array(stream, chance)
    step[at] = step[at][chance.random(len(step[at])) < chance.choice((0.5, 0.9, 0.99))]


def repeat_rows(stream: Stream, chance: np.random.Generator) -> None:
    step, at = _array(stream, chance)
    step[at] = np.repeat(step[at], chance.integers(1, 3, len(step[at])), axis=0)


def exchange_rows(stream: Stream, chance: np.random.Generator) -> None:
    step, at = _array(stream, chance)
    if len(step[at]) > 1:
        first = int(chance.integers(len(step[at])))
        part = slice(first, first + int(chance.integers(2, 50)))
        step[at][part] = step[at][part][::-1].copy()


def set_column(stream: Stream, chance: np.random.Generator) -> None:
    step, at = _array(stream, chance)
    column = int(chance.integers(step[at].shape[1]))
    rows = chance.random(len(step[at])) < chance.choice((0.01, 0.2, 1.0))
    step[at][rows, column] = chance.choice(ABSURD)


def flip_bits(stream: Stream, chance: np.random.Generator) -> None:
    step, at = _array(stream, chance)
    for _ in range(int(chance.integers(1, 20)) if step[at].size else 0):
        step[at].flat[int(chance.integers(step[at].size))] ^= np.uint64(1) << np.uint64(chance.integers(64))


def lose_exits(stream: Stream, chance: np.random.Generator) -> None:
    """Of one function, from some step on."""
    timer = chance.integers(8)
    for step in stream.steps[int(chance.integers(len(stream.steps))) :]:
        step[0] = step[0][(step[0][:, 3] != 1) | (step[0][:, 4] != timer)]


def lose_steps(stream: Stream, chance: np.random.Generator) -> None:
    at = int(chance.integers(len(stream.numbers)))
    gap = int(chance.choice((-1, 1, 3, 1 << 20)))
    stream.numbers[at:] = [max(number + gap, 0) for number in stream.numbers[at:]]


def empty_step(stream: Stream, chance: np.random.Generator) -> None:
    step, at = _array(stream, chance)
    step[at] = step[at][:0]


def exchange_steps(stream: Stream, chance: np.random.Generator) -> None:
    first, second = chance.integers(len(stream.steps), size=2)
    stream.steps[first], stream.steps[second] = stream.steps[second], stream.steps[first]


def lose_names(stream: Stream, chance: np.random.Generator) -> None:
    """Some names never arrive, others late."""
    names = copy.deepcopy(stream.names[-1])
    names.timers = {timer: name for timer, name in names.timers.items() if chance.random() < 0.7}
    names.counters = {number: name for number, name in names.counters.items() if chance.random() < 0.7}
    stream.names[int(chance.integers(len(stream.names))) :] = [names] * len(stream.names)
    del stream.names[len(stream.steps) :]


def number_types_otherwise(stream: Stream, chance: np.random.Generator) -> None:
    numbers = chance.choice(9, 4, replace=False).tolist()
    for names in stream.names:
        names.event_types = dict(zip(numbers, ("ENTRY", "EXIT", "SEND", "RECV"), strict=True))


SPOILS: tuple[Spoil, ...] = (
    drop_rows,
    repeat_rows,
    exchange_rows,
    set_column,
    flip_bits,
    lose_exits,
    lose_steps,
    empty_step,
    exchange_steps,
    lose_names,
    number_types_otherwise,
)


def _array(stream: Stream, chance: np.random.Generator) -> tuple[Arrays, int]:
    """Some array of some step: the step, and the place of the array in it; mostly the events."""
    return stream.steps[int(chance.integers(len(stream.steps)))], int(chance.choice((0, 0, 0, 1, 2)))
