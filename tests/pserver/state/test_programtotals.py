"""Call paths of all ranks: each agent's calls count once, and only what has grown is reported."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from chimbuko.core.arrays import Rows
from chimbuko.core.calls.pathtable import OTHER_PATHS, PATH
from chimbuko.pserver.state.programtotals import ProgramCallPaths
from chimbuko.runtime.protocol.messages import PathStatistics
from chimbuko.runtime.protocol.telemetry import ProgramPaths
from tests.core.calls.test_pathtable import path_rows
from tests.plainpython import examples
from tests.reference.paths import moments_of

NUMBERS = np.array([2, 0, 1])
"""Of functions, from the agent's to the server's."""


def new_paths() -> ProgramCallPaths:
    return ProgramCallPaths(lambda number: f"f{number}")


def reported(rows: Rows, program: int = 0) -> ProgramPaths:
    return ProgramPaths(program, rows.tobytes())


def by_path(statistics: list[PathStatistics]) -> dict[tuple[str, ...], PathStatistics]:
    return {tuple(one.functions): one for one in statistics}


@examples(60)
@given(st.lists(st.lists(st.integers(0, 1 << 24), min_size=1, max_size=5), min_size=1, max_size=5))
def test_runtimes_of_all_agents_have_their_mean_and_spread(agents: list[list[int]]) -> None:
    paths = new_paths()
    for runtimes_us in agents:
        paths.take(reported(path_rows([((0, 2), runtime_us) for runtime_us in runtimes_us])), NUMBERS)
    (found,) = paths.everything()
    every = [runtime_us for runtimes_us in agents for runtime_us in runtimes_us]
    assert (found.functions, found.calls) == (["f2", "f1"], len(every))
    exclusive = (
        found.exclusive_mean_us,
        found.exclusive_stddev_us,
        found.exclusive_minimum_us,
        found.exclusive_maximum_us,
    )
    assert exclusive == pytest.approx(moments_of(every), rel=1e-9)
    inclusive = (
        found.inclusive_mean_us,
        found.inclusive_stddev_us,
        found.inclusive_minimum_us,
        found.inclusive_maximum_us,
    )
    assert inclusive == exclusive


def test_only_what_has_grown_by_a_tenth_is_reported() -> None:
    paths = new_paths()
    many = path_rows([((0,), 10)] * 100 + [((0, 1), 5)])
    paths.take(reported(many), NUMBERS)
    assert len(paths.changes()) == 2
    assert not paths.changes()
    paths.take(reported(path_rows([((0,), 10)])), NUMBERS)
    assert not paths.changes()
    paths.take(reported(path_rows([((0,), 10)] * 10 + [((0, 1), 5)])), NUMBERS)
    calls = {key: one.calls for key, one in by_path(paths.changes()).items()}
    assert calls == {("f2",): 111, ("f2", "f0"): 2}
    assert len(paths.everything()) == 2


def test_programs_are_kept_apart() -> None:
    paths = new_paths()
    for program in (1, 0):
        paths.take(reported(path_rows([((program,), 10)]), program), NUMBERS)
    assert [(one.program, one.functions) for one in paths.everything()] == [(0, ["f2"]), (1, ["f0"])]


def test_what_has_no_row_has_a_name() -> None:
    rows = path_rows([((0,), 10)])
    rows[0] = (-1, -1, *rows[1].tolist()[2:])
    paths = new_paths()
    paths.take(reported(rows), NUMBERS)
    assert by_path(paths.everything()).keys() == {("f2",), (OTHER_PATHS,)}


def test_what_was_saved_goes_on() -> None:
    straight, first, second = new_paths(), new_paths(), new_paths()
    rows = path_rows([((0, 1), 10), ((2,), 4)])
    for paths in (straight, first):
        paths.take(reported(rows), NUMBERS)
    second.restore(first.dump())
    for paths in (straight, second):
        paths.take(reported(rows), NUMBERS)
    assert second.everything() == straight.everything()


def test_functions_that_were_not_named_are_refused() -> None:
    paths = new_paths()
    with pytest.raises(ValueError, match="not named"):
        paths.take(reported(path_rows([((3,), 10)])), NUMBERS)
    damaged = path_rows([((0,), 10)])
    damaged["parent"][1] = 1
    with pytest.raises(ValueError, match="parents"):
        paths.take(reported(damaged), NUMBERS)
    with pytest.raises(ValueError):
        paths.take(ProgramPaths(0, b"x" * (PATH.itemsize + 1)), NUMBERS)
