"""Delays of the programs of the detection suite are found through annotations alone."""

from __future__ import annotations

import pytest

from evaluation import annotated, processes

ANNOTATED = ("--aspect", "__main__:work")
FAR_OUT = "python_hello"
"""Its delays take 1 s instead of 30 ms: however busy a machine is, they stand out."""


@pytest.mark.thorough
@pytest.mark.timeout(300)
def test_delays_are_found_live() -> None:
    found = processes.measure(FAR_OUT, ANNOTATED)
    assert found.settled_found == found.settled > 0


@pytest.mark.thorough
@pytest.mark.timeout(300)
@pytest.mark.parametrize("name", processes.PROGRAMS)
def test_the_same_delays_of_one_execution(name: str) -> None:
    """Whatever else the machine does: all times are those of the same calls, and no model is on its way."""
    program, found = processes.PROGRAMS[name], annotated.measure(name)
    assert found.delays == len(program.processes) * len(program.delayed)
    # Where steps begin differs, and a step is judged by what the ones before have taught.
    assert abs(found.by_annotations - found.by_tracer) <= 1
    if found.by_tracer <= found.delays / 2:
        pytest.skip("the machine is so busy that most of these delays do not stand out, whatever traces them")
