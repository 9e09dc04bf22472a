"""The page over a stored run, in a real browser: it shows what the store says."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from chimbuko.provenance.calls import CallFilter
from chimbuko.provenance.queries import Provenance, open_run
from chimbuko.viz.tally import STATISTICS
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


def ranks_in(page: Page, name: str) -> list[int]:
    """Ranks of the list ``top`` or ``bottom``, in order."""
    bars = page.locator(f'[data-list="{name}"] .rank-bar').all()
    return [int((bar.get_attribute("data-rank") or "").split(":")[1]) for bar in bars]


def select(page: Page, *ranks: int) -> None:
    """Click ranks in the upper list."""
    for rank in ranks:
        page.locator(f'[data-list="top"] [data-rank="0:{rank}"]').click()
    page.mouse.move(2, 2)


def step_table(page: Page) -> list[list[str]]:
    """The chart's table twin."""
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
    assert page.locator('[data-fact="loss"]').inner_text().split() == ["loss", "1.33", "%"]
    assert page.locator('[data-fact="ranks"]').inner_text().endswith("5/5")


@pytest.mark.parametrize("statistic", STATISTICS)
def test_ranks_stand_in_the_order_of_the_database(page: Page, provenance: Provenance, statistic: str) -> None:
    rows = sorted(provenance.rank_statistics(), key=lambda row: row.rank)
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


def test_hovering_a_rank_tells_about_it(page: Page, provenance: Provenance) -> None:
    row = next(row for row in provenance.rank_statistics() if row.rank == 1)
    page.locator('[data-list="top"] [data-rank="0:1"]').hover()
    lines = page.locator(".tip").inner_text().splitlines()
    assert lines[0] == f"rank 1: {row.total} anomalies in {row.steps} steps"
    assert f"maximum {row.maximum}, total {row.total}" in lines[2]
    assert lines[-1].startswith("click:")


def test_hovering_a_mark_tells_count_step_time_and_rank(page: Page, finished: MadeRun) -> None:
    select(page, 1)
    page.wait_for_selector('[data-legend="0:3"]', state="detached")
    chart = page.locator(".steps .chart")
    box = chart.bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + 40, box["y"] + 10)
    chart.focus()
    page.keyboard.press("ArrowRight")
    first = next(step for step in finished.steps_of(1) if step.anomalies)
    lines = page.locator(".tip").inner_text().splitlines()
    noun = "anomaly" if first.anomalies == 1 else "anomalies"
    assert lines[0] == f"rank 1: {first.anomalies} {noun}"
    assert lines[1] == f"step {first.step}"
    assert lines[2] == f"analysed +00:00:{first.step:02d}.000 to +00:00:{first.step + 1:02d}.000"
    keyboard_tip = page.locator(".tip").inner_text()
    frame = page.locator(".tip").bounding_box()
    assert frame is not None
    # The tooltip stands 12 px off the mark, to the lower right where there is room.
    page.keyboard.press("Escape")
    page.wait_for_selector(".tip", state="detached")
    page.mouse.move(frame["x"] - 12, frame["y"] - 12)
    page.wait_for_selector(".tip")
    assert page.locator(".tip").inner_text() == keyboard_tip


def test_a_gap_says_that_it_is_unknown(page: Page) -> None:
    select(page, 2)
    page.wait_for_selector('[data-legend="0:1"]', state="detached")
    box = page.locator(".steps .chart").bounding_box()
    assert box is not None
    # The strip of a single rank: 3 px above the axis, which is 18 px high.
    page.mouse.move(box["x"] + 36 + (box["width"] - 48) * 22 / 60, box["y"] + box["height"] - 21)
    page.wait_for_selector(".tip >> text=rank 2: steps 20..23 not analysed")


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


def test_filters_without_match_offer_a_way_out(page: Page) -> None:
    page.get_by_label("Function", exact=True).fill("nothing_like_it")
    page.get_by_label("Function", exact=True).press("Enter")
    page.get_by_role("button", name="Drop all filters").click()
    page.wait_for_selector("[data-call]")


def test_nonsense_in_a_filter_changes_nothing(page: Page) -> None:
    page.get_by_label("Lost ≥").fill("much")
    page.get_by_label("Lost ≥").press("Enter")
    assert "not understood" in page.locator(".notice").inner_text()
    assert page.url.endswith("/r/heat")


def test_brushing_steps_limits_the_table(page: Page, provenance: Provenance) -> None:
    box = page.locator(".steps .chart").bounding_box()
    assert box is not None
    at = lambda step: box["x"] + 36 + (box["width"] - 48) * (step + 0.5) / 60  # noqa: E731
    page.mouse.move(at(10), box["y"] + 60)
    page.mouse.down()
    page.mouse.move(at(15), box["y"] + 62)
    page.mouse.move(at(19), box["y"] + 64)
    page.mouse.up()
    page.wait_for_url("**step=10..19*")
    total = provenance.count(CallFilter(step_min=10, step_max=19))
    page.wait_for_selector(f'[data-total="{total}"]')
    page.get_by_role("button", name="Drop filter step 10..19").click()
    page.wait_for_selector(f'[data-total="{provenance.count(CallFilter())}"]')


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


def test_an_address_opens_the_same_picture_elsewhere(
    page: Page, browser: Browser, stored_dashboard: DashboardProcess
) -> None:
    page.get_by_label("Statistic of anomalies per step").select_option("maximum")
    select(page, 3, 1)
    page.get_by_label("Function", exact=True).fill("*_*")
    page.get_by_label("Function", exact=True).press("Enter")
    page.locator('[data-sort="score"]').click()
    page.locator(".steps .chart").focus()
    page.keyboard.press("w")
    page.wait_for_url("**zoom=*")
    page.locator(".functions button").last.focus()
    page.keyboard.press("t")
    page.wait_for_url("**table=functions*")
    page.mouse.move(2, 2)
    marks = "[...document.querySelectorAll('.legend path')].map(p => p.outerHTML)"
    picture = f"document.querySelector('main').innerText + {marks}"
    other = Watched(browser, stored_dashboard)
    other.page.goto(page.url)
    other.page.wait_for_selector("[data-call]")
    other.page.wait_for_selector(".functions table")
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
    ground = watched.page.evaluate("getComputedStyle(document.documentElement).backgroundColor")
    assert ground == {"light": "rgb(244, 246, 248)", "dark": "rgb(14, 18, 23)"}[scheme]
    assert watched.errors == []
    watched.close()
