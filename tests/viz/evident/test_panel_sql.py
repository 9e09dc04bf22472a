"""What lists show as SQL: whatever limits a list, the copied statement answers the same."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import pytest

from chimbuko.provenance.query.filters import CallFilter
from chimbuko.provenance.query.run import Provenance
from tests.thorough import first
from tests.viz.conftest import DashboardProcess, Watched
from tests.viz.evident_run import evident_run
from tests.viz.made_run import FUNCTIONS, KERNEL, ZERO_US, MadeRun
from tests.viz.panels import answered, copied, sql_rows

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

    from tests.postgresql import PostgresqlServer


@pytest.fixture(scope="module")
def page(browser: Browser, process: DashboardProcess) -> Iterator[Page]:
    """A browser."""
    watched = Watched(browser, process)
    watched.page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    yield watched.page
    assert watched.errors == []
    watched.close()


pytestmark = pytest.mark.thorough

CASES = [
    ("label=anomaly", CallFilter()),
    ("label=normal", CallFilter(label="normal")),
    ("", CallFilter(label=None)),
    ("label=anomaly&rank=0:1", CallFilter(program=0, rank=1)),
    ("label=anomaly&step=10..19", CallFilter(step_min=10, step_max=19)),
    ("label=anomaly&function=MPI_*", CallFilter(function="MPI_*")),
    ("label=anomaly&function=mpi_*", CallFilter(function="mpi_*")),
    ("label=anomaly&function=*swee?%20*", CallFilter(function="*swee? *")),
    (f"label=anomaly&function={quote(FUNCTIONS[0])}", CallFilter(function=FUNCTIONS[0])),
    (f"label=anomaly&function={quote(KERNEL)}", CallFilter(function=KERNEL)),
    ("label=anomaly&severity_us=9000", CallFilter(min_severity_us=9000.0)),
    ("label=anomaly&score=150.5", CallFilter(min_score=150.5)),
    ("label=anomaly&node=node1", CallFilter(node="node1")),
    ("label=anomaly&node=*0", CallFilter(node="*0")),
    ("thread=5", CallFilter(label=None, thread=5)),
    ("gpu=true", CallFilter(label=None, is_gpu=True)),
    ("gpu=false&label=normal", CallFilter(label="normal", is_gpu=False)),
    ("label=anomaly&text=SWEEP", CallFilter(text="SWEEP")),
    ("label=anomaly&text=NODE0", CallFilter(text="NODE0")),
    ("label=anomaly&text=time_step", CallFilter(text="time_step")),
    (
        "label=anomaly&time=7030000..9100000",
        CallFilter(time_min_us=ZERO_US + 7_030_000, time_max_us=ZERO_US + 9_100_000),
    ),
    (
        "label=anomaly&rank=0:3&function=*_*&severity_us=5000&step=5..40",
        CallFilter(program=0, rank=3, function="*_*", min_severity_us=5000.0, step_min=5, step_max=40),
    ),
]


@pytest.mark.parametrize(("query", "wanted"), first(6, CASES, [query[:40] or "all" for query, _ in CASES]))
@pytest.mark.parametrize("order", first(1, ["desc", "asc"]))
def test_the_statement_answers_the_list(
    page: Page, process: DashboardProcess, provenance: Provenance, query: str, wanted: CallFilter, order: str
) -> None:
    address = f"{process.base}r/heat/calls?{query}&sort=entry_us{'&order=asc' if order == 'asc' else ''}"
    page.goto(address)
    page.wait_for_selector("[data-panel=calls] [data-call], [data-panel=calls] .empty")
    calls = provenance.calls.page(wanted, "entry_us", descending=order == "desc", limit=50).calls
    assert calls or "mpi_" in query
    found = sql_rows(page, "calls")
    assert [row["entry_us"] for row in found] == [call.entry_us for call in calls]
    assert {row["call"] for row in found} == {call.id for call in calls}


@pytest.mark.parametrize("statistic", first(2, ["stddev", "total", "mean", "maximum", "minimum", "steps"]))
def test_the_ranking_as_a_statement(
    page: Page, process: DashboardProcess, provenance: Provenance, statistic: str
) -> None:
    page.goto(f"{process.base}r/heat?statistic={statistic}&n=3")
    page.wait_for_selector("[data-list=bottom] [data-rank]")
    kept = {(row.program, row.rank): row for row in provenance.steps.rank_statistics()}
    found = sql_rows(page, "ranks")
    assert [row["list"] for row in found] == ["most"] * 3 + ["least"] * 3
    for row in found:
        rank = kept[row["program"], row["rank"]]
        for name in ("steps", "total", "minimum", "maximum", "last_step"):
            assert row[name] == getattr(rank, name)
        assert row["mean"] == pytest.approx(rank.mean)
        assert row["variance"] == pytest.approx(rank.stddev**2)
    values = sorted(getattr(rank, statistic) for rank in kept.values())
    shown = [getattr(kept[row["program"], row["rank"]], statistic) for row in found]
    assert shown == [*values[::-1][:3], *values[:3]]


def test_functions_steps_and_worst_calls_as_statements(
    page: Page, process: DashboardProcess, provenance: Provenance, made: MadeRun
) -> None:
    page.goto(f"{process.base}r/heat?sel=0:1,0:2")
    page.wait_for_selector("[data-panel=worst] [data-call]")
    page.wait_for_selector("[data-legend='0:2']")
    functions = sorted(provenance.function_statistics(), key=lambda row: -row.severity_us)
    assert [row["name"] for row in sql_rows(page, "functions")] == [row.name for row in functions]
    steps = [(row["rank"], row["step"], row["anomalies"]) for row in sql_rows(page, "steps")]
    assert steps == [
        (step.rank, step.step, step.anomalies) for rank in (1, 2) for step in made.steps_of(rank)
    ]
    worst = [call.id for call in provenance.calls.page(CallFilter(), "severity_us", limit=30).calls]
    assert [row["call"] for row in sql_rows(page, "worst")] == worst
    answer = answered(copied(page, "worst", "Copy command"))
    assert [call["id"] for call in answer["calls"]] == worst


WORST = f"function={quote(FUNCTIONS[1])}&program=0"
STATEMENTS = [
    ("?n=2", "ranks"),
    ("", "functions"),
    ("?sel=0:1,0:3", "steps"),
    ("", "worst"),
    ("/calls?label=anomaly&function=*swee?%20*&node=*0&severity_us=5000&sort=entry_us", "calls"),
    ("/calls?gpu=false&text=time_STEP&time=7030000..9100000&thread=0&sort=entry_us", "calls"),
    (f"/fn?{WORST}", "distribution"),
    (f"/fn?{WORST}", "function-trend"),
    (f"/fn?{WORST}", "function-ranks"),
    (f"/fn?{WORST}", "function-paths"),
    (f"/fn?{WORST}", "function-worst"),
    ("/call/0/1:10:300", "numbers"),
    ("/call/0/1:10:300", "metadata"),
    ("/call/0/1:10:300", "counters"),
]


@pytest.fixture(scope="module")
def on_postgresql(
    tmp_path_factory: pytest.TempPathFactory, postgresql: PostgresqlServer
) -> tuple[MadeRun, str]:
    """The same run in PostgreSQL, and its URL."""
    url = postgresql.new_schema()
    return evident_run(tmp_path_factory.mktemp("postgresql") / "heat", url), url


def plain(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Without what differs between two stores: the run's id, and the last digits of sums."""
    return [
        {
            name: float(f"{value:.10g}") if isinstance(value, float) else value
            for name, value in row.items()
            if name not in ("run", "run_id")
        }
        for row in rows
    ]


@pytest.mark.parametrize(("address", "panel"), first(2, STATEMENTS, [panel for _, panel in STATEMENTS]))
def test_statements_answer_the_same_on_postgresql(
    page: Page,
    process: DashboardProcess,
    made: MadeRun,
    on_postgresql: tuple[MadeRun, str],
    monkeypatch: pytest.MonkeyPatch,
    address: str,
    panel: str,
) -> None:
    page.goto(f"{process.base}r/heat{address}")
    page.wait_for_selector(f"[data-panel={panel}] .panel-body :is(svg, canvas, tr, li)")
    command = copied(page, panel, "Copy SQL")
    here = answered(command)["rows"]
    other, url = on_postgresql
    monkeypatch.setenv("CHIMBUKO_STORE", url)
    there = answered(command.replace(str(made.directory.path), str(other.directory.path)))["rows"]
    assert here and plain(here) == plain(there)
