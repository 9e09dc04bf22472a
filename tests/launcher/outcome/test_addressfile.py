"""The file with the address of a dashboard."""

from __future__ import annotations

import os
from pathlib import Path

from chimbuko.launcher.outcome.addressfile import AddressFile

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
