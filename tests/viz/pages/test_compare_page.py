"""The page of what changed between two runs, in a real browser."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from chimbuko.provenance.store.engine import open_for_writing
from chimbuko.provenance.write.writer import Writer
from chimbuko.runtime.protocol.messages import PathStatistics, RunStatistics
from tests.browsing import settled
from tests.simulated_runs import Noise, SimulatedFunction, SimulatedRun, log_normal, make_run, two_modes
from tests.viz.conftest import DashboardProcess, Watched, dashboard
from tests.viz.made_run import MadeRun

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from playwright.sync_api import Browser, Page

    from chimbuko.runtime.runs.directory import RunDirectory

NOISE = Noise(run=0.02, walk=0.01, function=0.004, function_walk=0.004)
BEFORE = (
    SimulatedFunction("relax_block [{heat2d.c} {47,0}]", log_normal(1800.0, 0.1)),
    SimulatedFunction("jacobi_sweep [{heat2d.c} {51,0}]", two_modes(65.0, 0.1)),
    SimulatedFunction("pack_row [{heat2d.c} {38,0}]", log_normal(12.0, 0.2), 400),
    SimulatedFunction("unpack_row [{heat2d.c} {39,0}]", log_normal(11.0, 0.2), 400),
    SimulatedFunction("apply_bc [{heat2d.c} {52,0}]", log_normal(180.0, 0.2)),
    SimulatedFunction("MPI_Waitall()", log_normal(400.0, 0.8)),
    SimulatedFunction("read_input [{heat2d.c} {20,0}]", log_normal(900.0, 0.1), 2),
)
# Lines have moved, as they do from one version of a program to the next.
AFTER = (
    SimulatedFunction("relax_block [{heat2d.c} {49,0}]", log_normal(1800.0, 0.1)),
    *BEFORE[1:-1],
    SimulatedFunction("read_mesh [{heat2d.c} {22,0}]", log_normal(700.0, 0.1), 2),
)
MAIN = "main [{heat2d.c} {90,0}]"
SLOWER, FASTER = "relax_block [{heat2d.c} {49,0}]", "apply_bc [{heat2d.c} {52,0}]"


@pytest.fixture(scope="module")
def compared(tmp_path_factory: pytest.TempPathFactory, page_files: Path) -> Iterator[DashboardProcess]:
    """A dashboard over the run after; the run before, and one before that, lie beside it."""
    folder = tmp_path_factory.mktemp("runs")
    make_run(folder / "earlier", BEFORE, SimulatedRun(3, NOISE))
    before = make_run(folder / "before", BEFORE, SimulatedRun(1, NOISE))
    changed = SimulatedRun(
        2, NOISE, slower={SLOWER: 1.1, FASTER: 0.8}, anomalies={"pack_row [{heat2d.c} {38,0}]": 200}
    )
    after = make_run(folder / "after", AFTER, changed)
    add_paths(before, BEFORE, {})
    add_paths(after, AFTER, {SLOWER: 2.0})
    with dashboard(MadeRun(after)) as process:
        yield process


def add_paths(run: RunDirectory, functions: Sequence[SimulatedFunction], slower: dict[str, float]) -> None:
    """All functions are called by one, and take 100 µs, some longer."""
    paths = []
    for function in functions:
        mean_us = 100.0 * slower.get(function.name, 1.0)
        one = (mean_us, 1.0, mean_us / 2, 2 * mean_us)
        paths.append(PathStatistics(0, [MAIN, function.name], 1000, *one, *one))
    info = run.read_info()
    engine = open_for_writing(info.store_url)
    Writer(engine, info.id).write_statistics(RunStatistics(paths=paths))
    engine.dispose()


@pytest.fixture
def page(browser: Browser, compared: DashboardProcess) -> Iterator[Page]:
    """The comparison; afterwards: no error."""
    watched = Watched(browser, compared, viewport={"width": 1280, "height": 800})
    watched.page.goto(f"{compared.base}r/after/compare/before")
    watched.page.wait_for_selector("[data-shift]")
    settled(watched.page)
    yield watched.page
    errors = watched.errors
    watched.close()
    assert errors == []


def test_it_opens_with_the_function_that_is_slower(page: Page) -> None:
    answer = page.locator("[data-answer]").inner_text()
    assert answer.startswith("All calls together are slower: ") and "; most by relax_block: +" in answer
    assert page.locator('[data-panel="times"] tbody tr').first.inner_text().startswith("▲ relax_block\t+")
    assert page.title() == "before → after · Chimbuko"
    verdicts = {
        row.get_attribute("data-shift"): row.get_attribute("data-verdict")
        for row in page.locator("[data-shift]").all()
    }
    named = {name: verdict for name, verdict in verdicts.items() if verdict in ("slower", "faster")}
    assert named == {SLOWER: "slower", FASTER: "faster"}
    assert next(iter(verdicts)) == SLOWER


def test_what_came_went_and_is_more_often_abnormal_is_listed(page: Page) -> None:
    assert "read_mesh" in page.locator('[data-panel="new"] tbody').inner_text()
    assert "read_input" in page.locator('[data-panel="vanished"] tbody').inner_text()
    assert page.locator('[data-panel="rates"] tbody tr').first.inner_text().startswith("▲ pack_row")


def test_a_function_is_chosen_by_click_and_key_and_stands_in_the_address(page: Page) -> None:
    title = page.locator('[data-panel="runtimes"] h2')
    assert title.inner_text() == "relax_block"
    page.locator(f'[data-shift="{FASTER}"]').click()
    page.wait_for_url("**function=apply_bc*")
    page.wait_for_function("document.querySelector('[data-panel=runtimes] h2').innerText === 'apply_bc'")
    page.keyboard.press("[")
    page.wait_for_function("document.querySelector('[data-panel=runtimes] h2').innerText === 'relax_block'")
    page.reload()
    page.wait_for_selector("[data-shift]")
    settled(page)
    assert title.inner_text() == "relax_block"


def test_each_chart_has_its_table(page: Page) -> None:
    page.keyboard.press("t")
    page.wait_for_selector(".shifts table tbody tr")
    settled(page)
    row = page.locator(".shifts tbody tr").first.locator("td").all_inner_texts()
    assert row[:2] == ["▲", "relax_block"]
    assert float(row[2].strip("+ %")) == pytest.approx(10, abs=3)
    paths = page.locator(".differential tbody tr").all_inner_texts()
    (slower,) = [path.split("\t") for path in paths if "slower" in path]
    assert [cell.strip() for cell in slower[:5]] == ["relax_block", "200 ms", "1,000", "100 µs", "200 µs"]
    shares = page.locator(".runtimes tbody tr td:nth-child(3)").all_inner_texts()
    assert sum(float(share.strip(" %")) for share in shares) == pytest.approx(100, abs=2)


def test_the_other_run_is_chosen_from_those_beside(page: Page) -> None:
    page.get_by_role("link", name="Compare", exact=True).click()
    page.wait_for_url("**/r/after/compare")
    page.get_by_role("link", name="before").click()
    page.wait_for_url("**/r/after/compare/before")
    page.wait_for_selector("[data-shift]")
    page.keyboard.press("u")
    page.wait_for_url("**/r/after")


def test_further_runs_of_a_side_are_added_and_dropped(page: Page) -> None:
    page.get_by_label("Another run before").select_option("earlier")
    page.wait_for_url("**/r/after/compare/before/earlier")
    side = page.locator(".facts tbody tr").first
    side.get_by_text("before, mean of 2 runs").wait_for()
    page.wait_for_function("() => document.title === '2 runs → after · Chimbuko'")
    side.get_by_label("Drop before, before").click()
    page.wait_for_url("**/r/after/compare/earlier")
    page.get_by_label("Another run after").select_option("before")
    page.wait_for_url("**/r/after/compare/earlier?also=before")
    page.get_by_text("after, mean of 2 runs").wait_for()
    page.get_by_label("Drop before, after").click()
    page.wait_for_url("**/r/after/compare/earlier")


@pytest.mark.parametrize(
    ("question", "status", "words"),
    [
        ("with=..", 404, "none of this name beside this one"),
        ("with=before/..", 404, "none of this name beside this one"),
        ("with=before&also=before", 400, "named more than once"),
        ("with=after", 400, "named more than once"),
    ],
)
def test_runs_that_cannot_be_compared_are_said(
    page: Page, compared: DashboardProcess, question: str, status: int, words: str
) -> None:
    answer = page.request.get(f"{compared.base}api/v1/comparison?{question}")
    assert answer.status == status
    assert words in answer.json()["error"]
