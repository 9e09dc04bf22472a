"""The overview of a run that goes on: frames over a real broker, a store that fills, a server that dies."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import pytest

from chimbuko.broker import PrivateBroker
from tests.viz.conftest import DashboardProcess, Watched, dashboard
from tests.viz.live_run import LiveRun
from tests.viz.made_run import MadeRun, make_run

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

WAIT_MS = 20_000


@pytest.fixture
def live(tmp_path: Path, broker: PrivateBroker) -> Iterator[LiveRun]:
    """A run of which 20 steps are stored."""
    run = LiveRun(make_run(tmp_path / "heat", "running", 20), broker.url, 20)
    yield run
    run.close()


@pytest.fixture
def process(live: LiveRun, page_files: Path) -> Iterator[DashboardProcess]:
    """The run's dashboard."""
    with dashboard(live.made, live.broker_url) as process:
        yield process


@pytest.fixture
def opened(browser: Browser, process: DashboardProcess) -> Iterator[Watched]:
    """The page on ranks 1 and 2, whose chart is a table."""
    watched = Watched(browser, process)
    watched.page.goto(watched.base + "r/heat?sel=0:1,0:2&table=steps")
    watched.page.wait_for_selector(".steps tbody tr")
    yield watched
    watched.close()


def counts(page: Page) -> dict[tuple[str, int], int]:
    """Anomalies by rank and step, as the page has them."""
    rows = page.evaluate(
        "[...document.querySelectorAll('.steps tbody tr')].filter(r => r.cells.length === 6)"
        ".map(r => [r.cells[0].innerText, Number(r.cells[1].innerText), Number(r.cells[2].innerText)])"
    )
    return {(rank, step): anomalies for rank, step, anomalies in rows}


def expected(made: MadeRun, until: int) -> dict[tuple[str, int], int]:
    """What happened to ranks 1 and 2 before a step."""
    return {
        (f"0:{rank}", step.step): step.anomalies
        for rank in (1, 2)
        for step in made.steps_of(rank)
        if step.step < until
    }


def wait_for_step(page: Page, step: int) -> None:
    """Until the newest step is in the table."""
    page.wait_for_function(
        "step => Number(document.querySelector('.steps tbody tr')?.cells[1].innerText) === step",
        arg=step,
        timeout=WAIT_MS,
    )


def wait_for_anomalies(page: Page, anomalies: int) -> None:
    """Until the status bar counts as many."""
    page.wait_for_selector(f'[data-fact="anomalies"] >> text="▲ {anomalies}"', timeout=WAIT_MS)


def test_new_steps_arrive_by_themselves(opened: Watched, live: LiveRun) -> None:
    page = opened.page
    assert page.locator("[data-state]").get_attribute("data-state") == "live"
    assert counts(page) == expected(live.made, 20)
    live.advance(7)
    wait_for_step(page, 26)
    assert counts(page) == expected(live.made, 27)
    wait_for_anomalies(page, live.anomalies())
    # Lists follow within their own period.
    page.wait_for_selector(f'[data-total="{live.anomalies()}"]', timeout=WAIT_MS)
    page.wait_for_selector(f"[data-answer] >> text={live.anomalies()} anomalies", timeout=WAIT_MS)
    assert opened.errors == []


def test_a_page_opened_late_has_the_whole_history(
    browser: Browser, process: DashboardProcess, live: LiveRun
) -> None:
    live.advance(5, stored=True)
    live.advance(4, stored=False)
    early = Watched(browser, process)
    early.page.goto(early.base + "r/heat?sel=0:1,0:2&table=steps")
    wait_for_step(early.page, 28)
    late = Watched(browser, process)
    late.page.goto(early.page.url)
    wait_for_step(late.page, 28)
    assert counts(late.page) == counts(early.page) == expected(live.made, 29)
    late.close()
    early.close()


def test_pause_freezes_the_picture_and_loses_nothing(opened: Watched, live: LiveRun) -> None:
    page = opened.page
    before = live.anomalies()
    wait_for_anomalies(page, before)
    page.get_by_role("button", name="Pause").click()
    page.wait_for_selector('[data-state="paused"]')
    live.advance(9)
    new = live.anomalies() - before
    page.wait_for_selector(f".banner >> text={new} new anomalies", timeout=WAIT_MS)
    assert counts(page) == expected(live.made, 20)
    wait_for_anomalies(page, before)
    page.locator("h1").click()
    page.keyboard.press("Space")
    wait_for_step(page, 28)
    assert counts(page) == expected(live.made, 29)
    wait_for_anomalies(page, live.anomalies())
    page.wait_for_selector(f'[data-total="{live.anomalies()}"]', timeout=WAIT_MS)


def test_lists_hold_still_under_the_pointer(
    browser: Browser, process: DashboardProcess, live: LiveRun
) -> None:
    order = "[...document.querySelectorAll('[data-call]')].map(r => r.dataset.call).join()"
    watched = Watched(browser, process)
    page = watched.page
    page.wait_for_selector("[data-call]")
    before = page.evaluate(order)
    page.locator("[data-call]").first.hover()
    live.advance(10)
    page.get_by_role("button", name="order changed · update").click(timeout=WAIT_MS)
    page.wait_for_function(f"before => {order} !== before", arg=before)
    newest = max((r for r in live.made.anomalies if r.step < 30), key=lambda record: record.entry_us)
    assert page.evaluate(order).split(",")[0] == newest.id
    watched.close()


def test_a_dead_server_is_a_lost_link_and_the_picture_stays(
    opened: Watched, process: DashboardProcess
) -> None:
    page = opened.page
    shown = counts(page)
    process.process.kill()
    page.wait_for_selector('[data-state="lost"]', timeout=5_000)
    banner = page.locator(".banner").inner_text()
    assert "Connection lost" in banner and "retrying" in banner and "as of +00:00:20.000" in banner
    assert counts(page) == shown


def test_a_server_that_comes_back_is_found_again(
    opened: Watched, process: DashboardProcess, live: LiveRun
) -> None:
    page = opened.page
    process.process.kill()
    process.process.wait()
    page.wait_for_selector('[data-state="lost"]', timeout=5_000)
    live.advance(3)
    with ExitStack() as stack:
        stack.enter_context(dashboard(live.made, live.broker_url, process.port))
        page.wait_for_selector('[data-state="live"]', timeout=WAIT_MS)
        wait_for_step(page, 22)
        assert counts(page) == expected(live.made, 23)


def test_the_end_of_the_run_is_told(opened: Watched, live: LiveRun) -> None:
    live.advance(2)
    info = live.made.directory.read_info()
    live.made.directory.write_info(msgspec.structs.replace(info, state="finished", exit_code=7))
    opened.page.wait_for_selector('[data-state="ended"] >> text="Finished, exit 7."', timeout=WAIT_MS)
