"""The page about the analysis itself shows what the store and the server say."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from chimbuko.provenance.query.run import Provenance, open_run
from tests.browsing import settled
from tests.viz.conftest import DashboardProcess, Watched
from tests.viz.made_run import LOST_STEPS, MadeRun

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page


@pytest.fixture
def watched(browser: Browser, stored_dashboard: DashboardProcess) -> Iterator[Watched]:
    """A browser on the page; afterwards: no error, and no request to anybody else."""
    watched = Watched(browser, stored_dashboard)
    watched.page.goto(watched.base + "r/heat/health")
    watched.page.wait_for_selector(".streams tbody tr")
    watched.page.wait_for_selector("[data-station]")
    settled(watched.page)
    yield watched
    errors, requests = watched.errors, watched.requests
    watched.close()
    assert errors == []
    assert {url.split("/")[2] for url in requests} == {stored_dashboard.base.split("/")[2]}


@pytest.fixture
def page(watched: Watched) -> Page:
    """The page."""
    return watched.page


@pytest.fixture(scope="module")
def provenance(finished: MadeRun) -> Iterator[Provenance]:
    """What the store says."""
    with open_run(finished.directory) as provenance:
        yield provenance


def rows(page: Page, panel: str) -> list[list[str]]:
    """The cells of a panel's table."""
    settled(page)
    return page.evaluate(  # type: ignore[no-any-return]
        "panel => [...document.querySelectorAll(`[data-panel=${panel}] tbody tr`)]"
        ".map(row => [...row.cells].map(cell => cell.innerText))",
        panel,
    )


def station(page: Page, name: str) -> tuple[str, str]:
    """Figure and detail of a station of the pipeline."""
    found = page.locator(f'[data-station="{name}"]')
    return found.locator(".station-figure").inner_text(), found.locator(".station-detail").inner_text()


def test_it_opens_with_whether_the_findings_can_be_trusted(page: Page) -> None:
    assert page.locator("[data-answer]").inner_text() == (
        "With care: call data incomplete, 640 of 48,000 calls (1 %) are missing; "
        "4 steps of 1 rank were not analysed, so their counts are lower bounds; "
        "3 rows could not be used."
    )


def test_the_way_of_the_events_has_the_figures_of_the_store(
    page: Page, provenance: Provenance, finished: MadeRun
) -> None:
    streams = provenance.health()
    events, size = sum(one.rows for one in streams), sum(one.size_bytes for one in streams)
    times = provenance.steps.time_range()
    assert times is not None
    seconds = (times[1] - times[0]) / 1e6
    assert station(page, "application") == (
        f"{round(events / seconds):,} events/s",
        f"{events:,} events, {size / 1e6:.2f} MB",
    )
    assert station(page, "lost") == ("640 calls", "4 steps, 3 rows")
    stored = finished.directory.store_path.stat().st_size
    kept = float(station(page, "store")[1].split(" ")[0])
    assert kept == pytest.approx(stored / 1e3, rel=0.5)
    assert station(page, "agents")[0] == "unknown", "unknown is not zero"
    assert [one.get_attribute("data-station") for one in page.locator(".station.warns").all()] == ["lost"]


def test_lost_steps_stand_where_they_were_lost(page: Page) -> None:
    lost = {f"0:{rank} {steps[0]}..{steps[-1]}" for rank, steps in LOST_STEPS.items()}
    shown = page.locator("[data-lost]")
    assert {one.get_attribute("data-lost") for one in shown.all()} == lost
    chart = page.locator(".loss-chart")
    chart.focus()
    page.keyboard.press("ArrowRight")
    page.wait_for_selector(".tip")
    settled(page)
    tip = page.locator(".tip").inner_text().splitlines()
    assert tip[:3] == ["rank 2: 4 steps lost", "step 20..23", "of 4 that this rank lost"]
    spoken = page.locator("[aria-live=polite]").all_inner_texts()
    assert "rank 2: 4 steps lost, step 20..23" in spoken
    page.keyboard.press("Escape")
    page.wait_for_selector(".tip", state="detached")
    shown.first.hover()
    page.wait_for_selector(".tip >> text=rank 2: 4 steps lost")
    page.get_by_role("button", name="Lost steps, rank × step: table").click()
    assert rows(page, "loss") == [["0:2", "20..23", "4"]]


def test_a_lost_step_leads_to_its_rank_on_the_overview(page: Page) -> None:
    page.locator(".loss-chart").focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Enter")
    page.wait_for_url("**/r/heat?sel=0:2&zoom=15..28")


def test_call_data_of_each_rank_stands_beside_what_its_source_saw(page: Page, provenance: Provenance) -> None:
    first, *others = rows(page, "calldata")
    calls = {f"{one.program}:{one.rank}": one.calls for one in provenance.health()}
    seen, analysed = (f"{calls['0:2'] + missing:,}" for missing in (640, 0))
    assert first == ["0:2", "the recorder", seen, analysed, "0", "0", "640 in steps that were never read"]
    # The same is told of all others: they are one row.
    assert {number for rank, number in calls.items() if rank != "0:2"} == {9_600}
    assert [[row[0], *row[2:4]] for row in others] == [["4 ranks: 0:0, 0:1, 0:3, 0:4", "9,600", "9,600"]]


def test_streams_are_those_of_the_store_in_the_order_asked_for(page: Page, provenance: Provenance) -> None:
    streams = provenance.health()
    found = rows(page, "streams")
    assert [row[0] for row in found] == ["0:2", "0:0", "0:1", "0:3", "0:4"], "what lost most comes first"
    by_rank = {f"{one.program}:{one.rank}": one for one in streams}
    for rank, node, state, lost, steps, events, trace, _ in found:
        stream = by_rank[rank]
        assert (node, state) == (stream.node, stream.state)
        assert lost == ("4 steps, 3 rows" if stream.gap_steps else "nothing")
        assert (steps, events) == (str(stream.steps), f"{stream.rows:,}")
        assert float(trace) == pytest.approx(stream.size_bytes / 1e6, abs=0.006)
    page.get_by_label("Order of streams").select_option("rank")
    page.wait_for_function("() => document.querySelector('.streams tbody td').innerText === '0:0'")
    page.wait_for_url("**streams=rank*")
    page.get_by_label("State of streams").select_option("broken")
    page.wait_for_selector(".streams .empty >> text=No stream is in this state")
    page.reload()
    page.wait_for_selector(".streams .empty >> text=No stream is in this state")
    settled(page)
    assert page.get_by_label("State of streams").input_value() == "broken"


def test_what_was_found_and_not_kept_is_reported(page: Page, provenance: Provenance) -> None:
    (dropped,) = provenance.dropped()
    assert rows(page, "notkept") == [[dropped.function.removesuffix("()"), str(dropped.anomalies)]]


def test_the_pace_is_that_of_the_steps(page: Page, finished: MadeRun) -> None:
    page.wait_for_selector(".overtime-chart svg")
    page.get_by_role("button", name="Over time: table").click()
    page.wait_for_selector(".overtime tbody tr")
    shown = [int(row[1].replace(",", "")) for row in rows(page, "overtime")][::-1]
    lossy = [160 * sum(step.step == number for step in finished.steps) for number in range(60)]
    assert shown == lossy, "each step of this run takes a second"


def test_the_run_is_described(page: Page, finished: MadeRun, provenance: Provenance) -> None:
    described = dict(row[:2] for row in rows(page, "description"))
    assert described["command"] == "mpirun -n 5 ./heat2d"
    assert described["folder"] == str(finished.directory.path)
    assert described["ended"].endswith("exit 0")
    settings = dict(row[:2] for row in rows(page, "detector"))
    config = finished.directory.read_info().config
    assert settings["detector"] == config.detector
    assert settings["neighbours kept"] == f"{config.window_calls} before, {config.window_calls} after"
    assert settings["least difference flagged"] == "1 ms"
    stored = [[item.key, item.value] for item in provenance.metadata(0, 0)]
    assert rows(page, "metadata") == stored
    page.get_by_label("Find", exact=True).fill("nothing like it")
    page.wait_for_selector(".metadata .empty")


def test_metadata_are_those_of_the_chosen_rank(watched: Watched, provenance: Provenance) -> None:
    page = watched.page
    page.goto(watched.base + "r/heat/health?rank=0:4")
    page.wait_for_selector(".metadata >> text=node2")
    settled(page)
    assert rows(page, "metadata") == [[item.key, item.value] for item in provenance.metadata(0, 4)]


ADVISED = {
    "node": "node1",
    "agents": 1,
    "cores": "3",
    "period_us": 1e6,
    "transport": "files",
    "streams": 3,
    "step_us": 1e6,
    "analysis_us": 2e5,
    "wait_us": None,
    "placements": [
        {"where": where, "cores": cores, "application_cores": 3, "step_us": step_us, "added_share": 0.0}
        | {"busy_share": 0.2, "keeps_up": True}
        for where, cores, step_us in (("own", 1, 1.0e6), ("inside", 1, 1.2e6), ("shared", 4, 1.25e6))
    ],
    "intervals": [
        {"rows_per_s": 5_000.0, "measured_us": 2e5, "predicted_us": 1.8e5},
        {"rows_per_s": 9_000.0, "measured_us": 4e5, "predicted_us": 4.4e5},
    ],
}
"""Of an agent that has said what some steps took."""


def test_where_the_analysis_runs_best(page: Page) -> None:
    panel = page.locator("[data-panel=placement]")
    assert "Known once agents have reported the cost of some steps" in panel.inner_text()
    page.route(
        "**/placement*",
        lambda route: route.fulfill(json={**route.fetch().json(), "nodes": [ADVISED]}),
    )
    page.reload()
    panel.locator("summary").click()
    panel.locator(".placement-point").first.wait_for()
    settled(page)
    right, down = (
        panel.locator(".placement-point").evaluate_all(
            "(points, name) => points.map(point => Number(point.getAttribute(name)))", name
        )
        for name in ("cx", "cy")
    )
    assert right[0] < right[1] and down[0] > down[1]
    assert "the largest error is 10 %" in panel.inner_text()
    # One core more for the analysis; one of three for both; all four for both.
    counts = {
        part: panel.locator(f"rect.placement-cores.{part}").count()
        for part in ("application", "both", "analysis")
    }
    assert counts == {"application": 2, "both": 2, "analysis": 1}
    steps = panel.locator(".placement-step").all_text_contents()
    assert steps == [row[1] for row in rows(page, "placement")[:3]] and len(steps) == 3
