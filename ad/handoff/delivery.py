"""Delivery of one spool to the store: what is under way and what has arrived. No broker."""

from __future__ import annotations

from pathlib import Path

from chimbuko.ad.handoff.segments import remove_acknowledged
from chimbuko.ad.handoff.spool import SpoolReader


class SpoolDelivery:
    """The agent's account of one spool.

    Parameters
    ----------
    key
        Under which the store acknowledges the spool's frames.
    folder
        The spool; it need not exist yet.
    """

    def __init__(self, key: str, folder: Path) -> None:
        self.key = key
        self.folder = folder
        self.acknowledged = 0
        """Last frame that is in the store."""
        self._reader = SpoolReader(folder)
        self._in_flight: dict[int, int] = {}

    @property
    def in_flight_bytes(self) -> int:
        """Size of the frames sent and not yet acknowledged."""
        return sum(self._in_flight.values())

    @property
    def is_waiting(self) -> bool:
        """Whether any frame is on its way."""
        return bool(self._in_flight)

    @property
    def is_delivered(self) -> bool:
        """Whether all that is in the spool is also in the store."""
        return not self._in_flight and self._reader.is_drained

    def take(self, most_bytes: int) -> list[tuple[int, bytes]]:
        """Next frames to send, as (sequence, encoded ``RecordBatch``), until they exceed ``most_bytes``."""
        frames = self._reader.read(most_bytes)
        self._in_flight |= {sequence: len(frame) for sequence, frame in frames}
        return frames

    def arrived(self, sequence: int) -> None:
        """All frames up to ``sequence`` are in the store."""
        if sequence <= self.acknowledged:
            return
        self.acknowledged = sequence
        self._in_flight = {sent: size for sent, size in self._in_flight.items() if sent > sequence}
        remove_acknowledged(self.folder, sequence)

    def send_again(self) -> None:
        """What was on its way may be lost."""
        self._in_flight.clear()
        self._reader.rewind(self.acknowledged)
