"""Agents' statistics and the server's state together, without a broker between them."""

from __future__ import annotations

import msgspec
import numpy as np
import pytest
import scipy.stats
from hypothesis import given
from hypothesis import strategies as st

from chimbuko.ad.analysis.streamstatistics import Learned
from chimbuko.core.calls.record import StepCount, StreamHealth
from chimbuko.core.statistics.model import Model
from chimbuko.core.statistics.moments import Moments
from chimbuko.core.statistics.schema import BUCKETED_PROFILE, PROFILE
from chimbuko.pserver.state.savedstate import SavedState
from chimbuko.pserver.state.serverstate import ServerState
from chimbuko.runtime.protocol.messages import ALL_EPOCHS, Acknowledgement, Delta
from chimbuko.runtime.protocol.telemetry import OTHERS, TIMER, TelemetryDelta
from tests.ad.tables import table_of
from tests.plainpython import examples
from tests.pserver.agents import Agent, Broker

EXAMPLES = examples(120)
EXCLUSIVE = PROFILE.slices["exclusive_us"]
BUCKETS = BUCKETED_PROFILE.slices["buckets"]
NAMES = ("main", "solve", "MPI_Send()", "norm")
Values = list[tuple[int, int]]
"""Function (index of its name) and runtime in µs."""


def timers_of(agent: int) -> dict[int, str]:
    """The same function has another id on each rank."""
    return {(number + agent) % len(NAMES) + 10 * agent: name for number, name in enumerate(NAMES)}


def learned_of(agent: int, values: Values) -> Learned:
    ids = {name: timer for timer, name in timers_of(agent).items()}
    timers = sorted({ids[NAMES[function]] for function, _ in values})
    table = PROFILE.empty(len(timers))
    for row, timer in zip(table, timers, strict=True):
        name = timers_of(agent)[timer]
        row[EXCLUSIVE] = Moments.of([us for function, us in values if NAMES[function] == name]).row()
    return Learned(np.array(timers, np.int64), table)


def health_of(rank: int, program: int = 0) -> StreamHealth:
    return StreamHealth(program, rank, "node1", "reading", 1, 1, 48, 1, 0, 0, {})


def make_agent(number: int, incarnation: int = 1) -> Agent:
    return Agent(f"agent{number}", incarnation)


def model_of(broker: Broker) -> dict[str, Moments]:
    return {name: Moments.from_row(row[EXCLUSIVE]) for name, row in broker.table(PROFILE).items()}


def assert_model(found: dict[str, Moments], values: Values) -> None:
    for number, name in enumerate(NAMES):
        exact = Moments.of([us for function, us in values if function == number])
        if exact.n or name in found:
            assert found[name].n == exact.n
            assert (found[name].mean, found[name].m2) == pytest.approx((exact.mean, exact.m2), abs=1e-6)


agents = st.integers(0, 3)
deliveries = st.lists(
    st.one_of(
        st.tuples(
            st.just("learn"), agents, st.lists(st.tuples(st.integers(0, 3), st.integers(0, 100)), max_size=5)
        ),
        st.tuples(st.sampled_from(("send", "deliver", "repeat", "publish")), agents, st.just([])),
    ),
    max_size=60,
)


@EXAMPLES
@given(deliveries)
def test_any_order_and_repetition_gives_the_same_model(sequence: list[tuple[str, int, Values]]) -> None:
    """Each agent's deltas arrive in order, some again; agents mix in any way."""
    agents = [make_agent(number) for number in range(4)]
    sent: list[list[Delta]] = [[] for _ in agents]
    delivered = [0] * 4
    server, broker, everything = ServerState(), Broker(), []
    for action, agent, values in sequence:
        if action == "learn":
            agents[agent].learn(0, timers_of(agent), learned_of(agent, values))
            everything += values
        elif action == "send":
            delta = agents[agent].next_delta()
            sent[agent] += [delta] if delta else []
        elif action == "deliver" and delivered[agent] < len(sent[agent]):
            assert server.apply(sent[agent][delivered[agent]])
            delivered[agent] += 1
        elif action == "repeat" and delivered[agent]:
            assert not server.apply(sent[agent][delivered[agent] // 2])
        elif action == "publish":
            published = broker.publish(server)
            for one in agents[:3] if published else ():
                one.take(published, broker)
    # Something new, so that there is a last update.
    agents[0].learn(0, timers_of(0), learned_of(0, [(0, 1)]))
    everything.append((0, 1))
    for number, one in enumerate(agents):
        one.statistics.name(0, timers_of(number).values())
        delta = one.next_delta({"": 0})
        for late in [*sent[number][delivered[number] :], *([delta] if delta else [])]:
            assert server.apply(late)
    published = broker.publish(server)
    assert published is not None
    # The last agent missed all other updates.
    for one in agents:
        one.take(published, broker)
    assert_model(model_of(broker), everything)
    for number, one in enumerate(agents):
        table = one.statistics.model.rows_for(0, timers_of(number))
        held = {name: Moments.from_row(table[t, EXCLUSIVE]) for t, name in timers_of(number).items()}
        assert_model(held, everything)
        assert server.acknowledgements().get(f"agent{number}", Acknowledgement(1, 0, 0)).merged >= 0


def test_a_function_has_one_number_whoever_mentions_it_first() -> None:
    server, broker = ServerState(), Broker()
    numbers: dict[tuple[int, str], int] = {}
    for number in (2, 0, 1):
        agent = make_agent(number)
        agent.learn(0, timers_of(number), learned_of(number, [(number, 5), (3, 5)]))
        agent.learn(1, timers_of(number), learned_of(number, [(3, 5)]))
        server.apply(agent.delta())
        published = broker.publish(server)
        assert published is not None
        for name in published.names:
            assert (name.program, name.name) not in numbers
            numbers[name.program, name.name] = name.number
    assert sorted(numbers.values()) == list(range(5))
    assert numbers == {(name.program, name.name): name.number for name in server.whole().names}


def test_an_update_has_only_what_changed_and_agents_fetch_only_what_they_use() -> None:
    server, broker, agent, other = ServerState(), Broker(), make_agent(0), make_agent(1)
    agent.learn(0, timers_of(0), learned_of(0, [(0, 5), (1, 5)]))
    other.learn(0, timers_of(1), learned_of(1, [(2, 5)]))
    for one in (agent, other):
        server.apply(one.delta())
    first = broker.publish(server)
    assert first is not None and first.update.version == 1
    assert (len(agent.take(first, broker)), len(other.take(first, broker))) == (2, 1)
    assert broker.publish(server) is None
    agent.learn(0, timers_of(0), learned_of(0, [(1, 7)]))
    server.apply(agent.delta())
    second = broker.publish(server)
    assert second is not None and second.update.version == 2
    assert ([number for number, _ in second.rows], second.names) == ([1], [])
    assert (agent.take(second, broker), other.take(second, broker)) == ([1], [])
    assert server.acknowledgements()["agent0"] == Acknowledgement(1, 2, 0)


def test_who_gets_the_whole_model_gets_only_news_after_it() -> None:
    server, broker, agent = ServerState(), Broker(), make_agent(0)
    agent.learn(0, timers_of(0), learned_of(0, [(0, 5), (1, 5)]))
    server.apply(agent.delta())
    whole = broker.take(server.whole())
    assert len(agent.take(whole, broker)) == 2
    agent.learn(0, timers_of(0), learned_of(0, [(1, 7), (2, 7)]))
    server.apply(agent.delta())
    published = broker.publish(server)
    assert published is not None and [name.name for name in published.names] == ["MPI_Send()"]
    assert (whole.update.version, published.update.version) == (1, 2)
    agent.take(published, broker)
    assert_model(model_of(broker), [(0, 5), (1, 5), (1, 7), (2, 7)])


def test_who_missed_an_update_fetches_all_that_it_uses() -> None:
    server, broker, agent = ServerState(), Broker(), make_agent(0)
    for runtime_us in (5, 6, 7):
        agent.learn(0, timers_of(0), learned_of(0, [(0, runtime_us), (1, runtime_us)]))
        server.apply(agent.delta())
        published = broker.publish(server)
        assert published is not None
    assert agent.take(published, broker) == [0, 1]


def test_what_is_sent_again_is_acknowledged_again() -> None:
    """The first acknowledgement may have been lost with the broker, and the agent waits for one."""
    server, agent = ServerState(), make_agent(0)
    agent.learn(0, timers_of(0), learned_of(0, [(0, 5)]))
    delta = agent.delta()
    assert server.apply(delta)
    assert server.acknowledgements() == {"agent0": Acknowledgement(1, 1, 0)}
    assert not server.apply(delta)
    assert server.acknowledgements() == {"agent0": Acknowledgement(1, 1, 0)}
    assert server.acknowledgements() == {}


def test_what_is_saved_is_reported_with_what_is_merged_next_or_with_the_next_save() -> None:
    server, agent = ServerState(), make_agent(0)
    for sequence in (1, 2):
        agent.learn(0, timers_of(0), learned_of(0, [(0, 5)]))
        server.apply(agent.delta())
        assert server.acknowledgements() == {"agent0": Acknowledgement(1, sequence, sequence - 1)}
        assert not server.is_saved()
        assert server.acknowledgements() == {}
    assert server.is_saved()
    assert server.acknowledgements() == {"agent0": Acknowledgement(1, 2, 2)}


def test_a_delta_waits_for_the_one_before_it_unless_that_is_gone() -> None:
    server, agent, broker = ServerState(), make_agent(0), Broker()
    deltas = []
    for runtime_us in (5, 6, 7):
        agent.learn(0, timers_of(0), learned_of(0, [(0, runtime_us)]))
        deltas.append(agent.delta())
    first, second, third = (msgspec.structs.replace(delta, since=1) for delta in deltas)
    assert server.apply(first)
    assert not server.apply(third)
    assert server.apply(second) and server.apply(third)
    broker.publish(server)
    assert (model_of(broker)["main"].n, server.lost_deltas) == (3, 0)
    agent.learn(0, timers_of(0), learned_of(0, [(0, 5)]))
    agent.delta()
    agent.learn(0, timers_of(0), learned_of(0, [(0, 5)]))
    assert server.apply(msgspec.structs.replace(agent.delta(), since=5))
    broker.publish(server)
    assert (model_of(broker)["main"].n, server.lost_deltas) == (4, 1)


def test_a_damaged_delta_does_not_stop_its_agent() -> None:
    server, agent = ServerState(), make_agent(0)
    agent.learn(0, timers_of(0), learned_of(0, [(0, 5)]))
    delta = agent.delta()
    agent.learn(0, timers_of(0), learned_of(0, [(0, 6)]))
    with pytest.raises(ValueError):
        server.apply(msgspec.structs.replace(delta, rows=np.array([99], np.int32).tobytes()))
    assert server.apply(agent.delta())


def test_a_restarted_agent_numbers_anew_and_its_predecessor_is_not_heard() -> None:
    server, broker, first, second = ServerState(), Broker(), make_agent(0, 10), make_agent(0, 20)
    first.learn(0, timers_of(0), learned_of(0, [(0, 5), (1, 6)]))
    server.apply(first.delta())
    first.learn(0, timers_of(0), learned_of(0, [(0, 500)]))
    late = first.delta()
    second.learn(0, timers_of(0), learned_of(0, [(1, 8)]))
    assert server.apply(second.delta())
    assert not server.apply(late)
    broker.publish(server)
    assert_model(model_of(broker), [(0, 5), (1, 6), (1, 8)])
    assert server.acknowledgements() == {"agent0": Acknowledgement(20, 1, 0)}


@EXAMPLES
@given(deliveries, st.integers(0, 60))
def test_a_server_that_takes_over_goes_on_as_if_nothing_had_happened(
    sequence: list[tuple[str, int, Values]], save_at: int
) -> None:
    """From what was saved at any time, with all deltas sent again."""
    agents = [make_agent(number) for number in range(4)]
    server, first, second = ServerState(server=1), Broker(), Broker()
    saved, sent = server.save(), []
    for number, (_, agent, values) in enumerate(sequence):
        agents[agent].learn(0, timers_of(agent), learned_of(agent, values))
        delta = agents[agent].next_delta()
        if delta is not None:
            sent.append(msgspec.structs.replace(delta, since=1))
            server.apply(sent[-1])
        if number == save_at:
            saved = msgspec.msgpack.decode(msgspec.msgpack.encode(server.save()), type=SavedState)
    successor = ServerState(server=2)
    successor.restore(saved)
    for delta in sent:
        successor.apply(delta)
    first.take(server.whole())
    second.take(successor.whole())
    assert first.names == second.names and first.rows == second.rows
    own, others = server.snapshot(), successor.snapshot()
    assert (own.functions, own.ranks, own.health) == (others.functions, others.ranks, others.health)


def test_live_rows_of_well_known_functions_are_published_seldom_unless_they_move() -> None:
    server, broker = ServerState(schema=BUCKETED_PROFILE), Broker()
    agent = Agent("agent0", 1, BUCKETED_PROFILE)
    published_at = []
    for second in range(60):
        row = table_of([100 if second < 50 else 200])
        row[:, [EXCLUSIVE.start, *range(BUCKETS.start, BUCKETS.stop)]] *= 30_000.0
        agent.learn(0, {0: "solve"}, Learned(np.array([0]), row))
        server.apply(agent.delta())
        if broker.publish(server, float(1 + second)) is not None:
            published_at.append(second)
    # 30,000 calls are enough; then each 20 s, and while it is found to take twice as long.
    assert published_at[:4] == [0, 20, 40, 50]
    assert len(published_at) <= 8


counts = st.lists(st.integers(0, 30), min_size=1, max_size=40)


@EXAMPLES
@given(st.lists(counts, min_size=1, max_size=3), st.integers(1, 10))
def test_ranks_are_described_by_all_their_steps(ranks: list[list[int]], per_delta: int) -> None:
    """Steps without anomalies count; steps that a restarted agent sends again do not count twice."""
    server = ServerState()
    frames = []
    for incarnation in (1, 2):
        agent = make_agent(0, incarnation)
        for rank, anomalies in enumerate(ranks):
            steps = [
                StepCount(0, rank, step, 10 * step, 10 * step + 9, 5, found, 2.0 * found)
                for step, found in enumerate(anomalies)
            ]
            for start in range(0, len(steps), per_delta):
                agent.count(steps[start : start + per_delta], health_of(rank))
                server.apply(agent.delta())
                frames.append(server.frame())
    shown = [step for frame in frames if frame for step in frame.steps]
    assert [(s.rank, s.step) for s in shown] == [
        (r, s) for r, found in enumerate(ranks) for s in range(len(found))
    ]
    latest = {one.rank: one for frame in frames if frame for one in frame.ranks}
    for rank, anomalies in enumerate(ranks):
        one = latest[rank]
        assert (one.steps, one.total, one.last_step) == (len(anomalies), sum(anomalies), len(anomalies) - 1)
        assert (one.minimum, one.maximum) == (min(anomalies), max(anomalies))
        assert one.mean == pytest.approx(np.mean(anomalies))
        assert one.stddev == pytest.approx(np.std(anomalies, ddof=1) if len(anomalies) > 1 else 0.0, abs=1e-9)
        assert one.severity_us == pytest.approx(2.0 * sum(anomalies))
        if len(set(anomalies)) > 1:
            assert one.skewness == pytest.approx(scipy.stats.skew(anomalies), rel=1e-6, abs=1e-6)
            assert one.kurtosis == pytest.approx(scipy.stats.kurtosis(anomalies), rel=1e-6, abs=1e-6)


def test_a_frame_has_only_what_changed_since_the_last() -> None:
    server, agent = ServerState(), make_agent(0)
    agent.learn(0, timers_of(0), learned_of(0, [(0, 5), (1, 5)]))
    for rank in (0, 1):
        agent.count([StepCount(0, rank, 0, 0, 9, 1, 0, 0.0)], health_of(rank))
    server.apply(agent.delta())
    first = server.frame()
    assert first is not None and first.tick == 1
    assert [one.name for one in first.functions] == ["main", "solve"]
    assert [one.rank for one in first.ranks] == [one.rank for one in first.health] == [0, 1]
    assert server.frame() is None
    agent.learn(0, timers_of(0), learned_of(0, [(1, 7)]))
    agent.count([StepCount(0, 1, 1, 10, 19, 1, 2, 3.0)], health_of(1))
    server.apply(agent.delta())
    second = server.frame()
    assert second is not None and second.tick == 2
    assert [(one.rank, one.steps, one.total) for one in second.ranks] == [(1, 2, 2)]
    assert [step.step for step in second.steps] == [1]
    # Functions without new anomalies are reported in each fourth frame.
    reported = [frame for frame in (server.frame() for _ in range(5)) if frame and frame.functions]
    ((function,),) = (frame.functions for frame in reported)
    assert (function.name, function.calls, function.exclusive_mean_us) == ("solve", 2, 6.0)
    last = server.frame(is_last=True)
    assert last is not None and last.is_last and last.steps == []
    assert [one.name for one in last.functions] == ["main", "solve"]
    assert [one.rank for one in last.ranks] == [one.rank for one in last.health] == [0, 1]


def test_a_function_with_new_anomalies_is_reported_at_once() -> None:
    server, agent = ServerState(), make_agent(0)
    for anomalies in (0.0, 2.0):
        learned = learned_of(0, [(0, 5), (1, 5)])
        learned.table[0, PROFILE.slices["anomalies"]] = anomalies
        learned.table[0, PROFILE.slices["severity_us"]] = 10 * anomalies
        learned.table[0, PROFILE.slices["highest_score"]] = 7.0 if anomalies else -np.inf
        agent.learn(0, timers_of(0), learned, rank=3)
        server.apply(agent.delta())
        frame = server.frame()
    assert frame is not None
    assert [(f.name, f.calls, f.anomalies, f.severity_us) for f in frame.functions] == [("main", 2, 2, 20.0)]


def test_a_single_stream_is_in_lockstep_too() -> None:
    assert [ServerState(lockstep_streams=number).is_lockstep for number in (0, 1)] == [False, True]


def test_an_epoch_is_closed_when_all_streams_have_closed_it() -> None:
    server, agent, other = ServerState(lockstep_streams=3), make_agent(0), make_agent(1)

    def closed_after(one: Agent, closed: dict[str, int]) -> int | None:
        server.apply(one.delta(closed))
        published = server.publish(0.0)
        return None if published is None else published.update.closed_epoch

    assert closed_after(agent, {"0:0": 5, "0:1": 7}) is None
    assert closed_after(other, {"0:2": 3}) == 3
    assert closed_after(other, {"0:2": 9}) == 5
    assert closed_after(agent, {"0:0": ALL_EPOCHS, "0:1": 8}) == 8
    assert closed_after(agent, {"0:1": ALL_EPOCHS}) == 9
    assert closed_after(other, {"0:2": ALL_EPOCHS}) == ALL_EPOCHS


def test_where_a_run_is_ended_early_nothing_waits_for_streams_that_never_came() -> None:
    server, agent = ServerState(lockstep_streams=2), make_agent(0)
    assert server.apply(agent.delta({"0:0": 1}))
    given_up = agent.delta({"0:0": ALL_EPOCHS})
    assert not server.apply(given_up)
    server.is_ending = True
    assert server.apply(given_up)


def test_nothing_learned_makes_no_delta() -> None:
    agent = make_agent(0)
    assert agent.next_delta() is None
    assert agent.statistics.round == 0
    assert agent.delta({"0:0": 1}).sequence == 1


BASE_VALUES = [(0, 5), (0, 6), (1, 70), (2, 8)]
"""What an earlier run knew."""


def base_of(values: Values, program: str = "heat") -> Model:
    functions = sorted({number for number, _ in values})
    rows = [[us for function, us in values if function == number] for number in functions]
    return Model("robust", "exclusive", [(program, NAMES[n]) for n in functions], table_of(*rows))


def bucketed(values: Values) -> Learned:
    """As a stream learns them, with counts by bucket; rows by the timers of agent 0."""
    model = base_of(values)
    timers = {name: timer for timer, name in timers_of(0).items()}
    rows = [timers[name] for _, name in model.functions]
    order = np.argsort(rows)
    return Learned(np.array(rows, np.int64)[order], model.table[order])


def assert_rows(broker: Broker, values: Values) -> None:
    """Counts exactly, moments nearly."""
    table = broker.table(BUCKETED_PROFILE)
    for number in {function for function, _ in values}:
        exact = table_of([us for function, us in values if function == number])[0]
        found = table[NAMES[number]]
        np.testing.assert_array_equal(found[BUCKETS], exact[BUCKETS])
        np.testing.assert_allclose(found[EXCLUSIVE], exact[EXCLUSIVE])


def test_the_model_is_what_was_known_before_and_what_the_run_has_learned() -> None:
    """Known from before as soon as the program has a number; and apart from the run's own statistics."""
    server, broker = ServerState(schema=BUCKETED_PROFILE, base=base_of(BASE_VALUES)), Broker()
    assert broker.publish(server) is None
    server.name_programs({3: "viz"})
    assert broker.publish(server) is None
    server.name_programs({3: "viz", 0: "heat"})
    assert broker.publish(server) is not None
    assert_rows(broker, BASE_VALUES)
    assert {name.program for name in broker.names} == {0}
    server.name_programs({3: "viz", 0: "heat"})
    assert broker.publish(server) is None
    agent = Agent("agent0", 1, BUCKETED_PROFILE)
    own = [(1, 90), (3, 7)]
    agent.learn(0, timers_of(0), bucketed(own))
    server.apply(agent.delta())
    second = broker.publish(server)
    assert second is not None and len(second.rows) == 2
    assert_rows(broker, BASE_VALUES + own)
    frame = server.frame(is_last=True)
    assert frame is not None
    assert {(f.name, f.calls, f.exclusive_mean_us) for f in frame.functions} == {
        ("solve", 1, 90.0),
        ("norm", 1, 7.0),
    }
    statistics = server.statistics(is_last=True)
    assert statistics is not None
    assert {model.name for model in statistics.models} == {"solve", "norm"}
    functions, table = server.learned()
    assert sorted(functions) == sorted(("heat", name) for name in NAMES)
    assert table[functions.index(("heat", "solve")), 0] == 2


def test_a_frozen_model_stays_as_it_was_loaded() -> None:
    server = ServerState(schema=BUCKETED_PROFILE, base=base_of(BASE_VALUES), is_frozen=True)
    broker = Broker()
    server.name_programs({0: "heat"})
    agent = Agent("agent0", 1, BUCKETED_PROFILE)
    agent.learn(0, timers_of(0), bucketed([(1, 90), (3, 7)]))
    server.apply(agent.delta())
    assert broker.publish(server) is not None
    assert_rows(broker, BASE_VALUES)
    frame = server.frame(is_last=True)
    assert frame is not None
    assert {(f.name, f.calls) for f in frame.functions} == {("solve", 1), ("norm", 1)}
    functions, table = server.learned()
    assert dict(zip(functions, table[:, 0].tolist(), strict=True)) == {
        ("heat", NAMES[number]): float(n) for number, n in ((0, 2), (1, 1), (2, 1))
    }


def test_what_only_an_earlier_run_knew_is_passed_on() -> None:
    """Its program does not appear in this run."""
    server = ServerState(schema=BUCKETED_PROFILE, base=base_of(BASE_VALUES, "another"))
    server.name_programs({0: "heat"})
    agent = Agent("agent0", 1, BUCKETED_PROFILE)
    agent.learn(0, timers_of(0), bucketed([(1, 90)]))
    server.apply(agent.delta())
    functions, table = server.learned()
    known = dict(zip(functions, table[:, 0].tolist(), strict=True))
    assert known[("heat", "solve")] == 1 and known[("another", "main")] == 2
    assert len(known) == 4
    broker = Broker()
    broker.publish(server)
    assert_rows(broker, [(1, 90)])


def test_a_model_of_nothing_can_be_saved() -> None:
    functions, table = ServerState(schema=BUCKETED_PROFILE).learned()
    assert functions == [] and table.shape == (0, BUCKETED_PROFILE.width)


def test_drift_is_reported_with_the_statistics() -> None:
    server = ServerState(schema=BUCKETED_PROFILE)
    agent = Agent("agent0", 1, BUCKETED_PROFILE)
    for runtime_us in (100, 150):
        row = table_of([runtime_us])
        row[:, BUCKETS] *= 3000.0
        agent.learn(0, {0: "solve"}, Learned(np.array([0]), row))
        server.apply(agent.delta())
        server.publish(float(runtime_us))
    frame = server.frame(is_last=True)
    assert frame is not None
    assert frame.functions[0].drift == pytest.approx(1.5, rel=0.1)


def test_timers_of_ranks_come_with_all_names_that_they_need() -> None:
    server = ServerState()
    server.name_programs({0: "heat"})
    agent = make_agent(0)
    agent.learn(0, timers_of(0), learned_of(0, [(1, 100), (3, 50)]), rank=2)
    agent.count([], health_of(2))
    delta = agent.delta()
    numbers = {name.name: name.number for name in delta.names}
    took = np.array([(0, 2, numbers[NAMES[3]], 4, 80.0, 50.0), (0, 2, OTHERS, 7, 0.0, 9.0)], TIMER)
    telemetry = TelemetryDelta(timers=took.tobytes())
    assert server.apply(msgspec.structs.replace(delta, telemetry=telemetry))
    found = server.timers()
    rows = np.frombuffer(found.rows, TIMER)
    assert {
        found.functions.get(row["function"], "(others)"): (row["calls"], row["exclusive_us"]) for row in rows
    } == {NAMES[3]: (4, 50.0), "(others)": (7, 9.0)}
    assert (found.programs, found.nodes) == ({0: "heat"}, [(0, 2, "node1")])


def test_in_lockstep_an_update_brings_its_rows_and_says_what_it_contains() -> None:
    server, broker, agent, other = ServerState(lockstep_streams=2), Broker(), make_agent(0), make_agent(1)
    for epoch, fetched in ((1, [0, 1]), (2, [])):
        agent.learn(0, timers_of(0), learned_of(0, [(0, 5), (1, 6)]))
        server.apply(agent.delta({"0:0": epoch}))
        # Acknowledged alone before the epoch is closed, it is named again with the update that contains it.
        assert "agent0" in server.acknowledgements()
        server.apply(other.delta({"0:1": epoch}))
        published = broker.publish(server)
        assert published is not None and published.update.table is not None
        assert {name: one.merged for name, one in server.all_acknowledgements().items()} == {
            "agent0": epoch,
            "agent1": epoch,
        }
        assert agent.take(published, broker) == fetched
        row = broker.table(PROFILE)[timers_of(0)[1]]
        assert (agent.statistics.model.rows_for(0, timers_of(0))[1] == row).all()
