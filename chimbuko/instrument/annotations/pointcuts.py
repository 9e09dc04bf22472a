"""Pointcuts and flows of PerfFlowAspect: how the calls of a function are recorded."""

from __future__ import annotations

import itertools
from collections import deque
from contextlib import suppress
from dataclasses import dataclass

POINTCUTS = ("around", "before", "after", "around_async", "before_async", "after_async")
FLOWS = {"": ("", ""), "in": ("f", ""), "out": ("", "s"), "inout": ("f", "s"), "outin": ("s", "f")}
"""Effects of a call on flows when it begins and when it ends, by the kind of flow: ``s`` starts a flow, and
``f`` finishes the oldest open one."""


@dataclass(frozen=True)
class Advice:
    """Advice, in PerfFlowAspect's sense: how the calls of one function are recorded."""

    pointcut: str = "around"
    """One of ``POINTCUTS``."""
    scope: str = ""
    """Scope that distinguishes the numbers of asynchronous calls."""
    flow: str = ""
    """One of ``FLOWS``."""

    @property
    def is_async(self) -> bool:
        """Whether calls may overlap, and each has a number."""
        return self.pointcut.endswith("_async")

    @property
    def phases(self) -> tuple[str, str]:
        """Phases of the events at the beginning and at the end of a call; empty where there is no event."""
        begin, end = ("b", "e") if self.is_async else ("B", "E")
        where = self.pointcut.partition("_")[0]
        return begin if where != "after" else "", end if where != "before" else ""

    def is_whole(self, is_compact: bool) -> bool:
        """Whether a call is one event (``X``) where events are compact."""
        return is_compact and self.pointcut == "around"


class Flows:
    """Flows that are open; the oldest is finished first."""

    def __init__(self) -> None:
        self._numbers = itertools.count(1)
        self._open: deque[int] = deque()

    def number_of(self, phase: str) -> int | None:
        """Return the number of the flow that an event starts (``s``) or finishes (``f``); None for none."""
        if phase == "s":
            number = next(self._numbers)
            self._open.append(number)
            return number
        with suppress(IndexError):
            return self._open.popleft()
        return None
