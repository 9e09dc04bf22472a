"""Runs, servers and a browser for the tests of the dashboard."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import pytest

from chimbuko.runtime.protocol.brokerplace import BROKER_VARIABLE
from chimbuko.viz.http.app import STATIC
from tests.browsing import give_back, lent_page
from tests.patience import PATIENCE_S
from tests.viz.made_run import MadeRun, make_run

if TYPE_CHECKING:
    from playwright.sync_api import Browser

TOKEN = "a-token/of+tests"
LINK_LOST = "WebSocket is already in CLOSING or CLOSED state"
"""Noted by the browser where a page answers before it has heard that the link is lost: no error of it."""
WEB = STATIC.parent / "web"


@pytest.fixture(scope="session")
def finished(tmp_path_factory: pytest.TempPathFactory) -> MadeRun:
    """A run that has ended."""
    return make_run(tmp_path_factory.mktemp("finished") / "heat")


class DashboardProcess:
    """``python -m chimbuko.viz`` over a run."""

    def __init__(
        self,
        made: MadeRun,
        broker_url: str | None = None,
        port: int = 0,
        words: Sequence[str] = (),
        environment: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        secrets = {"CHIMBUKO_TOKEN": TOKEN} | ({BROKER_VARIABLE: broker_url} if broker_url else {})
        command = [sys.executable, "-m", "chimbuko.viz"]
        command += ["--run-dir", str(made.directory.path), "--port", str(port), *words]
        self.process = subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, **environment, **secrets},
        )
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        self.url: str = json.loads(line)["url"] if line else ""
        self.base = self.url.partition("?")[0]
        self.port = urlsplit(self.base).port or 0

    def stop(self) -> tuple[int, str]:
        """Ask it to end; exit code and what it said on stderr."""
        self.process.terminate()
        _, errors = self.process.communicate(timeout=PATIENCE_S)
        return self.process.returncode, errors


@contextmanager
def dashboard(
    made: MadeRun, broker_url: str | None = None, port: int = 0, **options: Any
) -> Iterator[DashboardProcess]:
    """A dashboard process that is gone afterwards."""
    process = DashboardProcess(made, broker_url, port, **options)
    try:
        yield process
    finally:
        process.process.kill()
        process.process.communicate()


@pytest.fixture(scope="session")
def stored_dashboard(finished: MadeRun, page_files: Path) -> Iterator[DashboardProcess]:
    """A dashboard over the run that has ended."""
    with dashboard(finished) as process:
        yield process


@pytest.fixture(scope="session")
def page_files() -> Path:
    """The page, built from the sources as they are."""
    index = STATIC / "index.html"
    sources = [path for path in WEB.rglob("*") if path.is_file() and "node_modules" not in path.parts]
    if not index.exists() or index.stat().st_mtime < max(path.stat().st_mtime for path in sources):
        if not (WEB / "node_modules").is_dir():
            subprocess.run(["npm", "ci", "--silent"], cwd=WEB, check=True)
        subprocess.run(["npm", "run", "--silent", "build"], cwd=WEB, check=True, stdout=subprocess.DEVNULL)
    return STATIC


class Watched:
    """A page that has come in, and what must not happen on it: requests elsewhere, errors on the console."""

    def __init__(self, browser: Browser, dashboard: DashboardProcess, **options: Any) -> None:
        self.page = lent_page(browser, **{"viewport": {"width": 1280, "height": 600}} | options)
        self.base = dashboard.base
        self.requests: list[str] = []
        self.errors: list[str] = []
        self.may_be_missing = False
        """Whether something is asked for that is not there: the browser notes each such answer, some day."""
        self._heard: dict[Any, Callable[[Any], None]] = {
            "request": lambda request: self.requests.append(request.url),
            "pageerror": lambda error: self.errors.append(str(error)),
            "console": lambda line: self._note(line.text) if line.type == "error" else None,
        }
        for event, hear in self._heard.items():
            self.page.on(event, hear)
        # The cookie comes without a page: half of the tests would load an overview that nobody looks at.
        self.page.context.request.get(dashboard.url, max_redirects=0)

    def _note(self, error: str) -> None:
        if not (self.may_be_missing and "404" in error) and LINK_LOST not in error:
            self.errors.append(error)

    def close(self) -> None:
        """Leave the page, which the next test has."""
        for event, hear in self._heard.items():
            self.page.remove_listener(event, hear)
        give_back(self.page, self.base)
