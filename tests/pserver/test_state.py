"""Agents' statistics and the server's state together, without a broker between them."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.stats
from hypothesis import given, settings
from hypothesis import strategies as st

from chimbuko.ad.merging import AgentStatistics
from chimbuko.ad.statistics import Learned
from chimbuko.messages import ALL_EPOCHS, NO_EPOCH, Delta, ModelUpdate
from chimbuko.model import Model
from chimbuko.moments import Moments
from chimbuko.pserver.state import ServerState
from chimbuko.records import StepCount, StreamHealth
from chimbuko.tables import BUCKETED_PROFILE, PROFILE
from tests.ad.tables import table_of

EXAMPLES = settings(max_examples=120, deadline=None)
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


def make_agent(number: int, incarnation: int = 1) -> AgentStatistics:
    return AgentStatistics(f"agent{number}", incarnation, PROFILE)


def delta_of(agent: AgentStatistics, closed: dict[str, int] | None = None) -> Delta:
    delta = agent.next_delta(closed or {})
    assert delta is not None
    return delta


def model_of(update: ModelUpdate) -> dict[str, Moments]:
    names = {name.number: name.name for name in update.names}
    rows = np.frombuffer(update.rows, np.int64).tolist()
    table = PROFILE.unpack(update.table)
    return {names[number]: Moments.from_row(row[EXCLUSIVE]) for number, row in zip(rows, table, strict=True)}


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
    statistics = [make_agent(number) for number in range(4)]
    sent: list[list[Delta]] = [[] for _ in statistics]
    delivered = [0] * 4
    server, everything = ServerState(), []
    for action, agent, values in sequence:
        if action == "learn":
            statistics[agent].gather(0, timers_of(agent), learned_of(agent, values))
            everything += values
        elif action == "send":
            delta = statistics[agent].next_delta({})
            sent[agent] += [delta] if delta else []
        elif action == "deliver" and delivered[agent] < len(sent[agent]):
            assert server.apply(sent[agent][delivered[agent]])
            delivered[agent] += 1
        elif action == "repeat" and delivered[agent]:
            assert not server.apply(sent[agent][delivered[agent] // 2])
        elif action == "publish":
            update = server.model_update()
            for one in statistics[:3] if update else ():
                one.apply(update)
    for number, one in enumerate(statistics):
        delta = one.next_delta({})
        for late in [*sent[number][delivered[number] :], *([delta] if delta else [])]:
            assert server.apply(late)
    update = server.model_update()
    for one in statistics[:3] if update else ():
        one.apply(update)
    # The last agent missed all updates and takes the whole model.
    statistics[3].apply(server.model())
    assert_model(model_of(server.model()), everything)
    for number, one in enumerate(statistics):
        table = one.model_for(0, timers_of(number))
        held = {name: Moments.from_row(table[t, EXCLUSIVE]) for t, name in timers_of(number).items()}
        assert_model(held, everything)
        assert one.merged_sequence == one.next_sequence - 1


def test_a_function_has_one_number_whoever_mentions_it_first() -> None:
    server = ServerState()
    numbers: dict[tuple[int, str], int] = {}
    for number in (2, 0, 1):
        agent = make_agent(number)
        agent.gather(0, timers_of(number), learned_of(number, [(number, 5), (3, 5)]))
        agent.gather(1, timers_of(number), learned_of(number, [(3, 5)]))
        server.apply(delta_of(agent))
        update = server.model_update()
        assert update is not None
        for name in update.names:
            assert (name.program, name.name) not in numbers
            numbers[name.program, name.name] = name.number
    assert sorted(numbers.values()) == list(range(5))
    assert numbers == {(name.program, name.name): name.number for name in server.model().names}


def test_an_update_has_only_what_changed() -> None:
    server, agent = ServerState(), make_agent(0)
    agent.gather(0, timers_of(0), learned_of(0, [(0, 5), (1, 5)]))
    server.apply(delta_of(agent))
    assert server.model_update() is not None
    assert server.model_update() is None
    agent.gather(0, timers_of(0), learned_of(0, [(1, 7)]))
    server.apply(delta_of(agent))
    update = server.model_update()
    assert update is not None and update.version == 2
    assert (update.names, len(update.rows)) == ([], 8)
    assert update.merged == {"agent0": (1, 2)}


def test_what_is_sent_again_is_acknowledged_again() -> None:
    """The first acknowledgement may have been lost with the broker, and the agent waits for one."""
    server, agent = ServerState(), make_agent(0)
    agent.gather(0, timers_of(0), learned_of(0, [(0, 5)]))
    delta = delta_of(agent)
    assert server.apply(delta)
    assert server.model_update() is not None
    assert not server.apply(delta)
    again = server.model_update()
    assert again is not None and again.merged == {"agent0": (1, 1)}
    agent.apply(server.model())
    assert agent.merged_sequence == 1


def test_a_restarted_agent_numbers_anew_and_its_predecessor_is_not_heard() -> None:
    server, first, second = ServerState(), make_agent(0, 10), make_agent(0, 20)
    first.gather(0, timers_of(0), learned_of(0, [(0, 5), (1, 6)]))
    server.apply(delta_of(first))
    first.gather(0, timers_of(0), learned_of(0, [(0, 500)]))
    late = delta_of(first)
    second.gather(0, timers_of(0), learned_of(0, [(1, 8)]))
    assert server.apply(delta_of(second))
    assert not server.apply(late)
    assert_model(model_of(server.model()), [(0, 5), (1, 6), (1, 8)])
    first.apply(server.model())
    assert first.merged_sequence == 0


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
                agent.gather_counts(steps[start : start + per_delta], health_of(rank))
                server.apply(delta_of(agent))
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
    agent.gather(0, timers_of(0), learned_of(0, [(0, 5), (1, 5)]))
    for rank in (0, 1):
        agent.gather_counts([StepCount(0, rank, 0, 0, 9, 1, 0, 0.0)], health_of(rank))
    server.apply(delta_of(agent))
    first = server.frame()
    assert first is not None and first.tick == 1
    assert [one.name for one in first.functions] == ["main", "solve"]
    assert [one.rank for one in first.ranks] == [one.rank for one in first.health] == [0, 1]
    assert server.frame() is None
    agent.gather(0, timers_of(0), learned_of(0, [(1, 7)]))
    agent.gather_counts([StepCount(0, 1, 1, 10, 19, 1, 2, 3.0)], health_of(1))
    server.apply(delta_of(agent))
    second = server.frame()
    assert second is not None and second.tick == 2
    (function,) = second.functions
    assert (function.name, function.calls, function.exclusive_mean_us) == ("solve", 2, 6.0)
    assert [(one.rank, one.steps, one.total) for one in second.ranks] == [(1, 2, 2)]
    assert [step.step for step in second.steps] == [1]
    last = server.frame(is_last=True)
    assert last is not None and last.is_last and last.functions == []


def test_an_epoch_is_closed_when_all_streams_have_closed_it() -> None:
    server, agent, other = ServerState(lockstep_streams=3), make_agent(0), make_agent(1)

    def closed_after(one: AgentStatistics, closed: dict[str, int]) -> int:
        server.apply(delta_of(one, closed))
        update = server.model_update()
        assert update is not None
        return update.closed_epoch

    assert closed_after(agent, {"0:0": 5, "0:1": 7}) == NO_EPOCH
    assert closed_after(other, {"0:2": 3}) == 3
    assert closed_after(other, {"0:2": 9}) == 5
    assert closed_after(agent, {"0:0": ALL_EPOCHS, "0:1": 8}) == 8
    assert closed_after(agent, {"0:1": ALL_EPOCHS}) == 9
    assert closed_after(other, {"0:2": ALL_EPOCHS}) == ALL_EPOCHS


def test_nothing_gathered_makes_no_delta() -> None:
    agent = make_agent(0)
    assert agent.next_delta({}) is None
    assert agent.next_sequence == 1
    assert delta_of(agent, {"0:0": 1}).sequence == 1


def test_an_older_update_changes_nothing() -> None:
    server, agent = ServerState(), make_agent(0)
    agent.gather(0, timers_of(0), learned_of(0, [(0, 5)]))
    server.apply(delta_of(agent))
    older = server.model_update()
    agent.gather(0, timers_of(0), learned_of(0, [(0, 7)]))
    server.apply(delta_of(agent))
    assert older is not None and server.model_update() is not None
    agent.apply(server.model())
    agent.apply(older)
    timer = next(t for t, name in timers_of(0).items() if name == "main")
    assert agent.model_for(0, timers_of(0))[timer, 0] == 2


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


def assert_rows(update: ModelUpdate, values: Values) -> None:
    """Counts exactly, moments nearly."""
    names = {name.number: name.name for name in update.names}
    rows = [names[number] for number in np.frombuffer(update.rows, np.int64).tolist()]
    table = dict(zip(rows, BUCKETED_PROFILE.unpack(update.table), strict=True))
    for number in {function for function, _ in values}:
        exact = table_of([us for function, us in values if function == number])[0]
        found = table[NAMES[number]]
        np.testing.assert_array_equal(found[BUCKETS], exact[BUCKETS])
        np.testing.assert_allclose(found[EXCLUSIVE], exact[EXCLUSIVE])


def test_the_model_is_what_was_known_before_and_what_the_run_has_learned() -> None:
    """Known from before as soon as the program has a number; and apart from the run's own statistics."""
    server = ServerState(schema=BUCKETED_PROFILE, base=base_of(BASE_VALUES))
    assert server.model_update() is None
    server.name_programs({3: "viz"})
    assert server.model_update() is None
    server.name_programs({3: "viz", 0: "heat"})
    first = server.model_update()
    assert first is not None
    assert_rows(first, BASE_VALUES)
    assert {name.program for name in first.names} == {0}
    server.name_programs({3: "viz", 0: "heat"})
    assert server.model_update() is None
    agent = AgentStatistics("agent0", 1, BUCKETED_PROFILE)
    own = [(1, 90), (3, 7)]
    agent.gather(0, timers_of(0), bucketed(own))
    server.apply(delta_of(agent))
    second = server.model_update()
    assert second is not None and len(second.rows) == 2 * 8
    assert_rows(server.model(), BASE_VALUES + own)
    frame = server.frame()
    assert frame is not None
    assert {(f.name, f.calls, f.exclusive_mean_us) for f in frame.functions} == {
        ("solve", 1, 90.0),
        ("norm", 1, 7.0),
    }
    assert {model.name for model in frame.models} == {"solve"}
    functions, table = server.learned()
    assert sorted(functions) == sorted(("heat", name) for name in NAMES)
    assert table[functions.index(("heat", "solve")), 0] == 2


def test_a_frozen_model_stays_as_it_was_loaded() -> None:
    server = ServerState(schema=BUCKETED_PROFILE, base=base_of(BASE_VALUES), is_frozen=True)
    server.name_programs({0: "heat"})
    agent = AgentStatistics("agent0", 1, BUCKETED_PROFILE)
    agent.gather(0, timers_of(0), bucketed([(1, 90), (3, 7)]))
    server.apply(delta_of(agent))
    assert server.model_update() is not None
    assert_rows(server.model(), BASE_VALUES)
    frame = server.frame(is_last=True)
    assert frame is not None
    assert {(f.name, f.calls) for f in frame.functions} == {("solve", 1), ("norm", 1)}
    functions, table = server.learned()
    assert dict(zip(functions, table[:, 0].tolist(), strict=True)) == {
        **{("heat", NAMES[number]): float(n) for number, n in ((0, 2), (1, 1), (2, 1))},
        ("heat", "norm"): 0.0,
    }


def test_what_only_an_earlier_run_knew_is_passed_on() -> None:
    """Its program does not appear in this run."""
    server = ServerState(schema=BUCKETED_PROFILE, base=base_of(BASE_VALUES, "another"))
    server.name_programs({0: "heat"})
    agent = AgentStatistics("agent0", 1, BUCKETED_PROFILE)
    agent.gather(0, timers_of(0), bucketed([(1, 90)]))
    server.apply(delta_of(agent))
    functions, table = server.learned()
    known = dict(zip(functions, table[:, 0].tolist(), strict=True))
    assert known[("heat", "solve")] == 1 and known[("another", "main")] == 2
    assert len(known) == 4
    assert_rows(server.model(), [(1, 90)])


def test_a_model_of_nothing_can_be_saved() -> None:
    functions, table = ServerState(schema=BUCKETED_PROFILE).learned()
    assert functions == [] and table.shape == (0, BUCKETED_PROFILE.width)


def test_drift_is_told_with_the_statistics() -> None:
    server = ServerState(schema=BUCKETED_PROFILE)
    agent = AgentStatistics("agent0", 1, BUCKETED_PROFILE)
    for runtime_us in (100, 150):
        row = table_of([runtime_us])
        row[:, BUCKETS] *= 3000.0
        agent.gather(0, {0: "solve"}, Learned(np.array([0]), row))
        server.apply(delta_of(agent))
        server.model_update()
    frame = server.frame()
    assert frame is not None
    assert frame.functions[0].drift == pytest.approx(1.5, rel=0.1)
