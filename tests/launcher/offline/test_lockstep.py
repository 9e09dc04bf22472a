"""Streams in lockstep: who goes on when, and what of them adds up until it is sent."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from chimbuko.ad.analysis.streamanalysis import Findings, StreamIdentity
from chimbuko.ad.analysis.streamstatistics import Learned
from chimbuko.ad.analysis.streamtelemetry import StreamTelemetry
from chimbuko.ad.modelsync.agentstatistics import AgentStatistics
from chimbuko.core.calls.pathtable import PATH
from chimbuko.core.config import AnalysisConfig
from chimbuko.core.statistics.schema import PROFILE
from chimbuko.core.traceschema import StreamNames
from chimbuko.launcher.offline.analysis import Merging
from chimbuko.launcher.offline.lockstep import Lockstep, Unsent
from chimbuko.launcher.offline.lockstepstream import EpochClosed
from chimbuko.pserver.state.serverstate import ServerState
from chimbuko.runtime.protocol.messages import ALL_EPOCHS

NAMES = StreamNames(timers={0: "solve", 1: "wait"}, program="app")
CALLS_AT = PROFILE.slices["exclusive_us"].start


def findings(timers: list[int], calls: float = 1.0) -> Findings:
    """So many calls of these functions, each of 1 µs."""
    table = PROFILE.empty(len(timers))
    for name in ("exclusive_us", "inclusive_us"):
        at = PROFILE.slices[name].start
        table[:, at : at + 2] = calls, 1.0
        table[:, at + 5 : at + 7] = 1.0
    return Findings(Learned(np.array(timers, np.int64), table), StreamTelemetry.none(), np.zeros(1, PATH))


def closed(rank: int, epoch: int, *found: Findings) -> EpochClosed:
    return EpochClosed(f"0:{rank}", epoch, found, (), NAMES)


class Streams:
    """Ranks whose steps end in given epochs; each epoch has one call of ``solve`` on its rank."""

    def __init__(self, epochs: list[list[int]]) -> None:
        identities = [StreamIdentity(0, rank, "node") for rank in range(len(epochs))]
        self.lockstep = Lockstep(AgentStatistics("agent", 1, PROFILE), identities, AnalysisConfig())
        self.state = ServerState(len(epochs), PROFILE, server=7)
        self.merging = Merging(self.state, self.lockstep, {0: "app"})
        self.left = {f"0:{rank}": iter(steps) for rank, steps in enumerate(epochs)}
        self.at: dict[str, int | None] = dict.fromkeys(self.left)
        self.seen: list[tuple[str, int, float]] = []
        """Stream, epoch that it goes on with, and calls that its model has then."""

    def run(self) -> None:
        """All of it, as the process does it."""
        while not self.lockstep.is_over:
            due = self.lockstep.due()
            if not due:
                self.merging.merge()
            for key, model in due.items():
                epoch = self.at[key]
                if epoch is not None:
                    calls = 0.0 if model is None else float(model.table[0, CALLS_AT])
                    self.seen.append((key, epoch, calls))
                brought = [] if epoch is None else [findings([0])]
                self.at[key] = following = next(self.left[key], None)
                until = ALL_EPOCHS if following is None else following - 1
                self.lockstep.take(closed(int(key[2:]), until, *brought))
        self.merging.merge()


@given(st.lists(st.lists(st.integers(1, 12), max_size=6, unique=True).map(sorted), min_size=1, max_size=4))
def test_a_stream_goes_on_with_all_of_the_epochs_before(epochs: list[list[int]]) -> None:
    streams = Streams(epochs)
    streams.run()
    assert sorted((key, epoch) for key, epoch, _ in streams.seen) == sorted(
        (f"0:{rank}", epoch) for rank, steps in enumerate(epochs) for epoch in steps
    )
    for _, epoch, calls in streams.seen:
        assert calls == sum(earlier < epoch for steps in epochs for earlier in steps)
    _, table = streams.state.learned()
    assert table[:, CALLS_AT].sum() == sum(map(len, epochs))


def test_what_is_handed_out_twice_in_an_epoch_adds_up() -> None:
    unsent = Unsent(PROFILE)
    unsent.add([findings([0]), findings([0, 1], calls=2.0)], ())
    share = unsent.share(StreamIdentity(0, 0, "node"), NAMES.timers)
    assert share.learned.timers.tolist() == [0, 1]
    assert share.learned.table[:, CALLS_AT].tolist() == [3.0, 2.0]
    unsent.sent(has_paths=True)
    assert not len(unsent.share(StreamIdentity(0, 0, "node"), NAMES.timers).learned.timers)


def test_call_paths_add_up_until_they_are_sent() -> None:
    unsent = Unsent(PROFILE)
    paths = np.zeros(1, PATH)
    paths["parent"] = paths["function"] = -1
    paths["calls"], paths["exclusive_us"] = 2, 5.0
    calls = []
    for has_paths in (False, False, True, False):
        unsent.add([Findings(findings([0]).learned, StreamTelemetry.none(), paths.copy())], ())
        rows = unsent.share(StreamIdentity(0, 0, "node"), NAMES.timers).paths
        calls.append((rows["calls"].tolist(), rows["exclusive_us"].tolist()))
        unsent.sent(has_paths)
    assert calls == [([2], [5.0]), ([4], [10.0]), ([6], [15.0]), ([2], [5.0])]
