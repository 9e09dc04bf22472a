"""Incidents of a run that goes on: list and page follow it without a reload."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from chimbuko.provenance.explain.explaining import explain
from chimbuko.provenance.incidents.incidentlist import IncidentPage, Incidents
from chimbuko.provenance.query.run import open_run
from chimbuko.provenance.store.engine import close, open_for_writing
from tests.viz.conftest import Watched, dashboard
from tests.viz.live_run import LiveRun
from tests.viz.made_run import make_run

if TYPE_CHECKING:
    from playwright.sync_api import Browser

    from chimbuko.runtime.protocol.broker import PrivateBroker

BEGUN, LATER = 6, 12


def test_the_list_keeps_up_with_the_run(
    browser: Browser, broker: PrivateBroker, tmp_path: Path, page_files: Path
) -> None:
    live = LiveRun(make_run(tmp_path / "heat", "running", BEGUN), broker.url, BEGUN)
    with dashboard(live.made, broker.url) as process:
        watched = Watched(browser, process)
        page = watched.page
        page.goto(process.url)
        # As long as no incident is known, calls are listed.
        page.wait_for_selector(".worst [data-call]")
        for _ in range(2):
            live.advance(LATER)
            found = explained(live)
            # Asked for with the news of the next step.
            live.advance(1)
            page.wait_for_selector(f'.incidents [data-total="{found.total}"]')
            worst = found.incidents[0]
            page.wait_for_selector(f'[data-finding="{worst.id}"]')
            sentence = page.locator(f'[data-finding="{worst.id}"] .finding-sentence', has_text=worst.sentence)
            sentence.wait_for()
        assert found.total > 2
        page.locator(f'[data-finding="{worst.id}"]').click()
        page.wait_for_selector(f"[data-answer] >> text={worst.sentence}")
        errors = watched.errors
        watched.close()
        assert errors == []
    live.close()


def explained(live: LiveRun) -> IncidentPage:
    """Find the incidents of what is stored so far."""
    info = live.made.directory.read_info()
    engine = open_for_writing(info.store_url)
    explain(engine, info.id)
    close(engine)
    with open_run(live.made.directory) as provenance:
        return Incidents(provenance.reader).page(limit=30)
