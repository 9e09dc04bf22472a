"""The timeline in a real browser: bars, anomalies, messages, launches, unknown times are the database's."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from chimbuko.core.calls.record import CallRecord
from chimbuko.core.calls.schema import Label
from chimbuko.runtime.protocol.broker import PrivateBroker
from tests.browsing import settled
from tests.viz.conftest import DashboardProcess, Watched, dashboard
from tests.viz.gpu_run import GPU_THREAD, KERNEL, KERNELS, LAUNCH, gpu_run
from tests.viz.live_run import LiveRun
from tests.viz.made_run import LOST_STEPS, STEP_US, ZERO_US, MadeRun, make_run
from tests.viz.traced_run import CALLS, traced_run

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

CHART = ".timeline .chart"
GUTTER, RIBBON, ROW = 84, 20, 20
ANOMALY_COLOUR, UNKNOWN_COLOUR = (194, 65, 12), (195, 202, 211)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> MadeRun:
    """A run with all that a timeline can show."""
    return gpu_run(tmp_path_factory.mktemp("gpu") / "heat")


@pytest.fixture(scope="module")
def process(made: MadeRun, page_files: Path) -> Iterator[DashboardProcess]:
    """Its dashboard."""
    with dashboard(made) as process:
        yield process


@pytest.fixture
def watched(browser: Browser, process: DashboardProcess) -> Iterator[Watched]:
    """A page; afterwards: no error, and no request to anybody else."""
    watched = Watched(browser, process, color_scheme="light")
    yield watched
    errors, requests = watched.errors, watched.requests
    watched.close()
    assert [error for error in errors if "404" not in error] == []
    assert {url.split("/")[2] for url in requests} == {process.base.split("/")[2]}


def opened(watched: Watched, query: str, wait: str = CHART) -> Page:
    """The timeline, drawn."""
    page = watched.page
    page.goto(f"{watched.base}r/heat/timeline?{query}")
    page.wait_for_selector(wait)
    if wait == CHART:
        page.wait_for_function("() => performance.getEntriesByName('first-useful-paint').length > 0")
    settled(page)
    return page


def table(page: Page, name: str) -> list[list[str]]:
    """Cells of one of the tables of the twin."""
    rows = f".{name} tbody tr"
    found: list[list[str]] = page.eval_on_selector_all(
        rows, "rows => rows.map(row => [...row.cells].map(cell => cell.innerText.trim()))"
    )
    return found


def shown(page: Page) -> tuple[int, int]:
    """Times at the edges, µs since the run's start."""
    text = page.get_attribute(CHART, "data-shown") or ""
    first, last = text.split("..")
    return int(first), int(last)


def place(page: Page, time_us: float, row: int) -> tuple[float, float]:
    """Where a time stands on a row, in the chart."""
    first, last = shown(page)
    wide = page.eval_on_selector(CHART, "chart => chart.clientWidth") - GUTTER
    return GUTTER + (time_us - ZERO_US - first) / (last - first) * wide, RIBBON + row * ROW + ROW / 2


def at(page: Page, time_us: float, row: int) -> tuple[float, float]:
    """The same in the window."""
    box = page.locator(CHART).bounding_box()
    assert box is not None
    x, y = place(page, time_us, row)
    return box["x"] + x, box["y"] + y


def colours(page: Page, x: float, y: float, width: int, height: int) -> list[tuple[int, int, int]]:
    """Pixels of a piece of the picture."""
    data: list[int] = page.evaluate(
        "([x, y, w, h]) => [...document.querySelector('.timeline-chart canvas')"
        ".getContext('2d').getImageData(x, y, w, h).data]",
        [round(x), round(y), width, height],
    )
    return [(data[i], data[i + 1], data[i + 2]) for i in range(0, len(data), 4) if data[i + 3] == 255]


def of_rank(made: MadeRun, rank: int, first: float, last: float) -> list[CallRecord]:
    """Records of a rank that are under way in a range of seconds."""
    begin, end = ZERO_US + first * 1e6, ZERO_US + last * 1e6
    return [r for r in made.records if r.rank == rank and r.entry_us <= end and r.exit_us >= begin]


def worst(records: list[CallRecord]) -> CallRecord:
    """The one that lost most."""
    return max(records, key=lambda record: record.severity_us)


def test_the_table_has_the_calls_of_the_records(watched: Watched, made: MadeRun) -> None:
    page = opened(watched, "rank=0:1&t=8000000..9000000&table=timeline", ".span-table tbody tr")
    records = of_rank(made, 1, 8, 9)
    rows = {row[6]: row for row in table(page, "span-table")}
    abnormal = {call for call, row in rows.items() if row[0].startswith("▲")}
    assert abnormal == {record.id for record in records if record.label is Label.ANOMALY} != set()
    for record in records:
        assert rows[record.id][2] == "1"
        for call in record.window:
            if call.entry_us <= ZERO_US + 9e6 and call.exit_us - call.entry_us >= 1024:
                assert call.id in rows


def test_messages_and_launches_are_those_of_the_records(watched: Watched, made: MadeRun) -> None:
    page = opened(watched, "rank=0:3&with=0:4&t=7450000..7900000&table=timeline", ".link-table tbody tr")
    rows = table(page, "link-table")
    assert ["message", "0:3, 0", "0:4, 0", "1", "65,536", "42", "+00:00:07.500", "+00:00:07.502"] in rows
    launches = [row for row in rows if row[0] == "launch"]
    assert len(launches) == KERNELS
    for row, kernel in zip(launches, [r for r in made.records if r.is_gpu], strict=True):
        assert row[1:3] == ["0:3, 0", f"0:3, {GPU_THREAD}"]
        seconds = (kernel.entry_us - ZERO_US) / 1e6
        assert row[7] == f"+00:00:{seconds:06.3f}"
        assert kernel.launch_stack[0].function == LAUNCH and kernel.function == KERNEL


def test_abnormal_calls_are_outlined_and_stand_in_the_ribbon(watched: Watched, made: MadeRun) -> None:
    record = worst(of_rank(made, 1, 8, 9))
    page = opened(watched, f"rank=0:1&call={record.id}")
    page.wait_for_selector(".chosen-head strong")
    settled(page)
    row = record.depth
    x, y = place(page, (record.entry_us + record.exit_us) / 2, row)
    assert ANOMALY_COLOUR in colours(page, x, y - ROW / 2, 1, 4)
    assert ANOMALY_COLOUR in colours(page, x, y + ROW / 2 - 4, 1, 4)
    x, _ = place(page, record.entry_us, row)
    assert ANOMALY_COLOUR in colours(page, x - 4, 0, 9, RIBBON)
    headline = page.inner_text("h1")
    assert "lost" in headline and f"rank {record.rank}" in headline


def test_every_abnormal_call_is_seen_in_a_picture_of_all(watched: Watched, made: MadeRun) -> None:
    page = opened(watched, "rank=0:1")
    for record in (r for r in made.anomalies if r.rank == 1):
        x, y = place(page, record.entry_us, record.depth)
        assert ANOMALY_COLOUR in colours(page, x - 2, y - ROW / 2, 5, ROW), record.id


def test_what_was_not_kept_and_what_was_lost_look_different(watched: Watched, made: MadeRun) -> None:
    page = opened(watched, "rank=0:2&t=18000000..26000000")
    lost = LOST_STEPS[2]
    x, y = place(page, ZERO_US + (lost[0] + 0.2) * STEP_US, 3)
    in_lost = colours(page, x, y, 40, 4)
    assert in_lost.count(UNKNOWN_COLOUR) > 0.5 * len(in_lost) > 0
    x, y = place(page, ZERO_US + 18.3 * STEP_US, 3)
    not_kept = colours(page, x, y, 40, 4)
    hatched = [colour for colour in not_kept if colour != (255, 255, 255)]
    assert 0 < len(hatched) < 0.5 * 160
    assert "hatched, or bands of their time: normal calls, analysed but not kept" in page.inner_text(
        ".timeline .hidden >> nth=0"
    )


def test_a_call_is_reported_selected_and_opened(watched: Watched, made: MadeRun) -> None:
    record = worst(of_rank(made, 1, 8, 9))
    page = opened(watched, "rank=0:1&t=8000000..9000000")
    x, y = at(page, (record.entry_us + record.exit_us) / 2, record.depth)
    page.mouse.move(x, y)
    page.wait_for_selector(".tip")
    settled(page)
    tip = page.inner_text(".tip")
    for text in ("inclusive", "exclusive", "expected", "lost, score", "rank 1 · thread 0", "to +00:00:08"):
        assert text in tip
    assert len(tip.splitlines()) <= 8
    page.mouse.click(x, y)
    page.wait_for_function(f"() => location.search.includes('call={record.id}')")
    page.wait_for_selector(".chosen-head a:text('Why')")
    settled(page)
    page.mouse.dblclick(x, y)
    page.wait_for_function(f"() => location.pathname.endsWith('/call/0/{record.id.partition(':')[2]}')")
    page.go_back()
    page.wait_for_selector(CHART)
    assert f"call={record.id}" in page.url


def test_everything_is_done_by_keys(watched: Watched, made: MadeRun) -> None:
    page = opened(watched, "rank=0:1&t=8000000..9000000")
    abnormal = sorted((r for r in made.anomalies if r.rank == 1), key=lambda r: r.entry_us)
    page.keyboard.press("]")
    page.wait_for_function("() => new URLSearchParams(location.search).get('call') !== null")
    first = page.url
    page.keyboard.press("]")
    page.wait_for_function("url => location.href !== url", arg=first)
    settled(page)
    calls = [re.search(r"call=([\d:]+)", url.replace("%3A", ":")) for url in (first, page.url)]
    ids = [match[1] for match in calls if match]
    place_of = [record.id for record in abnormal].index(ids[0])
    assert abnormal[place_of + 1].id == ids[1]
    page.keyboard.press("[")
    page.wait_for_function("id => location.search.replaceAll('%3A', ':').includes(id)", arg=ids[0])
    settled(page)
    before = shown(page)
    for key, is_wider in (("w", False), ("s", True)):
        page.keyboard.press(key)
        page.wait_for_function(
            "old => document.querySelector('.timeline .chart').dataset.shown !== old",
            arg=f"{before[0]}..{before[1]}",
        )
        settled(page)
        now = shown(page)
        assert (now[1] - now[0] > before[1] - before[0]) == is_wider
        before = now
    page.keyboard.press("d")
    page.wait_for_function(
        "first => Number(document.querySelector('.timeline .chart').dataset.shown.split('..')[0]) > first",
        arg=before[0],
    )
    page.keyboard.press("0")
    page.wait_for_function("() => document.querySelector('.timeline .chart').dataset.shown === '0..60000000'")
    page.keyboard.press("f")
    page.wait_for_function("() => document.querySelector('.timeline .chart').dataset.shown !== '0..60000000'")
    settled(page)
    record = next(record for record in abnormal if record.id == ids[0])
    first_us, last_us = shown(page)
    assert first_us <= record.entry_us - ZERO_US < last_us < first_us + 3 * record.inclusive_us
    page.keyboard.press("p")
    parent = record.call_stack[1].id
    page.wait_for_function("id => location.search.replaceAll('%3A', ':').includes(id)", arg=parent)
    settled(page)
    page.focus(CHART)
    # The first one leads to the call that is chosen; spans that arrive meanwhile leave it pointed at.
    for _ in range(2):
        page.keyboard.press("ArrowDown")
        settled(page)
    assert page.get_attribute(CHART, "data-pointed") not in (None, "", parent)
    page.wait_for_selector(".tip")
    page.keyboard.press("t")
    page.wait_for_selector(".span-table")


def test_a_message_is_followed_to_a_rank_that_is_added(watched: Watched, made: MadeRun) -> None:
    (sender,) = (r for r in made.records if r.function == "exchange_rows" and r.rank == 3)
    page = opened(watched, f"call={sender.id}")
    page.wait_for_selector(".chosen-head strong")
    settled(page)
    page.keyboard.press("o")
    page.wait_for_selector(".chip:has-text('rank 4')")
    assert "with=0:4" in page.url.replace("%3A", ":")
    page.wait_for_function(
        "() => performance.getEntriesByType('resource').some(one => one.name.includes('rank=0%3A4'))"
    )
    (receiver,) = (r for r in made.records if r.function == "exchange_rows" and r.rank == 4)
    # The key does nothing until the spans of rank 4 are there.
    settled(page)
    page.keyboard.press("o")
    page.wait_for_function("id => location.search.replaceAll('%3A', ':').includes(id)", arg=receiver.id)
    page.click(".chip:has-text('rank 4')")
    page.wait_for_function("() => !location.search.includes('with=')")


def test_messages_are_drawn_for_the_call_under_the_pointer_or_all_where_asked(
    watched: Watched, made: MadeRun
) -> None:
    (sender,) = (r for r in made.records if r.function == "exchange_rows" and r.rank == 3)
    page = opened(watched, "rank=0:3&with=0:4&t=7450000..7900000")
    settled(page)
    assert page.get_attribute(CHART, "data-arrows") == "0"
    x, _ = at(page, sender.entry_us + sender.inclusive_us / 2, 0)
    for depth in range(8):
        page.mouse.move(x, at(page, sender.entry_us, depth)[1])
        if page.get_attribute(CHART, "data-pointed") == sender.id:
            break
    page.wait_for_function(f"() => Number(document.querySelector('{CHART}').dataset.arrows) > 0")
    page.mouse.move(0, 0)
    page.wait_for_function(f"() => document.querySelector('{CHART}').dataset.arrows === '0'")
    page.keyboard.press("g")
    page.wait_for_function(f"() => Number(document.querySelector('{CHART}').dataset.arrows) > 1")
    assert "messages=true" in page.url


def test_mouse_zooms_and_pans_and_the_address_keeps_it(watched: Watched, made: MadeRun) -> None:
    page = opened(watched, "rank=0:1&t=8000000..9000000")
    x0, y = at(page, ZERO_US + 8.2e6, 5)
    x1, _ = at(page, ZERO_US + 8.6e6, 5)
    page.mouse.move(x0, y)
    page.mouse.down()
    page.mouse.move((x0 + x1) / 2, y)
    page.mouse.move(x1, y)
    page.mouse.up()
    page.wait_for_function("() => location.search.includes('t=8') && !location.search.includes('t=8000000')")
    settled(page)
    first, last = shown(page)
    assert abs(first - 8.2e6) < 5000 and abs(last - 8.6e6) < 5000
    page.keyboard.down("Shift")
    page.mouse.move(x0, y)
    page.mouse.down()
    page.mouse.move(x0 + 50, y)
    page.mouse.move(x0 + 100, y)
    page.mouse.up()
    page.keyboard.up("Shift")
    page.wait_for_function(
        "first => Number(document.querySelector('.timeline .chart').dataset.shown.split('..')[0]) < first",
        arg=first,
    )
    settled(page)
    moved = shown(page)
    assert abs((moved[1] - moved[0]) - (last - first)) < 5
    x, _ = at(page, ZERO_US + 8.3e6, 5)
    page.mouse.move(x, y)
    page.keyboard.down("Control")
    page.mouse.wheel(0, -300)
    page.keyboard.up("Control")
    page.wait_for_function(
        "old => document.querySelector('.timeline .chart').dataset.shown !== old",
        arg=f"{moved[0]}..{moved[1]}",
    )
    settled(page)
    zoomed = shown(page)
    assert zoomed[1] - zoomed[0] < 0.8 * (moved[1] - moved[0])
    assert abs(at(page, ZERO_US + 8.3e6, 5)[0] - x) < 3
    page.wait_for_function(
        "() => location.search.includes(`t=${document.querySelector('.timeline .chart').dataset.shown}`)"
    )
    address = page.url
    kept = shown(page)
    page.goto(address)
    page.wait_for_selector(CHART)
    page.wait_for_function(
        f"() => document.querySelector('.timeline .chart').dataset.shown === '{kept[0]}..{kept[1]}'"
    )


def test_times_of_which_nothing_was_kept_are_folded(watched: Watched, made: MadeRun) -> None:
    page = opened(watched, "rank=0:1")
    record = next(r for r in made.anomalies if r.rank == 1 and r.entry_us > ZERO_US + 20 * STEP_US)
    x, y = at(page, (record.entry_us + record.exit_us) / 2, record.depth)
    page.keyboard.press("x")
    page.wait_for_function("() => location.search.includes('fold=true')")
    page.wait_for_selector(".timeline button:text('Fold gaps')[aria-pressed=true]")
    page.mouse.move(x, y)
    page.keyboard.press("x")
    page.wait_for_function("() => !location.search.includes('fold')")


def test_of_a_time_without_anomalies_it_says_so(watched: Watched) -> None:
    page = opened(watched, "rank=0:4&t=30500000..30900000")
    page.wait_for_selector("h1:has-text('no abnormal call in this time')")


def test_a_rank_that_is_not_there_is_said_to_be_missing(watched: Watched) -> None:
    page = opened(watched, "rank=0:77", ".timeline .empty")
    assert "rank 0:77" in page.inner_text(".timeline .empty")


def test_the_whole_of_a_recorded_trace_is_shown(
    browser: Browser, page_files: Path, tmp_path: Path, heat4_analysed: Path
) -> None:
    traced = traced_run(tmp_path / "heat", heat4_analysed)
    with dashboard(traced) as process:
        watched = Watched(browser, process, color_scheme="light")
        page = watched.page
        page.goto(f"{watched.base}r/heat/timeline?rank=0:1&with=0:2")
        # First what is stored, then, when the trace was read by a worker, all of it.
        page.wait_for_selector("[data-source]:has-text('All calls of the recorded trace')")
        page.click(".timeline button:text('Table')")
        page.wait_for_selector(".span-table tbody tr")
        calls: dict[str, Any] = page.evaluate(
            "fetch('api/v1/timeline?rank=0:1').then(answer => answer.json())"
        )
        assert sum(sum(row["counts"]) for row in calls["rows"]) == CALLS[1]
        assert watched.errors == []
        watched.close()


@pytest.mark.thorough
def test_a_run_that_goes_on_shows_what_comes(
    browser: Browser, page_files: Path, tmp_path: Path, broker: PrivateBroker
) -> None:
    run = LiveRun(make_run(tmp_path / "heat", "running", 20), broker.url, 20)
    with dashboard(run.made, run.broker_url) as process:
        watched = Watched(browser, process, color_scheme="light")
        page = watched.page
        page.goto(f"{watched.base}r/heat/timeline?rank=0:1&table=timeline")
        marked = (
            "[...document.querySelectorAll('.span-table td.name')]"
            ".filter(cell => cell.innerText.startsWith('▲')).length"
        )
        for until in (20, 40):
            run.advance(until - run.next)
            page.wait_for_function(f"count => {marked} === count", arg=run.anomalies(1))
        assert watched.errors == []
        watched.close()
    run.close()


def test_lines_of_any_rank_are_added_by_the_menu_and_dropped(watched: Watched) -> None:
    page = opened(watched, "rank=0:1")
    page.get_by_role("button", name="Add the lines of another rank").click()
    page.get_by_role("menuitem", name="rank 0", exact=True).click()
    page.wait_for_url("**with=0:0*")
    page.get_by_label("Remove rank 0:0").click()
    page.wait_for_function("() => !location.search.includes('with=')")


def test_a_selected_time_has_its_functions_and_its_address(watched: Watched, made: MadeRun) -> None:
    page = opened(watched, "rank=0:1&t=8000000..9000000")
    page.keyboard.press("e")
    (x, y), (x1, y1) = at(page, ZERO_US + 8.2e6, 0), at(page, ZERO_US + 8.6e6, 1)
    page.mouse.move(x, y)
    page.mouse.down()
    page.mouse.move(x1, y1, steps=3)
    page.mouse.up()
    page.wait_for_selector(".selected tbody tr")
    first, last = map(int, (page.get_attribute(CHART, "data-box") or "").split(".."))
    assert (first, last) == pytest.approx((8.2e6, 8.6e6), abs=5e3)
    functions = selected(page)
    # Of the windows of recorded calls: what was under way in this time, and nothing else.
    begin, end = ZERO_US + first, ZERO_US + last
    under_way = {
        call.id: call.function
        for record in of_rank(made, 1, 0, 60)
        for call in record.window
        if call.entry_us < end and call.exit_us > begin
    }
    counted = Counter(under_way.values())
    assert {name: functions[name] for name in counted} == counted != {}
    callers = {frame.function for record in of_rank(made, 1, 0, 60) for frame in record.call_stack}
    assert functions.keys() - counted.keys() <= callers
    # The address has it, and F, Esc and M act on it.
    address = page.url
    assert f"box={first}..{last}" in address
    page.goto(address)
    page.wait_for_selector(".selected tbody tr")
    assert selected(page) == functions
    page.keyboard.press("Escape")
    page.wait_for_selector(".chosen")
    page.keyboard.press("m")
    page.wait_for_selector(".selected tbody tr")
    assert page.get_attribute(CHART, "data-box") == page.get_attribute(CHART, "data-shown")
    page.locator(CHART).focus()
    before = shown_box(page)
    page.keyboard.press("Shift+ArrowLeft")
    page.wait_for_function(
        "now => document.querySelector('.timeline .chart').dataset.box !== now", arg=before
    )


def selected(page: Page) -> dict[str, int]:
    """Functions of the selected time, and their calls."""
    names = page.eval_on_selector_all(
        ".selected [data-function-link]", "links => links.map(link => link.dataset.functionLink)"
    )
    return {name: int(cells[1]) for name, cells in zip(names, table(page, "selected"), strict=True)}


def shown_box(page: Page) -> str:
    """Selected time, as the chart has it."""
    return page.get_attribute(CHART, "data-box") or ""
