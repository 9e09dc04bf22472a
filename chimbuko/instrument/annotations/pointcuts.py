"""What can be noted of the calls of a function, in PerfFlowAspect's words."""

from __future__ import annotations

import itertools
from collections import deque
from contextlib import suppress
from dataclasses import dataclass

POINTCUTS = ("around", "before", "after", "around_async", "before_async", "after_async")
FLOWS = {"": ("", ""), "in": ("f", ""), "out": ("", "s"), "inout": ("f", "s"), "outin": ("s", "f")}
"""Of a flow: what a call does with it when it begins, and when it ends. ``s`` starts one, ``f`` finishes the
oldest that has not been finished."""


@dataclass(frozen=True)
class Advice:
    """What is noted of the calls of one function."""

    pointcut: str = "around"
    """Of ``POINTCUTS``."""
    scope: str = ""
    """Distinguishes the numbers of asynchronous calls."""
    flow: str = ""
    """Of ``FLOWS``."""

    @property
    def is_async(self) -> bool:
        """Whether calls may overlap, and have a number each."""
        return self.pointcut.endswith("_async")

    @property
    def phases(self) -> tuple[str, str]:
        """Of the event at the beginning of a call, and of that at its end; empty where there is none."""
        begin, end = ("b", "e") if self.is_async else ("B", "E")
        where = self.pointcut.partition("_")[0]
        return begin if where != "after" else "", end if where != "before" else ""

    def is_whole(self, is_compact: bool) -> bool:
        """Whether a call is one event (``X``) where events are compact."""
        return is_compact and self.pointcut == "around"


class Flows:
    """What has been handed on and not been taken yet, first come, first taken."""

    def __init__(self) -> None:
        self._numbers = itertools.count(1)
        self._open: deque[int] = deque()

    def number_of(self, phase: str) -> int | None:
        """Number of the flow that an event starts (``s``) or finishes (``f``); None where there is none."""
        if phase == "s":
            number = next(self._numbers)
            self._open.append(number)
            return number
        with suppress(IndexError):
            return self._open.popleft()
        return None
