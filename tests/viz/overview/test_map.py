"""The heat map of the overview, in a real browser: cells, pointer, wheel and keys."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from chimbuko.provenance.query.filters import CallFilter
from chimbuko.provenance.query.run import Provenance
from tests.browsing import settled
from tests.viz.conftest import Watched
from tests.viz.made_run import LOST_STEPS, RANKS, STEPS, MadeRun
from tests.viz.overviewpage import (
    Cells,
    box_of,
    map_cells,
    map_lines,
    place,
    select,
    step_table,
    tip_at,
)
from tests.viz.panels import microseconds

if TYPE_CHECKING:
    from playwright.sync_api import Page


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
    assert words == "cell = 1 rank × 1 step"


def test_zero_unknown_and_counts_have_colours_of_their_own(page: Page, cells: Cells) -> None:
    shade = """([x, y]) => {
        const canvas = document.querySelector('.heatmap canvas'), box = canvas.getBoundingClientRect();
        const at = canvas.getContext('2d').getImageData(x - box.x, y - box.y, 3, 3).data;
        return [0, 1, 2, 3, 4, 5, 6, 7, 8].map(i => [at[4 * i], at[4 * i + 1], at[4 * i + 2]].join());
    }"""
    page.goto(page.url + "?measure=anomalies")
    page.wait_for_selector(".heatmap .chart")
    settled(page)
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


def test_time_lost_comes_first_and_anomalies_are_a_choice_away(page: Page, finished: MadeRun) -> None:
    """In the map's colours, in its table, and in the heights of the chart of steps."""
    worst = max(finished.steps, key=lambda step: step.severity_us)
    lines = [row for row in map_lines(page) if len(row) == 5]
    assert lines[0][:2] == [str(worst.rank), str(worst.step)]
    assert microseconds(lines[0][3]) == pytest.approx(worst.severity_us, rel=0.2)
    lost = [microseconds(row[3]) for row in lines]
    assert lost == sorted(lost, reverse=True)
    page.get_by_role("button", name="All ranks: picture").click()
    settled(page)
    assert re.fullmatch(r"\d+ m?s\+", page.locator(".heat-bins span").nth(6).inner_text().strip())
    page.get_by_label("Measure of the colours").select_option("anomalies")
    page.wait_for_url("**measure=anomalies*")
    settled(page)
    assert page.locator(".heat-bins span").nth(6).inner_text().strip() == "17+"
    assert page.locator(".steps .chart").get_attribute("aria-label") == "Anomalies per step"
    counts = [int(row[2]) for row in map_lines(page) if len(row) == 5]
    assert counts == sorted(counts, reverse=True)
    page.get_by_label("Measure of the heights").select_option("lost")
    page.wait_for_url(lambda url: "measure" not in url)
    page.go_back()
    page.wait_for_url("**measure=anomalies*")


def test_a_cell_reports_ranks_steps_count_time_and_function(
    page: Page, cells: Cells, provenance: Provenance
) -> None:
    count, (rank, step) = max((count, where) for where, count in cells.items())
    lines = tip_at(page, *place(page, rank + 0.5, step + 0.5))
    assert lines[:2] == [f"rank {rank}", f"step {step}"]
    assert re.fullmatch(r"at most about [\d.]+ m?s lost by one rank in one step", lines[2])
    assert lines[3] == f"at most {count} anomalies of one rank in one step"
    worst = CallFilter(program=0, rank=rank, step_min=step, step_max=step)
    call = provenance.calls.page(worst, "severity_us", limit=1).calls[0]
    page.wait_for_selector(f".tip >> text=most: rank {rank}, step {step}: ")
    settled(page)
    lines = page.locator(".tip").inner_text().splitlines()
    [of_step] = [one for one in provenance.steps.counts([(0, rank)], step) if one.step == step]
    lost = re.search(rf": ([\d.,]+ \S+) lost by {count} anomalies$", lines[4])
    assert lost and microseconds(lost[1]) == pytest.approx(of_step.severity_us, rel=5e-3)
    assert call.function.split(" ")[0].rstrip("()") in lines[5] or "push_particles" in lines[5]
    lost = re.search(r": ([\d.,]+ \S+) lost$", lines[5])
    assert lost and microseconds(lost[1]) == pytest.approx(call.severity_us, rel=5e-3)
    assert f"from +00:00:{step:02d}.000" in lines
    assert lines[-1].startswith("click: select the worst rank")
    assert tip_at(page, *place(page, 2.5, 22.5))[2] == "not analysed: unknown"


def test_a_click_selects_the_worst_rank_of_the_cell_and_lists_its_calls(
    page: Page, cells: Cells, provenance: Provenance
) -> None:
    rank, step = next(where for where, count in cells.items() if count == 2)
    page.mouse.click(*place(page, rank + 0.5, step + 0.5))
    page.wait_for_url(f"**sel=*0:{rank}*")
    said = f"rank {rank} had 2 anomalies in step {step}, which lost [0-9.]+ m?s: most time of this cell"
    page.wait_for_selector(f".notice >> text=/{said}/")
    settled(page)
    assert [item.get_attribute("data-legend") for item in page.locator("[data-legend]").all()] == [
        f"0:{rank}"
    ]
    # Its calls are listed, and a double click shows all again.
    page.wait_for_url(f"**step={step}&rank=0:{rank}*")
    wanted = CallFilter(program=0, rank=rank, step_min=step, step_max=step)
    of_cell = provenance.calls.page(wanted, "severity_us").calls
    assert len(of_cell) == 2
    page.wait_for_function(
        "n => document.querySelectorAll('[data-panel=worst] li').length === n", arg=len(of_cell)
    )
    page.mouse.dblclick(*place(page, rank + 0.5, step + 0.5))
    page.wait_for_url(lambda url: "step=" not in url and "rank=" not in url)


def test_a_cell_of_several_ranks_lists_the_calls_of_them_all(
    page: Page, cells: Cells, provenance: Provenance
) -> None:
    """The map has no room for a row of each rank."""
    first, step = next(
        (rank, step) for rank, step in cells if rank in (0, 2) and cells[rank, step] and cells[rank + 1, step]
    )
    rule = ".heatmap .chart { flex: none !important; height: 28px !important }"
    page.evaluate("rule => { document.styleSheets[0].insertRule(rule) }", rule)
    page.wait_for_selector(".heatmap .chart[data-rows='3']")
    page.mouse.click(*place(page, first // 2 + 0.5, step + 0.5, ranks=3))
    page.wait_for_url(f"**step={step}&rank=0:{first}..{first + 1}*")
    wanted = CallFilter(program=0, rank_min=first, rank_max=first + 1, step_min=step, step_max=step)
    of_cell = {call.id for call in provenance.calls.page(wanted, "severity_us").calls}
    assert {call.split(":")[1] for call in of_cell} == {str(first), str(first + 1)}
    page.wait_for_function(
        "n => document.querySelectorAll('[data-panel=worst] [data-call]').length === n", arg=len(of_cell)
    )
    listed = page.locator("[data-panel=worst] [data-call]").all()
    assert {one.get_attribute("data-call") for one in listed} == of_cell
    assert page.locator(".chip").all_inner_texts()[0].startswith(f"ranks {first}..{first + 1}")


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
    settled(page)
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
    settled(page)
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
    page.wait_for_selector(".heatmap .chart")
    settled(page)
    shown = {int(row[1]) for row in step_table(page)}
    assert shown == {step.step for step in finished.steps_of(1) if 30 <= step.step <= 34}
    assert {step for _, step in map_cells(page)} <= shown


def test_keys_move_select_brush_zoom_and_pan(page: Page, cells: Cells) -> None:
    chart = page.locator(".heatmap .chart")
    page.goto(page.url + "?measure=anomalies")
    chart.wait_for()
    settled(page)
    chart.focus()
    page.keyboard.press("ArrowRight")
    most = max(cells.values())
    page.wait_for_selector(f".tip >> text=at most {most} anomalies")
    settled(page)
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
