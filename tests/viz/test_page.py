"""The page over a stored run, in a real browser: it shows what the store says."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from chimbuko.provenance.calls import CallFilter
from chimbuko.provenance.queries import Provenance, open_run
from tests.viz.conftest import DashboardProcess, Watched
from tests.viz.made_run import MadeRun

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page


@pytest.fixture
def watched(browser: Browser, stored_dashboard: DashboardProcess) -> Iterator[Watched]:
    """The page; afterwards: no error, and no request to anybody else."""
    watched = Watched(browser, stored_dashboard)
    watched.page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    yield watched
    errors, requests = watched.errors, watched.requests
    watched.close()
    assert errors == []
    assert {url.split("/")[2] for url in requests} == {stored_dashboard.base.split("/")[2]}


@pytest.fixture
def page(watched: Watched) -> Page:
    """The page, on the overview."""
    watched.page.wait_for_selector(".rank-bar")
    return watched.page


@pytest.fixture(scope="module")
def provenance(finished: MadeRun) -> Provenance:
    """What the store says."""
    return open_run(finished.directory)


def test_the_table_is_the_query(page: Page, provenance: Provenance) -> None:
    def ids() -> list[str]:
        return page.evaluate("[...document.querySelectorAll('[data-call]')].map(r => r.dataset.call)")  # type: ignore[no-any-return]

    page.wait_for_selector("[data-call]")
    assert ids() == [call.id for call in provenance.calls(CallFilter(), "entry_us").calls]
    page.get_by_label("Function", exact=True).fill("MPI_*")
    page.get_by_label("Function", exact=True).press("Enter")
    page.get_by_label("Rank", exact=True).fill("1")
    page.get_by_label("Rank", exact=True).press("Enter")
    page.get_by_label("Lost ≥").fill("2 ms")
    page.get_by_label("Lost ≥").press("Enter")
    page.locator('[data-sort="severity_us"]').click()
    wanted = CallFilter(function="MPI_*", program=0, rank=1, min_severity_us=2000.0)
    expected = [call.id for call in provenance.calls(wanted, "severity_us").calls]
    page.wait_for_function(
        "ids => [...document.querySelectorAll('[data-call]')].map(r => r.dataset.call).join() === ids",
        arg=",".join(expected),
    )
    assert int(page.locator("[data-total]").get_attribute("data-total") or -1) == provenance.count(wanted)
    page.locator('[data-sort="severity_us"]').click()
    page.wait_for_function(
        "id => document.querySelector('[data-call]').dataset.call === id", arg=expected[-1]
    )
    assert ids() == expected[::-1]


def test_pages_of_the_table_follow_each_other(page: Page, provenance: Provenance) -> None:
    whole = [call.id for call in provenance.calls(CallFilter(), "entry_us", limit=1000).calls]
    page.get_by_role("button", name="Next ›").click()
    page.wait_for_function("id => document.querySelector('[data-call]').dataset.call === id", arg=whole[50])
    page.go_back()
    page.wait_for_function("id => document.querySelector('[data-call]').dataset.call === id", arg=whole[0])


def test_nonsense_in_a_filter_changes_nothing(page: Page) -> None:
    page.get_by_label("Lost ≥").fill("much")
    page.get_by_label("Lost ≥").press("Enter")
    assert "not understood" in page.locator(".notice").inner_text()
    assert page.url.endswith("/r/heat")


def test_a_call_has_a_page_of_its_own(page: Page, finished: MadeRun, provenance: Provenance) -> None:
    row = page.locator("[data-call]").first
    record = provenance.call(row.get_attribute("data-call") or "")
    row.click()
    program, _, rest = record.id.partition(":")
    page.wait_for_url(f"**/r/heat/call/{program}/{rest}")
    page.wait_for_selector(".timeline canvas")
    sentence = page.locator("h1").inner_text()
    assert f"on rank {record.rank} took " in sentence and sentence.endswith(" lost.")
    body = page.locator("main").inner_text()
    normal = provenance.normal_like(record)
    assert normal is not None and normal.id in body and record.id in body
    stack = [row.inner_text() for row in page.locator(".stack-name").all()]
    assert stack[1:] == ["time_step", "main"]
    assert page.locator(".messages tbody tr").count() == len(record.messages)
    assert page.locator(".node tbody tr").count() == len(record.node_state)
    page.get_by_role("button", name=re.compile("The call in its window.*table")).click()
    window = page.evaluate(
        "[...document.querySelectorAll('.timeline tbody tr')].map(r => r.lastElementChild.innerText)"
    )
    assert window == [call.id for call in record.window]
    page.keyboard.press("u")
    page.wait_for_selector("[data-call]")


def test_a_call_that_is_not_there_says_so(watched: Watched) -> None:
    page = watched.page
    page.goto(watched.base + "r/heat/call/0/1:2:99999")
    page.wait_for_selector(".empty >> text=not recorded in this run")
    page.get_by_role("link", name="Back to the run").click()
    page.wait_for_selector("[data-call]")
    # The browser reports the 404 on its console by itself.
    assert [error for error in watched.errors if "404" not in error] == []
    watched.errors.clear()


def test_brackets_go_from_call_to_call(page: Page, provenance: Provenance) -> None:
    order = [call.id for call in provenance.calls(CallFilter(), "entry_us").calls]
    page.locator("[data-call]").nth(2).locator("a").press("Enter")
    for key, at in (("]", 3), ("[", 2), ("[", 1)):
        page.wait_for_selector(".timeline canvas")
        page.keyboard.press(key)
        page.wait_for_url("**/call/" + order[at].replace(":", "/", 1))
