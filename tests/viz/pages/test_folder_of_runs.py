"""All runs of a folder behind one address, by the command that users give, in a real browser."""

from __future__ import annotations

import http.client
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import msgspec
import pytest
import requests
from click.testing import CliRunner
from werkzeug.test import Client

from chimbuko.cli.inspect.view import command as view
from chimbuko.core.errors import ConfigError
from chimbuko.runtime.process.nameholding import hold
from chimbuko.runtime.runs.directory import RunDirectory, claim_name
from chimbuko.viz.http.runsapp import RunsApp
from chimbuko.viz.jobs.workerpool import WorkerPool
from tests.browsing import settled
from tests.patience import PATIENCE_S
from tests.viz.conftest import TOKEN
from tests.viz.made_run import make_run

if TYPE_CHECKING:
    from playwright.sync_api import Browser, ConsoleMessage, Page

DAY_US = 86_400_000_000


class ServedFolder:
    """``chimbuko view FOLDER``."""

    def __init__(self, folder: Path, port: int = 0, token: str = TOKEN) -> None:
        self.folder = folder
        self.process = subprocess.Popen(
            [sys.executable, "-m", "chimbuko", "view", str(folder), "--port", str(port)],
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "CHIMBUKO_TOKEN": token},
        )
        assert self.process.stdout is not None
        place = self.process.stdout.readline().removeprefix("the address is in ").strip()
        self.url = Path(place).read_text()
        self.base = self.url.partition("?")[0]
        self.port = urlsplit(self.base).port or 0

    def stop(self) -> int:
        """End it as Ctrl-C does; its exit code."""
        self.process.terminate()
        self.process.communicate(timeout=PATIENCE_S)
        return self.process.returncode

    def ask(self, path: str) -> tuple[int, Any]:
        """Status and answer of a request below the server's root, with the token."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE_S)
        connection.request("GET", f"/{path}", headers={"Authorization": f"Bearer {TOKEN}"})
        answer = connection.getresponse()
        body = answer.read()
        connection.close()
        is_json = answer.getheader("Content-Type") == "application/json"
        return answer.status, json.loads(body) if is_json else body.decode()


def add_run(folder: Path, called: str, age: int, **said: Any) -> RunDirectory:
    """A run that began so many days ago."""
    run = make_run(folder / called).directory
    info = run.read_info()
    started_us = time.time_ns() // 1000 - age * DAY_US
    changed = {"name": called, "started_us": started_us, "ended_us": started_us + 125_000_000} | said
    run.write_info(msgspec.structs.replace(info, **changed))
    return run


@contextmanager
def served_folder(folder: Path, **options: Any) -> Iterator[ServedFolder]:
    """A server over a folder that is gone afterwards."""
    served = ServedFolder(folder, **options)
    try:
        yield served
    finally:
        served.process.kill()
        served.process.communicate()


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory, page_files: Path) -> Iterator[ServedFolder]:
    """Three runs: one that goes on, though it began first, one that is fine and one that failed."""
    folder = tmp_path_factory.mktemp("runs")
    add_run(folder, "etl", 1, command=["chimbuko", "trace", "etl.py"], exit_code=1)
    add_run(folder, "heat 1", 2, command=["mpirun", "-n", "4", "./heat\u202e2d"])
    live = add_run(folder, "live", 3, state="running", ended_us=0, exit_code=None)
    with hold(claim_name(live.read_info().id)), served_folder(folder) as server:
        yield server


@contextmanager
def opened(browser: Browser, served: ServedFolder, **options: Any) -> Iterator[Page]:
    """The list, in a browser that has come in."""
    context = browser.new_context(viewport={"width": 1280, "height": 720}, **options)
    page = context.new_page()
    page.goto(served.url)
    page.wait_for_selector("tr[data-run]")
    settled(page)
    yield page
    context.close()


@pytest.fixture
def page(browser: Browser, served: ServedFolder) -> Iterator[Page]:
    """The list; afterwards: no error, but that something was not there, which the browser notes some day, or
    was deleted while it was read (503).
    """
    errors: list[str] = []
    with opened(browser, served) as page:
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.on("console", lambda line: _note(line, errors))
        yield page
    assert errors == []


def _note(line: ConsoleMessage, errors: list[str]) -> None:
    if line.type == "error" and not any(word in line.text for word in ("404", "503", "WebSocket")):
        errors.append(line.text)


def rows(page: Page) -> list[str]:
    """Folders of the runs that are listed."""
    settled(page)
    return [row.get_attribute("data-run") or "" for row in page.locator("tr[data-run]").all()]


def test_the_list_has_live_runs_first_and_says_how_each_is(page: Page) -> None:
    assert page.url.endswith("/runs")
    assert rows(page) == ["live", "etl", "heat 1"]
    assert page.locator("[data-answer]").inner_text() == "3 runs; 1 is running."
    cells = [cell.inner_text() for cell in page.locator("tr[data-run='heat 1'] td").all()]
    assert cells[1:4] == ["heat 1", r"heat\u202e2d", "finished, exit 0"]
    assert cells[5:7] == ["125 s", "5"]
    assert cells[8] == "128"
    failed = page.locator("tr[data-run=etl] td").all_inner_texts()
    assert failed[2:4] == ["etl", "finished, exit 1"]


def test_the_filter_is_in_the_address_and_stays(page: Page) -> None:
    page.keyboard.press("/")
    page.keyboard.type("exit 1")
    page.wait_for_url("**/runs?find=exit+1")
    assert rows(page) == ["etl"]
    page.reload()
    page.wait_for_selector("tr[data-run]")
    assert rows(page) == ["etl"]
    page.get_by_label("Filter runs").fill("no such run")
    page.wait_for_selector(".empty >> text=No run matches all of these words")


def test_two_are_compared_by_ticking_them_with_keys(page: Page) -> None:
    page.locator("tr[data-run=etl] a").focus()
    page.keyboard.press("x")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("x")
    link = page.get_by_role("link", name="Compare the two")
    page.wait_for_url("**/runs?ticked=etl%2Cheat*")
    link.click()
    # The later one is opened, and compared with the earlier.
    page.wait_for_url("**/r/etl/compare/heat%201")
    page.wait_for_selector(".trail >> text=compared with heat 1")


def test_a_run_has_its_own_address_and_leads_back(page: Page, served: ServedFolder) -> None:
    page.get_by_role("link", name="heat 1").click()
    page.wait_for_url("**/r/heat%201")
    page.wait_for_selector('[data-state="ended"]')
    page.wait_for_selector(".heatmap canvas")
    settled(page)
    assert not page.locator(".pause").is_visible(), "nothing comes that could be paused"
    page.goto(served.base + "r/etl/calls")
    page.wait_for_selector(".trail >> text=etl")
    page.get_by_role("link", name="Runs", exact=True).click()
    page.wait_for_url("**/runs")


def test_what_is_not_there_is_said(served: ServedFolder) -> None:
    status, answer = served.ask("of/nothing/api/v1/run")
    assert status == 404 and "No run 'nothing' in" in answer["error"]
    assert served.ask("of/heat%201/api/v1/run")[1]["name"] == "heat 1"
    assert served.ask("of/..%2Fheat/api/v1/run")[0] == 404
    assert served.ask("of/heat%201/api/v1/nothing")[0] == 404
    run_id = served.ask("of/heat%201/api/v1/run")[1]["id"]
    for rest in ("", "/call/0/1:3:7", "/health"):
        # As alerts have it.
        answer = requests.get(
            f"http://127.0.0.1:{served.port}/r/{run_id}{rest}?find=x",
            headers={"Authorization": f"Bearer {TOKEN}"},
            timeout=PATIENCE_S,
        )
        assert answer.url.endswith(f"/r/heat%201{rest}?find=x")
        assert answer.status_code == 200 and 'data-mount="of/heat%201/"' in answer.text
    status, text = served.ask("r/nothing")
    assert status == 404 and 'data-missing="nothing"' in text


def test_nobody_comes_in_without_the_token(served: ServedFolder) -> None:
    for path in ("/runs", "/api/v1/runs", "/of/etl/api/v1/run", "/of/etl/socket.io/?EIO=4&transport=polling"):
        connection = http.client.HTTPConnection("127.0.0.1", served.port, timeout=PATIENCE_S)
        connection.request("GET", path)
        assert connection.getresponse().status == 401, path
        connection.close()


def test_a_run_that_comes_is_listed_and_one_that_is_deleted_says_so(page: Page, served: ServedFolder) -> None:
    add_run(served.folder, "second", 4, name="etl")
    page.locator("tr[data-run=second] a").click()
    # Another run has the same name.
    page.wait_for_url("**/r/second")
    page.wait_for_selector('[data-state="ended"]')
    # What the page still asks would find half a run.
    settled(page)
    shutil.rmtree(served.folder / "second")
    page.wait_for_selector(".banner >> text=No run 'second' in")
    page.goto(served.base + "r/second")
    page.wait_for_selector(".banner >> text=There is no run second here, or not any more.")
    page.wait_for_selector("tr[data-run=live]")
    assert rows(page) == ["live", "etl", "heat 1"]


def test_a_server_that_ends_opens_no_run_any_more(tmp_path: Path) -> None:
    """A page that is sent away asks again at once: what it opened would keep the process alive."""
    add_run(tmp_path, "heat", 1)
    app = RunsApp(tmp_path, TOKEN, frozenset(), lambda: WorkerPool(None), lambda run: None)
    client, key = Client(app), {"Authorization": f"Bearer {TOKEN}"}
    with app:
        assert client.get("/of/heat/api/v1/run", headers=key).status_code == 200
    late = client.get("/of/heat/api/v1/run", headers=key)
    assert late.status_code == 503 and "the server is ending" in late.text


def test_a_server_that_comes_back_with_another_token_is_recognised(
    browser: Browser, tmp_path: Path, page_files: Path
) -> None:
    add_run(tmp_path, "heat", 1)
    with served_folder(tmp_path) as served, opened(browser, served) as page:
        page.goto(served.base + "r/heat")
        page.wait_for_selector('[data-state="ended"]')
        assert served.stop() == 0
        page.wait_for_selector(".banner >> text=Is the SSH tunnel open")
        with served_folder(tmp_path, port=served.port, token="another token of 16 letters"):
            page.wait_for_selector(".banner >> text=The server was restarted and has another token")


def test_several_processes_serve_one_run(tmp_path: Path) -> None:
    add_run(tmp_path, "heat", 1)
    done = CliRunner().invoke(view, [str(tmp_path), "--processes", "2"])
    assert isinstance(done.exception, ConfigError)
    assert str(done.exception) == f"{tmp_path}: --processes are for one run; name it"
