"""Findings about nodes with what they cost: they stand beside the incidents."""

from __future__ import annotations

import msgspec

from chimbuko.causes.wording import duration
from chimbuko.provenance.nodes.nodelist import NodeFacts, node_facts, sampled_nodes
from chimbuko.provenance.query.runreader import RunReader

WAITING = ("throttled", "oversubscribed", "analysis beside workers", "foreign load")
"""Kinds of findings by which threads wait for cores. Of several of one node the waits count for the one that
lasted longest, and of those that lasted as long for that which took most.
"""


class NodeCost(msgspec.Struct, frozen=True):
    """Finding about a node that cost its ranks time."""

    node: str
    kind: str
    sentence: str
    cost_us: float
    """Time for which the ranks' threads waited for a core."""
    begin_us: int


def node_costs(reader: RunReader) -> list[NodeCost]:
    """Return the findings about nodes that cost time, the most costly first.

    Raises
    ------
    StoreError
        The store cannot be read.
    """
    found = []
    for node in sampled_nodes(reader):
        facts = node_facts(reader, node.name)
        if facts is not None and (cost := _cost(node.name, facts)) is not None:
            found.append(cost)
    return sorted(found, key=lambda one: (-one.cost_us, one.node))


def _cost(node: str, facts: NodeFacts) -> NodeCost | None:
    waiting = [one for one in facts.findings if one.kind in WAITING]
    waited_us = float(sum(rank.waited_us for rank in facts.ranks))
    if not waiting or waited_us <= 0.0:
        return None
    first, *further = waiting
    also = "".join(f" Also, {one.text}." for one in further)
    sentence = (
        f"On {node} {first.text}: its threads waited {duration(waited_us)} for a core in all; "
        f"{first.advice}.{also}"
    )
    return NodeCost(node, first.kind, sentence, waited_us, first.times[0][0])
