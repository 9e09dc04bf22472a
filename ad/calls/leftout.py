"""Functions of one stream that its recorder leaves out at times, and those that call them."""

from __future__ import annotations

import numpy as np

from chimbuko.ad.calls.callpaths import CallPaths
from chimbuko.ad.calls.stacks import MAIN_THREAD, CallStacks
from chimbuko.ad.kernels.leftout import add_to_callers
from chimbuko.ad.kernels.stack import PARTLY
from chimbuko.core.arrays import BoolArray, Int64Array, Rows, grown
from chimbuko.core.traceschema import LEFT_OUT_AT_TIMES, StreamNames

_NONE = np.empty(0, np.int64)


class LeftOutCallees:
    """Functions that are left out at times: their time always counts as their callers' own.

    So a caller's own time means the same while they are recorded and while they are not. It means something
    else than before when one of them begins to be left out, which each does once.
    """

    def __init__(self) -> None:
        self._said = 0
        """Number of entries of the stream's metadata that were read."""
        self.is_left_out = np.zeros(0, np.uint8)
        """Whether each function is left out at times, uint8[timers]."""
        self.is_caller = np.zeros(0, np.uint8)
        """Whether each function calls one that is left out at times, uint8[timers]."""

    def read(self, stacks: CallStacks, names: StreamNames, paths: CallPaths) -> Int64Array:
        """Give the calls of the step whose ``stacks`` were built the time of such callees; return the timers
        whose own time means something else than before this step, ascending.

        ``paths`` are those of the steps before.
        """
        new = self._newly_said(stacks, names)
        if not self._said:
            return _NONE
        self.is_left_out = grown(self.is_left_out, stacks.timers)
        self.is_caller = grown(self.is_caller, stacks.timers)
        self.is_left_out[new] = 1
        was_caller = self.is_caller.copy()
        begins = np.zeros(len(self.is_left_out), np.bool_)
        begins[new] = True
        changed = paths.callers(begins, self.is_left_out)
        if add_to_callers(stacks.calls, stacks.count, self.is_left_out, self.is_caller):
            found = self.is_caller > was_caller
            changed |= found | paths.callers(found & (self.is_left_out != 0), self.is_left_out)
        self.is_caller |= changed
        open_before = stacks.calls[: stacks.carried]
        open_before["doubts"][changed[open_before["function"]]] |= PARTLY
        return changed.nonzero()[0]

    def _newly_said(self, stacks: CallStacks, names: StreamNames) -> Int64Array:
        new: set[int] = set()
        while text := names.metadata.get((stacks.rank, MAIN_THREAD, f"{LEFT_OUT_AT_TIMES}{self._said}")):
            new |= {int(word) for word in text.split() if word.isdecimal()}
            self._said += 1
        return np.array(sorted(timer for timer in new if timer < stacks.timers), np.int64)

    def are_left_out(self, calls: Rows) -> BoolArray:
        """Return whether the function of each call is left out at times, bool[calls]."""
        if not self._said:
            return np.zeros(len(calls), np.bool_)
        found: BoolArray = self.is_left_out[calls["function"]] != 0
        return found

    def excuse_callers(self, stacks: CallStacks, row: int, lost_us: float) -> list[int]:
        """Take the time that an abnormal call of a function that is left out at times has lost from its
        callers, whose own it counts as; return the rows of these.
        """
        calls, excused = stacks.calls, []
        caller = int(calls["parent"][row])
        while caller >= 0:
            calls["at_times_us"][caller] = max(calls["at_times_us"][caller] - lost_us, 0.0)
            excused.append(caller)
            is_passed_on = calls["exit"][caller] and self.is_left_out[calls["function"][caller]]
            caller = int(calls["parent"][caller]) if is_passed_on else -1
        return excused
