"""The overview of a run that goes on: frames over a real broker, a store that fills, a server that dies."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import pytest

from chimbuko.core.calls.record import Silence
from chimbuko.core.calls.schema import Label
from chimbuko.runtime.protocol.broker import PrivateBroker
from tests.browsing import settled
from tests.patience import PATIENCE_S
from tests.viz.conftest import DashboardProcess, Watched, dashboard
from tests.viz.live_run import LiveRun
from tests.viz.made_run import STEPS, ZERO_US, MadeRun, make_run

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page


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
    wait_for_step(watched.page, 19)
    settled(watched.page)
    yield watched
    watched.close()


def counts(page: Page) -> dict[tuple[str, int], int]:
    """Anomalies by rank and step, as the page has them."""
    rows = page.evaluate(
        "[...document.querySelectorAll('.steps tbody tr')].filter(r => r.cells.length === 6)"
        ".map(r => [r.cells[0].innerText, Number(r.cells[1].innerText), Number(r.cells[2].innerText)])"
    )
    return {(rank, step): anomalies for rank, step, anomalies in rows}


def wait_for_counts(page: Page, wanted: dict[tuple[str, int], int]) -> None:
    """Until these are the anomalies by rank and step: a frame may come before the steps of another rank."""
    page.wait_for_function(
        "lines => [...document.querySelectorAll('.steps tbody tr')].filter(r => r.cells.length === 6)"
        ".map(r => [0, 1, 2].map(at => r.cells[at].innerText).join(' ')).sort().join() === lines",
        arg=",".join(sorted(f"{rank} {step} {count}" for (rank, step), count in wanted.items())),
    )


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
    )


def wait_for_anomalies(page: Page, anomalies: int) -> None:
    """Until the status bar counts as many."""
    page.wait_for_selector(f'[data-fact="anomalies"] >> text="▲ {anomalies}"')


def advance_until(live: LiveRun, page: Page, is_so: str) -> None:
    """One step after the other, for a busy machine has shown nothing of the one before for a while."""
    from playwright.sync_api import TimeoutError as NotYet

    while live.next < STEPS:
        live.advance(1)
        with suppress(NotYet):
            page.wait_for_function(f"() => {is_so}", timeout=10_000)
            return
    raise AssertionError(f"never came: {is_so}")


def test_new_steps_arrive_by_themselves(opened: Watched, live: LiveRun) -> None:
    page = opened.page
    assert counts(page) == expected(live.made, 20)
    live.advance(6)
    # Five seconds without a step make it stale: that may be so before, and again soon.
    advance_until(live, page, "document.querySelector('[data-state=live]') !== null")
    wait_for_counts(page, expected(live.made, live.next))
    wait_for_anomalies(page, live.anomalies())
    # Lists follow within their own period.
    page.wait_for_selector(f'[data-total="{live.anomalies()}"]')
    page.wait_for_selector(f"[data-answer] >> text={live.anomalies()} anomalies")
    assert opened.errors == []


@pytest.mark.thorough
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
    for one in (late, early):
        wait_for_counts(one.page, expected(live.made, 29))
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
    page.wait_for_selector(f".banner >> text={new} new.")
    assert counts(page) == expected(live.made, 20)
    wait_for_anomalies(page, before)
    page.locator("h1").click()
    page.keyboard.press("Space")
    wait_for_counts(page, expected(live.made, 29))
    wait_for_anomalies(page, live.anomalies())
    page.wait_for_selector(f'[data-total="{live.anomalies()}"]')


def test_lists_hold_still_under_the_pointer(
    browser: Browser, process: DashboardProcess, live: LiveRun
) -> None:
    order = "[...document.querySelectorAll('[data-call]')].map(r => r.dataset.call).join()"
    watched = Watched(browser, process)
    page = watched.page
    page.goto(watched.base + "r/heat?list=newest")
    page.wait_for_selector("[data-call]")
    settled(page)
    before = page.evaluate(order)
    page.locator("[data-call]").first.hover()
    assert page.evaluate(order) == before
    live.advance(10)
    update = page.get_by_role("button", name="order changed · update")
    update.wait_for()
    assert page.evaluate(order) == before
    update.click()
    # On a busy machine the calls of further steps come later.
    page.mouse.move(2, 2)
    newest = max((r for r in live.made.anomalies if r.step < 30), key=lambda record: record.entry_us)
    page.wait_for_function(f"newest => {order}.split(',')[0] === newest", arg=newest.id)
    watched.close()


def test_a_dead_server_is_a_lost_link_and_the_picture_stays(
    opened: Watched, process: DashboardProcess
) -> None:
    page = opened.page
    shown = counts(page)
    process.process.kill()
    page.wait_for_selector('[data-state="lost"]')
    for words in ("Connection lost", "retrying", "as of +00:00:20.000"):
        page.wait_for_selector(f".banner:has-text('{words}')")
    assert counts(page) == shown


@pytest.mark.thorough
def test_a_server_that_comes_back_is_found_again(
    opened: Watched, process: DashboardProcess, live: LiveRun
) -> None:
    page = opened.page
    process.process.kill()
    process.process.wait()
    page.wait_for_selector('[data-state="lost"]')
    live.advance(3)
    with ExitStack() as stack:
        stack.enter_context(dashboard(live.made, live.broker_url, process.port))
        page.wait_for_selector('[data-state="live"]')
        wait_for_counts(page, expected(live.made, 23))


def test_the_end_of_the_run_is_reported_and_the_page_keeps_all_of_it(
    opened: Watched, process: DashboardProcess, live: LiveRun
) -> None:
    page = opened.page
    live.advance(6)
    info = live.made.directory.read_info()
    live.made.directory.write_info(msgspec.structs.replace(info, state="finished", exit_code=7))
    # As the run does when it has ended: what came last is published and asked for before the server goes.
    process.process.terminate()
    page.wait_for_selector('[data-state="ended"] >> text="Finished, exit 7."')
    assert process.process.wait(PATIENCE_S) == 0
    wait_for_anomalies(page, live.anomalies())
    page.wait_for_selector(f'[data-total="{live.anomalies()}"]')
    page.wait_for_selector(f"[data-answer] >> text={live.anomalies()} anomalies")
    wait_for_counts(page, expected(live.made, 26))


def map_cells(page: Page) -> dict[tuple[int, int], int]:
    """Counts above 0 of the heat map's table twin, by rank and step."""
    rows = page.evaluate(
        "[...document.querySelectorAll('.heatmap tbody tr')].filter(r => r.cells.length === 5)"
        ".map(r => [0, 1, 2].map(at => Number(r.cells[at].innerText)))"
    )
    return {(rank, step): anomalies for rank, step, anomalies in rows}


def counted(made: MadeRun, first: int, until: int) -> dict[tuple[int, int], int]:
    """What happened in the steps from ``first`` to before ``until``."""
    return {
        (step.rank, step.step): step.anomalies
        for step in made.steps
        if first <= step.step < until and step.anomalies
    }


def wait_for_cells(page: Page, cells: dict[tuple[int, int], int]) -> None:
    """Until these are the counts of the heat map's table twin."""
    page.wait_for_function(
        "lines => [...document.querySelectorAll('.heatmap tbody tr')].filter(r => r.cells.length === 5)"
        ".map(r => [0, 1, 2].map(at => r.cells[at].innerText).join(' ')).sort().join() === lines",
        arg=",".join(sorted(f"{rank} {step} {count}" for (rank, step), count in cells.items())),
    )


@pytest.fixture
def mapped(browser: Browser, process: DashboardProcess) -> Iterator[Watched]:
    """The page, whose heat map is a table."""
    watched = Watched(browser, process)
    watched.page.goto(watched.base + "r/heat?table=heatmap")
    watched.page.wait_for_selector(".heatmap table")
    yield watched
    assert watched.errors == []
    watched.close()


def test_columns_of_the_map_arrive_with_the_steps(mapped: Watched, live: LiveRun) -> None:
    wait_for_cells(mapped.page, counted(live.made, 0, 20))
    for until in (21, 27):
        live.advance(until - live.next)
        wait_for_cells(mapped.page, counted(live.made, 0, until))
    # Frames may come before the store has them.
    live.advance(3, stored=False)
    wait_for_cells(mapped.page, counted(live.made, 0, 30))


def test_the_newest_steps_are_followed_until_one_pans_away(mapped: Watched, live: LiveRun) -> None:
    page = mapped.page
    page.goto(mapped.base + "r/heat?newest=8&table=heatmap")
    wait_for_cells(page, counted(live.made, 12, 20))
    live.advance(4)
    wait_for_cells(page, counted(live.made, 16, 24))
    page.get_by_role("button", name="All ranks: picture").click()
    page.locator(".heatmap .chart").focus()
    page.keyboard.press("a")
    page.wait_for_url("**zoom=14..21*")
    assert "newest" not in page.url
    live.advance(6)
    page.wait_for_selector('[data-fact="step"] >> text=29')
    page.get_by_role("button", name="All ranks: table").click()
    wait_for_cells(page, counted(live.made, 14, 22))
    page.get_by_role("button", name="→ now").click()
    page.wait_for_url("**newest=8*")
    wait_for_cells(page, counted(live.made, 22, 30))


@pytest.mark.thorough
def test_the_map_stands_still_while_paused_and_misses_nothing(mapped: Watched, live: LiveRun) -> None:
    page = mapped.page
    wait_for_cells(page, counted(live.made, 0, 20))
    page.get_by_role("button", name="Pause").click()
    page.wait_for_selector('[data-state="paused"]')
    before = live.anomalies()
    live.advance(9)
    page.wait_for_selector(f".banner >> text={live.anomalies() - before} new.")
    assert map_cells(page) == counted(live.made, 0, 20)
    page.locator("h1").click()
    page.keyboard.press("Space")
    wait_for_cells(page, counted(live.made, 0, 29))


def test_a_silent_rank_is_reported_where_it_is(mapped: Watched, live: LiveRun) -> None:
    page = mapped.page
    silence = Silence(ZERO_US + 19_500_000, "MPI_Waitall()", ZERO_US + 19_000_000)
    live.advance(1, stored=False, silent={3: silence})
    page.wait_for_selector('.silent [data-silent="0:3"]')
    assert "1 silent" in page.locator(".silent").inner_text()
    assert "rank 3 in MPI_Waitall" in page.locator('[data-silent="0:3"]').inner_text()
    page.locator('[data-silent="0:3"]').click()
    page.wait_for_url("**sel=*0:3*")
    live.advance(1)
    page.wait_for_selector(".silent", state="detached")


def test_before_the_first_step_every_panel_says_so_and_then_fills(
    browser: Browser, broker: PrivateBroker, tmp_path: Path, page_files: Path
) -> None:
    live = LiveRun(make_run(tmp_path / "heat", "running", 0), broker.url, 0)
    with dashboard(live.made, broker.url) as process:
        watched = Watched(browser, process)
        page = watched.page
        page.goto(process.url)
        for panel, words in {
            "heatmap": "No step has been analysed yet.",
            "ranks": "No rank has reported a step yet.",
            "steps": "No step has been analysed yet.",
            "worst": "There are no abnormal calls yet.",
        }.items():
            page.wait_for_selector(f".{panel} .empty >> text={words}")
        assert page.locator("[data-answer]").inner_text() == "Waiting for the first analysed step."
        live.advance(2)
        page.wait_for_selector(".heatmap .chart")
        page.wait_for_selector(".rank-bar")
        page.wait_for_selector(".steps .chart")
        assert watched.errors == []
        watched.close()
    live.close()


def test_without_anomalies_the_page_says_how_far_one_can_report(
    browser: Browser, broker: PrivateBroker, tmp_path: Path, page_files: Path
) -> None:
    live = LiveRun(make_run(tmp_path / "heat", "running", 0), broker.url, 0)
    live.made.records = [record for record in live.made.records if record.label is Label.NORMAL]
    live.made.steps = [
        msgspec.structs.replace(step, anomalies=0, severity_us=0.0) for step in live.made.steps
    ]
    live.advance(5)
    with dashboard(live.made, broker.url) as process:
        watched = Watched(browser, process)
        page = watched.page
        page.goto(process.url)
        page.wait_for_selector("[data-answer] >> text=5/5 ranks report; 4 of 4 functions can be judged.")
        page.wait_for_selector(".worst .empty >> text=There are no abnormal calls yet.")
        page.wait_for_selector(".functions .empty >> text=No anomalies in ")
        page.goto(watched.base + "r/heat?table=heatmap")
        page.wait_for_selector(".heatmap >> text=There are no anomalies: all cells are zero.")
        watched.close()
    live.close()


def test_a_stale_run_shows_since_when_nothing_came(opened: Watched, live: LiveRun) -> None:
    amber = """() => {
        const canvas = document.querySelector('.heatmap canvas');
        const pixels = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data;
        let found = 0;
        for (let at = 0; at < pixels.length; at += 4) {
            if (pixels[at] === 138 && pixels[at + 1] === 90 && pixels[at + 2] === 0) found++;
        }
        return found;
    }"""
    page = opened.page
    live.advance(1)
    wait_for_step(page, 20)
    page.wait_for_selector('[data-state="stale"]')
    page.wait_for_function(amber)
    # What is known stays.
    wait_for_counts(page, expected(live.made, 21))
    advance_until(live, page, f"document.querySelector('[data-state=live]') !== null && ({amber})() === 0")
