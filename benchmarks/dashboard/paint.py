"""How soon a page shows heat map and ranking of a long run, and what it takes for it."""

from __future__ import annotations

import secrets
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING

from benchmarks.dashboard.chromium import ASSETS, TUNNEL, Network, Tab
from benchmarks.dashboard.figures import Figure
from benchmarks.dashboard.history import MadeHistory
from benchmarks.dashboard.serving import Dashboard, scratch
from chimbuko.runtime.runs.directory import RunDirectory

if TYPE_CHECKING:
    from playwright.sync_api import Browser

MARK = "first-useful-paint"
"""What the page says once heat map and ranking are drawn."""
LOOPBACK_MS = 1_000
TUNNEL_MS = 3_000
DATA_BYTES = 100_000
ASSET_BYTES = 160_000
NODES = 2_500
ACT_MS = 100
HEAT_MAP = ".heatmap .chart"
_UNTIL_PAINTED = """([selector, key]) => new Promise((done) => {
  const chart = document.querySelector(selector);
  const began = performance.now();
  chart.focus();
  chart.dispatchEvent(new KeyboardEvent('keydown', { key, bubbles: true }));
  requestAnimationFrame(() => setTimeout(() => done(performance.now() - began)));
})"""
"""Time from a key until the frame after it is painted, as browsers count interactions."""

_PLAIN_PAGE = b"""<!doctype html><title>plain</title><canvas></canvas><script src="script.js"></script>"""
_PLAIN_SCRIPT = b"""
fetch('data').then((answer) => answer.arrayBuffer()).then(() => {
  document.querySelector('canvas').getContext('2d').fillRect(0, 0, 100, 100);
  requestAnimationFrame(() => performance.mark('first-useful-paint'));
});
/*%b*/
"""


@dataclass(frozen=True)
class Opened:
    """A page that shows something useful."""

    paint_ms: float
    asset_bytes: int
    answers: dict[str, int]
    """Bytes by what was asked."""
    nodes: int


def measure(browser: Browser, part: float, rounds: int, steps: int = 3_600) -> list[Figure]:
    """Pages of a run with ``part`` of 10,000 ranks, and so many steps of each."""
    made = MadeHistory(ranks=round(part * 10_000), steps=steps, anomalies=round(part * 100_000))
    with plain_page(ASSET_BYTES, DATA_BYTES) as plain_url:
        # A browser's own first page takes a second longer than the others, whatever it shows.
        opened(browser, plain_url)
    with scratch() as folder:
        run = made.make(folder / "made-up")
        firsts = [_first_page(browser, run) for _ in range(rounds)]
        first = firsts[0]
        data_bytes = sum(first.answers.values())
        paints_ms = [page.paint_ms for page in firsts]
        figures = [Figure("first page after the server's start, ms", paints_ms, LOOPBACK_MS)]
        with Dashboard(run) as dashboard, plain_page(first.asset_bytes, data_bytes) as plain_url:
            for where, network, most_ms in (
                ("loopback", None, LOOPBACK_MS),
                (TUNNEL.name, TUNNEL, TUNNEL_MS),
            ):
                mine, plain = [], []
                for _ in range(rounds):
                    mine.append(opened(browser, dashboard.url, network).paint_ms)
                    plain.append(opened(browser, plain_url, network).paint_ms)
                figures.append(Figure(f"first useful paint, {where}, ms", mine, most_ms, plain))
            figures += acted(browser, dashboard.url, rounds)
    return [
        *figures,
        Figure("scripts and styles, bytes", [first.asset_bytes], ASSET_BYTES),
        Figure("first data, bytes", [data_bytes], DATA_BYTES),
        *(Figure(f"... of it {name}", [size]) for name, size in first.answers.items()),
        Figure("nodes of the document", [first.nodes], NODES),
    ]


def _first_page(browser: Browser, run: RunDirectory) -> Opened:
    """Of a server of its own."""
    with Dashboard(run) as dashboard:
        return opened(browser, dashboard.url)


def opened(browser: Browser, url: str, network: Network | None = None) -> Opened:
    """Open a page with nothing in the cache."""
    with Tab(browser, network) as tab:
        tab.page.goto(url)
        paint_ms = tab.wait_for_mark(MARK)
        return Opened(paint_ms, tab.received_bytes(ASSETS), tab.answers(), tab.nodes())


def acted(browser: Browser, url: str, rounds: int) -> list[Figure]:
    """How long the page takes until it has painted what a key asked for, and what it holds in the end."""
    with Tab(browser) as tab:
        tab.page.goto(url)
        tab.wait_for_mark(MARK)
        tab.page.locator(HEAT_MAP).focus()
        tab.page.keyboard.press("ArrowDown")
        times_ms: dict[str, list[float]] = {"next cell": [], "open a row, close it": [], "zoom": []}
        for _ in range(rounds):
            for what, keys in zip(times_ms, (("ArrowRight",), ("o", "o"), ("w", "0")), strict=True):
                times_ms[what] += [tab.page.evaluate(_UNTIL_PAINTED, [HEAT_MAP, key]) for key in keys]
        heap_bytes = tab.page.evaluate("() => performance.memory.usedJSHeapSize")
    figures = [Figure(f"{what}, ms", values, ACT_MS) for what, values in times_ms.items()]
    return [*figures, Figure("heap after that, MB", [heap_bytes / 1e6])]


@contextmanager
def plain_page(asset_bytes: int, data_bytes: int) -> Iterator[str]:
    """Address of a page that loads as many bytes and draws one rectangle."""
    # Nothing that could be packed: as many bytes come over the wire.
    script = _PLAIN_SCRIPT % secrets.token_hex(asset_bytes // 2).encode()
    files = {"/": ("text/html", _PLAIN_PAGE), "/script.js": ("text/javascript", script)}
    data = "application/octet-stream", secrets.token_bytes(data_bytes)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            kind, body = files.get(self.path, data)
            self.send_response(200)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}/"
        server.shutdown()
