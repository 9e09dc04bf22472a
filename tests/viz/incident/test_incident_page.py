"""Incidents in a real browser: what the list, the page and the ways to it show is the store's."""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING

import pytest

from chimbuko.provenance.incidents.incidentlist import IncidentDetails, Incidents
from chimbuko.provenance.incidents.origins import origins
from chimbuko.provenance.incidents.runbudget import run_budget, step_times
from chimbuko.provenance.query.filters import CallFilter
from chimbuko.provenance.query.run import Provenance
from tests.browsing import settled
from tests.thorough import first
from tests.viz.conftest import Watched
from tests.viz.pages.test_accessibility import wrong_with
from tests.viz.panels import answered, copied, panel, rows, show_table

if TYPE_CHECKING:
    from playwright.sync_api import Page

LISTED = 30
SHOWS_INCIDENTS = """wanted => {
  const findings = [...document.querySelectorAll('[data-finding]')].map(line => line.dataset.finding)
  const incidents = new Set(findings.filter(id => id.startsWith('I')))
  return incidents.size === wanted.length && wanted.every(id => incidents.has(id))
}"""


@pytest.fixture(scope="package")
def worst(provenance: Provenance) -> IncidentDetails:
    """The most costly one, for which all other ranks waited."""
    found = Incidents(provenance.reader)
    return found.one(found.page(limit=1).incidents[0].id)


def opened(watched: Watched, address: str, wait: str) -> Page:
    """A page that has read what it needs."""
    page = watched.page
    page.goto(f"{watched.base}r/heat{address}")
    page.wait_for_selector(wait)
    settled(page)
    return page


def drawn(watched: Watched, details: IncidentDetails) -> Page:
    """The page of an incident, with its lanes."""
    page = opened(watched, f"/incident/{details.summary.id}", ".incident-lanes")
    page.wait_for_selector(".incident-lanes:not([data-waits='0'])")
    page.wait_for_selector("[data-panel=twin]")
    settled(page)
    return page


def test_the_overview_begins_with_what_cost_most(watched: Watched, provenance: Provenance) -> None:
    page = opened(watched, "", "[data-finding]")
    found = Incidents(provenance.reader)
    stored, recurring = found.page(LISTED), found.recurrences()
    costs = [(one.cost_us, one.id) for one in stored.incidents]
    costs += [(one.recurrence.cost_us, one.id) for one in recurring]
    lines = page.locator("[data-finding]")
    ids = lines.evaluate_all("lines => lines.map(line => line.dataset.finding)")
    assert ids == [key for _, key in sorted(costs, key=lambda cost: -cost[0])]
    first = stored.incidents[0]
    assert lines.first.locator(".finding-sentence").inner_text() == first.sentence
    answer = page.locator("[data-answer]").inner_text()
    findings = f" and {len(recurring)} recurring finding{'s'[: len(recurring) - 1]}" if recurring else ""
    assert answer.startswith(f"{stored.total} incidents{findings} lost ")
    assert first.function.split(" [")[0] in answer
    shown = show_table(page, "incidents")
    assert [float(row[2]) for row in shown if row[0] == first.id] == [round(first.cost_us / 1e6, 3)]
    assert [row[1] for row in shown if row[0].startswith("R")] == [one.sentence for one in recurring]


def test_the_budget_is_a_bar_of_parts(watched: Watched, provenance: Provenance) -> None:
    budget = run_budget(provenance)
    page = opened(watched, "", ".budget-part")
    parts = page.locator(".budget-part").evaluate_all("all => all.map(e => [e.title, e.offsetWidth])")
    wide = page.locator(".budget-bar").evaluate("bar => bar.clientWidth")
    assert sum(width for _, width in parts) == pytest.approx(wide, abs=len(parts))
    assert parts[0][0].startswith("computing or asleep: "), "nothing was sampled of a recorded trace"
    assert parts[0][1] / wide == pytest.approx(budget.shares.computing_us / budget.total_us, abs=0.02)
    assert page.locator("[data-budget] p").inner_text() == budget.sentence


def test_ranks_and_functions_stand_by_what_began_there_and_waits_apart(
    watched: Watched, provenance: Provenance
) -> None:
    page = opened(watched, "", "[data-finding]")
    by_rank = origins(provenance.reader, "rank", 5).origins
    page.wait_for_selector(".ranks .rank-heading")
    bars = page.locator("[data-list=top] [data-rank]")
    assert bars.evaluate_all("bars => bars.map(bar => bar.dataset.rank)") == [
        f"{one.program}:{one.rank}" for one in by_rank
    ]
    values = page.locator("[data-list=top] [data-rank] .rank-value").all_inner_texts()
    figures = [float(re.sub(r"[^\d.]", "", text)) for text in values]
    expected = [us / 1e6 for one in by_rank for us in (one.lost_us, one.waited_us)]
    assert figures == pytest.approx(expected, rel=0.01)
    by_function = origins(provenance.reader, "function", 5).origins
    names = page.locator("[data-functions=top] [data-function]")
    assert names.evaluate_all("names => names.map(name => name.dataset.function)") == [
        one.function for one in by_function
    ]
    # What a rank waited is in no other list.
    page.get_by_label("Statistic of anomalies per step").select_option("mean")
    page.wait_for_selector("[data-list=bottom]")
    page.wait_for_selector(".rank-heading", state="detached")


def test_a_click_leads_to_why(watched: Watched, worst: IncidentDetails) -> None:
    page = opened(watched, "", "[data-finding]")
    page.locator("[data-finding]").first.click()
    page.wait_for_url(f"**/r/heat/incident/{worst.summary.id}")
    page.wait_for_selector(".incident-lanes")
    settled(page)
    assert worst.summary.sentence in page.locator("[data-answer]").inner_text()
    page.locator("h1").click()
    page.keyboard.press("]")
    page.wait_for_url(lambda url: "/incident/" in url and not url.endswith(worst.summary.id))
    page.keyboard.press("[")
    page.wait_for_url(f"**/incident/{worst.summary.id}")
    page.keyboard.press("u")
    page.wait_for_selector("[data-finding]")
    page.wait_for_url(lambda url: "incident" not in url.partition("/r/")[2])


def test_the_page_shows_who_waited_for_whom(watched: Watched, worst: IncidentDetails) -> None:
    page = drawn(watched, worst)
    incident = worst.incident
    assert page.locator(".incident-lanes").get_attribute("data-waits") == str(len(incident.waited))
    chain = page.locator("[data-chain-call]")
    assert set(chain.evaluate_all("links => links.map(link => link.dataset.chainCall)")) == {
        incident.call_id,
        *(one.call_id for one in incident.waited),
    }
    table = show_table(page, "chain")
    assert {(row[0], int(row[1]), float(row[3].replace(",", ""))) for row in table[1:]} == {
        (one.call_id, one.rank, math.floor(one.lost_us + 0.5)) for one in incident.waited
    }
    parts = show_table(page, "split")
    assert sum(float(row[2].replace(",", "")) for row in parts) == pytest.approx(incident.excess_us, abs=2)
    assert "normal call" in panel(page, "twin").inner_text()
    spans = {row[-1] for row in show_table(page, "lanes")}
    assert {incident.call_id, *(one.call_id for one in incident.waited)} <= spans


def test_lanes_are_shaded_and_can_be_walked_by_keys(watched: Watched, worst: IncidentDetails) -> None:
    page = drawn(watched, worst)
    lanes = page.locator(".incident-lanes")
    page.wait_for_function(
        """() => {
          const canvas = document.querySelector('.incident-lanes canvas');
          const { data } = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height);
          let dashed = 0;
          for (let at = 0; at < data.length; at += 4) {
            if (data[at] === 22 && data[at + 1] === 86 && data[at + 2] === 184) dashed++;
          }
          return dashed > 500;
        }"""
    )
    lanes.focus()
    settled(page)

    def pressed(key: str) -> str | None:
        page.keyboard.press(key)
        settled(page)
        return lanes.get_attribute("data-pointed")

    assert pressed("ArrowRight") == worst.incident.call_id
    second = pressed("ArrowRight")
    assert second in {one.call_id for one in worst.incident.waited}
    assert pressed("ArrowLeft") == worst.incident.call_id
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Enter")
    assert second is not None
    # Its neighbours are those of the incident.
    page.wait_for_url(f"**/call/{second.replace(':', '/', 1)}?incident={worst.summary.id}")


def test_a_wait_leads_to_its_origin_in_one_click(
    watched: Watched, worst: IncidentDetails, provenance: Provenance
) -> None:
    wait = worst.incident.waited[0].call_id
    address = f"/incident/{worst.summary.id}"
    page = opened(watched, f"/call/{wait.replace(':', '/', 1)}", "[data-because]")
    assert worst.summary.sentence in page.locator("[data-because]").inner_text()
    page.locator(".headline [data-incident]").click()
    page.wait_for_url(f"**{address}")
    record = provenance.calls.record(wait)
    page = opened(watched, f"/calls?rank=0:{record.rank}&step={record.step}", "[data-panel=calls] tbody tr")
    page.locator(f'[data-call="{wait}"] [data-incident]').click()
    page.wait_for_url(f"**{address}*")
    page = opened(watched, f"/timeline?call={wait}", ".chosen [data-incident]")
    page.locator(".chosen [data-incident]").click()
    page.wait_for_url(f"**{address}*")
    page.get_by_role("link", name="Its calls").click()
    page.wait_for_url(f"**/calls?*incident={worst.summary.id}*")
    page.wait_for_selector(f'[data-panel="calls"] [data-total="{worst.summary.flags}"]')
    ids = {call.id for call in provenance.calls.page(CallFilter(incident=worst.summary.id)).calls}
    assert {row[1] for row in rows(page, "calls")} == ids
    page.get_by_role("button", name=f"Drop filter incident {worst.summary.id}").click()
    page.wait_for_url(lambda url: "incident" not in url)


def test_a_timeline_of_four_ranks_has_all_of_them_until_they_are_dropped(
    watched: Watched, worst: IncidentDetails
) -> None:
    call = worst.incident.call_id
    own, others = call.split(":")[1], [f"0:{rank}" for rank in range(4) if not call.startswith(f"0:{rank}:")]
    page = opened(watched, f"/timeline?call={call}", ".timeline .chip")
    labels = page.locator(".timeline .chip").evaluate_all("chips => chips.map(chip => chip.ariaLabel)")
    assert labels == [f"Remove rank {other}" for other in others]
    for other in others:
        page.get_by_label(f"Remove rank {other}").click()
    page.wait_for_url(f"**with=0:{own}*")
    page.wait_for_selector(".timeline .chip", state="detached")


def test_what_is_copied_says_the_same(watched: Watched, worst: IncidentDetails) -> None:
    page = drawn(watched, worst)
    found = answered(copied(page, "chain", "Copy command"))
    assert found["summary"]["sentence"] == worst.summary.sentence


def test_one_that_is_not_there_says_so(watched: Watched) -> None:
    watched.may_be_missing = True
    page = opened(watched, "/incident/I999999999", ".empty")
    assert "not in this run" in page.locator(".empty").inner_text()


@pytest.mark.parametrize("watched", first(1, ["light", "dark"]), indirect=True)
def test_nothing_is_wrong_with_the_page_and_its_tables(watched: Watched, worst: IncidentDetails) -> None:
    page = drawn(watched, worst)
    assert wrong_with(page) == []
    page.locator("h1").click()
    page.keyboard.press("t")
    page.wait_for_selector("[data-panel=lanes] table")
    settled(page)
    assert wrong_with(page) == []
    page = opened(watched, "", "[data-finding]")
    assert wrong_with(page) == []


def test_what_recurs_has_a_page(watched: Watched, provenance: Provenance) -> None:
    """One click from the overview: its sentence, its figures, and examples with their windows."""
    found = Incidents(provenance.reader).recurrences()[0]
    page = opened(watched, "", "[data-finding]")
    page.click(f"[data-finding={found.id}]")
    page.wait_for_selector("[data-figure='time lost']")
    settled(page)
    assert found.sentence in page.locator("[data-answer]").inner_text()
    assert page.url.endswith(f"/incident/{found.id}")
    page.wait_for_selector("[data-example] [data-panel=twin]")
    settled(page)
    shown = page.locator("[data-example]").evaluate_all("all => all.map(one => one.dataset.example)")
    assert shown == found.recurrence.examples[:3]
    assert wrong_with(page) == []
    page.click("text=Its calls")
    page.wait_for_selector(f"text=finding {found.id}")
    page.wait_for_selector("[data-call]")
    settled(page)
    listed = provenance.calls.page(CallFilter(finding=found.id, label=None), limit=100).calls
    shown_calls = page.locator("[data-call]").evaluate_all("all => all.map(one => one.dataset.call)")
    assert set(shown_calls) <= {call.id for call in listed}
    page.go_back()
    page.wait_for_selector("[data-example] [data-panel=twin]")
    page.locator("[data-example] .place a").first.click()
    page.wait_for_function("() => document.querySelector('[data-page=call]') !== null")
    page.wait_for_url(lambda url: shown[0].replace(":", "/", 1) in url or shown[0] in url)
    watched.may_be_missing = True
    missing = opened(watched, "/incident/R999", ".empty, main")
    missing.wait_for_selector("text=This finding cannot be shown.")


def test_the_overview_has_the_time_of_each_step_with_incidents_and_chooses_steps_for_all(
    watched: Watched, provenance: Provenance
) -> None:
    page = opened(watched, "", ".steps .chart[data-bars]")
    chart = page.locator(".steps .chart")
    times = step_times(provenance)
    assert int(chart.get_attribute("data-bars") or 0) == len(times.times) > 10
    costliest = Incidents(provenance.reader).page(limit=1).incidents[0]
    assert costliest.id in (chart.get_attribute("data-marks") or "").split()
    chart.focus()
    page.keyboard.press("ArrowRight")
    page.wait_for_selector(".tip >> text=MPI: ")
    assert page.locator(".tip").inner_text().splitlines()[0] == "step 0"
    page.keyboard.press("Enter")
    page.wait_for_url("**step=0*")
    box = chart.bounding_box()
    assert box is not None
    middle = box["y"] + box["height"] / 2
    page.mouse.move(box["x"] + 0.3 * box["width"], middle)
    page.mouse.down()
    page.mouse.move(box["x"] + 0.6 * box["width"], middle, steps=4)
    page.mouse.up()
    page.wait_for_url(re.compile(r"step=\d+\.\.\d+"))
    first, last = map(int, re.findall(r"step=(\d+)\.\.(\d+)", page.url)[0])
    chosen = [one for one in times.times if first <= one.step <= last]
    within = chosen[0].start_us, chosen[-1].end_us
    listed = Incidents(provenance.reader).page(LISTED, times=within)
    assert 0 < listed.total < Incidents(provenance.reader).page(limit=1).total
    # The list follows the address, which says what was chosen first.
    page.wait_for_function(SHOWS_INCIDENTS, arg=sorted(one.id for one in listed.incidents), polling=33)
    settled(page)
    worst = origins(provenance.reader, "rank", 1, within).origins[0]
    assert page.locator(".ranks [data-rank]").first.get_attribute("data-rank") == f"0:{worst.rank}"
    page.get_by_label("What is shown over steps").select_option("ranks")
    page.wait_for_selector("[data-legend]")


def test_keys_mark_a_finding_and_take_the_mark_away(watched: Watched, worst: IncidentDetails) -> None:
    finding = worst.summary.id
    page = opened(watched, f"/incident/{finding}", ".marks")
    page.keyboard.press("k")
    page.wait_for_selector(".marks[data-mark=known] >> text=known by ")
    page.keyboard.press("n")
    page.get_by_label("Note").fill("ticket 812")
    page.keyboard.press("Enter")
    page.wait_for_selector(".mark-said >> text=: ticket 812")
    settled(page)
    assert wrong_with(page) == []
    page = opened(watched, "", f"[data-finding={finding}]")
    page.wait_for_selector(f"[data-finding={finding}] .mark-tag >> text=known")
    page = opened(watched, f"/incident/{finding}", ".mark-said")
    page.keyboard.press("n")
    page.get_by_label("Note").fill("")
    page.keyboard.press("Enter")
    page.wait_for_selector(".mark-said >> text=ticket", state="detached")
    page.keyboard.press("k")
    page.wait_for_selector(".marks[data-mark='']")
