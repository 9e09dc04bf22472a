"""The file with the address of a dashboard."""

from __future__ import annotations

import os
import pwd
import time
from pathlib import Path

import pytest

from chimbuko.launcher.services.dashboard import AddressFile

LOCAL = "http://127.0.0.1:8080/?token=x"
ADDRESS = "http://127.0.0.1:80/?token=secret"


def test_only_its_owner_reads_it_and_it_is_there_as_long_as_there_is_an_address(tmp_path: Path) -> None:
    path = tmp_path / "dashboard"
    file = AddressFile(path)
    file.keep(ADDRESS)
    assert path.read_text() == ADDRESS and path.stat().st_mode & 0o777 == 0o600
    file.keep("")
    assert not path.exists()
    file.keep(ADDRESS)
    file.remove()
    file.remove()
    assert not path.exists()


def test_a_terminal_gets_the_address_and_all_else_the_name_of_the_file(tmp_path: Path) -> None:
    file = AddressFile(tmp_path / "dashboard")
    file.keep(ADDRESS)
    terminal, other_end = os.openpty()
    reading, writing = os.pipe()
    assert file.words_for(terminal) == ADDRESS
    assert file.words_for(writing) == f"the address is in {tmp_path / 'dashboard'}"
    for number in (terminal, other_end, reading, writing):
        os.close(number)


def test_a_browser_gets_a_file_to_show_and_no_secret_on_its_command_line(tmp_path: Path) -> None:
    shown, browser = tmp_path / "shown", tmp_path / "browser"
    browser.write_text(f'#!/bin/sh\necho "$1" > {shown}.new\nmv {shown}.new {shown}\n')
    browser.chmod(0o700)
    file = AddressFile(tmp_path / "dashboard")
    file.keep(ADDRESS)
    assert file.open(os.environ | {"BROWSER": f"{browser} %s"}) == ""
    while not shown.exists():
        time.sleep(0.05)
    page = tmp_path / "dashboard.html"
    assert shown.read_text().strip() == page.as_uri()
    assert page.stat().st_mode & 0o777 == 0o600 and f"url={ADDRESS}" in page.read_text()
    file.remove()
    assert not page.exists()


def test_without_a_desktop_nothing_takes_the_terminal(tmp_path: Path) -> None:
    assert "no desktop" in AddressFile(tmp_path / "dashboard").open({"PATH": os.environ["PATH"]})


@pytest.mark.parametrize(
    ("address", "connection", "options"),
    [
        (LOCAL, "192.0.2.7 50123 127.0.0.1 22", "-N -L 8080:127.0.0.1:8080"),
        (
            LOCAL,
            "192.0.2.7 50123 127.0.0.1 2222",
            "-N -p 2222 -L 8080:127.0.0.1:8080",
        ),
        # Noted on the login node from which a job came: an address of none of our interfaces.
        (LOCAL, "192.0.2.7 50123 192.0.2.8 22", None),
        (LOCAL, None, None),
        ("https://login7.example/?token=x", "192.0.2.7 50123 127.0.0.1 22", None),
    ],
)
def test_who_came_by_ssh_is_shown_the_way_for_a_browser(
    address: str, connection: str | None, options: str | None, tmp_path: Path
) -> None:
    file = AddressFile(tmp_path / "dashboard")
    file.keep(address)
    user = pwd.getpwuid(os.geteuid()).pw_name
    expected = "" if options is None else f"ssh {options} {user}@127.0.0.1"
    assert file.tunnel({} if connection is None else {"SSH_CONNECTION": connection}) == expected
