"""A run that has ended and leaves no question open, its store and its dashboard."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from chimbuko.provenance.query.run import Provenance, open_run
from tests.viz.conftest import DashboardProcess, Watched, dashboard
from tests.viz.evident_run import evident_run
from tests.viz.made_run import MadeRun

if TYPE_CHECKING:
    from playwright.sync_api import Browser


@pytest.fixture(scope="package")
def made(tmp_path_factory: pytest.TempPathFactory) -> MadeRun:
    """The run."""
    return evident_run(tmp_path_factory.mktemp("evident") / "heat")


@pytest.fixture(scope="package")
def process(made: MadeRun, page_files: Path) -> Iterator[DashboardProcess]:
    """Its dashboard."""
    with dashboard(made) as process:
        yield process


@pytest.fixture(scope="package")
def provenance(made: MadeRun) -> Iterator[Provenance]:
    """What the store says."""
    with open_run(made.directory) as provenance:
        yield provenance


@contextmanager
def watching(browser: Browser, process: DashboardProcess) -> Iterator[Watched]:
    """A browser; afterwards: no error, and no request to anybody else."""
    watched = Watched(browser, process, accept_downloads=True)
    watched.page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    yield watched
    errors, requests = watched.errors, watched.requests
    watched.close()
    assert errors == []
    assert {url.split("/")[2] for url in requests if url.startswith("http")} == {process.base.split("/")[2]}


@pytest.fixture
def watched(browser: Browser, process: DashboardProcess) -> Iterator[Watched]:
    """A browser of a test's own."""
    with watching(browser, process) as watched:
        yield watched


@pytest.fixture(scope="module")
def shared(browser: Browser, process: DashboardProcess) -> Iterator[Watched]:
    """A browser for the tests of a file that leave a page as it is."""
    with watching(browser, process) as watched:
        yield watched
