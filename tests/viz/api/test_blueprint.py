"""How answers travel: in lines, packed, not at all where the asker has them; and what errors look like."""

from __future__ import annotations

import gzip
import json
import logging
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from werkzeug.test import TestResponse

from chimbuko.core.errors import StoreError
from chimbuko.provenance.query.filters import CallFilter, as_object
from chimbuko.provenance.query.run import Provenance
from chimbuko.viz.api.blueprint import CHUNK_BYTES
from chimbuko.viz.api.endpoint import Answer, Endpoint, ServedRun, get
from chimbuko.viz.api.openapi import LINES
from chimbuko.viz.http.app import create_app
from chimbuko.viz.live.feed import Feed
from tests.viz.api.conftest import TOKEN, Api
from tests.viz.made_run import MadeRun


class Number(msgspec.Struct, frozen=True, array_like=True):
    """One line."""

    value: int


def lines_of(answer: TestResponse) -> list[Any]:
    """Each line of an answer."""
    assert answer.status_code == 200 and answer.mimetype == LINES
    return [json.loads(line) for line in answer.text.splitlines()]


def refused(answer: TestResponse, status: int) -> str:
    """The one line of an error."""
    assert answer.status_code == status and answer.mimetype == "application/json"
    assert answer.json.keys() == {"ok", "error", "status"}
    assert answer.json["ok"] is False and answer.json["status"] == status
    error: str = answer.json["error"]
    assert "\n" not in error and "Traceback" not in error
    return error


@pytest.fixture
def serve(finished: MadeRun, provenance: Provenance, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Api]:
    """Makes an API of endpoints of a test."""

    def make(*endpoints: Endpoint) -> Api:
        monkeypatch.setattr("chimbuko.viz.http.app.ENDPOINTS", endpoints)
        feed = Feed(finished.directory, provenance, None)
        info = finished.directory.read_info()
        return Api(create_app(provenance, info, feed, TOKEN, static=Path("no page")).test_client())

    return make


def test_all_calls_come_in_lines(api: Api, provenance: Provenance) -> None:
    wanted = CallFilter(label=None)
    expected = provenance.calls.page(wanted, sort="entry_us", descending=False, limit=10_000).calls
    found = lines_of(api.ask("calls.ndjson?label=any&sort=entry_us&descending=false"))
    assert found == as_object(expected)
    assert len(found) == provenance.calls.count(wanted) > 100
    assert lines_of(api.ask("calls.ndjson?function=nothing")) == []


def test_all_records_come_in_lines(api: Api, provenance: Provenance) -> None:
    found = lines_of(api.ask("records.ndjson?rank=0:1"))
    assert found == as_object(list(provenance.calls.records(CallFilter(program=0, rank=1))))
    assert found


def test_the_history_of_all_ranks_comes_in_lines(api: Api, finished: MadeRun) -> None:
    assert lines_of(api.ask("steps.ndjson")) == as_object(finished.steps)


def test_lines_are_packed_as_they_come(api: Api) -> None:
    plain, packed = api.ask("calls.ndjson"), api.ask("calls.ndjson", Accept_Encoding="gzip")
    assert packed.headers["Content-Encoding"] == "gzip" and "Content-Length" not in packed.headers
    assert gzip.decompress(packed.data) == plain.data
    assert len(packed.data) < len(plain.data) / 4
    assert "Content-Encoding" not in api.ask("calls.ndjson", Accept_Encoding="gzip;q=0").headers


def test_lines_are_made_as_they_are_read(serve: Callable[..., Api]) -> None:
    made: list[int] = []

    @get("/numbers.ndjson")
    def numbers(run: ServedRun) -> Iterator[Number]:
        """Without end."""
        while True:
            made.append(len(made))
            yield Number(made[-1])

    answer = serve(numbers).ask("numbers.ndjson")
    chunks = answer.iter_encoded()
    assert next(iter(chunks)).splitlines()[:2] == [b'{"value":0}', b'{"value":1}']
    assert len(made) <= CHUNK_BYTES / len('{"value":0}')
    answer.close()


@pytest.mark.parametrize(
    ("error", "status"), [(StoreError("the disk is gone"), 503), (RuntimeError("secret"), 500)]
)
def test_lines_that_break_off_end_in_an_error(
    serve: Callable[..., Api], caplog: pytest.LogCaptureFixture, error: Exception, status: int
) -> None:
    @get("/numbers.ndjson")
    def numbers(run: ServedRun) -> Iterator[Number]:
        """Until they cannot be read."""
        yield from map(Number, range(CHUNK_BYTES // 10))
        raise error

    *found, last = lines_of(serve(numbers).ask("numbers.ndjson"))
    assert found == [{"value": n} for n in range(CHUNK_BYTES // 10)]
    assert last["ok"] is False and last["status"] == status and "secret" not in last["error"]
    assert ("secret" in caplog.text) == (status == 500)


def test_what_is_wrong_before_the_first_line_is_an_error_as_elsewhere(serve: Callable[..., Api]) -> None:
    @get("/numbers.ndjson")
    def numbers(run: ServedRun) -> Iterator[Number]:
        """None at all."""
        yield from ()
        raise StoreError("the disk is gone")

    assert refused(serve(numbers).ask("numbers.ndjson"), 503) == "the disk is gone"


def test_errors_of_ours_do_not_show_what_is_inside(
    serve: Callable[..., Api], caplog: pytest.LogCaptureFixture
) -> None:
    @get("/broken")
    def broken(run: ServedRun) -> Answer:
        """Fails."""
        raise RuntimeError("secret")

    caplog.set_level(logging.ERROR)
    assert "secret" not in refused(serve(broken).ask("broken"), 500)
    assert "secret" in caplog.text


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE", "TRACE"])
def test_only_get_is_answered(api: Api, method: str) -> None:
    answer = api.ask("run", method)
    refused(answer, 405)
    assert {"GET", "HEAD"} <= set(answer.headers["Allow"].replace(" ", "").split(","))


def test_what_may_be_asked_is_reported(api: Api) -> None:
    answer = api.ask("calls", "OPTIONS")
    assert answer.status_code == 200 and answer.data == b""
    assert "GET" in answer.headers["Allow"] and "Access-Control-Allow-Origin" not in answer.headers


@pytest.mark.parametrize("path", ["calls", "calls.ndjson", "run"])
def test_heads_have_no_body(api: Api, path: str) -> None:
    answer = api.ask(path, "HEAD")
    assert answer.status_code == 200 and answer.data == b""


def test_addresses_that_are_none(api: Api) -> None:
    for path in ("", "nothing", "calls/", "calls/0:0:0:0/x", "../../etc/passwd", "calls/%00", "%ff"):
        answer = api.ask(path)
        assert answer.status_code in (400, 404)
        refused(answer, answer.status_code)


def test_bodies_are_not_taken(api: Api) -> None:
    refused(api.ask("run", body=b"x" * 100_000), 413)
    refused(api.ask("run", Transfer_Encoding="chunked"), 413)


def test_an_answer_that_is_known_is_not_sent_again(api: Api) -> None:
    first = api.ask("functions")
    tag = first.headers["ETag"]
    again = api.ask("functions", If_None_Match=tag)
    assert again.status_code == 304 and again.data == b"" and again.headers["ETag"] == tag
    assert api.ask("functions?limit=2", If_None_Match=tag).status_code == 200
    packed = api.ask("functions", Accept_Encoding="gzip")
    assert packed.headers["ETag"] == tag and "Accept-Encoding" in packed.headers["Vary"]
