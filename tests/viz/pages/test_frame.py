"""What stands around every page: state, search, trail, pages, keys, appearance."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest

from chimbuko.provenance.query.filters import CallFilter
from chimbuko.provenance.query.run import Provenance, open_run
from tests.browsing import settled
from tests.viz.conftest import DashboardProcess, Watched
from tests.viz.made_run import FUNCTIONS, ZERO_US, MadeRun

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

SHIFTS = """latest_ms => new Promise(tell => {
    const isEarly = shift => !shift.hadRecentInput && shift.startTime < latest_ms;
    const add = list => list.getEntries().filter(isEarly).reduce((sum, shift) => sum + shift.value, 0);
    new PerformanceObserver(list => tell(add(list))).observe({ type: 'layout-shift', buffered: true });
    setTimeout(() => tell(0), 300);
})"""
"""How much of a page moved by itself until some moment."""
LATE = """{
    const ask = window.fetch;
    window.fetch = async (...asked) => {
        const isLate = /grid|step-times|streams|gaps|metadata/.test(asked[0]);
        if (isLate) await new Promise(go => setTimeout(go, 1500));
        return ask(...asked);
    };
}"""
"""Makes answers late for which a page does not wait before it is shown."""
SEARCH = '.search [role="combobox"]'


@pytest.fixture
def watched(browser: Browser, stored_dashboard: DashboardProcess) -> Iterator[Watched]:
    """A browser on the dashboard; afterwards: no error."""
    watched = Watched(browser, stored_dashboard)
    watched.page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    yield watched
    errors = watched.errors
    watched.close()
    assert errors == []


@pytest.fixture
def page(watched: Watched) -> Page:
    """The run's health: nothing on it takes the focus or changes by itself."""
    watched.page.goto(watched.base + "r/heat/health")
    watched.page.wait_for_selector(".pipeline")
    settled(watched.page)
    return watched.page


@pytest.fixture(scope="module")
def provenance(finished: MadeRun) -> Iterator[Provenance]:
    """What the store says."""
    with open_run(finished.directory) as provenance:
        yield provenance


def trail(page: Page) -> list[str]:
    """Where the page says that it is."""
    return page.locator(".trail li > :first-child").all_inner_texts()


def test_the_bar_says_how_the_run_is(page: Page, finished: MadeRun) -> None:
    facts = {
        fact.get_attribute("data-fact"): fact.inner_text().split(None, 1)[-1]
        for fact in page.locator("[data-fact]").all()
    }
    assert facts == {
        "run clock": "clock 1:00",
        "step": "59",
        "steps lost": "lost 1.33 %",
        "ranks": "5/5",
        "anomalies": f"▲ {len(finished.anomalies)}",
    }
    assert page.locator("[data-state]").get_attribute("data-state") == "ended"
    assert "Finished, exit 0." in page.locator("[data-state]").inner_text()
    assert page.locator(".banner").count() == 0, "an end is no alarm"


def test_a_search_finds_a_function_by_keys_alone(page: Page) -> None:
    page.keyboard.press("/")
    page.wait_for_selector(f"{SEARCH}:focus")
    page.keyboard.type("waitall")
    page.wait_for_selector('[role="option"] >> text=MPI_Waitall')
    settled(page)
    chosen = page.locator(SEARCH).get_attribute("aria-activedescendant")
    assert page.locator(f'[id="{chosen}"]').get_attribute("aria-selected") == "true"
    page.keyboard.press("Enter")
    page.wait_for_url("**/r/heat/fn?function=MPI_Waitall*")


def test_a_search_knows_ranks_steps_calls_and_pages(page: Page, finished: MadeRun) -> None:
    call = finished.anomalies[0].id
    program, _, rest = call.partition(":")
    for text, address in (
        ("0:3", "**/r/heat/calls?rank=0:3"),
        ("step 20", "**/r/heat/calls?step=20"),
        (call, f"**/r/heat/call/{program}/{rest}*"),
        ("health", "**/r/heat/health*"),
    ):
        page.keyboard.press("/")
        page.keyboard.type(text)
        page.wait_for_function(
            "text => document.querySelector('[role=option][aria-selected=true]')"
            "?.innerText.toLowerCase().includes(text)",
            arg=text,
        )
        page.keyboard.press("Enter")
        page.wait_for_url(address)


def test_arrows_choose_what_was_found_and_escape_leaves(page: Page) -> None:
    page.keyboard.press("/")
    page.wait_for_selector('[role="option"]')
    settled(page)
    names = page.locator(".found-text").all_inner_texts()
    offered = ["Overview", "Calls", "Timeline", "Flame graph", "Nodes", "Workflow", "Health"]
    assert names == [*offered, "Compare", "History"]
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowUp")
    page.wait_for_selector('[aria-selected="true"] .found-text >> text=Calls')
    page.keyboard.press("Escape")
    page.wait_for_selector('[role="option"]', state="detached")
    page.keyboard.press("Escape")
    page.wait_for_selector(f"{SEARCH}:focus", state="detached")
    page.keyboard.press("/")
    page.keyboard.type("no such thing")
    page.wait_for_selector(".found-none")
    assert page.locator(".found").bounding_box() is not None


def test_the_trail_leads_up_from_a_call(watched: Watched, finished: MadeRun) -> None:
    page = watched.page
    record = next(call for call in finished.anomalies if call.function == FUNCTIONS[2])
    program, rank, step, row = record.id.split(":")
    page.goto(f"{watched.base}r/heat/call/{program}/{rank}:{step}:{row}")
    page.wait_for_selector(f".trail >> text=MPI_Waitall #{row}")
    assert trail(page) == ["heat", "heat2d", f"rank {rank}", f"step {step}", f"MPI_Waitall #{row}"]
    page.locator("h1").click()
    for address in (f"**/calls?step={step}&rank=0:{rank}", f"**/calls?rank=0:{rank}", "**/r/heat?rank=*"):
        page.keyboard.press("u")
        page.wait_for_url(address)


def test_the_trail_lists_what_stands_beside(
    watched: Watched, finished: MadeRun, provenance: Provenance
) -> None:
    page = watched.page
    record = finished.anomalies[0]
    program, rank, step, row = record.id.split(":")
    page.goto(f"{watched.base}r/heat/call/{program}/{rank}:{step}:{row}")

    def beside(name: str) -> list[str]:
        page.get_by_role("button", name=f"Instead of {name}", exact=True).click()
        page.wait_for_selector('[role="menuitem"]:focus')
        settled(page)
        texts = page.locator('.menu:popover-open [role="menuitem"]').all_inner_texts()
        page.keyboard.press("Escape")
        return texts

    here = CallFilter(program=0, rank=record.rank, step_min=record.step, step_max=record.step)
    calls = provenance.calls.page(here, "severity_us").calls
    # The function stands there, too, once the call is known.
    call_here = page.locator(".trail [aria-current]", has_text=re.compile(rf"\S #{row}$"))
    found = beside(call_here.inner_text())
    assert [text.split("#")[1].split(" ")[0] for text in found] == [call.id.split(":")[3] for call in calls]
    ranks = sorted(provenance.steps.rank_statistics(), key=lambda row: (-row.total, row.rank))
    assert beside(f"rank {rank}") == [f"rank {row.rank} · ▲ {row.total}" for row in ranks]
    near = [count for count in finished.steps_of(record.rank) if count.anomalies]
    assert all(
        text in {f"step {count.step} · ▲ {count.anomalies}" for count in near}
        for text in beside(f"step {step}")
    )
    assert beside("heat2d") == ["heat2d (program 0)"]
    assert [text.split(":")[0] for text in beside("heat")][-2:] == ["Compare", "History"]


def test_filters_are_chips_that_can_be_dropped(watched: Watched) -> None:
    page = watched.page
    page.goto(f"{watched.base}r/heat/calls?rank=0:1&step=10..19&severity_us=2000")
    page.wait_for_selector(".chip")
    settled(page)
    assert [chip.split(" ×")[0] for chip in page.locator(".chip").all_inner_texts()] == [
        "rank 1",
        "step 10..19",
        "severity ≥ 2 ms",
    ]
    page.get_by_role("button", name="Drop filter step 10..19").click()
    page.wait_for_url("**/calls?rank=0:1&severity_us=2000")


def test_pages_are_links_and_the_open_one_is_marked(page: Page) -> None:
    for name, address in (("Timeline", "timeline"), ("Calls", "calls"), ("Compare", "compare")):
        page.locator(".pages").get_by_role("link", name=name).click()
        page.wait_for_url(f"**/r/heat/{address}")
        page.wait_for_selector(f'.pages [aria-current="page"]:text-is("{name}")')
    page.go_back()
    page.wait_for_url("**/r/heat/calls")
    page.keyboard.press("h")
    page.wait_for_url("**/r/heat/health")
    page.keyboard.press("v")
    page.wait_for_url("**/r/heat/compare")


def test_links_commands_and_views_are_copied(page: Page, finished: MadeRun) -> None:
    directory = finished.directory.path

    def copied() -> str:
        page.wait_for_selector(".notice >> text=Copied")
        return str(page.evaluate("navigator.clipboard.readText()"))

    page.keyboard.press("c")
    assert copied() == page.url
    page.goto(page.url.replace("health", "calls?rank=0:1&sort=score"))
    page.wait_for_selector('[data-fact="step"]')
    settled(page)
    page.keyboard.press("Shift+C")
    page.wait_for_selector(".notice >> text=chimbuko query")
    assert copied().startswith(f"chimbuko query {directory} --program 0 --rank 1")
    page.get_by_role("button", name="Copy link, command or view").click()
    page.get_by_role("menuitem", name="Command that opens this view").click()
    page.wait_for_selector(".notice >> text=--open")
    assert copied() == f"chimbuko view {directory} --open '/r/heat/calls?rank=0:1&sort=score'"


def test_letters_can_be_switched_off_and_stay_so(page: Page) -> None:
    page.keyboard.press("?")
    page.wait_for_selector("dialog[open]")
    page.get_by_label("letters and signs act as keys").uncheck()
    page.keyboard.press("Escape")
    page.wait_for_selector("dialog[open]", state="detached")
    page.reload()
    page.wait_for_selector(".pipeline")
    for key in ("v", "/", "?", "t"):
        page.keyboard.press(key)
    settled(page)
    assert page.url.endswith("/r/heat/health")
    assert page.locator(f"{SEARCH}:focus, dialog[open]").count() == 0
    page.get_by_role("button", name="Help").click()
    page.get_by_label("letters and signs act as keys").check()
    page.keyboard.press("Escape")
    page.wait_for_selector("dialog[open]", state="detached")
    page.keyboard.press("v")
    page.wait_for_url("**/compare")


def test_times_are_read_as_on_the_wall_with_a_key(watched: Watched) -> None:
    page = watched.page
    page.goto(watched.base + "r/heat?table=heatmap")
    page.wait_for_selector(".heatmap tbody tr")
    settled(page)
    cell = page.locator(".heatmap tbody tr").first.locator("td")
    since_start = [text for text in cell.all_inner_texts() if text.startswith("+00:")]
    assert len(since_start) == 1
    page.keyboard.press("z")
    start_s = ZERO_US / 1e6 + seconds_of(since_start[0])
    expected = datetime.fromtimestamp(start_s, UTC).strftime("%H:%M:%S.%f")[:-3] + " Z"
    page.wait_for_selector(f".heatmap tbody tr >> nth=0 >> text={expected}")
    page.reload()
    page.wait_for_selector(f".heatmap tbody tr >> nth=0 >> text={expected}")
    page.keyboard.press("Z")
    page.wait_for_selector(f'.heatmap tbody tr >> nth=0 >> text="{since_start[0]}"')


def seconds_of(text: str) -> float:
    """Of a time like ``+01:02:03.456``."""
    hours, minutes, seconds = text.lstrip("+").split(":")
    return 3600 * int(hours) + 60 * int(minutes) + float(seconds)


def test_letters_are_text_in_fields(page: Page) -> None:
    page.get_by_label("Find", exact=True).fill("")
    page.get_by_label("Find", exact=True).press_sequentially("vch?")
    assert page.get_by_label("Find", exact=True).input_value() == "vch?"
    settled(page)
    assert page.url.endswith("/r/heat/health")


@pytest.mark.parametrize(("choice", "scheme"), [("dark", "dark"), ("light", "light"), ("projector", "light")])
def test_the_appearance_is_chosen_and_remembered(page: Page, choice: str, scheme: str) -> None:
    page.get_by_label("Appearance").select_option(choice)
    page.reload()
    page.wait_for_selector(".pipeline")
    settled(page)
    assert page.evaluate("document.documentElement.style.colorScheme") == scheme
    assert page.get_by_label("Appearance").input_value() == choice
    height = page.locator(".bar").evaluate("bar => bar.getBoundingClientRect().height")
    assert height == pytest.approx(60 if choice == "projector" else 48, abs=2)


def test_a_projector_shows_tips_beside_what_they_are_about(page: Page) -> None:
    page.get_by_label("Appearance").select_option("projector")
    settled(page)
    page.locator("[data-lost]").scroll_into_view_if_needed()
    lost = page.locator("[data-lost]").bounding_box()
    assert lost is not None
    page.mouse.move(lost["x"] + lost["width"] / 2, lost["y"] + lost["height"] / 2)
    page.wait_for_selector(".tip >> text=4 steps lost")
    settled(page)
    tip = page.locator(".tip").bounding_box()
    assert tip is not None
    assert 0 < tip["x"] - (lost["x"] + lost["width"]) < 24
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


@pytest.mark.parametrize("rest", ["", "/calls", "/timeline?rank=0:1", "/health", "/compare"])
def test_a_projector_shows_whole_pages(watched: Watched, rest: str) -> None:
    page = watched.page
    page.goto(f"{watched.base}r/heat{rest}")
    page.get_by_label("Appearance").select_option("projector")
    page.wait_for_selector("main, .panel")
    settled(page)
    assert page.evaluate("document.documentElement.scrollWidth") <= 1280
    assert page.evaluate("getComputedStyle(document.documentElement).zoom") == "1.25"


@pytest.mark.parametrize(("rest", "wide"), [("", 360), ("/health", 360), ("/timeline?rank=0:1", 1440)])
def test_nothing_moves_while_a_page_is_read(
    browser: Browser, stored_dashboard: DashboardProcess, rest: str, wide: int
) -> None:
    watched = Watched(browser, stored_dashboard, viewport={"width": wide, "height": 900})
    page = watched.page
    page.goto(f"{watched.base}r/heat{rest}")
    page.wait_for_selector(".panel")
    settled(page)
    assert page.evaluate(SHIFTS, 1000) <= 0.02
    watched.close()


@pytest.mark.parametrize("rest", ["", "/health"])
@pytest.mark.parametrize("wide", [390, 1280])
def test_nothing_moves_when_slow_answers_come(
    browser: Browser, stored_dashboard: DashboardProcess, rest: str, wide: int
) -> None:
    watched = Watched(browser, stored_dashboard, viewport={"width": wide, "height": 600})
    # Pages that are lent go on with what was added to them.
    page = watched.page.context.new_page()
    try:
        page.add_init_script(LATE)
        page.goto(f"{watched.base}r/heat{rest}")
        settled(page)
        assert page.evaluate(SHIFTS, 60_000) <= 0.02
    finally:
        page.close()
        watched.close()


def test_script_and_style_are_small(page: Page) -> None:
    entries = "performance.getEntriesByType('resource').map(e => [e.name, e.encodedBodySize, e.startTime])"
    code = [entry for entry in page.evaluate(entries) if entry[0].endswith((".js", ".css"))]
    # Three seconds after that of the page itself, the code of all other pages is asked for.
    first_ms = min(start_ms for name, _, start_ms in code if "/page-" in name)
    sizes = [size for _, size, start_ms in code if start_ms < first_ms + 2000]
    assert len(sizes) >= 2
    assert 0 < sum(sizes) <= 160_000


def test_a_page_that_does_not_come_says_so(browser: Browser, stored_dashboard: DashboardProcess) -> None:
    watched = Watched(browser, stored_dashboard)
    watched.page.route("**/assets/page-*.js", lambda route: route.abort())
    watched.page.goto(watched.base + "r/heat/health")
    assert "Reload" in watched.page.locator(".page > .empty").inner_text()
    watched.close()


def test_an_address_without_a_page_leads_back(watched: Watched, page: Page) -> None:
    start = page.url.partition("r/heat")[0]
    for path in ("r/heat/nothing", "r/other", "nothing/at/all"):
        page.goto(start + path)
        page.wait_for_selector("[data-answer] >> text=There is no page at this address.")
        page.wait_for_function("() => document.title === 'No such page · Chimbuko'")
    page.get_by_role("link", name="Go to the start").click()
    page.wait_for_url("**/r/heat")
    page.wait_for_selector(".heatmap canvas")
    others = [error for error in watched.errors if "404" not in error]
    watched.errors[:] = others
