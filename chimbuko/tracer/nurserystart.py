"""Starts a family's nursery."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from pathlib import Path

import chimbuko
from chimbuko.tracer.family import leave

_BACKLOG = 1024


def start_nursery() -> str:
    """Start one; the address on which it serves.

    Raises
    ------
    OSError
        There is no room for a process or a descriptor.
    """
    package_home = str(Path(chimbuko.__file__).parent.parent)
    address = f"chimbuko-family-{os.getpid()}-{time.monotonic_ns()}"
    environment = dict(os.environ)
    leave(environment)
    environment["PYTHONPATH"] = os.pathsep.join(
        filter(None, (package_home, environment.get("PYTHONPATH", "")))
    )
    # One thread: it forks.
    environment["OPENBLAS_NUM_THREADS"] = "1"
    # It is not this process's child: the program may wait for any child and must not meet a stranger.
    # -P: modules in the program's folder are not for it.
    starter = "import os; os.fork() and os._exit(0); from chimbuko.tracer.writers.nursery import main; main()"
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
        listener.bind("\0" + address)
        # Members that come before it listens wait here.
        listener.listen(_BACKLOG)
        # It outlives the program, and must not hold what others read to its end.
        subprocess.run(
            [sys.executable, "-P", "-c", starter],
            stdin=listener.fileno(),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env=environment,
            check=True,
        )
    return address
