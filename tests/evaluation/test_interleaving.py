"""Lockstep gives the flags of one undisturbed agent, whatever happens to messages, server and broker."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chimbuko.core.config import AnalysisConfig
from evaluation.cluster import Cluster, Source
from evaluation.interleaving import TroubledCluster
from evaluation.labelled import LabelledRun
from evaluation.scenarios import SCENARIOS, make_run

SHARE = 0.1

Flag = tuple[str, int]
"""Id of a call, and how many calls of its function were known when it was flagged: off by one where only one
call is counted at another time, or twice."""


@pytest.fixture(scope="module")
def run() -> LabelledRun:
    scenario = SCENARIOS["gamma"].scaled(SHARE)
    return make_run(scenario, scenario.variants[-1], 1)


@pytest.fixture(scope="module")
def config(run: LabelledRun) -> AnalysisConfig:
    return msgspec.structs.replace(AnalysisConfig(), period_us=run.period_us, window_calls=0)


@pytest.fixture(scope="module")
def undisturbed(run: LabelledRun, config: AnalysisConfig) -> set[Flag]:
    return flags_of(Cluster(list(sources_of(run)), 1, config))


def sources_of(run: LabelledRun) -> Iterator[Source]:
    for stream in run.streams:
        yield Source(stream.program, stream.rank, stream.names, iter(stream.steps))


def flags_of(cluster: Cluster) -> set[Flag]:
    return {(call.id, call.seen) for call in cluster.anomalies()}


@settings(max_examples=15, deadline=None)
@given(agents=st.sampled_from([1, 2, 4]), seed=st.integers(0, 2**32 - 1))
def test_flags_are_those_of_one_undisturbed_agent(
    agents: int, seed: int, run: LabelledRun, config: AnalysisConfig, undisturbed: set[Flag]
) -> None:
    cluster = TroubledCluster(list(sources_of(run)), agents, config, seed)
    assert undisturbed
    assert flags_of(cluster) == undisturbed
    assert cluster.server.lost_deltas == 0


def test_everything_happens_that_is_to_be_withstood(run: LabelledRun, config: AnalysisConfig) -> None:
    happened = [TroubledCluster(list(sources_of(run)), 4, config, seed).events for seed in range(5)]
    for what in ("lost", "doubled", "refused", "servers_killed", "brokers_killed"):
        assert all(getattr(events, what) > 0 for events in happened), what
