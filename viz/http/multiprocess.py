"""Several server processes on one port: any of them serves a page, and one that dies is replaced."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from secrets import token_hex

from chimbuko.core.errors import ServiceError
from chimbuko.runtime.process.lifetime import Sacrifice, log
from chimbuko.runtime.process.nameholding import HeldFolder
from chimbuko.runtime.process.service import Service
from chimbuko.runtime.process.supervisor import ServiceGroup
from chimbuko.runtime.process.wakeup import Ending
from chimbuko.runtime.protocol.broker import PrivateBroker
from chimbuko.runtime.protocol.brokerplace import BROKER_VARIABLE
from chimbuko.runtime.runs.directory import RunDirectory
from chimbuko.viz.http.listening import KEY_VARIABLE, TOKEN_VARIABLE, Front
from chimbuko.viz.jobs.messagequeue import FOLDER_VARIABLE, JOBS_VARIABLE

LOOK_S = 0.25
STOP_S = 10.0


@contextmanager
def serving_together(
    run: RunDirectory,
    port: int,
    token: str,
    broker_url: str | None,
    hosts: frozenset[str],
    processes: int,
    stopping: Ending,
    jobs_broker: str | None = None,
    jobs_folder: Path | None = None,
    listening: socket.socket | None = None,
    front: Front | None = None,
) -> Iterator[str]:
    """Serve the dashboard of a run with several processes while the context lasts, and yield its URL.

    Each follows the run by itself. A broker joins them, so that a page whose link was lost may come back to
    another one: that of the workers elsewhere, or a private one.

    Parameters
    ----------
    stopping
        Set where none of them is left; then the end of the context says so.
    listening
        A socket that listens, in place of ``port``.
    front
        Front of the dashboard towards browsers; None for the loopback.

    Raises
    ------
    ChimbukoError
        The port is taken, the run cannot be read, or no process lasts.
    """
    with ExitStack() as stack:
        front = front or Front()
        listening = stack.enter_context(listening or front.listen(port))
        # Several wait for one connection, and all but one of them in vain: they must not stay with it.
        listening.setblocking(False)
        port = listening.getsockname()[1]
        folder = jobs_folder or stack.enter_context(HeldFolder("chimbuko-jobs-"))
        logs = run.logs if broker_url else folder
        joint = None
        if jobs_broker is None:
            joint = stack.enter_context(PrivateBroker(logs / "jobs-broker.log"))
            jobs_broker = joint.url
        words = ["--run-dir", str(run.path), "--shared", str(listening.fileno()), *front.words()]
        words += [word for host in hosts for word in ("--host", host)]
        words += ["--own-worker"] * (joint is not None) + ["--sweep"] * (jobs_folder is None)
        secrets = {
            TOKEN_VARIABLE: token,
            JOBS_VARIABLE: jobs_broker,
            FOLDER_VARIABLE: str(folder),
            KEY_VARIABLE: os.environ.get(KEY_VARIABLE) or token_hex(32),
        }
        if broker_url is not None:
            secrets[BROKER_VARIABLE] = broker_url
        stack.enter_context(
            _members(processes, words, secrets, logs, listening, stopping, None if jobs_broker else joint)
        )
        yield front.url(port, token)


@contextmanager
def _members(
    processes: int,
    words: list[str],
    secrets: dict[str, str],
    logs: Path,
    listening: socket.socket,
    stopping: Ending,
    joint: PrivateBroker | None,
) -> Iterator[None]:
    """Run processes that are restarted when they end, while the context lasts."""
    group = ServiceGroup([])
    ended = threading.Event()

    def look_after() -> None:
        while not ended.wait(LOOK_S):
            for line in group.look_after():
                log(line)
            if joint is not None and not joint.is_running:
                with suppress(ServiceError, OSError):
                    joint.start()
            if group.is_given_up:
                stopping.set()

    looking = threading.Thread(target=look_after, name="look after", daemon=True)
    try:
        for number in range(1, processes + 1):
            group.add(_member(number, words, secrets, logs, listening), can_go_on=True)
        group.wait_ready()
        looking.start()
        yield
        if group.is_given_up:
            raise ServiceError("the dashboard is given up: each of its processes ended soon after its start")
    finally:
        ended.set()
        if looking.is_alive():
            looking.join()
        group.ask_to_stop()
        group.stop(STOP_S)


def _member(
    number: int, words: list[str], secrets: dict[str, str], logs: Path, listening: socket.socket
) -> Service:
    inherited = (listening.fileno(),)
    return Service(
        f"dashboard-{number}", "chimbuko.viz", words, secrets, logs, inherited, Sacrifice.DASHBOARD
    )
