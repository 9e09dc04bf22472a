"""The web application: page, API and events of one run, behind one door."""

from __future__ import annotations

import gzip
import re
import threading
from pathlib import Path
from typing import Any
from urllib.parse import quote

from flask import Flask, Response, redirect, request, send_from_directory
from flask_socketio import SocketIO
from werkzeug.exceptions import HTTPException

from chimbuko.errors import ChimbukoError, ConfigError
from chimbuko.provenance.calls import as_object
from chimbuko.provenance.queries import Provenance
from chimbuko.rundir import RunInfo
from chimbuko.viz.api import make_api, rank_text, step_row
from chimbuko.viz.door import Door, error_body
from chimbuko.viz.feed import Feed, Update

STATIC = Path(__file__).parent / "static"
NOT_BUILT = "web page not built: run make web"
EVENTS = "/events"
MOST_WATCHED = 64
"""Ranks whose steps one page gets live: more than it can tell apart."""

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "base-uri 'self'; form-action 'none'; frame-ancestors 'none'"
)

_RANK = re.compile(r"\d{1,9}:\d{1,9}")


def create_app(
    provenance: Provenance,
    run: RunInfo,
    feed: Feed,
    token: str,
    hosts: frozenset[str] = frozenset(),
    static: Path = STATIC,
) -> Flask:
    """The dashboard of one run, as a WSGI application.

    Parameters
    ----------
    feed
        Current knowledge of the run; the caller starts and stops it.
    token
        What every request must show, in ``?token=``, cookie, or ``Authorization: Bearer``.
    hosts
        Names by which the server may be called, beside those of the loopback.
    static
        Folder of the built page.
    """
    app = Flask(__name__, static_folder=None)
    app.register_blueprint(make_api(provenance, feed))
    _add_page(app, run.name, static)
    _add_errors(app)
    app.after_request(_seal)
    # Pings every 2 s: a cut tunnel is noticed within 4 s. Threads: see docs of Flask-SocketIO on eventlet.
    sockets = SocketIO(app, async_mode="threading", ping_interval=2, ping_timeout=2)
    feed.on_update = _Events(sockets).send
    app.wsgi_app = Door(app.wsgi_app, token, hosts)  # type: ignore[method-assign]
    return app


def _add_page(app: Flask, run_name: str, static: Path) -> None:
    home = "r/" + quote(run_name, safe="")

    @app.get("/")
    def root() -> Any:
        return redirect(home, 302)

    @app.get("/r/<name>")
    @app.get("/r/<name>/<path:_rest>")
    def page(name: str, _rest: str = "") -> Response:
        if name != run_name:
            return Response(
                f"No run {name!r} here: this dashboard shows {run_name!r}.\n", 404, mimetype="text/plain"
            )
        index = static / "index.html"
        if not index.is_file():
            return Response(NOT_BUILT + "\n", 503, mimetype="text/plain")
        # Relative, so that the page finds its files behind a proxy that puts a path in front.
        up = "../" * (request.path.count("/") - 1)
        text = index.read_text().replace('<base href="/" />', f'<base href="{up}" />')
        return Response(text, mimetype="text/html", headers={"Cache-Control": "no-cache"})

    @app.get("/assets/<path:name>")
    def assets(name: str) -> Response:
        # Names hold a hash of the content, so a file never changes.
        return send_from_directory(static / "assets", name, max_age=31_536_000)

    @app.get("/favicon.svg")
    def icon() -> Response:
        return send_from_directory(static, "favicon.svg")


def _add_errors(app: Flask) -> None:
    @app.errorhandler(ChimbukoError)
    def ours(error: ChimbukoError) -> Response:
        return _refusal(400 if isinstance(error, ConfigError) else 503, str(error))

    @app.errorhandler(HTTPException)
    def http(error: HTTPException) -> Response:
        code = error.code or 500
        return _refusal(code, error.description or error.name)


def _refusal(status: int, text: str) -> Response:
    return Response(error_body(status, text), status, mimetype="application/json")


def _seal(response: Response) -> Response:
    """What every answer of ours carries."""
    response.headers["Content-Security-Policy"] = POLICY
    response.headers["X-Content-Type-Options"] = "nosniff"
    response.headers["Referrer-Policy"] = "no-referrer"
    response.headers.setdefault("Cache-Control", "no-store")
    response.headers["Vary"] = "Accept-Encoding"
    return _packed(response)


def _packed(response: Response) -> Response:
    """Compressed, where that pays: histories and scripts shrink to a quarter, over thin tunnels too."""
    if "gzip" not in request.headers.get("Accept-Encoding", "") or response.status_code != 200:
        return response
    response.direct_passthrough = False
    body = response.get_data()
    if len(body) > 1400:
        response.set_data(gzip.compress(body, 5, mtime=0))
        response.headers["Content-Encoding"] = "gzip"
    return response


class _Events:
    """Sends updates to pages: the same status to all, and to each the steps of the ranks that it watches."""

    def __init__(self, sockets: SocketIO) -> None:
        self._sockets = sockets
        self._watched: dict[str, list[str]] = {}
        self._lock = threading.Lock()
        sockets.on_event("connect", self._connect, namespace=EVENTS)
        sockets.on_event("disconnect", self._disconnect, namespace=EVENTS)
        sockets.on_event("watch", self._watch, namespace=EVENTS)

    def send(self, update: Update) -> None:
        """One event to each page."""
        status = as_object(update.status)
        with self._lock:
            watched = dict(self._watched)
        # Of 10,000 ranks a page watches at most a few: only those are worth converting.
        wanted = {rank for ranks in watched.values() for rank in ranks}
        texts = {key: rank_text(key) for key in update.steps}
        steps = {
            texts[key]: [step_row(step) for step in rows]
            for key, rows in update.steps.items()
            if texts[key] in wanted
        }
        for page, ranks in watched.items():
            frame = {
                "status": status,
                "steps": {rank: steps[rank] for rank in ranks if rank in steps},
                "resync": update.resync,
            }
            self._sockets.emit("frame", frame, namespace=EVENTS, to=page)

    def _connect(self, _auth: Any = None) -> None:
        with self._lock:
            self._watched[_page()] = []

    def _disconnect(self, _reason: Any = None) -> None:
        with self._lock:
            self._watched.pop(_page(), None)

    def _watch(self, ranks: Any) -> bool:
        """Replace the ranks that a page watches; the answer tells it that the history may be read now."""
        if not isinstance(ranks, list) or len(ranks) > MOST_WATCHED:
            return False
        if not all(isinstance(rank, str) and _RANK.fullmatch(rank) for rank in ranks):
            return False
        with self._lock:
            self._watched[_page()] = list(dict.fromkeys(ranks))
        return True


def _page() -> str:
    sid: str = request.sid  # type: ignore[attr-defined]
    return sid
