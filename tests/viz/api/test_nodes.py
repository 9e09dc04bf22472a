"""Nodes over the API."""

from __future__ import annotations

import pytest

from tests.viz.api.conftest import Api
from tests.viz.made_run import STEP_US, STEPS, ZERO_US
from tests.viz.made_samples import NODE_NAME, SUMS

DURING = f"begin_us={ZERO_US}&length_us={STEPS * STEP_US}&columns={SUMS}"


def test_a_node_has_its_ranks_findings_and_parts(api: Api) -> None:
    assert [one["name"] for one in api.ask("nodes").json["nodes"]] == [NODE_NAME]
    node = api.ask(f"nodes/{NODE_NAME}").json["node"]
    assert [(one["rank"], one["cpus"]) for one in node["ranks"]] == [(0, "0"), (1, "0")]
    (found,) = node["findings"]
    part_us = STEPS * STEP_US // SUMS
    assert found["kind"] == "oversubscribed"
    assert [begin_us for begin_us, _ in found["times"]] == [ZERO_US + part_us, ZERO_US + 3 * part_us]
    assert [one["depth"] for one in node["parts"]] == [0, 1, 1, 2, 1, 2]
    assert api.ask("nodes/elsewhere").status_code == 404


def test_its_lanes_come_in_pieces(api: Api) -> None:
    first = api.ask(f"nodes/{NODE_NAME}/threads?{DURING}&limit=1").json
    following = api.ask(f"nodes/{NODE_NAME}/threads?{DURING}&limit=1&cursor={first['next']}").json
    assert (first["total"], following["next"]) == (2, None)
    assert {one["rank"] for one in first["threads"] + following["threads"]} == {0, 1}
    assert first["threads"][0]["user"] == pytest.approx([0.375] * SUMS)
    assert first["threads"][0]["waited"] == pytest.approx([0.25] * SUMS)
    cores = api.ask(f"nodes/{NODE_NAME}/cores?{DURING}").json["cores"]
    assert [(one["cpu"], one["own"]) for one in cores] == [(0, [1.0] * SUMS), (1, [0.0] * SUMS)]


def test_its_gpus_over_time(api: Api) -> None:
    (gpu,) = api.ask(f"nodes/{NODE_NAME}/gpus?{DURING}").json["gpus"]
    assert (gpu["gpu"], gpu["name"], gpu["temperature_c"]) == (0, "Made 100", 70)
    assert (gpu["busy"], gpu["throttled"]) == ([0.5, 0.0] * (SUMS // 2), [0.0, 0.5] * (SUMS // 2))
    assert gpu["power_w"] == pytest.approx(300)
