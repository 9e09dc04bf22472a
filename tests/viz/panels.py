"""What a browser shows in panels, and what their menus copy and save."""

from __future__ import annotations

import csv
import json
import re
import subprocess
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from click.testing import CliRunner

from chimbuko.cli import main
from tests.browsing import settled
from tests.patience import PATIENCE_S

if TYPE_CHECKING:
    from collections.abc import Callable

    from playwright.sync_api import Download, Locator, Page

_US = {"µs": 1.0, "ms": 1e3, "s": 1e6}


def panel(page: Page, name: str) -> Locator:
    """A panel by its name."""
    return page.locator(f'[data-panel="{name}"]')


def rows(page: Page, name: str) -> list[list[str]]:
    """Cells of a panel's table, without its headings."""
    page.wait_for_selector(f'[data-panel="{name}"] tbody tr')
    settled(page)
    found: list[list[str]] = (
        panel(page, name)
        .locator("tbody tr")
        .evaluate_all(
            "rows => rows.map(row => [...row.cells].map(cell => cell.innerText.replace(/\\s+/g, ' ').trim()))"
        )
    )
    return found


def headings(page: Page, name: str) -> list[str]:
    """Headings of a panel's table."""
    return panel(page, name).locator("thead th").all_inner_texts()


def show_table(page: Page, name: str) -> list[list[str]]:
    """Swap a picture for its table."""
    panel(page, name).get_by_role("button", name=re.compile(": table$")).click()
    return rows(page, name)


def microseconds(text: str) -> float:
    """A duration as the page writes it."""
    number, unit = text.split()
    return float(number.replace(",", "")) * _US[unit]


def number(text: str) -> float:
    """A number as the page writes it."""
    return float(text.replace(",", ""))


def in_column(heading: str, text: str) -> float:
    """A duration in a column, whose heading has the unit."""
    return microseconds(f"{text} {heading.rpartition(', ')[2]}")


def choose(page: Page, name: str, item: str) -> None:
    """An entry of a panel's menu."""
    panel(page, name).locator(".menu-button").click()
    page.get_by_role("menuitem", name=item, exact=True).click()


def copied(page: Page, name: str, item: str) -> str:
    """What an entry of a panel's menu copies."""
    # Until the run's folder is known, no command can name it.
    page.wait_for_selector(".run:not(:has-text('…'))")
    return copied_by(page, lambda: choose(page, name, item))


def copied_by(page: Page, act: Callable[[], None]) -> str:
    """What an action copies, once it is there: the page may have to ask the server for it."""
    page.evaluate("navigator.clipboard.writeText('')")
    act()
    ends_s = time.monotonic() + PATIENCE_S
    while time.monotonic() < ends_s:
        # A promise that the page waits for counts as true at once, so the waiting is done here.
        text = str(page.evaluate("navigator.clipboard.readText()"))
        if text:
            return text
        page.wait_for_timeout(50)
    raise AssertionError("nothing was copied")


def saved(page: Page, name: str, item: str) -> Download:
    """What an entry of a panel's menu saves."""
    with page.expect_download() as waiting:
        choose(page, name, item)
    return waiting.value


def table_file(download: Download) -> list[list[str]]:
    """A CSV file."""
    with Path(download.path()).open(newline="", encoding="utf-8") as file:
        return list(csv.reader(file))


def answered(command: str) -> Any:
    """What a copied command answers as JSON, with the words that a shell makes of it."""
    # Run in this process: to start another takes longer than to answer.
    words_in_shell = f"chimbuko() {{ printf '%s\\0' \"$@\"; }}; {command} --json"
    said = subprocess.run(["sh", "-c", words_in_shell], check=True, capture_output=True, text=True).stdout
    done = CliRunner().invoke(main, said.split("\0")[:-1], prog_name="chimbuko")
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout)


def sql_rows(page: Page, name: str) -> list[dict[str, Any]]:
    """What the copied SQL of a panel answers."""
    command = copied(page, name, "Copy SQL")
    assert command.startswith("chimbuko sql ")
    answer = answered(command)
    assert answer["is_complete"]
    found: list[dict[str, Any]] = answer["rows"]
    return found


def api_answer(page: Page, name: str) -> dict[str, Any]:
    """What the copied JSON address of a panel answers, to who has the page's cookie."""
    address = copied(page, name, "Copy JSON address")
    found: dict[str, Any] = page.evaluate("address => fetch(address).then(answer => answer.json())", address)
    assert found["ok"]
    return found
