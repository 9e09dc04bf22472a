"""Made-up runs: what the description says is in their streams, and no more."""

from __future__ import annotations

import tomllib
from pathlib import Path

import msgspec
import numpy as np
import pytest

from chimbuko.capture.trace.madeup import MadeUpRun, MadeUpTrace, read_description
from chimbuko.cli.execute.simulate import EXAMPLE
from chimbuko.core.arrays import Int64Array
from chimbuko.core.errors import ConfigError
from chimbuko.core.traceschema import EVENT_TIME, EVENT_TIMER, EVENT_TYPE, EventType

DESCRIPTION = """
ranks = 3
steps = 50
[[calls]]
function = "advance"
ms = 2.0
[[calls]]
function = "stencil"
inside = "advance"
ms = [1.0, 4.0]
calls = 2
[[calls]]
function = "MPI_Allreduce()"
kind = "collective"
ms = 0.1
[[delays]]
function = "stencil"
ms = 90.0
steps = [20, 30]
ranks = [1]
"""


def made(text: str = DESCRIPTION, **changed: object) -> MadeUpTrace:
    return MadeUpTrace(msgspec.convert({**tomllib.loads(text), **changed}, MadeUpRun))


def times_us(trace: MadeUpTrace, rank: int, function: str) -> Int64Array:
    """Runtimes of a function that does not call itself, in order."""
    timeline = trace.timelines[rank]
    events = np.concatenate([step.events for step in timeline.steps()[0]]).astype(np.int64)
    (timer,) = (number for number, name in timeline.names.timers.items() if name == function)
    own = events[events[:, EVENT_TIMER] == timer]
    entries, exits = (
        own[own[:, EVENT_TYPE] == kind, EVENT_TIME] for kind in (EventType.ENTRY, EventType.EXIT)
    )
    return exits - entries


def test_each_rank_calls_what_is_described_and_takes_its_time() -> None:
    trace = made()
    assert [len(times_us(trace, rank, "advance")) for rank in range(3)] == [50] * 3
    stencil = times_us(trace, 0, "stencil")
    assert len(stencil) == 100
    assert 20 < (stencil > 2000).sum() < 80 and stencil.max() < 6000
    # The own time and that of both calls inside.
    assert np.median(times_us(trace, 0, "advance")) == pytest.approx(2000 + 5000, abs=2500)


def test_delays_are_made_where_they_are_described_and_others_wait_for_them() -> None:
    trace = made()
    assert [(delay.rank, delay.step, delay.function) for delay in trace.delays] == [
        (1, 20, "stencil"),
        (1, 30, "stencil"),
    ]
    assert all(delay.end_us - delay.start_us == pytest.approx(90_000, abs=1) for delay in trace.delays)
    assert list(np.flatnonzero(times_us(trace, 1, "stencil") > 80_000)) == [40, 60]
    waits = times_us(trace, 0, "MPI_Allreduce()")
    assert list(np.flatnonzero(waits > 80_000)) == [20, 30]
    assert times_us(trace, 1, "MPI_Allreduce()").max() < 20_000
    assert len(np.concatenate([step.operations for step in trace.timelines[2].steps()[0]])) == 50


def test_the_same_description_gives_the_same_run_and_another_seed_another() -> None:
    assert list(times_us(made(), 2, "stencil")) == list(times_us(made(), 2, "stencil"))
    assert list(times_us(made(seed=2), 2, "stencil")) != list(times_us(made(), 2, "stencil"))


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"delays": [{"function": "none", "ms": 1}]}, "'none', which is not in"),
        ({"delays": [{"function": "advance", "ms": 1, "ranks": [3]}]}, "on a rank that is none of 3"),
        ({"delays": [{"function": "advance", "ms": 1, "cause": "more bytes"}]}, "moves no bytes"),
        ({"calls": [{"function": "a", "ms": 1, "inside": "b"}]}, "'a' is inside 'b'"),
        ({"steps": 100_000_000}, "calls are too many"),
    ],
)
def test_what_contradicts_itself_is_said_in_a_line(changed: dict[str, object], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        made(**changed)


def test_a_file_that_is_no_description_is_said_in_a_line(tmp_path: Path) -> None:
    path = tmp_path / "run.json"
    path.write_text('{"calls": []}')
    with pytest.raises(ConfigError, match="no description of a run"):
        read_description(path)
    path.write_text('{"calls": [{"function": "a", "ms": 1}]}')
    assert read_description(path).calls[0].function == "a"
    (tmp_path / "example.toml").write_text(EXAMPLE)
    assert (
        MadeUpTrace(msgspec.structs.replace(read_description(tmp_path / "example.toml"), steps=3)).delays
        == []
    )
