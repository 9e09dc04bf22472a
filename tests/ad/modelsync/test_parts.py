"""A server in two parts, each of which merges and publishes when it comes to it: each call counts once."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from chimbuko.ad.analysis.streamanalysis import StreamAnalysis, StreamIdentity
from chimbuko.ad.handoff.exchange import Cell, ExchangeBox
from chimbuko.ad.handoff.namesfile import NamesFile
from chimbuko.core.statistics.schema import PROFILE
from chimbuko.core.traceschema import StreamNames, TraceStep
from chimbuko.pserver import schedule
from chimbuko.pserver.server import Server, StateFile
from chimbuko.pserver.state.serverstate import ServerState
from chimbuko.runtime.protocol.broker import PrivateBroker
from chimbuko.runtime.protocol.partition import part_of_function
from chimbuko.runtime.protocol.runbroker import RunBroker
from tests.ad.modelsync.test_modelsync import CONFIG, Node

PARTS = 2
NAMES = StreamNames(timers={0: "main", **{timer: f"f{timer}" for timer in range(1, 5)}})
FUNCTIONS = np.arange(1, len(NAMES.timers))
RUNS = itertools.count()


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PrivateBroker]:
    with PrivateBroker(tmp_path_factory.mktemp("broker") / "broker.log") as one:
        yield one


class Whole:
    """A stream, its agent, and both parts of the server, which all do something when they are asked to."""

    def __init__(self, folder: Path, broker: PrivateBroker) -> None:
        run = f"run{next(RUNS)}"
        self._node = Node(folder / run / "agent", broker, run=run, parts=PARTS)
        spec = self._node.stream.next_attempt()
        NamesFile(Path(spec.names)).save(NAMES)
        self._node.stream.box[Cell.NAMES_VERSION] += 1
        self._box = ExchangeBox(Path(spec.box), PROFILE, spec.program, spec.rank)
        self._analysis = StreamAnalysis(StreamIdentity(spec.program, spec.rank, ""), CONFIG)
        self._brokers = [RunBroker.connect(broker.url, run) for _ in range(PARTS)]
        Node.clients += [one.client for one in self._brokers]
        self._parts = [
            Server(one, ServerState(part=part, parts=PARTS, server=1 + part), StateFile())
            for part, one in enumerate(self._brokers)
        ]
        self._steps = 0

    def do(self, action: str) -> None:
        """A step of the program, an exchange of its agent, or a turn of a part of the server, by number."""
        if action == "step":
            self._step()
        elif action == "exchange":
            self._node.link.exchange(is_flushing=True)
            self._box.take_model(self._analysis)
        else:
            self._parts[int(action)].serve_once(lambda: False)

    def assert_each_call_counts_once(self) -> None:
        """The first call of each function teaches nothing."""
        known = self._analysis._detection.statistics.seen(FUNCTIONS)
        assert known.tolist() == [self._steps - 1] * len(FUNCTIONS)

    @property
    def calls(self) -> list[float]:
        """That the model has, of each function."""
        table = self._node.statistics.model.rows_for(0, NAMES.timers)
        calls: list[float] = table[FUNCTIONS, PROFILE.slices["exclusive_us"].start].tolist()
        return calls

    def close(self) -> None:
        """Let go of the stream's file."""
        self._box.close()
        self._node.stream.box.close()

    def _step(self) -> None:
        """A call of each function."""
        start = 1_000_000 * (self._steps + 1)
        rows = [
            [0, 0, 0, kind, function, start + 20 * function + 10 * kind]
            for function in FUNCTIONS
            for kind in (0, 1)
        ]
        nothing = np.empty((0, 8), np.uint64), np.empty((0, 6), np.uint64)
        step = TraceStep(self._steps, np.array(rows, np.uint64), *nothing)
        count = self._analysis.analyse(step, NAMES).count
        self._steps += 1
        assert self._box.exchange(self._analysis, [count])


def test_the_functions_are_of_both_parts() -> None:
    assert {part_of_function(0, NAMES.timers[timer], PARTS) for timer in FUNCTIONS} == {0, 1}


@settings(max_examples=10, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.sampled_from(["step", "exchange", "exchange", "0", "1"]), max_size=20))
def test_each_call_counts_once_whichever_part_is_first(
    broker: PrivateBroker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, actions: list[str]
) -> None:
    for period in ("PUBLISH_S", "GATHER_S", "IDLE_S"):
        monkeypatch.setattr(schedule, period, 0.0)
    whole = Whole(tmp_path, broker)
    for action in ["step", *actions, "step", *(["exchange", "1", "0"] * 4), "exchange"]:
        whole.do(action)
        whole.assert_each_call_counts_once()
    assert whole.calls == [actions.count("step") + 1] * len(FUNCTIONS)
    whole.close()
