"""The demo's second part for real: processes, SST, server, database, HTTP and a browser."""

from __future__ import annotations

import json
import sys
import urllib.request
from http.cookiejar import CookieJar
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote, urlsplit

from examples.truth import match, read_truth
from tests.integration.conftest import Start
from tests.patience import PATIENCE_S
from tests.places import EXAMPLES

if TYPE_CHECKING:
    from playwright.sync_api import Browser

DELAYS = 8
"""How many of them are found on a machine that has nothing else to do, ``make demo`` shows."""


class Api:
    """The run's HTTP API, opened with the address that `chimbuko run` prints."""

    def __init__(self, url: str) -> None:
        self._open = urllib.request.build_opener(urllib.request.HTTPCookieProcessor(CookieJar())).open
        self._open(url).close()
        parts = urlsplit(url)
        self._base = f"{parts.scheme}://{parts.netloc}/api/v1/"

    def get(self, path: str) -> dict:
        with self._open(self._base + path) as answer:
            return json.load(answer)


def test_injected_delays_reach_database_http_and_page(start: Start, browser: Browser, tmp_path: Path) -> None:
    truth = tmp_path / "truth.txt"
    program = [sys.executable, EXAMPLES / "heat.py", "--traced", "--iterations", "600", "--seed", "3"]
    run = start("--keep", "--", *program, "--delays", str(DELAYS), "--truth", truth)
    url = run.dashboard_url()
    page = browser.new_page(viewport={"width": 1280, "height": 600})
    problems: list[str] = []
    page.on("pageerror", lambda error: problems.append(str(error)))
    page.goto(url)
    page.wait_for_selector("[data-answer]")
    run.wait_for_line("dashboard stays", timeout_s=PATIENCE_S)

    delays = read_truth([truth])
    found = [call for _, call in match(delays, run.anomalies) if call is not None]
    print(f"{len(found)} of {len(delays)} injected delays found")
    assert len(delays) == DELAYS
    assert found, run.output

    api = Api(url)
    for call in found:
        answer = api.get(f"calls/{quote(call.id)}")
        assert call.function in json.dumps(answer)
    listed = api.get("calls?limit=1000")
    assert {call["id"] for call in listed["calls"]} == run.ids

    page.wait_for_selector(f'.incidents [data-total="{api.get("incidents")["total"]}"]')
    program_number, _, rest = found[0].id.partition(":")
    page.goto(f"{page.url.partition('/r/')[0]}/r/{run.folder.name}/call/{program_number}/{rest}")
    name = found[0].function.split(" [")[0].rsplit(".")[-1]
    page.locator("main.detail h1.answer", has_text=name).wait_for()
    assert problems == []

    run.interrupt()
    assert run.end() == 0, run.output
    assert run.info.state == "finished"
