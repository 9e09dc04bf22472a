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

OF_MEMORY = ("killed for memory", "memory filling", "memory growing")
"""Kinds of findings that cost no time, and may end a run."""


class NodeCost(msgspec.Struct, frozen=True):
    """Finding about a node that cost its ranks time, or memory."""

    node: str
    kind: str
    sentence: str
    cost_us: float
    """Time for which the ranks' threads waited for a core; 0 for one about memory."""
    begin_us: int


def node_costs(reader: RunReader) -> list[NodeCost]:
    """Return the findings about nodes that cost time, the most costly first, and those about memory.

    Raises
    ------
    StoreError
        The store cannot be read.
    """
    found: list[NodeCost] = []
    for node in sampled_nodes(reader):
        facts = node_facts(reader, node.name)
        if facts is not None:
            found += _costs(node.name, facts)
    return sorted(found, key=lambda one: (-one.cost_us, one.node))


def _costs(node: str, facts: NodeFacts) -> list[NodeCost]:
    found = [
        NodeCost(node, one.kind, f"On {node} {one.text}; {one.advice}.", 0.0, one.times[0][0])
        for one in facts.findings
        if one.kind in OF_MEMORY
    ]
    waiting = [one for one in facts.findings if one.kind in WAITING]
    waited_us = float(sum(rank.waited_us for rank in facts.ranks))
    if not waiting or waited_us <= 0.0:
        return found
    first, *further = waiting
    also = "".join(f" Also, {one.text}." for one in further)
    sentence = (
        f"On {node} {first.text}: its threads waited {duration(waited_us)} for a core in all; "
        f"{first.advice}.{also}"
    )
    return [NodeCost(node, first.kind, sentence, waited_us, first.times[0][0]), *found]
