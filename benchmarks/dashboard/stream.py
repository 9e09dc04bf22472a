"""A page while 10,000 ranks a second end a step: how smooth it stays, what comes to it, what it keeps.

Frames are those of the parameter server, over a real broker; nobody else is at work but the dashboard.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING

from benchmarks.dashboard.chromium import API, Tab
from benchmarks.dashboard.figures import Figure, quantile
from benchmarks.dashboard.history import MadeHistory
from benchmarks.dashboard.paint import MARK, NODES
from benchmarks.dashboard.publisher import TICKS
from benchmarks.dashboard.serving import Dashboard, scratch
from chimbuko.runtime.process.service import Service
from chimbuko.runtime.protocol.broker import PrivateBroker
from chimbuko.runtime.protocol.brokerplace import BROKER_VARIABLE
from chimbuko.runtime.runs.directory import RunDirectory

if TYPE_CHECKING:
    from playwright.sync_api import Browser

STEPS_BEFORE = 600
"""Of each rank, in the store before the stream begins."""
ROUND_S = 20
"""How long each round watches."""
SETTLING_S = 3.0
"""From the first picture to the first round."""
MOVES_PER_S = 10
"""Of the pointer."""
INTERVAL_MS = 33.0
WORK_MS = 10.0
FRAME_BYTES = 14_000
ECHO_MS = 50.0
HEAP_BYTES = 2_000_000


@dataclass(frozen=True)
class Watched:
    """What one round saw of a page."""

    intervals_ms: list[float]
    work_ms: list[float]
    """CPU time of the main thread per live frame, second by second; an empty page counts as many of them."""
    script_ms: list[float]
    """CPU time of it in scripts; the rest is layout and, where no GPU does it, painting."""
    frame_bytes: float
    answer_bytes_per_s: float
    echoes_ms: list[float]
    server_cores: float


@contextmanager
def stream(part: float, seconds: float, is_stored: bool = False) -> Iterator[tuple[Dashboard, Service]]:
    """The dashboard of a run of ``part`` of 10,000 ranks for so long, and the publisher of its steps."""
    made = MadeHistory(round(part * 10_000), STEPS_BEFORE, round(part * 10_000 * STEPS_BEFORE / 360))
    with scratch() as folder, PrivateBroker(folder / "broker.log") as broker:
        run = made.make(folder / "made-up", is_running=True)
        with (
            Dashboard(run, broker.url) as dashboard,
            publishing(run, broker.url, seconds, is_stored) as publisher,
        ):
            yield dashboard, publisher


@contextmanager
def publishing(run: RunDirectory, broker_url: str, seconds: float, is_stored: bool) -> Iterator[Service]:
    """A process that publishes frames of a run, from when it says that it is ready."""
    words = ["--run-dir", str(run.path), "--seconds", str(seconds), *(["--stored"] if is_stored else [])]
    secret = {BROKER_VARIABLE: broker_url}
    publisher = Service("publisher", "benchmarks.dashboard.publisher", words, secret, run.logs)
    try:
        publisher.wait_ready()
        yield publisher
    finally:
        publisher.stop(10.0)


def measure(browser: Browser, part: float, rounds: int) -> list[Figure]:
    """Rounds of a page, each beside an empty one."""
    seconds = 60.0 + rounds * 2 * ROUND_S
    watched, blank = [], []
    with (
        stream(part, seconds) as (dashboard, _),
        shown(browser, dashboard.url) as tab,
        Tab(browser) as empty,
    ):
        tab.record_echoes()
        for _ in range(rounds):
            tab.page.bring_to_front()
            watched.append(watch(tab, dashboard, ROUND_S))
            empty.page.bring_to_front()
            blank.append(watch(empty, dashboard, ROUND_S / 4))
        nodes = tab.nodes()
    return [
        Figure(
            "time between pictures, p95, ms",
            [quantile(one.intervals_ms, 0.95) for one in watched],
            INTERVAL_MS,
            [quantile(one.intervals_ms, 0.95) for one in blank],
        ),
        Figure("... longest, ms", [max(one.intervals_ms) for one in watched]),
        Figure(
            "CPU time of the page's thread per live frame, ms",
            [median(one.work_ms) for one in watched],
            WORK_MS,
            [median(one.work_ms) for one in blank],
        ),
        Figure(
            "... of it in scripts, ms",
            [median(one.script_ms) for one in watched],
            None,
            [median(one.script_ms) for one in blank],
        ),
        Figure("bytes of a frame", [one.frame_bytes for one in watched], FRAME_BYTES),
        Figure("bytes of answers per second", [one.answer_bytes_per_s for one in watched]),
        Figure("pointer to picture, median, ms", [median(one.echoes_ms) for one in watched], ECHO_MS),
        Figure("... p95, ms", [quantile(one.echoes_ms, 0.95) for one in watched]),
        Figure("server, cores", [one.server_cores for one in watched]),
        Figure("nodes of the document", [nodes], NODES),
    ]


def measure_memory(browser: Browser, part: float, minutes: int, minute_s: float = 60.0) -> list[Figure]:
    """Heap after each minute, once what is not needed is let go of."""
    heaps, blank = [], []
    with (
        stream(part, (minutes + 1) * minute_s) as (dashboard, _),
        shown(browser, dashboard.url) as tab,
        Tab(browser) as empty,
    ):
        tab.page.bring_to_front()
        for _ in range(minutes):
            tab.page.wait_for_timeout(1e3 * minute_s)
            heaps.append(tab.heap_bytes())
            blank.append(empty.heap_bytes())
            print(f"  heap {heaps[-1]:,} bytes, {tab.frames} frames", file=sys.stderr)
    return [
        Figure("heap, bytes, minute by minute", heaps, None, blank),
        Figure("... growth from minute 2 on", [max(heaps[1:]) - heaps[1]], HEAP_BYTES),
        Figure("frames", [tab.frames]),
    ]


@contextmanager
def shown(browser: Browser, url: str) -> Iterator[Tab]:
    """A page that has drawn its first picture and come to rest."""
    with Tab(browser) as tab:
        tab.page.goto(url)
        tab.wait_for_mark(MARK)
        tab.page.wait_for_timeout(1e3 * SETTLING_S)
        yield tab
        if tab.errors:
            raise SystemExit(f"the page failed: {tab.errors[0]}")


def watch(tab: Tab, dashboard: Dashboard, seconds: float) -> Watched:
    """See what a page does for a while; in the second half the pointer moves over its first chart."""
    tab.record_frames()
    tab.echoes_ms()
    cpu_s, began_s = dashboard.cpu_s(), time.monotonic()
    frames, socket_bytes, answer_bytes = tab.frames, tab.socket_bytes, tab.received_bytes(API)
    work_ms, script_ms = [], []
    for _ in range(round(seconds / 2)):
        before, frames_before = tab.metrics(), tab.frames
        tab.page.wait_for_timeout(1e3)
        after, reported = tab.metrics(), (tab.frames - frames_before) or TICKS
        work_ms.append(1e3 * (after["TaskDuration"] - before["TaskDuration"]) / reported)
        script_ms.append(1e3 * (after["ScriptDuration"] - before["ScriptDuration"]) / reported)
    for _ in range(round(seconds / 2)):
        _move_pointer(tab)
    elapsed_s = time.monotonic() - began_s
    return Watched(
        tab.frame_intervals_ms(),
        work_ms,
        script_ms,
        (tab.socket_bytes - socket_bytes) / max(1, tab.frames - frames),
        (tab.received_bytes(API) - answer_bytes) / elapsed_s,
        tab.echoes_ms(),
        (dashboard.cpu_s() - cpu_s) / elapsed_s,
    )


def _move_pointer(tab: Tab) -> None:
    """For a second."""
    chart = tab.page.locator("canvas").first
    box = chart.bounding_box() if chart.count() else None
    for move in range(MOVES_PER_S):
        if box is not None:
            share = (move + 0.5) / MOVES_PER_S
            tab.page.mouse.move(box["x"] + share * box["width"], box["y"] + share * box["height"])
        tab.page.wait_for_timeout(1e3 / MOVES_PER_S)
