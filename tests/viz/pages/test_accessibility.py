"""Every page can be used without seeing it, without a mouse, larger, in other colours, and without motion."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from chimbuko.runtime.protocol.broker import PrivateBroker
from chimbuko.runtime.runs.directory import RunDirectory
from chimbuko.viz.http.report import write_report
from tests.browsing import settled
from tests.simulated_runs import Noise, SimulatedFunction, SimulatedRun, log_normal
from tests.simulated_runs import make_run as simulate
from tests.thorough import first
from tests.viz.conftest import WEB, DashboardProcess, Watched, dashboard
from tests.viz.live_run import LiveRun
from tests.viz.made_run import FUNCTIONS, MadeRun, make_run
from tests.viz.pages.test_folder_of_runs import add_run, opened, served_folder
from tests.viz.traced_run import traced_run

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

CHARTS = Path(__file__).with_name("accessibility.js").read_text()
AXE = WEB / "node_modules" / "axe-core" / "axe.min.js"
RULES = """async () => {
  // A box learns from its layout, a frame later, whether it must take the focus.
  for (const _ of Array(4)) await new Promise(requestAnimationFrame);
  const { violations } = await axe.run(document, { resultTypes: ['violations'] });
  const told = ({ id, help, nodes }) => nodes.map((node) => `${id}: ${help}: ${node.html.slice(0, 160)}`);
  return violations.flatMap(told);
}"""
MOST_NODES = 2_500
PAGES = (
    "overview",
    "wall",
    "selection",
    "calls",
    "timeline",
    "flame",
    "call",
    "function",
    "node",
    "workflow",
    "health",
    "runs",
)


@pytest.fixture(scope="module")
def addresses(finished: MadeRun) -> dict[str, tuple[str, str]]:
    """Address of each page, and what is there when it has all it needs."""
    record = next(call for call in finished.anomalies if call.rank == 1)
    program, _, rest = record.id.partition(":")
    place = f"rank=0:1&step={record.step}"
    return {
        "overview": ("", ".panel"),
        "wall": ("?wall", ".wall [data-answer]"),
        "selection": ("?sel=0:1,0:2&zoom=10..40", ".panel"),
        "calls": (f"/calls?{place}", ".panel"),
        "timeline": (f"/timeline?call={record.id}", ".panel"),
        "flame": ("/flame", ".panel"),
        "call": (f"/call/{program}/{rest}", ".panel"),
        "function": (f"/fn?function={FUNCTIONS[2]}", ".panel"),
        "node": ("/node/node0", ".lane-chart svg"),
        "workflow": ("/workflow", "[data-panel=quantity] path"),
        "health": ("/health", ".streams td"),
        "runs": ("/compare", ".runs td"),
    }


@pytest.fixture(scope="module", params=["light", "dark"])
def watched(
    request: pytest.FixtureRequest, browser: Browser, stored_dashboard: DashboardProcess
) -> Iterator[Watched]:
    """A browser in one of the themes."""
    watched = Watched(browser, stored_dashboard, color_scheme=request.param)
    yield watched
    watched.close()


def open_page(watched: Watched, address: tuple[str, str]) -> Page:
    """A page that has read what it needs, and does not move any more."""
    rest, mark = address
    page = watched.page
    page.goto(f"{watched.base}r/heat{rest}")
    page.wait_for_selector(mark)
    page.wait_for_function("() => (document.querySelector('h1')?.innerText ?? '').trim() !== ''")
    settled(page)
    return page


def wrong_with(page: Page) -> list[str]:
    """What the page does wrong."""
    if not page.evaluate("'axe' in window"):
        page.evaluate(AXE.read_text())
    found: list[str] = page.evaluate(RULES) + page.evaluate(CHARTS)
    return found


@pytest.mark.parametrize("name", first(2, PAGES))
def test_nothing_is_wrong_with_a_page(
    watched: Watched, addresses: dict[str, tuple[str, str]], name: str
) -> None:
    page = open_page(watched, addresses[name])
    assert wrong_with(page) == []
    assert page.evaluate("document.querySelectorAll('*').length") <= MOST_NODES


@pytest.mark.parametrize("name", first(1, PAGES))
def test_nothing_is_wrong_with_its_tables(
    watched: Watched, addresses: dict[str, tuple[str, str]], name: str
) -> None:
    page = open_page(watched, addresses[name])
    twins = page.locator("[data-twin]").count()
    page.locator("h1").click()
    page.keyboard.press("t")
    page.wait_for_function(
        "twins => document.querySelectorAll('[data-twin] table').length >= twins", arg=twins
    )
    settled(page)
    assert page.locator("[data-twin] .panel-body [role=application]").count() == 0
    assert wrong_with(page) == []


@pytest.mark.parametrize("watched", ["light"], indirect=True)
@pytest.mark.parametrize("name", first(1, PAGES))
def test_tab_goes_through_all_of_it_and_out_again(
    watched: Watched, addresses: dict[str, tuple[str, str]], name: str
) -> None:
    page = open_page(watched, addresses[name])
    page.evaluate("document.activeElement?.blur()")
    wanted: int = page.evaluate(
        "[...document.querySelectorAll('a[href], button, input, select, [tabindex=\"0\"]')]"
        ".filter(e => e.tabIndex >= 0 && !e.disabled && e.checkVisibility({ visibilityProperty: true }))"
        ".length"
    )
    reached = set()
    for _ in range(2 * wanted + 10):
        page.keyboard.press("Tab")
        at = page.evaluate(
            """() => {
              const now = document.activeElement;
              if (now === document.body || now === null) return null;
              window.places ??= new Map();
              if (!window.places.has(now)) window.places.set(now, window.places.size);
              const { outlineStyle, outlineWidth } = getComputedStyle(now);
              const ring = outlineStyle === 'none' ? 0 : parseFloat(outlineWidth);
              return [window.places.get(now), ring, now.outerHTML.slice(0, 120)];
            }"""
        )
        if at is None:
            break
        assert at[1] >= 1, f"the focus is not seen on {at[2]}"
        reached.add(at[0])
    assert len(reached) >= wanted, "something is not reached by Tab"


@pytest.mark.parametrize("name", first(2, PAGES))
@pytest.mark.parametrize(
    "size",
    [pytest.param((640, 470), id="200 % of a window of 1280 by 940"), pytest.param((360, 740), id="phone")],
)
def test_in_a_small_window_panels_stand_below_each_other_and_nothing_is_cut_off(
    browser: Browser,
    stored_dashboard: DashboardProcess,
    addresses: dict[str, tuple[str, str]],
    name: str,
    size: tuple[int, int],
) -> None:
    watched = Watched(browser, stored_dashboard, viewport={"width": size[0], "height": size[1]})
    page = open_page(watched, addresses[name])
    beyond = page.evaluate(
        "() => [...document.querySelectorAll('header *, nav *, h1, main > *, main > * > .panel')]"
        ".filter(e => e.checkVisibility() && e.getBoundingClientRect().right > innerWidth + 1)"
        ".map(e => e.outerHTML.slice(0, 120))"
    )
    assert beyond == []
    assert page.evaluate("document.documentElement.scrollWidth") <= size[0]
    places = page.evaluate("[...document.querySelectorAll('main .panel')].map(p => p.offsetLeft)")
    assert len(set(places)) <= 1
    watched.close()


@pytest.mark.parametrize("name", ["overview", "health", "runs"])
def test_system_colours_and_no_motion(
    browser: Browser,
    stored_dashboard: DashboardProcess,
    addresses: dict[str, tuple[str, str]],
    name: str,
) -> None:
    watched = Watched(browser, stored_dashboard, forced_colors="active", reduced_motion="reduce")
    page = open_page(watched, addresses[name])
    page.wait_for_function("() => document.getAnimations().length === 0")
    borders = page.evaluate(
        "[...document.querySelectorAll('.panel')].map(p => getComputedStyle(p).borderTopStyle)"
    )
    assert set(borders) <= {"solid"}
    # What is open is marked by more than a ground, which is the system's here.
    if page.locator('.pages [aria-current="page"]').count():
        outline = page.locator('.pages [aria-current="page"]').evaluate(
            "e => getComputedStyle(e).outlineStyle"
        )
        assert outline == "solid"
    assert watched.errors == []
    watched.close()


@pytest.mark.thorough
def test_a_comparison_is_as_good(
    browser: Browser, page_files: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("compared")
    functions = (
        SimulatedFunction("relax_block [{heat2d.c} {47,0}]", log_normal(1800.0, 0.1)),
        SimulatedFunction("MPI_Waitall()", log_normal(400.0, 0.8)),
    )
    simulate(folder / "before", functions, SimulatedRun(1, Noise()))
    slower = SimulatedRun(2, Noise(), slower={functions[0].name: 1.2})
    simulate(folder / "after", functions, slower)
    with dashboard(MadeRun(RunDirectory(folder / "after"))) as process:
        for scheme in ("light", "dark"):
            watched = Watched(browser, process, color_scheme=scheme)
            watched.page.goto(f"{process.base}r/after/compare/before")
            watched.page.wait_for_selector("[data-shift]")
            settled(watched.page)
            assert wrong_with(watched.page) == []
            watched.close()


@pytest.mark.thorough
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_list_of_runs_is_as_good(browser: Browser, page_files: Path, tmp_path: Path, scheme: str) -> None:
    add_run(tmp_path, "etl", 1, exit_code=1)
    add_run(tmp_path, "heat", 2)
    with served_folder(tmp_path) as served, opened(browser, served, color_scheme=scheme) as page:
        assert wrong_with(page) == []
        page.get_by_label("Compare etl").check()
        page.get_by_label("Compare heat").check()
        page.get_by_role("link", name="Compare the two").wait_for()
        settled(page)
        assert wrong_with(page) == []
        page.get_by_label("Filter runs").fill("no such run")
        page.wait_for_selector("[aria-live] >> text=None match.", state="attached")
        assert wrong_with(page) == []
        page.set_viewport_size({"width": 640, "height": 470})
        assert page.evaluate("document.documentElement.scrollWidth") <= 640


@pytest.mark.thorough
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_report_is_as_good(
    browser: Browser, heat4_analysed: Path, page_files: Path, tmp_path: Path, scheme: str
) -> None:
    run = traced_run(tmp_path / "heat", heat4_analysed).directory
    write_report(run, tmp_path / "heat.html")
    context = browser.new_context(viewport={"width": 1280, "height": 720}, color_scheme=scheme)
    page = context.new_page()
    page.goto((tmp_path / "heat.html").as_uri())
    page.wait_for_selector(".heatmap canvas")
    settled(page)
    assert wrong_with(page) == []
    page.locator("[data-finding]").first.click()
    page.wait_for_selector(".lanes canvas")
    settled(page)
    assert wrong_with(page) == []
    for path, mark in (
        ("flame", ".flame-chart canvas"),
        ("health", ".streams td"),
        ("timeline", "text=This is not in the report"),
    ):
        page.evaluate("path => { location.hash = `r/heat/${path}` }", path)
        page.wait_for_selector(mark)
        settled(page)
        assert wrong_with(page) == [], path
    context.close()


def test_the_end_is_read_out(
    browser: Browser, stored_dashboard: DashboardProcess, addresses: dict[str, tuple[str, str]]
) -> None:
    watched = Watched(browser, stored_dashboard)
    page = open_page(watched, addresses["health"])
    page.wait_for_selector("[data-announcer]:has-text('Ended.')", state="attached")
    watched.close()


@pytest.mark.thorough
def test_new_anomalies_are_read_out_every_ten_seconds_at_most(
    browser: Browser, page_files: Path, tmp_path: Path, broker: PrivateBroker
) -> None:
    live = LiveRun(make_run(tmp_path / "heat", "running", 20), broker.url, 20)
    before = live.anomalies()
    with dashboard(live.made, broker.url) as process:
        watched = Watched(browser, process)
        page = open_page(watched, ("/health", ".streams td"))
        page.wait_for_selector(f'[data-fact="anomalies"] >> text="▲ {before}"')
        page.evaluate(
            """() => {
              window.told = [];
              const region = document.querySelector('[data-announcer]').lastElementChild;
              const note = () => window.told.push([region.innerText, performance.now()]);
              const what = { subtree: true, childList: true, characterData: true };
              new MutationObserver(note).observe(region, what);
            }"""
        )
        for _ in range(2):
            live.advance(5)
            page.wait_for_function(
                "all => window.told.some(([text]) => text.endsWith(`${all} in all.`))", arg=live.anomalies()
            )
        reported = [(text, at) for text, at in page.evaluate("window.told") if "new anomal" in text]
        watched.close()
    live.close()
    new = sum(int(text.split(" ")[0]) for text, _ in reported)
    assert new == live.anomalies() - before, "none is told twice, or not at all"
    assert all(later - earlier > 9_900 for (_, earlier), (_, later) in pairwise(reported))


@pytest.mark.parametrize("watched", ["light"], indirect=True)
def test_the_check_finds_what_is_wrong(watched: Watched, addresses: dict[str, tuple[str, str]]) -> None:
    page = open_page(watched, addresses["health"])
    page.evaluate(
        """() => {
          const main = document.querySelector('main');
          const add = (tag, change) => main.append(Object.assign(document.createElement(tag), change));
          add('button', {});
          add('h4', { textContent: 'too deep' });
          add('div', { tabIndex: 3, textContent: 'first' });
          const pale = document.createElement('p');
          pale.textContent = 'pale words';
          pale.style.color = 'rgb(128 128 128 / 40%)';
          main.append(pale, document.createElement('canvas'));
        }"""
    )
    found = "\n".join(wrong_with(page))
    for sentence in ("button-name", "heading-order", "tabindex", "color-contrast", "neither named"):
        assert sentence in found
