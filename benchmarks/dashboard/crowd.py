"""A hundred pages of one run at once: what they cost the server, and whether all end with what is stored."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.dashboard.chromium import Tab
from benchmarks.dashboard.figures import Figure
from benchmarks.dashboard.history import PROGRAM
from benchmarks.dashboard.serving import TOKEN, Dashboard
from benchmarks.dashboard.stream import stream
from benchmarks.dashboard.truth import Shown, Truth
from chimbuko.runtime.process.lifetime import die_with_parent

if TYPE_CHECKING:
    from playwright.sync_api import Browser

SCRIPT = Path(__file__).parent / "crowd.mjs"
WEB = Path(__file__).parents[2] / "viz" / "web"
BROWSERS = 2
"""How many of the pages are real ones."""
ALONE_S = 10.0
"""How long there is one page only, for comparison."""
JOIN_S = 120.0
END_S = 60.0
"""What pages have to show all in, after the end of the run."""
SERVER_CORES = 1.0
RUN_ADDRESS = "r/made-up"
CHARTED = range(2)
"""Ranks whose steps the real pages show."""


class Crowd:
    """Pages without a picture, made of the page's own modules, in a process of their own."""

    def __init__(self, address: str, queries: Sequence[str]) -> None:
        words = ["node", str(SCRIPT), str(WEB), address, TOKEN, *queries]
        self._process = subprocess.Popen(
            words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, preexec_fn=die_with_parent
        )

    def linked(self) -> int:
        """How many hear of the run."""
        count: int = self._ask("linked")
        return count

    def shown(self) -> list[Shown]:
        """What each of them would show."""
        found: list[Shown] = self._ask("shown")
        return found

    def end(self) -> None:
        """Close all of them."""
        self._process.kill()
        self._process.communicate()

    def _ask(self, what: str) -> Any:
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(f"{what}\n")
        self._process.stdin.flush()
        return json.loads(self._process.stdout.readline())


@contextmanager
def crowd(address: str, queries: Sequence[str]) -> Iterator[Crowd]:
    """Pages, once all of them are linked to the server."""
    pages = Crowd(address, queries)
    try:
        deadline = time.monotonic() + JOIN_S
        while pages.linked() < len(queries):
            if time.monotonic() > deadline:
                raise SystemExit(f"of {len(queries)} pages {pages.linked()} are linked after {JOIN_S:.0f} s")
            time.sleep(0.5)
        yield pages
    finally:
        pages.end()


@dataclass(frozen=True)
class Outcome:
    """What became of a crowd."""

    alone_cores: float
    """What the server took with one page."""
    cores: float
    reported: dict[str, float]
    """What the publisher says in the end."""
    wrong: Counter[str]
    """Parts of pages that do not show what is stored, and how many."""


def measure(browser: Browser, part: float, pages: int, seconds: float) -> list[Figure]:
    """Pages of a run of ``part`` of 10,000 ranks whose steps are stored as they are reported."""
    found = watch(browser, part, pages, seconds, ALONE_S)
    for name, count in found.wrong.items():
        print(f"  {count} pages do not show what is stored: {name}", file=sys.stderr)
    return [
        Figure(f"server with {pages} pages, cores", [found.cores], SERVER_CORES, [found.alone_cores]),
        Figure("pages that do not end with what is stored", [max(found.wrong.values(), default=0)], 0.0),
        Figure("frames that were reported", [found.reported["ticks"]]),
        Figure("... latest, s", [found.reported["most_late_s"]]),
    ]


def watch(browser: Browser, part: float, pages: int, seconds: float, alone_s: float) -> Outcome:
    """Open the pages, let the run go on for so long, end it, and compare."""
    with (
        stream(part, alone_s + JOIN_S + seconds, is_stored=True) as (dashboard, publisher),
        ExitStack() as stack,
    ):
        tabs = [stack.enter_context(Tab(browser)) for _ in range(BROWSERS)]
        open_run_page(tabs[0], dashboard)
        alone = cores(dashboard, alone_s)
        for tab in tabs[1:]:
            open_run_page(tab, dashboard)
        # They show different numbers of ranks, so that not all ask the same.
        queries = [f"?n={3 + number % 8}" for number in range(pages - BROWSERS)]
        with crowd(dashboard.base + RUN_ADDRESS, queries) as others:
            together = cores(dashboard, seconds)
            publisher.ask_to_stop()
            reported = publisher.wait_ready()
            return Outcome(alone, together, reported, until_right(dashboard, tabs, others))


def open_run_page(tab: Tab, dashboard: Dashboard) -> None:
    """Let a real page show a table of steps."""
    tab.page.goto(dashboard.url)
    selected = ",".join(f"{PROGRAM}:{rank}" for rank in CHARTED)
    tab.page.goto(f"{dashboard.base}{RUN_ADDRESS}?sel={selected}&table=steps")
    tab.page.wait_for_selector(".steps tbody tr")


def cores(dashboard: Dashboard, seconds: float) -> float:
    """CPU time of the server per time, over so long."""
    before_s, began_s = dashboard.cpu_s(), time.monotonic()
    time.sleep(seconds)
    return (dashboard.cpu_s() - before_s) / (time.monotonic() - began_s)


def until_right(dashboard: Dashboard, tabs: Sequence[Tab], others: Crowd) -> Counter[str]:
    """Wait until all pages show what is stored; parts of pages that do not after a while, and how many."""
    truth = Truth(dashboard.run)
    try:
        deadline = time.monotonic() + END_S
        while True:
            wrong = Counter(part for page in others.shown() for part in truth.differences(page))
            wrong.update(part for tab in tabs for part in differences(tab, truth))
            if not wrong or time.monotonic() > deadline:
                return wrong
            time.sleep(1.0)
    finally:
        truth.close()


def differences(tab: Tab, truth: Truth) -> list[str]:
    """Parts of a real page that do not show what is stored: the count of anomalies, and a table of steps."""
    total = tab.page.locator('[data-fact="anomalies"]').inner_text()
    rows = tab.page.evaluate(
        "() => [...document.querySelectorAll('.steps tbody tr')].filter((row) => row.cells.length === 6)"
        ".map((row) => [0, 1, 2].map((at) => row.cells[at].innerText))"
    )
    shown = {(rank, int(step.replace(",", ""))): int(anomalies) for rank, step, anomalies in rows}
    steps = truth.anomalies.shape[1]
    stored = {
        (f"{PROGRAM}:{rank}", step): int(truth.anomalies[rank, step])
        for rank in CHARTED
        for step in range(max(0, steps - len(shown) // len(CHARTED)), steps)
    }
    found = []
    if "".join(filter(str.isdigit, total)) != str(int(truth.anomalies.sum())):
        found.append("count of anomalies in a browser")
    if not shown or shown != stored:
        found.append("table of steps in a browser")
    return found
