"""Sums over abnormal calls."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from typing import Any
from urllib.parse import quote

import pytest

from chimbuko.core.calls.record import CallRecord
from tests.viz.api.conftest import Api
from tests.viz.made_run import FUNCTIONS, STEP_US, ZERO_US, MadeRun

GROUPS: dict[str, tuple[tuple[str, ...], Callable[[CallRecord], tuple[Any, ...]]]] = {
    "function": (("program", "function"), lambda call: (0, call.function)),
    "rank": (("program", "rank"), lambda call: (0, call.rank)),
    "node": (("node",), lambda call: (call.node,)),
    "path": (
        ("program", "functions"),
        lambda call: (0, [frame.function for frame in reversed(call.call_stack)]),
    ),
    "step": (("step",), lambda call: (call.step,)),
    "time": (("start_us",), lambda call: (call.entry_us // STEP_US * STEP_US,)),
}


@pytest.mark.parametrize("by", GROUPS)
@pytest.mark.parametrize("function", ["", FUNCTIONS[0]])
def test_totals_are_sums_of_calls(api: Api, finished: MadeRun, by: str, function: str) -> None:
    fields, group = GROUPS[by]
    expected: dict[str, list[CallRecord]] = defaultdict(list)
    for call in finished.anomalies:
        if not function or call.function == function:
            expected[str(group(call))].append(call)
    query = f"totals?by={by}&limit=1000" + (function and f"&function={quote(function)}")
    body = api.ask(query).json
    found = {str(tuple(total[field] for field in fields)): total for total in body["totals"]}
    assert found.keys() == expected.keys() and body["total"] == len(expected)
    for key, calls in expected.items():
        assert found[key]["anomalies"] == len(calls)
        assert found[key]["severity_us"] == pytest.approx(sum(call.severity_us for call in calls))
        assert found[key]["highest_score"] == max(call.score for call in calls)
        assert found[key]["first_us"] == min(call.entry_us for call in calls)
    assert body["width_us"] == (STEP_US if by == "time" else None)


def test_what_cost_most_comes_first_in_pages(api: Api) -> None:
    whole = api.ask("totals?by=rank").json["totals"]
    assert whole == sorted(whole, key=lambda total: -total["severity_us"])
    first = api.ask("totals?by=rank&limit=2").json
    assert first["totals"] == whole[:2]
    assert api.ask(f"totals?by=rank&limit=2&cursor={first['next']}").json["totals"] == whole[2:4]


def test_intervals_of_time(api: Api) -> None:
    body = api.ask(f"totals?by=time&width_us={10 * STEP_US - 1}&time_min_us={ZERO_US + 20 * STEP_US}").json
    assert body["width_us"] == 10 * STEP_US
    starts = [ZERO_US + step * STEP_US for step in range(20, 60, 10)]
    assert [total["start_us"] for total in body["totals"]] == starts


def test_totals_are_of_abnormal_calls(api: Api) -> None:
    assert "label" in api.ask("totals?by=rank&label=normal").json["error"]
    assert "by: missing" in api.ask("totals").json["error"]


def test_a_path_leads_to_its_calls(api: Api) -> None:
    worst = api.ask("totals?by=path").json["totals"][0]
    body = api.ask(f"calls?path={worst['path']}&limit=1000").json
    assert body["total"] == worst["anomalies"] == len(body["calls"]) and body["is_total_exact"]
    assert {call["function"] for call in body["calls"]} == {worst["functions"][-1]}
