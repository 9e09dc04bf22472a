"""Advice on where a run's analysis should run, from what agents reported and how busy their nodes were."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

import msgspec

from chimbuko.capture.trace.discovery import Transport
from chimbuko.core.errors import ConfigError
from chimbuko.plan.placingadvice import AgentAdvice, Measured, advise
from chimbuko.plan.placingcosts import usual
from chimbuko.provenance.query.nodelist import NodeRank, node_facts
from chimbuko.provenance.query.run import Provenance, open_run
from chimbuko.provenance.query.runreader import RunReader
from chimbuko.runtime.process.cores import core_numbers
from chimbuko.runtime.protocol.telemetry import AgentFigures, AgentLoad, reported_agents
from chimbuko.runtime.runs.directory import RunDirectory


def measured_nodes(provenance: Provenance, agents: Mapping[str, AgentFigures], most: int) -> list[Measured]:
    """Return measurements of at most ``most`` nodes: those whose agents have read most rows, in this order.

    Where a run has no samples of a node (``--no-node-samples``), this machine's cores are taken for the
    node's. Of a recorded trace the clock is its own: how fast it was read says nothing of its program.

    Raises
    ------
    StoreError
        The store cannot be read.
    """
    transport = provenance.run().transport
    by_node: dict[str, list[AgentFigures]] = {}
    for figures in agents.values():
        by_node.setdefault(figures.node, []).append(figures)
    order = sorted(by_node, key=lambda node: (-_rows(by_node[node]), node))[:most]
    if transport != Transport.RECORDED:
        return [_measured(provenance.reader, node, by_node[node], transport) for node in order]
    begin_us, end_us = provenance.steps.time_range() or (0, 0)
    trace_s = (end_us - begin_us) / 1e6
    return [_recorded(node, by_node[node], trace_s) for node in order if trace_s > 0]


def on_trace_clock(loads: Sequence[AgentLoad], trace_s: float) -> list[AgentLoad]:
    """Return the loads of a recorded trace of ``trace_s`` seconds as they come while the program goes on.

    Each interval gets the share of the seconds that it has of the steps. An agent that follows a program
    takes CPU time for each second, too, as is usual.
    """
    steps = sum(load.steps for load in loads)
    seconds = [trace_s * load.steps / steps for load in loads]
    return [
        msgspec.structs.replace(load, seconds=own_s, cpu_s=load.cpu_s + usual().cpu_s.second * own_s)
        for load, own_s in zip(loads, seconds, strict=True)
    ]


def advices(run: RunDirectory, most: int) -> list[AgentAdvice]:
    """Return the placement of the analysis that would have been best for a run that has ended, by node.

    Raises
    ------
    ChimbukoError
        The run's folder or its store cannot be read, or it has not shown enough.
    """
    try:
        agents = reported_agents(run.read_report())
    except (OSError, msgspec.MsgspecError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise ConfigError(
            f"{run.path}: it has left no report, so it is not known what its agents used ({reason})"
        ) from error
    with open_run(run) as provenance:
        nodes = measured_nodes(provenance, agents, most)
    if not nodes:
        raise ConfigError(f"{run.path}: no agent has reported what it uses beside a program that goes on")
    return [advise(node) for node in nodes]


def advised_cores(run: RunDirectory) -> frozenset[int]:
    """Return the cores of the busiest node on which the analysis had best run; empty for all cores.

    Raises
    ------
    ChimbukoError
        The run cannot be read, or has not shown enough.
    """
    (advice,) = advices(run, 1)
    advice.check_certain()
    return frozenset(core_numbers(advice.cores)) if advice.cores else frozenset()


def _rows(agents: list[AgentFigures]) -> int:
    return sum(load.rows for figures in agents for load in figures.loads)


def _measured(reader: RunReader, node: str, agents: list[AgentFigures], transport: str) -> Measured:
    loads = tuple(tuple(figures.loads) for figures in agents)
    facts = node_facts(reader, node)
    if facts is None or not facts.cores_us:
        return Measured(node, loads, tuple(sorted(os.sched_getaffinity(0))), 0.0, transport)
    busy = facts.own_us / (facts.cores_us / facts.cores)
    return Measured(node, loads, tuple(range(facts.cores)), busy, transport, _bound(facts.ranks))


def _recorded(node: str, agents: Sequence[AgentFigures], trace_s: float) -> Measured:
    cores = tuple(sorted(os.sched_getaffinity(0)))
    loads = tuple(tuple(on_trace_clock(figures.loads, trace_s)) for figures in agents)
    return Measured(node, loads, cores, 0.0, Transport.RECORDED, is_bare=True)


def _bound(ranks: list[NodeRank]) -> frozenset[int]:
    """Return the cores of all ranks together."""
    return frozenset().union(*(core_numbers(rank.cpus) for rank in ranks if rank.cpus))
