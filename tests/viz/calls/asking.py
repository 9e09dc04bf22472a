"""What tests ask the function view and the store."""

from __future__ import annotations

from typing import TYPE_CHECKING

from chimbuko.provenance.query.filters import CallFilter, CallSummary
from chimbuko.provenance.query.run import Provenance
from tests.browsing import settled
from tests.viz.conftest import Watched

if TYPE_CHECKING:
    from playwright.sync_api import Page

CHART = ".callscatter .chart"


def opened(watched: Watched, query: str, page: str = "calls") -> Page:
    """The function view, or another page, with what an address says."""
    watched.page.goto(f"{watched.base}r/heat/{page}" + (f"?{query}" if query else ""))
    watched.page.wait_for_selector(f"{CHART}, .callscatter .empty li")
    settled(watched.page)
    return watched.page


def every(provenance: Provenance, wanted: CallFilter, sort: str = "severity_us") -> list[CallSummary]:
    """All calls that match."""
    return provenance.calls.page(wanted, sort, limit=1000).calls  # type: ignore[arg-type]


def wait_for_list(page: Page, ids: list[str]) -> None:
    """Until the list holds these calls."""
    page.wait_for_function(
        "ids => [...document.querySelectorAll('.calls [data-call]')].map(r => r.dataset.call).join() === ids",
        arg=",".join(ids),
    )


def duration(us: float) -> str:
    """As pages write it: three significant digits, in the unit that needs fewest."""
    for divisor, unit in ((1e6, "s"), (1e3, "ms"), (1, "µs")):
        if us >= 0.9995 * divisor or unit == "µs":
            value = us / divisor
            break
    decimals = 0 if value >= 100 else 1 if value >= 10 else 2 if value >= 1 else 3
    return f"{value:.{decimals}f}".rstrip("0").rstrip(".") + f" {unit}" if decimals else f"{value:.0f} {unit}"


def tip(page: Page) -> list[str]:
    """Lines of the tooltip."""
    page.wait_for_selector(".tip")
    settled(page)
    return page.locator(".tip").inner_text().splitlines()
