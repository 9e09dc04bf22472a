"""A million calls of a recorded trace on the page: how soon they are there, and how smoothly they move."""

from __future__ import annotations

import math
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.dashboard.chromium import API, Tab
from benchmarks.dashboard.figures import Figure, quantile
from benchmarks.dashboard.serving import Dashboard, scratch
from benchmarks.generate import SyntheticTrace, write_trace
from chimbuko.provenance.query.run import open_run
from chimbuko.runtime.runs.directory import RunDirectory

if TYPE_CHECKING:
    from playwright.sync_api import Browser

CALLS = 1_000_000
ROWS_PER_CALL = 2.5
"""ENTRY and EXIT, and as many messages and counter values as are in a trace beside them."""
STEPS = 100
STREAM = "tau-metrics-made-up-0.bp"
MARK = "first-useful-paint"
OPEN_MS = 1_000.0
BYTES = 600_000
INTERVAL_MS = 33.0
MOVING_S = 10.0
EVENTS_PER_S = 60
TURNS_PER_S = 0.5
"""How often zooming and dragging go there and back."""
WHEEL = 40.0
"""Pixels of the wheel per event."""
REACH = 0.3
"""Of the picture's width, to either side, while dragging."""


def measure(browser: Browser, part: float, rounds: int) -> list[Figure]:
    """A trace of ``part`` of a million calls on one rank."""
    with scratch() as folder:
        run, made_s, indexed_s = make(folder, round(part * CALLS))
        with open_run(run) as provenance:
            calls = sum(stream.calls for stream in provenance.health())
        with Dashboard(run) as dashboard:
            opened = [opening(browser, dashboard) for _ in range(rounds)]
            intervals_ms, still_ms, moved_bytes = moving(browser, dashboard)
    return [
        Figure("calls of the trace", [calls]),
        Figure("analysed in, s", [made_s]),
        Figure("made ready in, s", [indexed_s]),
        Figure("timeline opened, ms", [paint_ms for paint_ms, _ in opened], OPEN_MS),
        Figure("... bytes", [size for _, size in opened], BYTES),
        Figure(
            "time between pictures while it moves, p95, ms",
            [quantile(intervals_ms, 0.95)],
            INTERVAL_MS,
            [quantile(still_ms, 0.95)],
        ),
        Figure("... longest, ms", [max(intervals_ms)], None, [max(still_ms)]),
        Figure("... bytes of answers", [moved_bytes]),
    ]


def make(folder: Path, calls: int) -> tuple[RunDirectory, float, float]:
    """A run that was made of such a trace, and how long it took to analyse it and to make it ready."""
    path = folder / "made-up"
    rows_per_step = math.ceil(calls * ROWS_PER_CALL / STEPS)
    write_trace(folder / STREAM, SyntheticTrace(rows_per_step), STEPS)
    analysed_s = seconds_of("run", "--trace", str(folder / STREAM), "--output", str(path), "--no-dashboard")
    indexed_s = seconds_of("runs", "index", str(path))
    return RunDirectory(path), analysed_s, indexed_s


def seconds_of(*words: str) -> float:
    """What a command of ours takes."""
    began_s = time.monotonic()
    done = subprocess.run([sys.executable, "-m", "chimbuko", *words], capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"chimbuko {words[0]} ended with code {done.returncode}: {done.stderr[-500:]}")
    return time.monotonic() - began_s


def opening(browser: Browser, dashboard: Dashboard) -> tuple[float, int]:
    """Milliseconds from the address to the picture, and bytes of answers."""
    with Tab(browser) as tab:
        tab.page.goto(dashboard.url)
        before = tab.received_bytes(API)
        tab.page.goto(f"{dashboard.base}r/made-up/timeline?rank=0:0")
        return tab.wait_for_mark(MARK), tab.received_bytes(API) - before


def moving(browser: Browser, dashboard: Dashboard) -> tuple[list[float], list[float], int]:
    """Milliseconds between pictures while it is zoomed and dragged, and while it stands, and bytes."""
    with Tab(browser) as tab:
        tab.page.goto(dashboard.url)
        tab.page.goto(f"{dashboard.base}r/made-up/timeline?rank=0:0")
        tab.wait_for_mark(MARK)
        tab.record_frames()
        tab.page.wait_for_timeout(1e3 * MOVING_S / 2)
        still_ms = tab.frame_intervals_ms()
        before, stood_at = tab.received_bytes(API), tab.page.url
        box = tab.page.locator("canvas").last.bounding_box()
        if box is None:
            raise SystemExit("the page has no timeline")
        middle = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
        zoom(tab, *middle)
        drag(tab, *middle, REACH * box["width"])
        if tab.page.url == stood_at:
            raise SystemExit("the timeline does not move")
        return tab.frame_intervals_ms(), still_ms, tab.received_bytes(API) - before


def zoom(tab: Tab, x: float, y: float) -> None:
    """In and out again, at 60 events a second."""
    tab.page.mouse.move(x, y)
    tab.page.keyboard.down("Control")
    for turn in paced(MOVING_S / 2):
        tab.page.mouse.wheel(0, -WHEEL if math.cos(turn) > 0 else WHEEL)
    tab.page.keyboard.up("Control")


def drag(tab: Tab, x: float, y: float, reach: float) -> None:
    """To and fro, at 60 events a second."""
    tab.page.keyboard.down("Shift")
    tab.page.mouse.down()
    for turn in paced(MOVING_S / 2):
        tab.page.mouse.move(x + reach * math.sin(turn), y)
    tab.page.mouse.up()
    tab.page.keyboard.up("Shift")


def paced(seconds: float) -> Iterator[float]:
    """Angles of turns, one for each event at its time."""
    began_s = time.monotonic()
    for event in range(round(seconds * EVENTS_PER_S)):
        at_s = event / EVENTS_PER_S
        time.sleep(max(0.0, began_s + at_s - time.monotonic()))
        yield 2 * math.pi * TURNS_PER_S * at_s
