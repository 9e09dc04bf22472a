"""Serves the dashboard of one run on the loopback.

By Werkzeug's server, a thread for each connection: pages are few, and where they are many several processes
share the port (``multiprocess``). A server such as gunicorn brings a master of its own, which forks: not
from a process whose threads follow the run, and not with our order of what ends first where memory does.
"""

from __future__ import annotations

import hashlib
import http.client
import logging
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http import HTTPStatus
from typing import Any
from urllib.parse import quote

from werkzeug.serving import WSGIRequestHandler, make_server

from chimbuko.errors import ServiceError
from chimbuko.provenance.query.run import open_run
from chimbuko.runs.directory import RunDirectory
from chimbuko.viz.api.errors import error_body
from chimbuko.viz.http.app import create_app
from chimbuko.viz.http.listening import listen
from chimbuko.viz.jobs.messagequeue import EVENTS
from chimbuko.viz.jobs.queue import JobQueue
from chimbuko.viz.jobs.workerpool import WorkerPool
from chimbuko.viz.live.feed import Feed

LOOPBACK = "127.0.0.1"
LAST_QUESTIONS_S = 1.0
"""Pages of a run that has just ended ask for their lists once more."""


class _Handler(WSGIRequestHandler):
    """Keeps no log of requests: the first one's address holds the token."""

    def log(self, type: str, message: str, *args: Any) -> None:
        if type == "error":
            logging.getLogger("chimbuko.viz").error("a request failed; the page shows which")

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """Refuse what is no request at all, in the form that all errors have."""
        body = error_body(code, message or HTTPStatus(code).phrase)
        self.close_connection = True
        self.send_response(code)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(body)


@contextmanager
def serving(
    run: RunDirectory,
    port: int,
    token: str,
    broker_url: str | None,
    hosts: frozenset[str] = frozenset(),
    worker_pool: WorkerPool | None = None,
    listening: socket.socket | None = None,
    is_alone: bool = True,
) -> Iterator[str]:
    """Serve the dashboard of a run while the context lasts; gives its address, once it answers.

    Parameters
    ----------
    port
        0 takes any that is free.
    worker_pool
        Where long questions are answered; None for a worker of our own at the run's broker, or a private one.
    listening
        A socket that listens, in place of ``port``.
    is_alone
        Whether no other process serves that socket.

    Raises
    ------
    ServiceError
        The port is taken.
    ChimbukoError
        The run or its store cannot be read.
    """
    listening = listening or listen(port)
    try:
        provenance = open_run(run)
        feed = Feed(run, provenance, broker_url)
        channel = f"chimbuko-{hashlib.sha256(f'channel {token}'.encode()).hexdigest()[:16]}"
        logs = run.logs if broker_url else None
        queue = JobQueue(run.path, worker_pool or WorkerPool(None, logs=logs), channel)
        app = create_app(provenance, run.read_info(), feed, token, hosts, queue=queue, is_alone=is_alone)
        server = make_server(
            LOOPBACK, port, app, threaded=True, request_handler=_Handler, fd=listening.fileno()
        )
    finally:
        # Werkzeug serves a duplicate of the descriptor.
        port = listening.getsockname()[1]
        listening.close()
    thread = threading.Thread(target=server.serve_forever, name="http", daemon=True)
    thread.start()
    feed.start()
    queue.start()
    try:
        _wait_for_answer(port, token)
        yield f"http://{LOOPBACK}:{port}/?token={quote(token, safe='')}"
    finally:
        queue.stop()
        feed.stop()
        if broker_url and app.extensions[EVENTS].pages:
            time.sleep(LAST_QUESTIONS_S)
        server.shutdown()
        thread.join()
        server.server_close()
        provenance.close()


def _wait_for_answer(port: int, token: str) -> None:
    connection = http.client.HTTPConnection(LOOPBACK, port, timeout=10)
    try:
        connection.request("GET", "/api/v1/run", headers={"Authorization": f"Bearer {token}"})
        answer = connection.getresponse()
        answer.read()
    except OSError as error:
        raise ServiceError(f"the dashboard on port {port} does not answer ({error}); try again") from error
    finally:
        connection.close()
    if answer.status != 200:
        raise ServiceError(
            f"the dashboard on port {port} answers with status {answer.status}; is the run's store whole?"
        )
