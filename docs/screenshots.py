"""Pictures for the documents: the dashboard over a run, in headless Chromium.

python docs/screenshots.py RUN_DIR
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

from playwright.sync_api import sync_playwright

from chimbuko.provenance.calls import CallFilter
from chimbuko.provenance.queries import open_run
from chimbuko.rundir import RunDirectory

IMAGES = Path(__file__).parent / "images"
SIZE = {"width": 1280, "height": 600}


def main() -> None:
    """Write ``images/overview.png`` and ``images/call.png``."""
    run = RunDirectory(Path(sys.argv[1]).absolute())
    with open_run(run) as provenance:
        worst = provenance.calls(CallFilter(), limit=1).calls[0].id
    command = [sys.executable, "-u", "-m", "chimbuko", "view", str(run.path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        url = next(word for line in server.stdout for word in line.split() if word.startswith("http://"))
        with sync_playwright() as playwright:
            chromium = playwright.chromium.launch(
                executable_path=shutil.which("chromium"), args=["--no-sandbox", "--disable-gpu"]
            )
            page = chromium.new_page(viewport=SIZE, color_scheme="light")
            page.goto(url)
            page.wait_for_selector("[data-total]")
            page.screenshot(path=IMAGES / "overview.png")
            program, _, rest = worst.partition(":")
            page.goto(f"{page.url.partition('/r/')[0]}/r/{run.path.name}/call/{program}/{rest}")
            page.wait_for_selector("main.detail .timelines")
            page.screenshot(path=IMAGES / "call.png")
            chromium.close()
        server.terminate()


if __name__ == "__main__":
    main()
