"""The agent's statistics, as the thread that does not own them sees them."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from chimbuko.ad.detectors import make_detector
from chimbuko.ad.modelsync.agentstatistics import AgentStatistics
from chimbuko.core.arrays import Float64Array
from chimbuko.core.config import AnalysisConfig
from chimbuko.core.statistics.schema import TableSchema


def test_a_function_is_known_only_when_it_has_a_row(monkeypatch: pytest.MonkeyPatch) -> None:
    statistics = AgentStatistics("agent-0", 1, replace(make_detector(AnalysisConfig()).schema))
    names = {number: f"function {number}" for number in range(1000)}
    seen = []

    def grown(schema: TableSchema, table: Float64Array, count: int) -> Float64Array:
        # What another thread may ask for just now.
        seen.append(len(statistics.model.rows_for(0, names)))
        return original(schema, table, count)

    original = TableSchema.grown
    monkeypatch.setattr(TableSchema, "grown", grown)
    statistics.name(0, names.values())
    assert len(seen) >= 4 and set(seen) == {len(names)}
