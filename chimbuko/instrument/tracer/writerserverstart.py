"""Start of the server from which the writers of a family are forked."""

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
"""Signals that end a program, and that its writer server and all writers are to outlive."""

_BACKLOG = 1024
_LONGEST_ADDRESS = 107
"""Longest path of a socket that the kernel takes, in bytes."""
_OTHER_PLACES = "/tmp", "/dev/shm"
"""Folders for sockets where there is none in $TMPDIR: a container may have a read-only root."""
WRITER_SERVER = "chimbuko.instrument.tracer.writerserver"


def start_writer_server(module: str = WRITER_SERVER) -> str:
    """Start a writer server; return the path of its socket, in a folder that no other user can enter.

    Parameters
    ----------
    module
        Name of the module whose ``main`` serves.

    Raises
    ------
    OSError
        No process can be started, or no descriptor or folder made.
    """
    # They often go to the program's whole process group: a server that died of one before it has a group of
    # its own would leave its folder behind. So it starts with them blocked, which it inherits.
    before = signal.pthread_sigmask(signal.SIG_BLOCK, ENDING_SIGNALS)
    try:
        return _start_in_folder(module)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _start_in_folder(module: str) -> str:
    address = _make_address(os.path.abspath(os.environ.get("TMPDIR") or "/tmp"))
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
            listener.bind(address)
            # Connections of members wait here until the server accepts them.
            listener.listen(_BACKLOG)
            _start(listener, module)
    except BaseException:
        remove_socket(address)
        raise
    return address


def remove_socket(address: str) -> None:
    """Remove the socket of a writer server, and its folder."""
    for remove, path in ((os.unlink, address), (os.rmdir, os.path.dirname(address))):
        with suppress(OSError):
            remove(path)


def _make_address(place: str) -> str:
    """Make a folder in the first place where one can be made, and whose path is short enough; return the path
    of a socket there.
    """
    name = f"chimbuko-family-{os.getpid()}-{time.monotonic_ns()}"
    refused = OSError(f"{place}: its path is too long for a socket")
    for folder in (place, *_OTHER_PLACES):
        address = os.path.join(folder, name, "socket")
        if len(os.fsencode(address)) > _LONGEST_ADDRESS or SEPARATOR in address:
            continue
        try:
            os.mkdir(os.path.dirname(address), 0o700)
            return address
        except OSError as error:
            refused = error
    raise refused


def _start(listener: socket.socket, module: str) -> None:
    package_home = str(Path(chimbuko.__file__).parent.parent)
    environment = dict(os.environ)
    leave(environment)
    environment["PYTHONPATH"] = os.pathsep.join(
        filter(None, (package_home, environment.get("PYTHONPATH", "")))
    )
    # The server forks, so it must have one thread only.
    environment["OPENBLAS_NUM_THREADS"] = "1"
    # The server must not be a child of this process: the program may wait for any child of its own.
    # -P: it must not import modules from the program's folder.
    starter = (
        "import os; os.fork() and os._exit(0); "
        "from chimbuko.runtime.process.signals import be_called; be_called('chimbuko.instrument.tracer'); "
        f"from {module} import main; main()"
    )
    # It outlives the program, so it must not keep pipes open that others read to their end.
    subprocess.run(
        [sys.executable, "-P", "-c", starter, str(os.getpid())],
        stdin=listener.fileno(),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env=environment,
        check=True,
    )
