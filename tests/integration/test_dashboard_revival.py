"""A dashboard that was killed comes back where it was: its port, its token, its pages."""

from __future__ import annotations

import os
import signal
import socket
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import pytest
import requests

from chimbuko.launcher.application import TITLE
from chimbuko.runtime.runs.directory import RunDirectory
from tests.integration.conftest import Command, Run, Start, children, command_line
from tests.integration.held import CODE, Held
from tests.patience import PATIENCE_S
from tests.thorough import first

if TYPE_CHECKING:
    from collections.abc import Callable

    from playwright.sync_api import Browser

DASHBOARD = "chimbuko.viz"


def dashboard_of(command: Command) -> int:
    """The dashboard's process, once it is there."""
    found: list[int] = []

    def look() -> bool:
        launcher = next(iter(command.processes(TITLE)), command.process.pid)
        found[:] = [pid for pid in children(launcher) if f"{DASHBOARD} " in command_line(pid)]
        return len(found) == 1

    command.wait_until(look)
    return found[0]


def kill_dashboard(command: Command) -> int:
    """kill -9; the process that takes over."""
    killed = dashboard_of(command)
    os.kill(killed, signal.SIGKILL)
    command.wait_until(lambda: dashboard_of(command) != killed)
    return dashboard_of(command)


def answers(url: str) -> bool:
    """Whether who has the address is let in."""
    return requests.get(url, timeout=PATIENCE_S).status_code == 200


def test_it_begins_with_the_first_visitor(start: Start, held: Held) -> None:
    run = start("--", *held.command)
    url = run.dashboard_url()
    held.wait(run)
    assert run.processes(DASHBOARD) == []
    assert answers(url)
    assert run.processes(DASHBOARD) != []
    held.release()
    assert run.end() == CODE, run.output


@pytest.mark.thorough
@pytest.mark.parametrize("processes", first(1, [1, 2]))
def test_it_comes_back_on_its_port_with_its_token(start: Start, held: Held, processes: int) -> None:
    run = start("--dashboard-processes", str(processes), "--", *held.command)
    url = run.dashboard_url()
    assert answers(url)
    held.wait(run)
    for _ in range(2):
        kill_dashboard(run)
        # No page is refused meanwhile: it waits until somebody answers.
        assert answers(url)
    with socket.socket() as other, pytest.raises(OSError, match="in use"):
        other.bind(("127.0.0.1", urlsplit(url).port or 0))
    held.release()
    assert run.end() == CODE, run.output
    assert run.output.count("dashboard ended early and was started again") == 2
    with pytest.raises(requests.ConnectionError):
        answers(url)


@pytest.mark.thorough
def test_one_of_its_processes_is_killed(start: Start, held: Held) -> None:
    run = start("--dashboard-processes", "2", "--", *held.command)
    url = run.dashboard_url()
    assert answers(url)
    servers = children(dashboard_of(run))
    os.kill(servers[0], signal.SIGKILL)
    assert all(answers(url) for _ in range(8))
    run.wait_until(lambda: len(children(dashboard_of(run))) == len(servers))
    held.release()
    assert run.end() == CODE, run.output


@pytest.mark.thorough
def test_the_file_with_its_address_stays_right(command: Callable[..., Command], tmp_path: Path) -> None:
    run = RunDirectory(tmp_path / "run")
    services = command("serve", run.path)
    services.wait_for_line("services are ready")
    url = run.dashboard_path.read_text()
    assert answers(url)
    kill_dashboard(services)
    assert run.dashboard_path.read_text() == url
    assert answers(url)
    assert command("stop", run.path).end() == 0
    assert services.end() == 0, services.output
    assert not run.dashboard_path.exists()


@pytest.mark.thorough
def test_a_dashboard_that_always_dies_is_given_up(start: Start, held: Held) -> None:
    """And nobody waits at its port for ever."""
    run = start("--", *held.command)
    url = run.dashboard_url()
    held.wait(run)
    assert answers(url)

    def is_given_up() -> bool:
        for pid in run.processes(f"{DASHBOARD} "):
            os.kill(pid, signal.SIGKILL)
        return any(line.startswith("chimbuko: dashboard ended early; its log") for line in run.lines)

    run.wait_until(is_given_up)
    with pytest.raises(requests.ConnectionError):
        answers(url)
    held.release()
    assert run.end() == CODE, run.output


def test_an_open_page_goes_on(start: Start, held: Held, browser: Browser) -> None:
    run: Run = start("--", *held.command)
    url = run.dashboard_url()
    page = browser.new_page()
    page.goto(url)
    page.wait_for_selector("[data-answer]")
    killed = dashboard_of(run)
    answered: list[str] = []
    page.on("websocket", lambda link: link.on("framereceived", lambda _: answered.append(link.url)))
    os.kill(killed, signal.SIGKILL)
    # By itself it comes to the one that takes over.
    run.wait_until(lambda: page.wait_for_timeout(100) is None and bool(answered))
    assert dashboard_of(run) != killed
    page.reload()
    page.wait_for_selector("[data-answer]")
    assert page.locator("text=needs its token").count() == 0
    held.release()
    assert run.end() == CODE, run.output
