"""A recorded program whose incidents are known, and its dashboard."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from chimbuko.provenance.query.run import Provenance, open_run
from tests.viz.conftest import DashboardProcess, Watched, dashboard
from tests.viz.made_run import MadeRun
from tests.viz.traced_run import traced_run

if TYPE_CHECKING:
    from playwright.sync_api import Browser


@pytest.fixture(scope="package")
def traced(tmp_path_factory: pytest.TempPathFactory, heat4_analysed: Path) -> MadeRun:
    """Four ranks with injected delays, for which the others waited."""
    return traced_run(tmp_path_factory.mktemp("incidents") / "heat", heat4_analysed)


@pytest.fixture(scope="package")
def process(traced: MadeRun, page_files: Path) -> Iterator[DashboardProcess]:
    """Its dashboard."""
    with dashboard(traced) as process:
        yield process


@pytest.fixture(scope="package")
def provenance(traced: MadeRun) -> Iterator[Provenance]:
    """What the store says."""
    with open_run(traced.directory) as provenance:
        yield provenance


@pytest.fixture(params=["light"])
def watched(request: pytest.FixtureRequest, browser: Browser, process: DashboardProcess) -> Iterator[Watched]:
    """A browser; afterwards: no error, and no request to anybody else."""
    watched = Watched(browser, process, color_scheme=request.param, accept_downloads=True)
    watched.page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    yield watched
    errors, requests = watched.errors, watched.requests
    watched.close()
    assert errors == []
    assert {url.split("/")[2] for url in requests if url.startswith("http")} == {process.base.split("/")[2]}
