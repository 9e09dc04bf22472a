"""Web application: page, API and events of one run, behind one access control.

Answers are compressed on their way out, whole ones and streams. Flask-Compress compresses each
answer anew or needs a cache beside it; of a run with 10,000 ranks all pages ask for the same.
"""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterable, Iterator
from functools import lru_cache
from html import escape
from pathlib import Path
from typing import Any
from urllib.parse import quote

from flask import Flask, Response, abort, redirect, request, send_from_directory
from flask_socketio import SocketIO
from werkzeug.datastructures import Accept
from werkzeug.exceptions import HTTPException, NotFound

from chimbuko.core.errors import ChimbukoError, ConfigError
from chimbuko.provenance.query.run import Provenance
from chimbuko.runtime.runs.directory import RunInfo
from chimbuko.viz.api.blueprint import make_api
from chimbuko.viz.api.endpoint import Missing, ServedRun, error_body
from chimbuko.viz.api.endpoints import ENDPOINTS
from chimbuko.viz.api.openapi import ROOT
from chimbuko.viz.http.auth import AccessControl, asks_for_page
from chimbuko.viz.http.events import Events
from chimbuko.viz.jobs.messagequeue import EVENTS
from chimbuko.viz.jobs.queue import JobQueue, make_answers
from chimbuko.viz.live.feed import Feed

SMALLEST_BYTES = 1400
"""Size in bytes below which answers are not compressed: less fits into one packet anyway."""
LEVEL = 5
MOST_KEPT = 32
LARGEST_KEPT_BYTES = 1_000_000
_GZIP_FORMAT = 31


def compressed(response: Response, accepted: Accept) -> Response:
    """Return the response, compressed where that pays: histories and scripts shrink to a quarter.

    Parameters
    ----------
    accepted
        Encodings that the client takes.
    """
    response.vary.add("Accept-Encoding")
    # A file to be saved may be large, and is sent as it is: compressing it would hold it in memory.
    is_saved = response.headers.get("Content-Disposition", "").startswith("attachment")
    if response.status_code != 200 or is_saved or not accepted.quality("gzip"):
        return response
    if response.is_streamed and not response.direct_passthrough:
        response.response = _compressed_stream(response.iter_encoded())
    else:
        response.direct_passthrough = False
        body = response.get_data()
        if len(body) < SMALLEST_BYTES:
            return response
        response.set_data(_packed(body) if len(body) <= LARGEST_KEPT_BYTES else _pack(body))
    response.headers["Content-Encoding"] = "gzip"
    return response


def _pack(body: bytes) -> bytes:
    return gzip.compress(body, LEVEL, mtime=0)


_packed = lru_cache(MOST_KEPT)(_pack)
"""Compressed answers that many pages ask for, each compressed once; they are the same object, whose hash is
known.
"""


def _compressed_stream(chunks: Iterable[bytes]) -> Iterator[bytes]:
    packer = zlib.compressobj(LEVEL, wbits=_GZIP_FORMAT)
    for chunk in chunks:
        if packed := packer.compress(chunk):
            yield packed
    yield packer.flush()


STATIC = Path(__file__).parent.parent / "static"
NOT_BUILT = "web page not built: run make web"
MOST_BODY_BYTES = 65_536

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob:; connect-src 'self'; "
    "base-uri 'self'; form-action 'none'; frame-ancestors 'none'"
)


def create_app(
    provenance: Provenance,
    run: RunInfo,
    feed: Feed,
    token: str,
    hosts: frozenset[str] = frozenset(),
    static: Path = STATIC,
    queue: JobQueue | None = None,
    is_alone: bool = True,
) -> Flask:
    """Return the dashboard of one run, as a WSGI application.

    Parameters
    ----------
    feed
        Current knowledge of the run; the caller starts and stops it.
    token
        Token that every request must show, in ``?token=``, cookie, or ``Authorization: Bearer``.
    hosts
        Names by which the server may be called, beside those of the loopback.
    static
        Folder of the built page.
    queue
        Takes long questions; the caller starts and stops it.
    is_alone
        Whether this process alone serves the port. Among several a page must stay with one, which WebSocket
        does, and polling does not.
    """
    app = plain_app(static, static / "index.html")
    app.register_blueprint(make_api(ServedRun(provenance, feed), ENDPOINTS))
    _add_page(app, run, static)
    # Pings every 2 s: a cut tunnel is noticed within 4 s. Threads: see docs of Flask-SocketIO on eventlet.
    sockets = SocketIO(
        app,
        async_mode="threading",
        ping_interval=2,
        ping_timeout=2,
        transports=["websocket", "polling"] if is_alone else ["websocket"],
        **{"client_manager": queue.queue} if queue else {},
    )
    events = app.extensions[EVENTS] = Events(sockets)
    feed.on_update = events.send
    if queue is not None:
        queue.attach(sockets)
        events.on_gone = queue.forget_page
        app.register_blueprint(make_answers(queue.answers))
    app.wsgi_app = AccessControl(app.wsgi_app, token, hosts)  # type: ignore[method-assign]
    return app


def plain_app(static: Path, lost: Path) -> Flask:
    """Return an application with the files of the pages, and the headers of all answers.

    Parameters
    ----------
    lost
        The page that says where there is none at an address, and leads back.
    """
    app = Flask(__name__, static_folder=None)

    @app.get("/assets/<path:name>")
    def assets(name: str) -> Response:
        # Names hold a hash of the content, so a file never changes.
        return send_from_directory(static / "assets", name, max_age=31_536_000)

    @app.get("/favicon.svg")
    def icon() -> Response:
        return send_from_directory(static, "favicon.svg")

    _add_limit(app)
    _add_errors(app, lost)
    app.after_request(_seal)
    return app


def page_of(file: Path, path: str, **data: str) -> Response:
    """Return a built page as it is at ``path``; its scripts find ``data`` with its base."""
    if not file.is_file():
        return Response(NOT_BUILT + "\n", 503, mimetype="text/plain")
    # Relative, so that the page finds its files behind a proxy that puts a path in front.
    up = "../" * (path.count("/") - 1)
    given = "".join(f' data-{name}="{escape(value)}"' for name, value in data.items())
    text = file.read_text().replace('<base href="/" />', f'<base href="{up}"{given} />')
    return Response(text, mimetype="text/html", headers={"Cache-Control": "no-cache"})


def renamed_page(name: str, rest: str) -> Any:
    """Return a redirect to the same page of a run by its name, from one by its id, as alerts have it."""
    up = "../" * (rest.count("/") + 1) if rest else ""
    query = f"?{request.query_string.decode()}" if request.query_string else ""
    return redirect(up + quote(name, safe="") + (f"/{quote(rest, safe='/:')}" if rest else "") + query, 302)


def _add_page(app: Flask, run: RunInfo, static: Path) -> None:
    home = "r/" + quote(run.name, safe="")

    @app.get("/")
    def root() -> Any:
        return redirect(home, 302)

    @app.get("/r/<name>")
    @app.get("/r/<name>/<path:rest>")
    def page(name: str, rest: str = "") -> Any:
        if name == run.id != run.name:
            return renamed_page(run.name, rest)
        if name != run.name:
            raise NotFound(f"No run {name!r} here: this dashboard shows {run.name!r}.")
        return page_of(static / "index.html", request.path)


def _add_limit(app: Flask) -> None:
    @app.before_request
    def refuse_bodies() -> None:
        # No endpoint reads a body: events arrive through Socket.IO, which is in front of this.
        if (request.content_length or 0) > MOST_BODY_BYTES or "Transfer-Encoding" in request.headers:
            abort(413)


def _add_errors(app: Flask, lost: Path) -> None:
    @app.errorhandler(ChimbukoError)
    def ours(error: ChimbukoError) -> Response:
        status = 404 if isinstance(error, Missing) else 400 if isinstance(error, ConfigError) else 503
        return Response(error_body(status, str(error)), status, mimetype="application/json")

    @app.errorhandler(HTTPException)
    def http(error: HTTPException) -> Response:
        status = error.code or 500
        if status == 404 and asks_for_page(request.environ) and not request.path.startswith(f"{ROOT}/"):
            answer = page_of(lost, request.path, lost=error.description or error.name)
            answer.status_code = 404
            return answer
        # The error's own headers stay: allowed methods, and ranges.
        response = Response(status=status, headers=error.get_headers(request.environ))
        response.set_data(error_body(status, error.description or error.name))
        response.mimetype = "application/json"
        return response


def _seal(response: Response) -> Response:
    """Add the headers that every answer carries."""
    response.headers["Content-Security-Policy"] = POLICY
    response.headers["X-Content-Type-Options"] = "nosniff"
    response.headers["Referrer-Policy"] = "no-referrer"
    response.headers.setdefault("Cache-Control", "no-store")
    return compressed(response, request.accept_encodings)
