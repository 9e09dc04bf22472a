"""A page without a browser: the event socket of a dashboard, and the processes behind it."""

from __future__ import annotations

import json
import os
import secrets
import shutil
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import requests
from simple_websocket import ConnectionClosed
from wsproto.utilities import LocalProtocolError

from tests.patience import PATIENCE_S
from tests.viz.conftest import TOKEN, DashboardProcess
from tests.viz.websocket import Client


class EventSocket:
    """The events of one page, over WebSocket."""

    def __init__(self, base: str) -> None:
        address = base.replace("http://", "ws://") + "socket.io/?EIO=4&transport=websocket"
        self._socket = Client(address, headers={"Authorization": f"Bearer {TOKEN}"})
        self._socket.send("40/events,")
        self._arrived: SimpleQueue[tuple[str, Any] | None] = SimpleQueue()
        self.base = base
        self.heard: list[tuple[str, Any]] = []
        self._asked = 0
        self._taken: SimpleQueue[int] = SimpleQueue()
        threading.Thread(target=self._listen, daemon=True).start()

    def __enter__(self) -> EventSocket:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def close(self) -> None:
        """The page is closed."""
        with suppress(ConnectionClosed):
            self._socket.close()

    def _listen(self) -> None:
        """Take in all that comes, and say that the page is there: else it would count as gone."""
        # A server that is killed may close the connection between a word and its answer.
        with suppress(ConnectionClosed, LocalProtocolError):
            while True:
                packet = self._socket.receive()
                if packet == "2":
                    self._socket.send("3")
                elif isinstance(packet, str) and packet.startswith("43"):
                    self._taken.put(int(packet.partition("/events,")[2].partition("[")[0]))
                # Attachments come apart; what is tested here is in the texts.
                elif isinstance(packet, str) and packet.startswith(("42", "45")):
                    self._arrived.put(tuple(json.loads(packet.partition("/events,")[2])))
        self._arrived.put(None)

    def emit(self, event: str, data: object) -> None:
        """Say something to the server."""
        self._socket.send("42/events," + json.dumps([event, data]))

    def ask(self, question: str, parameters: object, job: str = "") -> str:
        """Put a long question, and wait until the server has it; its id."""
        job = job or secrets.token_hex(16)
        self._asked += 1
        asked = {"id": job, "question": question, "parameters": parameters}
        self._socket.send(f"42/events,{self._asked}" + json.dumps(["ask", asked]))
        while self._taken.get(timeout=PATIENCE_S) < self._asked:
            pass
        return job

    def next(self, *events: str, job: str | None = None, wait_s: float = PATIENCE_S) -> Any:
        """What comes with the next event of these names, of a job; all others are passed over.

        Raises
        ------
        ConnectionError
            The link is lost.
        """
        while True:
            found = self._arrived.get(timeout=wait_s)
            if found is None:
                raise ConnectionError("the link is lost")
            self.heard.append(found)
            name, data = found
            if name in events and (job is None or data["id"] == job):
                return data

    def end(self, job: str, wait_s: float = PATIENCE_S) -> Any:
        """How a job ends: its answer, or a sentence."""
        found = self.next("answer", "failure", job=job, wait_s=wait_s)
        if "sentence" in found:
            return found["sentence"]
        if found["answer"] is None:
            return fetch(self.base, found["job"]).json()
        return json.loads(found["answer"])


def fetch(base: str, job: str) -> requests.Response:
    """What a job left to be fetched."""
    headers = {"Authorization": f"Bearer {TOKEN}"}
    return requests.get(f"{base}api/v1/answers/{job}", headers=headers, timeout=PATIENCE_S)


def children(pid: int) -> dict[int, str]:
    """Process ids and command lines of all processes below one."""
    found = {}
    with suppress(OSError):
        for line in Path(f"/proc/{pid}/task").glob("*/children"):
            for child in map(int, line.read_text().split()):
                with suppress(OSError):
                    command = Path(f"/proc/{child}/cmdline").read_bytes().replace(b"\0", b" ")
                    found |= {child: command.decode()} | children(child)
    return found


def workers(dashboard: DashboardProcess) -> list[int]:
    """The worker's processes: the one that waits for questions, then the one that answers them."""
    return [pid for pid, command in children(dashboard.process.pid).items() if "chimbuko.viz.jobs" in command]


def wait_until_gone(pids: list[int], wait_s: float = PATIENCE_S) -> None:
    """Wait until these processes have ended."""
    wait_until(lambda: not any(is_running(pid) for pid in pids), wait_s)


def wait_until(is_so: Callable[[], bool], wait_s: float = PATIENCE_S) -> None:
    """Wait until something is so."""
    end_s = time.monotonic() + wait_s
    while not is_so():
        assert time.monotonic() < end_s
        time.sleep(0.02)


def is_running(pid: int) -> bool:
    """Whether a process runs; one that has ended, and that nobody has asked for, does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def folders(dashboard: DashboardProcess) -> list[Path]:
    """Folders of jobs of a dashboard."""
    for command in children(dashboard.process.pid).values():
        words = command.split()
        if "--folder" in words:
            return [path for path in Path(words[words.index("--folder") + 1]).iterdir() if path.is_dir()]
    return []


GATED = {
    "PYTHONPATH": os.pathsep.join(
        [str(Path(__file__).parent / "gated"), *filter(None, [os.environ.get("PYTHONPATH")])]
    )
}
"""Variables of dashboards whose workers know gates. Such a dashboard is no fork of a warm Python, whose path
is another one: to start it takes a second more of CPU time.
"""


class Gate:
    """A run at whose description workers of a gated dashboard wait until the gate is opened."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        # The name that tests/viz/gated looks for.
        self._closed = folder / "closed"

    def __enter__(self) -> Gate:
        self._folder.mkdir()
        self._closed.touch()
        (self._folder / "run.json").touch()
        return self

    def __exit__(self, *exception: object) -> None:
        shutil.rmtree(self._folder)

    def open(self) -> None:
        """Let all through who wait, and who come later."""
        (self._folder / "run.json").unlink(missing_ok=True)
        self._closed.unlink(missing_ok=True)
