"""What panels show as SQL: each copies a command that answers the same as the panel's address in the API."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING
from urllib.parse import quote

import pytest

from chimbuko.provenance.query.filters import CallFilter
from chimbuko.provenance.query.run import Provenance
from tests.browsing import settled
from tests.thorough import first
from tests.viz.conftest import DashboardProcess, Watched
from tests.viz.made_run import FUNCTIONS, ZERO_US
from tests.viz.panels import answered, api_answer, copied, sql_rows

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page


@pytest.fixture(scope="module")
def page(browser: Browser, process: DashboardProcess) -> Iterator[Page]:
    """A browser."""
    watched = Watched(browser, process)
    watched.page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    yield watched.page
    assert watched.errors == []
    watched.close()


LISTS = [
    ("label=anomaly", CallFilter()),
    ("", CallFilter(label=None)),
    (
        "label=anomaly&rank=0:3&function=*_*&severity_us=5000&step=5..40",
        CallFilter(program=0, rank=3, function="*_*", min_severity_us=5000.0, step_min=5, step_max=40),
    ),
    (
        "gpu=false&text=SWEEP&score=20.5&thread=0&node=*0&label=normal",
        CallFilter(label="normal", is_gpu=False, text="SWEEP", min_score=20.5, thread=0, node="*0"),
    ),
    (
        "label=anomaly&time=7030000..9100000",
        CallFilter(time_min_us=ZERO_US + 7_030_000, time_max_us=ZERO_US + 9_100_000),
    ),
]


@pytest.mark.parametrize(("query", "wanted"), first(2, LISTS))
def test_the_statement_answers_the_list(
    page: Page, process: DashboardProcess, provenance: Provenance, query: str, wanted: CallFilter
) -> None:
    for order in ("desc", "asc"):
        address = f"{process.base}r/heat/calls?{query}&sort=entry_us{'&order=asc' if order == 'asc' else ''}"
        page.goto(address)
        page.wait_for_selector("[data-panel=calls] [data-call], [data-panel=calls] .empty")
        settled(page)
        calls = provenance.calls.page(wanted, "entry_us", descending=order == "desc", limit=50).calls
        found = sql_rows(page, "calls")
        assert [row["entry_us"] for row in found] == [call.entry_us for call in calls]
        assert {row["call"] for row in found} == {call.id for call in calls}


WORST = f"function={quote(FUNCTIONS[1])}&program=0"
PANELS = [
    ("?n=2", "ranks", "top"),
    ("", "functions", "functions"),
    ("?sel=0:1,0:3", "steps", "series"),
    ("", "worst", "calls"),
    (f"/fn?{WORST}", "distribution", "statistics"),
    (f"/fn?{WORST}", "function-trend", "totals"),
    (f"/fn?{WORST}", "function-ranks", "totals"),
    (f"/fn?{WORST}", "function-paths", "paths"),
    (f"/fn?{WORST}", "function-worst", "calls"),
    ("/call/0/1:10:300", "numbers", "record"),
    ("/call/0/1:10:300", "metadata", "metadata"),
    ("/call/0/1:10:300", "counters", "counters"),
]
"""Where a panel is, its name, and what of the answer it shows."""


@pytest.mark.parametrize(("address", "panel", "what"), first(5, PANELS, [panel for _, panel, _ in PANELS]))
def test_each_panel_copies_its_question_twice(
    page: Page, process: DashboardProcess, address: str, panel: str, what: str
) -> None:
    page.goto(f"{process.base}r/heat{address}")
    page.wait_for_selector(f"[data-panel={panel}] .panel-body :is(svg, canvas, tr, li)")
    settled(page)
    shown = api_answer(page, panel)[what]
    answer = answered(copied(page, panel, "Copy SQL"))
    assert shown and answer["rows"] and answer["is_complete"]
    if what in ("functions", "calls", "metadata", "counters"):
        assert len(answer["rows"]) == len(shown)


def test_no_sql_is_offered_where_no_statement_answers(page: Page, process: DashboardProcess) -> None:
    page.goto(f"{process.base}r/heat?statistic=skewness")
    page.wait_for_selector("[data-list=bottom] [data-rank]")
    settled(page)
    page.locator('[data-panel="ranks"] .menu-button').click()
    page.get_by_role("menuitem", name="Copy JSON address", exact=True).wait_for()
    assert page.get_by_role("menuitem", name="Copy SQL", exact=True).count() == 0
    page.keyboard.press("Escape")


def test_the_worst_calls_as_a_command(page: Page, process: DashboardProcess, provenance: Provenance) -> None:
    page.goto(f"{process.base}r/heat?sel=0:1,0:2")
    page.wait_for_selector("[data-panel=worst] [data-call]")
    settled(page)
    worst = [call.id for call in provenance.calls.page(CallFilter(), "severity_us", limit=30).calls]
    assert [row["call"] for row in sql_rows(page, "worst")] == worst
    answer = answered(copied(page, "worst", "Copy command"))
    assert [call["id"] for call in answer["calls"]] == worst
