"""What each part of the parameter server gets of what an agent has to say. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Protocol, TypeVar

import msgspec
import numpy as np
import numpy.typing as npt

from chimbuko.core.arrays import Int32Array, Rows
from chimbuko.core.statistics.flaggedsteps import FLAGGED_STEPS
from chimbuko.runtime.protocol.partition import part_of_name, part_of_program, part_of_rank, parts_of_ranks
from chimbuko.runtime.protocol.telemetry import FLAGGED, PACE, TIMER, TRAFFIC, StreamCounters, TelemetryDelta


class OfRank(Protocol):
    """Anything that is said of a rank."""

    @property
    def program(self) -> int:
        """Its program's number."""
        ...

    @property
    def rank(self) -> int:
        """Its number in the program."""
        ...


Said = TypeVar("Said", bound=OfRank)


def cut_ranks(said: Sequence[Said], parts: int) -> list[list[Said]]:
    """By part, what is said of its ranks, in the same order."""
    if parts == 1:
        return [list(said)]
    found: list[list[Said]] = [[] for _ in range(parts)]
    for one in said:
        found[part_of_rank(one.program, one.rank, parts)].append(one)
    return found


def cut_telemetry(
    telemetry: TelemetryDelta, agent: str, part_of: Int32Array, parts: int
) -> list[TelemetryDelta]:
    """By part.

    Parameters
    ----------
    part_of
        i4[functions]: the part of each function, by the agent's numbers.
    """
    if parts == 1:
        return [telemetry]
    flagged, flagged_steps, traffic, paces, timers = (
        np.frombuffer(rows, dtype)
        for rows, dtype in (
            (telemetry.flagged, FLAGGED),
            (telemetry.flagged_steps, FLAGGED_STEPS),
            (telemetry.traffic, TRAFFIC),
            (telemetry.paces, PACE),
            (telemetry.timers, TIMER),
        )
    )
    by_function = part_of[flagged["function"]], part_of[flagged_steps["function"]]
    by_rank = tuple(parts_of_ranks(rows["program"], rows["rank"], parts) for rows in (traffic, timers))
    by_program = paces["program"] % parts
    counters = _cut_counters(telemetry.counters, parts)
    at_home = part_of_name(agent, parts)
    return [
        TelemetryDelta(
            flagged=_of(flagged, by_function[0], part),
            flagged_steps=_of(flagged_steps, by_function[1], part),
            traffic=_of(traffic, by_rank[0], part),
            paces=(of_part := _of(paces, by_program, part)),
            counters=counters[part],
            figures=telemetry.figures if part == at_home else None,
            paths=[paths for paths in telemetry.paths if part_of_program(paths.program, parts) == part],
            node=telemetry.node if of_part else "",
            timers=_of(timers, by_rank[1], part),
        )
        for part in range(parts)
    ]


def _of(rows: Rows, parts: npt.NDArray[np.int32], part: int) -> bytes:
    of_part: bytes = rows[parts == part].tobytes()
    return of_part


def _cut_counters(counters: Sequence[StreamCounters], parts: int) -> list[list[StreamCounters]]:
    """Those of one name together: they are added up over all ranks."""
    found: list[list[StreamCounters]] = [[] for _ in range(parts)]
    for stream in counters:
        by_part = defaultdict(list)
        for counter in stream.counters:
            by_part[part_of_name(counter.name, parts)].append(counter)
        for part, of_part in by_part.items():
            found[part].append(msgspec.structs.replace(stream, counters=of_part))
    return found
