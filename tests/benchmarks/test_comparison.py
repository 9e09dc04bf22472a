"""Several detectors side by side."""

from __future__ import annotations

from evaluation import comparison
from evaluation.measure import AGENTS, Measured
from evaluation.scenarios import CLEAN
from evaluation.score import Score


def measured(detector: str, variant: str, **counts: int) -> Measured:
    score = Score(**counts)
    return Measured("gamma", variant, detector, dict.fromkeys(AGENTS, score), True, score, 0, score)


def test_a_row_has_a_cell_for_each_detector() -> None:
    delayed = {"calls": 100_000, "judged_flags": 10, "visible": 20}
    results = [
        measured("robust", CLEAN, calls=200_000, false_flags=3),
        measured("robust", "2-6x", **delayed, judged_true_flags=9, visible_found=8),
        measured("hbos", CLEAN, calls=200_000),
        measured("hbos", "2-6x", **delayed, judged_true_flags=5, visible_found=5),
    ]
    table = comparison.table(results)
    assert table.columns == ("scenario", "delays", "robust", "hbos")
    assert table.rows == [
        ("gamma", CLEAN, "1.5", "0.0"),
        ("gamma", "2-6x", "0.900 / 0.400", "0.500 / 0.250"),
    ]
