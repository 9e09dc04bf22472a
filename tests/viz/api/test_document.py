"""The API keeps to the document that describes it, whatever a running server is asked."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from chimbuko.provenance.query.filters import CallFilter
from chimbuko.viz.api.endpoint import Endpoint
from chimbuko.viz.api.endpoints import ENDPOINTS
from chimbuko.viz.api.endpoints.calls import FilterParameters
from chimbuko.viz.api.openapi import LINES, document
from chimbuko.viz.api.parameters import NoParameters
from chimbuko.viz.http.server import serving
from tests.viz.api.conftest import TOKEN, Api
from tests.viz.made_run import MadeRun

if TYPE_CHECKING:
    from schemathesis import Case
    from schemathesis.schemas import BaseSchema

AUTHORIZED = {"Authorization": f"Bearer {TOKEN}"}
EXAMPLES = int(os.environ.get("CHIMBUKO_FUZZ_EXAMPLES", "3"))
"""Random requests of each kind to each endpoint, beside those at the bounds of its arguments."""


SETTINGS = {
    # Unknown arguments have a test of their own: some made here vanish on their way into an address.
    "generation": {"with-security-parameters": False, "allow-extra-parameters": False},
    "checks": {"negative_data_rejection": {"expected-statuses": [400, 404, 413]}},
}


def lines(_context: Any, response: Any) -> Any:
    """A stream of lines as the list that the document says it is."""
    return [msgspec.json.decode(line) for line in response.content.splitlines()]


@pytest.fixture(scope="module")
def described(finished: MadeRun) -> Iterator[BaseSchema]:
    """The document of a server that is up."""
    # Not where each process that collects tests would load it.
    import schemathesis
    from schemathesis.config import SchemathesisConfig

    schemathesis.deserializer(LINES)(lines)
    with serving(finished.directory, 0, TOKEN, None) as url:
        root = url.partition("?")[0]
        yield schemathesis.openapi.from_url(
            f"{root}api/v1/openapi.json", headers=AUTHORIZED, config=SchemathesisConfig.from_dict(SETTINGS)
        )


def questions() -> Iterator[Any]:
    """Each endpoint, asked as it should be, and as it should not."""
    for endpoint in ENDPOINTS:
        yield pytest.param(endpoint, True, id=f"{endpoint.path}-right")
        if endpoint.parameters is not NoParameters:
            yield pytest.param(endpoint, False, id=f"{endpoint.path}-wrong")


@pytest.mark.parametrize(("endpoint", "is_right"), list(questions()))
def test_every_answer_is_as_documented(
    described: BaseSchema, finished: MadeRun, endpoint: Endpoint, is_right: bool
) -> None:
    from schemathesis import GenerationMode

    mode = GenerationMode.POSITIVE if is_right else GenerationMode.NEGATIVE
    operation = described[endpoint.path]["POST" if endpoint.is_write else "GET"]

    @settings(max_examples=EXAMPLES, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
    @given(case=operation.as_strategy(generation_mode=mode), is_known=st.booleans())
    def ask(case: Case, is_known: bool) -> None:
        if is_right:
            # What the schema cannot say: cursors come from the answer before, few ids are those of calls, and
            # a range ends after it begins.
            case.query.pop("cursor", None)
            names = "from_us", "to_us"
            bounds: list[Any] = [case.query.get(name) for name in names]
            if None not in bounds:
                case.query.update(zip(names, sorted(bounds), strict=True))
            if is_known and "event_id" in case.path_parameters:
                case.path_parameters["event_id"] = finished.anomalies[0].id
        case.call_and_validate(headers=AUTHORIZED)

    ask()


def test_the_document_is_one() -> None:
    from openapi_spec_validator import validate

    described = document(ENDPOINTS)
    validate(described)
    operations = [one for path in described["paths"].values() for one in path.values()]
    assert len({operation["operationId"] for operation in operations}) == len(ENDPOINTS)
    for operation in operations:
        assert operation["summary"].endswith(".")
        assert all(parameter["description"] for parameter in operation["parameters"])


def test_the_document_is_served(api: Api) -> None:
    answer = api.ask("openapi.json")
    assert answer.mimetype == "application/json"
    assert answer.json == document(ENDPOINTS)


def test_all_filters_of_provenance_can_be_asked_for() -> None:
    assert set(CallFilter.__struct_fields__) == set(FilterParameters.__struct_fields__)
