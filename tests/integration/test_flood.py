"""Many more anomalies than are recorded of one function: the same ones for any number of agents."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from chimbuko.provenance.query.run import Dropped, open_run
from chimbuko.runtime.runs.directory import RunDirectory
from tests.integration.conftest import Run, Start


def dropped(run: Run) -> list[Dropped]:
    with open_run(RunDirectory(run.folder)) as provenance:
        return provenance.dropped()


@pytest.mark.thorough
def test_what_is_recorded_of_a_flood(start: Start, heat4: Path) -> None:
    flooded = (
        "--trace",
        heat4 / "*.bp",
        "--max-per-function",
        "1",
        "--min-anomaly",
        "0",
        "--threshold",
        "1.5",
        # Calls that were recorded because somebody waited in them may be abnormal for the final model.
        "--no-relabel",
    )
    one, two = (start(*flooded, "--agents", str(agents)) for agents in (1, 2))
    assert (one.end(), two.end()) == (0, 0), one.output
    assert one.ids == two.ids
    assert dropped(one) == dropped(two) != []
    with open_run(RunDirectory(one.folder)) as provenance:
        flagged = Counter[int]()
        for step in provenance.steps.counts():
            flagged[step.rank] += step.anomalies
        by_function = {f.name: f.anomalies for f in provenance.function_statistics() if f.anomalies}
    only_counted, per_function = Counter[int](), Counter[str]()
    for item in dropped(one):
        only_counted[int(item.stream.partition(":")[2])] += item.anomalies
        per_function[item.function] += item.anomalies
    assert Counter(call.rank for call in one.anomalies) + only_counted == flagged
    assert Counter(call.function for call in one.anomalies) + per_function == by_function
    assert "too many of their functions" in one.output
