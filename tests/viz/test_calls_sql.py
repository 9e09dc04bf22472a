"""The list of calls as SQL: whatever limits the list, the copied statement answers the same."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

import pytest

from chimbuko.provenance.calls import CallFilter
from chimbuko.provenance.queries import Provenance, open_run
from tests.viz.conftest import DashboardProcess, Watched, dashboard
from tests.viz.evident_run import evident_run
from tests.viz.made_run import FUNCTIONS, KERNEL, ZERO_US, MadeRun
from tests.viz.panels import sql_rows

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> MadeRun:
    """A run that has ended."""
    return evident_run(tmp_path_factory.mktemp("evident") / "heat")


@pytest.fixture(scope="module")
def process(made: MadeRun, page_files: Path) -> Iterator[DashboardProcess]:
    """Its dashboard."""
    with dashboard(made) as process:
        yield process


@pytest.fixture(scope="module")
def provenance(made: MadeRun) -> Iterator[Provenance]:
    """What the store says."""
    with open_run(made.directory) as provenance:
        yield provenance


@pytest.fixture(scope="module")
def page(browser: Browser, process: DashboardProcess) -> Iterator[Page]:
    """A browser."""
    watched = Watched(browser, process)
    watched.page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    yield watched.page
    assert watched.errors == []
    watched.close()


CASES = [
    ("label=anomaly", CallFilter()),
    ("label=normal", CallFilter(label="normal")),
    ("", CallFilter(label=None)),
    ("label=anomaly&rank=0:1", CallFilter(program=0, rank=1)),
    ("label=anomaly&step=10..19", CallFilter(step_min=10, step_max=19)),
    ("label=anomaly&function=MPI_*", CallFilter(function="MPI_*")),
    ("label=anomaly&function=mpi_*", CallFilter(function="mpi_*")),
    ("label=anomaly&function=*swee?%20*", CallFilter(function="*swee? *")),
    (f"label=anomaly&function={quote(FUNCTIONS[0])}", CallFilter(function=FUNCTIONS[0])),
    (f"label=anomaly&function={quote(KERNEL)}", CallFilter(function=KERNEL)),
    ("label=anomaly&severity_us=9000", CallFilter(min_severity_us=9000.0)),
    ("label=anomaly&score=150.5", CallFilter(min_score=150.5)),
    ("label=anomaly&node=node1", CallFilter(node="node1")),
    ("label=anomaly&node=*0", CallFilter(node="*0")),
    ("thread=5", CallFilter(label=None, thread=5)),
    ("gpu=true", CallFilter(label=None, is_gpu=True)),
    ("gpu=false&label=normal", CallFilter(label="normal", is_gpu=False)),
    ("label=anomaly&text=SWEEP", CallFilter(text="SWEEP")),
    ("label=anomaly&text=NODE0", CallFilter(text="NODE0")),
    ("label=anomaly&text=time_step", CallFilter(text="time_step")),
    (
        "label=anomaly&time=7030000..9100000",
        CallFilter(time_min_us=ZERO_US + 7_030_000, time_max_us=ZERO_US + 9_100_000),
    ),
    (
        "label=anomaly&rank=0:3&function=*_*&severity_us=5000&step=5..40",
        CallFilter(program=0, rank=3, function="*_*", min_severity_us=5000.0, step_min=5, step_max=40),
    ),
]


@pytest.mark.parametrize(("query", "wanted"), CASES, ids=[query[:40] or "all" for query, _ in CASES])
@pytest.mark.parametrize("order", ["desc", "asc"])
def test_the_statement_answers_the_list(
    page: Page, process: DashboardProcess, provenance: Provenance, query: str, wanted: CallFilter, order: str
) -> None:
    address = f"{process.base}r/heat/calls?{query}&sort=entry_us{'&order=asc' if order == 'asc' else ''}"
    page.goto(address)
    page.wait_for_selector("[data-panel=calls] [data-call], [data-panel=calls] .empty")
    calls = provenance.calls(wanted, "entry_us", descending=order == "desc", limit=50).calls
    assert calls or "mpi_" in query
    found = sql_rows(page, "calls")
    assert [row["entry_us"] for row in found] == [call.entry_us for call in calls]
    assert {row["call"] for row in found} == {call.id for call in calls}
