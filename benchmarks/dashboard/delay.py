"""How long it takes from an abnormal call of a program to its point on the page, in a whole live run."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.dashboard import marking
from benchmarks.dashboard.chromium import Tab
from benchmarks.dashboard.figures import Figure, quantile
from benchmarks.dashboard.serving import scratch
from chimbuko.provenance.query.filters import CallSummary
from tests.integration.conftest import Run

if TYPE_CHECKING:
    from playwright.sync_api import Browser

PERIOD_MS = 1_000.0
MOST_MS = 2_000.0 + PERIOD_MS
NEAR_US = 20_000
"""So far from its mark a call may end, by the clock of the trace."""

_NOTE_STEPS = """() => {
  window.seen = {};
  const note = () => {
    const now = Date.now();
    for (const row of document.querySelectorAll('.steps tbody tr')) {
      if (row.cells.length > 2) window.seen[row.cells[1].textContent.replaceAll(',', '')] ??= now;
    }
  };
  note();
  new MutationObserver(note).observe(document.body, { childList: true, subtree: true, characterData: true });
}"""


def measure(browser: Browser, seconds: float) -> list[Figure]:
    """Of a program that runs for so long on one rank, with a trace period of 1 s."""
    with scratch() as folder:
        marks = folder / "marks"
        with running(folder / "run", seconds, marks) as run:
            seen_ms = watched(browser, run)
            run.end()
        marks_us = [int(line) for line in marks.read_text().split()]
        found = found_calls(run, marks_us)
    shown = {mark_us: call for mark_us, call in found.items() if call.step in seen_ms}
    delays_ms = [seen_ms[call.step] - mark_us / 1e3 for mark_us, call in shown.items()]
    waits_ms = [(call.step_end_us - mark_us) / 1e3 for mark_us, call in shown.items()]
    counts = {
        "abnormal calls that were made": len(marks_us),
        "... that were found": len(found),
        "... that came to the page": len(shown),
    }
    return [
        *(Figure(what, [count]) for what, count in counts.items()),
        Figure("abnormal call to its point, median, ms", [quantile(delays_ms, 0.5)]),
        Figure("... p95, ms", [quantile(delays_ms, 0.95)], MOST_MS, [quantile(waits_ms, 0.95)]),
        Figure("... all, ms", delays_ms),
        Figure("of it until its step ends, all, ms", waits_ms),
    ]


@contextmanager
def running(folder: Path, seconds: float, marks: Path) -> Iterator[Run]:
    """``chimbuko run`` of the program that marks, stopped if need be."""
    program = [sys.executable, "-m", "chimbuko", "trace", marking.__file__, str(seconds), str(marks)]
    run = Run(folder, "--period", "1", "--", *program)
    try:
        yield run
    finally:
        if run.process.poll() is None:
            run.interrupt()
            run.end()


def watched(browser: Browser, run: Run) -> dict[int, float]:
    """Steps of the only rank, and when the page showed them first, ms since the epoch."""
    url = run.dashboard_url()
    with Tab(browser) as tab:
        tab.page.goto(url)
        tab.page.wait_for_url("**/r/*")
        tab.page.goto(tab.page.url + "?sel=0:0&table=steps")
        tab.page.wait_for_selector(".steps tbody tr")
        tab.page.evaluate(_NOTE_STEPS)
        # With the run its dashboard ends; the page keeps what it has seen.
        while run.process.poll() is None:
            tab.page.wait_for_timeout(100)
        seen: dict[str, float] = tab.page.evaluate("() => window.seen")
    return {int(step): at_ms for step, at_ms in seen.items()}


def found_calls(run: Run, marks_us: list[int]) -> dict[int, CallSummary]:
    """Marks, and the recorded abnormal calls that they are the ends of."""
    calls = {call.exit_us: call for call in run.anomalies}
    nearest = {
        mark_us: min(calls, key=lambda exit_us: abs(exit_us - mark_us), default=0) for mark_us in marks_us
    }
    return {mark_us: calls[at_us] for mark_us, at_us in nearest.items() if abs(at_us - mark_us) < NEAR_US}
