"""Channels of MPI in one stream: communicators of its messages and collective operations, and message
numbers.

Two ranks that count alike find the two ends of a message without having to compare times: the n-th message
that is sent on a channel is the one for which the n-th receive was posted there.
"""

from __future__ import annotations

import numpy as np
from msgspec.structs import replace

from chimbuko.ad.calls.selection import NO_ROWS, table
from chimbuko.ad.kernels import channels as kernels
from chimbuko.core.arrays import Int32Array, Table, UInt32Array, as_table
from chimbuko.core.traceschema import (
    COMM_COLUMNS,
    NO_DETAILS,
    EventType,
    StreamNames,
    TraceStep,
)

FIRST_CHANNELS = 64
MOST_CHANNELS = 1 << 17
"""Number of rows of the table, half of which are used: 5 MB for a rank with 65,536 partners and tags."""
MOST_POSTED = 1 << 14
"""Maximum number of receives that are posted and not ended; the message numbers of earlier ones are unknown.
"""
FIRST_LANDMARK = 16
"""First message number of a channel that is a landmark; the following ones are its doublings: twelve of each
channel in 65,536 messages.
"""
MOST_LANDMARKS = 16
"""Maximum number of landmarks in a step: many channels may come to the same number at once."""

Notes = UInt32Array
"""Communicator, 0 where it is not known, and number from 1, 0 where it is not certain, of each message;
uint32[messages, 2].
"""


class Channels:
    """Numbers of the messages of one stream, counted by channel.

    Once a step is lost, no message has a number any more.
    """

    def __init__(self) -> None:
        self._channels = _channels(FIRST_CHANNELS)
        self._posted = _no_posted()
        self._wildcards = table(kernels.WILDCARD, kernels.MOST_WILDCARDS)
        self._state = np.zeros(kernels.CELLS, np.int64)
        self._next_step = 0

    def read(self, step: TraceStep, names: StreamNames) -> tuple[TraceStep, Notes]:
        """Return the step with its collective operations among its messages, and what is known of each of
        these.
        """
        notes = np.zeros((len(step.comms), 2), np.uint32)
        if step.step == self._next_step:
            self._next_step += 1
            if len(step.comms) or len(step.operations):
                self._number(step, np.uint64(names.event_type_id(EventType.SEND)), notes)
        if not len(step.operations):
            return step, notes
        return _with_collectives(step, notes)

    def _number(self, step: TraceStep, send_type: np.uint64, notes: Notes) -> None:
        if len(step.operations) and not len(self._posted):
            # Memory that is 0 is not in use until it is written.
            self._posted = as_table(np.zeros(MOST_POSTED, kernels.POSTED))
        while not kernels.number_messages(
            step.comms,
            # A damaged step may lack some of the arrays.
            step.details if len(step.details) == len(step.comms) else NO_DETAILS,
            step.operations,
            send_type,
            self._channels,
            self._posted,
            self._wildcards,
            self._state,
            MOST_CHANNELS,
            notes,
        ):
            larger = _channels(2 * len(self._channels))
            kernels.move_channels(self._channels, larger, self._state)
            self._channels = larger


def landmarks(notes: Notes, message_calls: Int32Array, calls: Table) -> Int32Array:
    """Return rows of calls to record although they are ordinary, since their messages are recorded at the
    other end, too.

    Both ends of a message count alike, so both know which ones these are. Their times serve to compare the
    clocks of ranks, since hardly any two abnormal calls are the ends of one message.

    Parameters
    ----------
    message_calls
        Row of the call of each message in ``calls``, negative for none; int32[messages].
    calls
        ``CALL`` rows.

    Returns
    -------
    Int32Array
        Rows of calls that have ended and are certain, ascending, ``MOST_LANDMARKS`` at most.
    """
    if not len(notes):
        return NO_ROWS
    rows = np.empty(MOST_LANDMARKS, np.int32)
    return rows[: kernels.find_landmarks(notes, message_calls, calls, FIRST_LANDMARK, rows)]


def _channels(rows: int) -> Table:
    return as_table(np.zeros(rows, kernels.CHANNEL))


def _no_posted() -> Table:
    return table(kernels.POSTED, 0)


def _with_collectives(step: TraceStep, notes: Notes) -> tuple[TraceStep, Notes]:
    most = len(step.comms) + len(step.operations)
    comms, both = np.empty((most, COMM_COLUMNS), np.uint64), np.empty((most, 2), np.uint32)
    rows = kernels.add_collectives(step.comms, notes, step.operations, comms, both)
    return replace(step, comms=comms[:rows]), both[:rows]
