"""Analyses of what was published."""

from __future__ import annotations

from importlib.metadata import EntryPoint
from typing import Any

import msgspec
import numpy as np
import pytest

from chimbuko.core import plugins
from chimbuko.core.errors import ConfigError, ObservationError
from chimbuko.observe.namespaces.analyses import registry
from chimbuko.observe.namespaces.analyses.metricanomalies import metric_anomalies
from chimbuko.observe.namespaces.analyses.registry import analyse, names
from chimbuko.observe.namespaces.analyses.standard import cpu_utilisation, load_balance, task_states, values
from chimbuko.observe.namespaces.exchange.leaves import as_leaf
from chimbuko.observe.namespaces.exchange.namespacereader import Observation
from chimbuko.observe.namespaces.exchange.paths import parse_path
from chimbuko.observe.namespaces.exchange.tree import Change
from tests.observe.namespaces.analyses.astaroth import RANKS, global_drift, local_instability


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
    of_two = load_balance(
        observed(
            {"heat/TAU/n/Rank 0/MPI_Routines/MPI_(others)_Exclusive": 2.0},
            {"learn/TAU/n/Rank 0/MPI_Routines/MPI_Recv()_Exclusive": 3.0},
        )
    )
    assert {program: found["mpi_time"] for program, found in of_two.items()} == {
        "heat": {"Rank 0": 2.0},
        "learn": {"Rank 0": 3.0},
    }
    assert load_balance(observed({"Rank 0/MPI_Recv_Exclusive": 0.0}))["balance"] == 1.0


def test_metric_anomalies_are_found_in_what_ranks_publish() -> None:
    """In Astaroth's layout; leaves that do not change are not in it, and rank 14 is wrong."""
    whole = local_instability(1)
    observations = []
    for at, step in enumerate(whole.steps):
        for rank in range(RANKS):
            put = {
                "timestep": int(step),
                "local_mass": whole.mass[at, rank],
                "FIELD_0/min/value": np.float32(whole.density_min[at, rank]),
                "FIELD_0/min/location": [1, 2, 3],
                "name": "astaroth",
            }
            put |= {"FIELD_0/nan/value": False} if at == 0 else {}
            (one,) = observed(put)
            observations.append(msgspec.structs.replace(one, rank=rank, time_us=at))
    found = metric_anomalies(observations)
    assert (found["samples"], found["ranks"]) == (len(whole.steps), RANKS)
    first = found["findings"]["0"]
    assert (first["kind"], first["quantity"]) == ("departure", "FIELD_0/min/value")
    assert first["ranks"].tolist() == [14] and first["step"] <= 2_000
    assert first["sentence"].startswith("FIELD_0/min/value departs from the other ranks on rank 14: by ")


def test_ranks_are_named_by_their_own_numbers() -> None:
    found = metric_anomalies(
        observed(*({f"Rank {rank}/temperature": float("nan") if rank == 9 else 1.0 for rank in (3, 9)},) * 2)
    )
    assert found["findings"]["0"]["sentence"] == "temperature is not a number on rank 9, at step 0."
    flagged = metric_anomalies(
        observed({"Rank 2/FIELD_1/nan/value": True, "Rank 1/FIELD_1/nan/value": False})
    )
    assert [one["ranks"].tolist() for one in flagged["findings"].values()] == [[2]]
    assert metric_anomalies([]) == {"findings": {}, "samples": 0, "ranks": 0}


def test_a_client_that_begins_again_is_another_run_of_the_program() -> None:
    """Steps begin anew, and so does what is usual; a step holds for what follows without one."""
    first = observed(*({"step": step, "mass": 1.0} for step in range(5)))
    again = observed(
        {"step": 0, "mass": 1.0}, {"mass": float("nan")}, {"step": 1, "mass": 1.0}, {"step": 2, "mass": 1.0}
    )
    found = metric_anomalies([*first, *(msgspec.structs.replace(one, client="d") for one in again)])
    assert [(one["step"], one["kind"]) for one in found["findings"].values()] == [(0, "not a number")]


def test_programs_with_keys_of_their_own_do_not_disturb_each_other() -> None:
    """Whichever of them is ahead: each is compared with itself."""
    drifting = global_drift(1)

    def program(name: str, ahead: int) -> list[Observation]:
        values = [
            {f"{name}/Rank {rank}/timestep": int(step) + ahead for rank in range(RANKS)}
            | {f"{name}/Rank {rank}/local_mass": drifting.mass[at, rank] for rank in range(RANKS)}
            for at, step in enumerate(drifting.steps[:120])
        ]
        return [msgspec.structs.replace(one, client=name) for one in observed(*values)]

    slow, fast = program("slow", 0), program("fast", 1_000)
    together = metric_anomalies([one for both in zip(slow, fast, strict=True) for one in both])
    alone = [*metric_anomalies(slow)["findings"].values(), *metric_anomalies(fast)["findings"].values()]
    assert [one["kind"] for one in alone] == 2 * ["global drift"]
    sentences = {one["sentence"] for one in together["findings"].values()}
    assert sentences == {one["sentence"] for one in alone}


def test_values_of_leaves_come_in_order_of_time() -> None:
    found = list(values(observed({"a": 1}, {"b": 5}, {"a": 2})))
    assert found == [(("a",), 0, 1), (("b",), 1, 5), (("a",), 2, 2)]


def of_a_package(observations: list[Observation]) -> dict[str, Any]:
    print("for people")
    return {"group": {"count": len(observations)}}


def fails(observations: list[Observation]) -> dict[str, Any]:
    raise KeyError("first\nsecond")


def leaves(observations: list[Observation]) -> dict[str, Any]:
    raise SystemExit(3)


def takes_nothing() -> dict[str, Any]:
    return {}


def gives_a_list(observations: list[Observation]) -> list[int]:
    return [1]


def gives_no_values(observations: list[Observation]) -> dict[str, Any]:
    return {"group": {"value": None}}


def gives_no_keys(observations: list[Observation]) -> dict[Any, Any]:
    return {"group": {7: 1}}


OF_A_PACKAGE = (fails, gives_a_list, gives_no_keys, gives_no_values, leaves, of_a_package, takes_nothing)


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A package with these analyses, and one that lacks a module."""
    places = {one.__name__: f"{__name__}:{one.__name__}" for one in OF_A_PACKAGE}
    places |= {"broken": "no.such.module:f", "value": f"{__name__}:RANKS"}
    group = plugins.group_of("analyses")
    entries = {name: EntryPoint(name, place, group) for name, place in sorted(places.items())}
    monkeypatch.setattr(plugins, "declared", lambda kind: entries if kind == "analyses" else {})


@pytest.mark.usefixtures("installed")
def test_packages_bring_their_own(capsys: pytest.CaptureFixture[str]) -> None:
    assert names() == [*registry.OURS, "broken", *(one.__name__ for one in OF_A_PACKAGE), "value"]
    assert dict(analyse("of_a_package", observed({"a": 1}))) == {("group", "count"): 1}
    assert capsys.readouterr() == ("", "for people\n")
    with pytest.raises(ConfigError, match="'sum': no analysis; there are cpu-utilisation, load-b"):
        analyse("sum", [])


@pytest.mark.usefixtures("installed")
@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("fails", r"failed: KeyError: 'first\\nsecond' \(test_analyses.py:\d+\)"),
        ("leaves", r"failed: SystemExit: 3 \(test_analyses.py:\d+\)"),
        (
            "takes_nothing",
            r"failed: TypeError: takes_nothing\(\) takes 0 positional arguments but 1 was given",
        ),
        ("gives_a_list", " returns a list; let it return nested dictionaries"),
        ("gives_no_values", ": group/value: a NoneType is no value to observe"),
        ("gives_no_keys", ": "),
    ],
)
def test_what_goes_wrong_in_one_of_a_package_is_one_line(name: str, said: str) -> None:
    with pytest.raises(
        (ConfigError, ObservationError), match=rf"^analysis {name} \([\w.:]+\):? ?{said}"
    ) as found:
        analyse(name, observed({"a": 1}))
    assert len(str(found.value).splitlines()) == 1


@pytest.mark.usefixtures("installed")
def test_what_is_none_is_said_by_its_name() -> None:
    with pytest.raises(
        ConfigError, match=r"the plugin broken \(no.such.module:f, .*\) cannot be loaded: No mod"
    ):
        analyse("broken", [])
    with pytest.raises(
        ConfigError, match=r"the plugin value \(.*\) is of type int, where a function belongs"
    ):
        analyse("value", [])


def test_tasks_are_counted_by_state_and_timed_in_each() -> None:
    found = task_states(
        observed(
            {"a/state": "NEW", "a/states/10.0": "NEW", "b/states/10.0": "NEW"},
            {"a/states/11.5": "EXECUTING", "b/states/10.5": "SCHEDULED", "a/events/11.75": "rank_start"},
            {"a/events/11.875": "rank_start", "a/events/12.75": "rank_stop"},
            # A task that is tried again is twice in a state; what comes late is put where it belongs.
            {"a/states/14.0": "EXECUTING", "a/states/13.0": "SCHEDULED", "a/events/13.0": "rank_stop"},
            {"a/states/16.5": "DONE", "a/states/soon": "DONE", "a/nodes": "n1"},
        )
    )
    assert found == {
        "states": {"DONE": 1, "SCHEDULED": 1},
        "tasks": {
            "a": {
                "state": "DONE",
                "seconds": {"NEW": 1.5, "EXECUTING": 4.0, "SCHEDULED": 1.0},
                "run_time_s": 1.25,
            },
            "b": {"state": "SCHEDULED", "seconds": {"NEW": 0.5}},
        },
    }
    assert task_states(observed({"a/b": 1})) == {}
