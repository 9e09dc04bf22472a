"""What charts show of observations: all that is known of tasks, nodes and quantities, in bounded memory."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chimbuko.core.errors import ConfigError
from chimbuko.observe.namespaces.analyses import gathering
from chimbuko.observe.namespaces.analyses.gathering import MOST_POINTS, Gathered, Points
from chimbuko.observe.namespaces.analyses.views import Views, encode, read_views
from tests.viz.made_observations import CANCELLED, COURSES, UNSTABLE, S, observation, observations


@given(st.lists(st.floats(allow_infinity=False) | st.just(math.nan), max_size=3 * MOST_POINTS))
def test_a_curve_keeps_its_peaks_and_its_order(values: list[float]) -> None:
    points = Points()
    for at, value in enumerate(values):
        points.add(at, value)
    numbers = [value for value in points.values if value is not None]
    given_numbers = [value for value in values if not math.isnan(value)]
    assert len(points.times_us) == len(points.values) <= MOST_POINTS
    assert points.times_us == sorted(set(points.times_us))
    assert all(
        value is None if math.isnan(values[at]) else value == values[at]
        for at, value in zip(points.times_us, points.values, strict=True)
    )
    if len(values) <= MOST_POINTS:
        assert numbers == given_numbers
    elif len(given_numbers) == len(values):
        assert (min(numbers), max(numbers)) == (min(values), max(values))
    else:
        assert None in points.values


def test_a_workflow_is_shown_as_it_went() -> None:
    gathered = Gathered()
    for one in observations(0):
        gathered.take(one)
    views = gathered.views
    tasks = {task.name: task for task in views.tasks}
    assert list(tasks) == [*COURSES, CANCELLED]
    _, began, ended, end, program, node, cores = COURSES["simulate-8"]
    assert tasks["simulate-8"].states[-2:] == [(began * S, "EXECUTING"), (ended * S, end.value)]
    shown = tasks["simulate-8"]
    assert (shown.program, shown.nodes, shown.cores) == (program, [node], cores)
    assert (tasks["analyse"].exit_code, tasks["analyse"].reason) == (1, "exit code 1")
    assert tasks[CANCELLED].nodes == [] and tasks[CANCELLED].exit_code is None
    nodes = {node.node: node.utilisation_percent for node in views.nodes}
    assert nodes["node0"] == 30 * [90.0] and len(nodes["node1"]) == 30
    assert [(one.program, one.rank, one.time_us) for one in views.mpi] == [
        ("", rank, 1e6 * rank + 1.5e6) for rank in range(4)
    ]
    (mass,) = (one for one in views.quantities if one.quantity == "local_mass")
    assert [line.rank for line in mass.lines] == list(range(16))
    assert mass.lines[UNSTABLE].values[-1] is None and views.left_out == 0


def test_what_there_is_no_room_for_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    for limit in ("MOST_TASKS", "MOST_NODES", "MOST_LINES"):
        monkeypatch.setattr(gathering, limit, 1)
    gathered = Gathered()
    for second in range(2):
        for name in ("a", "b"):
            gathered.take(observation("workflow", 0, {name: {"states": {str(second): "NEW"}}}))
            ticks = {"stat": {"cpu": f"{second} 0 0 0 0 0 0 0"}}
            gathered.take(observation("hardware", second, {name: ticks}))
            gathered.take(observation("application", 0, {name: second}))
    views = gathered.views
    assert (len(views.tasks), len(views.nodes), len(views.quantities)) == (1, 1, 1)
    assert views.left_out == 2 + 1 + 2


def test_a_task_of_many_ranks_runs_once() -> None:
    """RADICAL-Pilot says of each rank when it began."""
    gathered = Gathered()
    ranks = {f"{second}.5": "rank_start" for second in range(2, 102)}
    task = {"states": {"1.0": "SCHEDULED", "2.0": "EXECUTING"}, "events": ranks}
    gathered.take(observation("workflow", 0, {"task.000000": task}))
    (shown,) = gathered.views.tasks
    assert shown.states == [(1_000_000, "SCHEDULED"), (2_000_000, "EXECUTING")]


def test_what_others_publish_there_does_no_harm() -> None:
    """Wrong types, times that are none, keys that are too few."""
    gathered = Gathered()
    for namespace in ("workflow", "hardware", "performance"):
        for values in (
            {"state": "NEW"},
            {
                "t": {
                    "states": {"nan": "NEW", "inf": "NEW", "x": "NEW", "1.5": 7},
                    "nodes": 3,
                    "cores": "many",
                }
            },
            {"stat": {"cpu": [1.0, 2.0]}, "n": {"stat": {"cpu": "a b c"}}},
            {"Rank 1": {"MPI_Recv_Exclusive": "long"}, "MPI_Recv_Exclusive": 1.0},
        ):
            gathered.take(observation(namespace, 0, values))
    views = gathered.views
    assert (views.tasks, views.nodes, views.mpi) == ([], [], [])


def test_the_file_is_read_as_it_stands_now(tmp_path: Path) -> None:
    path = tmp_path / "observed"
    assert read_views(path) == Views()
    path.write_bytes(encode(Views(left_out=3)))
    assert read_views(path).left_out == 3
    path.write_bytes(encode(Views(left_out=30_000)))
    assert read_views(path).left_out == 30_000
    path.write_bytes(b"no such file")
    with pytest.raises(ConfigError, match="observed: cannot be read"):
        read_views(path)
