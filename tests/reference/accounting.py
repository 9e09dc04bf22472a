"""Whether every row of a stream was used or counted as lost."""

from __future__ import annotations

from chimbuko.ad.calls.stacks import CallStacks
from chimbuko.ad.kernels import stack
from chimbuko.core.traceschema import TraceStep

LOST_ROW_KINDS = (
    stack.BAD_ORIGIN,
    stack.BAD_THREAD,
    stack.BAD_EVENT_TYPE,
    stack.BAD_TIMER,
    stack.EXIT_WITHOUT_ENTRY,
    stack.BAD_TIME,
)
"""Kinds whose rows are not used at all; the rows of the other kinds are."""


def lost_rows(stacks: CallStacks) -> int:
    """Rows of the stream so far that were not used at all."""
    return int(stacks.losses[list(LOST_ROW_KINDS)].sum())


def points_outside(stacks: CallStacks) -> int:
    """Messages and counter values of the stream so far that lie outside of all calls."""
    return int(stacks.losses[[stack.MESSAGE_OUTSIDE_CALLS, stack.COUNTER_OUTSIDE_CALLS]].sum())


class Accounting:
    """Follows the stacks of one stream from step to step."""

    def __init__(self, stacks: CallStacks) -> None:
        self._stacks = stacks
        self._counted = 0

    def unaccounted(self, step: TraceStep) -> int:
        """Rows of the step last built that are neither used nor counted; it has to be 0."""
        stacks = self._stacks
        before, self._counted = self._counted, lost_rows(stacks) + points_outside(stacks)
        entries = stacks.count - stacks.carried
        exits = int((stacks.calls["exit"][: stacks.count] > 0).sum())
        attached = int((stacks.message_calls >= 0).sum() + (stacks.counter_calls >= 0).sum())
        return step.rows - entries - exits - attached - (self._counted - before)
