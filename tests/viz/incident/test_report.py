"""A run as one page without a server, opened from its file in a real browser."""

from __future__ import annotations

import base64
import gzip
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import pytest
from click.testing import CliRunner

from chimbuko.cli import main
from chimbuko.cli.inspect.report import command as report
from chimbuko.core.errors import ConfigError
from chimbuko.provenance.incidents.incidentlist import Incidents
from chimbuko.provenance.query.run import Provenance
from chimbuko.runtime.runs.directory import RunDirectory
from chimbuko.viz.http.report import write_report
from tests.browsing import settled
from tests.viz.made_run import MadeRun

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page


@pytest.fixture(scope="module")
def written(traced: MadeRun, page_files: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The report of the recorded program, by the command."""
    file = tmp_path_factory.mktemp("report") / "heat.html"
    done = CliRunner().invoke(report, [str(traced.directory.path), "-o", str(file)])
    assert done.exit_code == 0, done.output
    return file


@pytest.fixture
def page(browser: Browser, written: Path) -> Iterator[Page]:
    """It in a browser; afterwards: no error, and nothing was asked for."""
    context = browser.new_context(viewport={"width": 1280, "height": 720}, offline=True)
    page = context.new_page()
    errors: list[str] = []
    requests: list[str] = []
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.on("console", lambda line: errors.append(line.text) if line.type == "error" else None)
    page.on("request", lambda request: requests.append(request.url))
    page.goto(written.as_uri())
    yield page
    context.close()
    assert errors == []
    assert {url.partition("#")[0] for url in requests if not url.startswith("blob:")} == {written.as_uri()}


def show(page: Page, path: str, ready: str) -> None:
    """A page of the report, once that part of it is there."""
    page.evaluate("path => { location.hash = path }", f"r/heat/{path}")
    page.wait_for_selector(ready)
    settled(page)


def is_whole(page: Page) -> bool:
    """Whether all that the page asks is in the report."""
    settled(page)
    return page.get_by_text("This is not in the report.").count() == 0


def test_it_opens_with_headline_map_findings_and_rankings(page: Page, provenance: Provenance) -> None:
    page.wait_for_selector(".heatmap canvas")
    settled(page)
    total = Incidents(provenance.reader).page(1).total
    assert page.locator("[data-answer]").inner_text().startswith(f"{total} incident")
    note = page.locator(".report-note").inner_text()
    assert "most calls, timelines of whole ranks" in note and "chimbuko view" in note
    page.wait_for_selector(".steps .time-chart")
    page.get_by_label("Statistic").or_(page.locator(".ranks select")).first.select_option("maximum")
    page.wait_for_function("() => location.hash.includes('statistic=maximum')")
    assert is_whole(page)


def test_findings_have_their_timelines_and_lead_to_their_calls(page: Page, provenance: Provenance) -> None:
    worst = Incidents(provenance.reader).page(1).incidents[0]
    show(page, f"incident/{worst.id}", ".lanes canvas")
    page.wait_for_selector(".lanes canvas")
    assert is_whole(page)
    program_and_rest = worst.call_id.replace(":", "/", 1)
    show(page, f"call/{program_and_rest}", '[data-page="call"] .numbers')
    assert is_whole(page)
    page.go_back()
    page.wait_for_selector(".lanes canvas")


def test_flame_graph_health_and_worst_calls_are_there(page: Page) -> None:
    for path, ready in (
        ("flame", ".flame-chart canvas"),
        ("flame?weight=lost", ".flame-chart canvas"),
        ("health", ".streams tbody tr"),
        ("calls", ".callscatter canvas"),
        ("node", '[data-page="node"] .empty'),
    ):
        show(page, path, ready)
        assert is_whole(page), path


def test_what_is_not_in_it_says_so(page: Page) -> None:
    show(page, "timeline", "text=This is not in the report. The whole run: chimbuko view")


@pytest.mark.thorough
def test_what_does_not_fit_is_left_out_and_said(traced: MadeRun, tmp_path: Path, written: Path) -> None:
    small = write_report(traced.directory, tmp_path / "small.html", 550_000)
    assert small.size_bytes <= 550_000
    assert any(re.fullmatch(r"(timelines|pages of calls|findings) \(\d+\)", one) for one in small.left_out)
    assert small.size_bytes < written.stat().st_size < 5_000_000


def test_it_does_not_say_where_runs_are(traced: MadeRun, written: Path) -> None:
    packed = re.search(r'id="report"[^>]*>([^<]+)<', written.read_text())
    assert packed is not None
    text = gzip.decompress(base64.b64decode(packed[1])).decode()
    path = traced.directory.path
    assert str(path) not in text and f'"{path.parent.name}/{path.name}"' in text


def test_a_folder_that_names_another_run_has_no_report(traced: MadeRun, tmp_path: Path) -> None:
    run = RunDirectory(tmp_path / "other")
    shutil.copytree(traced.directory.path, run.path)
    run.write_info(msgspec.structs.replace(run.read_info(), id="another"))
    done = CliRunner().invoke(main, ["report", str(run.path), "-o", str(tmp_path / "other.html")])
    assert done.exit_code == 2 and "holds no run 'another'" in done.output and "Traceback" not in done.output


def test_a_file_that_is_there_stays(traced: MadeRun, tmp_path: Path) -> None:
    file = tmp_path / "mine.html"
    file.write_text("mine")
    done = CliRunner().invoke(report, [str(traced.directory.path), "-o", str(file)])
    assert isinstance(done.exception, ConfigError) and "is there already" in str(done.exception)
    assert file.read_text() == "mine"
