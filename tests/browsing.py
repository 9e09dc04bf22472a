"""Browsers whose pages know what they still wait for; and, where the environment says so, are slow.

``make slow-pages`` runs all tests of pages with answers that come late, in another order each time, and with
scripts that take longer: a test that reads a page too early fails there, and not some day on a busy machine.
"""

from __future__ import annotations

import json
import os
import shutil
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from tests.patience import PATIENCE_S

if TYPE_CHECKING:
    from playwright.sync_api import Browser, BrowserContext, Page, Playwright

CHROMIUM = shutil.which("chromium-headless-shell") or shutil.which("chromium") or "/usr/bin/chromium"
"""Path of the browser. The one without any window of its own takes half the time."""
ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
]
LATE_MS = int(os.environ.get("CHIMBUKO_SLOW_ANSWERS_MS", "0"))
"""How late an answer of the HTTP API comes at most, a fifth of it at least; what the link brings, a third."""
SCRIPTS = float(os.environ.get("CHIMBUKO_SLOW_SCRIPTS", "1"))
"""How many times as long scripts take."""

COUNTED = """(late_ms => {
    window.awaited = 0;
    const counted = async answer => {
        window.awaited++;
        try { return await answer; } finally { window.awaited--; }
    };
    const lateness_ms = most_ms => most_ms * (0.2 + 0.8 * Math.random());
    const late = signal => new Promise((come, fail) => {
        setTimeout(come, lateness_ms(late_ms));
        signal?.addEventListener('abort', () => fail(signal.reason));
    });
    const ask = window.fetch;
    window.fetch = (address, options) => counted((async () => {
        const answer = await ask(address, options);
        if (late_ms > 0) await late(options?.signal);
        const read = answer.json.bind(answer);
        answer.json = () => counted(read());
        return answer;
    })());
    const isAsked = /^42\\/events,\\d/, isTaken = /^43\\/events,\\d/;
    window.WebSocket = class extends WebSocket {
        #asked = 0;
        #next_ms = 0;
        constructor(...where) {
            super(...where);
            this.addEventListener('close', () => this.#wait(-this.#asked));
        }
        #wait(more) {
            this.#asked += more;
            window.awaited += more;
        }
        send(packet) {
            if (isAsked.test(packet)) this.#wait(1);
            super.send(packet);
        }
        set onmessage(hear) {
            super.onmessage = message => {
                const now_ms = performance.now();
                this.#next_ms = Math.max(this.#next_ms, now_ms + lateness_ms(late_ms / 3));
                const take = () => {
                    hear(message);
                    if (isTaken.test(message.data) && this.#asked > 0) this.#wait(-1);
                };
                if (late_ms > 0) setTimeout(take, this.#next_ms - now_ms);
                else take();
            };
        }
    };
})"""
"""Counts the answers that a page waits for, of the HTTP API and over its link, and makes them late."""

SETTLED = """async () => {
    for (let frames = 0; frames < 3; frames++) {
        if (window.awaited > 0 || document.querySelector('.reading, [data-settling]') !== null) return false;
        await new Promise(requestAnimationFrame);
    }
    return true;
}"""
"""Whether a page is quiet for three frames: what an answer changes is drawn in the next one, and may lead to
further questions.
"""
ASKED_EVERY_MS = 30
"""How often a page is asked whether what is waited for is there.

Where that is asked in each frame, all frames are made, which takes 0.18 s of CPU time per second.
"""


def settled(page: Page) -> None:
    """Wait until the page has all answers that it asked for, and shows them.

    What comes without being asked for, as news of a run and answers to long questions do, is not waited for.
    """
    page.wait_for_function(SETTLED)


class Chromium:
    """One browser for many files of tests, and the next one where that has crashed.

    To start one takes 0.3 s of CPU time.
    """

    def __init__(self, playwright: Playwright) -> None:
        self._playwright = playwright
        self._browser: Browser | None = None

    def browser(self) -> Browser:
        """Return a browser that answers; what its pages wait for is counted."""
        if self._browser is None or not _is_answering(self._browser):
            self._browser = self._playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
            _watch(self._browser)
        return self._browser

    def close_contexts(self) -> None:
        """Close what is open in the browser, if it still runs."""
        assert self._browser is not None
        with _crash_suppressed():
            for context in self._browser.contexts:
                context.close()

    def close(self) -> None:
        """End the browser."""
        if self._browser is not None:
            with _crash_suppressed():
                self._browser.close()


def lent_page(browser: Browser, **options: Any) -> Page:
    """Return an empty page in a context of its own: one that was given back, or a new one.

    The first page that a process of the browser shows takes 0.47 s of CPU time, each further one 0.25 s.
    """
    kept = _given_back.get(browser, {}).get(repr(options), [])
    while kept:
        if not (page := kept.pop()).is_closed():
            return page
    page = browser.new_context(**options).new_page()
    _lent[page] = options
    return page


def give_back(page: Page, *bases: str) -> None:
    """Leave nothing of what was done on a page at these addresses, or close what cannot be made as it was."""
    context = page.context
    with _crash_suppressed():
        if context.pages != [page]:
            context.close()
            return
        options = _lent[page]
        page.unroute_all()
        page.goto("about:blank")
        browser_itself = context.new_cdp_session(page)
        browser_itself.send("Page.resetNavigationHistory")
        for base in bases:
            browser_itself.send("Storage.clearDataForOrigin", {"origin": base, "storageTypes": "all"})
        browser_itself.detach()
        context.clear_cookies()
        context.clear_permissions()
        page.set_viewport_size(options["viewport"])
        # Outside: what is under the pointer is marked as soon as a page shows it.
        page.mouse.move(-1, -1)
        assert context.browser is not None
        _given_back.setdefault(context.browser, {}).setdefault(repr(options), []).append(page)


_lent: WeakKeyDictionary[Page, dict[str, Any]] = WeakKeyDictionary()
"""What the context of each page was made with."""
_given_back: WeakKeyDictionary[Browser, dict[str, list[Page]]] = WeakKeyDictionary()


def _crash_suppressed() -> suppress:
    from playwright.sync_api import Error

    return suppress(Error)


def _is_answering(browser: Browser) -> bool:
    """Whether a browser opens a context: it is not seen to have crashed before it is asked for something."""
    with _crash_suppressed():
        browser.new_context().close()
        return True
    return False


def _watch(browser: Browser) -> None:
    make = browser.new_context

    def new_context(**options: Any) -> BrowserContext:
        return _watched(make(**options))

    def new_page(**options: Any) -> Page:
        return new_context(**options).new_page()

    browser.new_context, browser.new_page = new_context, new_page  # type: ignore[method-assign]


def _watched(context: BrowserContext) -> BrowserContext:
    context.set_default_timeout(1000 * PATIENCE_S)
    context.add_init_script(f"{COUNTED}({json.dumps(LATE_MS)})")
    make = context.new_page

    def new_page() -> Page:
        page = make()
        waits: Any = partial(page.wait_for_function, polling=ASKED_EVERY_MS)
        page.wait_for_function = waits  # type: ignore[method-assign]
        if SCRIPTS != 1:
            context.new_cdp_session(page).send("Emulation.setCPUThrottlingRate", {"rate": SCRIPTS})
        return page

    context.new_page = new_page  # type: ignore[method-assign]
    return context
