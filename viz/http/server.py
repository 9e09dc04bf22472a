"""Server of the dashboard of one run, or of those of all runs of a folder.

By Werkzeug's server, a thread for each connection: pages are few, and where they are many several processes
share the port (``multiprocess``). A server such as gunicorn brings a master of its own, which forks: not
from a process whose threads follow the run, and not with our order of what ends first where memory does.
"""

from __future__ import annotations

import http.client
import io
import socket
import ssl
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager, nullcontext, suppress
from http import HTTPStatus
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from werkzeug.serving import ThreadedWSGIServer, WSGIRequestHandler

from chimbuko.core.errors import ServiceError
from chimbuko.runtime.runs.directory import RunDirectory
from chimbuko.viz.api.endpoint import error_body
from chimbuko.viz.http.dashboards import Dashboard
from chimbuko.viz.http.listening import EVERYWHERE, Front
from chimbuko.viz.http.runsapp import RunsApp
from chimbuko.viz.jobs.workerpool import WorkerPool

if TYPE_CHECKING:
    from _typeshed.wsgi import WSGIApplication, WSGIEnvironment

LOOPBACK = "127.0.0.1"
REQUEST_S = 10.0
"""Time in seconds after which a client that sends nothing before its request is complete is disconnected."""
WHOLE_REQUEST_S = 30.0
"""Time in seconds after which a client whose request is not complete is disconnected, even if it keeps
sending.
"""
MOST_IDLE = 128
"""Most connections that wait for a request, each of which has a thread; beyond that the oldest one is closed.
"""
REST_S = 2.0
"""Time in seconds for which what is left of a request that is answered already is read and thrown away."""
MOST_REST_BYTES = 1 << 20
"""Most bytes of a request that is answered already that are read and thrown away."""
READ_BYTES = 1 << 16
LAST_QUESTIONS_S = 1.0
"""Time in seconds without a request after which pages of an ended run are taken to have asked for their last
lists.
"""
MOST_LAST_QUESTIONS_S = 5.0
"""Longest time in seconds that the end of the server waits for these requests, on a busy machine."""


class _Handler(WSGIRequestHandler):
    """Handler of a connection, without a log of requests: the first one's address holds the token.

    Encrypts in the thread of the connection: Werkzeug itself would do it where it takes connections, so that
    a client that says nothing would keep out all others.
    """

    server: _Server
    server_version = "chimbuko"
    # By default, the version of Python.
    sys_version = ""

    def setup(self) -> None:
        """Begin a connection, encrypted if the server uses TLS."""
        context: ssl.SSLContext | None = self.server.ssl_context
        if context is not None:
            self.request = context.wrap_socket(self.request, server_side=True, do_handshake_on_connect=False)
        self.request.settimeout(REQUEST_S)
        self.server.idle.add(self.request)
        if context is not None:
            try:
                self.request.do_handshake()
            except OSError:
                # Nobody else would, as the connection has not begun.
                self.server.idle.discard(self.request)
                self.request.close()
                raise
        super().setup()

    def make_environ(self) -> WSGIEnvironment:
        """Return the environment of a request, which alone reads its body."""
        environ = super().make_environ()
        # After the answer Werkzeug reads what is left from here.
        self.rfile = _Rest(self.rfile, self.request)
        return environ

    def run_wsgi(self) -> None:
        """Answer a request, for as long as that takes: a link to a page stays for hours."""
        self.server.idle.discard(self.request)
        self.request.settimeout(None)
        with nullcontext() if "Upgrade" in self.headers else self.server.answering():
            super().run_wsgi()
        self.request.settimeout(REQUEST_S)
        self.server.idle.add(self.request)

    def finish(self) -> None:
        """End a connection."""
        self.server.idle.discard(self.request)
        super().finish()
        if self.server.ssl_context is not None:
            self.request.close()

    def log(self, type: str, message: str, *args: Any) -> None:
        """Log nothing: such messages are about clients that fell silent, or speak another protocol.

        Failures in an answer are in the server's own log.
        """

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """Refuse what is no request at all, with an error in the API's form."""
        body = error_body(code, message or HTTPStatus(code).phrase)
        self.close_connection = True
        self.send_response(code)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(body)


class _Rest(io.BufferedIOBase):
    """Rest of what a client sends, which is thrown away so that the client sees the answer.

    Werkzeug asks for it by 10 MB at a time, and waits for as long as a client likes: by 200 clients without a
    token 2 GB, and 900 threads. Here a read takes what has come, and no more than a body may have; over TLS
    that may be half a record, whose other half never comes.
    """

    def __init__(self, file: io.BufferedIOBase, connection: socket.socket) -> None:
        self._file = file
        self._connection = connection
        self._left = MOST_REST_BYTES
        self._ends_s: float | None = None

    def read(self, size: int | None = -1, /) -> bytes:
        """Return bytes that have come; none at the end, and where there were too many, or they are late."""
        now_s = time.monotonic()
        self._ends_s = self._ends_s or now_s + REST_S
        if not self._left or now_s >= self._ends_s:
            return b""
        self._connection.settimeout(self._ends_s - now_s)
        found = b""
        # An error would leave Werkzeug's selector, a descriptor, to the garbage collector.
        with suppress(OSError):
            found = self._file.read1(min(self._left, READ_BYTES))
        self._left -= len(found)
        return found

    def close(self) -> None:
        """Close what was read from."""
        self._file.close()


class _IdleConnections:
    """Idle connections, the oldest first: no more than ``MOST_IDLE``.

    Clients without a token can hold as many connections as they like, but not our threads.
    """

    def __init__(self) -> None:
        self._waiting: dict[socket.socket, float] = {}
        self._lock = threading.Lock()

    def add(self, connection: socket.socket) -> None:
        """Add an idle connection, and close the oldest one where there are too many."""
        with self._lock:
            self._waiting[connection] = time.monotonic()
            oldest = list(self._waiting)[: len(self._waiting) - MOST_IDLE]
        self._send_away(oldest)

    def end_late(self) -> None:
        """Close connections that have been idle for too long."""
        latest_s = time.monotonic() - WHOLE_REQUEST_S
        with self._lock:
            late = list(takewhile(lambda one: self._waiting[one] < latest_s, self._waiting))
        self._send_away(late)

    def discard(self, connection: socket.socket) -> None:
        """Remove a connection that is not idle any more."""
        with self._lock:
            self._waiting.pop(connection, None)

    def _send_away(self, connections: list[socket.socket]) -> None:
        for one in connections:
            self.discard(one)
            with suppress(OSError):
                # The connection's thread, which waits for it, ends.
                socket.socket.shutdown(one, socket.SHUT_RDWR)


class _Server(ThreadedWSGIServer):
    """Server that does not report connections that could not begin: a scanner's, or a browser's that trusts
    no certificate.
    """

    def __init__(self, *arguments: Any, **options: Any) -> None:
        self.idle = _IdleConnections()
        self._answering, self._answered_s = 0, 0.0
        self._lock = threading.Lock()
        super().__init__(*arguments, **options)

    def service_actions(self) -> None:
        """Do the regular work: twice a second, and after each connection."""
        self.idle.end_late()

    @contextmanager
    def answering(self) -> Iterator[None]:
        """Count a request as being answered while the context lasts."""
        with self._lock:
            self._answering += 1
        try:
            yield
        finally:
            with self._lock:
                self._answering -= 1
                self._answered_s = time.monotonic()

    def let_pages_ask(self) -> None:
        """Wait until pages ask nothing more."""
        begin_s = now_s = time.monotonic()
        while now_s - begin_s < MOST_LAST_QUESTIONS_S and (
            self._answering or now_s - max(begin_s, self._answered_s) < LAST_QUESTIONS_S
        ):
            time.sleep(0.05)
            now_s = time.monotonic()

    def handle_error(self, request: Any, client_address: Any) -> None:
        if not isinstance(sys.exc_info()[1], OSError):
            super().handle_error(request, client_address)


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
    front: Front | None = None,
) -> Iterator[str]:
    """Serve the dashboard of a run while the context lasts, and yield its URL once it answers.

    Parameters
    ----------
    port
        0 takes any that is free.
    worker_pool
        Pool that answers long questions; None for a worker of its own at the run's broker, or a private one.
    listening
        A socket that listens, in place of ``port``.
    is_alone
        Whether no other process serves that socket.
    front
        Front of the dashboard towards browsers; None for the loopback.

    Raises
    ------
    ServiceError
        The port is taken.
    ChimbukoError
        The run or its store cannot be read.
    """
    front = front or Front()
    with ExitStack() as stack:
        with closing(listening or front.listen(port)) as listening:
            dashboard = Dashboard(run, token, broker_url, hosts | front.names, worker_pool, is_alone)
            stack.callback(dashboard.close)
            server = stack.enter_context(_running(front, listening, dashboard.app))
        dashboard.start()
        if broker_url:
            stack.callback(lambda: server.let_pages_ask() if dashboard.events.pages else None)
        stack.callback(dashboard.stop)
        _wait_for_answer(front, server.port, token, "/api/v1/run")
        yield front.url(server.port, token)


@contextmanager
def serving_folder(
    folder: Path,
    port: int,
    token: str,
    make_pool: Callable[[], WorkerPool],
    prepare: Callable[[RunDirectory], None],
    front: Front | None = None,
) -> Iterator[str]:
    """Serve the dashboards of all runs of a folder while the context lasts, and yield the URL of their
    list.

    Parameters
    ----------
    port, front
        As in ``serving``.
    make_pool, prepare
        As in ``RunsApp``.

    Raises
    ------
    ServiceError
        The port is taken.
    """
    front = front or Front()
    with ExitStack() as stack:
        with closing(front.listen(port)) as listening:
            app = RunsApp(folder, token, front.names, make_pool, prepare)
            server = stack.enter_context(_running(front, listening, app))
        stack.enter_context(app)
        _wait_for_answer(front, server.port, token, "/api/v1/runs")
        yield front.url(server.port, token)


@contextmanager
def _running(front: Front, listening: socket.socket, app: WSGIApplication) -> Iterator[_Server]:
    """Run a server on a duplicate of that socket while the context lasts."""
    server = _Server(front.address, listening.getsockname()[1], app, _Handler, fd=listening.fileno())
    server.ssl_context = front.tls()
    thread = threading.Thread(target=server.serve_forever, name="http", daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def _wait_for_answer(front: Front, port: int, token: str, path: str) -> None:
    address = LOOPBACK if front.address == EVERYWHERE else front.address
    connection = http.client.HTTPConnection(address, port, timeout=10)
    if front.certificate is not None:
        # This process itself answers: its certificate need not be valid for this address.
        trusting = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        trusting.check_hostname, trusting.verify_mode = False, ssl.CERT_NONE
        connection = http.client.HTTPSConnection(address, port, timeout=10, context=trusting)
    headers = {"Authorization": f"Bearer {token}", "Host": "localhost"}
    try:
        connection.request("GET", path, headers=headers)
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
