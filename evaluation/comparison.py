"""Several detectors side by side."""

from __future__ import annotations

from collections.abc import Sequence

from evaluation.measure import Measured
from evaluation.scenarios import CLEAN
from evaluation.tables import ResultTable, number


def table(results: Sequence[Measured]) -> ResultTable:
    """Per scenario and detector: precision and recall, or false flags of runs without delays."""
    detectors = list(dict.fromkeys(result.detector for result in results))
    rows: dict[tuple[str, str], dict[str, str]] = {}
    for result in results:
        cells = rows.setdefault((result.scenario, result.variant), {})
        cells[result.detector] = _cell(result)
    return ResultTable(
        "Precision / recall of visible delays, or false flags per 100,000 clean calls (4 agents, lockstep)",
        ("scenario", "delays", *detectors),
        [(*key, *(cells[name] for name in detectors)) for key, cells in rows.items()],
    )


def _cell(result: Measured) -> str:
    one = result.score
    if result.variant == CLEAN:
        return number(one.false_per_100k, 1)
    return f"{number(one.precision)} / {number(one.recall)}"
