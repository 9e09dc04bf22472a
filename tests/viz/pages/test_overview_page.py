"""The overview of a stored run, in a real browser: it shows what the database says."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from chimbuko.provenance.query.filters import CallFilter
from chimbuko.provenance.query.run import Provenance, open_run
from chimbuko.statistics.moments import Moments
from chimbuko.viz.live.livetotals import STATISTICS
from tests.thorough import first
from tests.viz.conftest import DashboardProcess, Watched
from tests.viz.made_run import FUNCTIONS, LOST_STEPS, RANKS, STEPS, MadeRun

if TYPE_CHECKING:
    from playwright.sync_api import Browser, FloatRect, Page, WebSocketRoute

WAIT_MS = 15_000
PAUSE_MS = 500
Cells = dict[tuple[int, int], int]


@pytest.fixture
def watched(browser: Browser, stored_dashboard: DashboardProcess) -> Iterator[Watched]:
    """The page; afterwards: no error, and no request to anybody else."""
    watched = Watched(browser, stored_dashboard)
    watched.page.set_default_timeout(WAIT_MS)
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
    page.wait_for_timeout(PAUSE_MS)
    asked = sum("/step-columns" in url for url in watched.requests)
    links[-1].close()
    while len(links) < 2:
        page.wait_for_timeout(PAUSE_MS)
    page.wait_for_timeout(2 * PAUSE_MS)
    assert asked and sum("/step-columns" in url for url in watched.requests) == asked


def map_lines(page: Page) -> list[list[str]]:
    """The heat map's table twin."""
    if page.locator(".heatmap table").count() == 0:
        page.get_by_role("button", name="All ranks: table").click()
    page.wait_for_selector(".heatmap table")
    rows: list[list[str]] = page.evaluate(
        "[...document.querySelectorAll('.heatmap tbody tr')].map(r => [...r.cells].map(c => c.innerText))"
    )
    return rows


def map_cells(page: Page) -> Cells:
    """Counts above 0 of the heat map's table twin, each of one rank and one step."""
    return {(int(row[0]), int(row[1])): int(row[2]) for row in map_lines(page) if len(row) == 4}


def place(
    page: Page, rank: float, step: float, ranks: int = RANKS, steps: int = STEPS
) -> tuple[float, float]:
    """Where a rank and step are on the heat map of so many."""
    box = box_of(page, ".heatmap .chart")
    x = box["x"] + 44 + (step / steps) * (box["width"] - 44 - 20)
    return x, box["y"] + 4 + (rank / ranks) * (box["height"] - 4 - 18)


def box_of(page: Page, selector: str) -> FloatRect:
    """Where something is."""
    box = page.locator(selector).bounding_box()
    assert box is not None
    return box


def tip_at(page: Page, x: float, y: float) -> list[str]:
    """The tooltip at a place."""
    page.mouse.move(x, y)
    page.wait_for_selector(".tip")
    return page.locator(".tip").inner_text().splitlines()


def ranks_in(page: Page, name: str) -> list[int]:
    """Ranks of the list ``top`` or ``bottom``, in order."""
    bars = page.locator(f'[data-list="{name}"] .rank-bar').all()
    return [int((bar.get_attribute("data-rank") or "").split(":")[1]) for bar in bars]


def functions_in(page: Page, name: str) -> list[str]:
    """Functions of the list ``top`` or ``bottom``, in order."""
    bars = page.locator(f'[data-functions="{name}"] [data-function]').all()
    return [bar.get_attribute("data-function") or "" for bar in bars]


def select(page: Page, *ranks: int) -> None:
    """Click ranks in the upper list."""
    for rank in ranks:
        page.locator(f'[data-list="top"] [data-rank="0:{rank}"]').click()
    page.mouse.move(2, 2)


def step_table(page: Page) -> list[list[str]]:
    """The step chart's table twin."""
    page.get_by_role("button", name="Anomalies per step: table").click()
    page.wait_for_selector(".steps table tbody tr")
    rows: list[list[str]] = page.evaluate(
        "[...document.querySelectorAll('.steps tbody tr')].map(r => [...r.cells].map(c => c.innerText))"
    )
    return rows


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


def test_the_first_useful_paint_is_marked(page: Page) -> None:
    page.wait_for_function("performance.getEntriesByName('first-useful-paint').length === 1")


# The heat map


def test_the_map_is_the_database(page: Page, cells: Cells) -> None:
    assert map_cells(page) == {place: count for place, count in cells.items() if count > 0}
    unknown = [row for row in map_lines(page) if len(row) == 3]
    lost = [rank for rank in LOST_STEPS if LOST_STEPS[rank]]
    assert unknown == [
        [str(rank), f"{LOST_STEPS[rank][0]}..{LOST_STEPS[rank][-1]}", "not analysed: unknown"]
        for rank in lost
    ]


def test_the_map_says_what_a_cell_is(page: Page) -> None:
    words = page.locator("[data-cell-size]").inner_text()
    assert words == "row = 1 rank, column = 1 step; worst wins"


def test_zero_unknown_and_counts_have_colours_of_their_own(page: Page, cells: Cells) -> None:
    shade = """([x, y]) => {
        const canvas = document.querySelector('.heatmap canvas'), box = canvas.getBoundingClientRect();
        const at = canvas.getContext('2d').getImageData(x - box.x, y - box.y, 3, 3).data;
        return [0, 1, 2, 3, 4, 5, 6, 7, 8].map(i => [at[4 * i], at[4 * i + 1], at[4 * i + 2]].join());
    }"""
    page.wait_for_selector(".heatmap .chart")
    looks = {
        count: page.evaluate(shade, place(page, rank + 0.4, step + 0.4))
        for count, (rank, step) in {count: where for where, count in cells.items()}.items()
    }
    assert len({"".join(look) for look in looks.values()}) == len(set(cells.values()) - {4})
    assert set(looks[0]) == {"255,255,255"}
    assert set(looks[1]) == {"214,125,19"}
    unknown = set(page.evaluate(shade, place(page, 2.4, 21.4)))
    assert len(unknown) == 2
    assert unknown.isdisjoint(color for look in looks.values() for color in look)


def test_a_cell_reports_ranks_steps_count_time_and_function(
    page: Page, cells: Cells, provenance: Provenance
) -> None:
    count, (rank, step) = max((count, where) for where, count in cells.items())
    lines = tip_at(page, *place(page, rank + 0.5, step + 0.5))
    assert lines[:3] == [f"rank {rank}", f"step {step}", f"at most {count} anomalies of one rank in one step"]
    worst = CallFilter(program=0, rank=rank, step_min=step, step_max=step)
    call = provenance.calls.page(worst, "severity_us", limit=1).calls[0]
    page.wait_for_selector(f".tip >> text=most: rank {rank}, step {step}, in ")
    lines = page.locator(".tip").inner_text().splitlines()
    assert call.function.split(" ")[0].rstrip("()") in lines[3] or "push_particles" in lines[3]
    assert f"from +00:00:{step:02d}.000" in lines
    assert lines[-1].startswith("click: select the worst rank")
    assert tip_at(page, *place(page, 2.5, 22.5))[2] == "not analysed: unknown"


def test_a_click_selects_the_worst_rank_of_the_cell(page: Page, cells: Cells) -> None:
    rank, step = next(where for where, count in cells.items() if count == 2)
    page.mouse.click(*place(page, rank + 0.5, step + 0.5))
    page.wait_for_url(f"**sel=*0:{rank}*")
    page.wait_for_selector(f".notice >> text=rank {rank} had 2 anomalies in step {step}")
    assert [item.get_attribute("data-legend") for item in page.locator("[data-legend]").all()] == [
        f"0:{rank}"
    ]


def test_a_drag_zooms_to_ranks_and_steps_and_a_double_click_shows_all(page: Page, cells: Cells) -> None:
    page.mouse.move(*place(page, 1.2, 10.2))
    page.mouse.down()
    page.mouse.move(*place(page, 2.5, 15.0), steps=4)
    page.mouse.move(*place(page, 3.8, 24.8))
    page.mouse.up()
    page.wait_for_url("**ranks=1..3*")
    assert "zoom=10..24" in page.url
    inside = {
        (rank, step): count
        for (rank, step), count in cells.items()
        if 1 <= rank <= 3 and 10 <= step <= 24 and count > 0
    }
    assert map_cells(page) == inside
    page.get_by_role("button", name="All ranks: picture").click()
    page.wait_for_selector('.heatmap .chart[data-rows="3"][data-columns="15"]')
    page.mouse.dblclick(*place(page, 0.5, 0.5))
    page.wait_for_selector(f'.heatmap .chart[data-rows="{RANKS}"][data-columns="{STEPS}"]')
    assert "ranks" not in page.url and "zoom" not in page.url


def test_a_thin_drag_chooses_steps_or_ranks_alone(page: Page) -> None:
    x, y = place(page, 2.5, 30.2)
    page.mouse.move(x, y)
    page.mouse.down()
    page.mouse.move(place(page, 2.5, 39.8)[0], y + 2, steps=4)
    page.mouse.up()
    page.wait_for_url("**zoom=30..39*")
    assert "ranks" not in page.url
    x, y = place(page, 3.2, 1, steps=10)
    page.mouse.move(x, y)
    page.mouse.down()
    page.mouse.move(x + 2, place(page, 4.8, 1)[1], steps=4)
    page.mouse.up()
    page.wait_for_url("**ranks=3..4*")


def test_a_drag_with_shift_pans_steps_and_ranks(page: Page) -> None:
    page.goto(page.url + "?ranks=1..3&zoom=20..39")
    page.wait_for_selector('.heatmap .chart[data-rows="3"][data-columns="20"]')
    x, y = place(page, 1.5, 10.5, ranks=3, steps=20)
    x_left, y_up = place(page, 0.5, 5.5, ranks=3, steps=20)
    page.keyboard.down("Shift")
    page.mouse.move(x, y)
    page.mouse.down()
    page.mouse.move(x_left, y, steps=3)
    page.wait_for_url("**zoom=25..44*")
    page.mouse.move(x_left, y_up, steps=3)
    page.wait_for_url("**ranks=2..4*")
    # Beyond the last step and rank there is nothing to see.
    page.mouse.move(x - 20 * (x - x_left), y - 20 * (y - y_up))
    page.wait_for_url(f"**zoom=40..{STEPS - 1}*")
    page.mouse.up()
    assert f"ranks=2..{RANKS - 1}" in page.url
    page.mouse.move(x, y)
    page.keyboard.up("Shift")
    page.wait_for_selector(".tip")


def test_a_drag_with_shift_pans_the_step_chart(page: Page) -> None:
    page.goto(page.url + "?zoom=20..39")
    page.wait_for_selector(".steps .chart[data-points]")
    box = box_of(page, ".steps .chart")
    step_px = (box["width"] - 48) / 20
    x, middle = box["x"] + 36 + 10.5 * step_px, box["y"] + box["height"] / 2
    page.keyboard.down("Shift")
    page.mouse.move(x, middle)
    page.mouse.down()
    page.mouse.move(x + 4 * step_px, middle, steps=3)
    page.wait_for_url("**zoom=16..35*")
    page.mouse.up()
    page.keyboard.up("Shift")
    assert "step=" not in page.url


def test_the_zoom_is_common_to_map_and_step_chart(page: Page, finished: MadeRun) -> None:
    select(page, 1)
    page.goto(page.url + "&zoom=30..34")
    shown = {int(row[1]) for row in step_table(page)}
    assert shown == {step.step for step in finished.steps_of(1) if 30 <= step.step <= 34}
    assert {step for _, step in map_cells(page)} <= shown


def test_keys_move_select_brush_zoom_and_pan(page: Page, cells: Cells) -> None:
    chart = page.locator(".heatmap .chart")
    chart.focus()
    page.keyboard.press("ArrowRight")
    most = max(cells.values())
    page.wait_for_selector(f".tip >> text=at most {most} anomalies")
    first, step = (int(line.split()[1]) for line in page.locator(".tip").inner_text().splitlines()[:2])
    assert cells[first, step] == most
    page.keyboard.press("ArrowLeft")
    page.wait_for_selector(f".tip >> text=/^step {step - 1}$/")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Enter")
    page.wait_for_url(f"**sel=*0:{first}*")
    page.keyboard.press("Shift+ArrowRight")
    page.keyboard.press("Shift+ArrowRight")
    page.keyboard.press("Enter")
    page.wait_for_url(f"**zoom={step}..{step + 2}*")
    page.keyboard.press("0")
    page.wait_for_url(lambda url: "zoom" not in url and "ranks" not in url)
    for key, wanted in (("w", "zoom="), ("Shift+W", "ranks=")):
        page.keyboard.press(key)
        page.wait_for_url(f"**{wanted}*")
    before = page.url
    page.keyboard.press("a")
    page.wait_for_url(lambda url: url != before)
    page.keyboard.press("0")
    page.wait_for_url(lambda url: "zoom" not in url and "ranks" not in url)


def test_the_wheel_zooms_with_control_only(page: Page) -> None:
    page.mouse.move(*place(page, 2, 30))
    page.mouse.wheel(0, -200)
    page.keyboard.down("Control")
    page.mouse.wheel(0, -200)
    page.wait_for_url("**zoom=*")
    found = re.search(r"zoom=(\d+)\.\.(\d+)", page.url)
    assert found is not None
    first, last = int(found[1]), int(found[2])
    assert first < 30 < last and last - first + 1 < STEPS
    page.keyboard.down("Shift")
    page.mouse.wheel(0, -200)
    page.wait_for_url("**ranks=*")


def test_ranks_and_steps_that_are_not_there_offer_a_way_out(watched: Watched) -> None:
    page = watched.page
    page.goto(watched.base + "r/heat?zoom=900..950")
    page.wait_for_selector(".heatmap .empty >> text=no such ranks or steps")
    page.get_by_role("button", name="Show all").click()
    page.wait_for_selector(f'.heatmap .chart[data-columns="{STEPS}"]')


# Ranks and functions


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


# The calls


@pytest.mark.parametrize(("order", "sort"), [("worst", "severity_us"), ("newest", "entry_us")])
def test_calls_are_listed_as_the_database_orders_them(
    page: Page, provenance: Provenance, order: str, sort: str
) -> None:
    page.get_by_label("What is listed").select_option(order)
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


# The step chart


def test_selected_ranks_are_charted_with_every_step(page: Page, finished: MadeRun) -> None:
    select(page, 1, 2)
    page.wait_for_url("**sel=*")
    assert [item.get_attribute("data-legend") for item in page.locator("[data-legend]").all()] == [
        "0:1",
        "0:2",
    ]
    shown = step_table(page)
    counts = {(row[0], row[1]): int(row[2]) for row in shown if len(row) == 6}
    assert counts == {
        (f"0:{rank}", str(step.step)): step.anomalies for rank in (1, 2) for step in finished.steps_of(rank)
    }
    assert [row for row in shown if len(row) == 3] == [["0:2", "20..23", "not analysed: unknown"]]


def test_without_a_choice_the_leading_ranks_are_charted(page: Page) -> None:
    assert {item.get_attribute("data-legend") for item in page.locator("[data-legend]").all()} == {
        f"0:{rank}" for rank in ranks_in(page, "top")
    }


def test_a_rank_keeps_its_colour_when_others_go(page: Page) -> None:
    def look(rank: int) -> str:
        return page.locator(f'[data-legend="0:{rank}"] path').evaluate(
            "p => p.getAttribute('d') + p.getAttribute('fill')"
        )

    select(page, 1, 3, 2)
    page.wait_for_selector('[data-legend="0:2"]')
    looks = {rank: look(rank) for rank in (2, 3)}
    select(page, 1)
    page.wait_for_selector('[data-legend="0:1"]', state="detached")
    assert {rank: look(rank) for rank in (2, 3)} == looks


def test_hovering_a_mark_reports_count_step_time_rank_and_worst_call(
    page: Page, finished: MadeRun, provenance: Provenance
) -> None:
    select(page, 1)
    page.wait_for_selector('[data-legend="0:3"]', state="detached")
    chart = page.locator(".steps .chart")
    chart.focus()
    page.keyboard.press("ArrowRight")
    first = next(step for step in finished.steps_of(1) if step.anomalies)
    page.wait_for_selector(".tip >> text=worst: ")
    keyboard_tip = page.locator(".tip").inner_text()
    lines = keyboard_tip.splitlines()
    noun = "anomaly" if first.anomalies == 1 else "anomalies"
    assert lines[0] == f"rank 1: {first.anomalies} {noun}"
    assert lines[1] == f"step {first.step}"
    assert lines[2] == f"analysed +00:00:{first.step:02d}.000 to +00:00:{first.step + 1:02d}.000"
    frame = box_of(page, ".tip")
    # The tooltip stands 12 px off the mark: to its upper right, for below there is no room.
    page.keyboard.press("Escape")
    page.wait_for_selector(".tip", state="detached")
    page.mouse.move(frame["x"] - 12, frame["y"] + frame["height"] + 12)
    page.wait_for_selector(".tip >> text=worst: ")
    assert page.locator(".tip").inner_text() == keyboard_tip


def test_a_mark_opens_the_calls_of_its_rank_and_step(page: Page, finished: MadeRun) -> None:
    select(page, 1)
    page.wait_for_selector('[data-legend="0:3"]', state="detached")
    page.locator(".steps .chart").focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Enter")
    step = next(step.step for step in finished.steps_of(1) if step.anomalies)
    page.wait_for_url("**/r/heat/calls?*")
    assert f"step={step}&" in page.url + "&" and "rank=0:1" in page.url


def test_a_gap_says_that_it_is_unknown(page: Page) -> None:
    select(page, 2)
    page.wait_for_selector('[data-legend="0:1"]', state="detached")
    box = box_of(page, ".steps .chart")
    # The strip of a single rank: 3 px above the axis, which is 18 px high.
    page.mouse.move(box["x"] + 36 + (box["width"] - 48) * 22 / 60, box["y"] + box["height"] - 21)
    page.wait_for_selector(".tip >> text=rank 2: steps 20..23 not analysed")


def test_brushing_steps_limits_the_calls(page: Page, provenance: Provenance) -> None:
    box = box_of(page, ".steps .chart")
    step_px = (box["width"] - 48) / 60
    middle = box["y"] + box["height"] / 2
    page.mouse.move(box["x"] + 36 + 10.2 * step_px, middle)
    page.mouse.down()
    page.mouse.move(box["x"] + 36 + 15 * step_px, middle, steps=5)
    page.mouse.move(box["x"] + 36 + 19.8 * step_px, middle)
    page.mouse.up()
    page.wait_for_url("**step=10..19*")
    total = provenance.calls.count(CallFilter(step_min=10, step_max=19))
    page.wait_for_selector(f'[data-total="{total}"]')
    page.get_by_role("button", name="Drop filter step 10..19").click()
    page.wait_for_selector(f'[data-total="{provenance.calls.count(CallFilter())}"]')


# The page


def test_an_address_opens_the_same_picture_elsewhere(
    page: Page, browser: Browser, stored_dashboard: DashboardProcess
) -> None:
    page.get_by_label("Statistic of anomalies per step").select_option("maximum")
    page.get_by_label("Statistic of functions").select_option("total")
    page.get_by_label("What is listed").select_option("newest")
    select(page, 3, 1)
    page.locator(".heatmap .chart").focus()
    page.keyboard.press("w")
    page.wait_for_url("**zoom=*")
    page.keyboard.press("t")
    page.wait_for_url("**table=heatmap*")
    page.wait_for_selector('[data-functions="bottom"]')
    page.mouse.move(2, 2)
    marks = "[...document.querySelectorAll('.legend path')].map(p => p.outerHTML)"
    picture = f"document.querySelector('main').innerText + {marks}"
    other = Watched(browser, stored_dashboard)
    other.page.goto(page.url)
    other.page.wait_for_selector(".heatmap table")
    other.page.wait_for_function(f"text => {picture} === text", arg=page.evaluate(picture))
    assert other.errors == []
    other.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("size", [(1280, 600), (1920, 940)])
def test_the_overview_fits_the_window(
    browser: Browser, stored_dashboard: DashboardProcess, scheme: str, size: tuple[int, int]
) -> None:
    viewport = {"width": size[0], "height": size[1]}
    watched = Watched(browser, stored_dashboard, viewport=viewport, color_scheme=scheme)
    watched.page.wait_for_selector("[data-call]")
    root = "document.documentElement"
    assert watched.page.evaluate(f"{root}.scrollHeight") == size[1]
    assert watched.page.evaluate(f"{root}.scrollWidth") == size[0]
    assert watched.page.evaluate("document.querySelectorAll('*').length") < 2500
    cut = watched.page.evaluate(
        "[...document.querySelectorAll('.overview figcaption')]"
        ".filter(c => c.scrollWidth > c.clientWidth + 1).map(c => c.innerText)"
    )
    assert cut == []
    assert watched.errors == []
    watched.close()
