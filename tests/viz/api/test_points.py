"""Calls for a scatter chart."""

from __future__ import annotations

from typing import Any

import pytest

from chimbuko.provenance.query.filters import CallFilter, CallSummary
from chimbuko.provenance.query.run import Provenance
from tests.viz.api.conftest import Api
from tests.viz.made_run import STEPS, MadeRun

SAME = ("step", "thread", "entry_us", "inclusive_us", "exclusive_us", "expected_us", "severity_us", "score")
SAME_TOO = ("children", "messages_count", "is_gpu")


def asked(api: Api, path: str) -> dict[str, Any]:
    """The answer to a question."""
    body: dict[str, Any] | None = api.ask(path).json
    assert body is not None
    return body


def rows_of(body: Any) -> list[dict[str, Any]]:
    """Columns as one object per call."""
    columns = body["columns"]
    names = list(columns)
    return [dict(zip(names, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def as_listed(body: Any) -> list[dict[str, Any]]:
    """Calls as a list of calls contains them."""
    return [
        {name: row[name] for name in (*SAME, *SAME_TOO)}
        | {
            "id": f"{body['ranks'][row['rank']]}:{row['begin_step']}:{row['begin_row']}",
            "rank": body["ranks"][row["rank"]],
            "node": body["nodes"][row["rank"]],
            "function": body["functions"][row["function"]],
            "label": "anomaly" if row["is_anomaly"] else "normal",
            "is_open": row["is_open"],
        }
        for row in rows_of(body)
    ]


def listed(call: CallSummary) -> dict[str, Any]:
    """The same of a call of a list."""
    return {name: getattr(call, name) for name in (*SAME, *SAME_TOO)} | {
        "id": call.id,
        "rank": f"{call.program}:{call.rank}",
        "node": call.node,
        "function": call.function,
        "label": call.label.value,
        "is_open": call.exit_us == 0,
    }


@pytest.mark.parametrize(
    ("query", "wanted"),
    [
        ("label=any", CallFilter(label=None)),
        ("", CallFilter()),
        ("label=normal", CallFilter(label="normal")),
        (
            "label=any&rank=0:3&step_min=10&step_max=20",
            CallFilter(label=None, rank=3, program=0, step_min=10, step_max=20),
        ),
        ("label=any&function=MPI_*", CallFilter(label=None, function="MPI_*")),
        ("label=any&node=node0&min_score=5", CallFilter(label=None, node="node0", min_score=5)),
        ("min_severity_us=5000&text=SWEEP", CallFilter(min_severity_us=5000, text="sweep")),
        ("function=nothing", CallFilter(function="nothing")),
    ],
)
def test_points_are_the_calls_of_the_list(
    api: Api, provenance: Provenance, query: str, wanted: CallFilter
) -> None:
    body = asked(api, f"points?{query}")
    calls = provenance.calls.page(wanted, "severity_us", limit=1000).calls
    key = lambda call: call["id"]  # noqa: E731
    assert sorted(as_listed(body), key=key) == sorted(map(listed, calls), key=key)
    assert body["anomalies"] == sum(call.label.value == "anomaly" for call in calls)
    assert body["normal_calls"] == len(calls) - body["anomalies"]


def test_analysed_calls_are_counted_where_they_can_be(api: Api, finished: MadeRun) -> None:
    def analysed(query: str) -> int | None:
        return asked(api, f"points?label=any&{query}")["analysed"]

    steps = finished.steps
    assert analysed("") == sum(step.calls for step in steps)
    assert analysed("program=0") == sum(step.calls for step in steps)
    assert analysed("rank=0:2&step_min=18&step_max=25") == sum(
        step.calls for step in steps if step.rank == 2 and 18 <= step.step <= 25
    )
    assert analysed("node=node0&step_min=50") == sum(
        step.calls for step in steps if step.rank < 2 and step.step >= 50
    )
    assert analysed(f"rank=0:1&step_min={STEPS}") == 0
    assert analysed("node=node0&rank=4") == 0
    assert analysed("function=MPI_*") is None
    assert analysed("thread=0") is None


def test_the_caller_is_named(api: Api, finished: MadeRun) -> None:
    body = asked(api, "points")
    assert {body["functions"][row["caller"]] for row in rows_of(body)} == {
        record.call_stack[1].function for record in finished.anomalies
    }


def test_of_too_many_the_worst_and_some_normal_ones_are_reported(api: Api, finished: MadeRun) -> None:
    worst = sorted((record.severity_us for record in finished.anomalies), reverse=True)
    anomalies, normal = len(finished.anomalies), len(finished.records) - len(finished.anomalies)
    few = asked(api, "points?label=any&most=20")
    assert [row["severity_us"] for row in rows_of(few)] == worst[:20]
    assert (few["anomalies"], few["normal_calls"]) == (anomalies, normal)
    some = rows_of(body := asked(api, f"points?label=any&most={anomalies + 12}"))
    assert sum(row["is_anomaly"] for row in some) == anomalies
    # Multiples of the golden ratio leave out or repeat one or two of twelve.
    assert 10 <= len(some) - anomalies <= 12
    assert (body["anomalies"], body["normal_calls"]) == (anomalies, normal)
    assert "most=" in asked(api, "points?most=30001")["error"]
