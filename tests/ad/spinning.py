"""Processes that take all that they get of a core."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

_SPIN = "while True: pass"


@contextmanager
def spinning(core: int) -> Iterator[int]:
    """A process that takes what it gets of a core."""
    with subprocess.Popen([sys.executable, "-c", _SPIN]) as process:
        os.sched_setaffinity(process.pid, {core})
        try:
            yield process.pid
        finally:
            process.kill()
