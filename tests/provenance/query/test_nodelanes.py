"""What a node's page shows, out of stored samples: facts, findings with their times, lanes."""

from __future__ import annotations

import msgspec
import numpy as np
import pytest

from chimbuko.monitor.sampling.nodebatch import NodeFinding, NodePart, ThreadName, packed
from chimbuko.monitor.sampling.rows import CORE
from chimbuko.provenance.query.nodelanes import Lanes
from chimbuko.provenance.query.nodelist import node_costs, node_facts, sampled_nodes, thread_times
from chimbuko.provenance.query.run import Provenance
from chimbuko.provenance.write.writer import Writer
from tests.causes.flagged import at
from tests.causes.nodes import NODE_NAME, batch, names, thread, ticks

WAITED = NodeFinding("oversubscribed", "2 threads share 1 core", "give each its own")
PARTS = [NodePart(0, "Machine", 0, 0, "0-1", None), NodePart(1, "PU", 0, 0, "0", None)]


def core(cpu: int, begin_ms: float, end_ms: float, user: float, own: float, steal: float = 0) -> np.void:
    """A CORE row by shares of its time."""
    length_us = round(1000 * (end_ms - begin_ms))
    shares = (user, 0, 1 - user - steal, steal, own)
    return np.array([(at(begin_ms), length_us, cpu, *(round(length_us * s) for s in shares))], CORE)[0]


def test_facts_are_those_of_all_sums(writer: Writer, provenance: Provenance) -> None:
    own = [ThreadName(100, 100, "app", 0, 0, 0, "0-1"), ThreadName(100, 150, "helper", 0, 0, -1, "0-1")]
    rows = [thread(0, 0, 10_000, ran_us=4_000_000, waited_us=6_000_000, system_us=1_000_000)]
    later = [thread(0, 10_000, 20_000), thread(0, 10_000, 20_000, tid=150, ran_us=500_000)]
    cores = np.array([core(0, 0, 10_000, 0.5, 0.4), core(1, 0, 10_000, 0, 0)], CORE).tobytes()
    states = [(at(0), 10_000_000, 64, 7, 0, 0, 0, 0, 0, 0)]
    first = batch(
        rows, states=states, names=own, is_sum=True, findings=[WAITED], parts=PARTS, cores=cores, cost_us=5
    )
    # What is summed are rows of periods.
    sums = [
        msgspec.structs.replace(one, threads=one.looks, looks=b"")
        for one in (first, batch(later, names=own, is_sum=True, findings=[WAITED], cost_us=3))
    ]
    quiet = msgspec.structs.replace(sums[1], sequence=sums[1].sequence + 1, begin_us=at(20_000), findings=[])
    quiet = msgspec.structs.replace(quiet, end_us=at(30_000), threads=b"")
    writer.write_samples(map(packed, [*sums, quiet]))
    assert [one.name for one in sampled_nodes(provenance.reader)] == [NODE_NAME]
    facts = node_facts(provenance.reader, NODE_NAME)
    assert facts is not None and (facts.begin_us, facts.end_us) == (at(0), at(30_000))
    (rank,) = facts.ranks
    assert (rank.rank, rank.cpus, rank.threads, rank.length_us) == (0, "0-1", 2, 20_000_000)
    assert (rank.ran_us, rank.system_us, rank.waited_us) == (14_500_000, 1_000_000, 6_000_000)
    assert [(one.kind, one.times) for one in facts.findings] == [("oversubscribed", [(at(0), at(20_000))])]
    assert facts.parts == PARTS and facts.cores == 2
    assert (facts.cores_us, facts.busy_us, facts.own_us) == (20_000_000, 5_000_000, 4_000_000)
    assert (facts.memory_bytes, facts.least_available_bytes, facts.sample_us) == (64, 7, 11)
    assert thread_times(provenance.reader, NODE_NAME) == (20_000_000, 14_000_000, 6_000_000), (
        "of recorded ones"
    )
    assert node_facts(provenance.reader, "elsewhere") is None
    (cost,) = node_costs(provenance.reader)
    assert (cost.node, cost.kind, cost.cost_us, cost.begin_us) == (NODE_NAME, "oversubscribed", 6e6, at(0))
    assert cost.sentence == (
        f"On {NODE_NAME} 2 threads share 1 core: its threads waited 6 s for a core in all; give each its own."
    )


def test_the_waits_of_a_node_are_laid_to_who_took_most_and_the_others_are_named(
    writer: Writer, provenance: Provenance
) -> None:
    """Findings of a sum come with that first which took most of the cores."""
    foreign = NodeFinding("foreign load", "others take 80 % of core 0", "look who they are")
    low = NodeFinding("memory low", "no memory", "use less")
    for place, (found, first, then) in enumerate(
        [([low, foreign, WAITED], foreign, WAITED), ([WAITED, foreign, low], WAITED, foreign)]
    ):
        total = batch([], periods=[thread(0, 0, 10_000, waited_us=9_000_000)], is_sum=True, findings=found)
        total = msgspec.structs.replace(total, node=f"node{place}")
        writer.write_samples([packed(total)])
        (cost,) = (one for one in node_costs(provenance.reader) if one.node == f"node{place}")
        assert cost.kind == first.kind
        assert cost.sentence == (
            f"On node{place} {first.text}: its threads waited 9 s for a core in all; {first.advice}. "
            f"Also, {then.text}."
        )


def test_findings_about_memory_stand_behind_those_that_cost_time(
    writer: Writer, provenance: Provenance
) -> None:
    growing = NodeFinding("memory growing", "process 7 (app) took 615 MB", "look for what it keeps")
    periods = [thread(0, 0, 10_000, waited_us=9_000_000)]
    total = batch([], periods=periods, is_sum=True, findings=[growing, WAITED])
    writer.write_samples([packed(total)])
    first, second = node_costs(provenance.reader)
    assert first.kind == WAITED.kind and (second.kind, second.cost_us) == ("memory growing", 0.0)
    assert second.sentence == f"On {NODE_NAME} {growing.text}; {growing.advice}."


def test_lanes_are_of_the_finest_samples_that_cover_an_interval(
    writer: Writer, provenance: Provenance
) -> None:
    total = batch([], periods=[thread(0, 0, 10_000, ran_us=5_000_000)], is_sum=True)
    fine = batch(
        ticks(0, 2_000, 3_000, ran_us=0, waited_us=20_000),
        periods=[thread(0, 2_000, 3_000, ran_us=100_000, waited_us=700_000), thread(1, 2_000, 3_000)],
    )
    writer.write_samples(map(packed, [total, fine]))

    def shares(begin_ms: float, end_ms: float, columns: int) -> list[tuple[int, list[object], list[object]]]:
        lanes = Lanes(provenance.reader, NODE_NAME, at(begin_ms), at(end_ms), columns)
        return [(one.rank, one.user, one.waited) for one in lanes.threads(16, 0)[0]]

    assert shares(0, 10_000, 1) == [(0, [0.5], [0.0])]
    assert shares(1_000, 4_000, 3) == [
        (0, [0.5, 0.1, 0.5], [0.0, 0.7, 0.0]),
        (1, [None, 1.0, None], [None, 0.0, None]),
    ]
    assert (0, [0.0] * 4, [1.0] * 4) in shares(2_000, 2_400, 4)
    lanes = Lanes(provenance.reader, NODE_NAME, at(1_000), at(4_000), 3)
    page, total_threads = lanes.threads(1, 1)
    assert [one.rank for one in page] == [1] and total_threads == 2


def test_cores_say_who_used_them(writer: Writer, provenance: Provenance) -> None:
    rows = [
        core(0, 0, 10_000, 0.2, 0),
        core(1, 0, 10_000, 0.5, 0.3, steal=0.25),
        core(2, 0, 10_000, 0.1, 0.9),
    ]
    cores = np.array(rows, CORE).tobytes()
    writer.write_samples([packed(batch([thread(0, 0, 10_000)], names=names(1), is_sum=True, cores=cores))])
    found, total = Lanes(provenance.reader, NODE_NAME, at(0), at(10_000), 2).cores(16, 0)
    assert total == 3
    by_cpu = {one.cpu: (one.own[0], one.others[0], one.stolen[0]) for one in found}
    assert by_cpu == {1: (0.3, 0.2, 0.25), 2: (0.1, 0.0, 0.0), 0: (0.0, 0.2, 0.0)}
    assert [one.cpu for one in found] == [1, 2, 0], "those of the ranks first"
    assert found[0].busy_us == pytest.approx(7_500_000)
