"""Grid of a run that goes on, which pages read while it grows."""

from __future__ import annotations

import threading
from bisect import bisect_left
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import replace

from msgspec import structs

from chimbuko.core.arrays import RankKey
from chimbuko.core.errors import ChimbukoError
from chimbuko.provenance.query.run import Provenance
from chimbuko.runtime.protocol.messages import Frame
from chimbuko.viz.live.grid import (
    MOST_COLUMNS,
    Grid,
    GridUpdate,
    Grouping,
    Picture,
    ShownGrid,
    ranks_per_node,
)
from chimbuko.viz.live.gridreading import Piece, read_piece, read_stored, width_for, width_of
from chimbuko.viz.live.totals import Totals


class LiveGrid:
    """Grid of all ranks and steps, for any thread.

    It is no value that is replaced, as all else that pages read: of 10,000 ranks a copy has 20 MB.
    """

    def __init__(self, provenance: Provenance, totals: Totals) -> None:
        self._provenance = provenance
        self._grid = Grid()
        self._totals = totals
        self._has_read = False
        self._nodes: dict[RankKey, str] = {}
        self._ranks_per_node = 1
        self._ranks_placed = 0
        self._lock = threading.Lock()
        self._reading = threading.Lock()
        """Lock held while the grid is read from the store for the first time."""

    def follow(self, totals: Totals) -> None:
        """Take the totals as they are from now on: they say which ranks there are, and which are silent."""
        with self._lock:
            self._totals = totals

    def add_frames(self, frames: Iterable[Frame]) -> None:
        """Add the steps in new frames."""
        with self._lock:
            for frame in frames:
                self._grid.add_steps(frame.steps)

    def changes(self) -> GridUpdate | None:
        """Return the changes since the last call; None if there are none."""
        with self._lock:
            self._name_ranks()
            return self._grid.changes()

    def begin(self) -> None:
        """Read the grid from the store; if that fails, the next reader of the grid tries again."""
        with suppress(ChimbukoError):
            self._read_once()

    def read(self, since: int) -> None:
        """Add the steps from ``since`` on that are in the store, where those before have been read."""
        if self._has_read:
            self._read(since)

    def shown(self, wanted: Piece) -> ShownGrid:
        """Return the grid, or a piece of it; finer pieces than are kept are read from the store.

        Raises
        ------
        StoreError
            The store cannot be read.
        """
        self._read_once()
        if wanted.show != "worst":
            wanted = replace(wanted, grouping=self._of_nodes(wanted.grouping))
        with self._lock:
            self._name_ranks()
            totals, ranks, layout = self._totals, self._grid.ranks, self._grid.layout
            last_step = totals.sums.last_step or 0
            is_kept = width_of(wanted, len(ranks), last_step) >= self._grid.steps_per_column
            if is_kept:
                picture = self._grid.picture(
                    wanted.places, wanted.steps, wanted.grouping, wanted.columns, wanted.show
                )
        if not is_kept:
            picture = read_piece(self._provenance, ranks, totals.recent, wanted, last_step)
        silent = [(bisect_left(ranks, rank), rank, silence) for rank, silence in totals.sums.silent.items()]
        return ShownGrid(totals.version, layout, picture, silent, self._names(picture, ranks))

    def _of_nodes(self, grouping: Grouping) -> Grouping:
        """Return the grouping with rows of whole nodes; the store says where new ranks are."""
        with self._lock:
            self._name_ranks()
            ranks = self._grid.ranks
        if self._ranks_placed < len(ranks):
            self._nodes = self._provenance.reader.names.nodes_of_ranks()
            self._ranks_per_node = ranks_per_node(ranks, self._nodes)
            self._ranks_placed = len(ranks)
        return structs.replace(grouping, ranks_per_node=self._ranks_per_node)

    def _names(self, picture: Picture, ranks: list[RankKey]) -> list[str]:
        """Return the nodes of each row, where rows are of nodes; else an empty list."""
        per_node = self._ranks_per_node
        if per_node == 1 or picture.ranks_per_row % per_node:
            return []
        names = []
        for of in picture.programs:
            end = of.first_place + sum(count for _, count in of.ranks)
            for place in range(of.first_place, end, of.ranks_per_row):
                ends = ranks[place], ranks[min(place + of.ranks_per_row, end) - 1]
                first, last = (self._nodes.get(rank, "") for rank in ends)
                names.append(first if first == last else f"{first} to {last}")
        return names

    def _read_once(self) -> None:
        with self._reading:
            if not self._has_read:
                self._read(0)
                self._has_read = True

    def _read(self, since: int) -> None:
        with self._lock:
            sums = self._totals.sums
            width = self._grid.steps_per_column
        last_step = sums.last_step
        if last_step is None:
            return
        width = max(width, width_for(0, last_step, MOST_COLUMNS))
        stored = read_stored(self._provenance, sums.ranks, (since, last_step), width)
        with self._lock:
            stored.add_to(self._grid)
            # New readers of the grid get it with this; pages that have it already are told to read it again.
            self._grid.forget_changes()

    def _name_ranks(self) -> None:
        """Tell the grid all ranks, as it also shows those that report no steps."""
        self._grid.name(self._totals.health)
        self._grid.name(self._totals.ranks)
        self._grid.note_silent(frozenset(self._totals.sums.silent))
