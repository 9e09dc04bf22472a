"""The page of one function, in a browser: what the store says of it, in a sentence, pictures and tables."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

import pytest

from chimbuko.core.config import AnalysisConfig
from chimbuko.provenance.query.filters import CallFilter, as_object
from chimbuko.provenance.query.run import Provenance
from chimbuko.runtime.protocol.broker import PrivateBroker
from chimbuko.viz.api.distribution import distribution
from tests.browsing import settled
from tests.thorough import first
from tests.viz.conftest import DashboardProcess, Watched, dashboard
from tests.viz.evident_run import path_statistics
from tests.viz.live_run import LiveRun
from tests.viz.made_run import FUNCTIONS, KERNEL, MadeRun, make_run
from tests.viz.panels import (
    answered,
    api_answer,
    copied,
    headings,
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

    from chimbuko.runtime.protocol.messages import FunctionStatistics

NAMES = pytest.mark.parametrize("name", first(1, FUNCTIONS, ["relax", "sweep", "wait", "kernel"]))


def open_function(watched: Watched, name: str) -> Page:
    """The page of a function."""
    page = watched.page
    page.goto(f"{watched.base}r/heat/fn?function={quote(name)}&program=0")
    page.wait_for_selector(".distribution svg")
    page.wait_for_selector("[data-panel=function-worst] tbody tr")
    settled(page)
    return page


@pytest.fixture
def page(watched: Watched) -> Page:
    """The page of the function that lost most time."""
    return open_function(watched, FUNCTIONS[1])


def statistics_of(provenance: Provenance, name: str) -> FunctionStatistics:
    """What the store says of a function."""
    return next(row for row in provenance.function_statistics() if row.name == name)


@NAMES
def test_it_opens_with_its_answer(watched: Watched, provenance: Provenance, name: str) -> None:
    page = open_function(watched, name)
    found = statistics_of(provenance, name)
    ranks = len(provenance.calls.totals("rank", CallFilter(function=name)))
    page.wait_for_selector(f"[data-answer] >> text=on {ranks} rank")
    sentence = page.locator("[data-answer]").inner_text()
    match = re.fullmatch(
        r".+: ([\d,]+) of ([\d,]+) calls abnormal \(([\d.]+) %\), ([\d.]+ \S+) lost in these "
        r"on (\d+) ranks?\. Its calls take as long as at first\.",
        sentence,
    )
    assert match
    assert (number(match[1]), number(match[2])) == (found.anomalies, found.calls)
    assert float(match[3]) == pytest.approx(100 * found.anomalies / found.calls, rel=5e-3)
    assert microseconds(match[4]) == pytest.approx(found.severity_us, rel=5e-3)
    figures = {
        figure.get_attribute("data-figure"): figure.locator("dd").inner_text()
        for figure in page.locator("[data-figure]").all()
    }
    assert number(figures["calls"]) == found.calls and number(figures["anomalies"]) == found.anomalies
    assert figures["of it asleep"] == "25 %"
    mean, _, spread = figures["exclusive mean"].partition(" ± ")
    for shown, value in (
        (figures["time lost"], found.severity_us),
        (mean, found.exclusive_mean_us),
        (spread, found.exclusive_stddev_us),
        (figures["exclusive, shortest"], found.exclusive_minimum_us),
        (figures["exclusive, longest"], found.exclusive_maximum_us),
        (figures["inclusive mean"], found.inclusive_mean_us),
        (figures["inclusive, longest"], found.inclusive_maximum_us),
    ):
        assert microseconds(shown) == pytest.approx(value, rel=5e-3)


@NAMES
def test_the_distribution_has_median_worst_and_limit(
    watched: Watched, provenance: Provenance, name: str
) -> None:
    page = open_function(watched, name)
    model = provenance.models.at(0, name, 2**53)
    assert model is not None
    found = distribution(model, AnalysisConfig(), provenance.judged_by_path_to_us()[0, name])
    assert found.buckets is not None and found.ordinary[0].upper_us is not None
    texts = panel(page, "distribution").locator("svg text").all_text_contents()
    shown = {text.split(" ")[0]: text.partition(" ")[2] for text in texts if " " in text}
    # Buckets are up to 12 % wide, and the median lies in the one in the middle.
    assert microseconds(shown["median"]) == pytest.approx(found.exclusive.mean_us / 1.082, rel=0.12)
    worst = provenance.calls.page(CallFilter(function=name), "severity_us", limit=1).calls[0]
    assert microseconds(shown["worst"]) == pytest.approx(worst.exclusive_us, rel=5e-3)
    assert microseconds(shown["flag"].removeprefix("≥ ")) == pytest.approx(
        found.ordinary[0].upper_us, rel=5e-3
    )
    calls = [number(row[2]) for row in show_table(page, "distribution")]
    assert calls == [bucket.calls for bucket in found.buckets if bucket.calls]
    assert api_answer(page, "distribution")["distribution"] == as_object(found)
    (row,) = sql_rows(page, "distribution")
    kept = statistics_of(provenance, name)
    assert (row["name"], row["calls"], row["severity_us"]) == (name, kept.calls, kept.severity_us)


@NAMES
def test_the_trend_is_the_sum_of_the_recorded_calls(
    watched: Watched, provenance: Provenance, name: str
) -> None:
    page = open_function(watched, name)
    totals = provenance.calls.totals("step", CallFilter(function=name, program=0))
    found = show_table(page, "function-trend")
    heads = headings(page, "function-trend")
    assert [(number(row[0]), number(row[1])) for row in found] == [(t.step, t.anomalies) for t in totals]
    most = max(total.severity_us for total in totals)
    for row, total in zip(found, totals, strict=True):
        assert in_column(heads[2], row[2]) == pytest.approx(total.severity_us, rel=5e-3, abs=1e-4 * most)
    reported = sql_rows(page, "function-trend")
    assert [(row["step"], row["anomalies"]) for row in reported] == [(t.step, t.anomalies) for t in totals]
    assert [row["severity_us"] for row in reported] == pytest.approx([total.severity_us for total in totals])
    assert api_answer(page, "function-trend")["totals"] == as_object(totals)


def test_a_column_of_the_trend_reports_and_opens_its_calls(page: Page, provenance: Provenance) -> None:
    first = provenance.calls.totals("step", CallFilter(function=FUNCTIONS[1]))[0]
    chart = panel(page, "function-trend").locator("[role=application]")
    chart.focus()
    page.keyboard.press("ArrowRight")
    page.wait_for_selector(".tip")
    settled(page)
    lines = page.locator(".tip").inner_text().splitlines()
    assert lines[0] == f"{first.anomalies} anomalies"
    assert microseconds(lines[1].removesuffix(" lost")) == pytest.approx(first.severity_us, rel=5e-3)
    assert lines[2] == f"step {first.step}"
    page.keyboard.press("Enter")
    page.wait_for_url(f"**/r/heat/calls?**step={first.step}**")
    wait_for_calls(
        page, provenance, CallFilter(function=FUNCTIONS[1], step_min=first.step, step_max=first.step)
    )


def wait_for_calls(page: Page, provenance: Provenance, wanted: CallFilter) -> None:
    """Until the list of calls is that of a filter."""
    calls = provenance.calls.page(wanted, "severity_us").calls
    page.wait_for_function(
        "ids => [...document.querySelectorAll('[data-panel=calls] [data-call]')]"
        ".map(row => row.dataset.call).join() === ids",
        arg=",".join(call.id for call in calls),
    )


@NAMES
def test_ranks_stand_by_time_lost(watched: Watched, provenance: Provenance, name: str) -> None:
    page = open_function(watched, name)
    totals = provenance.calls.totals("rank", CallFilter(function=name, program=0))
    page.wait_for_selector("[data-panel=function-ranks] [data-rank]")
    bars = panel(page, "function-ranks").locator("[data-rank]")
    assert [bar.get_attribute("data-rank") for bar in bars.all()] == [f"0:{total.rank}" for total in totals]
    found = show_table(page, "function-ranks")
    heads = headings(page, "function-ranks")
    for row, total in zip(found, totals, strict=True):
        assert (number(row[0]), number(row[1])) == (total.rank, total.anomalies)
        assert in_column(heads[2], row[2]) == pytest.approx(total.severity_us, rel=5e-3)
        assert in_column(heads[3], row[3]) == pytest.approx(total.highest_severity_us, rel=5e-3)
    reported = sql_rows(page, "function-ranks")
    assert [(row["rank"], row["anomalies"]) for row in reported] == [(t.rank, t.anomalies) for t in totals]
    assert [row["highest_score"] for row in reported] == [total.highest_score for total in totals]


def test_a_rank_leads_to_its_calls(page: Page, provenance: Provenance) -> None:
    total = provenance.calls.totals("rank", CallFilter(function=FUNCTIONS[1]))[0]
    panel(page, "function-ranks").locator(f'[data-rank="0:{total.rank}"]').click()
    page.wait_for_url(f"**/r/heat/calls?**rank=0:{total.rank}**")
    wait_for_calls(page, provenance, CallFilter(function=FUNCTIONS[1], rank=total.rank))


@NAMES
def test_its_call_paths_are_a_tree(
    watched: Watched, made: MadeRun, provenance: Provenance, name: str
) -> None:
    watched.may_be_missing = True
    page = open_function(watched, name)
    (known,) = [path for path in path_statistics(made) if path.functions[-1] == name]
    (total,) = [total for total in provenance.calls.totals("path") if total.function == name]
    found = rows(page, "function-paths")
    heads = headings(page, "function-paths")
    links = panel(page, "function-paths").locator("[data-function-link]").all()
    assert [link.get_attribute("data-function-link") for link in links] == known.functions
    assert [row[1:] for row in found[:-1]] == [["", "", "", ""]] * (len(found) - 1)
    own = found[-1]
    assert (number(own[1]), number(own[3])) == (known.calls, total.anomalies)
    assert in_column(heads[2], own[2]) == pytest.approx(known.inclusive_mean_us, rel=5e-3)
    assert in_column(heads[4], own[4]) == pytest.approx(total.severity_us, rel=5e-3)
    (row,) = sql_rows(page, "function-paths")
    assert row["functions"] == " > ".join(known.functions)
    assert (row["path"], row["calls"], row["anomalies"]) == (total.path, known.calls, total.anomalies)
    links[0].click()
    page.wait_for_selector(".empty >> text=not one of program 0 in this run")


@NAMES
def test_the_worst_calls_are_those_of_the_store(watched: Watched, provenance: Provenance, name: str) -> None:
    page = open_function(watched, name)
    calls = provenance.calls.page(CallFilter(function=name, program=0), "severity_us", limit=20).calls
    found = rows(page, "function-worst")
    heads = headings(page, "function-worst")
    assert [row[0] for row in found] == [call.id for call in calls]
    most = max(call.severity_us for call in calls)
    for row, call in zip(found, calls, strict=True):
        assert (number(row[2]), number(row[3])) == (call.rank, call.step)
        assert in_column(heads[4], row[4]) == pytest.approx(call.exclusive_us, rel=5e-3)
        assert in_column(heads[6], row[6]) == pytest.approx(call.severity_us, rel=5e-3, abs=1e-4 * most)
        times = float(row[5].rstrip("×").replace(",", ""))
        assert times == pytest.approx(call.exclusive_us / call.expected_us, rel=0.06)
        assert number(row[7]) == pytest.approx(call.score, rel=5e-3)
    total = provenance.calls.count(CallFilter(function=name, program=0))
    assert f"{total} abnormal calls are recorded." in panel(page, "function-worst").inner_text()
    assert [row["call"] for row in sql_rows(page, "function-worst")] == [call.id for call in calls]
    command = answered(copied(page, "function-worst", "Copy command"))
    assert [call["id"] for call in command["calls"]] == [call.id for call in calls]
    assert command["matched"] == total
    assert api_answer(page, "function-worst")["calls"] == as_object(calls)
    assert table_file(saved(page, "function-worst", "Save CSV")) == [heads, *found]


def test_a_call_of_it_is_a_click_away_and_leads_back(page: Page, provenance: Provenance) -> None:
    worst = provenance.calls.page(CallFilter(function=FUNCTIONS[1]), "severity_us", limit=1).calls[0]
    page.get_by_role("link", name=worst.id).click()
    page.wait_for_url("**/r/heat/call/" + worst.id.replace(":", "/", 1) + "**")
    page.wait_for_selector("[data-panel=stack] [data-function-link]")
    panel(page, "stack").locator("[data-function-link]").first.click()
    page.wait_for_url("**/r/heat/fn?**")
    page.wait_for_selector("[data-panel=function-worst] tbody tr")


def test_a_kernel_of_2600_characters_opens_by_its_address(
    watched: Watched, browser: Browser, process: DashboardProcess
) -> None:
    page = open_function(watched, KERNEL)
    assert page.locator("[data-answer]").inner_text().startswith("push_particles λ3: ")
    assert page.evaluate("document.documentElement.scrollWidth") == 1280
    other = Watched(browser, process)
    other.page.goto(page.url)
    other.page.wait_for_selector("[data-panel=function-worst] tbody tr")
    picture = "document.querySelector('main').innerText"
    other.page.wait_for_function(f"text => {picture} === text", arg=page.evaluate(picture))
    assert other.errors == []
    other.close()


def test_without_its_program_a_function_is_found_by_name(watched: Watched) -> None:
    page = watched.page
    page.goto(f"{watched.base}r/heat/fn?function={quote(FUNCTIONS[0])}")
    page.wait_for_selector("[data-panel=function-worst] tbody tr")
    page.wait_for_selector("[data-answer]:has-text('relax_block: ')")


def test_a_function_that_is_not_there_says_so(watched: Watched) -> None:
    page = watched.page
    watched.may_be_missing = True
    page.goto(watched.base + "r/heat/fn?function=nothing_like_it")
    page.wait_for_selector(".empty >> text=function 'nothing_like_it': not one of this run")
    page.goto(watched.base + "r/heat/fn")
    page.wait_for_selector(".empty >> text=No function is selected")
    page.get_by_role("link", name="Back to the run").click()
    page.wait_for_selector(".overview")


@pytest.mark.parametrize("scheme", first(1, ["light", "dark"]))
@pytest.mark.parametrize("width", first(1, [1280, 1920]))
def test_it_fits_the_width(browser: Browser, process: DashboardProcess, scheme: str, width: int) -> None:
    watched = Watched(browser, process, viewport={"width": width, "height": 600}, color_scheme=scheme)
    page = open_function(watched, KERNEL)
    assert page.evaluate("document.documentElement.scrollWidth") == width
    assert page.evaluate("document.querySelectorAll('*').length") < 2500
    for shown in page.locator("figure.panel").all():
        label = shown.get_attribute("aria-labelledby")
        assert label and shown.locator(f'[id="{label}"]').inner_text()
    assert watched.errors == []
    watched.close()


@pytest.mark.thorough
def test_a_run_that_goes_on_is_followed(
    browser: Browser, tmp_path: Path, broker: PrivateBroker, page_files: Path
) -> None:
    made = make_run(tmp_path / "heat", "running", 20)
    live = LiveRun(made, broker.url, 20)
    with dashboard(made, broker.url) as process:
        watched = Watched(browser, process)
        page = open_function(watched, FUNCTIONS[1])
        for more, until in ((10, 30), (15, 45)):
            live.advance(more)
            known = next(row for row in made.function_statistics(until) if row.name == FUNCTIONS[1])
            page.wait_for_selector(f"[data-answer] >> text=: {known.anomalies} of {known.calls:,} calls")
            totals = {
                call.step for call in made.anomalies if call.function == known.name and call.step < until
            }
            page.wait_for_selector(
                f"[data-panel=function-trend] >> text={known.anomalies} recorded anomalies"
            )
            page.wait_for_selector(f"[data-panel=function-trend]:has-text('in {len(totals)} steps')")
        assert watched.errors == []
        watched.close()
    live.close()


def test_its_call_paths_lead_to_a_flame_graph(page: Page, provenance: Provenance) -> None:
    name = FUNCTIONS[1]
    panel(page, "function-paths").get_by_role("link", name="Flame graph").click()
    chart = page.get_by_role("application", name="Flame graph of time in calls")
    settled(page)
    chart.focus()
    page.keyboard.press("ArrowDown")
    page.wait_for_function("name => document.activeElement.dataset.pointed === name", arg=name)
    page.keyboard.press("Enter")
    page.wait_for_selector("[data-zoomed] .function-link")
    assert page.locator("[data-zoomed] .function-link").get_attribute("data-function-link") == name
    page.get_by_placeholder("part of a name").fill(name[:6].upper())
    page.locator("[data-found]", has_text=re.compile("100 %$")).wait_for(state="attached")
    # The address is the picture, its table included.
    page.goto(f"{page.url}&table=flame")
    page.wait_for_selector("tr[data-frame]")
    (first_row, *_) = rows(page, "flame")
    paths = [path for path in provenance.path_statistics() if path.functions[-1] == name]
    assert number(first_row[4]) == sum(path.calls for path in paths)
    own_us = sum(path.calls * path.exclusive_mean_us for path in paths)
    assert in_column(headings(page, "flame")[3], first_row[3]) == pytest.approx(own_us, rel=5e-3)
    page.keyboard.press("Escape")
    page.get_by_label("Width of frames").select_option("lost")
    page.wait_for_selector("[data-panel=flame] h2 >> text=time lost")
    # Of one rank, too.
    page.goto(f"{page.url}&rank=0:1")
    page.get_by_label("Width of frames").select_option("time")
    page.wait_for_selector("[data-panel=flame] h2:has-text('time in calls'):has-text('rank 1')")
    page.locator("tr[data-frame] td.number", has_text=re.compile("^40$")).wait_for()
