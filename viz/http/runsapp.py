"""Application for all runs of a folder behind one access control: their list, and the page, API and
events of each run.

The page of a run is where it always is, at ``/r/NAME``; its API and events are below ``/of/NAME/``, and there
from the first request on.
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import msgspec
from flask import Flask, Response, redirect, request

from chimbuko.core.errors import ChimbukoError, ServiceError
from chimbuko.runtime.runs.directory import RunDirectory
from chimbuko.viz.api.blueprint import SharedAnswers
from chimbuko.viz.api.endpoint import Missing
from chimbuko.viz.api.openapi import ROOT
from chimbuko.viz.api.runslist import RunsList, addresses, readable_runs
from chimbuko.viz.http.app import STATIC, page_of, plain_app, renamed_page
from chimbuko.viz.http.auth import AccessControl
from chimbuko.viz.http.dashboards import Dashboard
from chimbuko.viz.jobs.workerpool import WorkerPool

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIApplication, WSGIEnvironment

LOOK_S = 1.0
"""Interval in seconds between checks whether open runs are still there."""
IDLE_S = 600.0
"""Time in seconds after which a run that no page shows, and nobody has asked about, is closed."""
LIST_LASTS_S = 1.0

_OF_RUN = re.compile(r"/of/([^/]+)(/.*)", re.DOTALL)


@dataclass
class _OpenRun:
    """Run whose dashboard is open."""

    opening: threading.Lock = field(default_factory=threading.Lock)
    dashboard: Dashboard | None = None
    asked_s: float = field(default_factory=time.monotonic)


class RunsApp:
    """Dashboards of all runs of a folder, as a WSGI application and a context manager, which closes them.

    Parameters
    ----------
    token, hosts, static
        As in ``create_app``.
    make_pool
        Makes what answers the long questions about one run.
    prepare
        Called with a run before it is opened; what it raises is said on the run's page.
    """

    def __init__(
        self,
        folder: Path,
        token: str,
        hosts: frozenset[str],
        make_pool: Callable[[], WorkerPool],
        prepare: Callable[[RunDirectory], None],
        static: Path = STATIC,
    ) -> None:
        self._folder = folder
        self._token = token
        self._hosts = hosts
        self._make_pool = make_pool
        self._prepare = prepare
        self._open: dict[str, _OpenRun] = {}
        self._lock = threading.Lock()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._look_after, name="runs", daemon=True)
        self._pages = _pages(folder, static)
        self._entrance = AccessControl(self._dispatch, token, hosts)

    def __call__(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        """Answer a request."""
        return self._entrance(environ, start_response)

    def __enter__(self) -> RunsApp:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._lock:
            self._stopping.set()
        self._thread.join()
        for name in list(self._open):
            self._close(name)

    def _dispatch(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        path = environ["PATH_INFO"]
        match = _OF_RUN.fullmatch(path)
        app: WSGIApplication = self._pages
        if match is not None:
            name = match[1].encode("latin-1").decode(errors="replace")
            try:
                app = self._dashboard(name).app
            except ChimbukoError as error:
                environ["chimbuko.error"] = error
            else:
                start = len(match[1]) + len("/of/")
                environ["SCRIPT_NAME"] = environ.get("SCRIPT_NAME", "") + path[:start]
                environ["PATH_INFO"] = match[2]
        return app(environ, start_response)

    def _dashboard(self, name: str) -> Dashboard:
        """Return the dashboard of the run with this address, and open it if it is not open.

        Raises
        ------
        Missing
            There is no such run, or not any more.
        ServiceError
            The server is ending.
        ChimbukoError
            It cannot be read.
        """
        while True:
            with self._lock:
                if self._stopping.is_set():
                    # A page that was disconnected asks again at once; nobody would close the dashboard that
                    # it opened now.
                    raise ServiceError("the server is ending")
                one = self._open.setdefault(name, _OpenRun())
            with one.opening:
                if self._open.get(name) is not one:
                    # The dashboard was closed meanwhile.
                    continue
                one.asked_s = time.monotonic()
                if one.dashboard is None or not one.dashboard.run.info_path.exists():
                    run = _run_at(self._folder, name)
                    self._prepare(run)
                    one.dashboard = Dashboard(run, self._token, None, self._hosts, self._make_pool())
                    one.dashboard.start()
                return one.dashboard

    def _look_after(self) -> None:
        while not self._stopping.wait(LOOK_S):
            now_s = time.monotonic()
            for name, one in list(self._open.items()):
                if one.dashboard is None:
                    continue
                is_gone = not one.dashboard.run.info_path.exists()
                if is_gone or (now_s - one.asked_s > IDLE_S and not one.dashboard.events.pages):
                    self._close(name)

    def _close(self, name: str) -> None:
        with self._lock:
            one = self._open.pop(name)
        with one.opening:
            if one.dashboard is not None:
                one.dashboard.stop()
                one.dashboard.events.send_away()
                one.dashboard.close()


def _run_at(folder: Path, name: str) -> RunDirectory:
    for run, address in addresses(readable_runs(folder)).items():
        if address == name:
            return run
    raise Missing(
        f"No run {name[:200]!r} in {folder} any more, or none that can be read; go back to the list"
    )


def _pages(folder: Path, static: Path) -> Flask:
    """Return the application with the list of runs and the pages themselves."""
    app = plain_app(static, static / "runs.html")
    runs, shared = RunsList(folder), SharedAnswers(LIST_LASTS_S)

    @app.before_request
    def refuse() -> None:
        if error := request.environ.get("chimbuko.error"):
            raise error

    @app.get("/")
    def root() -> Any:
        return redirect("runs", 302)

    @app.get("/runs")
    def list_page() -> Response:
        return page_of(static / "runs.html", request.path)

    @app.get(f"{ROOT}/runs")
    def list_of_runs() -> Response:
        body = shared.get("runs", lambda: msgspec.json.encode(runs.answer()))
        response = Response(body, mimetype="application/json")
        response.add_etag(weak=True)
        response.make_conditional(request)
        return response

    @app.get("/r/<name>")
    @app.get("/r/<name>/<path:rest>")
    def page(name: str, rest: str = "") -> Any:
        readable = list(readable_runs(folder))
        named = addresses(readable)
        for run, info in readable:
            if name == info.id and name not in named.values():
                return renamed_page(named[run], rest)
        if name in named.values():
            return page_of(static / "index.html", request.path, mount=f"of/{quote(name, safe='')}/")
        answer = page_of(static / "runs.html", request.path, missing=name)
        answer.status_code = 404
        return answer

    return app
