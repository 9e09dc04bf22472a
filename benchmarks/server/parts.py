"""What each part of a parameter server computes for the same load, by the number of parts.

Run: python -m benchmarks.server.parts [--seconds S] [--rounds R]

Messages of 250 simulated nodes of 40 ranks, one of each a second, are made beforehand and divided among the
parts as agents divide them. Each part then takes its share in this process: it decodes and merges each
message, and makes what it publishes to agents, dashboards and store, encoded. The broker is left out: what it
takes is in ``benchmarks.server``.
"""

from __future__ import annotations

import argparse
import statistics
from dataclasses import dataclass

import msgspec
import numpy as np

from benchmarks.measuring import cpu_seconds, table
from benchmarks.server.load import LOADS, Seconds
from benchmarks.server.measure import make_agents
from chimbuko.ad.modelsync.agentstatistics import cut_ranks, cut_telemetry
from chimbuko.core.statistics.schema import BUCKETED_PROFILE, TableSchema
from chimbuko.pserver.state.serverstate import ServerState
from chimbuko.runtime.protocol.messages import Delta
from chimbuko.runtime.protocol.partition import part_of_function

PARTS = (1, 2, 4)
KINDS = 8
FRAMES_PER_S = 4
_encoder = msgspec.msgpack.Encoder()
_deltas = msgspec.msgpack.Decoder(Delta)

Second = list[list[bytes]]
"""Messages of one second, by part."""


@dataclass(frozen=True)
class Share:
    """What one part did."""

    messages: int
    cpu_s: float


class Divider:
    """Divides whole deltas of agents among parts."""

    def __init__(self, schema: TableSchema, parts: int) -> None:
        self._schema = schema
        self._parts = parts
        self._part_of: dict[str, list[int]] = {}
        self._sequences: dict[str, list[int]] = {}

    def divided(self, whole: Delta) -> dict[int, Delta]:
        """By part; names go to each, before anything else does."""
        parts = self._parts
        part_of = self._part_of.setdefault(whole.agent, [])
        part_of += [part_of_function(name.program, name.name, parts) for name in whole.names]
        sequences = self._sequences.setdefault(whole.agent, [0] * parts)
        rows = np.frombuffer(whole.rows, np.int32)
        cells = self._schema.unpack(whole.table)
        owners = np.array(part_of, np.int32)
        found = {}
        cut = zip(
            cut_telemetry(whole.telemetry, whole.agent, owners, parts),
            cut_ranks(whole.steps, parts),
            cut_ranks(whole.health, parts),
            strict=True,
        )
        for part, (telemetry, steps, health) in enumerate(cut):
            is_own = owners[rows] == part
            if not (whole.names or is_own.any() or steps or telemetry.flagged or telemetry.paces):
                continue
            sequences[part] += 1
            found[part] = msgspec.structs.replace(
                whole,
                sequence=sequences[part],
                since=sequences[part],
                rows=rows[is_own].tobytes(),
                table=self._schema.pack(cells[is_own]),
                steps=steps,
                health=health,
                telemetry=telemetry,
            )
        return found


def messages(seconds: int, parts: int) -> list[Second]:
    """What the agents send, divided."""
    load, schema = LOADS["nodes"], BUCKETED_PROFILE
    drawn = Seconds(load, schema, KINDS)
    agents = make_agents(load, drawn, schema, True)
    divider = Divider(schema, parts)
    made = []
    for turn in range(seconds):
        second: Second = [[] for _ in range(parts)]
        for agent in agents:
            encoded = agent.next_delta(turn)
            assert encoded is not None
            for part, delta in divider.divided(_deltas.decode(encoded.encoded)).items():
                second[part].append(_encoder.encode(delta))
        made.append(second)
    return made


def served(made: list[Second], part: int, parts: int) -> ServerState:
    """One part's state after all messages."""
    state = ServerState(schema=BUCKETED_PROFILE, part=part, parts=parts)
    state.name_programs({number: f"program{number}" for number in range(LOADS["nodes"].programs)})
    for number, second in enumerate(made):
        own = second[part]
        for frame in range(FRAMES_PER_S):
            for encoded in own[frame::FRAMES_PER_S]:
                state.apply(_deltas.decode(encoded))
            _encoder.encode(state.acknowledgements())
            published = state.publish(number + frame / FRAMES_PER_S)
            if published is not None:
                _encoder.encode(published.update)
                _encoder.encode(published.rows)
            _encoder.encode(state.frame())
        _encoder.encode(state.statistics())
    return state


def measured(seconds: int, parts: int) -> list[Share]:
    """What each part did."""
    made = messages(seconds, parts)
    shares = []
    for part in range(parts):
        count = sum(len(second[part]) for second in made)
        shares.append(Share(count, cpu_seconds(lambda part=part: served(made, part, parts))))  # type: ignore[misc]
    return shares


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=int, default=30)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    load = LOADS["nodes"]
    # The first one compiles.
    measured(2, 1)
    rounds = [{parts: measured(options.seconds, parts) for parts in PARTS} for _ in range(options.rounds)]
    rows = []
    for parts in PARTS:
        fullest = statistics.median(max(one.cpu_s for one in shares[parts]) for shares in rounds)
        whole = statistics.median(sum(one.cpu_s for one in shares[parts]) for shares in rounds)
        alone = statistics.median(shares[PARTS[0]][0].cpu_s for shares in rounds)
        counts = [one.messages for one in rounds[0][parts]]
        cores = fullest / options.seconds
        rows.append(
            (
                str(parts),
                f"{sum(counts) / options.seconds:,.0f}",
                f"{1e6 * whole / sum(counts):,.0f}",
                f"{whole / options.seconds:.3f}",
                f"{cores:.3f}",
                f"{fullest / alone:.2f}",
                f"{load.ranks / cores:,.0f}",
            )
        )
    print(f"{load.name}, one message of each agent a second\n")
    heads = (
        *("parts", "messages/s", "µs/message", "cores, all", "cores, fullest part"),
        *("of one alone", "ranks that fill it"),
    )
    print(table(heads, rows))


if __name__ == "__main__":
    main()
