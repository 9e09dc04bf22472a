"""The process that writes a traced program's stream.

It stands beside the program because ADIOS2 holds Python's lock wherever it waits for a reader
(measured: 1.1 s in one step with a slow reader, for ever in one that waits for its first reader),
and because a program that is killed cannot finish its own stream. It reads handovers from its
standard input until that ends, and says on its standard output, in one line, how it ended.
"""

from __future__ import annotations

import os
import pickle
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from typing import BinaryIO

import numpy as np

from chimbuko.errors import ChimbukoError
from chimbuko.trace.schema import ARRAY_COLUMNS, COMMS, COUNTERS, EVENTS
from chimbuko.trace.tau import WriterSettings
from chimbuko.tracer.handover import COMPLETE, Handover, Header
from chimbuko.tracer.steps import LARGEST_STEP_BYTES, StepBuilder

STUCK_AFTER_S = 10
"""A wait for ADIOS2 of this length means a reader that is stuck: better no trace than a process left."""

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
    signal.alarm(STUCK_AFTER_S)
    with settings.open(header.program, header.rank) as stream:
        # Once more: SST has put its own handler in place of ours.
        _ignore_signals()
        last_cut = time.monotonic()
        has_begun = False
        end_ns = None
        for handover in _handovers(source):
            signal.alarm(STUCK_AFTER_S)
            builder.add(handover)
            if handover.is_last:
                end_ns = handover.complete_until_ns
                break
            is_due = settings.is_periodic and time.monotonic() - last_cut >= settings.period_us * 1e-6
            if builder.size_bytes and (is_due or builder.size_bytes > LARGEST_STEP_BYTES):
                if settings.is_live and not has_begun:
                    # SST lets a reader in at one step and gives it the next: let it miss an empty one.
                    stream.write_step(NO_EVENTS, NO_COMMS, NO_COUNTERS, builder.names)
                has_begun = True
                for step in builder.cut():
                    stream.write_step(*step, builder.names)
                last_cut = time.monotonic()
        for step in builder.cut_last(end_ns):
            stream.write_step(*step, builder.names)


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
