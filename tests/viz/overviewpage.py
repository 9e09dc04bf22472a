"""Reads the overview, and clicks on it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.browsing import settled
from tests.viz.made_run import RANKS, STEPS

if TYPE_CHECKING:
    from playwright.sync_api import FloatRect, Page

Cells = dict[tuple[int, int], int]
"""Anomalies by rank and step."""


def map_lines(page: Page) -> list[list[str]]:
    """The heat map's table twin."""
    if page.locator(".heatmap table").count() == 0:
        page.get_by_role("button", name="All ranks: table").click()
    page.wait_for_selector(".heatmap table")
    settled(page)
    rows: list[list[str]] = page.evaluate(
        "[...document.querySelectorAll('.heatmap tbody tr')].map(r => [...r.cells].map(c => c.innerText))"
    )
    return rows


def map_cells(page: Page) -> Cells:
    """Counts above 0 of the heat map's table twin, each of one rank and one step."""
    return {(int(row[0]), int(row[1])): int(row[2]) for row in map_lines(page) if len(row) == 5}


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
    settled(page)
    return page.locator(".tip").inner_text().splitlines()


def ranks_in(page: Page, name: str) -> list[int]:
    """Ranks of the list ``top`` or ``bottom``, in order."""
    settled(page)
    bars = page.locator(f'[data-list="{name}"] .rank-bar').all()
    return [int((bar.get_attribute("data-rank") or "").split(":")[1]) for bar in bars]


def functions_in(page: Page, name: str) -> list[str]:
    """Functions of the list ``top`` or ``bottom``, in order."""
    settled(page)
    bars = page.locator(f'[data-functions="{name}"] [data-function]').all()
    return [bar.get_attribute("data-function") or "" for bar in bars]


def select(page: Page, *ranks: int) -> None:
    """Click ranks in the upper list."""
    for rank in ranks:
        page.locator(f'[data-list="top"] [data-rank="0:{rank}"]').click()
    page.mouse.move(2, 2)
    settled(page)


def step_table(page: Page) -> list[list[str]]:
    """The step chart's table twin."""
    page.get_by_role("button", name="Steps: table").click()
    page.wait_for_selector(".steps table tbody tr")
    settled(page)
    rows: list[list[str]] = page.evaluate(
        "[...document.querySelectorAll('.steps tbody tr')].map(r => [...r.cells].map(c => c.innerText))"
    )
    return rows
