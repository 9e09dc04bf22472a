"""Names of the times in which a coroutine awaits something."""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import CodeType
    from typing import Any

    from chimbuko.instrument.hooks.functions import Recorder

MOST_KNOWN = 10_000
"""Most names that are kept: programs may make functions at run time."""


class AwaitNames:
    """Names of what the coroutines of one thread await, told as they pause, the innermost first."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._known: dict[tuple[int, int], tuple[int, object, object]] = {}
        self._awaiter: CodeType | None = None
        self._awaited: object = None

    def note(self, function: CodeType, is_recorded: bool, value: object) -> None:
        """Note that a function pauses, and passes on a value to the loop that will make it go on."""
        if self._awaiter is not None:
            return
        if is_recorded:
            self._awaiter = function
            self._awaited = self._awaited or _awaited(value)
        else:
            self._awaited = function

    def taken(self) -> int:
        """Return the code of the call in which the task waits, negative for none; forget what was noted."""
        awaiter, awaited = self._awaiter, self._awaited
        self._awaiter = self._awaited = None
        if awaiter is None:
            return -1
        key = id(awaiter), id(awaited)
        if key not in self._known:
            if len(self._known) >= MOST_KNOWN:
                self._known.clear()
            module = os.path.basename(awaiter.co_filename).removesuffix(".py")
            # Without a place: it is none of a function's, and the awaited one's would be shown as a module.
            name = f"await {_name(awaited)} in {module}.{awaiter.co_qualname}"
            # With the objects, so that their ids are nobody else's.
            self._known[key] = self._recorder.timer_code(name), awaiter, awaited
        return self._known[key][0]


def _awaited(value: Any) -> object:
    """Return the function of a task of asyncio, or the type of what else a coroutine awaits by itself."""
    kind = type(value)
    if kind.__name__ == "Task" and kind.__module__ == "_asyncio":
        return getattr(value.get_coro(), "cr_code", kind)
    return kind


def _name(awaited: object) -> str:
    return str(getattr(awaited, "co_qualname", None) or getattr(awaited, "__name__", "something"))
