"""Merging of what streams have learned: an agent's statistics beside the parameter server's state. No I/O."""

from __future__ import annotations

import time
from collections.abc import Mapping

from chimbuko.ad.offline.lockstep import Lockstep
from chimbuko.core.statistics.schema import PackedTable
from chimbuko.pserver.state.modelversions import Published
from chimbuko.pserver.state.serverstate import ServerState

PART = 0
"""Index of the only part of the parameter server."""


class Merging:
    """Exchange of statistics between streams in lockstep and the parameter server's state.

    Parameters
    ----------
    state
        State of a server that has begun, in lockstep.
    programs
        Names of programs by number.
    """

    def __init__(self, state: ServerState, lockstep: Lockstep, programs: Mapping[int, str]) -> None:
        self._state = state
        self._lockstep = lockstep
        self._rows: dict[int, PackedTable] = {}
        """Rows of the model as they were published last, by the server's numbers."""
        self._follow(state.whole())
        state.name_programs(programs)

    def merge(self) -> None:
        """Merge the epoch that all streams have closed: their model is there then."""
        is_merged = self._state.apply(self._lockstep.delta())
        published = self._state.publish(time.monotonic())
        assert is_merged and published is not None, "an epoch is merged once, and in order"
        self._follow(published)

    def finish(self) -> None:
        """Merge what is left when all streams are over."""
        delta = self._lockstep.last_delta()
        if delta is not None:
            self._state.apply(delta)

    def _follow(self, published: Published) -> None:
        model, update = self._lockstep.statistics.model, published.update
        self._rows |= dict(published.rows)
        if model.is_of_another_server(PART, update) or update.functions > model.known_functions(PART):
            model.learn_functions(PART, update.server, published.names)
        wanted = {number: self._rows.get(number) for number in model.wanted(PART, [update])}
        model.apply(PART, [update], wanted)
