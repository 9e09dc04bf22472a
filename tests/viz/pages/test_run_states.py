"""The page over a real run, while its processes are stopped and killed: each state has its own words."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest

from tests.integration.conftest import Run, descendants
from tests.viz.conftest import Watched

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page


@pytest.fixture
def run(real_traces: Path, tmp_path: Path, page_files: Path) -> Iterator[Run]:
    """The recorded MPI program, slowly: 90 seconds, and longer while it is stopped."""
    run = Run(tmp_path / "heat", "--replay", real_traces / "heat4" / "*.bp", "--pace", "0.4")
    yield run
    for module in (APPLICATION, AGENT, GUARD):
        if run.processes(module):
            send(run, module, signal.SIGCONT)
    if run.process.poll() is None:
        run.interrupt()
    run.end()


APPLICATION, AGENT, GUARD = "chimbuko replay", "chimbuko.ad.agent", "chimbuko.capture.follow"


def send(run: Run, module: str, number: signal.Signals) -> None:
    """A signal to the processes of one part of the run."""
    first = run.service(module)
    # The replay has a process for each stream; those of the agent go on reading without it.
    for pid in (first, *(descendants(first) if module == APPLICATION else ())):
        os.kill(pid, number)


def wait_for_state(page: Page, state: str) -> None:
    """Until the bar says so."""
    page.wait_for_selector(f'[data-state="{state}"]')


def figures(page: Page) -> dict[str, str]:
    """What the stations of the pipeline show."""
    stations = page.locator("[data-station]").all()
    return {
        station.get_attribute("data-station") or "": station.locator(".station-figure").inner_text()
        for station in stations
    }


@pytest.mark.thorough
def test_what_happens_to_a_run_is_told_apart(browser: Browser, run: Run) -> None:
    url = run.dashboard_url()
    watched = Watched(browser, SimpleNamespace(url=url, base=url.partition("?")[0]))  # type: ignore[arg-type]
    page = watched.page
    page.goto(watched.base + "r/heat/health")
    wait_for_state(page, "live")
    page.wait_for_selector('[data-station="1 agent"]')
    page.wait_for_selector(".overtime-chart svg")
    page.wait_for_selector("[data-answer]:has-text('Trustworthy: all 4 ranks report')")
    assert page.locator(".banner").count() == 0

    send(run, APPLICATION, signal.SIGSTOP)
    wait_for_state(page, "stale")
    page.wait_for_selector(".banner:has-text('gives no step, it is in')")
    banner = page.locator(".banner").inner_text()
    assert "No step for " in banner and "(last: " in banner, "the age, and what is shown"
    page.wait_for_selector("[data-answer]:has-text('ranks give no steps')")
    events = figures(page)["application"]
    assert events.endswith("events/s"), "stale never blanks"
    page.wait_for_selector("[data-announcer]:has-text('Stale. No step for')", state="attached")
    send(run, APPLICATION, signal.SIGCONT)
    wait_for_state(page, "live")

    # The guard would make the agent go on.
    send(run, GUARD, signal.SIGSTOP)
    send(run, AGENT, signal.SIGSTOP)
    page.wait_for_selector(".banner:has-text('is silent: stopped or killed?')")
    page.wait_for_selector(".agents .warn:has-text('silent')")
    page.wait_for_selector("[data-answer]:has-text('1 agent does not answer')")
    send(run, AGENT, signal.SIGCONT)
    send(run, GUARD, signal.SIGCONT)
    page.wait_for_selector(".banner:has-text('stopped or killed?')", state="detached")
    assert run.end() == 0, run.output
    wait_for_state(page, "lost")
    banner = page.locator(".banner").inner_text()
    assert "Connection lost" in banner and "Is the SSH tunnel open" in banner
    assert figures(page)["application"].endswith("events/s"), "the picture stays"
    watched.close()
