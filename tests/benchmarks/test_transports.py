"""The evidence for the transports, small: files lose nothing, whatever happens to readers."""

from __future__ import annotations

from dataclasses import replace

import pytest

from benchmarks.transports import cost, follow, kills, metadata, trials


def files(disturbance: str, rounds: int) -> trials.Result:
    (result,) = kills.measure(rounds, 3, disturbances=[disturbance], variants=trials.VARIANTS[:1])
    return result


@pytest.mark.parametrize("disturbance", ["kill", "late"])
def test_over_files_nothing_is_lost_and_nobody_dies(disturbance: str) -> None:
    result = files(disturbance, 3)
    assert result.total("rounds") == 3
    assert [result.total(name) for name in ("died", "hung", "lost", "twice", "unknown")] == [0] * 5
    assert result.total("written") > 0
    assert len([ms for trial in result.trials for ms in trial.lags_ms]) == result.total("written")
    assert "killed" in kills.text([result]) or "late" in kills.text([result])


def test_a_program_that_dies_or_hangs_is_counted_and_its_rounds_made_up_for() -> None:
    trial = trials.Trial(rounds=1, died=1, written=3, lost=2, steps_ms=[1.0, 2.0, 30.0])
    result = trials.Result("sst", "kill", [trial, replace(trial, died=0, hung=1)], 0.2, 0.01, 0)
    row = dict(zip(trials.APPLICATION_HEADS, trials.application_row(result), strict=False))
    assert (row["died"], row["hung"], row["steps"], row["programs"]) == ("1", "1", "6", "2")
    assert "4" in trials.analysis_row(result)


def test_metadata_that_was_read_is_given_back() -> None:
    for result in metadata.measure(1):
        assert result.bytes_per_step["md.idx"] == 41
        assert result.bytes_per_step["md.0"] > 100
        # An index, and whole pages at the ends of what was given back.
        assert result.held_bytes < 41 * result.steps + 64_000


def test_costs_have_a_copy_of_the_same_arrays_beside_them() -> None:
    variants = len(cost.VARIANTS)
    results = cost.measure(1, rows=(5_000,), steps={5_000: 8})
    assert len(results) == variants
    for result in results:
        assert len(result.wall_ms) == len(result.copy_ms) == 8 - cost.FIRST_STEPS
        assert len(result.ratios) == 1 and result.ratios[0] > 0
    assert all(variant.name in cost.text(results) for variant in cost.VARIANTS)


def test_a_follower_has_labels_of_all_steps() -> None:
    (result,) = follow.measure(2, [follow.Case(1, None, "in turn")], settle_s=0.5)
    assert result.lags_ms
    assert result.readers_ms > 0 and result.guard_ms > 0
