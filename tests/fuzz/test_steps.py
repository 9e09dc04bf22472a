"""A short run of the fuzz target; hypothesis finds the fewest ways to spoil a stream that make it fail."""

from __future__ import annotations

import copy
import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from tests.fuzz.rounds import analyse, config_for, one_round
from tests.fuzz.streams import SPOILS, Spoil, Stream, made_stream, random_stream, real_stream

SEEDS = st.integers(0, 2**32 - 1)


def stream_of(kind: str, seed: int) -> Stream:
    if kind == "real":
        return copy.deepcopy(real_stream())
    return {"made": made_stream, "random": random_stream}[kind](np.random.default_rng(seed))


# A landmark in a stream before any limit is known.
@example(kind="made", seed=1437, spoils=[])
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    kind=st.sampled_from(("made", "random", "real")),
    seed=SEEDS,
    spoils=st.lists(st.tuples(st.sampled_from(SPOILS), SEEDS), max_size=8),
)
def test_spoilt_streams_are_survived_and_accounted_for(
    kind: str, seed: int, spoils: list[tuple[Spoil, int]]
) -> None:
    stream = stream_of(kind, seed)
    for spoil, spoil_seed in spoils:
        spoil(stream, np.random.default_rng(spoil_seed))
    with tempfile.TemporaryDirectory() as folder:
        analyse(stream, config_for(np.random.default_rng(seed)), Path(folder))


@pytest.mark.parametrize("seed", range(20))
def test_rounds_of_the_long_run(seed: int, tmp_path: Path) -> None:
    one_round(seed, tmp_path)
