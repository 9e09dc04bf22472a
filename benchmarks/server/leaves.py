"""What a leaf server takes for each message of an agent, and the parameter server with and without it.

Run: python -m benchmarks.server.leaves [--nodes N] [--ranks N] [--seconds S]

Simulated agents as in ``benchmarks.server``, one message of each in a second; CPU time of the pure cores,
with decoding and encoding, in one process.
"""

from __future__ import annotations

import argparse
import time

import msgspec

from benchmarks.measuring import table
from benchmarks.server.load import Load, Seconds
from benchmarks.server.measure import KINDS, make_agents
from chimbuko.core.config import AnalysisConfig
from chimbuko.core.statistics.schema import schema_of
from chimbuko.pserver.state.leafstate import LeafState
from chimbuko.pserver.state.serverstate import ServerState
from chimbuko.runtime.protocol.messages import Acknowledgement, Delta

ROUNDS_PER_S = 10
"""Deltas that a leaf server sends in a second at most."""
WARM_S = 5
"""Seconds until functions are known well, and most of what follows is held back."""

decode = msgspec.msgpack.Decoder(Delta).decode
encode = msgspec.msgpack.Encoder().encode


class Clocked:
    """CPU time of what is done within it."""

    def __init__(self) -> None:
        self.cpu_s = 0.0

    def __enter__(self) -> None:
        self._began_s = time.process_time()

    def __exit__(self, *exception: object) -> None:
        self.cpu_s += time.process_time() - self._began_s


def measure(load: Load, seconds: int) -> list[tuple[str, str]]:
    """Return each part with its CPU time in µs for one message of an agent."""
    schema = schema_of(AnalysisConfig().detector)
    agents = make_agents(load, Seconds(load, schema, KINDS[True]), schema, are_few_real=True)
    leaf = LeafState("leaf 1", 1, schema)
    direct, above = (ServerState(schema=schema) for _ in range(2))
    programs = {number: f"program{number}" for number in range(load.programs)}
    for server in (direct, above):
        server.name_programs(programs)
    above.apply(leaf.greeting())
    clocks = {name: Clocked() for name in ("direct", "leaf", "above")}
    messages = 0
    for turn in range(seconds):
        if turn == WARM_S:
            messages = 0
            clocks = {name: Clocked() for name in clocks}
        for first in range(ROUNDS_PER_S):
            sent = [one.next_delta(turn) for one in agents[first::ROUNDS_PER_S]]
            payloads = [one.encoded for one in sent if one is not None]
            messages += len(payloads)
            with clocks["direct"]:
                for payload in payloads:
                    direct.apply(decode(payload))
            with clocks["leaf"]:
                for payload in payloads:
                    leaf.apply(decode(payload))
                merged = leaf.next_delta()
                whole = encode(merged)
            with clocks["above"]:
                above.apply(decode(whole))
            assert merged is not None
            with clocks["leaf"]:
                leaf.acknowledge(Acknowledgement(1, merged.sequence, merged.sequence))
        for server in (direct, above):
            server.frame()
            server.publish(float(turn))
    names = {
        "direct": "parameter server, without leaf servers",
        "leaf": "leaf server",
        "above": "parameter server, below it leaf servers",
    }
    return [(names[name], f"{1e6 * clock.cpu_s / messages:.1f}") for name, clock in clocks.items()]


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--nodes", type=int, default=250, help="of one leaf server")
    parser.add_argument("--ranks", type=int, default=8, help="of each node")
    parser.add_argument("--seconds", type=int, default=25)
    options = parser.parse_args()
    load = Load(options.nodes, options.ranks)
    print(f"{load.name}, one message of each agent a second")
    print(table(("part", "µs for a message of an agent"), measure(load, options.seconds)))


if __name__ == "__main__":
    main()
