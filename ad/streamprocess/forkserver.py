"""Forks one process per stream, out of a single-threaded one with all kernels loaded.

Two SST readers in one process can crash a writer, and a new Python for each would cost 0.7 s and 80 MB;
a fork costs milliseconds and 12 MB. This process is itself a fork of the agent, before that has threads and
connections; it holds no socket and no ADIOS2 handle. That of ``multiprocessing`` would be a new Python, which
loads all again, and knows nothing of who is to end first where memory does.

``forkclient`` describes what it is asked and what it answers. When its input ends it ends its children and
itself.
"""

from __future__ import annotations

import faulthandler
import os
import select
import signal
import sys
import traceback

import msgspec
from setproctitle import setproctitle

from chimbuko.ad.handoff.bell import AgentBell
from chimbuko.ad.handoff.processspecs import StreamProcessSpec
from chimbuko.ad.streamprocess.forkclient import Event, Request
from chimbuko.runtime.process.lifetime import Sacrifice, die_with_parent, oom_score, set_oom_score
from chimbuko.runtime.process.signals import END, ignore_others


def serve(agent: int, blocked: set[int], bell: AgentBell) -> None:
    """Serve requests of an agent, its process id, until standard input ends.

    Parameters
    ----------
    blocked
        Signals that it is to block.
    bell
        That its children ring.
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
                _obey(msgspec.json.decode(line, type=Request), children, bell)
        _reap(children)
    for pid in children:
        # The one that waits for its stream's writer to let it in ends when that is done; a stopped one has
        # to go on for that.
        os.kill(pid, END)
        os.kill(pid, signal.SIGCONT)


def _ends_of_forks() -> int:
    """Descriptor that becomes readable when a child has ended."""
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    return reading


def _obey(request: Request, children: dict[int, str], bell: AgentBell) -> None:
    if request.start is not None:
        pid = os.fork()
        if pid == 0:
            _become_child(request.start, bell)
        children[pid] = request.start.key
        _say(Event("started", request.start.key, pid))
    for pid, key in children.items():
        if key == request.kill:
            os.kill(pid, signal.SIGKILL)


def _become_child(spec: StreamProcessSpec, bell: AgentBell) -> None:
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
        # Where memory comes to an end, the reader does, and not the program beside it.
        set_oom_score(oom_score(Sacrifice.READER))
        die_with_parent()
        setproctitle(f"chimbuko.ad.streamprocess.process {spec.key}")
        # Loaded with the kernels, before the fork.
        from chimbuko.ad.streamprocess.process import run_child

        code = run_child(spec, bell)
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
