"""The page of one call, in a browser: all that is kept of it, as the store has it."""

from __future__ import annotations

import base64
import json
import re
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import numpy as np
import pytest

from chimbuko.core.calls.record import CallRecord
from chimbuko.core.config import AnalysisConfig
from chimbuko.core.statistics.moments import Moments
from chimbuko.provenance.manage.pruning import PruneRule, prune
from chimbuko.provenance.query.filters import CallFilter, as_object
from chimbuko.provenance.query.run import Provenance
from chimbuko.provenance.store.engine import open_for_writing
from chimbuko.runtime.protocol.broker import PrivateBroker
from chimbuko.viz.api.distribution import distribution
from tests.browsing import settled
from tests.thorough import first
from tests.viz.conftest import DashboardProcess, Watched, dashboard
from tests.viz.evident_run import COUNTERS, METRIC, OWN_COUNTER, WAITS_US
from tests.viz.live_run import LiveRun
from tests.viz.made_run import FUNCTIONS, KERNEL, ZERO_US, make_run
from tests.viz.panels import (
    answered,
    api_answer,
    copied,
    copied_by,
    in_column,
    microseconds,
    number,
    panel,
    rows,
    saved,
    show_table,
    sql_rows,
    table_file,
)

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page


def open_call(watched: Watched, record: CallRecord) -> Page:
    """The page of a call."""
    watched.page.goto(f"{watched.base}r/heat/call/{record.id.replace(':', '/', 1)}")
    watched.page.wait_for_selector(".distribution svg")
    watched.page.wait_for_selector(".twin canvas")
    settled(watched.page)
    return watched.page


def worst(provenance: Provenance, function: str) -> CallRecord:
    """The worst call of a function."""
    return provenance.calls.record(
        provenance.calls.page(CallFilter(function=function), "severity_us", limit=1).calls[0].id
    )


@pytest.fixture(scope="module")
def record(provenance: Provenance) -> CallRecord:
    """An abnormal call with all that a call can have."""
    calls = provenance.calls.records(CallFilter())
    return next(call for call in calls if call.is_gpu and any(f.is_anomaly for f in call.call_stack[1:]))


@pytest.fixture(scope="module")
def page(shared: Watched, record: CallRecord) -> Page:
    """Its page, loaded once for all tests that leave it as it is."""
    return open_call(shared, record)


@pytest.fixture
def own_page(watched: Watched, record: CallRecord) -> Page:
    """The same for a test that changes it."""
    return open_call(watched, record)


@pytest.mark.parametrize("function", first(1, FUNCTIONS, ["relax", "sweep", "wait", "kernel"]))
def test_it_opens_with_its_answer(watched: Watched, provenance: Provenance, function: str) -> None:
    record = worst(provenance, function)
    page = open_call(watched, record)
    sentence = page.locator("[data-answer]").inner_text()
    took, usual, lost = re.findall(r"[\d.,]+ (?:µs|ms|s)\b", sentence)
    assert sentence.startswith("▲") and re.search(rf" on rank {record.rank} (?:took|spent) ", sentence)
    assert microseconds(took) == pytest.approx(record.exclusive_us, rel=5e-3)
    assert microseconds(usual) == pytest.approx(record.expected_us, rel=5e-3)
    assert microseconds(lost) == pytest.approx(record.severity_us, rel=5e-3)
    ratio = re.search(r"([\d.,]+)× its usual", sentence)
    assert ratio and float(ratio[1].replace(",", "")) == pytest.approx(
        record.exclusive_us / record.expected_us, rel=0.05
    )


def test_all_numbers_of_the_record_stand_beside_those_of_the_normal_call(
    page: Page, record: CallRecord, provenance: Provenance
) -> None:
    normal = provenance.calls.normal_like(record)
    assert normal is not None
    found = rows(page, "numbers")
    for column, call in enumerate((record, normal), 1):
        shown = {row[0]: row[column] for row in found}
        for name, value in {
            "inclusive": call.inclusive_us,
            "exclusive": call.exclusive_us,
            "expected then": call.expected_us,
            "spread then": call.spread_us,
            "time lost": call.severity_us,
        }.items():
            assert microseconds(shown[name]) == pytest.approx(value, abs=0.5)
        for name, whole in {
            "calls known then": call.seen,
            "step of its end": call.step,
            "rank": call.rank,
            "depth": call.depth,
            "children": call.children,
            "messages": call.messages_count,
            "left out by the limit": call.left_out,
        }.items():
            assert number(shown[name]) == whole
        assert shown["call"] == call.id
        assert float(shown["score"].removesuffix(" σ")) == pytest.approx(call.score, rel=5e-3)
        assert shown["detector"] == f"{call.detector}, model version {call.model_version}"
        assert (shown["program"], shown["node"]) == ("heat2d", call.node)
        assert shown["thread"] == f"{call.thread}{', on a GPU' if call.is_gpu else ''}"
        state = "complete" if call.is_final else "still growing"
        assert shown["record"] == f"{state}, revision {call.revision}, version {call.version}"
        for name, time_us in {
            "entry": call.entry_us,
            "exit": call.exit_us,
            "step from": call.step_start_us,
            "step to": call.step_end_us,
        }.items():
            assert seconds(shown[name]) == pytest.approx((time_us - ZERO_US) / 1e6, abs=5.1e-4)
    shown = {row[0]: row[1] for row in found}
    assert shown["launched by"] == f"{record.launch_id}, thread {record.launch_thread}"


def seconds(text: str) -> float:
    """A time since the run's start."""
    hours, minutes, rest = text.split(" ")[0].lstrip("+").split(":")
    return 3600 * int(hours) + 60 * int(minutes) + float(rest)


@pytest.mark.parametrize("function", first(1, FUNCTIONS[:3], ["relax", "sweep", "wait"]))
def test_the_call_has_its_place_in_the_distribution(
    watched: Watched, provenance: Provenance, function: str
) -> None:
    record = worst(provenance, function)
    page = open_call(watched, record)
    model = provenance.models.at(0, function, 2**53)
    assert model is not None
    found = distribution(model, AnalysisConfig())
    assert found.buckets is not None and found.ordinary[0].upper_us is not None
    shown = panel(page, "distribution")
    head = shown.locator("[data-n]")
    assert head.get_attribute("data-n") == "101"
    limit = re.search(r"flag ≥ ([\d.,]+ \S+)", head.inner_text())
    assert limit and microseconds(limit[1]) == pytest.approx(found.ordinary[0].upper_us, rel=5e-3)
    texts = shown.locator("svg text").all_text_contents()
    own = next(text for text in texts if text.startswith("this call"))
    # Longer than all others, of which there are 101.
    assert own.endswith(", p99.0")
    assert microseconds(own.removeprefix("this call ").partition(",")[0]) == pytest.approx(
        record.exclusive_us, rel=5e-3
    )
    normal = provenance.calls.normal_like(record)
    twin = next((text for text in texts if text.startswith("normal call")), None)
    assert (twin is None) == (normal is None)
    if twin and normal:
        assert microseconds(twin.removeprefix("normal call ")) == pytest.approx(normal.exclusive_us, rel=5e-3)
    usual = next(text for text in texts if text.startswith("expected then"))
    assert microseconds(usual.removeprefix("expected then ")) == pytest.approx(record.expected_us, rel=5e-3)
    assert f"judged when {record.seen:,} calls of the function were known" in shown.inner_text()
    table = show_table(page, "distribution")
    heads = panel(page, "distribution").locator("thead th").all_inner_texts()
    full = [bucket for bucket in found.buckets if bucket.calls]
    assert [number(row[2]) for row in table] == [bucket.calls for bucket in full]
    for row, bucket in zip(table, full, strict=True):
        assert in_column(heads[0], row[0]) == pytest.approx(bucket.lower_us, rel=5e-3)
        assert in_column(heads[1], row[1]) == pytest.approx(bucket.upper_us, rel=5e-3)
    below = np.cumsum([0, *(bucket.calls for bucket in full)])[:-1] / 101 * 100
    assert [float(row[3]) for row in table] == pytest.approx(below.tolist(), rel=5e-3, abs=1e-9)


def test_a_percentile_is_that_of_the_buckets(watched: Watched, provenance: Provenance) -> None:
    normal = next(iter(provenance.calls.records(CallFilter(label="normal", function=FUNCTIONS[0]))))
    page = open_call(watched, normal)
    assert "a normal call" in page.locator("[data-answer]").inner_text()
    model = provenance.models.at(0, FUNCTIONS[0], 2**53)
    assert model is not None
    buckets = distribution(model, AnalysisConfig()).buckets
    assert buckets is not None
    edges = [buckets[0].lower_us, *(bucket.upper_us for bucket in buckets)]
    calls = np.cumsum([0, *(bucket.calls for bucket in buckets)])
    share = np.interp(normal.exclusive_us, edges, calls) / calls[-1] * 100
    own = page.locator(".distribution svg text", has_text="this call").text_content() or ""
    assert float(own.rpartition("p")[2]) == pytest.approx(share, abs=0.5)


def test_the_stack_is_that_of_the_record(page: Page, record: CallRecord) -> None:
    frames = [*record.call_stack, *record.launch_stack]
    shown = panel(page, "stack")
    assert [li.get_attribute("data-frame") for li in shown.locator("li").all()] == [
        frame.id for frame in frames
    ]
    links = shown.locator("[data-function-link]").all()
    assert [link.get_attribute("data-function-link") for link in links] == [
        frame.function for frame in frames
    ]
    for text, frame in zip(shown.locator(".stack-time").all_inner_texts(), frames, strict=True):
        if frame.exit_us:
            assert microseconds(text) == pytest.approx(frame.exit_us - frame.entry_us, rel=5e-3)
        else:
            assert text == "open"
    marks = shown.locator(".stack-mark").all_inner_texts()
    assert [mark == "▲" for mark in marks] == [frame.is_anomaly for frame in frames]
    assert f"launched by call {record.launch_id}, thread {record.launch_thread}" in shown.inner_text()
    # An abnormal caller leads to its own page.
    caller = next(frame for frame in frames[1:] if frame.is_anomaly)
    href = shown.locator("a.stack-mark").first.get_attribute("href") or ""
    assert href.endswith("/call/" + caller.id.replace(":", "/", 1))


def test_messages_come_by_wait(page: Page, record: CallRecord) -> None:
    heads = panel(page, "messages").locator("thead th").all_inner_texts()
    found = rows(page, "messages")
    received = [message for message in record.messages if message.kind == "RECV"]
    sent = [message for message in record.messages if message.kind == "SEND"]
    ordered = [*sorted(received, key=lambda message: -message.time_us), *sent]
    assert [row[0] for row in found] == [
        f"to {message.destination}" if message.kind == "SEND" else f"from {message.source}"
        for message in ordered
    ]
    assert [in_column(heads[3], row[3]) for row in found[:2]] == pytest.approx(sorted(WAITS_US, reverse=True))
    assert [row[3] for row in found[2:]] == ["–", "–"]
    for row, message in zip(found, ordered, strict=True):
        assert in_column(heads[4], row[4]) == pytest.approx(message.time_us - record.entry_us, rel=5e-3)
        assert (int(row[2]), row[1].split()[1]) == (message.tag, "B" if message.size_bytes < 1000 else "kB")


def test_counters_stand_beside_what_is_usual(page: Page, record: CallRecord, provenance: Provenance) -> None:
    normal = provenance.calls.normal_like(record)
    assert normal is not None
    found = {row[0]: row for row in rows(page, "counters")}
    assert len(found) == len(record.metrics) + len(record.counters)
    for name, own, other in (
        (METRIC, record.metrics[0].value, normal.metrics[0].value),
        (OWN_COUNTER, record.counters[-1].value, normal.counters[-1].value),
    ):
        assert [number(text) for text in found[name][1:3]] == [own, other]
        usual = Moments.of([value + record.rank for value in COUNTERS[name]])
        mean, _, spread = found[name][3].partition(" ± ")
        if usual.n > 1:
            assert number(mean) == pytest.approx(usual.mean, rel=5e-3)
            assert number(spread) == pytest.approx(usual.stddev, rel=5e-3)
        else:
            assert found[name][3] == f"{usual.mean:g} once"


def test_the_node_now_and_usually(page: Page, record: CallRecord, provenance: Provenance) -> None:
    normal = provenance.calls.normal_like(record)
    assert normal is not None
    assert panel(page, "node").locator("h2").inner_text() == f"Node {record.node}"
    usual = Moments.of([value + record.rank for value in COUNTERS["monitoring: System load"]])
    found = {row[0]: row[1:] for row in rows(page, "node")}
    for now, then in zip(record.node_state, normal.node_state, strict=True):
        name = now.counter.removeprefix("monitoring: ")
        assert [number(text) for text in found[name][:2]] == [now.value, then.value]
    mean, _, spread = found["System load"][2].partition(" ± ")
    assert number(mean) == pytest.approx(usual.mean, rel=5e-3)
    assert number(spread) == pytest.approx(usual.stddev, rel=5e-3)
    assert found["Page faults (minor)"][2] == "unknown"


def test_metadata_and_raw_record(own_page: Page, record: CallRecord, provenance: Provenance) -> None:
    reported = provenance.metadata(record.program, record.rank)
    assert rows(own_page, "metadata") == [[item.key, item.value, str(item.thread)] for item in reported]
    own_page.locator(".raw summary").click()
    assert json.loads(own_page.locator(".raw pre").inner_text()) == as_object(record)
    own_page.get_by_role("button", name="Copy record").click()
    own_page.wait_for_selector(".notice >> text=Copied")
    assert json.loads(own_page.evaluate("navigator.clipboard.readText()")) == as_object(record)


def test_every_field_of_a_record_is_somewhere_else_than_in_the_raw_one(page: Page) -> None:
    """A field that is new has to be shown: it is named here with its panel."""
    shown = {
        "numbers": "id version revision is_final label is_relabelled program rank thread node entry_us "
        "exit_us inclusive_us exclusive_us step step_start_us step_end_us score severity_us expected_us "
        "spread_us seen detector incident_id depth children messages_count left_out is_gpu "
        "launch_id launch_thread model_version",
        "stack": "call_stack launch_stack",
        "twin": "window",
        "messages": "messages collectives",
        "counters": "counters metrics",
        "node": "node_state",
    }
    fields = [field for names in shown.values() for field in names.split()]
    assert sorted([*fields, "function"]) == sorted(CallRecord.__struct_fields__)
    assert all(panel(page, name).count() == 1 for name in shown)


def test_the_window_is_a_picture_and_a_table(own_page: Page, record: CallRecord) -> None:
    assert [row[3] for row in show_table(own_page, "twin")] == [call.id for call in record.window]
    panel(own_page, "twin").get_by_role("button", name=re.compile(": picture$")).click()
    own_page.wait_for_selector(".twin canvas")
    settled(own_page)
    chart = panel(own_page, "twin").locator("[role=application]").first
    chart.focus()
    own_page.keyboard.press("ArrowRight")
    # The first mark that the keys go to is the call itself.
    own_page.wait_for_selector(f".tip:has-text('call {record.id}')")


def test_a_kernel_of_2600_characters(watched: Watched, provenance: Provenance) -> None:
    record = worst(provenance, KERNEL)
    page = open_call(watched, record)
    assert page.locator("[data-answer]").inner_text().startswith("▲ push_particles λ3 on rank")
    whole = page.locator(".full-name code")
    assert len(whole.inner_text()) == 240
    page.get_by_role("button", name=f"All {len(KERNEL):,} characters").click()
    settled(page)
    assert whole.inner_text() == KERNEL
    page.get_by_role("button", name="Copy name").click()
    page.wait_for_selector(".notice >> text=Copied")
    assert page.evaluate("navigator.clipboard.readText()") == KERNEL
    page.get_by_role("link", name="Function", exact=True).click()
    page.wait_for_selector(".function-page [data-answer]:has-text('push_particles λ3: ')")


def test_it_leads_to_the_timeline(own_page: Page, record: CallRecord) -> None:
    own_page.get_by_role("main").get_by_role("link", name="Timeline", exact=True).click()
    own_page.wait_for_url(f"**/r/heat/timeline?call={record.id}**")


def test_menus_copy_what_answers_the_same(page: Page, record: CallRecord, provenance: Provenance) -> None:
    call = api_answer(page, "numbers")["record"]
    assert call == as_object(record)
    (row,) = sql_rows(page, "numbers")
    assert row["call"] == record.id and row["function"] == record.function
    for name in ("inclusive_us", "exclusive_us", "severity_us", "score", "expected_us", "seen", "depth"):
        assert row[name] == getattr(record, name)
    panels = ("numbers", "stack", "messages", "node", "counters", "twin")
    (command,) = {copied(page, name, "Copy command") for name in panels}
    assert answered(command)["call"] == as_object(record)
    found = api_answer(page, "distribution")
    assert found["statistics"]["name"] == record.function
    reported = provenance.metadata(record.program, record.rank)
    assert [(row["key"], row["value"]) for row in sql_rows(page, "metadata")] == [
        (m.key, m.value) for m in reported
    ]
    assert api_answer(page, "metadata")["metadata"] == as_object(reported)
    counters = {row["counter"]: row for row in sql_rows(page, "counters")}
    usual = Moments.of([value + record.rank for value in COUNTERS[OWN_COUNTER]])
    assert counters[OWN_COUNTER]["mean"] == pytest.approx(usual.mean)
    assert counters[OWN_COUNTER]["variance"] == pytest.approx(usual.stddev**2)
    assert copied(page, "numbers", "Copy link") == page.url


def test_the_call_itself_is_copied(page: Page, record: CallRecord) -> None:
    def copy(item: str) -> str:
        def choose() -> None:
            page.get_by_role("button", name="Copy this call").click()
            page.get_by_role("menuitem", name=item, exact=True).click()

        return copied_by(page, choose)

    assert copy("Link") == page.url
    assert json.loads(copy("Record as JSON")) == as_object(record)
    assert answered(copy("Command"))["call"] == as_object(record)
    assert answered(copy("SQL"))["rows"][0]["call"] == record.id
    assert copy("JSON address").endswith(f"/api/v1/calls/{record.id.replace(':', '%3A')}")


def test_a_menu_is_worked_by_keys_alone(own_page: Page) -> None:
    button = panel(own_page, "stack").locator(".menu-button")
    focused = "document.activeElement.textContent"
    button.focus()
    own_page.keyboard.press("Enter")
    own_page.wait_for_function(f"() => {focused} === 'Copy link'")
    assert button.get_attribute("aria-expanded") == "true"
    for key, item in (("ArrowDown", "Copy JSON address"), ("End", "Save CSV"), ("ArrowDown", "Copy link")):
        own_page.keyboard.press(key)
        own_page.wait_for_function(f"item => {focused} === item", arg=item)
    # Letters of the page do not act while a menu is open.
    own_page.keyboard.press("t")
    settled(own_page)
    assert "table=" not in own_page.url
    own_page.keyboard.press("Escape")
    own_page.wait_for_selector(".menu:popover-open", state="detached")
    own_page.wait_for_selector("[data-panel=stack] .menu-button:focus")
    own_page.wait_for_selector("[data-panel=stack] .menu-button[aria-expanded=false]")
    own_page.keyboard.press("Enter")
    own_page.wait_for_selector(".menu:popover-open")
    own_page.keyboard.press("Enter")
    own_page.wait_for_selector(".notice >> text=Copied")
    own_page.wait_for_selector("[data-panel=stack] .menu-button:focus")


@pytest.mark.parametrize("name", first(1, ["distribution", "twin", "stack"]))
def test_pictures_are_saved_with_title_run_and_time(page: Page, record: CallRecord, name: str) -> None:
    box = panel(page, name).locator(".panel-body").bounding_box()
    assert box is not None
    drawing = saved(page, name, "Save SVG")
    assert drawing.suggested_filename == f"heat-{name}.svg"
    root = ET.parse(drawing.path()).getroot()
    texts = ["".join(element.itertext()) for element in root.iter("{http://www.w3.org/2000/svg}text")]
    title = panel(page, name).locator("h2").inner_text()
    assert texts[0] == title
    assert texts[1] == f"run heat · call {record.id}"
    assert texts[2].startswith("as of +00:01:00.000 · 20") and texts[2].endswith(" Z")
    images = list(root.iter("{http://www.w3.org/2000/svg}image"))
    assert len(images) == (2 if name == "twin" else 0)
    # Canvases are painted finely for the picture, and as before after it.
    canvases = panel(page, name).locator("canvas")
    for image in images:
        png = base64.b64decode(image.attrib["href"].partition(",")[2])
        assert int.from_bytes(png[16:20]) == round(2 * float(image.attrib["width"]))
    page.wait_for_function(
        "name => [...document.querySelectorAll(`[data-panel=${name}] canvas`)]"
        ".every(canvas => canvas.width === canvas.offsetWidth)",
        arg=name,
    )
    assert canvases.count() == len(images)
    if name == "stack":
        assert "time_step" in texts
    if name == "distribution":
        assert any(text.startswith("this call") for text in texts)
    picture = saved(page, name, "Save PNG")
    assert picture.suggested_filename == f"heat-{name}.png"
    content = Path(picture.path()).read_bytes()
    assert content[:8] == b"\x89PNG\r\n\x1a\n"
    size = [int.from_bytes(content[at : at + 4]) for at in (16, 20)]
    assert size == [2 * int(root.attrib["width"]), 2 * int(root.attrib["height"])]
    assert size[0] == pytest.approx(2 * (box["width"] + 24), abs=2)
    # More than a few colours: something is drawn.
    colours = page.evaluate(
        """async data => {
          const bitmap = await createImageBitmap(await (await new Response(Uint8Array.from(atob(data),
            c => c.charCodeAt(0)))).blob());
          const canvas = new OffscreenCanvas(bitmap.width, bitmap.height);
          const context = canvas.getContext('2d');
          context.drawImage(bitmap, 0, 0);
          const pixels = context.getImageData(0, 0, bitmap.width, bitmap.height).data;
          return new Set(new Uint32Array(pixels.buffer)).size;
        }""",
        base64.b64encode(content).decode(),
    )
    assert colours > 8


@pytest.mark.parametrize("name", first(1, ["numbers", "messages", "metadata"]))
def test_tables_are_saved_as_they_stand(page: Page, name: str) -> None:
    found = table_file(saved(page, name, "Save CSV"))
    heads = panel(page, name).locator("thead th").all_inner_texts()
    plain = [
        [
            re.sub(r"(?<=\d),(?=\d{3})", "", cell) if re.fullmatch(r"[-+]?[\d,.]+", cell) else cell
            for cell in row
        ]
        for row in rows(page, name)
    ]
    assert found == [heads, *plain]


def test_the_table_behind_a_picture_is_saved_while_the_picture_is_shown(
    page: Page, record: CallRecord
) -> None:
    found = table_file(saved(page, "twin", "Save CSV"))
    assert [row[3] for row in found[1:]] == [call.id for call in record.window]
    assert panel(page, "twin").locator("table").count() == 0


def test_arrows_go_along_the_distribution(own_page: Page) -> None:
    chart = panel(own_page, "distribution").locator("[role=application]")
    chart.focus()
    own_page.keyboard.press("ArrowRight")
    first = own_page.locator(".tip").inner_text()
    assert re.match(r"[\d.,]+ \S+ to [\d.,]+ \S+\n[\d,]+ calls", first)
    for key, sign in (("End", "!=="), ("Home", "===")):
        own_page.keyboard.press(key)
        own_page.wait_for_function(
            f"first => document.querySelector('.tip').innerText {sign} first", arg=first
        )


def test_a_call_that_is_not_there_says_so(watched: Watched) -> None:
    page = watched.page
    watched.may_be_missing = True
    page.goto(watched.base + "r/heat/call/0/1:2:99999")
    page.wait_for_selector(".empty >> text=not recorded in this run")
    page.get_by_role("link", name="Calls of rank 0:1, step 2").click()
    page.wait_for_url("**/r/heat/calls?**")
    page.go_back()
    page.get_by_role("link", name="Back to the run").click()
    page.wait_for_selector(".overview")


def test_a_call_that_was_pruned_says_by_what_rule(browser: Browser, tmp_path: Path, page_files: Path) -> None:
    made = make_run(tmp_path / "heat")
    info = made.directory.read_info()
    engine = open_for_writing(info.store_url)
    least = min(made.anomalies, key=lambda call: call.severity_us)
    prune(engine, info.id, PruneRule(below_us=least.severity_us + 1), is_dry_run=False)
    engine.dispose()
    with dashboard(made) as process:
        watched = Watched(browser, process)
        watched.page.goto(f"{watched.base}r/heat/call/{least.id.replace(':', '/', 1)}")
        watched.page.wait_for_selector(".empty >> text=not recorded")
        words = watched.page.locator(".empty").inner_text()
        assert f"call '{least.id}': not recorded" in words
        assert re.search(r"\d+ calls were removed at \d{4}-\d\d-\d\d [\d:]{8} Z \(severity below ", words)
        watched.close()


@pytest.mark.parametrize("scheme", first(1, ["light", "dark"]))
@pytest.mark.parametrize("width", first(1, [1280, 1920]))
def test_it_fits_the_width(
    browser: Browser, process: DashboardProcess, record: CallRecord, scheme: str, width: int
) -> None:
    watched = Watched(browser, process, viewport={"width": width, "height": 600}, color_scheme=scheme)
    page = open_call(watched, record)
    assert page.evaluate("document.documentElement.scrollWidth") == width
    assert page.evaluate("document.querySelectorAll('*').length") < 2500
    unnamed = page.evaluate(
        "[...document.querySelectorAll('button, a, input, select, [role=application]')]"
        ".filter(e => !(e.innerText || e.getAttribute('aria-label') || e.labels?.length))"
        ".map(e => e.outerHTML)"
    )
    assert unnamed == []
    assert watched.errors == []
    watched.close()


def test_a_record_that_grows_is_followed(
    browser: Browser, tmp_path: Path, broker: PrivateBroker, page_files: Path
) -> None:
    made = make_run(tmp_path / "heat", "running", stored_steps=0)
    place = next(n for n, call in enumerate(made.records) if call.step < 10 and call.label == "anomaly")
    whole = made.records[place]
    half = msgspec.structs.replace(whole, revision=0, is_final=False, window=whole.window[:7], messages=[])
    made.records[place] = half
    live = LiveRun(made, broker.url, 0)
    live.advance(10)
    with dashboard(made, broker.url) as process:
        watched = Watched(browser, process)
        page = open_call(watched, half)
        page.wait_for_selector(".place:has-text('still being recorded')")
        made.records[place] = msgspec.structs.replace(whole, step=10)
        live.advance(1)
        page.wait_for_selector(".place:not(:has-text('still being recorded'))")
        assert [row[3] for row in show_table(page, "twin")] == [call.id for call in whole.window]
        assert watched.errors == []
        watched.close()
    live.close()
