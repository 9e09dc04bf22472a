"""Which processes end first where memory does: ours, and not the application's."""

from __future__ import annotations

import os
from contextlib import suppress
from enum import IntEnum
from pathlib import Path

OOM_VARIABLE = "CHIMBUKO_OOM_SCORE_ADJ"
"""Environment variable of our own processes: the ``oom_score_adj`` that the application has beside them."""


class Sacrifice(IntEnum):
    """How much sooner than the application a process of ours ends where memory does.

    So much its ``oom_score_adj`` is above the application's. A point counts as a thousandth of all memory, or
    of what its cgroup may use.
    """

    LAUNCHER = 40
    """With it all others end. The application's exit code is its parent's affair, which has the application's
    own value."""
    GUARD = 50
    """It protects the application, and takes little."""
    BROKER = 200
    SERVICE = 300
    AGENT = 350
    DASHBOARD = 400
    WRITER = 450
    """Beside each rank of a traced Python program: without it the rank goes on, untraced."""
    READER = 500
    """There is one for each rank, and another can take over."""


def oom_score(sacrifice: Sacrifice) -> int:
    """``oom_score_adj`` of a process that this one starts."""
    return min(1000, oom_score_of_application() + sacrifice)


def set_oom_score(score: int, pid: int | str = "self") -> None:
    """Set a process's ``oom_score_adj``, where that can be done."""
    with suppress(OSError):
        Path(f"/proc/{pid}/oom_score_adj").write_text(str(score))


def oom_score_of_application() -> int:
    """``oom_score_adj`` of the application beside us."""
    try:
        return int(os.environ.get(OOM_VARIABLE) or Path("/proc/self/oom_score_adj").read_text())
    except (OSError, ValueError):
        return 0
