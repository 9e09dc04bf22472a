"""Description of how a process died: its signal, its open calls, and where in the code it was."""

from __future__ import annotations

import signal
from collections.abc import Callable, Sequence

from chimbuko.core.traceschema import MPI_PREFIX
from chimbuko.instrument.recorder.layout import BACKTRACE, DEPTH, End
from chimbuko.instrument.recorder.ring import ProcessFile, Ring

NamesOf = Callable[[Sequence[int]], list[str]]

SIGNAL_RETURN = "__restore_rt"
"""Name that the C library gives to the frame between a signal's handler and the interrupted code."""
OWN_FRAMES = "recorder-"
"""Beginning of the names of frames of the recorder's library, which stand between those of the program."""
MOST_FRAMES = 16
"""Number of frames of a call stack or a backtrace that are named."""


def describe_end(process: ProcessFile, has_ended: bool, rings: Sequence[Ring], names_of: NamesOf) -> str:
    """Describe in one line how the process ended, in which calls, and where in the code if known.

    Empty where it ended in order.

    Parameters
    ----------
    has_ended
        Whether it did, or became another program.
    """
    if text := _said_by_itself(process, names_of):
        return text
    return "" if has_ended else _describe_death(process, rings, names_of)


def _said_by_itself(process: ProcessFile, names_of: NamesOf) -> str:
    """Describe an end that began with a call of MPI; empty if none did."""
    ending = process.field("ending")
    how, depth = int(ending["how"]), min(int(ending["depth"]), BACKTRACE)
    if not how:
        return ""
    called = names_of([int(key) for key in ending["stack"][:depth]])[-MOST_FRAMES:]
    inner = next((name for name in reversed(called) if name.startswith(MPI_PREFIX)), "MPI")
    called = [name for name in called if name != inner]
    if how == End.CALLED_ABORT:
        text = f"called MPI_Abort ({int(ending['code'])})"
    else:
        text = f"ended inside {inner}, as after an error,"
    text += f" in {' > '.join(called)}" if called else ""
    return text.removesuffix(",") + (f", on thread {int(ending['thread'])}" if ending["thread"] > 0 else "")


def _describe_death(process: ProcessFile, rings: Sequence[Ring], names_of: NamesOf) -> str:
    crash = process.field("crash")
    number = int(crash["signal"])
    thread = int(crash["thread"]) if number else 0
    stack = _stack(rings, thread)
    frames = [int(address) for address in crash["backtrace"][: min(int(crash["frames"]), BACKTRACE)]]
    names = names_of([*stack, *frames]) if stack or frames else []
    called, backtrace = names[: len(stack)], names[len(stack) :]
    if SIGNAL_RETURN in backtrace:
        # The frames before it are those of the signal's handler.
        backtrace = backtrace[backtrace.index(SIGNAL_RETURN) + 1 :]
    backtrace = [name for name in backtrace if not name.startswith(OWN_FRAMES)]
    text = f"died ({_signal_name(number)})" if number else "died (killed, or ended without an exit)"
    if called:
        text += f" in {' > '.join(called[-MOST_FRAMES:])}"
    if thread > 0:
        text += f", on thread {thread}"
    if backtrace:
        text += f"; backtrace: {' < '.join(backtrace[:MOST_FRAMES])}"
    return text


def _stack(rings: Sequence[Ring], thread: int) -> list[int]:
    """Return the keys of the calls that were open, the outermost first."""
    for ring in rings:
        if ring.thread == thread:
            return ring.stack()[: min(ring.number("depth"), DEPTH)]
    return []


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
