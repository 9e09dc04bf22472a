"""Work of a thread, as counters of a trace: our recorders write them, causes read them."""

from __future__ import annotations

from enum import StrEnum


class Work(StrEnum):
    """Counter of what a thread did in a call's own code, where that took a millisecond or more.

    The recorder's ``work.c`` has the same names. Those of the hardware are there only where the machine
    counts them, and lets programs read that.
    """

    CPU_TIME = "Work: CPU time (us)"
    FAULTS = "Work: page faults"
    OFF_CORE = "Work: time off the core (us)"
    INSTRUCTIONS = "Work: instructions"
    CYCLES = "Work: cycles"
    CACHE_MISSES = "Work: cache misses"
