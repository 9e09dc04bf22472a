"""Fork server of an agent: forks one process per stream, out of a single-threaded one with all kernels
loaded.

Two SST readers in one process can crash a writer, and a new Python for each would cost 0.7 s and 80 MB; a
fork costs milliseconds and 12 MB. The server is itself a fork of the agent, made before that has threads and
connections; it holds no socket and no ADIOS2 handle. A fork server of ``multiprocessing`` would be a new
Python, which loads all again, and does not set who is killed first where memory runs out.

``ForkServer`` is the agent's end and ``serve`` the server's. They exchange JSON lines: ``Request`` on the
server's standard input, ``Event`` on its standard output. When its input ends the server ends its children
and itself.
"""

from __future__ import annotations

import faulthandler
import os
import select
import signal
import sys
import traceback
from contextlib import suppress

import msgspec
from setproctitle import setproctitle

from chimbuko.ad.handoff.notifiers import AgentNotifier
from chimbuko.ad.handoff.processspecs import StreamProcessSpec
from chimbuko.core.errors import ServiceError
from chimbuko.runtime.process.lifetime import Sacrifice, die_with_parent, oom_score, set_oom_score
from chimbuko.runtime.process.signals import END, ignore_others
from chimbuko.runtime.process.starting import become_fork, end_fork, signals_wait


class Request(msgspec.Struct, frozen=True):
    """Request of the agent: start a stream's process, or kill the process of ``kill``."""

    start: StreamProcessSpec | None = None
    kill: str = ""


class Event(msgspec.Struct, frozen=True):
    """Event of a process: ``started`` or ``ended``."""

    kind: str
    key: str = ""
    pid: int = 0
    code: int = 0


class ForkServer:
    """The agent's end of the conversation. It forks the server, so the agent has no threads yet.

    Raises
    ------
    ServiceError
        The process cannot be started.
    """

    def __init__(self) -> None:
        agent = os.getpid()
        self.notifier = AgentNotifier()
        """Notifier by which the processes of the streams wake the agent."""
        asked, self._input = os.pipe()
        self._output, reports = os.pipe()
        with signals_wait() as blocked:
            try:
                self._pid = os.fork()
            except OSError as error:
                raise ServiceError(f"the fork server did not start ({error.strerror})") from None
            if self._pid == 0:
                become_fork("chimbuko.ad.streams.forkserver", asked, reports, 2, (self.notifier.file,))
                end_fork(lambda: serve(agent, blocked, self.notifier))
        os.close(asked)
        os.close(reports)
        os.set_blocking(self._output, False)
        self._pending = b""

    @property
    def pid(self) -> int:
        """Process id of the fork server."""
        return self._pid

    @property
    def reports(self) -> int:
        """Descriptor that can be read when there are events."""
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
        """Return the events since the last call.

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
        """Continue the server if it was stopped."""
        with suppress(ProcessLookupError):
            os.kill(self._pid, signal.SIGCONT)

    def close(self) -> None:
        """End the server, and with it all children that are left."""
        os.close(self._input)
        self.wake()
        with suppress(ChildProcessError):
            os.waitpid(self._pid, 0)
        os.close(self._output)


def serve(agent: int, blocked: set[int], notifier: AgentNotifier) -> None:
    """Serve requests of an agent, given by its process id, until standard input ends.

    Parameters
    ----------
    blocked
        Signals that the server is to block.
    notifier
        Notifier that its children use.
    """
    ignore_others()
    die_with_parent()
    if os.getppid() != agent:
        return
    signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
    someone_ended = _ends_of_forks()
    children: dict[int, str] = {}
    pending = b""
    while True:
        readable, _, _ = select.select([0, someone_ended], [], [])
        if someone_ended in readable:
            os.read(someone_ended, 1 << 16)
        if 0 in readable:
            received = os.read(0, 1 << 16)
            if not received:
                break
            *lines, pending = (pending + received).split(b"\n")
            for line in lines:
                _obey(msgspec.json.decode(line, type=Request), children, notifier)
        _reap(children)
    for pid in children:
        # The one that waits for its stream's writer to let it in ends when that is done; a stopped one has
        # to go on for that.
        os.kill(pid, END)
        os.kill(pid, signal.SIGCONT)


def _ends_of_forks() -> int:
    """Return a descriptor that becomes readable when a child has ended."""
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    return reading


def _obey(request: Request, children: dict[int, str], notifier: AgentNotifier) -> None:
    if request.start is not None:
        pid = os.fork()
        if pid == 0:
            _become_child(request.start, notifier)
        children[pid] = request.start.key
        _say(Event("started", request.start.key, pid))
    for pid, key in children.items():
        if key == request.kill:
            os.kill(pid, signal.SIGKILL)


def _become_child(spec: StreamProcessSpec, notifier: AgentNotifier) -> None:
    code = 1
    try:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        # From Python 3.12 on asyncio, where it is imported, has taken it away at the fork.
        if (woken := signal.set_wakeup_fd(-1)) >= 0:
            os.close(woken)
        # Standard input and output are the agent's conversation with this server, not the child's.
        nothing = os.open(os.devnull, os.O_RDWR)
        os.dup2(nothing, 0)
        os.dup2(2, 1)
        faulthandler.enable()
        # Where memory runs out the reader is killed, and not the program beside it.
        set_oom_score(oom_score(Sacrifice.READER))
        die_with_parent()
        setproctitle(f"chimbuko.ad.streams.process {spec.key}")
        # This module was loaded with the kernels, before the fork.
        from chimbuko.ad.streams.process import run_child

        code = run_child(spec, notifier)
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(code)


def _reap(children: dict[int, str]) -> None:
    while children:
        pid, status = os.waitpid(-1, os.WNOHANG)
        if pid == 0:
            return
        _say(Event("ended", children.pop(pid), pid, os.waitstatus_to_exitcode(status)))


def _say(event: Event) -> None:
    os.write(1, msgspec.json.encode(event) + b"\n")
