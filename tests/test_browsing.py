"""Files of tests share a browser, and have another one after it has crashed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.browsing import CHROMIUM, Chromium

if TYPE_CHECKING:
    from playwright.sync_api import Browser


@pytest.fixture
def own(request: pytest.FixtureRequest) -> Iterator[Chromium]:
    """A browser that no other test uses."""
    if not Path(CHROMIUM).exists():
        pytest.skip(f"no {CHROMIUM}: apt-get install chromium-headless-shell")
    own = Chromium(request.getfixturevalue("playwright"))
    yield own
    own.close()


def crash(browser: Browser) -> None:
    from playwright.sync_api import Error

    with suppress(Error):
        browser.new_browser_cdp_session().send("Browser.crash")


def test_the_next_file_has_the_same_browser_with_nothing_open(own: Chromium) -> None:
    browser = own.browser()
    page = browser.new_page()
    own.close_contexts()
    assert page.is_closed()
    assert own.browser() is browser and browser.contexts == []


def test_after_a_crash_the_next_file_has_another_browser(own: Chromium) -> None:
    browser = own.browser()
    browser.new_page()
    crash(browser)
    own.close_contexts()
    other = own.browser()
    assert other is not browser
    assert other.new_page().evaluate("6 * 7") == 42
    crash(other)
