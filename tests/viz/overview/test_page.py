"""The overview of a stored run, in a real browser: its rankings and lists say what the database says."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from chimbuko.core.statistics.moments import Moments
from chimbuko.provenance.query.filters import CallFilter
from chimbuko.provenance.query.run import Provenance
from chimbuko.viz.live.totals import STATISTICS
from tests.browsing import settled
from tests.thorough import first
from tests.viz.conftest import DashboardProcess, Watched
from tests.viz.made_run import FUNCTIONS, MadeRun
from tests.viz.overviewpage import (
    functions_in,
    ranks_in,
    select,
)

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page, WebSocketRoute

PAUSE_MS = 500


def test_histories_of_a_run_that_has_ended_are_not_read_again_once_the_link_is_back(
    watched: Watched,
) -> None:
    links: list[WebSocketRoute] = []

    def link(socket: WebSocketRoute) -> None:
        socket.connect_to_server()
        links.append(socket)

    page = watched.page
    page.route_web_socket("**/socket.io/**", link)
    page.reload()
    page.wait_for_selector(".heatmap .chart")
    page.wait_for_function("() => performance.getEntriesByName('first-useful-paint').length > 0")
    settled(page)
    asked = sum("/step-columns" in url for url in watched.requests)
    links[-1].close()
    while len(links) < 2:
        page.wait_for_timeout(PAUSE_MS)
    page.wait_for_timeout(2 * PAUSE_MS)
    settled(page)
    assert asked and sum("/step-columns" in url for url in watched.requests) == asked


def test_the_address_loses_its_token_and_names_the_run(page: Page) -> None:
    assert page.url.endswith("/r/heat")
    assert page.title() == "heat · Chimbuko"


def test_it_opens_with_its_answer(page: Page, finished: MadeRun) -> None:
    page.wait_for_selector("[data-answer] >> text=anomalies")
    answer = page.locator("[data-answer]").inner_text()
    assert answer.startswith(
        f"{len(finished.anomalies)} anomalies on 3 ranks; most time lost in jacobi_sweep: "
    )
    assert page.locator("[data-state]").get_attribute("data-state") == "ended"


def test_a_screen_on_the_wall_has_the_headline_alone_and_escape_leads_back(page: Page) -> None:
    headline = page.locator("[data-answer]").inner_text()
    page.keyboard.press("b")
    page.wait_for_selector(".wall [data-answer]")
    assert page.url.endswith("/r/heat/wall")
    assert page.locator("[data-answer]").inner_text() == headline
    assert page.locator("header, nav, .wall button").count() == 0
    page.keyboard.press("Escape")
    page.wait_for_selector(".overview .heatmap")
    assert page.url.endswith("/r/heat")


def test_on_paper_are_no_controls_and_lists_are_whole(page: Page) -> None:
    page.emulate_media(media="print")
    try:
        assert page.locator("button:visible").count() == 0
        cut = "[...document.querySelectorAll('.panel ol')].filter((o) => o.scrollHeight > o.clientHeight + 1)"
        assert page.evaluate(f"{cut}.length") == 0
        assert page.locator(".panel ol li").count() > 0
    finally:
        page.emulate_media(media="screen")


def test_the_first_useful_paint_is_marked(page: Page) -> None:
    page.wait_for_function("performance.getEntriesByName('first-useful-paint').length === 1")


def function_counts(finished: MadeRun) -> dict[str, Moments]:
    """Anomalies of each function in each analysed step of a rank."""
    return {
        name: Moments.of(
            [
                sum(
                    (record.rank, record.step, record.function) == (step.rank, step.step, name)
                    for record in finished.anomalies
                )
                for step in finished.steps
            ]
        )
        for name in FUNCTIONS
    }


def test_ranks_of_a_run_without_incidents_begin_with_the_time_that_they_lost(
    page: Page, provenance: Provenance
) -> None:
    assert page.get_by_label("Statistic of anomalies per step").input_value() == "severity_us"
    worst = max(provenance.steps.rank_statistics(), key=lambda row: row.severity_us)
    assert ranks_in(page, "top")[0] == worst.rank


@pytest.mark.parametrize("statistic", first(2, STATISTICS))
def test_ranks_stand_in_the_order_of_the_database(page: Page, provenance: Provenance, statistic: str) -> None:
    rows = sorted(provenance.steps.rank_statistics(), key=lambda row: row.rank)
    page.get_by_label("Statistic of anomalies per step").select_option(statistic)
    for n in (2, 4):
        page.get_by_label("N", exact=True).fill(str(n))
        page.get_by_label("N", exact=True).press("Enter")
        page.wait_for_function("n => document.querySelectorAll('.rank-bar').length === 2 * n", arg=n)
        falling = sorted(rows, key=lambda row: -getattr(row, statistic))
        rising = sorted(rows, key=lambda row: getattr(row, statistic))
        page.wait_for_function(
            "order => [...document.querySelectorAll('.rank-bar')].map(b => b.dataset.rank).join() === order",
            arg=",".join(f"0:{row.rank}" for row in falling[:n] + rising[:n]),
        )
        assert ranks_in(page, "top") == [row.rank for row in falling[:n]]
        assert ranks_in(page, "bottom") == [row.rank for row in rising[:n]]
    assert f"statistic={statistic}" in page.url or statistic == "mean"


@pytest.mark.parametrize("statistic", first(1, ["mean", "total", "maximum", "stddev"]))
def test_functions_are_ranked_by_their_anomalies_per_step(
    page: Page, finished: MadeRun, statistic: str
) -> None:
    counts = function_counts(finished)
    values = {
        name: found.mean * found.n if statistic == "total" else getattr(found, statistic)
        for name, found in counts.items()
    }
    page.get_by_label("Statistic of functions").select_option(statistic)
    page.wait_for_url(f"**by={statistic}*")
    page.wait_for_selector('[data-functions="bottom"] [data-function]')
    top, bottom = functions_in(page, "top"), functions_in(page, "bottom")
    assert sorted(top) == sorted(bottom) == sorted(FUNCTIONS)
    assert [round(values[name], 9) for name in top] == sorted(
        (round(v, 9) for v in values.values()), reverse=True
    )
    assert [round(values[name], 9) for name in bottom] == sorted(round(v, 9) for v in values.values())


def test_functions_stand_in_order_of_time_lost(page: Page, provenance: Provenance) -> None:
    rows = sorted(provenance.function_statistics(), key=lambda row: -row.severity_us)
    assert functions_in(page, "top") == [row.name for row in rows if row.anomalies > 0][:5]
    page.locator("[data-function]").first.hover()
    page.wait_for_selector(f".tip >> text={rows[0].anomalies} anomalies")


def test_a_function_limits_the_calls_with_control_and_opens_without(
    page: Page, provenance: Provenance
) -> None:
    page.wait_for_selector(".worst [data-total]")
    page.locator(f'[data-function="{FUNCTIONS[0]}"]').click(modifiers=["Control"])
    total = provenance.calls.count(CallFilter(function=FUNCTIONS[0]))
    page.wait_for_selector(f'.worst [data-total="{total}"]')
    assert page.locator("[data-page]").get_attribute("data-page") == "overview"
    page.locator(f'[data-function="{FUNCTIONS[1]}"]').click()
    page.wait_for_url("**/r/heat/fn?*")


def test_a_rank_under_the_pointer_stands_out_everywhere(page: Page) -> None:
    page.locator('[data-list="top"] [data-rank="0:3"]').hover()
    page.wait_for_selector(".call-line.dim")
    calls = page.evaluate(
        "[...document.querySelectorAll('.call-line')]"
        ".map(c => [c.dataset.call.split(':')[1], c.classList.contains('dim')])"
    )
    assert all((rank != "3") == dim for rank, dim in calls)


def test_hovering_a_rank_reports_about_it(page: Page, provenance: Provenance) -> None:
    row = next(row for row in provenance.steps.rank_statistics() if row.rank == 1)
    page.locator('[data-list="top"] [data-rank="0:1"]').hover()
    lines = page.locator(".tip").inner_text().splitlines()
    assert lines[0] == f"rank 1: {row.total} anomalies in {row.steps} steps"
    assert f"maximum {row.maximum}, total {row.total}" in lines[2]
    assert lines[-1].startswith("click:")


@pytest.mark.parametrize(("order", "sort"), [("worst", "severity_us"), ("newest", "entry_us")])
def test_calls_are_listed_as_the_database_orders_them(
    page: Page, provenance: Provenance, order: str, sort: str
) -> None:
    page.get_by_label("List").select_option(order)
    expected = [call.id for call in provenance.calls.page(CallFilter(), sort, limit=30).calls]
    page.wait_for_function(
        "ids => [...document.querySelectorAll('.worst [data-call]')].map(r => r.dataset.call).join() === ids",
        arg=",".join(expected),
    )
    first = page.locator(".worst [data-call]").first
    call = provenance.calls.record(expected[0])
    sentence = first.inner_text()
    assert f"rank {call.rank}, step {call.step}" in sentence and "took " in sentence
    first.click()
    page.wait_for_url("**/r/heat/call/" + expected[0].replace(":", "/", 1) + "*")


def test_all_calls_are_one_click_away(page: Page) -> None:
    page.locator(".worst [data-total]").click()
    page.wait_for_url("**/r/heat/calls*")


def test_filters_without_match_offer_a_way_out(watched: Watched, provenance: Provenance) -> None:
    watched.page.goto(watched.base + "r/heat?function=no_such_function")
    watched.page.get_by_role("button", name="Drop all filters").click()
    watched.page.wait_for_selector(f'[data-total="{provenance.calls.count(CallFilter())}"]')


def test_an_address_opens_the_same_picture_elsewhere(
    page: Page, browser: Browser, stored_dashboard: DashboardProcess
) -> None:
    page.get_by_label("Statistic of anomalies per step").select_option("maximum")
    page.get_by_label("Statistic of functions").select_option("total")
    page.get_by_label("List").select_option("newest")
    select(page, 3, 1)
    page.locator(".heatmap .chart").focus()
    page.keyboard.press("w")
    page.wait_for_url("**zoom=*")
    page.keyboard.press("t")
    page.wait_for_url("**table=heatmap*")
    page.wait_for_selector('[data-functions="bottom"]')
    page.mouse.move(2, 2)
    settled(page)
    marks = "[...document.querySelectorAll('.legend path')].map(p => p.outerHTML)"
    picture = f"document.querySelector('main').innerText + {marks}"
    other = Watched(browser, stored_dashboard)
    other.page.goto(page.url)
    other.page.wait_for_selector(".heatmap table")
    other.page.wait_for_function(f"text => {picture} === text", arg=page.evaluate(picture))
    assert other.errors == []
    other.close()


@pytest.mark.parametrize("scheme", first(1, ["light", "dark"]))
@pytest.mark.parametrize("size", [(1280, 600), (1440, 900), (1920, 940)])
def test_the_overview_fits_the_window(
    browser: Browser, stored_dashboard: DashboardProcess, scheme: str, size: tuple[int, int]
) -> None:
    viewport = {"width": size[0], "height": size[1]}
    watched = Watched(browser, stored_dashboard, viewport=viewport, color_scheme=scheme)
    watched.page.goto(stored_dashboard.url)
    watched.page.wait_for_selector("[data-call]")
    settled(watched.page)
    root = "document.documentElement"
    assert watched.page.evaluate(f"{root}.scrollHeight") == size[1]
    assert watched.page.evaluate(f"{root}.scrollWidth") == size[0]
    assert watched.page.evaluate("document.querySelectorAll('*').length") < 2500
    cut = watched.page.evaluate(
        "[...document.querySelectorAll('.overview figcaption')]"
        ".filter(c => c.scrollWidth > c.clientWidth + 1).map(c => c.innerText)"
    )
    assert cut == []
    if size[1] >= 700:
        empty = watched.page.evaluate(EMPTY_PX)
        assert {name: px for name, px in empty.items() if px > 60} == {}, "a run of few ranks fills the page"
    assert watched.errors == []
    watched.close()


EMPTY_PX = """() => Object.fromEntries([...document.querySelectorAll('.overview .panel')].map(panel => {
    const body = panel.querySelector('.panel-body');
    const end = Math.max(...[...body.querySelectorAll('*')].map(one => one.getBoundingClientRect().bottom));
    return [panel.dataset.panel, body.getBoundingClientRect().bottom - end];
}))"""
"""Of each panel, how far what it holds ends above its lower edge."""
