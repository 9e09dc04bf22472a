"""Part of the time that a call lost, with its cause."""

from __future__ import annotations

from enum import StrEnum

import msgspec

ANALYSIS = "the analysis itself"
"""Value of ``Part.by`` where processes of the analysis took the core."""
LIMIT = "the CPU limit of its control group"
"""Value of ``Part.by`` where a limit kept the thread from its core, and no other process."""


class HeldUp(StrEnum):
    """Causes by which a thread does not run, whatever it is in; they may pass for waits for other ranks."""

    STOPPED = "stopped"
    WAITED_FOR_CORE = "waited for core"


HELD_UP: frozenset[str] = frozenset(HeldUp)


class Part(msgspec.Struct, frozen=True):
    """Part of a call's excess, and its cause."""

    kind: str
    """Id of the cause, one of ``causes.kinds.registry.CAUSES``."""
    lost_us: float
    function: str = ""
    """Function of the child, or of the call that the other rank was in; empty if it is not known."""
    rank: int | None = None
    """Rank that the call waited for; None if it is not known, or the call did not wait."""
    call_id: str = ""
    """Recorded call in which the time was lost; empty if there is none."""
    is_matched: bool = True
    """Whether the record of the call itself shows it; otherwise it follows from when others lost time."""
    by: str = ""
    """Process or thread that took the core, or ran meanwhile; GPU; counter; file, child process or system
    call that the thread slept for or in. Empty where none is known.
    """
    is_foreign: bool = False
    """Whether ``by`` is no process of the program."""
    core: int | None = None
    count: int = 0
    """Number of page faults, of moves, of bytes of a file, or of other processes that use the GPU; or the
    factor by which a counter rose more than usual."""
