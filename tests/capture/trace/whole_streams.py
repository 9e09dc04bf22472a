"""Whole streams as lists of steps, made, written, read and compared."""

from __future__ import annotations

import copy
import multiprocessing
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path

import numpy as np

from chimbuko.capture.trace.discovery import CONTACT_SUFFIX, read_mark_of
from chimbuko.capture.trace.reader import StreamReader
from chimbuko.capture.trace.source import Waiting
from chimbuko.capture.trace.writer import StreamWriter
from chimbuko.core.arrays import UInt64Array
from chimbuko.core.traceschema import StreamNames, TraceStep
from tests.patience import PATIENCE_S


@dataclass
class Step:
    """A step with the names known by then, in arrays of its own."""

    number: int
    events: UInt64Array
    comms: UInt64Array
    counters: UInt64Array
    names: StreamNames


def random_stream(seed: int, sizes: list[tuple[int, int, int]]) -> list[Step]:
    """Steps of these numbers of rows, each with names of its own."""
    chance = np.random.default_rng(seed)
    names = StreamNames(event_types={0: "ENTRY", 1: "EXIT"}, program="app")
    steps = []
    for number, lengths in enumerate(sizes):
        names.timers[number] = f'solve "it" [{{a.f90}} {{{number},0}}]'
        names.counters[number] = f"größe {number}"
        names.metadata[(0, number % 3, f"timer of counter {number}")] = "" if number % 2 else "a:b"
        arrays = [
            chance.integers(0, 2**63, (rows, columns)).astype(np.uint64)
            for rows, columns in zip(lengths, (6, 8, 6), strict=True)
        ]
        steps.append(Step(number, arrays[0], arrays[1], arrays[2], copy.deepcopy(names)))
    return steps


def write_stream(
    path: Path, steps: list[Step], engine: str, parameters: Mapping[str, str] | None = None
) -> None:
    with StreamWriter(path, engine, parameters) as writer:
        for step in steps:
            writer.write_step(step.events, step.comms, step.counters, step.names)


def read_stream(path: Path, engine: str, at_most: int = 1_000_000) -> list[Step]:
    steps: list[Step] = []
    with StreamReader(path, engine) as reader:
        while len(steps) < at_most and isinstance(step := reader.next_step(20), TraceStep):
            arrays = (step.events.copy(), step.comms.copy(), step.counters.copy())
            steps.append(Step(step.step, *arrays, copy.deepcopy(reader.names)))
            if engine == "SST":
                read_mark_of(path).touch()
        assert len(steps) == at_most or step is Waiting.END
    return steps


def read_live(path: Path, at_most: int = 1_000_000) -> list[Step]:
    """Read over SST; waits for the writer."""
    contact = path.with_name(path.name + CONTACT_SUFFIX)
    give_up = time.monotonic() + PATIENCE_S
    while not contact.exists() and time.monotonic() < give_up:
        time.sleep(0.01)
    return read_stream(path, "SST", at_most)


@contextmanager
def reading(paths: list[Path], at_most: int = 1_000_000) -> Iterator[list[Connection]]:
    """Read streams over SST meanwhile, each in a process of its own; a connection gives a list of steps."""
    # No executor: a thread would hand out its work, and SST's opening holds the interpreter's lock.
    context = multiprocessing.get_context("spawn")
    answers, processes = [], []
    for path in paths:
        ours, theirs = context.Pipe(duplex=False)
        processes.append(context.Process(target=_read_and_send, args=(path, at_most, theirs)))
        processes[-1].start()
        answers.append(ours)
        theirs.close()
    yield answers
    for process, answer in zip(processes, answers, strict=True):
        process.join()
        answer.close()


def _read_and_send(path: Path, at_most: int, answer: Connection) -> None:
    answer.send(read_live(path, at_most))


def assert_equal(one: list[Step], other: list[Step], with_names: bool = True) -> None:
    assert [step.number for step in one] == [step.number for step in other]
    for ours, theirs in zip(one, other, strict=True):
        for array in ("events", "comms", "counters"):
            np.testing.assert_array_equal(getattr(ours, array), getattr(theirs, array))
        if with_names:
            assert ours.names == theirs.names
