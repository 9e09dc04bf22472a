"""Histories that are summed up."""

from __future__ import annotations

import json
from collections import defaultdict
from itertools import accumulate
from operator import add
from typing import Any

import pytest

from chimbuko.core.calls.record import StepCount
from chimbuko.provenance.store.tables import SPENT
from tests.viz.api.conftest import Api
from tests.viz.made_run import RANKS, STEPS, MadeRun


def summed(steps: list[StepCount], rank: int, length: int) -> list[dict[str, Any]]:
    """By their definition."""
    groups: dict[int, list[StepCount]] = defaultdict(list)
    for step in steps:
        groups[step.step // length * length].append(step)
    return [
        {
            "program": 0,
            "rank": rank,
            "step": first,
            "length": length,
            "steps": len(some),
            "start_us": min(step.start_us for step in some),
            "end_us": max(step.end_us for step in some),
            "calls": sum(step.calls for step in some),
            "anomalies": sum(step.anomalies for step in some),
            "severity_us": pytest.approx(sum(step.severity_us for step in some)),
            "highest_score": max(step.highest_score for step in some),
            "most_anomalies": max(step.anomalies for step in some),
            **{name: sum(getattr(step, name) for step in some) for name in SPENT},
        }
        for first, some in sorted(groups.items())
    ]


@pytest.mark.parametrize("level", range(5))
def test_steps_are_summed_up(api: Api, finished: MadeRun, level: int) -> None:
    of_all = api.ask(f"step-sums?level={level}&limit=1000").json
    assert of_all["sums"] == summed(finished.steps, -1, 8**level)
    of_two = api.ask(f"step-sums?level={level}&limit=1000&rank=0:2&rank=0:1").json
    assert of_two["sums"] == [
        row for rank in (1, 2) for row in summed(finished.steps_of(rank), rank, 8**level)
    ]
    of_each = [json.loads(line) for line in api.ask(f"step-sums.ndjson?level={level}").text.splitlines()]
    assert of_each == [
        row for rank in range(RANKS) for row in summed(finished.steps_of(rank), rank, 8**level)
    ]


@pytest.mark.parametrize("after", ["", f"&after={STEPS // 2}", f"&after={STEPS}"])
def test_columns_are_those_of_the_rows(api: Api, after: str) -> None:
    asked = f"rank=0:2&rank=0:1{after}"
    rows, columns = api.ask(f"steps?{asked}").json, api.ask(f"step-columns?{asked}").json
    assert columns["next"] == rows["next"]
    assert [series["rank"] for series in columns["series"]] == ["0:2", "0:1"]
    for by_row, by_column in zip(rows["series"], columns["series"], strict=True):
        steps, starts_us = (list(accumulate(by_column[name])) for name in ("steps", "starts_us"))
        ends_us = map(add, starts_us, by_column["durations_us"])
        names = "calls", "anomalies", "severities_us", "highest_scores"
        others = (by_column[name] for name in names)
        assert [list(row) for row in zip(steps, starts_us, ends_us, *others, strict=True)] == by_row["steps"]


def test_sums_come_in_pages(api: Api) -> None:
    body = api.ask("step-sums?level=1&limit=5").json
    assert body["total"] == -(-STEPS // 8)
    rest = api.ask(f"step-sums?level=1&limit=5&cursor={body['next']}").json
    assert [row["step"] for row in body["sums"] + rest["sums"]] == list(range(0, STEPS, 8))
    assert rest["next"] is None
    assert "level=" in api.ask("step-sums?level=5").json["error"]
