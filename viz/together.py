"""Several server processes on one port: a page is served by any of them, and one that dies is replaced."""

from __future__ import annotations

import shutil
import socket
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from redis.cluster import RedisCluster

from chimbuko.broker import BROKER_VARIABLE, LOOPBACK, PrivateBroker, connect
from chimbuko.rundir import RunDirectory
from chimbuko.sacrifice import Sacrifice
from chimbuko.service import Service
from chimbuko.viz.jobs.keys import FOLDER_VARIABLE, JOBS_VARIABLE
from chimbuko.viz.listening import listen

TOKEN_VARIABLE = "CHIMBUKO_TOKEN"
LOOK_S = 0.25
LONGEST_PAUSE_S = 60.0
"""Before a process is started again that ends as soon as it is."""
STOP_S = 10.0


@dataclass
class _Member:
    service: Service
    started_s: float
    pause_s: float = LOOK_S

    def look_after(self) -> None:
        """Start it again if it has ended, after pauses that grow while it does not last."""
        now_s = time.monotonic()
        if self.service.is_running or now_s - self.started_s < self.pause_s:
            return
        lasted = now_s - self.started_s > LONGEST_PAUSE_S
        self.pause_s = LOOK_S if lasted else min(LONGEST_PAUSE_S, 2 * self.pause_s)
        self.started_s = now_s
        self.service.start_again()


@contextmanager
def serving_together(
    run: RunDirectory,
    port: int,
    token: str,
    broker_url: str | None,
    hosts: frozenset[str],
    processes: int,
    jobs_broker: str | None = None,
    jobs_folder: Path | None = None,
    listening: socket.socket | None = None,
) -> Iterator[str]:
    """Serve the dashboard of a run by several processes while the context lasts; gives its address.

    Each follows the run by itself. A broker joins them, so that a page whose link was lost may come back to
    another one: the run's, that of the workers elsewhere, or a private one.

    Parameters
    ----------
    listening
        A socket that listens, in place of ``port``.

    Raises
    ------
    ChimbukoError
        The port is taken, or the run cannot be read.
    """
    with ExitStack() as stack:
        listening = stack.enter_context(listening or listen(port))
        # Several wait for one connection, and all but one of them in vain: they must not stay with it.
        listening.setblocking(False)
        port = listening.getsockname()[1]
        folder = jobs_folder or Path(stack.enter_context(_temporary_folder()))
        logs = run.logs if broker_url else folder
        joined = jobs_broker or broker_url
        if joined is None or _is_cluster(joined):
            joined = stack.enter_context(PrivateBroker(logs / "jobs-broker.log")).url
        words = ["--run-dir", str(run.path), "--shared", str(listening.fileno())]
        words += [word for host in hosts for word in ("--host", host)]
        if jobs_broker is None:
            words.append("--own-worker")
        if jobs_folder is None:
            words.append("--sweep")
        secrets = {TOKEN_VARIABLE: token, JOBS_VARIABLE: joined, FOLDER_VARIABLE: str(folder)}
        if broker_url is not None:
            secrets[BROKER_VARIABLE] = broker_url
        stack.enter_context(_members(processes, words, secrets, logs, listening))
        yield f"http://{LOOPBACK}:{port}/?token={quote(token, safe='')}"


@contextmanager
def _temporary_folder() -> Iterator[str]:
    folder = tempfile.mkdtemp(prefix="chimbuko-jobs-")
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _is_cluster(url: str) -> bool:
    """Whether a broker is a cluster, with which neither Celery nor Socket.IO can speak."""
    with connect(url) as client:
        return isinstance(client, RedisCluster)


@contextmanager
def _members(
    processes: int, words: list[str], secrets: dict[str, str], logs: Path, listening: socket.socket
) -> Iterator[None]:
    """Processes that are looked after while the context lasts."""
    members: list[_Member] = []
    stopping = threading.Event()

    def look_after() -> None:
        while not stopping.wait(LOOK_S):
            for member in members:
                member.look_after()

    looking = threading.Thread(target=look_after, name="look after", daemon=True)
    try:
        for number in range(processes):
            service = Service(
                f"dashboard-{number + 1}",
                "chimbuko.viz",
                words,
                secrets,
                logs,
                (listening.fileno(),),
                Sacrifice.DASHBOARD,
            )
            members.append(_Member(service, time.monotonic()))
        for member in members:
            member.service.wait_ready()
        looking.start()
        yield
    finally:
        stopping.set()
        if looking.is_alive():
            looking.join()
        for member in members:
            member.service.ask_to_stop()
        for member in members:
            member.service.stop(STOP_S)
