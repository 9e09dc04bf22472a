"""Functions, and how their runtimes are distributed."""

from __future__ import annotations

import json
from urllib.parse import quote

import numpy as np
import pytest

from chimbuko.config import DETECTORS
from chimbuko.messages import FunctionModel
from chimbuko.moments import Moments
from chimbuko.provenance.calls import as_object
from chimbuko.provenance.queries import Provenance
from chimbuko.tables import schema_of
from chimbuko.viz.api.distribution import distribution
from tests.viz.api.conftest import Api
from tests.viz.made_run import EXPECTED_US, FUNCTIONS


def test_one_function(api: Api, provenance: Provenance) -> None:
    expected = {row.name: row for row in provenance.function_statistics()}
    for number, name in enumerate(FUNCTIONS):
        body = api.ask(f"function?name={quote(name)}").json
        assert body["statistics"] == as_object(expected[name])
        found = body["distribution"]
        assert found["function"] == name and found["exclusive"]["calls"] == 101
        assert found["exclusive"]["minimum_us"] == pytest.approx(EXPECTED_US[number] / 2)
        assert sum(bucket["calls"] for bucket in found["buckets"]) == 101
        assert found["buckets"][0]["lower_us"] <= EXPECTED_US[number] / 2 < found["buckets"][0]["upper_us"]


def test_a_function_that_is_not_there(api: Api) -> None:
    for query in ("name=nothing", "name=MPI_*", f"name={quote(FUNCTIONS[0])}&program=1"):
        answer = api.ask(f"function?{query}")
        assert answer.status_code == 404 and "not one of program" in answer.json["error"]
    assert api.ask("function").status_code == 400


def test_all_models_come_in_lines(api: Api, provenance: Provenance) -> None:
    found = [json.loads(line) for line in api.ask("models.ndjson").text.splitlines()]
    assert found == as_object([distribution(model, "robust") for model in provenance.last_models()])
    assert [model["function"] for model in found] == sorted(FUNCTIONS)


@pytest.mark.parametrize("detector", DETECTORS)
def test_what_a_model_says(detector: str) -> None:
    schema = schema_of(detector)
    row = schema.empty(1)[0]
    runtimes = Moments.of([10.0, 20.0, 60.0])
    row[schema.slices["exclusive_us"]] = runtimes.row()
    found = distribution(FunctionModel(7, 2, "solve", np.asarray(row).tobytes()), detector)
    assert (found.program, found.function, found.version) == (2, "solve", 7)
    assert found.exclusive.calls == 3
    assert found.exclusive.mean_us == 30.0 and found.exclusive.maximum_us == 60.0
    assert found.exclusive.stddev_us == pytest.approx(np.std([10.0, 20.0, 60.0], ddof=1))
    # Of the other runtime nothing is known: what is sent is finite all the same.
    assert (found.inclusive.calls, found.inclusive.minimum_us, found.inclusive.maximum_us) == (0, 0.0, 0.0)
    assert found.buckets == ([] if "buckets" in schema.slices else None)
