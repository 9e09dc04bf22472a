"""The function view of a stored run, in a real browser: marks, list and filters are the database's."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

from chimbuko.core.calls.schema import Label
from chimbuko.provenance.query.filters import CallFilter, CallSummary
from chimbuko.provenance.query.run import Provenance
from tests.browsing import settled
from tests.thorough import first
from tests.viz.calls.asking import CHART, duration, every, opened, tip
from tests.viz.conftest import DashboardProcess, Watched
from tests.viz.made_run import ZERO_US, MadeRun

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

POINTED = f"document.querySelector('{CHART}').dataset.pointed"

AXES: dict[str, Callable[[CallSummary], float | None]] = {
    "entry": lambda call: call.entry_us,
    "exit": lambda call: call.exit_us or None,
    "inclusive": lambda call: call.inclusive_us,
    "exclusive": lambda call: call.exclusive_us,
    "severity": lambda call: call.severity_us,
    "score": lambda call: call.score,
    "label": lambda call: call.label is Label.NORMAL,
    "children": lambda call: call.children,
    "messages": lambda call: call.messages_count,
    "thread": lambda call: call.thread,
    "gpu": lambda call: not call.is_gpu,
    "rank": lambda call: call.rank,
    "step": lambda call: call.step,
}
"""What each axis shows of a call, from left to right; None has no place among the values."""
NAMED = {"function", "label", "gpu", "rank", "thread"}
"""Axes of names, which on Y are read downwards."""


def drawn(page: Page) -> tuple[int, int]:
    """Marks that are drawn, and calls whose marks lie under others."""
    chart = page.locator(CHART)
    return int(chart.get_attribute("data-drawn") or -1), int(chart.get_attribute("data-covered") or -1)


def pointed_first(page: Page) -> str:
    """The call to which the keys lead first."""
    page.locator(CHART).focus()
    page.keyboard.press("ArrowRight")
    page.wait_for_selector(".tip")
    return str(page.evaluate(POINTED))


BACK = {"ArrowRight": "ArrowLeft", "ArrowLeft": "ArrowRight", "ArrowUp": "ArrowDown"}


def walk(page: Page, key: str) -> list[str]:
    """Calls that an arrow key leads over, from the farthest on the other side."""
    page.locator(CHART).focus()
    page.keyboard.press(key)
    moved(page, BACK[key])
    return moved(page, key)


def moved(page: Page, key: str, most: int = 400) -> list[str]:
    """Calls that a key leads over, until it leads no farther."""
    seen = [page.evaluate(POINTED)]
    while len(seen) < most:
        page.keyboard.press(key)
        pointed = page.evaluate(POINTED)
        if pointed == seen[-1]:
            return seen
        seen.append(pointed)
    raise AssertionError("the walk does not end")


# The chart


def test_it_opens_with_its_answer(watched: Watched, made: MadeRun) -> None:
    page = opened(watched, "rank=0:1&step=10")
    records = [record for record in made.records if record.rank == 1 and record.step == 10]
    anomalies = [record for record in records if record.label is Label.ANOMALY]
    worst = max(anomalies, key=lambda record: record.severity_us)
    page.wait_for_selector("[data-answer]:has-text('kept')")
    answer = page.locator("[data-answer]").inner_text()
    assert answer == (
        f"Rank 1, step 10: {len(anomalies)} anomalies, {len(records)} kept of 160 analysed; "
        f"worst {worst.function.split(' ')[0].rstrip('()')}, {duration(worst.severity_us)} lost."
    )


def test_every_call_is_drawn_or_said_to_be_covered(page: Page, made: MadeRun) -> None:
    marks, covered = drawn(page)
    assert marks + covered == len(made.records)
    assert marks >= len(made.anomalies)
    said = page.locator(".thinned").inner_text()
    assert said == (f"{covered} normal calls hidden behind others" if covered else "")


# The end, which open calls have not, first.
@pytest.mark.parametrize("axis", first(1, sorted(AXES, key=lambda axis: axis != "exit")))
def test_marks_stand_in_the_order_of_the_axis(watched: Watched, provenance: Provenance, axis: str) -> None:
    calls = {call.id: call for call in every(provenance, CallFilter(label=None, step_max=12))}
    other = "inclusive" if axis != "inclusive" else "entry"
    for x, y, key in ((axis, other, "ArrowRight"), (axis, other, "ArrowLeft"), (other, axis, "ArrowUp")):
        page = opened(watched, f"step=0..12&x={x}&y={y}")
        values = [AXES[axis](calls[event]) for event in walk(page, key)]
        known = [value for value in values if value is not None]
        falls = (key == "ArrowLeft") != (key == "ArrowUp" and axis in NAMED)
        assert known == sorted(known, reverse=falls), (axis, key)
        assert len(set(known)) > 1
        # What has no value stands beyond all others.
        if None in values and key != "ArrowLeft":
            assert values[values.index(None) :] == [None] * values.count(None)


def test_the_axes_are_chosen_and_named(page: Page) -> None:
    page.get_by_label("X axis", exact=True).select_option("exclusive")
    page.get_by_label("Y axis", exact=True).select_option("severity")
    page.wait_for_url("**x=exclusive&y=severity*")
    page.wait_for_selector(f"{CHART}[aria-label='Calls: severity (time lost) by exclusive']")
    settled(page)
    before = ink(page)
    page.get_by_role("button", name="Y axis: log; change to linear").click()
    page.wait_for_url("**yscale=linear*")
    page.get_by_role("button", name="Y axis: linear; change to log").wait_for()
    settled(page)
    assert ink(page) != before
    page.get_by_label("Y axis", exact=True).select_option("function")
    page.wait_for_url("**/calls?x=exclusive")
    page.get_by_role("button", name="Y axis:").wait_for(state="detached")


def ink(page: Page) -> dict[str, int]:
    """Pixels of the chart by colour."""
    found: dict[str, int] = page.evaluate(
        """() => {
            const canvas = document.querySelector('.callscatter canvas');
            const data = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data;
            const counts = {};
            for (let at = 0; at < data.length; at += 4) {
                if (data[at + 3] !== 255) continue;
                const name = [data[at], data[at + 1], data[at + 2]].join();
                counts[name] = (counts[name] ?? 0) + 1;
            }
            return counts;
        }"""
    )
    return found


def test_slower_faster_and_normal_calls_have_marks_of_their_own(watched: Watched) -> None:
    orange, blue, grey = "194,65,12", "27,95,174", "89,99,110"
    shown = {label: ink(opened(watched, f"label={label}")) for label in ("any", "anomaly", "normal")}
    assert shown["any"][orange] > 1000
    assert shown["any"][blue] > 50
    assert orange not in shown["normal"]
    assert blue not in shown["normal"]
    # Texts are grey too.
    assert shown["normal"][grey] > shown["anomaly"].get(grey, 0) > 0


def test_a_mark_reports_all_fields_by_pointer_and_by_key(watched: Watched, made: MadeRun) -> None:
    page = opened(watched, "rank=0:3")
    event = pointed_first(page)
    record = next(record for record in made.records if record.id == event)
    lines = tip(page)
    # The first is the worst.
    assert record.severity_us == max(one.severity_us for one in made.anomalies if one.rank == 3)
    ratio = record.exclusive_us / record.expected_us
    times = f"{ratio:,.0f}" if ratio >= 9.95 else f"{ratio:.2g}"
    assert lines == [
        record.function[:239] + "…" if len(record.function) > 240 else record.function,
        f"inclusive {duration(record.inclusive_us)}, exclusive {duration(record.exclusive_us)}",
        f"expected exclusive {duration(record.expected_us)}, {times}×",
        f"▲ anomaly: {duration(record.severity_us)} lost, score {record.score:.0f} σ",
        f"rank 3, thread {record.thread}, node {record.node}"
        f"{', on a GPU' if record.is_gpu else ''}, step {record.step}",
        lines[5],
        f"called by time_step, {record.children} {'child' if record.children == 1 else 'children'}, "
        f"{record.messages_count} message{'' if record.messages_count == 1 else 's'}",
        "click: select",
    ]
    entry = (record.entry_us - ZERO_US) / 1e6
    assert lines[5].startswith(f"+00:00:{entry:06.3f} to ")
    assert lines[5].endswith(" Z")
    frame = page.locator(".tip").bounding_box()
    assert frame is not None
    page.keyboard.press("Escape")
    page.wait_for_selector(".tip", state="detached")
    # The tooltip stands 12 px off the mark, on whichever side there is room.
    for x in (frame["x"] - 12, frame["x"] + frame["width"] + 12):
        for y in (frame["y"] - 12, frame["y"] + frame["height"] + 12):
            page.mouse.move(x, y)
            if page.evaluate(POINTED) == event:
                assert tip(page) == lines
                return
    raise AssertionError("the mark is not beside its tooltip")


def test_a_call_is_selected_and_then_its_timeline_opens(watched: Watched, made: MadeRun) -> None:
    page = opened(watched, "rank=0:1")
    event = pointed_first(page)
    record = next(record for record in made.records if record.id == event)
    page.keyboard.press("Enter")
    page.wait_for_url(f"**/calls?call={event}&rank=0:1")
    side = page.locator(".selected-call")
    side.locator(".chosen-sentence").wait_for()
    settled(page)
    assert f"#{event.rsplit(':')[-1]}" in side.locator(".chosen-name").inner_text()
    fields = dict(
        zip(side.locator("dt").all_inner_texts(), side.locator("dd").all_inner_texts(), strict=True)
    )
    assert fields["inclusive"] == duration(record.inclusive_us)
    assert (fields["children"], fields["messages"]) == (str(record.children), str(record.messages_count))
    assert fields["call"] == event
    assert fields["called by"] == "time_step"
    assert side.locator("canvas").count() == 1
    assert tip(page)[-1] == "click: its timeline"
    page.keyboard.press("Enter")
    page.wait_for_url(f"**/timeline?call={event}&rank=0:1")
    page.go_back()
    page.wait_for_url(f"**/calls?call={event}&rank=0:1")
    page.get_by_role("link", name="Why").click()
    program, _, rest = event.partition(":")
    page.wait_for_url(f"**/call/{program}/{rest}?rank=0:1")


def test_a_click_selects_and_a_second_one_opens_the_timeline(watched: Watched) -> None:
    page = opened(watched, "rank=0:1&label=anomaly")
    event = pointed_first(page)
    frame = page.locator(".tip").bounding_box()
    assert frame is not None
    places = [
        (x, y)
        for x in (frame["x"] - 12, frame["x"] + frame["width"] + 12)
        for y in (frame["y"] - 12, frame["y"] + frame["height"] + 12)
    ]
    page.keyboard.press("Escape")
    for x, y in places:
        page.mouse.move(x, y)
        if page.evaluate(POINTED) == event:
            break
    page.mouse.down()
    page.mouse.up()
    page.wait_for_url(f"**call={event}*")
    page.wait_for_selector(".selected-call .chosen-name")
    page.mouse.down()
    page.mouse.up()
    page.wait_for_url("**/timeline?*")


def test_brackets_step_through_the_anomalies_of_the_filter(watched: Watched, provenance: Provenance) -> None:
    page = opened(watched, "rank=0:3&sort=entry_us&order=asc")
    wanted = CallFilter(rank=3, program=0)
    order = [call.id for call in provenance.calls.page(wanted, "entry_us", descending=False).calls]
    for key, at in (("]", 0), ("]", 1), ("]", 2), ("[", 1)):
        page.keyboard.press(key)
        page.wait_for_url(f"**call={order[at]}*")
    # The chosen row is in sight.
    page.wait_for_selector(f'.calls tr.selected[data-call="{order[1]}"]')


def test_brackets_go_from_one_anomaly_of_the_list_to_the_next_on_the_page_of_a_call(
    watched: Watched, provenance: Provenance
) -> None:
    order = [call.id for call in every(provenance, CallFilter(rank=3, program=0))]
    page = opened(watched, f"rank=0:3&call={order[2]}")
    page.get_by_role("link", name="Why").click()
    for key, at in (("]", 3), ("[", 2), ("[", 1)):
        page.keyboard.press(key)
        page.wait_for_url(f"**/call/{order[at].replace(':', '/', 1)}?rank=0:3")


def test_from_the_overview_a_bracket_leads_to_the_worst_call_of_its_list(
    watched: Watched, provenance: Provenance
) -> None:
    watched.page.goto(watched.base + "r/heat")
    watched.page.wait_for_selector("[data-call]")
    settled(watched.page)
    watched.page.keyboard.press("]")
    watched.page.wait_for_url(f"**/calls?call={every(provenance, CallFilter())[0].id}")


def test_a_call_that_is_gone_says_so(watched: Watched) -> None:
    watched.may_be_missing = True
    page = opened(watched, "call=0:1:2:99999")
    page.wait_for_selector(".selected-call .empty >> text=99999")


def test_chart_and_list_point_at_the_same_call(page: Page) -> None:
    row = page.locator(".calls [data-call]").nth(3)
    row.hover()
    event = row.get_attribute("data-call")
    page.wait_for_function(f"event => {POINTED} === event", arg=event)
    page.mouse.move(2, 2)
    page.wait_for_function(f"() => {POINTED} === undefined")
    page.locator(CHART).focus()
    page.keyboard.press("ArrowRight")
    page.wait_for_selector(f'.calls tr.pointed[data-call="{page.evaluate(POINTED)}"]')


def inside(page: Page) -> tuple[int, int]:
    """Marks of the chart, drawn and covered, and calls that it says are outside."""
    said = page.locator(".thinned").inner_text()
    found = re.search(r"(\d+) outside the picture", said)
    return sum(drawn(page)), int(found[1]) if found else 0


def test_a_drag_shows_a_part_and_a_double_click_all(watched: Watched, made: MadeRun) -> None:
    page = opened(watched, "x=entry&y=step")
    box = page.locator(CHART).bounding_box()
    assert box is not None
    left, top = box["x"] + box["width"] * 0.4, box["y"] + box["height"] * 0.3
    page.mouse.move(left, top)
    page.mouse.down()
    page.mouse.move(left + box["width"] * 0.2, top + box["height"] * 0.3, steps=4)
    page.mouse.up()
    page.wait_for_url("**xrange=*yrange=*")
    given = dict(part.split("=") for part in page.url.partition("?")[2].split("&"))
    (first_us, last_us), (first, last) = (
        map(float, given[name].split("..")) for name in ("xrange", "yrange")
    )
    part = [
        record
        for record in made.records
        if first_us <= record.entry_us - ZERO_US <= last_us and first <= record.step <= last
    ]
    assert 0 < len(part) < len(made.records)
    page.wait_for_selector(".thinned >> text=outside the picture")
    settled(page)
    assert inside(page) == (len(part), len(made.records) - len(part))
    # The list is not limited by it.
    assert page.locator(".calls [data-total]").get_attribute("data-total") == str(len(made.records))
    page.mouse.dblclick(box["x"] + box["width"] * 0.3, box["y"] + box["height"] - 30)
    page.wait_for_url("**/calls?y=step")
    settled(page)
    assert inside(page) == (len(made.records), 0)


def test_wheel_and_keys_zoom_and_pan(watched: Watched, made: MadeRun) -> None:
    page = opened(watched, "x=exclusive&y=function")
    box = page.locator(CHART).bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + box["width"] * 0.6, box["y"] + box["height"] - 30)
    page.mouse.wheel(0, -100)
    assert "xrange" not in page.url
    page.keyboard.down("Control")
    page.mouse.wheel(0, -100)
    page.keyboard.up("Control")
    page.wait_for_url("**xrange=*")
    assert "yrange" not in page.url
    page.get_by_role("button", name="zoomed → all").click()
    page.wait_for_url("**/calls?x=exclusive")
    page.locator(CHART).focus()
    for key in ("w", "w", "d"):
        before = page.url
        page.keyboard.press(key)
        page.wait_for_function("before => location.href !== before", arg=before)
        settled(page)
    low, high = map(float, page.url.partition("xrange=")[2].split(".."))
    assert sum(low <= record.exclusive_us <= high for record in made.records) == inside(page)[0]
    page.keyboard.press("0")
    page.wait_for_url("**/calls?x=exclusive")


def test_an_address_opens_the_same_picture_elsewhere(
    watched: Watched, browser: Browser, process: DashboardProcess
) -> None:
    query = "call=0:1:11:10&step=5..45&label=anomaly&x=score&y=rank&xscale=log&sort=score&order=asc"
    page = opened(watched, query)
    page.wait_for_selector(".selected-call .fields")
    page.wait_for_selector(".calls [data-call]")
    settled(page)
    picture = (
        "document.querySelector('main').innerText + document.querySelector('.callscatter canvas').toDataURL()"
    )
    other = Watched(browser, process)
    other.page.goto(page.url)
    other.page.wait_for_selector(".selected-call .fields")
    other.page.wait_for_function(f"picture => {picture} === picture", arg=page.evaluate(picture))
    assert other.errors == []
    other.close()


@pytest.mark.parametrize("scheme", first(1, ["light", "dark"]))
@pytest.mark.parametrize("size", [(1280, 600), (1920, 940)])
def test_it_fits_the_window(
    browser: Browser, process: DashboardProcess, scheme: str, size: tuple[int, int]
) -> None:
    viewport = {"width": size[0], "height": size[1]}
    watched = Watched(browser, process, viewport=viewport, color_scheme=scheme)
    page = opened(watched, "rank=0:1&call=0:1:11:10")
    page.wait_for_selector(".selected-call .fields")
    settled(page)
    root = "document.documentElement"
    assert page.evaluate(f"{root}.scrollHeight") == size[1]
    assert page.evaluate(f"{root}.scrollWidth") == size[0]
    assert page.evaluate("document.querySelectorAll('*').length") < 2500
    # What leads on is seen without scrolling.
    link = page.get_by_role("link", name="Why").bounding_box()
    side = page.locator(".selected-call").bounding_box()
    assert link is not None and side is not None
    assert link["y"] + link["height"] <= side["y"] + side["height"]
    assert watched.errors == []
    watched.close()


def test_everything_has_a_name_for_those_who_do_not_see(watched: Watched) -> None:
    page = opened(watched, "call=0:1:11:10")
    page.wait_for_selector(".selected-call .fields")
    settled(page)
    for panel in page.locator("figure.panel").all():
        label = panel.get_attribute("aria-labelledby")
        assert label and panel.locator(f'[id="{label}"]').inner_text()
    unnamed = page.evaluate(
        "[...document.querySelectorAll('button, a, input, select, [role=application]')]"
        ".filter(e => !(e.innerText || e.getAttribute('aria-label') || e.labels?.length))"
        ".map(e => e.outerHTML)"
    )
    assert unnamed == []
