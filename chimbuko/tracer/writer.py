"""The process that writes a traced program's stream.

It stands beside the program because ADIOS2 holds Python's lock wherever it waits for a reader
(measured: 1.1 s in one step with a slow reader, for ever in one that waits for its first reader),
and because a program that is killed cannot finish its own stream. It reads handovers from its
standard input until that ends, and says on its standard output, in one line, how it ended.

Over SST a reader is let in when a step is written, and begins with the first one. A reader needs some
time to come, so the first step is never short, and a program that ends before anybody has read it waits
a little, with empty steps that let a reader in.
"""

from __future__ import annotations

import os
import pickle
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

import numpy as np

from chimbuko.errors import ChimbukoError
from chimbuko.trace.discovery import read_mark_of
from chimbuko.trace.schema import ARRAY_COLUMNS, COMMS, COUNTERS, EVENTS, StreamNames
from chimbuko.trace.tau import WriterSettings
from chimbuko.trace.writer import StreamWriter
from chimbuko.tracer.handover import COMPLETE, Handover, Header
from chimbuko.tracer.steps import LARGEST_STEP_BYTES, StepBuilder

STUCK_AFTER_S = 10
"""A wait for ADIOS2 of this length means a reader that is stuck: better no trace than a process left."""
FIRST_STEP_S = 1.0
"""The first step of a live stream lasts at least so long: a reader comes some 0.4 s after the stream."""
READER_WAIT_S = 5.0
"""Longer after its beginning no stream waits for its first reader: a busy node takes 2 s to bring one."""
EMPTY_STEP_PERIOD_S = 0.5
"""Between two steps that let a reader in: far longer than it takes to read the first one after that."""
LOOK_PERIOD_S = 0.02
"""Between two looks whether the first step was read."""

NO_EVENTS, NO_COMMS, NO_COUNTERS = (
    np.empty((0, ARRAY_COLUMNS[name]), np.uint64) for name in (EVENTS, COMMS, COUNTERS)
)


def main() -> None:
    """Write one stream."""
    os.setsid()
    _ignore_signals()
    try:
        write_stream(sys.stdin.buffer)
        last_word = COMPLETE
    except ChimbukoError as error:
        last_word = str(error)
    except Exception as error:
        last_word = f"{type(error).__name__}: {error}".splitlines()[0]
    # Nobody listens any more if the program was killed.
    with suppress(BrokenPipeError):
        print(last_word, flush=True)


def write_stream(source: BinaryIO) -> None:
    """Write what comes from ``source`` as one stream, in steps of at least the period.

    Raises
    ------
    ChimbukoError
        The settings are not usable, or the stream cannot be written.
    """
    header: Header = pickle.load(source)
    settings = WriterSettings.from_environment(os.environ)
    builder = StepBuilder(header)
    read_mark = read_mark_of(settings.stream_path(header.program, header.rank))
    with suppress(OSError):
        # Of an earlier stream of this name.
        read_mark.unlink()
    signal.alarm(STUCK_AFTER_S)
    with settings.open(header.program, header.rank) as stream:
        # Once more: SST has put its own handler in place of ours.
        _ignore_signals()
        began = last_cut = time.monotonic()
        period_s = settings.period_us * 1e-6
        step_s = max(period_s, FIRST_STEP_S) if settings.is_live else period_s
        end_ns = None
        for handover in _handovers(source):
            signal.alarm(STUCK_AFTER_S)
            builder.add(handover)
            if handover.is_last:
                end_ns = handover.complete_until_ns
                break
            is_due = settings.is_periodic and time.monotonic() - last_cut >= step_s
            if builder.size_bytes and (is_due or builder.size_bytes > LARGEST_STEP_BYTES):
                for step in builder.cut():
                    stream.write_step(*step, builder.names)
                last_cut, step_s = time.monotonic(), period_s
        for step in builder.cut_last(end_ns):
            stream.write_step(*step, builder.names)
        # Who kills a program expects that nothing of it is left.
        if settings.is_live and end_ns is not None:
            _await_reader(stream, builder.names, read_mark, began + READER_WAIT_S)


def _await_reader(stream: StreamWriter, names: StreamNames, read_mark: Path, latest: float) -> None:
    """Let a reader in and wait until it has read the first step, which waits for it, or until ``latest``."""
    empty_step_at = time.monotonic() + EMPTY_STEP_PERIOD_S
    while not read_mark.exists() and (now := time.monotonic()) < latest:
        if now >= empty_step_at:
            signal.alarm(STUCK_AFTER_S)
            stream.write_step(NO_EVENTS, NO_COMMS, NO_COUNTERS, names)
            empty_step_at = time.monotonic() + EMPTY_STEP_PERIOD_S
        time.sleep(LOOK_PERIOD_S)
    signal.alarm(STUCK_AFTER_S)


def _ignore_signals() -> None:
    """What a scheduler sends to all is for the program; this process ends when its input does."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)


def _handovers(source: BinaryIO) -> Iterator[Handover]:
    """Until the program has ended; it may die in the middle of one."""
    while True:
        signal.alarm(0)
        try:
            handover: Handover = pickle.load(source)
        except (EOFError, pickle.UnpicklingError):
            signal.alarm(STUCK_AFTER_S)
            return
        yield handover
