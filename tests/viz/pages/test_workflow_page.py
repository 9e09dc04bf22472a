"""The page about the workflow shows what was published: tasks, nodes, run times, time in MPI, quantities."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from chimbuko.observe.namespaces.analyses.metricfinding import Finding, Problem
from chimbuko.provenance.store.engine import close, open_for_writing
from chimbuko.provenance.write.writer import Writer
from chimbuko.viz.http.report import write_report
from tests.browsing import settled
from tests.viz.conftest import DashboardProcess, Watched, dashboard
from tests.viz.made_observations import CANCELLED, COURSES, UNSTABLE
from tests.viz.made_run import ZERO_US, MadeRun, make_run

if TYPE_CHECKING:
    from pathlib import Path

    from playwright.sync_api import Browser, Page


GUTTER, RIBBON = 84, 20
"""Of the timeline: width of the names of lanes, height of the row of abnormal calls."""
IS_ITS_PAGE = "() => location.pathname.endsWith('/incident/M1')"
ACCENT = [22, 86, 184]
LINE_IS_PAINTED = """([gutter, ribbon, accent]) => {
  const canvas = document.querySelector('.timeline .chart canvas');
  if (canvas === null || canvas.width === 0) return false;
  const x = Math.round(gutter + (canvas.clientWidth - gutter) / 2);
  const { data } = canvas.getContext('2d').getImageData(x - 1, ribbon, 3, canvas.height - 2 * ribbon);
  const isAccent = at => accent.every((value, channel) => data[at + channel] === value);
  return Array.from({ length: data.length / 4 }, (_, pixel) => 4 * pixel).some(isAccent);
}"""


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory, page_files: Path) -> MadeRun:
    """A run with a finding in what was published."""
    made = make_run(tmp_path_factory.mktemp("published") / "heat")
    info = made.directory.read_info()
    engine = open_for_writing(info.store_url)
    try:
        began_us = ZERO_US + 10_000_000
        finding = Finding(Problem.LOCAL_DRIFT, "local_mass", (UNSTABLE,), 19, 30, 0.05, began_us, began_us)
        Writer(engine, info.id).write_metric_findings([finding])
    finally:
        close(engine)
    return made


@pytest.fixture(scope="module")
def found(made: MadeRun) -> Iterator[DashboardProcess]:
    """A dashboard over the run."""
    with dashboard(made) as process:
        yield process


@pytest.fixture(scope="module")
def watched(browser: Browser, found: DashboardProcess) -> Iterator[Watched]:
    """A browser on the page; afterwards: no error."""
    watched = Watched(browser, found)
    yield watched
    errors = watched.errors
    watched.close()
    assert errors == []


@pytest.fixture
def page(watched: Watched) -> Page:
    """The page."""
    watched.page.goto(watched.base + "r/heat/workflow")
    watched.page.wait_for_selector("[data-panel=quantity] path.curve")
    settled(watched.page)
    return watched.page


def count(page: Page, selector: str) -> int:
    """How many elements there are."""
    return page.locator(selector).count()


def test_tasks_have_a_row_with_what_they_did(page: Page) -> None:
    assert page.locator("[data-answer]").inner_text() == "6 tasks: 4 done, 1 failed, 1 cancelled."
    for task, (_, _, _, end, *_) in COURSES.items():
        row = f'[data-task="{task}"]'
        assert page.locator(row).get_attribute("data-state") == end.value
        assert count(page, f"{row} .runs") == 1 and count(page, f"{row} .ready") == 1
    assert count(page, f'[data-task="{CANCELLED}"] .runs') == 0
    began, ended = (
        page.locator(f'[data-task="{task}"] .runs').bounding_box() for task in ("simulate-3", "simulate-1")
    )
    assert began is not None and ended is not None
    # The third one waited for the cores of the first.
    assert abs(began["x"] - (ended["x"] + ended["width"])) < 3


def test_keys_lead_through_rows_and_a_table_says_the_same(page: Page) -> None:
    chart = page.locator("[data-panel=tasks] .mark-chart")
    chart.focus()
    for _ in range(5):
        page.keyboard.press("ArrowDown")
    page.wait_for_selector('.tip:has-text("analyse: failed")')
    tip = page.locator(".tip").inner_text()
    assert "on node0, 1 core" in tip and "exit code 1" in tip
    page.keyboard.press("t")
    page.wait_for_selector("[data-panel=tasks] tbody tr")
    settled(page)
    cells = page.locator("[data-panel=tasks] tbody tr").nth(4).inner_text().split("\t")
    assert cells == ["analyse", "failed", "analysis.py", "node0", "1", "1", "27 s", "3 s", "exit code 1"]
    page.keyboard.press("t")


def test_nodes_have_a_curve_with_the_starts_of_tasks(page: Page) -> None:
    assert count(page, '[data-node="node0"] path.curve') == 1
    starts = page.locator('[data-node="node1"] [data-start]')
    assert [starts.nth(at).get_attribute("data-start") for at in range(starts.count())] == [
        "simulate-2",
        "simulate-8",
    ]


def test_run_times_are_boxes_by_scale(page: Page) -> None:
    assert count(page, '[data-box="heat × 4"] .box') == 1 and count(page, '[data-box="heat × 8"]') == 1
    # What failed says nothing of how long it takes.
    assert count(page, '[data-box^="analysis"]') == 0


def test_time_in_mpi_has_a_bar_for_each_rank(page: Page) -> None:
    rows = page.locator("[data-panel=mpi] [data-rank]")
    assert [row.split()[-1] for row in rows.all_inner_texts()] == ["1.5", "2.5", "3.5", "4.5"]


def test_any_quantity_is_a_chart(page: Page) -> None:
    assert count(page, "[data-panel=quantity] path.curve") == 16
    page.get_by_label("Quantity", exact=True).select_option("performance/MPI/MPI_Recv_Exclusive")
    page.wait_for_function("() => document.querySelectorAll('[data-panel=quantity] path.curve').length === 4")
    page.wait_for_url("**/workflow?quantity=performance/MPI/MPI_Recv_Exclusive")


def test_a_finding_shows_its_quantity_with_its_rank_marked(watched: Watched) -> None:
    page = watched.page
    page.goto(watched.base + "r/heat/incident/M1")
    page.wait_for_selector("[data-panel=published] path.curve.marked")
    settled(page)
    marked = page.locator("[data-panel=published] path.curve.marked")
    assert marked.count() == 1 and marked.get_attribute("data-curve") == f"rank {UNSTABLE}"
    assert count(page, "[data-panel=published] .limit") == 1


def test_a_finding_stands_on_the_timeline_where_it_began(watched: Watched) -> None:
    page = watched.page
    page.goto(watched.base + "r/heat/timeline?rank=0:1&t=9000000..11000000")
    # Its line stands in the middle of what is right of the names of lanes, and its label beside it.
    page.wait_for_function(LINE_IS_PAINTED, arg=[GUTTER, RIBBON, ACCENT])
    chart = page.locator(".timeline .chart")
    assert chart.get_attribute("data-published") == "M1"
    middle = chart.evaluate("(chart, gutter) => gutter + (chart.clientWidth - gutter) / 2", GUTTER)
    label = {"x": middle + 10, "y": RIBBON + 8}
    chart.hover(position=label)
    tip = page.locator('.tip:has-text("≠ local_mass")')
    tip.wait_for()
    assert f"rank {UNSTABLE}" in tip.inner_text() and "From +00:00:10.000" in tip.inner_text()
    chart.click(position=label)
    page.wait_for_function(IS_ITS_PAGE)
    page.go_back()
    chart.focus()
    page.keyboard.press("t")
    page.locator(".published-table a", has_text="M1").click()
    page.wait_for_function(IS_ITS_PAGE)


def test_a_report_has_it_with_the_chart_of_the_finding(
    made: MadeRun, tmp_path: Path, browser: Browser
) -> None:
    """It opens without a server, and asks for nothing that is not in it."""
    written = write_report(made.directory, tmp_path / "heat.html")
    assert not [text for text in written.left_out if "published" in text or "the workflow" in text]
    context = browser.new_context(offline=True)
    page = context.new_page()
    page.goto((tmp_path / "heat.html").as_uri())
    for path, chart in (("workflow", "[data-panel=quantity]"), ("incident/M1", "[data-panel=published]")):
        page.evaluate("path => { location.hash = path }", f"r/heat/{path}")
        page.wait_for_selector(f"{chart} path.curve")
        settled(page)
        assert page.get_by_text("This is not in the report.").count() == 0
    context.close()
