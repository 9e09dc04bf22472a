"""The API of a stored run, asked without a server between."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from flask.testing import FlaskClient
from werkzeug.test import TestResponse

from chimbuko.provenance.query.run import Provenance, open_run
from chimbuko.viz.http.app import create_app
from chimbuko.viz.live.feed import Feed
from tests.viz.made_run import MadeRun

TOKEN = "secret"


class Api:
    """Asks one run's API, with its token."""

    def __init__(self, client: FlaskClient) -> None:
        self._client = client

    def ask(self, path: str, method: str = "GET", body: bytes = b"", **headers: str) -> TestResponse:
        """One request; underscores in names of headers stand for hyphens."""
        given: Mapping[str, str] = {name.replace("_", "-"): value for name, value in headers.items()}
        return self._client.open(
            f"/api/v1/{path}",
            method=method,
            data=body,
            headers={"Authorization": f"Bearer {TOKEN}", **given},
        )


@pytest.fixture(scope="session")
def provenance(finished: MadeRun) -> Iterator[Provenance]:
    """What the store says."""
    with open_run(finished.directory) as provenance:
        yield provenance


@pytest.fixture(scope="session")
def api(finished: MadeRun, provenance: Provenance) -> Api:
    """Of a run that has ended."""
    feed = Feed(finished.directory, provenance, None)
    info = finished.directory.read_info()
    return Api(create_app(provenance, info, feed, TOKEN, static=Path("no page")).test_client())
