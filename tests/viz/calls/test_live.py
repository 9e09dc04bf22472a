"""The function view of a run that goes on: what is found appears, but nothing moves under the pointer."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from chimbuko.core.calls.record import CallRecord
from chimbuko.runtime.protocol.broker import PrivateBroker
from tests.browsing import settled
from tests.viz.conftest import DashboardProcess, Watched, dashboard
from tests.viz.live_run import LiveRun
from tests.viz.varied_run import varied_run

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

CHART = ".callscatter .chart"


@pytest.fixture
def live(tmp_path: Path, broker: PrivateBroker) -> Iterator[LiveRun]:
    """A run of which 20 steps are stored."""
    run = LiveRun(varied_run(tmp_path / "heat", "running", 20), broker.url, 20)
    yield run
    run.close()


@pytest.fixture
def process(live: LiveRun, page_files: Path) -> Iterator[DashboardProcess]:
    """The run's dashboard."""
    with dashboard(live.made, live.broker_url) as process:
        yield process


@pytest.fixture
def page(browser: Browser, process: DashboardProcess) -> Iterator[Page]:
    """The calls of rank 1, worst first."""
    watched = Watched(browser, process)
    watched.page.goto(watched.base + "r/heat/calls?rank=0:1")
    watched.page.wait_for_selector(CHART)
    yield watched.page
    assert watched.errors == []
    watched.close()


def calls_until(live: LiveRun, step: int) -> list[CallRecord]:
    """Calls of rank 1 before a step, worst first."""
    found = [record for record in live.made.records if record.rank == 1 and record.step < step]
    return sorted(found, key=lambda record: -record.severity_us)


def wait_for_marks(page: Page, calls: int) -> None:
    """Until the chart holds so many calls."""
    page.wait_for_function(
        f"n => {{const d = document.querySelector('{CHART}').dataset; return +d.drawn + +d.covered === n}}",
        arg=calls,
    )


def test_new_calls_arrive_by_themselves(page: Page, live: LiveRun) -> None:
    wait_for_marks(page, len(calls_until(live, 20)))
    live.advance(10)
    now = calls_until(live, 30)
    wait_for_marks(page, len(now))
    page.wait_for_selector(f'.calls [data-total="{len(now)}"]')
    page.wait_for_selector(f"[data-answer] >> text={len(now)} kept of {160 * 30:,} analysed")
    settled(page)
    shown = page.evaluate("[...document.querySelectorAll('.calls [data-call]')].map(r => r.dataset.call)")
    values = {record.id: record.severity_us for record in now}
    assert [values[event] for event in shown] == [record.severity_us for record in now[:50]]


@pytest.mark.thorough
def test_the_chart_holds_still_under_the_pointer(page: Page, live: LiveRun) -> None:
    before = len(calls_until(live, 20))
    wait_for_marks(page, before)
    page.locator(CHART).hover()
    live.advance(10)
    update = page.get_by_role("button", name="new calls · update")
    update.wait_for()
    wait_for_marks(page, before)
    update.click()
    wait_for_marks(page, len(calls_until(live, 30)))


@pytest.mark.thorough
def test_pause_freezes_chart_and_list_and_loses_nothing(page: Page, live: LiveRun) -> None:
    before = len(calls_until(live, 20))
    wait_for_marks(page, before)
    page.get_by_role("button", name="Pause").click()
    live.advance(10)
    page.wait_for_selector(".banner >> text=new")
    wait_for_marks(page, before)
    assert page.locator(".calls [data-total]").get_attribute("data-total") == str(before)
    page.locator("h1").click()
    page.keyboard.press("Space")
    wait_for_marks(page, len(calls_until(live, 30)))


@pytest.mark.thorough
def test_a_young_run_says_that_nothing_is_recorded_yet(
    browser: Browser, tmp_path: Path, broker: PrivateBroker, page_files: Path
) -> None:
    run = LiveRun(varied_run(tmp_path / "heat", "running", 0), broker.url, 0)
    with dashboard(run.made, run.broker_url) as process:
        watched = Watched(browser, process)
        watched.page.goto(watched.base + "r/heat/calls")
        watched.page.wait_for_selector(".callscatter .empty >> text=No call has been recorded yet")
        run.advance(5)
        watched.page.wait_for_selector(CHART)
        watched.close()
    run.close()
