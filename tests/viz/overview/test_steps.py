"""The step chart of the overview, in a real browser: every step of the chosen ranks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from chimbuko.provenance.query.filters import CallFilter
from chimbuko.provenance.query.run import Provenance
from tests.browsing import settled
from tests.viz.made_run import MadeRun
from tests.viz.overviewpage import (
    box_of,
    ranks_in,
    select,
    step_table,
)

if TYPE_CHECKING:
    from playwright.sync_api import Page


def test_selected_ranks_are_charted_with_every_step(page: Page, finished: MadeRun) -> None:
    select(page, 1, 2)
    page.wait_for_url("**sel=*0:1,0:2*")
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
    settled(page)
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
    settled(page)
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
    settled(page)
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
