"""Runs a program, and looks at what it writes meanwhile."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Callable, Mapping, Sequence

from chimbuko.core.errors import ConfigError
from chimbuko.runtime.process.wakeup import Wakeup


def run_beside(
    command: Sequence[str], variables: Mapping[str, str], look: Callable[[], None], period_s: float
) -> int:
    """Run a program to its end, look each period and once more then; its exit code.

    Parameters
    ----------
    variables
        Of its environment, beside our own.

    Raises
    ------
    ConfigError
        It cannot be run.
    """
    with Wakeup() as wakeup:
        try:
            process = subprocess.Popen(command, env={**os.environ, **variables})
        except OSError as error:
            raise ConfigError(f"{command[0]}: cannot be run ({error.strerror})") from error
        # Ctrl-C reaches the program as well, which decides what becomes of it; SIGTERM is passed on.
        before = [
            signal.signal(signal.SIGINT, signal.SIG_IGN),
            signal.signal(signal.SIGTERM, lambda number, _: process.send_signal(number)),
        ]
        try:
            while process.poll() is None:
                look()
                wakeup.wait(period_s)
            look()
        finally:
            for number, handler in zip((signal.SIGINT, signal.SIGTERM), before, strict=True):
                signal.signal(number, handler)
    return process.returncode if process.returncode >= 0 else 128 - process.returncode
