"""Delays of the programs of the detection suite are found through annotations alone."""

from __future__ import annotations

import pytest

from evaluation import processes

ANNOTATED = ("--aspect", "__main__:work")


@pytest.mark.thorough
@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", processes.PROGRAMS)
def test_as_many_as_where_all_functions_are_traced(name: str) -> None:
    traced = processes.measure(name)
    if traced.found < traced.delays - 1:
        pytest.skip("the machine is too busy for these delays to stand out, whatever traces them")
    annotated = processes.measure(name, ANNOTATED)
    assert annotated.delays == traced.delays
    assert abs(annotated.found - traced.found) <= 1
    assert abs(annotated.settled_found - traced.settled_found) <= 1
