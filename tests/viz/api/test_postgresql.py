"""What an argument may be, a query may be: PostgreSQL is strict about the size of numbers."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from chimbuko.provenance.query.run import open_run
from chimbuko.viz.api.endpoints import ENDPOINTS
from chimbuko.viz.api.openapi import document
from chimbuko.viz.http.app import create_app
from chimbuko.viz.live.feed import Feed
from tests.viz.api.conftest import TOKEN, Api
from tests.viz.made_run import make_run

SAMPLES = {
    "name": "main",
    "rank": "0:1",
    "by": "rank",
    "event_id": "0:1:2:3",
    "with": "none",
    "incident_id": "I1",
    "recurrence_id": "R1",
    "node": "node0",
    "finding_id": "M1",
    "begin_us": "1700000000000000",
    "length_us": "60000000",
    "namespace": "application",
    "line": "0:0",
    "from_us": "1700000000000000",
    "to_us": "1700000060000000",
}
"""Of the arguments that an endpoint cannot do without."""


def largest(schema: dict[str, Any]) -> list[Any]:
    """The bounds of an argument, and what may be trouble within them."""
    if schema.get("type") == "integer":
        return [schema["minimum"], schema["maximum"]]
    if schema.get("type") == "number":
        return [-1.7e308, 1.7e308]
    if schema.get("pattern", "").startswith("^[^"):
        return ["'; --%_\\😀", "*" * 10_000]
    return []


def test_all_arguments_up_to_their_bounds(tmp_path: Path, postgresql_url: str) -> None:
    made = make_run(tmp_path / "heat", stored_steps=5, store_url=postgresql_url)
    with open_run(made.directory) as provenance:
        feed = Feed(made.directory, provenance, None)
        info = made.directory.read_info()
        api = Api(create_app(provenance, info, feed, TOKEN, static=Path("no page")).test_client())
        described = document(ENDPOINTS)["paths"]
        asked_for = {path: methods["get"] for path, methods in described.items() if "get" in methods}
        for path, operation in asked_for.items():
            parameters = operation["parameters"]
            needed = {item["name"]: SAMPLES[item["name"]] for item in parameters if item["required"]}
            asked = [item["name"] for item in parameters if item["in"] == "query"]
            for item in parameters:
                for value in largest(item["schema"]) if item["in"] == "query" else []:
                    query = urlencode(
                        {name: needed[name] for name in asked if name in needed} | {item["name"]: value}
                    )
                    answer = api.ask(f"{path[1:]}?{query}".format(**needed))
                    # A range that begins behind its end is a question for the one who asks.
                    assert answer.status_code in (200, 404) or "exchange the two" in answer.text, query
                    assert b'"ok":false' not in answer.data or answer.status_code in (400, 404)
