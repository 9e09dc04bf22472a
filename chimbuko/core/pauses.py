"""Pauses that Python makes in a call, as counters of a trace: its tracer writes them, causes read them."""

from __future__ import annotations

from enum import StrEnum


class Pause(StrEnum):
    """Kind of a pause: the beginning of the name of its counter, whose values are in µs."""

    COLLECTION = "Garbage collection"
    """Garbage collection; the generation follows."""
    IMPORT = "Import"
    """Import; the module that was imported first follows."""
    INTERPRETER = "Waited for the interpreter"
    """Wait for the interpreter; the function that ran in another thread meanwhile follows."""
    LOOP = "Waited for the event loop"
    """Wait of a task for another one, which kept the event loop; the function of that one follows."""
    LOCK = "Waited for a lock"
    """Wait for a lock; the place and the holder follow."""
    STANDING = "Stood still"
    """Thread that stood still; the line at which it did so follows."""

    def counter(self, what: str) -> str:
        """Return the name of the counter of such pauses."""
        return f"{self}: {what}"


def pause_of(counter: str) -> tuple[Pause, str] | None:
    """Return the kind of pauses that a counter has the length of, and what follows; None for another one."""
    kind, _, what = counter.partition(": ")
    return (Pause(kind), what) if kind in Pause.__members__.values() else None
