"""Questions as SQL: each statement answers what its endpoint answers, on SQLite and on PostgreSQL."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest

from chimbuko.causes.recurrence import Recurrence, RecurrenceKind
from chimbuko.provenance.explain.explaining import explain_run
from chimbuko.provenance.query.filters import AnomalyFilter
from chimbuko.provenance.query.run import open_run
from chimbuko.provenance.store.engine import open_for_reading, open_for_writing
from chimbuko.provenance.store.readonly import answer_to, parameters_of
from chimbuko.provenance.write.writer import Writer
from chimbuko.viz.api.endpoints import ENDPOINTS
from chimbuko.viz.http.app import create_app
from chimbuko.viz.live.feed import Feed
from tests.postgresql import PostgresqlServer
from tests.viz.api.conftest import TOKEN, Api
from tests.viz.evident_run import evident_run
from tests.viz.made_run import FUNCTIONS, KERNEL, ZERO_US, MadeRun

Row = dict[str, Any]


class Asked:
    """A run whose API and whose database are asked."""

    def __init__(self, made: MadeRun, api: Api) -> None:
        self._api = api
        self._info = made.directory.read_info()
        self._engine = open_for_reading(self._info.store_url)

    def question(self, path: str, /, **parameters: Any) -> tuple[Any, list[Row] | None]:
        """What the endpoint answers, and what its statement does."""
        query = urlencode({name: str(value) for name, value in parameters.items()}, doseq=True)
        answer = self._api.ask(f"{path}?{query}")
        statement = self._api.ask(f"sql/{path}?{query}")
        assert statement.status_code == 200, statement.text
        sql = statement.json["sql"]
        return answer.json, None if sql is None else self.rows(sql)

    def rows(self, sql: str) -> list[Row]:
        """Rows of a SELECT."""
        with answer_to(self._engine, sql, parameters_of(self._engine, self._info.id)) as answer:
            return [dict(zip(answer.columns, row, strict=True)) for row in answer.rows]

    def close(self) -> None:
        """Let go of the database."""
        self._engine.dispose()


@contextmanager
def asked_run(made: MadeRun) -> Iterator[Asked]:
    """The run, to be asked."""
    with open_run(made.directory) as provenance:
        feed = Feed(made.directory, provenance, None)
        info = made.directory.read_info()
        app = create_app(provenance, info, feed, TOKEN, static=Path("no page"))
        asked = Asked(made, Api(app.test_client()))
        yield asked
        asked.close()


@pytest.fixture(scope="module", params=["sqlite", "postgresql"])
def asked(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Asked]:
    """The same run in either store."""
    url = None
    if request.param == "postgresql":
        server: PostgresqlServer = request.getfixturevalue("postgresql")
        url = server.new_schema()
    made = evident_run(tmp_path_factory.mktemp("asked") / "heat", url)
    explain_run(made.directory)
    info = made.directory.read_info()
    engine = open_for_writing(info.store_url)
    slow = Recurrence(0, RecurrenceKind.SLOW_RANKS, "", 0, 5e6, 0.0, 1.0, [], [1], 1, 2, [])
    Writer(engine, info.id).write_recurrences([slow])
    engine.dispose()
    with asked_run(made) as asked:
        yield asked


FILTERS: dict[str, list[Any]] = {
    "function": [FUNCTIONS[0], KERNEL, "MPI_*", "mpi_*", "*swee? *", "no such"],
    "through": [FUNCTIONS[1], "*time_step*", "*TIME_step*"],
    "path": [0, 2, 10**6],
    "text": ["SWEEP", "NODE0", "time_step", "%", "{47,0}"],
    "program": [0, 1],
    "rank": ["0:1", "3", "0:77"],
    "rank_min": [2],
    "rank_max": [1],
    "thread": [0, 5],
    "node": ["node1", "*0", "n?de*", "NODE1"],
    "step_min": [10],
    "step_max": [19],
    "time_min_us": [ZERO_US + 7_030_000],
    "time_max_us": [ZERO_US + 9_100_000],
    "min_severity_us": [9000.0],
    "max_severity_us": [9000.5],
    "min_score": [150.5],
    "max_score": [20.0],
    "is_open": ["true", "false"],
    "incident": ["I1", "I999", "'"],
    "finding": ["R1", "R999", "'"],
    "is_gpu": ["true", "false"],
    "detector": ["robust", "hbos"],
}
"""Values of each filter."""
TOGETHER = {"rank": "0:3", "function": "*_*", "min_severity_us": 5000, "step_min": 5, "step_max": 40}


def test_no_filter_is_forgotten_here() -> None:
    assert FILTERS.keys() == set(AnomalyFilter.__struct_fields__)


@pytest.mark.parametrize("name", [*FILTERS, "none", "together"])
def test_calls(asked: Asked, name: str) -> None:
    values = FILTERS.get(name, [None])
    given = TOGETHER if name == "together" else {}
    for value in values:
        wanted = given | ({name: value} if name in FILTERS else {})
        for label in ("anomaly", "normal", "any"):
            answer, rows = asked.question("calls", **wanted, label=label, sort="entry_us", limit=1000)
            assert rows is not None
            assert [row["entry_us"] for row in rows] == [call["entry_us"] for call in answer["calls"]], value
            assert {row["call"] for row in rows} == {call["id"] for call in answer["calls"]}


def test_the_filters_find_something(asked: Asked) -> None:
    """Of each there is a value that some calls have and others do not, but of what all of this run share."""
    everything = len(asked.question("calls", label="any", limit=1000)[0]["calls"])
    for name in FILTERS.keys() - {"program", "detector", "is_open"}:
        counts = {
            len(asked.question("calls", label="any", limit=1000, **{name: value})[0]["calls"])
            for value in FILTERS[name]
        }
        assert any(0 < count < everything for count in counts), name


@pytest.mark.parametrize("is_descending", [True, False])
def test_order_and_number_of_calls(asked: Asked, is_descending: bool) -> None:
    wanted = {"sort": "severity_us", "descending": str(is_descending).lower(), "limit": 7}
    answer, rows = asked.question("calls", **wanted)
    assert rows is not None and len(rows) == 7
    assert [row["call"] for row in rows] == [call["id"] for call in answer["calls"]]
    assert asked.question("calls", **wanted, cursor=answer["next"])[1] is None


def test_one_call(asked: Asked) -> None:
    calls = asked.question("calls", limit=3)[0]["calls"] + asked.question("calls", label="normal")[0]["calls"]
    for call in calls[:6]:
        answer, rows = asked.question(f"calls/{call['id']}")
        assert rows is not None
        assert [(row["call"], row["exclusive_us"]) for row in rows] == [
            (call["id"], answer["record"]["exclusive_us"])
        ]


@pytest.mark.parametrize("by", ["function", "rank", "node", "path", "step", "time"])
@pytest.mark.parametrize("wanted", [{}, {"function": FUNCTIONS[0], "step_max": 40}], ids=["all", "some"])
def test_totals(asked: Asked, by: str, wanted: Row) -> None:
    answer, rows = asked.question("totals", by=by, limit=1000, **wanted)
    assert rows is not None and len(rows) == len(answer["totals"]) > 0
    key: Callable[[Row], Any] = lambda row: row["start_us"] if by == "time" else row[by]  # noqa: E731
    expected = {key(total): total for total in answer["totals"]}
    for row in rows:
        total = expected[key(row)]
        assert row["anomalies"] == total["anomalies"]
        for name in ("severity_us", "highest_severity_us", "highest_score"):
            assert row[name] == pytest.approx(total[name])


@pytest.mark.parametrize("statistic", ["stddev", "total", "mean", "maximum", "minimum", "steps"])
def test_ranks(asked: Asked, statistic: str) -> None:
    answer, rows = asked.question("ranks", statistic=statistic, n=3)
    assert rows is not None
    assert [row["list"] for row in rows] == ["most"] * 3 + ["least"] * 3
    kept = {(rank["program"], rank["rank"]): rank for rank in asked.question("ranks", n=100)[0]["top"]}
    for row, shown in zip(rows, answer["top"] + answer["bottom"], strict=True):
        rank = kept[row["program"], row["rank"]]
        # Of equal ones any may come first.
        assert rank[statistic] == pytest.approx(shown[statistic])
        for name in ("steps", "total", "minimum", "maximum", "last_step"):
            assert row[name] == rank[name]
        assert row["mean"] == pytest.approx(rank["mean"])
        assert row["variance"] == pytest.approx(rank["stddev"] ** 2)


@pytest.mark.parametrize("statistic", ["skewness", "kurtosis"])
def test_what_no_single_statement_answers(asked: Asked, statistic: str) -> None:
    assert asked.question("ranks", statistic=statistic)[1] is None


def test_functions(asked: Asked) -> None:
    answer, rows = asked.question("functions", limit=3)
    assert rows is not None
    assert [row["name"] for row in rows] == [row["name"] for row in answer["functions"]]
    answer, rows = asked.question("function", name=KERNEL, program=0)
    assert rows is not None and [row["calls"] for row in rows] == [answer["statistics"]["calls"]]


@pytest.mark.parametrize("wanted", [{}, {"function": FUNCTIONS[0]}, {"program": 1}], ids=str)
def test_paths(asked: Asked, wanted: Row) -> None:
    answer, rows = asked.question("paths", **wanted)
    expected = {}
    names: list[str] = []
    for node in answer["paths"]:
        above = "" if node["parent"] is None else names[node["parent"]] + " > "
        names.append(above + node["function"])
        if node["calls"] or node["anomalies"]:
            expected[names[-1]] = node["calls"], node["anomalies"]
    assert rows is not None and (rows or "program" in wanted)
    assert {row["functions"]: (row["calls"] or 0, row["anomalies"]) for row in rows} == expected


@pytest.mark.parametrize("after", [None, 30])
def test_steps(asked: Asked, after: int | None) -> None:
    parameters = {} if after is None else {"after": after}
    answer, rows = asked.question("steps", rank="0:1", **parameters)
    assert rows is not None
    fields = answer["fields"]
    assert [[row[name] for name in fields] for row in rows] == [
        pytest.approx(list(step)) for series in answer["series"] for step in series["steps"]
    ]


@pytest.mark.parametrize("wanted", [{}, {"rank": 1}, {"program": 0, "rank": 2}], ids=str)
def test_what_streams_say(asked: Asked, wanted: Row) -> None:
    answer, rows = asked.question("metadata", **wanted, limit=1000)
    assert rows == answer["metadata"] and rows
    answer, rows = asked.question("counters", **wanted, limit=1000)
    assert rows is not None and len(rows) == len(answer["counters"]) > 0
    expected = {(row["rank"], row["counter"]): row for row in answer["counters"]}
    for row in rows:
        counter = expected[row["rank"], row["counter"]]
        assert row["n"] == counter["values"] and row["mean"] == pytest.approx(counter["mean"])
        assert row["variance"] == pytest.approx(counter["stddev"] ** 2)


def test_each_endpoint_with_a_statement_is_tested_here() -> None:
    tested = {"calls", "calls/{event_id}", "totals", "ranks", "functions", "function", "paths", "steps"}
    with_statement = {endpoint.path[1:] for endpoint in ENDPOINTS if endpoint.statement is not None}
    assert with_statement == tested | {"metadata", "counters"}
