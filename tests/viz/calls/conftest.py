"""A run whose calls differ in everything, and its function view in a browser."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from chimbuko.provenance.query.run import Provenance, open_run
from tests.viz.calls.asking import opened
from tests.viz.conftest import DashboardProcess, Watched, dashboard
from tests.viz.made_run import MadeRun
from tests.viz.varied_run import varied_run

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> MadeRun:
    """A run that has ended, whose calls differ in everything."""
    return varied_run(tmp_path_factory.mktemp("varied") / "heat")


@pytest.fixture(scope="module")
def provenance(made: MadeRun) -> Iterator[Provenance]:
    """What the store says."""
    with open_run(made.directory) as provenance:
        yield provenance


@pytest.fixture(scope="module")
def process(made: MadeRun, page_files: object) -> Iterator[DashboardProcess]:
    """The run's dashboard."""
    with dashboard(made) as process:
        yield process


@pytest.fixture
def watched(browser: Browser, process: DashboardProcess) -> Iterator[Watched]:
    """The page; afterwards: no error, and no request to anybody else."""
    watched = Watched(browser, process)
    watched.page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    yield watched
    errors, requests = watched.errors, watched.requests
    watched.close()
    assert errors == []
    assert {url.split("/")[2] for url in requests} == {process.base.split("/")[2]}


@pytest.fixture
def page(watched: Watched) -> Page:
    """The calls of the whole run."""
    return opened(watched, "")
