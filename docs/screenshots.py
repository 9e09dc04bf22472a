"""Pictures for the documents: every view of the dashboard, in headless Chromium.

python docs/screenshots.py [--only NAME]

The run is the recorded trace of tests/data, analysed in lockstep, so that it has the same findings each time;
the comparison is of two simulated runs.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import IO, TYPE_CHECKING

import msgspec
from playwright.sync_api import sync_playwright

from chimbuko.provenance.query.filters import CallFilter, CallSummary
from chimbuko.provenance.query.run import open_run
from chimbuko.runtime.runs.directory import RunDirectory

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

ROOT = Path(__file__).resolve().parent.parent
IMAGES = ROOT / "docs" / "images"
RECORDED = ROOT / "tests" / "data" / "heat4.tar.xz"
SIZE = {"width": 1280, "height": 600}
HEADER = {"x": 0, "y": 0, "width": 1280, "height": 110}
EXPLAINED = "relax_block*"
"""The worst call of this function is the one that the guide explains."""


@dataclass(frozen=True)
class Picture:
    """One state of the dashboard."""

    name: str
    address: str
    """Below the address of the run; with the fields of a call in braces."""
    wait_for: str
    """Part of the page that is there when all of it is."""
    dark: bool = False
    size: tuple[int, int] = (SIZE["width"], SIZE["height"])


PICTURES = (
    Picture("overview", "?sel=0:{rank}", ".heatmap canvas"),
    Picture("overview-dark", "?sel=0:{rank}", ".heatmap canvas", dark=True),
    Picture("calls", "/calls?rank=0:{rank}&step={step}&call={id}", "canvas"),
    Picture("timeline", "/timeline?rank=0:{rank}&call={id}&with=0:3", "canvas"),
    Picture("call", "/call/0/{rest}", ".panel svg:not(.mark)", size=(1280, 900)),
    Picture("incident", "/incident/{incident_id}", "[data-panel=twin]", size=(1280, 1000)),
    Picture("function", "/fn?function={function}", ".panel svg:not(.mark)"),
    Picture("flame", "/flame?find=mpi", ".flame-chart canvas", size=(1280, 560)),
    Picture("health", "/health", ".overtime svg"),
)
LIVE = Picture("live", "", ".heatmap canvas", size=(1280, 640))
"""Taken with --only live, where there is an MPI."""
LIVE_S = 40
WORKFLOW = Picture("workflow", "/workflow", "[data-panel=quantity] path", size=(1280, 940))
"""Taken with --only workflow, of the example's workflow, which takes half a minute."""
NODE = Picture("node", "/node/{node}", ".lane-chart svg", size=(1280, 880))
"""Taken with --only node, where there is an MPI, of a program whose rank 1 is stopped five times."""
STOPPED = Picture("stopped", "/incident/{incident_id}", "[data-panel=beside] svg", size=(1280, 1500))
STOPPED_HEIGHT = 200
"""Of that program, too, the panel alone, without who else ran."""
COMPARISON = Picture("comparison", "/compare/before", "[data-shift]", size=(1280, 720))


def main() -> None:
    """Write the pictures into ``docs/images``."""
    parser = argparse.ArgumentParser(description="Pictures for the documents.")
    parser.add_argument("--only", help="name of the one picture to take")
    only = parser.parse_args().only
    IMAGES.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="chimbuko-pictures-") as scratch, sync_playwright() as driver:
        chromium = driver.chromium.launch(
            executable_path=shutil.which("chromium") or shutil.which("chromium-headless-shell"),
            args=["--no-sandbox", "--disable-gpu"],
        )
        _of_the_recorded_run(chromium, Path(scratch), only)
        _of_a_comparison(chromium, Path(scratch), only)
        if only == LIVE.name:
            _of_a_live_run(chromium, Path(scratch))
        if only == WORKFLOW.name:
            _of_a_workflow(chromium, Path(scratch))
        if only == NODE.name:
            _of_a_node(chromium, Path(scratch))
        chromium.close()


def _of_the_recorded_run(chromium: Browser, scratch: Path, only: str | None) -> None:
    shutil.unpack_archive(RECORDED, scratch)
    run = scratch / "runs" / "heat"
    words = ["run", "--trace", str(scratch / "heat4" / "*.bp"), "--output", str(run)]
    subprocess.run([sys.executable, "-m", "chimbuko", *words], check=True, stderr=subprocess.DEVNULL)
    with open_run(RunDirectory(run)) as provenance:
        explained = provenance.calls.page(CallFilter(function=EXPLAINED), limit=1).calls[0]
    with _served(run) as (url, server):
        for picture in PICTURES:
            if only in (None, picture.name):
                page = _opened(chromium, url, run.name, picture, explained)
                page.screenshot(path=IMAGES / f"{picture.name}.png")
                page.context.close()
        if only in (None, "runs"):
            _of_runs(chromium, run)
        if only in (None, "search"):
            page = _opened(chromium, url, run.name, PICTURES[0], explained)
            page.keyboard.press("/")
            page.keyboard.type("mpi_")
            page.wait_for_selector(".found-detail")
            page.screenshot(path=IMAGES / "search.png", clip=HEADER | {"height": 300})
            page.context.close()
        if only in (None, "lost"):
            page = _opened(chromium, url, run.name, PICTURES[0], explained)
            server.terminate()
            page.wait_for_selector(".banner:has-text('lost 2 s ago')")
            page.screenshot(path=IMAGES / "lost.png", clip=HEADER)
            page.context.close()


def _of_runs(chromium: Browser, run: Path) -> None:
    """The recorded run as it would be listed after some days: it ran thrice, and failed once."""
    folder = run.parent.parent / "several"
    for day, exit_code in (("20260302", 0), ("20260301", 1), ("20260227", 0)):
        copy = RunDirectory(shutil.copytree(run, folder / f"{day}-101500-heat2d"))
        began = datetime.strptime(f"{day} 101500+0000", "%Y%m%d %H%M%S%z")
        started_us = round(began.timestamp() * 1e6)
        copy.write_info(
            msgspec.structs.replace(
                copy.read_info(),
                name=copy.path.name,
                command=["mpirun", "-n", "4", "./heat2d"],
                started_us=started_us,
                ended_us=started_us + 36_000_000,
                exit_code=exit_code,
            )
        )
    with _served(folder) as (url, _):
        page = chromium.new_page(viewport={"width": SIZE["width"], "height": 260})
        page.goto(url)
        page.wait_for_selector("tr[data-run]")
        for name in ("20260302-101500-heat2d", "20260227-101500-heat2d"):
            page.get_by_label(f"Compare {name}").check()
        page.screenshot(path=IMAGES / "runs.png")
        page.context.close()


def _of_a_comparison(chromium: Browser, scratch: Path, only: str | None) -> None:
    if only not in (None, COMPARISON.name):
        return
    sys.path.insert(0, str(ROOT))
    from tests.simulated_runs import Noise, SimulatedFunction, SimulatedRun, log_normal, make_run

    noise = Noise(run=0.02, walk=0.01, function=0.004, function_walk=0.004)
    functions = [
        SimulatedFunction(f"{name} [{{heat2d.c}} {{{line},0}}]", log_normal(mean_us, 0.1), calls)
        for name, line, mean_us, calls in (
            ("relax_block", 47, 1800.0, 100),
            ("jacobi_sweep", 51, 65.0, 100),
            ("pack_row", 38, 12.0, 400),
            ("unpack_row", 39, 11.0, 400),
            ("apply_bc", 52, 180.0, 100),
        )
    ]
    waits = SimulatedFunction("MPI_Waitall()", log_normal(400.0, 0.8))
    folder = scratch / "solver"
    make_run(folder / "before", [*functions, waits], SimulatedRun(1, noise))
    changed = SimulatedRun(2, noise, slower={functions[0].name: 1.1, functions[4].name: 0.8})
    after = make_run(folder / "after", [*functions, waits], changed)
    after.write_info(msgspec.structs.replace(after.read_info(), state="finished", exit_code=0))
    with _served(folder / "after") as (url, _):
        page = _opened(chromium, url, "after", COMPARISON, None)
        page.screenshot(path=IMAGES / f"{COMPARISON.name}.png")
        page.context.close()


def _of_a_live_run(chromium: Browser, scratch: Path) -> None:
    program, run = scratch / "heat_mpi", scratch / "runs" / "heat_mpi"
    source = ROOT / "examples" / "heat_mpi.c"
    compiler = ["mpicc", "-O2", "-g", "-finstrument-functions"]
    subprocess.run([*compiler, str(source), "-o", str(program), "-lm"], check=True)
    words = ["run", "--output", str(run), "--", "mpirun", "-n", "4"]
    words += [sys.executable, "-m", "chimbuko", "trace", str(program)]
    words += ["--seconds", str(LIVE_S), "--delays", "20", "--truth", str(scratch)]
    command = [sys.executable, "-m", "chimbuko", *words]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as live:
        assert live.stderr is not None
        url = _address_in(live.stderr)
        page = chromium.new_page(viewport={"width": LIVE.size[0], "height": LIVE.size[1]})
        page.goto(url)
        page.wait_for_selector(LIVE.wait_for)
        page.wait_for_timeout(1000 * 0.7 * LIVE_S)
        page.screenshot(path=IMAGES / f"{LIVE.name}.png")
        page.context.close()
        live.stderr.read()


def _of_a_workflow(chromium: Browser, scratch: Path) -> None:
    example = shutil.copytree(ROOT / "examples" / "workflow", scratch / "heat")
    command = [sys.executable, "-m", "chimbuko", "workflow", "workflow.toml", "-o", "heat-1"]
    subprocess.run(command, cwd=example, check=True, stderr=subprocess.DEVNULL)
    run = example / "heat-1" / "run"
    with _served(run) as (url, _):
        page = _opened(chromium, url, run.name, WORKFLOW, None)
        page.screenshot(path=IMAGES / f"{WORKFLOW.name}.png")
        page.context.close()


def _of_a_node(chromium: Browser, scratch: Path) -> None:
    program, run = scratch / "node", scratch / "runs" / "stopped"
    source = ROOT / "examples" / "scenarios" / "node.c"
    compiler = ["mpicc", "-g", "-O1", "-finstrument-functions", "-pthread"]
    subprocess.run([*compiler, str(source), "-o", str(program)], check=True)
    words = ["run", "--no-dashboard", "--period", "0.5", "--output", str(run), "--", "mpirun", "-n", "2"]
    words += [sys.executable, "-m", "chimbuko", "trace", str(program), "stopped", str(scratch)]
    subprocess.run([sys.executable, "-m", "chimbuko", *words], check=True, stderr=subprocess.DEVNULL)
    with open_run(RunDirectory(run)) as provenance:
        stopped = provenance.calls.page(CallFilter(function="kernel*"), limit=1).calls[0]
    with _served(run) as (url, _):
        for picture in (NODE, STOPPED):
            page = _opened(chromium, url, run.name, picture, stopped)
            clip = None
            if picture is STOPPED:
                box = page.locator("[data-panel=beside]").bounding_box()
                assert box is not None
                clip = {**box, "height": STOPPED_HEIGHT}
            page.screenshot(path=IMAGES / f"{picture.name}.png", clip=clip)
            page.context.close()


@contextmanager
def _served(run: Path) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """Address and process of a dashboard."""
    command = [sys.executable, "-u", "-m", "chimbuko", "view", str(run)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        try:
            yield _address_in(server.stdout), server
        finally:
            # Whatever went wrong: it is waited for.
            server.terminate()


def _address_in(output: IO[str]) -> str:
    """Of a dashboard, from the file that its output names."""
    return Path(next(line for line in output if "address is in " in line).split()[-1]).read_text()


def _opened(chromium: Browser, url: str, run: str, picture: Picture, call: CallSummary | None) -> Page:
    """The page in the state of a picture, once nothing on it moves any more."""
    width, height = picture.size
    context = chromium.new_context(
        viewport={"width": width, "height": height},
        color_scheme="dark" if picture.dark else "light",
        reduced_motion="reduce",
    )
    page = context.new_page()
    page.goto(url)
    named = (
        {}
        if call is None
        else {name: getattr(call, name) for name in ("id", "rank", "step", "function", "incident_id", "node")}
    )
    rest = picture.address.format(**named, rest=named.get("id", "").partition(":")[2])
    page.goto(f"{page.url.partition('/r/')[0]}/r/{run}{rest}")
    page.wait_for_selector(picture.wait_for)
    page.wait_for_load_state("networkidle")
    page.wait_for_function(
        "() => document.querySelector('.reading, .progress, .indexing') === null", timeout=100_000
    )
    # Charts measure themselves in one frame, and paint in the next.
    page.evaluate("() => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")
    return page


if __name__ == "__main__":
    main()
