"""The case study of Chimbuko's paper, scripted: what was left to the eye there is said in a sentence.

MD_NEWTON took three times as long on one rank in one step, before it called MD_FORCES; another rank was slow
to fetch remote atoms. All ranks wait for each other in the two global sums of CF_CMS.
"""

from __future__ import annotations

import re

import numpy as np
import pytest

from chimbuko.causes.evidence.flag import flag_of
from chimbuko.causes.incident import Incident
from chimbuko.causes.incidents.sentence import sentence
from chimbuko.causes.incidents.tracker import IncidentTracker
from chimbuko.core.config import AnalysisConfig
from evaluation.cluster import Cluster, Source
from evaluation.injections import MS, noise
from evaluation.timeline import RankTimeline

RANKS = (0, 1, 2, 1164)
STEPS = 100
LATE, FETCHING = 1164, 2
LATE_STEP, FETCHING_STEP = 86, 40
LAUNCH_MS, FORCES_MS, FETCH_MS = 0.5, 18.0, 1.5
LATER_MS = 2 * (LAUNCH_MS + FETCH_MS + FORCES_MS)
SUMS = 2


class Rank:
    """One rank, call by call, on its own clock."""

    def __init__(self, number: int, random: np.random.Generator) -> None:
        self.timeline = RankTimeline(0, number, "nwchem")
        self.now_us = 0.0
        self._random = random

    def enter(self, function: str) -> None:
        self.timeline.enter(0, function, self.now_us)

    def leave(self, function: str) -> None:
        self.timeline.leave(0, function, self.now_us)

    def work(self, ms: float) -> None:
        self.now_us += ms * MS * noise(self._random)

    def call(self, function: str, ms: float) -> None:
        self.enter(function)
        self.work(ms)
        self.leave(function)

    def newton(self, launch_ms: float, fetch_ms: float) -> None:
        self.enter("MD_NEWTON")
        self.work(launch_ms)
        self.enter("MD_FORCES")
        self.call("SP_GTXPBL", fetch_ms)
        self.work(FORCES_MS)
        self.leave("MD_FORCES")
        self.leave("MD_NEWTON")


def played(seed: int = 1) -> list[RankTimeline]:
    random = np.random.default_rng(seed)
    ranks = [Rank(number, random) for number in RANKS]
    for rank in ranks:
        rank.enter("NWCHEM")
    for step in range(STEPS):
        for rank in ranks:
            number = rank.timeline.rank
            is_late = (number, step) == (LATE, LATE_STEP)
            is_fetching = (number, step) == (FETCHING, FETCHING_STEP)
            rank.newton(LAUNCH_MS + LATER_MS * is_late, FETCH_MS + LATER_MS * is_fetching)
            rank.enter("MD_FINIT")
            rank.enter("CF_CMS")
        for _ in range(SUMS):
            for rank in ranks:
                rank.enter("MPI_Allreduce()")
            over_us = max(rank.now_us for rank in ranks)
            for rank in ranks:
                rank.now_us = over_us
                rank.work(0.03)
                rank.leave("MPI_Allreduce()")
        for rank in ranks:
            rank.leave("CF_CMS")
            rank.leave("MD_FINIT")
    for rank in ranks:
        rank.leave("NWCHEM")
    return [rank.timeline for rank in ranks]


def found(metric: str) -> list[Incident]:
    """Incidents, the most costly first."""
    config = AnalysisConfig(metric=metric)
    sources = []
    for timeline in played():
        stream, _ = timeline.stream()
        sources.append(Source(0, stream.rank, stream.names, iter(stream.steps)))
    tracker = IncidentTracker()
    for record in Cluster(sources, 1, config).anomalies():
        tracker.put_communication(record)
        tracker.put([flag_of(record)])
    return sorted(tracker.update().incidents, key=lambda one: -one.cost_us)


@pytest.mark.parametrize(
    ("metric", "took"),
    [("exclusive", "spent .* ms in its own code, "), ("inclusive", r"took .* ms, 3\.0× ")],
)
def test_md_newton_calls_md_forces_late(metric: str, took: str) -> None:
    fetching, late = sorted(found(metric), key=lambda one: one.begin_us)
    assert (late.function, late.rank, late.kind) == ("MD_NEWTON", LATE, "late child")
    assert re.match(
        f"MD_NEWTON on rank 1164 {took}.*, (38|39|40|41).* ms of it before it called MD_FORCES; "
        r"ranks 0, 1 and 2 waited .* ms each for it in MPI_Allreduce: .* ms lost on 4 ranks together\.$",
        sentence(late),
    ), sentence(late)
    assert (fetching.function, fetching.rank, fetching.kind) == ("SP_GTXPBL", FETCHING, "own code")
    assert re.search(r"; ranks 0, 1 and 1164 waited .* in MPI_Allreduce: [^;]*$", sentence(fetching))
