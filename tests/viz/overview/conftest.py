"""The overview of a stored run, and what its store says."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from chimbuko.provenance.query.run import Provenance, open_run
from tests.browsing import settled
from tests.viz.conftest import DashboardProcess, Watched
from tests.viz.made_run import RANKS, MadeRun
from tests.viz.overviewpage import Cells

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page


@pytest.fixture
def watched(browser: Browser, stored_dashboard: DashboardProcess) -> Iterator[Watched]:
    """The page; afterwards: no error, and no request to anybody else."""
    watched = Watched(browser, stored_dashboard)
    watched.page.goto(stored_dashboard.url)
    yield watched
    errors, requests = watched.errors, watched.requests
    watched.close()
    assert errors == []
    assert {url.split("/")[2] for url in requests} == {stored_dashboard.base.split("/")[2]}


@pytest.fixture
def page(watched: Watched) -> Page:
    """The overview."""
    watched.page.wait_for_selector(".rank-bar")
    watched.page.wait_for_selector(".heatmap .chart")
    settled(watched.page)
    return watched.page


@pytest.fixture(scope="module")
def provenance(finished: MadeRun) -> Provenance:
    """What the store says."""
    return open_run(finished.directory)


@pytest.fixture(scope="module")
def cells(provenance: Provenance) -> Cells:
    """Anomalies by rank and step, as stored."""
    steps = provenance.steps.counts([(0, rank) for rank in range(RANKS)])
    return {(step.rank, step.step): step.anomalies for step in steps}
