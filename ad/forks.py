"""The conversation of an agent with its fork server, and the agent's end of it.

JSON lines: ``Request`` on the server's standard input, ``Event`` on its standard output.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import msgspec

from chimbuko.ad.orders import ChildSpec
from chimbuko.errors import ServiceError
from chimbuko.processes import die_with_parent


class Request(msgspec.Struct, frozen=True):
    """What the agent asks for: start a stream's process, or kill the process of ``kill``."""

    start: ChildSpec | None = None
    kill: str = ""


class Event(msgspec.Struct, frozen=True):
    """What happened: ``ready`` once, then ``started`` and ``ended`` for each process."""

    kind: str
    key: str = ""
    pid: int = 0
    code: int = 0


class ForkServer:
    """The agent's end of the conversation. The server begins to load its kernels at once."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "chimbuko.ad.forkserver"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            preexec_fn=die_with_parent,
        )
        assert self._process.stdin is not None and self._process.stdout is not None
        self._input = self._process.stdin
        self._stdout = self._process.stdout
        self._output = self._stdout.fileno()
        self._pending = b""

    def wait_ready(self) -> None:
        """Wait until it can fork; before all else.

        Raises
        ------
        ServiceError
            It ended instead.
        """
        while b"\n" not in self._pending:
            received = os.read(self._output, 1 << 16)
            if not received:
                raise ServiceError("the fork server did not start")
            self._pending += received
        _, _, self._pending = self._pending.partition(b"\n")
        os.set_blocking(self._output, False)

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._process.pid

    def ask(self, request: Request) -> None:
        """Send one request.

        Raises
        ------
        ServiceError
            The fork server is gone.
        """
        try:
            self._input.write(msgspec.json.encode(request) + b"\n")
            self._input.flush()
        except BrokenPipeError:
            raise ServiceError("the fork server of this agent is gone") from None

    def events(self) -> list[Event]:
        """What happened since the last time.

        Raises
        ------
        ServiceError
            The fork server is gone.
        """
        try:
            received = os.read(self._output, 1 << 16)
        except BlockingIOError:
            return []
        if not received:
            raise ServiceError("the fork server of this agent is gone")
        *lines, self._pending = (self._pending + received).split(b"\n")
        return [msgspec.json.decode(line, type=Event) for line in lines]

    def wake(self) -> None:
        """Make it go on if it was stopped."""
        self._process.send_signal(signal.SIGCONT)

    def close(self) -> None:
        """End it, and with it all children that are left."""
        self._input.close()
        self.wake()
        self._process.wait()
        self._stdout.close()
