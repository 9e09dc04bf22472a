"""The HTTP API over a stored run: what it says is what the store says."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from flask.testing import FlaskClient

from chimbuko.provenance.query.filters import CallFilter, as_object
from chimbuko.provenance.query.run import Provenance, open_run
from chimbuko.viz.http.app import create_app
from chimbuko.viz.live.feed import Feed
from chimbuko.viz.live.totals import STATISTICS
from tests.viz.made_run import LOST_STEPS, MadeRun

TOKEN = "secret"


@pytest.fixture(scope="module")
def provenance(finished: MadeRun) -> Provenance:
    """What the store says."""
    return open_run(finished.directory)


@pytest.fixture(scope="module")
def client(finished: MadeRun, tmp_path_factory: pytest.TempPathFactory) -> FlaskClient:
    """Asks the API."""
    return asking(finished, tmp_path_factory.mktemp("no page"))


def asking(made: MadeRun, static: Path) -> FlaskClient:
    """A client of a dashboard whose page is in ``static``."""
    provenance = open_run(made.directory)
    feed = Feed(made.directory, provenance, None)
    return create_app(provenance, made.directory.read_info(), feed, TOKEN, static=static).test_client()


def get(client: FlaskClient, path: str, status: int = 200) -> Any:
    """The answer's body."""
    answer = client.get(f"/api/v1/{path}", headers={"Authorization": f"Bearer {TOKEN}"})
    assert answer.status_code == status, answer.text
    assert answer.mimetype == "application/json"
    body = answer.json
    assert body["ok"] is (status == 200)
    return body


def refused(client: FlaskClient, path: str, status: int = 400) -> str:
    """The one line of an error."""
    body = get(client, path, status)
    assert body.keys() == {"ok", "error", "status"}
    assert body["status"] == status and "\n" not in body["error"]
    return str(body["error"])


def test_everything_needs_the_token(client: FlaskClient) -> None:
    for path in ("/", "/r/heat", "/api/v1/run", "/assets/x.js", "/socket.io/?EIO=4&transport=polling"):
        assert client.get(path).status_code == 401


def test_run(client: FlaskClient, finished: MadeRun) -> None:
    run = get(client, "run")
    worst = max(finished.function_statistics(), key=lambda row: row.severity_us)
    worst_call = max(
        (record for record in finished.anomalies if record.function == worst.name),
        key=lambda record: record.severity_us,
    )
    assert run["answer"] == {
        "anomalies": len(finished.anomalies),
        "ranks_with_anomalies": sum(row.total > 0 for row in finished.rank_statistics()),
        "functions": len(finished.function_statistics()),
        "functions_judged": len(finished.function_statistics()),
        "worst_function": worst.name,
        "worst_severity_us": pytest.approx(worst.severity_us),
        "worst_call": worst_call.id,
        "worst_rank": f"0:{worst_call.rank}",
    }
    assert run["programs"] == {"0": "heat2d"}
    assert run["status"]["state"] == "ended"
    assert run["status"]["clock_us"] == 60_000_000


@pytest.mark.parametrize("statistic", STATISTICS)
@pytest.mark.parametrize("n", [1, 3, 100])
def test_ranking(client: FlaskClient, provenance: Provenance, statistic: str, n: int) -> None:
    ranking = get(client, f"ranks?statistic={statistic}&n={n}")
    rows = as_object(provenance.steps.rank_statistics())
    rows.sort(key=lambda row: row["rank"])
    assert ranking["top"] == sorted(rows, key=lambda row: -row[statistic])[:n]
    assert ranking["bottom"] == sorted(rows, key=lambda row: row[statistic])[:n]
    assert ranking["ranks"] == len(rows)


def test_functions_in_pages(client: FlaskClient, provenance: Provenance) -> None:
    expected = sorted(as_object(provenance.function_statistics()), key=lambda row: -row["severity_us"])
    found, cursor = [], ""
    while cursor is not None:
        page = get(client, f"functions?limit=3{cursor and '&cursor=' + cursor}")
        found += page["functions"]
        cursor = page["next"]
    assert found == expected


def test_steps(client: FlaskClient, finished: MadeRun) -> None:
    body = get(client, "steps?rank=0:2&rank=0:1")
    assert [series["rank"] for series in body["series"]] == ["0:2", "0:1"]
    for series, rank in zip(body["series"], (2, 1), strict=True):
        assert series["steps"] == [
            [s.step, s.start_us, s.end_us, s.calls, s.anomalies, s.severity_us, s.highest_score]
            for s in finished.steps_of(rank)
        ]
    assert not {row[0] for row in body["series"][0]["steps"]} & set(LOST_STEPS[2])
    later = get(client, "steps?rank=0:2&after=57")
    assert [row[0] for row in later["series"][0]["steps"]] == [58, 59]
    assert get(client, "steps?rank=0:77")["series"] == [{"rank": "0:77", "steps": []}]


def test_long_histories_come_in_pages(
    client: FlaskClient, finished: MadeRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("chimbuko.viz.api.endpoints.steps.STEPS_AT_ONCE", 14)
    found: dict[str, list[int]] = {"0:1": [], "0:2": []}
    after = ""
    answers = 0
    while True:
        body = get(client, f"steps?rank=0:1&rank=0:2{after}")
        for series in body["series"]:
            found[series["rank"]] += [row[0] for row in series["steps"]]
        answers += 1
        if body["next"] is None:
            break
        after = f"&after={body['next']}"
    assert answers == 9
    for rank in (1, 2):
        assert found[f"0:{rank}"] == [step.step for step in finished.steps_of(rank)]


@pytest.mark.parametrize(
    ("query", "wanted"),
    [
        ("", CallFilter()),
        ("label=any", CallFilter(label=None)),
        ("label=normal&function=jacobi*", CallFilter(label="normal", function="jacobi*")),
        ("rank=0:1&step_min=10&step_max=20", CallFilter(program=0, rank=1, step_min=10, step_max=20)),
        ("node=node1&is_gpu=false&max_score=1e9", CallFilter(node="node1", is_gpu=False, max_score=1e9)),
        ("through=time_step*&detector=robust", CallFilter(through="time_step*", detector="robust")),
        ("text=WAITALL&max_severity_us=9e9", CallFilter(text="WAITALL", max_severity_us=9e9)),
        ("min_severity_us=20000&min_score=100", CallFilter(min_severity_us=20_000.0, min_score=100.0)),
        (
            "time_min_us=1700000010000000&time_max_us=1700000020000000&thread=0",
            CallFilter(time_min_us=1_700_000_010_000_000, time_max_us=1_700_000_020_000_000, thread=0),
        ),
    ],
)
def test_calls_are_those_of_the_store(
    client: FlaskClient, provenance: Provenance, query: str, wanted: CallFilter
) -> None:
    body = get(client, f"calls?{query}&limit=1000")
    assert body["calls"] == as_object(provenance.calls.page(wanted, limit=1000).calls)
    assert body["total"] == provenance.calls.count(wanted) == len(body["calls"]) > 0
    assert body["next"] is None


def test_pages_of_calls_together_are_the_list(client: FlaskClient, finished: MadeRun) -> None:
    found: list[str] = []
    cursor = ""
    while cursor is not None:
        query = f"calls?sort=entry_us&descending=false&limit=30{cursor and '&cursor=' + cursor}"
        body = get(client, query)
        found += [call["id"] for call in body["calls"]]
        cursor = body["next"]
    assert sorted(found) == sorted(record.id for record in finished.anomalies)
    times = {record.id: record.entry_us for record in finished.anomalies}
    assert [times[call] for call in found] == sorted(times.values())


def test_a_call_and_the_normal_one_beside_it(
    client: FlaskClient, finished: MadeRun, provenance: Provenance
) -> None:
    record = finished.anomalies[0]
    body = get(client, f"calls/{record.id}")
    assert body["record"] == as_object(record)
    assert body["record"]["window"][0].keys() >= {"id", "function", "entry_us", "depth"}
    assert body["normal"] == as_object(provenance.calls.normal_like(record))
    assert body["normal"]["function"] == record.function
    assert body["distribution"]["function"] == record.function
    assert "9:9:9:9" in refused(client, "calls/9:9:9:9", 404)
    assert "id of a call" in refused(client, "calls/9:9")


def test_health(client: FlaskClient, finished: MadeRun) -> None:
    body = get(client, "health")
    assert body["streams"] == as_object(finished.health())
    assert body["dropped"] == [{"stream": "heat2d-1", "function": "MPI_Waitall()", "anomalies": 2}]
    assert body["status"]["loss"] == pytest.approx(4 / 300)
    assert body["prunings"] == []


@pytest.mark.parametrize(
    ("path", "word"),
    [
        ("ranks?statistic=median", "statistic"),
        ("ranks?n=0", "n="),
        ("ranks?n=2&n=3", "n:"),
        ("functions?limit=1001", "limit"),
        ("functions?cursor=-1", "cursor"),
        ("steps", "rank"),
        ("steps?rank=one", "rank"),
        ("steps?rank=0:1&after=x", "after"),
        ("calls?sort=name", "sort"),
        ("calls?descending=yes", "descending"),
        ("calls?cursor=%00", "cursor"),
        ("calls?fuction=x", "fuction"),
        ("run?x=1", "x"),
    ],
)
def test_bad_input_is_refused_by_name(client: FlaskClient, path: str, word: str) -> None:
    assert word in refused(client, path)


def test_other_errors_have_the_same_form(client: FlaskClient) -> None:
    refused(client, "nothing", 404)
    answer = client.post("/api/v1/run", headers={"Authorization": f"Bearer {TOKEN}"})
    assert answer.status_code == 405 and answer.json["status"] == 405


def test_answers_are_sealed(client: FlaskClient) -> None:
    headers = client.get("/api/v1/run", headers={"Authorization": f"Bearer {TOKEN}"}).headers
    assert "default-src 'none'" in headers["Content-Security-Policy"]
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert headers["Cache-Control"] == "no-store"
    assert "Access-Control-Allow-Origin" not in headers


def test_large_answers_are_packed_for_who_can_unpack(client: FlaskClient) -> None:
    asked = {"Authorization": f"Bearer {TOKEN}", "Accept-Encoding": "gzip"}
    answer = client.get("/api/v1/steps?rank=0:1", headers=asked)
    assert answer.headers["Content-Encoding"] == "gzip"
    plain = client.get("/api/v1/steps?rank=0:1", headers={"Authorization": f"Bearer {TOKEN}"})
    assert len(answer.data) < len(plain.data) / 3


def test_without_a_built_page_it_says_how_to_build_one(client: FlaskClient) -> None:
    answer = client.get("/r/heat", headers={"Authorization": f"Bearer {TOKEN}"})
    assert answer.status_code == 503
    assert answer.text == "web page not built: run make web\n"


@pytest.fixture
def built(finished: MadeRun, tmp_path: Path) -> FlaskClient:
    """Over a page that has been built."""
    (tmp_path / "assets").mkdir()
    (tmp_path / "assets" / "index-1.js").write_text("1")
    (tmp_path / "index.html").write_text('<base href="/" />')
    client = asking(finished, tmp_path)
    client.get(f"/?token={TOKEN}")
    return client


def test_pages_know_the_way_to_their_files(built: FlaskClient) -> None:
    assert built.get("/").headers["Location"] == "r/heat"
    assert built.get("/r/heat").text == '<base href="../" />'
    assert built.get("/r/heat/call/0/1:2:3").text == '<base href="../../../../" />'
    assert "immutable" not in built.get("/r/heat").headers["Cache-Control"]
    assert "31536000" in built.get("/assets/index-1.js", buffered=True).headers["Cache-Control"]


def test_other_runs_and_files_are_not_here(built: FlaskClient) -> None:
    assert built.get("/r/other").status_code == 404
    assert "'heat'" in built.get("/r/other").text
    for path in ("/r/other", "/nothing", "/r"):
        page = built.get(path, headers={"Accept": "text/html"})
        assert page.status_code == 404 and page.text.startswith("<base href="), path
        assert " data-lost=" in page.text
    of_api = built.get("/api/v1/nothing", headers={"Accept": "text/html"})
    assert of_api.status_code == 404 and of_api.json["ok"] is False
    assert built.get("/assets/../index.html").status_code == 404
    assert built.get("/assets/..%2findex.html").status_code == 404
