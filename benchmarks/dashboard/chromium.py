"""Chromium without a window, and what its DevTools protocol reports of a page."""

from __future__ import annotations

import itertools
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

from tests.browsing import ARGUMENTS, CHROMIUM

if TYPE_CHECKING:
    from playwright.sync_api import Browser

SIZE = {"width": 1280, "height": 600}
ASSETS = "/assets/"
API = "/api/v1/"
LOOK_MS = 20
TEXT = 1
"""Opcode of a message of a socket."""
FRAME = '["frame",'
LONGEST_HEAD = 40
"""Of a message: packet type, namespace, name of the event."""

_COUNT_NODES = """() => {
  const walker = document.createTreeWalker(document, NodeFilter.SHOW_ALL);
  let count = 1;
  while (walker.nextNode()) count++;
  return count;
}"""
_RECORD_FRAMES = """() => {
  const isRecording = window.frameTimes !== undefined;
  window.frameTimes = [];
  if (isRecording) return;
  const tick = (time) => {
    window.frameTimes.push(time);
    requestAnimationFrame(tick);
  };
  requestAnimationFrame(tick);
}"""
_RECORD_ECHOES = """() => {
  window.echoes = [];
  const after = new MessageChannel();
  const waiting = [];
  after.port1.onmessage = () => window.echoes.push(...waiting.splice(0).map((at) => performance.now() - at));
  addEventListener(
    'pointermove',
    (event) => requestAnimationFrame(() => {
      waiting.push(event.timeStamp);
      after.port2.postMessage(0);
    }),
    { capture: true },
  );
}"""


@dataclass(frozen=True)
class Network:
    """A link that is slower than the loopback."""

    name: str
    bytes_per_s: float
    latency_ms: float


TUNNEL = Network("10 Mbit/s, 50 ms", 10e6 / 8, 50.0)


@contextmanager
def chromium() -> Iterator[Browser]:
    """A browser, which is gone afterwards."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        # No signal handlers: who measures ends it, in order.
        browser = playwright.chromium.launch(
            executable_path=CHROMIUM, args=ARGUMENTS, handle_sigint=False, handle_sigterm=False
        )
        try:
            yield browser
        finally:
            browser.close()


class Tab:
    """A page in a context of its own, so with an empty cache.

    Parameters
    ----------
    network
        Slows the page's requests down.
    """

    def __init__(self, browser: Browser, network: Network | None = None) -> None:
        self._context = browser.new_context(viewport=SIZE)  # type: ignore[arg-type]
        self.page = self._context.new_page()
        self.devtools = self._context.new_cdp_session(self.page)
        self.errors: list[str] = []
        self.socket_bytes = 0
        """Payload of all messages of the event socket so far."""
        self.frames = 0
        """Live frames among them."""
        self._urls: dict[str, str] = {}
        self._sizes: dict[str, int] = {}
        self.page.on("pageerror", lambda error: self.errors.append(str(error)))
        self.devtools.on("Network.requestWillBeSent", self._sent)
        self.devtools.on("Network.loadingFinished", self._finished)
        self.devtools.on("Network.webSocketFrameReceived", self._heard)
        self.devtools.send("Network.enable")
        # CPU time, which other programs do not add to.
        self.devtools.send("Performance.enable", {"timeDomain": "threadTicks"})
        if network is not None:
            rate = {"downloadThroughput": network.bytes_per_s, "uploadThroughput": network.bytes_per_s}
            conditions = {"offline": False, "latency": network.latency_ms, **rate}
            self.devtools.send("Network.emulateNetworkConditions", conditions)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self._context.close()

    def wait_for_mark(self, name: str, timeout_ms: float = 60_000) -> float:
        """Milliseconds from the beginning of the navigation to a mark of the page."""
        deadline = time.monotonic() + timeout_ms / 1e3
        while not self.page.evaluate("name => performance.getEntriesByName(name).length", name):
            if time.monotonic() > deadline:
                raise SystemExit(
                    f"the page does not come to {name!r}; {self.errors or 'it has no complaint'}"
                )
            self.page.wait_for_timeout(LOOK_MS)
        at_ms: float = self.page.evaluate("name => performance.getEntriesByName(name)[0].startTime", name)
        return at_ms

    def received_bytes(self, *parts: str) -> int:
        """Of answers, as they came over the wire, whose address holds one of ``parts``."""
        return sum(
            size
            for request, size in self._sizes.items()
            if any(part in self._urls.get(request, "") for part in parts)
        )

    def answers(self) -> dict[str, int]:
        """Bytes of the API's answers, by what was asked."""
        found: Counter[str] = Counter()
        for request, size in self._sizes.items():
            if API in (url := self._urls.get(request, "")):
                found[url.partition(API)[2].partition("?")[0]] += size
        return dict(found.most_common())

    def nodes(self) -> int:
        """Nodes of the document: elements, texts and the others."""
        count: int = self.page.evaluate(_COUNT_NODES)
        return count

    def metrics(self) -> dict[str, float]:
        """Chromium's own figures of the page: seconds of work so far, bytes of heap, and others."""
        answer = self.devtools.send("Performance.getMetrics")
        return {one["name"]: one["value"] for one in answer["metrics"]}

    def heap_bytes(self) -> int:
        """JavaScript objects that are still needed."""
        # Some are let go of by the first collection only to be found by the second.
        for _ in range(2):
            self.devtools.send("HeapProfiler.collectGarbage")
        return int(self.devtools.send("Runtime.getHeapUsage")["usedSize"])

    def record_frames(self) -> None:
        """Note when pictures are drawn from now on."""
        self.page.evaluate(_RECORD_FRAMES)

    def frame_intervals_ms(self) -> list[float]:
        """Between pictures, since the last time this was asked."""
        times: list[float] = self.page.evaluate("() => window.frameTimes.splice(0)")
        return [after - before for before, after in itertools.pairwise(times)]

    def record_echoes(self) -> None:
        """Begin to note how long it takes from each move of the pointer until the next picture is drawn."""
        self.page.evaluate(_RECORD_ECHOES)

    def echoes_ms(self) -> list[float]:
        """One for each move of the pointer since the last time this was asked."""
        found: list[float] = self.page.evaluate("() => (window.echoes ?? []).splice(0)")
        return found

    def _sent(self, event: dict[str, Any]) -> None:
        self._urls[event["requestId"]] = event["request"]["url"]

    def _finished(self, event: dict[str, Any]) -> None:
        self._sizes[event["requestId"]] = int(event["encodedDataLength"])

    def _heard(self, event: dict[str, Any]) -> None:
        message = event["response"]
        payload: str = message["payloadData"]
        # Binary ones come as base64.
        self.socket_bytes += len(payload) if message["opcode"] == TEXT else len(payload) * 3 // 4
        self.frames += message["opcode"] == TEXT and FRAME in payload[:LONGEST_HEAD]
