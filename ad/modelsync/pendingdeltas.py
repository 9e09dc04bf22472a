"""Deltas that the server has not saved yet: it may need them again. No I/O."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence

import msgspec

from chimbuko.runtime.protocol.messages import Acknowledgement, Delta

MOST_BYTES = 16 << 20
"""Maximum size of deltas kept for a server that does not save: several seconds of 300 epochs each; beyond it
what is learned stays with the streams.
"""

DeltaId = tuple[int, int]
"""Incarnation and sequence number of a delta."""


class PendingDeltas:
    """Deltas of an agent for one part of the server, in order, from the first that is not saved.

    Parameters
    ----------
    inherited
        Deltas of the agent's predecessor, where that died before they were acknowledged.
    """

    def __init__(self, inherited: Sequence[Delta] = ()) -> None:
        self._deltas: deque[Delta] = deque(inherited)
        self._size_bytes = sum(map(_size_bytes, self._deltas))
        self._incarnations = {delta.incarnation for delta in inherited}
        """Incarnations of the inherited deltas, and our own."""
        self.merged: DeltaId = (-1, 0)
        """Last delta that the server has merged."""

    def __len__(self) -> int:
        return len(self._deltas)

    @property
    def is_full(self) -> bool:
        """Whether there is no room for more deltas until the server saves."""
        return self._size_bytes > MOST_BYTES

    @property
    def merged_sequence(self) -> int:
        """Sequence number of the last merged delta; numbers of a predecessor are continued."""
        return self.sequence_of(*self.merged)

    def sequence_of(self, incarnation: int, sequence: int) -> int:
        """Return the sequence number, or 0 if the incarnation is an unrelated one."""
        return sequence if incarnation in self._incarnations else 0

    @property
    def is_waiting(self) -> bool:
        """Whether the last delta is not merged yet: the next one has to wait for it."""
        return bool(self._deltas) and not self.is_merged(self._deltas[-1])

    def is_merged(self, delta: Delta) -> bool:
        """Return whether the server has merged a delta."""
        return _place(delta) <= self.merged

    def add(self, delta: Delta) -> Delta:
        """Add a delta; return it as it is to be sent."""
        self._deltas.append(delta)
        self._incarnations.add(delta.incarnation)
        self._size_bytes += _size_bytes(delta)
        return msgspec.structs.replace(delta, since=self._deltas[0].sequence)

    def acknowledge(self, acknowledged: Acknowledgement) -> bool:
        """Note how far the server is; return False where it is behind its last state: it lost its memory, or
        part of it.
        """
        merged = acknowledged.incarnation, acknowledged.merged
        while self._deltas and _is_saved(self._deltas[0], acknowledged):
            self._size_bytes -= _size_bytes(self._deltas.popleft())
        has_kept = merged >= self.merged
        self.merged = merged
        return has_kept

    def all(self) -> list[Delta]:
        """Return all deltas, to be sent again; each says which is the first."""
        return [msgspec.structs.replace(delta, since=self._deltas[0].sequence) for delta in self._deltas]


class PendingRounds:
    """Deltas of an agent for all parts of the server; those of one round were learned together.

    Parameters
    ----------
    inherited
        Rounds of the agent's predecessor, each with its deltas by part.
    """

    def __init__(self, parts: int, inherited: Sequence[tuple[int, Mapping[int, Delta]]] = ()) -> None:
        self.parts = [
            PendingDeltas([deltas[part] for _, deltas in inherited if part in deltas])
            for part in range(parts)
        ]
        self._rounds = deque(
            (number, {part: delta.sequence for part, delta in deltas.items()}) for number, deltas in inherited
        )
        """Rounds that are not in the model yet, with the sequence number of the delta for each part."""
        self._contained = [0] * parts
        """Last delta, by part, that the rows of its model contain."""
        self.contained = 0
        """Last round whose deltas are in the models of all parts."""

    def __bool__(self) -> bool:
        return any(len(part) for part in self.parts)

    @property
    def is_full(self) -> bool:
        """Whether there is no room for more rounds until the server saves."""
        return any(part.is_full for part in self.parts)

    @property
    def is_waiting(self) -> bool:
        """Whether the last round is not merged yet: the next one has to wait for it."""
        return any(part.is_waiting for part in self.parts)

    def is_merged(self, deltas: Mapping[int, Delta]) -> bool:
        """Return whether all parts have merged theirs of a round."""
        return all(self.parts[part].is_merged(delta) for part, delta in deltas.items())

    def add(self, number: int, deltas: Mapping[int, Delta]) -> dict[int, list[Delta]]:
        """Add a round; return what is to be sent to each part."""
        self._rounds.append((number, {part: delta.sequence for part, delta in deltas.items()}))
        return {part: [self.parts[part].add(delta)] for part, delta in deltas.items()}

    def contain(self, part: int, sequence: int) -> None:
        """Note that the rows of a part's model contain all deltas up to this one."""
        self._contained[part] = max(self._contained[part], sequence)
        while self._rounds and self._is_contained(self._rounds[0][1]):
            self.contained, _ = self._rounds.popleft()

    def contained_by(self, part: int) -> int:
        """Return the last round whose deltas are all in one part's model."""
        found = self.contained
        for number, sequences in self._rounds:
            if sequences.get(part, 0) > self._contained[part]:
                break
            found = number
        return found

    def all(self) -> dict[int, list[Delta]]:
        """Return all deltas by part, to be sent again."""
        return {number: part.all() for number, part in enumerate(self.parts) if len(part)}

    def _is_contained(self, sequences: Mapping[int, int]) -> bool:
        return all(self._contained[part] >= sequence for part, sequence in sequences.items())


def _is_saved(delta: Delta, acknowledged: Acknowledgement) -> bool:
    return delta.incarnation <= acknowledged.incarnation and delta.sequence <= acknowledged.saved


def _size_bytes(delta: Delta) -> int:
    """Return about how much memory a delta takes."""
    table = delta.table
    return 1000 + len(delta.rows) + len(table.narrow) + len(table.cells) + len(table.values)


def _place(delta: Delta) -> DeltaId:
    return delta.incarnation, delta.sequence
