"""The list of runs in one folder, in a browser and by the API."""

from __future__ import annotations

import http.client
import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from chimbuko.provenance.query.run import open_run
from chimbuko.runtime.runs.directory import RunDirectory
from tests.browsing import settled
from tests.patience import PATIENCE_S
from tests.viz.conftest import TOKEN, DashboardProcess, Watched, dashboard
from tests.viz.made_run import MadeRun, make_run

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run, an earlier one, one whose store is damaged, and something that is no run."""
    folder = tmp_path_factory.mktemp("runs")
    for age, name in enumerate(("heat", "before", "damaged")):
        directory = make_run(folder / name).directory
        info = directory.read_info()
        started_us = 1_700_000_000_000_000 - age * 86_400_000_000
        length_us = 125_000_000
        directory.write_info(
            msgspec.structs.replace(info, started_us=started_us, ended_us=started_us + length_us)
        )
    (folder / "damaged" / "provenance.sqlite").write_bytes(b"no database at all")
    (folder / "nothing").mkdir()
    return folder


@pytest.fixture(scope="module")
def served(folder: Path, page_files: Path) -> Iterator[DashboardProcess]:
    """The dashboard of the newest run."""
    with dashboard(MadeRun(RunDirectory(folder / "heat"))) as process:
        yield process


@pytest.fixture
def page(browser: Browser, served: DashboardProcess) -> Iterator[Page]:
    """The list; afterwards: no error."""
    watched = Watched(browser, served)
    watched.page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    watched.page.goto(served.base + "r/heat/compare")
    watched.page.wait_for_selector(".runs tbody tr")
    settled(watched.page)
    yield watched.page
    errors = watched.errors
    watched.close()
    assert errors == []


def listed(served: DashboardProcess) -> dict[str, dict[str, Any]]:
    """What the API says, by folder."""
    connection = http.client.HTTPConnection("127.0.0.1", served.port, timeout=PATIENCE_S)
    connection.request("GET", "/api/v1/runs", headers={"Authorization": f"Bearer {TOKEN}"})
    answer = json.loads(connection.getresponse().read())
    connection.close()
    return {run["folder"]: run for run in answer["runs"]}


def test_the_totals_are_those_of_each_store(served: DashboardProcess, folder: Path) -> None:
    found = listed(served)
    assert list(found) == ["heat", "before", "damaged"], "the newest first"
    with open_run(RunDirectory(folder / "before")) as provenance:
        health = provenance.health()
    before = found["before"]
    assert before["ranks"] == len(health)
    assert before["anomalies"] == sum(stream.anomalies for stream in health)
    gaps, steps = sum(one.gap_steps for one in health), sum(one.steps for one in health)
    assert before["loss"] == pytest.approx(gaps / (gaps + steps))
    assert before["path"] == str(folder / "before")
    damaged = found["damaged"]
    assert (damaged["ranks"], damaged["anomalies"], damaged["loss"]) == (None, None, None)


def test_the_page_shows_the_same(page: Page, served: DashboardProcess) -> None:
    rows: list[list[str]] = page.evaluate(
        "[...document.querySelectorAll('.runs tbody tr')].map(r => [...r.cells].map(c => c.innerText))"
    )
    found = listed(served)
    assert [row[0] for row in rows] == list(found)
    for name, _, state, _, took, ranks, lost, anomalies, loss, _ in rows:
        run = found[name]
        known = run["ranks"] is not None
        assert state == "finished, exit 0" and took == "125 s"
        # Its anomalies are in no incidents.
        assert lost == "unknown"
        assert ranks == (str(run["ranks"]) if known else "unknown")
        assert anomalies == (str(run["anomalies"]) if known else "unknown"), "unknown is not 0"
        assert loss == (f"{100 * run['loss']:.3g} %" if known else "unknown")
    assert page.locator("[data-answer]").inner_text() == ("2 other runs can be compared with heat.")


def test_another_run_is_compared_with_or_opened_by_its_command(page: Page, folder: Path) -> None:
    page.get_by_role("button", name="Copy command to open before").click()
    page.wait_for_selector(".notice >> text=Copied")
    assert page.evaluate("navigator.clipboard.readText()") == f"chimbuko view {folder / 'before'}"
    page.get_by_role("link", name="What changed since before").click()
    page.wait_for_url("**/r/heat/compare/before")
    page.wait_for_selector(".trail >> text=compared with before")
