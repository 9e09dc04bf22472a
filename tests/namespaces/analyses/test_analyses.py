"""Analyses of what was published."""

from __future__ import annotations

from importlib.metadata import EntryPoint, EntryPoints
from typing import Any

import pytest

from chimbuko.errors import ConfigError
from chimbuko.namespaces.analyses import registry
from chimbuko.namespaces.analyses.cpuutilisation import cpu_utilisation
from chimbuko.namespaces.analyses.loadbalance import load_balance
from chimbuko.namespaces.analyses.registry import analyse, names
from chimbuko.namespaces.analyses.series import series
from chimbuko.namespaces.exchange.reader import Observation
from chimbuko.namespaces.tree.change import Change
from chimbuko.namespaces.tree.leaves import as_leaf
from chimbuko.namespaces.tree.paths import parse_path


def observed(*values: dict[str, Any]) -> list[Observation]:
    return [
        Observation(
            "n",
            0,
            "0-0",
            "c",
            0,
            time_us,
            1,
            Change({parse_path(key): as_leaf(v) for key, v in put.items()}, {}),
        )
        for time_us, put in enumerate(values)
    ]


def test_cpu_utilisation_is_what_soma_computes() -> None:
    """By hand: of 200 jiffies 50 are idle and 10 wait for storage."""
    found = cpu_utilisation(
        observed(
            {"PROC/node1/100.5/stat/cpu": "cpu 1000 10 200 3000 40 5 6 7 0 0"},
            {"PROC/node1/101.5/stat/cpu": "cpu 1100 10 230 3050 50 8 9 11 0 0", "PROC/node1/101.5/Uptime": 5},
            {"node2/stat/cpu": [0] * 8},
        )
    )
    assert found == {"node1": {"utilisation_percent": 70.0, "mean_utilisation_percent": 70.0, "samples": 2}}


def test_utilisation_is_of_the_last_two_samples_and_of_all() -> None:
    lines = [[0] * 8, [100, 0, 0, 0, 0, 0, 0, 0], [100, 0, 0, 100, 0, 0, 0, 0]]
    found = cpu_utilisation(observed(*({"node1/stat/cpu": line} for line in lines)))
    assert found["node1"]["utilisation_percent"] == 0.0
    assert found["node1"]["mean_utilisation_percent"] == 50.0


def test_damaged_samples_are_left_out() -> None:
    assert (
        cpu_utilisation(observed({"n/stat/cpu": "cpu 1 2"}, {"n/stat/cpu": "?"}, {"stat/cpu": [1] * 8})) == {}
    )


def test_load_balance_is_of_the_time_in_mpi() -> None:
    found = load_balance(
        observed(
            {"TAU/n/Rank 0/MPI_Routines/MPI_Recv()_Exclusive": 5.0, "TAU/n/Rank 0/x/main_Exclusive": 50.0},
            {"TAU/n/Rank 0/MPI_Routines/MPI_Recv()_Exclusive": 6.0},
            {"TAU/n/Rank 1/MPI_Routines/MPI_Wait_Exclusive": 1.5, "TAU/n/Rank 1/m/MPI_Recv_Exclusive": 0.5},
            {"TAU/n/Rank 1/m/MPI_Recv_Calls": 7.0},
        )
    )
    assert found == {
        "mpi_time": {"Rank 0": 6.0, "Rank 1": 2.0},
        "mean": 4.0,
        "largest": 6.0,
        "balance": 4.0 / 6.0,
    }
    assert load_balance([]) == {}
    assert load_balance(observed({"Rank 0/MPI_Recv_Exclusive": 0.0}))["balance"] == 1.0


def test_series_have_all_values_of_a_leaf() -> None:
    assert series(observed({"a": 1}, {"b": 5}, {"a": 2})) == {("a",): [(0, 1), (2, 2)], ("b",): [(1, 5)]}


def of_a_package(observations: list[Observation]) -> dict[str, Any]:
    return {"group": {"count": len(observations)}}


def test_packages_bring_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    entries = [
        EntryPoint("count", f"{__name__}:of_a_package", registry.GROUP),
        EntryPoint("broken", "no.such.module:f", registry.GROUP),
    ]
    monkeypatch.setattr(registry, "entry_points", lambda **wanted: EntryPoints(entries).select(**wanted))
    assert names() == ["cpu-utilisation", "load-balance", "broken", "count"]
    assert dict(analyse("count", observed({"a": 1}))) == {("group", "count"): 1}
    with pytest.raises(ConfigError, match=r"analysis broken \(no.such.module:f\) cannot be loaded"):
        analyse("broken", [])
    with pytest.raises(ConfigError, match="'sum': no analysis; there are cpu-utilisation, load-b"):
        analyse("sum", [])
