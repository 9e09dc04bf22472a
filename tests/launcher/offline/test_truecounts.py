"""Calls of a function are counted as the stream has them, from its rows to what the server reports."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from chimbuko.ad.analysis.streamanalysis import StreamAnalysis, StreamIdentity
from chimbuko.ad.modelsync.agentstatistics import AgentStatistics
from chimbuko.core.config import AnalysisConfig
from chimbuko.core.statistics.schema import schema_of
from chimbuko.core.traceschema import EVENT_TIMER, EVENT_TYPE, StreamNames
from chimbuko.launcher.offline.lockstep import Unsent
from chimbuko.pserver.state.serverstate import ServerState
from chimbuko.runtime.protocol.messages import RunStatistics
from tests.plainpython import examples
from tests.reference.traces import RANK, MadeTrace, made_names, traces

CONFIG = AnalysisConfig()
ENTRY = 0


@examples(60)
@given(traces(with_points=False), st.integers(1, 3), st.integers(1, 3))
def test_calls_by_function_are_those_of_the_stream(trace: MadeTrace, parts: int, held: int) -> None:
    """First calls, calls that stay open, and functions without a name count, in any number of parts of the
    server; a server that takes over goes on.
    """
    names = made_names()
    seen: Counter[str] = Counter()
    servers = served(trace, names, seen, parts, held)
    reported = [server.statistics(is_last=True) for server in servers]
    assert all(reported)
    on_paths: Counter[str] = Counter()
    for one in reported:
        on_paths.update(calls_on_paths(one))
    assert on_paths == seen
    functions = {one.name: one.calls for part in reported if part for one in part.functions}
    assert functions == {name: seen[name] for name in functions}
    judged = {path.functions[-1] for part in reported if part for path in part.paths if path.calls}
    assert functions.keys() == judged


def served(
    trace: MadeTrace, names: StreamNames, seen: Counter[str], parts: int, held: int
) -> list[ServerState]:
    """The parts of the server after all of a trace, of which each ``held``-th step is followed by a delta."""
    schema = schema_of(CONFIG.detector)
    identity = StreamIdentity(0, RANK, "node")
    analysis, unsent = StreamAnalysis(identity, CONFIG), Unsent(schema)
    agent = AgentStatistics("agent", 1, schema, parts=parts)
    servers = [ServerState(schema=schema, part=part, parts=parts) for part in range(parts)]
    steps = trace.steps()
    for step in steps:
        analysis.analyse(step, names)
        entries = step.events[step.events[:, EVENT_TYPE] == ENTRY]
        seen.update(names.timer_name(timer) for timer in entries[:, EVENT_TIMER].tolist())
        unsent.add([analysis.hand_out(step.step + 1)], ())
        if step.step % held and step is not steps[-1]:
            continue
        agent.name(0, names.timers.values())
        outgoing = agent.next_round([unsent.share(identity, names.timers)], {}, has_all=step is steps[-1])
        for part, delta in outgoing.deltas.items() if outgoing else ():
            servers[part].apply(delta)
        if outgoing:
            unsent.sent(outgoing.has_paths)
        if step.step == 2:
            servers = [taken_over(server, part, parts) for part, server in enumerate(servers)]
    return servers


def taken_over(server: ServerState, part: int, parts: int) -> ServerState:
    successor = ServerState(schema=schema_of(CONFIG.detector), part=part, parts=parts)
    successor.restore(server.save())
    return successor


def calls_on_paths(statistics: RunStatistics | None) -> Counter[str]:
    calls: Counter[str] = Counter()
    for path in statistics.paths if statistics else ():
        calls[path.functions[-1]] += path.all_calls
    return calls
