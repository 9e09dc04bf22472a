"""The list of the function view and its filters, in a real browser: they are the database's."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from chimbuko.core.calls.schema import Label
from chimbuko.provenance.query.filters import CallFilter
from chimbuko.provenance.query.run import Provenance
from tests.browsing import settled
from tests.thorough import first
from tests.viz.calls.asking import CHART, every, opened, wait_for_list
from tests.viz.conftest import Watched
from tests.viz.made_run import ZERO_US
from tests.viz.panels import answered

if TYPE_CHECKING:
    from playwright.sync_api import Page

# The list


@pytest.mark.parametrize(
    "sort",
    first(
        4,
        [
            "entry_us",
            "rank",
            "severity_us",
            "thread",
            "step",
            "score",
            "exclusive_us",
            "inclusive_us",
            "children",
        ],
    ),
)
def test_the_list_is_sorted_by_the_database(page: Page, provenance: Provenance, sort: str) -> None:
    if sort != "severity_us":
        page.locator(f'[data-sort="{sort}"]').click()
    falling = [call.id for call in provenance.calls.page(CallFilter(label=None), sort).calls]  # type: ignore[arg-type]
    wait_for_list(page, falling)
    page.locator(f'[data-sort="{sort}"]').click()
    rising = provenance.calls.page(CallFilter(label=None), sort, descending=False)  # type: ignore[arg-type]
    wait_for_list(page, [call.id for call in rising.calls])
    page.wait_for_selector(f'[aria-sort="ascending"] [data-sort="{sort}"]')


def test_the_list_shows_all_fields(page: Page, provenance: Provenance) -> None:
    headings = [text.strip(" ▾▴") for text in page.locator(".calls th").all_inner_texts()]
    assert [heading.split(",")[0] for heading in headings] == [
        *("function", "call", "entry", "exit", "rank", "step", "severity", "× usual", "score", "exclusive"),
        *("inclusive", "children", "messages", "thread", "node", "GPU", "label"),
    ]
    rows = page.evaluate(
        "[...document.querySelectorAll('.calls tbody tr')]"
        ".map(r => [...r.cells].map(c => c.innerText.trim()))"
    )
    for row, call in zip(rows, provenance.calls.page(CallFilter(label=None)).calls, strict=True):
        reported = dict(zip((heading.split(",")[0] for heading in headings), row, strict=True))
        assert reported["call"] == call.id
        sign = "○" if call.label is Label.NORMAL else "▼" if call.exclusive_us < call.expected_us else "▲"
        assert reported["function"].startswith(sign)
        assert reported["exit"] == "open" if call.exit_us == 0 else reported["exit"].startswith("+00:")
        assert (reported["rank"], reported["step"], reported["thread"]) == (
            str(call.rank),
            str(call.step),
            str(call.thread),
        )
        assert (reported["children"], reported["messages"]) == (str(call.children), str(call.messages_count))
        assert (reported["node"], reported["label"]) == (call.node, call.label.value)
        assert reported["GPU"] == ("yes" if call.is_gpu else "no")


def test_pages_of_the_list_follow_each_other(page: Page, provenance: Provenance) -> None:
    whole = [call.id for call in every(provenance, CallFilter(label=None))]
    wait_for_list(page, whole[:50])
    page.get_by_role("button", name="Next ›").click()
    wait_for_list(page, whole[50:100])
    page.go_back()
    wait_for_list(page, whole[:50])
    page.go_forward()
    page.get_by_role("button", name="First").click()
    wait_for_list(page, whole[:50])


def test_a_row_selects_and_its_id_leads_to_why(page: Page) -> None:
    row = page.locator(".calls [data-call]").nth(2)
    event = row.get_attribute("data-call") or ""
    row.locator("td").nth(4).click()
    page.wait_for_url(f"**/calls?call={event}")
    page.wait_for_selector(f'.calls tr.selected[data-call="{event}"]')
    row.locator("a").click()
    page.wait_for_url("**/call/" + event.replace(":", "/", 1))


def test_the_chart_has_a_table_twin(page: Page, provenance: Provenance) -> None:
    page.get_by_role("button", name="Calls: table", exact=True).click()
    page.wait_for_selector(".callscatter tbody tr")
    settled(page)
    twin = page.evaluate(
        "[...document.querySelectorAll('.callscatter tr[data-call]')].map(r => r.dataset.call)"
    )
    worst = every(provenance, CallFilter())[:30]
    values = {call.id: call.severity_us for call in worst}
    assert [values[event] for event in twin] == sorted(values.values(), reverse=True)


# Filters

FILTERS: list[tuple[str, dict[str, Any]]] = [
    ("function=MPI_*", {"function": "MPI_*"}),
    ("rank=0:3", {"rank": 3, "program": 0}),
    ("node=node0", {"node": "node0"}),
    ("thread=2", {"thread": 2}),
    ("step=10..20", {"step_min": 10, "step_max": 20}),
    ("step=7", {"step_min": 7, "step_max": 7}),
    ("time=10000000..12500000", {"time_min_us": ZERO_US + 10_000_000, "time_max_us": ZERO_US + 12_500_000}),
    ("severity_us=20000", {"min_severity_us": 20_000}),
    ("score=100.5", {"min_score": 100.5}),
    ("label=anomaly", {"label": "anomaly"}),
    ("label=normal", {"label": "normal"}),
    ("gpu=true", {"is_gpu": True}),
    ("gpu=false", {"is_gpu": False}),
    ("text=SWEEP", {"text": "sweep"}),
    (
        "rank=0:1&step=5..40&severity_us=3000&thread=1&label=anomaly",
        {"rank": 1, "program": 0, "step_min": 5, "step_max": 40, "min_severity_us": 3000, "thread": 1}
        | {"label": "anomaly"},
    ),
]


@pytest.mark.parametrize(("query", "given"), first(3, FILTERS, [query for query, _ in FILTERS]))
def test_chart_list_and_command_have_the_same_filter(
    watched: Watched, provenance: Provenance, query: str, given: dict[str, Any]
) -> None:
    wanted = CallFilter(**({"label": None} | given))
    matching = every(provenance, wanted)
    assert matching
    page = opened(watched, query)
    page.wait_for_selector(f'.calls [data-total="{len(matching)}"]')
    wait_for_list(page, [call.id for call in matching[:50]])
    page.wait_for_function(
        f"n => {{const d = document.querySelector('{CHART}').dataset; return +d.drawn + +d.covered === n}}",
        arg=len(matching),
    )
    assert copied_calls(page) == [call.id for call in matching[:50]]


def copied_calls(page: Page) -> list[str]:
    """Ids of the calls that the copied command lists, in their order."""
    page.wait_for_function("document.querySelector('.run').innerText !== '…'")
    page.keyboard.press("Shift+C")
    page.wait_for_selector(".notice >> text=Copied")
    page.wait_for_selector(".notice >> text=chimbuko query")
    command = page.evaluate("navigator.clipboard.readText()")
    return [call["id"] for call in answered(command)["calls"]]


def test_the_command_lists_the_page_of_the_list_in_its_order(
    watched: Watched, provenance: Provenance
) -> None:
    order = provenance.calls.page(CallFilter(label=None), "children", descending=False, limit=100).calls
    page = opened(watched, "sort=children&order=asc")
    wait_for_list(page, [call.id for call in order[:50]])
    page.get_by_role("button", name="Next ›").click()
    wait_for_list(page, [call.id for call in order[50:]])
    assert copied_calls(page) == [call.id for call in order[50:]]


def test_filters_are_typed_and_become_chips(page: Page, provenance: Provenance) -> None:
    def fill(name: str, text: str) -> None:
        page.get_by_label(name, exact=True).fill(text)
        page.get_by_label(name, exact=True).press("Enter")

    fill("Rank", "1")
    fill("Step", "5..50")
    fill("Severity ≥", "2 ms")
    page.get_by_role("button", name="More filters").click()
    fill("Node", "node*")
    fill("Thread", "1")
    fill("Time", "5..40")
    fill("Score ≥", "5")
    fill("Text", "time_STEP")
    page.get_by_label("GPU", exact=True).select_option("false")
    page.get_by_label("Label", exact=True).select_option("anomaly")
    wanted = CallFilter(
        rank=1,
        program=0,
        step_min=5,
        step_max=50,
        min_severity_us=2000,
        node="node*",
        thread=1,
        time_min_us=ZERO_US + 5_000_000,
        time_max_us=ZERO_US + 40_000_000,
        min_score=5,
        text="time_step",
        is_gpu=False,
    )
    expected = [call.id for call in every(provenance, wanted)]
    assert expected
    wait_for_list(page, expected)
    chips = ["rank 1", "node node*", "thread 1", "step 5..50", "time +00:00:05.000 to +00:00:40.000"]
    chips += ["severity ≥ 2 ms", "score ≥ 5", "not on a GPU", "text time_STEP", "anomalies only"]
    assert [chip.get_attribute("aria-label") for chip in page.locator(".chip").all()] == [
        f"Drop filter {chip}" for chip in chips
    ]
    page.get_by_role("button", name="Drop filter thread 1").click()
    page.wait_for_function("!location.search.includes('thread')")
    page.get_by_role("button", name="Drop all filters").click()
    page.wait_for_selector(f'.calls [data-total="{provenance.calls.count(CallFilter(label=None))}"]')
    page.wait_for_url("**/r/heat/calls")


def test_nonsense_in_a_filter_changes_nothing(page: Page) -> None:
    page.get_by_role("button", name="More filters").click()
    for name in ("Rank", "Step", "Severity ≥", "Thread", "Time", "Score ≥"):
        page.get_by_label(name, exact=True).fill("much")
        page.get_by_label(name, exact=True).press("Enter")
        page.wait_for_selector(f".notice >> text={name} much was not understood")
    assert page.url.endswith("/r/heat/calls")


def test_functions_are_found_by_a_part_of_their_name(page: Page, provenance: Provenance) -> None:
    find = page.get_by_role("combobox", name="Find")
    find.fill("wait")
    page.get_by_role("option", name="MPI_Waitall").wait_for()
    find.press("ArrowDown")
    find.press("Enter")
    page.wait_for_url("**function=MPI_Waitall()*")
    wanted = CallFilter(label=None, function="MPI_Waitall()")
    wait_for_list(page, [call.id for call in every(provenance, wanted)[:50]])
    find.fill("block")
    page.get_by_role("option", name="relax_block").click()
    page.wait_for_url("**function=relax_block*")
    find.fill("sweep")
    find.press("Enter")
    page.wait_for_url("**function=*sweep*")
    wait_for_list(
        page, [call.id for call in every(provenance, CallFilter(label=None, function="*sweep*"))[:50]]
    )
    find.fill("")
    find.press("Enter")
    page.wait_for_url("**/r/heat/calls")


def test_where_nothing_matches_it_says_without_what_something_would(
    watched: Watched, provenance: Provenance
) -> None:
    page = opened(watched, "rank=0:1&severity_us=100000000&function=MPI_*")
    without = provenance.calls.count(CallFilter(label=None, rank=1, program=0, function="MPI_*"))
    page.wait_for_selector(".callscatter .ways li >> text=Without any filter")
    settled(page)
    ways = page.locator(".callscatter .ways li").all_inner_texts()
    assert ways == [
        f"Without ‘severity ≥ 100 s’: {without}. Drop filter",
        f"Without any filter: {provenance.calls.count(CallFilter(label=None))}. Drop all filters",
    ]
    assert page.locator("[data-answer]").inner_text().endswith("no call kept.")
    page.locator(".callscatter").get_by_role("button", name="Drop filter").click()
    page.wait_for_selector(f'.calls [data-total="{without}"]')


# The whole
