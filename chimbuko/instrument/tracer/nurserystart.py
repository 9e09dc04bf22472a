"""Starts a family's nursery."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import chimbuko
from chimbuko.instrument.tracer.family import SEPARATOR, leave

ENDING_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
"""What ends a program, and the nursery with all of its writers is to outlive."""

_BACKLOG = 1024
_LONGEST_ADDRESS = 107
"""Bytes that the kernel takes as a socket's path."""


def start_nursery() -> str:
    """Start one; the path of the socket on which it serves, in a folder that no other user can enter.

    Raises
    ------
    OSError
        There is no room for a process, a descriptor or the folder.
    """
    # They often go to the program's whole process group: a nursery that died of one before it has a group of
    # its own would leave its folder behind. It begins with them blocked, as it inherits that.
    before = signal.pthread_sigmask(signal.SIG_BLOCK, ENDING_SIGNALS)
    try:
        return _start_in_room()
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _start_in_room() -> str:
    address = _make_room(os.path.abspath(os.environ.get("TMPDIR") or "/tmp"))
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
            listener.bind(address)
            # Members that come before it listens wait here.
            listener.listen(_BACKLOG)
            _start(listener)
    except BaseException:
        clear_room(address)
        raise
    return address


def clear_room(address: str) -> None:
    """Remove a nursery's socket, and its folder."""
    for remove, path in ((os.unlink, address), (os.rmdir, os.path.dirname(address))):
        with suppress(OSError):
            remove(path)


def _make_room(place: str) -> str:
    name = f"chimbuko-family-{os.getpid()}-{time.monotonic_ns()}"
    address = os.path.join(place, name, "socket")
    if len(os.fsencode(address)) > _LONGEST_ADDRESS or SEPARATOR in address:
        address = os.path.join("/tmp", name, "socket")
    os.mkdir(os.path.dirname(address), 0o700)
    return address


def _start(listener: socket.socket) -> None:
    package_home = str(Path(chimbuko.__file__).parent.parent)
    environment = dict(os.environ)
    leave(environment)
    environment["PYTHONPATH"] = os.pathsep.join(
        filter(None, (package_home, environment.get("PYTHONPATH", "")))
    )
    # One thread: it forks.
    environment["OPENBLAS_NUM_THREADS"] = "1"
    # It is not this process's child: the program may wait for any child and must not meet a stranger.
    # -P: modules in the program's folder are not for it.
    starter = (
        "import os; os.fork() and os._exit(0); "
        "from chimbuko.runtime.process.signals import be_called; be_called('chimbuko.instrument.tracer'); "
        "from chimbuko.instrument.tracer.nursery import main; main()"
    )
    # It outlives the program, and must not hold what others read to its end.
    subprocess.run(
        [sys.executable, "-P", "-c", starter],
        stdin=listener.fileno(),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env=environment,
        check=True,
    )
