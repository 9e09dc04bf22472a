"""Long questions on the page, in a real browser: a comparison and an export, with progress and cancel."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner

from chimbuko.cli import main
from tests.viz.asking import GATED, EventSocket, Gate
from tests.viz.conftest import DashboardProcess, Watched, dashboard
from tests.viz.made_run import MadeRun, make_run

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> MadeRun:
    """A run, with another beside it."""
    folder = tmp_path_factory.mktemp("runs")
    make_run(folder / "before")
    return make_run(folder / "heat")


@pytest.fixture(scope="module")
def served(runs: MadeRun, page_files: Path) -> Iterator[DashboardProcess]:
    """Its dashboard."""
    with dashboard(runs, environment=GATED) as process:
        yield process


@pytest.fixture
def gate(runs: MadeRun) -> Iterator[Gate]:
    """Comparisons that do not end before the test wants it."""
    with Gate(runs.directory.path.parent / "a-gate") as gate:
        yield gate


@pytest.fixture
def page(browser: Browser, served: DashboardProcess) -> Iterator[Page]:
    """The page; afterwards: no error."""
    watched = Watched(browser, served)
    yield watched.page
    errors = watched.errors
    watched.close()
    assert errors == []


def go(page: Page, served: DashboardProcess, path: str) -> None:
    """Open a page of the dashboard."""
    page.goto(f"{served.base}r/heat{path}")


def test_a_comparison_says_how_far_it_is_and_can_be_cancelled(
    page: Page, served: DashboardProcess, gate: Gate
) -> None:
    go(page, served, "/compare/before")
    page.locator(".progress-text", has_text="Reading runs · 0 %").wait_for()
    assert page.get_by_role("progressbar").get_attribute("aria-label") == "Reading run before"
    page.get_by_role("button", name="Cancel").click()
    page.get_by_text("Cancelled.").wait_for()
    assert page.locator(".progress").count() == 0
    gate.open()
    page.get_by_role("button", name="Ask again").click()
    page.wait_for_selector("[data-answer]")


def test_a_comparison_that_is_left_ends(page: Page, served: DashboardProcess, gate: Gate) -> None:
    go(page, served, "")
    go(page, served, "/compare/before")
    page.locator(".progress-text", has_text="Reading runs").wait_for()
    page.go_back()
    page.wait_for_selector("[data-page=overview]")
    # The worker does one thing at a time: this has its turn only because the comparison has ended.
    with EventSocket(served.base) as other:
        assert other.end(other.ask("export", {"form": "v2"}))["name"] == "heat-v2.zip"
    gate.open()


def test_a_run_that_is_not_there_is_said(page: Page, served: DashboardProcess) -> None:
    go(page, served, "/compare/nowhere")
    page.get_by_text("none of this name beside this one").wait_for()
    page.get_by_text("Choose another run").click()
    page.wait_for_url("**/compare")


def test_an_export_saves_what_the_command_writes(
    page: Page, served: DashboardProcess, runs: MadeRun, tmp_path: Path
) -> None:
    go(page, served, "?rank=0:1&step=10..40")
    page.get_by_role("button", name="Export", exact=True).click()
    dialog = page.get_by_role("dialog", name="Export")
    assert "rank 1" in dialog.inner_text() and "step 10..40" in dialog.inner_text()
    dialog.get_by_text("speedscope", exact=True).click()
    with page.expect_download() as download:
        dialog.get_by_role("button", name="Export", exact=True).click()
    assert download.value.suggested_filename == "heat.speedscope.json"
    download.value.save_as(tmp_path / "saved")
    words = ["export", str(runs.directory.path), "--format", "speedscope", "--rank", "1", "--step", "10:40"]
    assert CliRunner().invoke(main, [*words, "-o", str(tmp_path / "written")]).exit_code == 0
    assert (tmp_path / "saved").read_bytes() == (tmp_path / "written").read_bytes()
    dialog.get_by_role("link", name="heat.speedscope.json").wait_for()
    dialog.get_by_role("button", name="Close").click()
    dialog.wait_for(state="hidden")


def test_an_export_can_be_cancelled(page: Page, served: DashboardProcess, gate: Gate) -> None:
    with EventSocket(served.base) as other:
        # It waits until the worker is free.
        comparison = other.ask("comparison", {"with": "before"})
        other.next("progress", job=comparison)
        go(page, served, "")
        page.get_by_role("button", name="Export", exact=True).click()
        dialog = page.get_by_role("dialog", name="Export")
        dialog.get_by_role("button", name="Export", exact=True).click()
        dialog.get_by_text("Reading calls · 0 %").wait_for()
        dialog.get_by_role("button", name="Cancel").click()
        dialog.get_by_text("Cancelled.").wait_for()
        gate.open()
        assert other.end(comparison)["ok"]
        with page.expect_download() as download:
            dialog.get_by_role("button", name="Ask again").click()
        assert download.value.suggested_filename == "heat.pftrace"


@pytest.mark.thorough
def test_a_question_survives_a_server_that_is_started_again(
    browser: Browser, runs: MadeRun, gate: Gate, page_files: Path
) -> None:
    with dashboard(runs, environment=GATED) as first:
        watched = Watched(browser, first)
        watched.page.goto(f"{first.base}r/heat/compare/before")
        watched.page.locator(".progress-text", has_text="Reading runs").wait_for()
        first.process.kill()
        first.process.wait()
    with dashboard(runs, port=first.port, environment=GATED):
        gate.open()
        watched.page.wait_for_selector("[data-answer]")
        watched.close()
