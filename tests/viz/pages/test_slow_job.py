"""The guide's way from a slow job to its cause, click by click as it stands there, in a real browser."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from chimbuko.provenance.incidents.incidentlist import Incidents
from chimbuko.provenance.query.run import open_run
from tests.places import ROOT
from tests.viz.pages.test_folder_of_runs import opened, served_folder
from tests.viz.traced_run import traced_run

if TYPE_CHECKING:
    from playwright.sync_api import Browser

LINES = """() => {
    const lines = [...document.querySelectorAll('.unbroken')].map((one) => one.getClientRects().length);
    return Math.max(...lines);
}"""
"""Over how many lines a quantity goes."""
SECTION = re.compile(r"^## My job was slow$(.*?)^## ", re.MULTILINE | re.DOTALL)


@pytest.mark.thorough
def test_the_guide_leads_from_the_list_of_runs_to_the_call(
    browser: Browser, heat4_analysed: Path, page_files: Path, tmp_path: Path
) -> None:
    run = traced_run(tmp_path / "heat", heat4_analysed).directory
    with open_run(run) as provenance:
        worst = Incidents(provenance.reader).page(1).incidents[0]
    found = SECTION.search((ROOT / "docs" / "howto" / "dashboard.md").read_text())
    assert found is not None
    wanted = set(re.findall(r"\*\*(.+?)\*\*", found[1].replace("\n   ", " ")))
    seen = []
    with served_folder(tmp_path) as served, opened(browser, served) as page:
        seen.append(page.inner_text("body"))
        page.locator("tr[data-run] a").first.click()
        page.wait_for_selector("[data-answer]:has-text('in all')")
        page.wait_for_selector("[data-finding]")
        seen.append(page.inner_text("body"))
        page.locator("[data-finding]").first.click()
        page.wait_for_url(f"**/incident/{worst.id}*")
        page.wait_for_selector("[data-panel=chain] a")
        assert page.locator("[data-answer]").inner_text().endswith(worst.sentence)
        assert page.locator("[data-answer] .unbroken").count() > 1
        for width in range(400, 1281, 40):
            page.set_viewport_size({"width": width, "height": 720})
            assert page.evaluate(LINES) == 1, width
        seen.append(page.inner_text("body"))
        page.get_by_role("link", name="Origin", exact=True).click()
        page.wait_for_url(f"**/call/{worst.call_id.replace(':', '/', 1)}*")
        page.wait_for_selector('[data-panel="stack"]')
        assert re.search(r"\bheat2d\.c:\d+\b", page.inner_text("body"))
        page.go_back()
        page.wait_for_url(f"**/incident/{worst.id}*")
        page.keyboard.press("]")
        page.wait_for_url(lambda url: "/incident/" in url and f"/{worst.id}" not in url)
    assert {word for word in wanted if not any(word in text for text in seen)} == set()
