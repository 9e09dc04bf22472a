"""The conversation of an agent with its fork server, and the agent's end of it.

JSON lines: ``Request`` on the server's standard input, ``Event`` on its standard output.
"""

from __future__ import annotations

import os
import signal
from contextlib import suppress

import msgspec

from chimbuko.ad.handoff.bell import AgentBell
from chimbuko.ad.handoff.processspecs import StreamProcessSpec
from chimbuko.core.errors import ServiceError
from chimbuko.runtime.process.starting import become_fork, end_fork, signals_wait


class Request(msgspec.Struct, frozen=True):
    """What the agent asks for: start a stream's process, or kill the process of ``kill``."""

    start: StreamProcessSpec | None = None
    kill: str = ""


class Event(msgspec.Struct, frozen=True):
    """What happened: ``started`` and ``ended`` for each process."""

    kind: str
    key: str = ""
    pid: int = 0
    code: int = 0


class ForkServer:
    """The agent's end of the conversation. It forks the server, so the agent has no threads yet.

    Raises
    ------
    ServiceError
        There is no process to be had.
    """

    def __init__(self) -> None:
        from chimbuko.ad.streamprocess.forkserver import serve

        agent = os.getpid()
        self.bell = AgentBell()
        """Rung by the processes of the streams."""
        asked, self._input = os.pipe()
        self._output, reports = os.pipe()
        with signals_wait() as blocked:
            try:
                self._pid = os.fork()
            except OSError as error:
                raise ServiceError(f"the fork server did not start ({error.strerror})") from None
            if self._pid == 0:
                become_fork("chimbuko.ad.streamprocess.forkserver", asked, reports, 2, (self.bell.file,))
                end_fork(lambda: serve(agent, blocked, self.bell))
        os.close(asked)
        os.close(reports)
        os.set_blocking(self._output, False)
        self._pending = b""

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._pid

    @property
    def reports(self) -> int:
        """File that can be read when something has happened."""
        return self._output

    def ask(self, request: Request) -> None:
        """Send one request.

        Raises
        ------
        ServiceError
            The fork server is gone.
        """
        try:
            os.write(self._input, msgspec.json.encode(request) + b"\n")
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
        with suppress(ProcessLookupError):
            os.kill(self._pid, signal.SIGCONT)

    def close(self) -> None:
        """End it, and with it all children that are left."""
        os.close(self._input)
        self.wake()
        with suppress(ChildProcessError):
            os.waitpid(self._pid, 0)
        os.close(self._output)
